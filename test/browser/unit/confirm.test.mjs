import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Api, Problem, Unreachable } from '../../../internal/web/assets/api.js';
import { Confirmation, mayRetry, pauseMs } from '../../../internal/web/assets/confirm.js';

const memory = () => {
  const kept = new Map();
  return { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, String(v)), removeItem: (k) => kept.delete(k), kept };
};
const noWait = { sleep: async () => {} };

test('one key serves every attempt of one confirmation', async () => {
  const keys = [];
  const errors = [new Unreachable(), new Problem(503, { code: 2003 }, 1000), new Problem(409, { code: 1005 }, null), new Problem(500, { code: 2000 }, null)];
  const c = new Confirmation({ showId: 1, seats: [3, 4] });
  const order = await c.send(async (body, headers) => {
    assert.deepEqual(body, { showId: 1, seats: [3, 4] });
    keys.push(headers['Idempotency-Key']);
    if (errors.length) throw errors.shift();
    return { no: 'X' };
  }, noWait);
  assert.equal(order.no, 'X');
  assert.equal(keys.length, 5);
  assert.equal(new Set(keys).size, 1);
  assert.ok(keys[0].length >= 16 && keys[0].length <= 64);
  assert.notEqual(new Confirmation({ showId: 1, seats: [3, 4] }).key, keys[0]);
});

test('a refusal is final', async () => {
  let calls = 0;
  const c = new Confirmation({ showId: 1, seats: [3] });
  await assert.rejects(c.send(async () => { calls++; throw new Problem(409, { code: 3002, seats: [3] }, null); }, noWait), { code: 3002 });
  assert.equal(calls, 1);
});

test('attempts are bounded, and an open outcome is remembered for the next visit', async () => {
  const storage = memory();
  let calls = 0;
  const c = new Confirmation({ showId: 7, seats: [3], storage });
  await assert.rejects(c.send(async () => { calls++; throw new Unreachable(); }, noWait), { name: 'Unreachable' });
  assert.equal(calls, 6);
  assert.equal(Confirmation.recall(7, storage).key, c.key);
  assert.deepEqual(Confirmation.recall(7, storage).seats, [3]);
  assert.equal(Confirmation.recall(8, storage), null);
  assert.equal(Confirmation.recall(7, storage, Date.now() + 3_600_000), null);
});

test('an answered confirmation is forgotten', async () => {
  const storage = memory();
  await new Confirmation({ showId: 7, seats: [3], storage }).send(async () => ({}), noWait);
  assert.equal(Confirmation.recall(7, storage), null);
  await assert.rejects(new Confirmation({ showId: 7, seats: [3], storage }).send(async () => { throw new Problem(409, { code: 3002 }, null); }, noWait));
  assert.equal(Confirmation.recall(7, storage), null);
});

test('only open outcomes may be tried again', () => {
  for (const [err, yes] of [
    [new Unreachable(), true], [new Problem(500, {}, null), true], [new Problem(503, {}, null), true], [new Problem(429, {}, null), true],
    [new Problem(409, { code: 1005 }, null), true], [new Problem(409, { code: 3002 }, null), false], [new Problem(422, {}, null), false],
    [new Problem(401, {}, null), false], [new TypeError('bug'), false],
  ]) assert.equal(mayRetry(err), yes, String(err));
});

test('the pause honours Retry-After and is bounded', () => {
  assert.equal(pauseMs(new Problem(503, {}, 2000), 1, () => 0.5), 2000);
  assert.equal(pauseMs(new Problem(503, {}, 600_000), 1, () => 0.5), 10_000);
  assert.equal(pauseMs(new Unreachable(), 1, () => 0.5), 300);
  assert.equal(pauseMs(new Unreachable(), 3, () => 0.5), 1200);
  assert.ok(pauseMs(new Unreachable(), 50, () => 1) <= 5000);
});

const reply = (status, body, headers = {}) => ({ ok: status < 400, status, headers: new Headers(headers), text: async () => (body === null ? '' : JSON.stringify(body)) });
const guest = (token) => reply(201, { token, userId: 'guest-1', role: 'buyer', expiresAt: new Date(Date.now() + 3_600_000).toISOString() });

test('one guest token is made for many calls, and once more when it is refused', async () => {
  const storage = memory();
  let minted = 0, refuse = 0;
  const seen = [];
  const api = new Api({ storage, fetch: async (path, init) => {
    if (path === '/api/v1/guests') return guest(`t${++minted}`);
    seen.push(init.headers.Authorization);
    return refuse-- > 0 ? reply(401, { code: 1001 }) : reply(200, {});
  } });
  await Promise.all([api.call('GET', '/a', { as: 'guest' }), api.call('GET', '/b', { as: 'guest' })]);
  assert.equal(minted, 1);
  refuse = 1;
  await api.call('GET', '/c', { as: 'guest' });
  assert.equal(minted, 2);
  assert.deepEqual(seen, ['Bearer t1', 'Bearer t1', 'Bearer t1', 'Bearer t2']);
  refuse = 2;
  await assert.rejects(api.call('GET', '/d', { as: 'guest' }), { status: 401 });
});

test('a token that is over is not sent', async () => {
  const storage = memory();
  storage.setItem('seatflow.guest', JSON.stringify({ token: 'old', expiresAt: new Date(Date.now() - 1000).toISOString() }));
  const api = new Api({ storage, fetch: async () => reply(200, { orders: [{}] }) });
  assert.deepEqual(await api.orders(), []);
  storage.setItem('seatflow.guest', '{broken');
  assert.equal(api.session.existing(), null);
});

test('problems carry what the server said, in the language that was asked for', async () => {
  let asked = '';
  const api = new Api({ storage: memory(), lang: () => 'zh-CN', fetch: async (_path, init) => {
    asked = init.headers['Accept-Language'];
    return reply(409, { code: 3002, detail: '座位已被选走。', seats: [1], available: [2] }, { 'Retry-After': '3' });
  } });
  await assert.rejects(api.call('POST', '/orders', { body: {} }), { name: 'Problem', code: 3002, message: '座位已被选走。', seats: [1], available: [2], retryAfterMs: 3000 });
  assert.equal(asked, 'zh-CN');
});

test('no answer is not a refusal', async () => {
  const api = new Api({ storage: memory(), fetch: async () => { throw new TypeError('network'); } });
  await assert.rejects(api.call('GET', '/shows'), { name: 'Unreachable' });
});
