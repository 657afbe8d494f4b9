import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BLOCKED, FREE, HELD, MapStore, NONE, SOLD, parseRevision } from '../../../internal/web/assets/store.js';

const fresh = (states = '0000', revision = '1.5') => {
  const store = new MapStore();
  assert.equal(store.snapshot({ revision, states }), 'applied');
  return store;
};
const update = (revision, ...seats) => ({ revision, updates: seats.map(([seatId, status, delta]) => ({ seatId, status, delta })) });

test('a revision is two numbers', () => {
  assert.deepEqual(parseRevision('3.17'), { generation: 3, number: 17 });
  for (const bad of ['', '3', '3.', '.1', '-1.2', '3.17.1', 'a.b', null, undefined]) assert.equal(parseRevision(bad), null, String(bad));
});

test('a snapshot is taken whole and counted', () => {
  const store = fresh('012x-0');
  assert.deepEqual(store.counts, { available: 2, held: 1, sold: 1, blocked: 1 });
  assert.deepEqual([1, 2, 3, 4, 5, 6].map((id) => store.state(id)), [FREE, HELD, SOLD, BLOCKED, NONE, FREE]);
  assert.equal(store.state(0), NONE);
  assert.equal(store.state(7), NONE);
});

test('updates are applied in order and counted', () => {
  const store = fresh();
  const heard = [];
  store.listen((ids) => heard.push(ids));
  assert.equal(store.update(update('1.6', [1, 'held', 1], [2, 'held', 1])), 'applied');
  assert.equal(store.update(update('1.7', [1, 'sold', 0])), 'applied');
  assert.equal(store.update(update('1.8', [2, 'available', -1])), 'applied');
  assert.deepEqual(store.counts, { available: 3, held: 0, sold: 1, blocked: 0 });
  assert.equal(store.revisionText, '1.8');
  assert.deepEqual(heard, [[1, 2], [1], [2]]);
});

test('a merged burst may step by more than one', () => {
  const store = fresh();
  assert.equal(store.update(update('1.9', [1, 'sold', 1], [3, 'held', 1])), 'applied');
  assert.equal(store.revisionText, '1.9');
});

test('what was seen is dropped', () => {
  const store = fresh();
  store.update(update('1.6', [1, 'held', 1]));
  assert.equal(store.update(update('1.6', [1, 'held', 1])), 'seen');
  assert.equal(store.update(update('1.4', [1, 'available', -1])), 'seen');
  assert.equal(store.update(update('0.99', [1, 'available', -1])), 'seen');
  assert.equal(store.snapshot({ revision: '1.3', states: '0000' }), 'seen');
  assert.equal(store.state(1), HELD);
});

test('an update that does not fit asks for a snapshot and changes nothing', () => {
  const store = fresh();
  for (const bad of [
    update('1.7', [1, 'sold', 0]), // its hold was missed
    update('1.7', [2, 'held', 1], [1, 'available', -1]), // was never taken here
    update('1.7', [5, 'held', 1]), // no such seat
    update('1.7', [1, 'folded', 1]),
    update('nonsense', [1, 'held', 1]),
    { revision: '1.7' },
  ]) assert.equal(store.update(bad), 'gap', JSON.stringify(bad));
  assert.deepEqual(store.counts, { available: 4, held: 0, sold: 0, blocked: 0 });
  assert.equal(store.revisionText, '1.5');
});

test('a new generation asks for a snapshot, and its snapshot counts from the start', () => {
  const store = fresh('0000', '1.50');
  assert.equal(store.update(update('2.1', [1, 'held', 1])), 'gap');
  assert.equal(store.snapshot({ revision: '2.0', states: '0200' }), 'applied');
  assert.equal(store.state(2), SOLD);
  assert.equal(store.update(update('2.1', [1, 'held', 1])), 'applied');
});

test('without a snapshot nothing is applied', () => {
  assert.equal(new MapStore().update(update('1.1', [1, 'held', 1])), 'gap');
});

test('a later snapshot tells which seats changed', () => {
  const store = fresh('0000', '1.5');
  let heard = null;
  store.listen((ids) => { heard = ids; });
  store.snapshot({ revision: '1.9', states: '0102' });
  assert.deepEqual(heard, [2, 4]);
});

test('a snapshot without its parts is refused', () => {
  const store = new MapStore();
  assert.equal(store.snapshot({ revision: 'x', states: '00' }), 'bad');
  assert.equal(store.snapshot({ revision: '1.1' }), 'bad');
  assert.equal(store.ready, false);
});
