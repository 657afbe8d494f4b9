// A spatial index over points: a uniform grid in compressed rows, so that
// "what is in this rectangle" and "what is nearest" cost what they answer,
// not what the house holds.

/** Grid indexes the points (xs[i], ys[i]) in square cells. */
export class Grid {
  constructor(xs, ys, cell) {
    this.xs = xs;
    this.ys = ys;
    const n = xs.length;
    let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
    for (let i = 0; i < n; i++) {
      x0 = Math.min(x0, xs[i]); x1 = Math.max(x1, xs[i]);
      y0 = Math.min(y0, ys[i]); y1 = Math.max(y1, ys[i]);
    }
    if (n === 0) x0 = y0 = x1 = y1 = 0;
    // Never more cells than a few per point, however the points are spread.
    const area = Math.max(1, (x1 - x0) * (y1 - y0));
    this.cell = Math.max(cell, Math.sqrt(area / Math.max(16, n * 4)), 1e-6);
    this.x0 = x0; this.y0 = y0;
    this.cols = Math.floor((x1 - x0) / this.cell) + 1;
    this.rows = Math.floor((y1 - y0) / this.cell) + 1;
    const start = new Int32Array(this.cols * this.rows + 1);
    const at = new Int32Array(n);
    for (let i = 0; i < n; i++) {
      at[i] = this.#col(xs[i]) + this.#row(ys[i]) * this.cols;
      start[at[i] + 1]++;
    }
    for (let c = 0; c < start.length - 1; c++) start[c + 1] += start[c];
    const fillAt = start.slice();
    this.items = new Int32Array(n);
    for (let i = 0; i < n; i++) this.items[fillAt[at[i]]++] = i;
    this.start = start;
  }

  #col(x) { return Math.min(this.cols - 1, Math.max(0, Math.floor((x - this.x0) / this.cell))); }
  #row(y) { return Math.min(this.rows - 1, Math.max(0, Math.floor((y - this.y0) / this.cell))); }

  /** Calls fn(i) for each point in the rectangle. */
  query(x0, y0, x1, y1, fn) {
    const { xs, ys, items, start, cols } = this;
    const c0 = this.#col(x0), c1 = this.#col(x1), r0 = this.#row(y0), r1 = this.#row(y1);
    for (let r = r0; r <= r1; r++) {
      for (let k = start[r * cols + c0], end = start[r * cols + c1 + 1]; k < end; k++) {
        const i = items[k];
        if (xs[i] >= x0 && xs[i] <= x1 && ys[i] >= y0 && ys[i] <= y1) fn(i);
      }
    }
  }

  /** How many points lie in the rectangle's cells: an upper bound, cheap. */
  estimate(x0, y0, x1, y1) {
    const c0 = this.#col(x0), c1 = this.#col(x1), r0 = this.#row(y0), r1 = this.#row(y1);
    let n = 0;
    for (let r = r0; r <= r1; r++) n += this.start[r * this.cols + c1 + 1] - this.start[r * this.cols + c0];
    return n;
  }

  /** The nearest point within reach, or −1. */
  nearest(x, y, reach, accept = () => true) {
    let best = -1, bestD = reach * reach;
    this.query(x - reach, y - reach, x + reach, y + reach, (i) => {
      const d = (this.xs[i] - x) ** 2 + (this.ys[i] - y) ** 2;
      if (d <= bestD && accept(i)) {
        best = i;
        bestD = d;
      }
    });
    return best;
  }

  /**
   * The neighbour of point i in a direction (unit vector), or −1: the nearest
   * in a cone, with sideways distance counted double. step is the usual
   * distance between neighbours.
   */
  neighbour(i, dx, dy, step) {
    const x = this.xs[i], y = this.ys[i];
    const far = Math.hypot(this.cols * this.cell, this.rows * this.cell) + step;
    for (let reach = step * 2.5; ; reach *= 2.5) {
      let best = -1, bestScore = Infinity;
      this.query(x - reach, y - reach, x + reach, y + reach, (j) => {
        if (j === i) return;
        const ex = this.xs[j] - x, ey = this.ys[j] - y;
        const along = ex * dx + ey * dy;
        const across = Math.abs(ex * dy - ey * dx);
        if (along < step * 0.25 || across > along * 1.3) return;
        const score = along + 2 * across;
        if (score < bestScore) {
          best = j;
          bestScore = score;
        }
      });
      // Something outside the square could only be better beyond its score.
      if (best >= 0 && (bestScore <= reach || reach > far)) return best;
      if (reach > far) return best;
    }
  }
}
