// A house as the page thinks of it: seats in typed arrays, rows, sections
// with their shapes, and an index by place. Built once from the plan; pure.

import { Grid } from './grid.js';

const DEFAULT_RADIUS = 10;

/** House is the geometry of a plan. Seats are addressed by index 0…n−1. */
export class House {
  constructor(plan) {
    const s = plan.seats;
    const n = s.id.length;
    this.n = n;
    this.name = plan.name ?? '';
    this.categories = plan.categories ?? [];
    this.zones = plan.zones ?? [];
    this.ids = Int32Array.from(s.id);
    this.x = Float64Array.from(s.x);
    this.y = Float64Array.from(s.y);
    this.zone = Int32Array.from(s.zone);
    this.category = Int32Array.from(s.category);
    this.row = s.row;
    this.number = s.number;
    this.index = new Map();
    for (let i = 0; i < n; i++) this.index.set(this.ids[i], i);

    this.rows = groupRows(this);
    this.pitch = seatPitch(this) || DEFAULT_RADIUS * 2.5;
    const usual = Math.min(DEFAULT_RADIUS, this.pitch * 0.42);
    this.r = new Float64Array(n);
    this.maxR = usual;
    for (let i = 0; i < n; i++) {
      this.r[i] = s.radius?.[i] > 0 ? s.radius[i] : usual;
      this.maxR = Math.max(this.maxR, this.r[i]);
    }
    this.usualR = n ? median(Array.from({ length: Math.min(n, 500) }, (_, k) => this.r[Math.floor((k * n) / Math.min(n, 500))])) : usual;
    this.grid = new Grid(this.x, this.y, this.pitch * 2);
    this.rowGap = rowGap(this);
    this.areas = this.zones.flatMap((z) => z.areas ?? []).map((a) => ({ ...a, box: areaBox(a) }));
    this.bounds = boundsOf(this);
    this.sections = sectionsOf(this);
  }

  /** The index of a seat id, or −1. */
  at(id) {
    return this.index.get(id) ?? -1;
  }

  zoneName(i) {
    return this.zones[this.zone[i]]?.name ?? '';
  }

  /** Minor units, or null when the seat's category is not for sale. */
  price(i) {
    return this.categories[this.category[i]]?.price ?? null;
  }
}

function median(list) {
  if (list.length === 0) return 0;
  const sorted = Float64Array.from(list).sort();
  return sorted[sorted.length >> 1];
}

function groupRows(house) {
  const rows = [];
  const byKey = new Map();
  for (let i = 0; i < house.n; i++) {
    const key = `${house.zone[i]}|${house.row[i]}`;
    let row = byKey.get(key);
    if (!row) {
      row = { zone: house.zone[i], name: house.row[i], seats: [] };
      byKey.set(key, row);
      rows.push(row);
    }
    row.seats.push(i);
  }
  return rows;
}

const distance = (h, i, j) => Math.hypot(h.x[i] - h.x[j], h.y[i] - h.y[j]);

function seatPitch(house) {
  const found = [];
  const every = Math.max(1, Math.floor(house.rows.length / 60));
  for (let k = 0; k < house.rows.length; k += every) {
    const { seats } = house.rows[k];
    for (let m = 1; m < Math.min(seats.length, 12); m++) {
      const d = distance(house, seats[m - 1], seats[m]);
      if (d > 0) found.push(d);
    }
  }
  return median(found);
}

function rowGap(house) {
  const found = [];
  const every = Math.max(1, Math.floor(house.n / 200));
  for (let i = 0; i < house.n; i += every) {
    const j = house.grid.nearest(house.x[i], house.y[i], house.pitch * 3,
      (k) => house.zone[k] === house.zone[i] && house.row[k] !== house.row[i]);
    if (j >= 0) found.push(distance(house, i, j));
  }
  // The wider rows count: rows of a section may stand closer at one end.
  const sorted = Float64Array.from(found).sort();
  return sorted[Math.floor(sorted.length * 0.85)] || house.pitch;
}

function areaBox(a) {
  const x = a.x ?? 0, y = a.y ?? 0;
  let w = 0, h = 0, x0 = x, y0 = y;
  if (a.shape === 'rectangle') { w = a.width ?? 0; h = a.height ?? 0; }
  else if (a.shape === 'circle' || a.shape === 'ellipse') {
    const rx = a.radiusX ?? 0, ry = a.radiusY || rx;
    x0 = x - rx; y0 = y - ry; w = 2 * rx; h = 2 * ry;
  } else if (a.shape === 'polygon' && a.points?.length) {
    const xs = a.points.map((p) => p[0]), ys = a.points.map((p) => p[1]);
    x0 = x + Math.min(...xs); y0 = y + Math.min(...ys);
    w = Math.max(...xs) - Math.min(...xs); h = Math.max(...ys) - Math.min(...ys);
  } else if (a.text) {
    w = (a.textSize || 16) * a.text.length * 0.6; h = a.textSize || 16;
    x0 = x - w / 2; y0 = y - h / 2;
  }
  if (a.rotation) {
    // A turned shape stays within its diagonal, whatever the angle.
    const d = Math.hypot(w, h);
    return [x0 - d, y0 - d, x0 + w + d, y0 + h + d];
  }
  return [x0, y0, x0 + w, y0 + h];
}

function boundsOf(house) {
  let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
  const take = (ax, ay, bx, by) => {
    x0 = Math.min(x0, ax); y0 = Math.min(y0, ay); x1 = Math.max(x1, bx); y1 = Math.max(y1, by);
  };
  for (let i = 0; i < house.n; i++) {
    const r = house.r[i];
    take(house.x[i] - r, house.y[i] - r, house.x[i] + r, house.y[i] + r);
  }
  for (const a of house.areas) if (!a.rotation) take(...a.box);
  if (!Number.isFinite(x0)) return { x: 0, y: 0, w: 100, h: 100 };
  return { x: x0, y: y0, w: Math.max(1, x1 - x0), h: Math.max(1, y1 - y0) };
}

// Sections: a zone's rows as thick lines, which together fill exactly the
// ground the zone stands on, whatever its shape. A part is what has one
// category; straight runs keep their two ends only.
function sectionsOf(house) {
  const sections = house.zones.map((z, k) => ({
    zone: k, name: z.name, seats: 0, parts: new Map(), cx: 0, cy: 0,
    x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity,
  }));
  for (const row of house.rows) {
    const section = sections[row.zone];
    if (!section) continue;
    let line = null, prev = -1;
    for (const i of row.seats) {
      section.seats++;
      section.cx += house.x[i]; section.cy += house.y[i];
      section.x0 = Math.min(section.x0, house.x[i] - house.r[i]);
      section.x1 = Math.max(section.x1, house.x[i] + house.r[i]);
      section.y0 = Math.min(section.y0, house.y[i] - house.r[i]);
      section.y1 = Math.max(section.y1, house.y[i] + house.r[i]);
      const c = house.category[i];
      if (prev < 0 || house.category[prev] !== c || distance(house, prev, i) > house.pitch * 2.2) {
        line = [];
        if (!section.parts.has(c)) section.parts.set(c, []);
        section.parts.get(c).push(line);
      }
      pushPoint(line, house.x[i], house.y[i], house.pitch * 0.12);
      prev = i;
    }
  }
  for (const section of sections) {
    if (!section.seats) continue;
    section.cx /= section.seats;
    section.cy /= section.seats;
    // A ring's middle is empty: the label moves to its nearest seat.
    const i = house.grid.nearest(section.cx, section.cy, Infinity, (k) => house.zone[k] === section.zone);
    if (i >= 0 && Math.hypot(house.x[i] - section.cx, house.y[i] - section.cy) > house.pitch * 4) {
      section.cx = house.x[i];
      section.cy = house.y[i];
    }
  }
  return sections.filter((q) => q.seats > 0);
}

// Adds a point; the one before it goes when it lies on the way.
function pushPoint(line, x, y, tolerance) {
  const n = line.length;
  if (n >= 4) {
    const ax = line[n - 4], ay = line[n - 3], bx = line[n - 2], by = line[n - 1];
    const length = Math.hypot(x - ax, y - ay) || 1;
    const off = Math.abs((x - ax) * (by - ay) - (y - ay) * (bx - ax)) / length;
    const ahead = (bx - ax) * (x - bx) + (by - ay) * (y - by) >= 0;
    if (off < tolerance && ahead) {
      line[n - 2] = x;
      line[n - 1] = y;
      return;
    }
  }
  line.push(x, y);
}
