// Where the reader looks: a scale (px a unit) and the world point in the
// upper left corner. Pure arithmetic; the map animates it.

/** Camera keeps the house in sight whatever is done to it. */
export class Camera {
  w = 1;
  h = 1;
  scale = 1;
  x = 0;
  y = 0;

  constructor(bounds, seatRadius) {
    this.bounds = bounds;
    this.seatRadius = seatRadius;
  }

  /** Sets the viewport in CSS px; keeps the middle where it was. */
  resize(w, h) {
    const cx = this.x + this.w / this.scale / 2, cy = this.y + this.h / this.scale / 2;
    this.w = Math.max(1, w);
    this.h = Math.max(1, h);
    this.x = cx - this.w / this.scale / 2;
    this.y = cy - this.h / this.scale / 2;
    this.clamp();
  }

  /** The scale at which the whole house is in sight. */
  get fitScale() {
    const pad = Math.min(this.w, this.h) < 500 ? 14 : 32;
    return Math.min(Math.max(1, this.w - 2 * pad) / this.bounds.w, Math.max(1, this.h - 2 * pad) / this.bounds.h);
  }

  get minScale() { return Math.min(this.fitScale * 0.8, this.maxScale); }
  get maxScale() { return Math.max(30 / this.seatRadius, 1e-6); }

  /** The view that shows everything, never larger than comfortable. */
  fitted() {
    const scale = Math.min(this.fitScale, Math.min(this.maxScale, 16 / this.seatRadius));
    return this.centred(this.bounds.x + this.bounds.w / 2, this.bounds.y + this.bounds.h / 2, scale);
  }

  /** The view with a world point in the middle. */
  centred(wx, wy, scale = this.scale) {
    const s = this.#limit(scale);
    return { scale: s, x: wx - this.w / s / 2, y: wy - this.h / s / 2 };
  }

  /** The view after zooming by factor around a screen point. */
  zoomed(px, py, factor) {
    const s = this.#limit(this.scale * factor);
    const wx = this.x + px / this.scale, wy = this.y + py / this.scale;
    return { scale: s, x: wx - px / s, y: wy - py / s };
  }

  set(view) {
    this.scale = view.scale;
    this.x = view.x;
    this.y = view.y;
    this.clamp();
  }

  pan(dx, dy) {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.clamp();
  }

  screenX(wx) { return (wx - this.x) * this.scale; }
  screenY(wy) { return (wy - this.y) * this.scale; }
  worldX(px) { return this.x + px / this.scale; }
  worldY(py) { return this.y + py / this.scale; }

  /** The least move that brings a world point inside the margins, or null. */
  revealing(wx, wy, margin = 60) {
    const m = Math.min(margin, this.w / 3, this.h / 3);
    const px = this.screenX(wx), py = this.screenY(wy);
    const dx = px < m ? m - px : px > this.w - m ? this.w - m - px : 0;
    const dy = py < m ? m - py : py > this.h - m ? this.h - m - py : 0;
    if (dx === 0 && dy === 0) return null;
    return { scale: this.scale, x: this.x - dx / this.scale, y: this.y - dy / this.scale };
  }

  // The middle of the view never leaves the house.
  clamp() {
    const { bounds: b } = this;
    const vw = this.w / this.scale, vh = this.h / this.scale;
    const cx = Math.min(b.x + b.w, Math.max(b.x, this.x + vw / 2));
    const cy = Math.min(b.y + b.h, Math.max(b.y, this.y + vh / 2));
    this.x = cx - vw / 2;
    this.y = cy - vh / 2;
  }

  #limit(scale) {
    return Math.min(this.maxScale, Math.max(this.minScale, scale));
  }
}

/** A view between two others, zooming evenly to the eye; f from 0 to 1. */
export function between(a, b, f, w, h) {
  const scale = a.scale * (b.scale / a.scale) ** f;
  const ax = a.x + w / a.scale / 2, ay = a.y + h / a.scale / 2;
  const bx = b.x + w / b.scale / 2, by = b.y + h / b.scale / 2;
  // With an even zoom the middle must move by the share of scale, not of time.
  const g = Math.abs(b.scale - a.scale) < 1e-9 * a.scale ? f : (1 / a.scale - 1 / scale) / (1 / a.scale - 1 / b.scale);
  const cx = ax + (bx - ax) * g, cy = ay + (by - ay) * g;
  return { scale, x: cx - w / scale / 2, y: cy - h / scale / 2 };
}
