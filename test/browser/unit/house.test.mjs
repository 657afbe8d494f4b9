import assert from 'node:assert/strict';
import { test } from 'node:test';
import { between, Camera } from '../../../internal/web/assets/camera.js';
import { contrast, parse, standOut } from '../../../internal/web/assets/color.js';
import { Grid } from '../../../internal/web/assets/grid.js';
import { House } from '../../../internal/web/assets/house.js';
import { rowMatches, searchTokens } from '../../../internal/web/assets/list.js';
import { tail } from '../../../internal/web/assets/paint.js';

// rows × seats, 30 apart, in two zones side by side.
function plan(rows = 4, seats = 6) {
  const s = { id: [], x: [], y: [], zone: [], category: [], row: [], number: [] };
  for (let z = 0; z < 2; z++) {
    for (let r = 0; r < rows; r++) {
      for (let q = 0; q < seats; q++) {
        s.id.push(s.id.length + 1);
        s.x.push(z * (seats + 3) * 30 + q * 30);
        s.y.push(r * 34);
        s.zone.push(z);
        s.category.push(r === 0 ? 0 : 1);
        s.row.push(String(r + 1));
        s.number.push(`${r + 1}-${q + 1}`);
      }
    }
  }
  return { name: 'Test', categories: [{ name: 'A', color: '#7f4a91', price: 2500 }, { name: 'B', color: '#fff7aa', price: null }], zones: [{ name: 'Left', areas: [] }, { name: 'Right', areas: [] }], seats: s };
}

test('a house knows its rows, sections and scale', () => {
  const house = new House(plan());
  assert.equal(house.n, 48);
  assert.equal(house.rows.length, 8);
  assert.equal(house.pitch, 30);
  assert.equal(house.usualR, 10);
  assert.equal(house.at(13), 12);
  assert.equal(house.at(999), -1);
  assert.equal(house.price(0), 2500);
  assert.equal(house.price(47), null);
  assert.deepEqual(house.sections.map((s) => [s.name, s.seats]), [['Left', 24], ['Right', 24]]);
  // A straight row is a line of two ends, by category.
  assert.deepEqual(house.sections[0].parts.get(0), [[0, 0, 150, 0]]);
});

test('an empty house, a lone seat and radii of their own are drawn as well', () => {
  const none = new House({ ...plan(), seats: { id: [], x: [], y: [], zone: [], category: [], row: [], number: [] } });
  assert.equal(none.n, 0);
  assert.equal(none.sections.length, 0);
  const one = new House({ ...plan(), seats: { id: [9], x: [5], y: [5], zone: [0], category: [0], row: ['1'], number: ['1'], radius: [22] } });
  assert.equal(one.r[0], 22);
  assert.equal(one.sections[0].seats, 1);
});

test('a seat has neighbours in four directions, over an aisle too', () => {
  const house = new House(plan());
  const go = (i, dx, dy) => house.grid.neighbour(i, dx, dy, house.pitch);
  assert.equal(go(0, 1, 0), 1);
  assert.equal(go(1, -1, 0), 0);
  assert.equal(go(0, 0, 1), 6);
  assert.equal(go(6, 0, -1), 0);
  assert.equal(go(5, 1, 0), 24); // across the aisle, the same row
  assert.equal(go(0, -1, 0), -1);
  assert.equal(go(0, 0, -1), -1);
});

test('every seat can be reached with the arrow keys', () => {
  const house = new House(plan(7, 9));
  const seen = new Set([0]);
  for (const queue = [0]; queue.length;) {
    const i = queue.pop();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      const j = house.grid.neighbour(i, dx, dy, house.pitch);
      if (j >= 0 && !seen.has(j)) {
        seen.add(j);
        queue.push(j);
      }
    }
  }
  assert.equal(seen.size, house.n);
});

test('the grid answers like a plain search', () => {
  let seed = 42;
  const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
  const xs = Float64Array.from({ length: 500 }, () => random() * 1000), ys = Float64Array.from({ length: 500 }, () => random() * 400);
  const grid = new Grid(xs, ys, 25);
  for (let k = 0; k < 50; k++) {
    const [x0, x1] = [random() * 1100 - 50, random() * 1100 - 50].sort((a, b) => a - b);
    const [y0, y1] = [random() * 500 - 50, random() * 500 - 50].sort((a, b) => a - b);
    const got = [];
    grid.query(x0, y0, x1, y1, (i) => got.push(i));
    const want = [...xs.keys()].filter((i) => xs[i] >= x0 && xs[i] <= x1 && ys[i] >= y0 && ys[i] <= y1);
    assert.deepEqual(got.sort((a, b) => a - b), want);
    assert.ok(grid.estimate(x0, y0, x1, y1) >= want.length);
    const near = grid.nearest(x0, y0, 2000);
    const best = [...xs.keys()].reduce((a, b) => ((xs[b] - x0) ** 2 + (ys[b] - y0) ** 2 < (xs[a] - x0) ** 2 + (ys[a] - y0) ** 2 ? b : a));
    assert.equal(near, best);
  }
});

test('far-flung points do not make a grid without end', () => {
  const grid = new Grid([0, 1e9], [0, 1e9], 1);
  assert.ok(grid.cols * grid.rows < 1000);
  assert.equal(grid.nearest(1e9, 1e9, 10), 1);
});

test('the camera fits, zooms around a point and stays on the house', () => {
  const cam = new Camera({ x: 0, y: 0, w: 1000, h: 500 }, 10);
  cam.resize(800, 600);
  cam.set(cam.fitted());
  assert.ok(cam.screenX(0) >= 0 && cam.screenX(1000) <= 800);
  const wx = cam.worldX(200), wy = cam.worldY(300);
  cam.set(cam.zoomed(200, 300, 1.7));
  assert.ok(Math.abs(cam.screenX(wx) - 200) < 1e-6 && Math.abs(cam.screenY(wy) - 300) < 1e-6);
  cam.pan(-1e6, 1e6);
  assert.ok(cam.worldX(400) <= 1000 && cam.worldY(300) >= 0);
  cam.set(cam.zoomed(0, 0, 1e9));
  assert.equal(cam.scale, cam.maxScale);
  cam.set(cam.zoomed(0, 0, 1e-9));
  assert.equal(cam.scale, cam.minScale);
  assert.equal(cam.revealing(500, 250), null);
});

test('a glide begins and ends where it should', () => {
  const a = { scale: 1, x: 0, y: 0 }, b = { scale: 4, x: 300, y: 100 };
  for (const [f, want] of [[0, a], [1, b]]) {
    const got = between(a, b, f, 800, 600);
    for (const k of ['scale', 'x', 'y']) assert.ok(Math.abs(got[k] - want[k]) < 1e-6, `${k} at ${f}`);
  }
  const still = between(a, { scale: 1, x: 50, y: 0 }, 0.5, 800, 600);
  assert.equal(still.x, 25);
});

test('colours of a plan are moved until they stand out', () => {
  assert.deepEqual(parse('#0af'), [0, 170, 255]);
  assert.ok(contrast('#fff7aa', '#ffffff') < 3);
  assert.ok(contrast(standOut('#fff7aa', '#ffffff', 3), '#ffffff') >= 3);
  assert.ok(contrast(standOut('#101040', '#161b22', 3), '#161b22') >= 3);
  assert.equal(contrast('#000000', '#ffffff'), 21);
});

test('a search reads rows and seats in both languages', () => {
  assert.deepEqual(searchTokens('Row 3, seat 12'), ['3', '12']);
  assert.deepEqual(searchTokens('3 排 12 座'), ['3', '12']);
  assert.ok(rowMatches({ name: '3' }, 'Stalls', ['3']));
  assert.ok(!rowMatches({ name: '13' }, 'Stalls', ['3']));
  assert.ok(rowMatches({ name: '9' }, 'Ground floor', searchTokens('ground')));
  assert.equal(tail('12-4', '12'), '4');
  assert.equal(tail('12', '12'), '12');
  assert.equal(tail('A7', 'A'), 'A7');
});
