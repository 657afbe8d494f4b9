// The seat plan on a canvas.
//
// The house is painted into an offscreen layer a little larger than the view.
// Panning copies the layer; zooming stretches it until a sharp one is painted
// (at once when painting is quick, else when the hand rests); a seat that
// changes is repainted in its own small rectangle. Frames are drawn only when
// something changed.

import { between, Camera } from './camera.js';
import { gestures } from './gestures.js';
import { rowLabels, sectionLabels } from './labels.js';
import { levelOf, Paint, tail, themeOf } from './paint.js';

const MARGIN = 0.25; // of the view, on each side of the layer
const QUICK_MS = 12; // a layer that paints faster than this is painted while zooming
const REST_MS = 110;
const PULSE_MS = 700;
const READABLE_PX = 11; // seat radius that a finger can hit and an eye can read

/** SeatMap draws and moves; what a seat means is decided by its owner's hooks. */
export class SeatMap {
  focused = -1;
  byKeys = false; // the seat under the keyboard is framed only while keys are used
  frames = 0;
  layerMs = 0;
  #layer = document.createElement('canvas');
  #rect = null; // what the layer shows: {x, y, w, h, scale, level}
  #stale = true; // the layer must be painted anew
  #changed = new Set(); // seats to repaint in the layer
  #pulses = []; // {i, at}
  #raf = 0;
  #told = ''; // the level that the owner last heard of
  #rest = 0;
  #rested = ''; // the view for which a sharp layer is on its way
  #move = null; // the running camera animation
  #dpr = 1;
  #still = matchMedia('(prefers-reduced-motion: reduce)');

  /**
   * hooks: onActivate(i), onFocus(i), onEdge(), onHover(i, px, py), onLevel(level), onRestyle(), own() and selected()
   * (iterables of indices), words() ({free: n => text}).
   */
  constructor({ canvas, house, store, hooks }) {
    Object.assign(this, { canvas, house, store, hooks });
    this.ctx = canvas.getContext('2d');
    this.cam = new Camera(house.bounds, house.usualR);
    this.restyle();
    new ResizeObserver(() => this.#resize()).observe(canvas);
    this.#resize();
    this.cam.set(this.cam.fitted());
    this.fitted = true;
    gestures(this);
    for (const query of ['(prefers-color-scheme: dark)', '(prefers-contrast: more)']) {
      matchMedia(query).addEventListener('change', () => this.restyle());
    }
    store.listen((ids) => this.#apply(ids));
  }

  /** The colour that stands for a category. */
  color(category) {
    return this.paint.theme.free[category] ?? '';
  }

  /** Reads the colours again. */
  restyle() {
    this.paint = new Paint(this.house, this.store, themeOf(this.canvas, this.house));
    this.hooks.onRestyle?.();
    this.refresh();
  }

  /** Paints everything anew. */
  refresh() {
    this.#stale = true;
    this.dirty();
  }

  /** Asks for a frame. */
  dirty = () => {
    this.#raf ||= requestAnimationFrame((now) => this.#frame(now));
  };

  get level() {
    return levelOf(this.house, this.cam);
  }

  #resize() {
    const box = this.canvas.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) return;
    this.#dpr = Math.min(devicePixelRatio || 1, 3);
    this.canvas.width = Math.round(box.width * this.#dpr);
    this.canvas.height = Math.round(box.height * this.#dpr);
    this.cam.resize(box.width, box.height);
    if (this.fitted) this.cam.set(this.cam.fitted());
    this.refresh();
  }

  #apply(ids) {
    if (ids === null || ids.length > 600) return this.refresh();
    const inSight = this.level === 'seats';
    const now = performance.now();
    for (const id of ids) {
      const i = this.house.at(id);
      if (i < 0) continue;
      this.#changed.add(i);
      if (inSight && !this.#still.matches && this.#pulses.length < 120 && !document.hidden) this.#pulses.push({ i, at: now });
    }
    this.dirty();
  }

  // ---- moving the view

  /** Goes to a view, gliding unless motion is unwanted. */
  go(view, ms = 220) {
    this.fitted = false;
    if (this.#still.matches || ms === 0) {
      this.#move = null;
      this.cam.set(view);
    } else {
      this.#move = { from: { scale: this.cam.scale, x: this.cam.x, y: this.cam.y }, to: view, at: performance.now(), ms };
    }
    this.dirty();
  }

  fit() {
    this.go(this.cam.fitted());
    this.fitted = true;
  }

  zoom(factor, px = this.cam.w / 2, py = this.cam.h / 2, ms = 180) {
    const base = this.#move ? { ...this.#move.to } : null;
    if (base && ms > 0) {
      // A second press continues from where the first is going.
      const cam = Object.assign(new Camera(this.cam.bounds, this.cam.seatRadius), { w: this.cam.w, h: this.cam.h, ...base });
      return this.go(cam.zoomed(px, py, factor), ms);
    }
    this.go(this.cam.zoomed(px, py, factor), ms);
  }

  pan(dx, dy) {
    this.#move = null;
    this.fitted = false;
    this.cam.pan(dx, dy);
    this.dirty();
  }

  /** Zooms so that seats can be read and hit around a world point. */
  approach(wx, wy) {
    this.go(this.cam.centred(wx, wy, Math.max(this.cam.scale, READABLE_PX / this.house.usualR)), 320);
  }

  /** Brings a seat into sight, large enough to see. */
  reveal(i) {
    const x = this.house.x[i], y = this.house.y[i];
    if (this.house.usualR * this.cam.scale < 3.5) return this.approach(x, y);
    const view = this.cam.revealing(x, y);
    if (view) this.go(view, 140);
  }

  // ---- seats under the hand

  /** The seat at a point of the canvas, or −1. */
  seatAt(px, py) {
    if (this.level === 'sections') return -1;
    const reach = Math.max(this.house.maxR * 1.2, 6 / this.cam.scale);
    return this.house.grid.nearest(this.cam.worldX(px), this.cam.worldY(py), reach);
  }

  /** A tap or click: takes the seat, or goes closer when seats are too small. */
  tap(px, py, touch) {
    const small = this.house.usualR * this.cam.scale < (touch ? 6.5 : 2.6);
    const wx = this.cam.worldX(px), wy = this.cam.worldY(py);
    if (small) {
      const near = this.house.grid.nearest(wx, wy, Math.max(this.house.pitch * 4, 24 / this.cam.scale));
      if (near >= 0) this.approach(wx, wy);
      return near >= 0;
    }
    const i = this.seatAt(px, py);
    if (i < 0) return false;
    this.focus(i, false);
    this.hooks.onActivate(i);
    return true;
  }

  /** Puts the keyboard on a seat (−1: on none). */
  focus(i, tell = true) {
    this.focused = i;
    if (i >= 0 && tell) {
      this.reveal(i);
      this.hooks.onFocus(i);
    }
    this.dirty();
  }

  /** Moves the keyboard's seat one step in a direction; false at the edge. */
  step(dx, dy) {
    this.byKeys = true;
    if (this.focused < 0) {
      const i = this.house.grid.nearest(this.cam.worldX(this.cam.w / 2), this.cam.worldY(this.cam.h / 2), Infinity,
        (k) => this.store.state(this.house.ids[k]) === 48);
      const any = i >= 0 ? i : this.house.n ? 0 : -1;
      if (any >= 0) this.focus(any);
      return any >= 0;
    }
    const next = this.house.grid.neighbour(this.focused, dx, dy, this.house.pitch);
    if (next < 0) return false;
    this.focus(next);
    return true;
  }

  // ---- drawing

  #frame(now) {
    this.#raf = 0;
    if (this.#move) {
      const f = Math.min(1, (now - this.#move.at) / this.#move.ms);
      const eased = 1 - (1 - Math.max(0, f)) ** 3;
      this.cam.set(between(this.#move.from, this.#move.to, eased, this.cam.w, this.cam.h));
      if (f >= 1) {
        this.cam.set(this.#move.to);
        this.#move = null;
      }
      this.dirty();
    }
    this.#prepareLayer();
    const { ctx, cam } = this;
    const dpr = this.#dpr;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const r = this.#rect;
    const k = cam.scale * dpr;
    ctx.imageSmoothingEnabled = r.scale !== cam.scale;
    ctx.drawImage(this.#layer, (r.x - cam.x) * k, (r.y - cam.y) * k, r.w * k, r.h * k);
    ctx.setTransform(k, 0, 0, k, -cam.x * k, -cam.y * k);
    this.#drawPulses(now);
    this.paint.marks(ctx, cam.scale, this.hooks.own(), this.hooks.selected());
    if (this.focused >= 0 && this.byKeys && document.activeElement === this.canvas) this.paint.focus(ctx, cam.scale, this.focused);
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    if (r.level !== this.#told) this.hooks.onLevel((this.#told = r.level));
    if (r.level === 'sections') sectionLabels(this);
    else rowLabels(this);
    this.frames++;
  }

  // Makes the layer show what the view needs.
  #prepareLayer() {
    const { cam } = this;
    const level = this.level;
    const r = this.#rect;
    const vw = cam.w / cam.scale, vh = cam.h / cam.scale;
    const inside = r && cam.x >= r.x && cam.y >= r.y && cam.x + vw <= r.x + r.w && cam.y + vh <= r.y + r.h;
    const sharp = r && r.scale === cam.scale && r.level === level;
    if (this.#stale || !r) return this.#paintLayer(level);
    if (!sharp || !inside) {
      if (this.layerMs <= QUICK_MS || (!inside && sharp)) return this.#paintLayer(level);
      // Slow to paint: stretch what is there, and paint when the hand rests.
      const view = `${cam.scale}|${cam.x}|${cam.y}`;
      if (view !== this.#rested) {
        this.#rested = view;
        clearTimeout(this.#rest);
        this.#rest = setTimeout(() => this.refresh(), REST_MS);
      }
      if (cam.scale > r.scale * 3 || cam.scale < r.scale / 1.6) return this.#paintLayer(level);
    }
    if (this.#changed.size) this.#repaintSeats(r);
  }

  #paintLayer(level) {
    const begun = performance.now();
    const { cam } = this;
    clearTimeout(this.#rest);
    this.#rested = '';
    const vw = cam.w / cam.scale, vh = cam.h / cam.scale;
    const k = cam.scale * this.#dpr;
    const w = Math.ceil(vw * (1 + 2 * MARGIN) * k), h = Math.ceil(vh * (1 + 2 * MARGIN) * k);
    if (this.#layer.width !== w || this.#layer.height !== h) {
      this.#layer.width = w;
      this.#layer.height = h;
    }
    const lx = this.#layer.getContext('2d');
    lx.setTransform(1, 0, 0, 1, 0, 0);
    lx.clearRect(0, 0, w, h);
    // The corner sits on a device pixel, so that copying stays sharp.
    const x = Math.floor((cam.x - vw * MARGIN) * k) / k, y = Math.floor((cam.y - vh * MARGIN) * k) / k;
    lx.setTransform(k, 0, 0, k, -x * k, -y * k);
    this.#rect = { x, y, w: w / k, h: h / k, scale: cam.scale, level };
    this.paint.region(lx, level, cam.scale, x, y, x + w / k, y + h / k);
    this.#stale = false;
    this.#changed.clear();
    this.layerMs = performance.now() - begun;
  }

  #repaintSeats(r) {
    if (r.level === 'sections' || this.#changed.size > 300) return this.#paintLayer(r.level);
    const lx = this.#layer.getContext('2d');
    const pad = this.house.maxR * 1.25;
    for (const i of this.#changed) {
      const x = this.house.x[i], y = this.house.y[i];
      if (x + pad < r.x || x - pad > r.x + r.w || y + pad < r.y || y - pad > r.y + r.h) continue;
      lx.save();
      lx.beginPath();
      lx.rect(x - pad, y - pad, 2 * pad, 2 * pad);
      lx.clip();
      lx.clearRect(x - pad, y - pad, 2 * pad, 2 * pad);
      this.paint.region(lx, r.level, r.scale, x - pad, y - pad, x + pad, y + pad);
      lx.restore();
    }
    this.#changed.clear();
  }

  #drawPulses(now) {
    if (!this.#pulses.length) return;
    const { ctx, house } = this;
    this.#pulses = this.#pulses.filter((p) => now - p.at < PULSE_MS);
    ctx.strokeStyle = this.paint.theme.ink;
    for (const { i, at } of this.#pulses) {
      const f = Math.max(0, now - at) / PULSE_MS;
      ctx.globalAlpha = (1 - f) * 0.55;
      ctx.lineWidth = house.usualR * 0.18;
      ctx.beginPath();
      ctx.arc(house.x[i], house.y[i], house.r[i] * (1 + f * 0.9), 0, 2 * Math.PI);
      ctx.stroke();
    }
    ctx.globalAlpha = 1;
    this.dirty();
  }

  /** Where a seat is on the page, in CSS px; for tests and tooltips. */
  place(i) {
    const box = this.canvas.getBoundingClientRect();
    return { x: box.left + this.cam.screenX(this.house.x[i]), y: box.top + this.cam.screenY(this.house.y[i]) };
  }

  /** A seat's printed number without its row. */
  number(i) {
    return tail(this.house.number[i], this.house.row[i]);
  }
}
