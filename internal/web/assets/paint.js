// Drawing a house. Three levels of detail: 'sections' (zones as filled
// shapes, shaded by how much is free), 'dots' (a square a seat) and 'seats'.
// Every state has a mark of its own beside its colour: a held seat is a
// hatched ring, a sold one a small solid dot, a blocked one a cross.
//
// All drawing is in the plan's units under a transform, and batched: one path
// per colour, however many seats.

import { BLOCKED, FREE, HELD, SOLD } from './store.js';
import { contrast, luminance, mix, standOut } from './color.js';

const SECTIONS_BELOW_PX = 1.9; // radius on screen under which a seat cannot be told
const DOTS_BELOW_PX = 2.2;
const BIG_HOUSE = 4000; // a smaller one is drawn seat by seat even when tiny
const MANY = 7000; // seats in sight over which circles cost too much

/** The level of detail for a view. */
export function levelOf(house, cam) {
  const px = house.usualR * cam.scale;
  if (house.n > BIG_HOUSE && px < SECTIONS_BELOW_PX) return 'sections';
  if (px < DOTS_BELOW_PX && house.n > 1500) return 'dots';
  const seen = house.grid.estimate(cam.x, cam.y, cam.x + cam.w / cam.scale, cam.y + cam.h / cam.scale);
  return seen > MANY ? 'dots' : 'seats';
}

/** The colours of the page, read from its style sheet, and what follows from the plan's. */
export function themeOf(element, house) {
  const css = getComputedStyle(element);
  const get = (name, fallback) => css.getPropertyValue(name).trim() || fallback;
  const theme = {
    surface: get('--map-surface', '#ffffff'),
    ink: get('--map-ink', '#1c2430'),
    faint: get('--map-faint', '#8a92a0'),
    quiet: get('--quiet', '#566070'),
    held: get('--map-held', '#7c8594'),
    sold: get('--map-sold', '#5d6675'),
    gone: get('--map-gone', '#d5d9e0'),
    own: get('--map-own', '#0b7a6b'),
    ownInk: get('--map-own-ink', '#ffffff'),
    pick: get('--map-pick', '#b45309'),
    font: css.fontFamily || 'sans-serif',
  };
  theme.free = house.categories.map((c) => standOut(c.color, theme.surface, 3));
  theme.edge = theme.free.map((c) => mix(c, theme.ink, 0.35));
  return theme;
}

/** Paint draws one house in one theme. */
export class Paint {
  #lines = new Map(); // section → [{category, path}]

  constructor(house, store, theme) {
    Object.assign(this, { house, store, theme });
  }

  /** Draws a world rectangle at a level; ctx is under the world transform. */
  region(ctx, level, scale, x0, y0, x1, y1) {
    this.#areas(ctx, scale, x0, y0, x1, y1);
    if (level === 'sections') this.#sections(ctx, x0, y0, x1, y1);
    else if (level === 'dots') this.#dots(ctx, x0, y0, x1, y1);
    else this.#seats(ctx, scale, x0, y0, x1, y1);
  }

  /** Share of a section's seats that are free, and how many. */
  free(section) {
    if (section.stamp !== this.store.revisionText) {
      // All sections are counted together: one pass over the house.
      const free = new Int32Array(this.house.zones.length);
      const { ids, zone, n } = this.house;
      const { states } = this.store;
      for (let i = 0; i < n; i++) if (states[ids[i] - 1] === FREE) free[zone[i]]++;
      for (const s of this.house.sections) s.free = free[s.zone];
      for (const s of this.house.sections) s.stamp = this.store.revisionText;
    }
    return section.free;
  }

  #areas(ctx, scale, x0, y0, x1, y1) {
    const { theme } = this;
    for (const a of this.house.areas) {
      const b = a.box;
      const text = a.text && (a.textSize || 16) * scale >= 5;
      if (!text && (b[2] < x0 || b[0] > x1 || b[3] < y0 || b[1] > y1)) continue;
      ctx.save();
      ctx.translate(a.x ?? 0, a.y ?? 0);
      if (a.rotation) ctx.rotate((a.rotation * Math.PI) / 180);
      const filled = a.color && a.color !== 'none' && a.shape !== 'text';
      ctx.beginPath();
      if (a.shape === 'rectangle') ctx.rect(0, 0, a.width ?? 0, a.height ?? 0);
      else if (a.shape === 'circle' || a.shape === 'ellipse') ctx.ellipse(0, 0, a.radiusX ?? 0, a.radiusY || a.radiusX || 0, 0, 0, 2 * Math.PI);
      else if (a.shape === 'polygon') for (const [px, py] of a.points ?? []) ctx.lineTo(px, py);
      if (a.shape === 'polygon') ctx.closePath();
      if (filled) {
        ctx.fillStyle = this.#ground(a.color);
        ctx.fill();
      }
      if (a.borderColor && a.borderColor !== 'none' && a.shape !== 'text') {
        ctx.strokeStyle = this.#ground(a.borderColor);
        ctx.lineWidth = 1.5 / scale;
        ctx.stroke();
      }
      if (text) {
        const behind = filled ? this.#ground(a.color) : theme.surface;
        const color = a.textColor || theme.ink;
        ctx.fillStyle = contrast(color, behind) < 3 ? standOut(color, behind, 4.5) : color;
        ctx.font = `600 ${a.textSize || 16}px ${theme.font}`;
        ctx.textAlign = 'center';
        ctx.textBaseline = 'middle';
        const tx = a.textX || (a.shape === 'rectangle' && !a.textY ? (a.width ?? 0) / 2 : 0);
        const ty = a.textY || (a.shape === 'rectangle' && !a.textX ? (a.height ?? 0) / 2 : 0);
        ctx.fillText(a.text, tx, ty);
      }
      ctx.restore();
    }
  }

  // A bright stage on a dark page would outshine the seats.
  #ground(color) {
    const { surface } = this.theme;
    return luminance(surface) < 0.2 && luminance(color) > 0.35 ? mix(color, surface, 0.8) : color;
  }

  #sections(ctx, x0, y0, x1, y1) {
    const { house, theme } = this;
    const width = house.rowGap * 1.06;
    ctx.lineCap = 'round';
    ctx.lineJoin = 'round';
    for (const section of house.sections) {
      if (section.x1 < x0 || section.x0 > x1 || section.y1 < y0 || section.y0 > y1) continue;
      const share = section.seats ? this.free(section) / section.seats : 0;
      const parts = this.#paths(section);
      for (const edge of [true, false]) {
        ctx.lineWidth = edge ? width * 1.5 : width;
        for (const { category, path } of parts) {
          const full = mix(theme.free[category] ?? theme.faint, theme.gone, (1 - share) * 0.92);
          ctx.strokeStyle = edge ? mix(full, theme.ink, 0.3) : full;
          ctx.stroke(path);
        }
      }
    }
  }

  #paths(section) {
    let parts = this.#lines.get(section);
    if (!parts) {
      parts = [];
      for (const [category, lines] of section.parts) {
        const path = new Path2D();
        for (const line of lines) {
          path.moveTo(line[0], line[1]);
          // A lone seat still needs a stroke to be seen.
          if (line.length === 2) path.lineTo(line[0] + 0.01, line[1]);
          for (let k = 2; k < line.length; k += 2) path.lineTo(line[k], line[k + 1]);
        }
        parts.push({ category, path });
      }
      this.#lines.set(section, parts);
    }
    return parts;
  }

  // Indices of the rectangle's seats by what they look like.
  #buckets(x0, y0, x1, y1) {
    const { house, store } = this;
    const free = house.categories.map(() => []);
    const held = [], sold = [], blocked = [], none = [];
    const { states } = store;
    const { ids, category } = house;
    const pad = house.maxR;
    house.grid.query(x0 - pad, y0 - pad, x1 + pad, y1 + pad, (i) => {
      const s = states[ids[i] - 1];
      if (s === FREE) free[category[i]]?.push(i);
      else if (s === SOLD) sold.push(i);
      else if (s === HELD) held.push(i);
      else if (s === BLOCKED) blocked.push(i);
      else none.push(i);
    });
    return { free, held, sold, blocked, none };
  }

  #dots(ctx, x0, y0, x1, y1) {
    const { house, theme } = this;
    const b = this.#buckets(x0, y0, x1, y1);
    const fill = (list, color, size) => {
      if (!list.length) return;
      ctx.fillStyle = color;
      for (const i of list) {
        const r = house.r[i] * size;
        ctx.fillRect(house.x[i] - r, house.y[i] - r, 2 * r, 2 * r);
      }
    };
    fill(b.none, theme.gone, 0.3);
    fill(b.sold, theme.sold, 0.55);
    fill(b.blocked, theme.faint, 0.4);
    fill(b.held, theme.held, 0.8);
    b.free.forEach((list, c) => fill(list, theme.free[c], 0.95));
  }

  #seats(ctx, scale, x0, y0, x1, y1) {
    const { house, theme } = this;
    const b = this.#buckets(x0, y0, x1, y1);
    const px = house.usualR * scale;
    const circles = (list, size) => {
      ctx.beginPath();
      for (const i of list) {
        const r = house.r[i] * size;
        ctx.moveTo(house.x[i] + r, house.y[i]);
        ctx.arc(house.x[i], house.y[i], r, 0, 2 * Math.PI);
      }
    };
    b.free.forEach((list, c) => {
      if (!list.length) return;
      circles(list, 0.94);
      ctx.fillStyle = theme.free[c];
      ctx.fill();
      if (px > 4) {
        ctx.lineWidth = house.usualR * 0.12;
        ctx.strokeStyle = theme.edge[c];
        ctx.stroke();
      }
    });
    if (b.sold.length) {
      circles(b.sold, 0.56);
      ctx.fillStyle = theme.sold;
      ctx.fill();
    }
    if (b.none.length) {
      circles(b.none, 0.3);
      ctx.fillStyle = theme.gone;
      ctx.fill();
    }
    if (b.held.length) {
      circles(b.held, 0.8);
      ctx.strokeStyle = theme.held;
      ctx.lineWidth = house.usualR * 0.2;
      if (px > 3) {
        // The hatch: two strokes across the ring.
        for (const i of b.held) {
          const r = house.r[i] * 0.8, d = r * 0.72, e = r * 0.42;
          ctx.moveTo(house.x[i] - d, house.y[i] + d - e);
          ctx.lineTo(house.x[i] + d - e, house.y[i] - d);
          ctx.moveTo(house.x[i] - d + e, house.y[i] + d);
          ctx.lineTo(house.x[i] + d, house.y[i] - d + e);
        }
      }
      ctx.stroke();
    }
    if (b.blocked.length) {
      ctx.beginPath();
      for (const i of b.blocked) {
        const d = house.r[i] * 0.5;
        ctx.moveTo(house.x[i] - d, house.y[i] - d); ctx.lineTo(house.x[i] + d, house.y[i] + d);
        ctx.moveTo(house.x[i] + d, house.y[i] - d); ctx.lineTo(house.x[i] - d, house.y[i] + d);
      }
      ctx.strokeStyle = theme.faint;
      ctx.lineWidth = house.usualR * 0.22;
      ctx.stroke();
    }
    if (px >= 9) this.#numbers(ctx, b.free);
  }

  #numbers(ctx, free) {
    const { house, theme } = this;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    ctx.font = `600 ${house.usualR * 0.8}px ${theme.font}`;
    free.forEach((list, c) => {
      ctx.fillStyle = contrast('#ffffff', theme.free[c]) >= 3 ? '#ffffff' : '#101418';
      for (const i of list) {
        const text = tail(house.number[i], house.row[i]);
        if (text.length <= 3) ctx.fillText(text, house.x[i], house.y[i] + house.usualR * 0.05);
      }
    });
  }

  /** Own and selected seats, over everything else. */
  marks(ctx, scale, own, selected) {
    const { house, theme } = this;
    const least = 3.2 / scale; // never too small to be found
    ctx.lineJoin = 'round';
    ctx.lineCap = 'round';
    for (const i of own) {
      const r = Math.max(house.r[i] * 1.05, least);
      ctx.beginPath();
      ctx.arc(house.x[i], house.y[i], r, 0, 2 * Math.PI);
      ctx.fillStyle = theme.own;
      ctx.fill();
      ctx.beginPath();
      ctx.arc(house.x[i], house.y[i], r * 1.34, 0, 2 * Math.PI);
      ctx.strokeStyle = theme.own;
      ctx.lineWidth = r * 0.2;
      ctx.stroke();
      tick(ctx, house.x[i], house.y[i], r, theme.ownInk);
    }
    for (const i of selected) {
      const r = Math.max(house.r[i] * 1.05, least);
      ctx.beginPath();
      ctx.arc(house.x[i], house.y[i], r * 1.3, 0, 2 * Math.PI);
      ctx.fillStyle = theme.pick;
      ctx.fill();
      ctx.beginPath();
      ctx.arc(house.x[i], house.y[i], r * 0.98, 0, 2 * Math.PI);
      ctx.fillStyle = theme.surface;
      ctx.fill();
      ctx.beginPath();
      ctx.arc(house.x[i], house.y[i], r * 0.62, 0, 2 * Math.PI);
      ctx.fillStyle = theme.pick;
      ctx.fill();
    }
  }

  /** The square around the seat the keyboard is on. */
  focus(ctx, scale, i) {
    const { house, theme } = this;
    const r = Math.max(house.r[i], 3.2 / scale) * 1.62;
    for (const [color, width] of [[theme.surface, 5], [theme.ink, 2.5]]) {
      ctx.beginPath();
      ctx.roundRect(house.x[i] - r, house.y[i] - r, 2 * r, 2 * r, r * 0.3);
      ctx.strokeStyle = color;
      ctx.lineWidth = width / scale;
      ctx.stroke();
    }
  }
}

function tick(ctx, x, y, r, color) {
  ctx.beginPath();
  ctx.moveTo(x - r * 0.45, y + r * 0.02);
  ctx.lineTo(x - r * 0.1, y + r * 0.38);
  ctx.lineTo(x + r * 0.48, y - r * 0.34);
  ctx.strokeStyle = color;
  ctx.lineWidth = r * 0.26;
  ctx.stroke();
}

/** A seat's number without its row in front: "12-4" in row 12 is seat 4. */
export function tail(number, row) {
  const text = String(number ?? '');
  for (const mark of ['-', '/', '.']) {
    if (text.startsWith(row + mark)) return text.slice(String(row).length + 1);
  }
  return text;
}
