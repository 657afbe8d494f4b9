import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem, Unreachable } from '../../../internal/web/assets/api.js';
import { House } from '../../../internal/web/assets/house.js';
import { Purchase } from '../../../internal/web/assets/purchase.js';
import { MapStore } from '../../../internal/web/assets/store.js';

const memory = () => {
  const kept = new Map();
  return { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, String(v)), removeItem: (k) => kept.delete(k) };
};

// A row of ten seats at 10.00 and one reader before it.
function scene({ limit = 4, storage = memory(), orders = [], states = '0000000000' } = {}) {
  const n = states.length;
  const column = (f) => Array.from({ length: n }, (_, k) => f(k));
  const house = new House({
    categories: [{ name: 'A', color: '#888888', price: 1000 }], zones: [{ name: 'Stalls', areas: [] }],
    seats: { id: column((k) => k + 1), x: column((k) => k * 30), y: column(() => 0), zone: column(() => 0), category: column(() => 0), row: column(() => '1'), number: column((k) => String(k + 1)) },
  });
  const store = new MapStore();
  store.snapshot({ revision: '1.0', states });
  let revision = 0;
  const events = [], later = [];
  const api = {
    posts: [], orderList: orders,
    answer: () => { throw new Error('no answer given'); },
    async call(method, path, { body, headers }) {
      this.posts.push({ method, path, body, key: headers['Idempotency-Key'] });
      return this.answer(body);
    },
    async orders() { return structuredClone(this.orderList); },
    async order(no) { return structuredClone(this.orderList.find((o) => o.no === no)); },
  };
  const purchase = new Purchase({
    api, house, store, storage, show: { id: 1, limitPerUser: limit, currency: 'EUR' },
    onEvent: (type, data) => events.push([type, data]), later: (fn) => { later.push(fn); return 1; },
  });
  const change = (status, delta, ...ids) => store.update({ revision: `1.${++revision}`, updates: ids.map((seatId) => ({ seatId, status, delta })) });
  return { purchase, store, api, events, later, change, storage };
}

const order = (no, state, ids, version = 1) => ({
  no, showId: 1, state, version, seats: ids.map((seatId) => ({ seatId, price: 1000, zone: 'Stalls', row: '1', number: String(seatId) })),
  total: { amount: ids.length * 1000, currency: 'EUR' }, deadline: new Date(Date.now() + 60_000).toISOString(), createdAt: new Date().toISOString(),
});
const names = (events) => events.map(([type]) => type);

test('seats are selected up to the limit, own seats counted', async () => {
  const { purchase, events, api } = scene({ limit: 3, states: '2000010000' });
  api.orderList = [order('A', 'paid', [1])];
  await purchase.refresh();
  for (const i of [1, 2, 3]) purchase.toggle(i);
  purchase.toggle(5); // held by someone
  purchase.toggle(0); // our own
  purchase.toggle(1);
  assert.deepEqual(names(events), ['selected', 'selected', 'limit', 'notFree', 'notFree', 'unselected']);
  assert.deepEqual([...purchase.selected], [2]);
  assert.equal(purchase.sum, 1000);
});

test('a hold takes the seats and clears the selection', async () => {
  const { purchase, api, events } = scene();
  purchase.toggle(1);
  purchase.toggle(0);
  api.answer = () => order('A', 'pending', [1, 2]);
  await purchase.hold();
  assert.deepEqual(api.posts[0].body, { showId: 1, seats: [1, 2] });
  assert.equal(purchase.order.no, 'A');
  assert.equal(purchase.selected.size, 0);
  assert.deepEqual([...purchase.own], [0, 1]);
  assert.deepEqual(names(events).at(-1), 'held');
});

test('a conflict says which seats went and keeps the rest, under a new key', async () => {
  const { purchase, api, events, change } = scene();
  for (const i of [0, 1, 2]) purchase.toggle(i);
  api.answer = () => {
    change('held', 1, 2); // the winner's hold is on the map before the refusal arrives
    throw new Problem(409, { code: 3002, detail: 'taken', seats: [2], available: [1, 3] }, null);
  };
  await purchase.hold();
  const [type, data] = events.at(-1);
  assert.equal(type, 'conflict');
  assert.deepEqual(data, { seats: [1], kept: 2 });
  assert.deepEqual([...purchase.selected], [0, 2]);
  api.answer = () => order('A', 'pending', [1, 3]);
  await purchase.hold();
  assert.deepEqual(api.posts[1].body.seats, [1, 3]);
  assert.notEqual(api.posts[1].key, api.posts[0].key);
});

test('own seats that show as held while the answer is on its way stay selected', async () => {
  const { purchase, api, change, events } = scene();
  purchase.toggle(4);
  api.answer = () => {
    change('held', 1, 5);
    assert.deepEqual([...purchase.selected], [4]);
    return order('A', 'pending', [5]);
  };
  await purchase.hold();
  assert.ok(!names(events).includes('gone'));
});

test('a selected seat that someone else takes leaves the selection', () => {
  const { purchase, events, change } = scene();
  purchase.toggle(4);
  purchase.toggle(5);
  change('held', 1, 5);
  assert.deepEqual(events.at(-1), ['gone', { seats: [4] }]);
  assert.deepEqual([...purchase.selected], [5]);
});

test('asking again after no answer uses the same key', async () => {
  const { purchase, api, events, later } = scene();
  purchase.toggle(0);
  api.answer = () => { throw new Problem(409, { code: 3008, detail: 'closed' }, null); };
  await purchase.hold();
  assert.equal(events.at(-1)[0], 'failed');
  const refused = api.posts[0].key;
  api.answer = () => { throw new Unreachable(); };
  const sent = purchase.hold();
  // Six attempts with their pauses would take seconds: let time fly.
  await fly(sent);
  const open = api.posts.slice(1).map((p) => p.key);
  assert.equal(open.length, 6);
  assert.equal(new Set(open).size, 1);
  assert.notEqual(open[0], refused);
  assert.equal(later.length, 1);
  api.answer = () => order('A', 'pending', [1]);
  await purchase.hold();
  assert.equal(api.posts.at(-1).key, open[0]);
});

async function fly(promise) {
  const real = globalThis.setTimeout;
  globalThis.setTimeout = (fn) => real(fn, 0);
  try {
    await promise;
  } finally {
    globalThis.setTimeout = real;
  }
}

test('a reload in the middle finds the pending order, or finishes the confirmation', async () => {
  const first = scene();
  first.api.orderList = [order('A', 'pending', [3])];
  await first.purchase.begin(null);
  assert.equal(first.purchase.order.no, 'A');
  assert.deepEqual(names(first.events), ['found']);

  const storage = memory();
  storage.setItem('seatflow.confirming', JSON.stringify({ showId: 1, seats: [7], key: 'key-of-before', at: Date.now() }));
  const second = scene({ storage });
  second.api.answer = () => order('B', 'pending', [7]);
  await second.purchase.begin(null);
  assert.equal(second.api.posts[0].key, 'key-of-before');
  assert.equal(second.purchase.order.no, 'B');
  assert.equal(storage.getItem('seatflow.confirming'), null);
});

test('the end of an order is told once, and an older answer does not undo it', async () => {
  const { purchase, api, events } = scene();
  api.orderList = [order('A', 'pending', [3], 1)];
  await purchase.begin(null);
  api.orderList = [order('A', 'paid', [3], 2)];
  await purchase.refresh();
  api.orderList = [order('A', 'pending', [3], 1)];
  await purchase.refresh();
  assert.equal(purchase.order.state, 'paid');
  assert.deepEqual(names(events), ['found', 'paid']);
});

test('a hold whose time is over is asked about, and frees its seats', async () => {
  const { purchase, api, events } = scene();
  api.orderList = [order('A', 'pending', [3], 1)];
  await purchase.begin(null);
  const deadline = Date.parse(purchase.order.deadline);
  api.orderList = [order('A', 'expired', [3], 2)];
  purchase.tick(deadline - 1);
  await new Promise(setImmediate);
  assert.equal(purchase.order.state, 'pending');
  purchase.tick(deadline);
  await new Promise(setImmediate);
  assert.equal(purchase.order.state, 'expired');
  assert.equal(purchase.own.size, 0);
  assert.deepEqual(names(events).at(-1), 'expired');
});

test('the map tells that something happened to own seats', async () => {
  const { purchase, api, later, change } = scene({ states: '0010000000' });
  api.orderList = [order('A', 'pending', [3], 1)];
  await purchase.begin(null);
  api.orderList = [order('A', 'paid', [3], 2)];
  change('sold', 0, 3);
  assert.equal(later.length, 1);
  later[0]();
  await new Promise(setImmediate);
  assert.equal(purchase.order.state, 'paid');
});
