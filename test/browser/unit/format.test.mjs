import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countdown, fractionDigits, money, moneyCode, priceRange, when } from '../../../internal/web/assets/format.js';
import { ServerClock } from '../../../internal/web/assets/clock.js';
import { saleState } from '../../../internal/web/assets/sale.js';
import { retryAfter } from '../../../internal/web/assets/api.js';

test('money is shown in major units of its own currency', () => {
  assert.equal(money(2500, 'EUR', 'en'), '€25.00');
  assert.equal(money(2500, 'JPY', 'en'), '¥2,500');
  assert.equal(fractionDigits('BHD'), 3);
  assert.equal(moneyCode(2500, 'EUR', 'en'), '25.00 EUR');
  assert.equal(moneyCode(123456789, 'EUR', 'en'), '1,234,567.89 EUR');
});

test('a price range has one price when all are equal', () => {
  assert.equal(priceRange({ A: 1500, B: 4200 }, 'EUR', 'en'), '€15.00 – €42.00');
  assert.equal(priceRange({ A: 1500, B: 1500 }, 'EUR', 'en'), '€15.00');
  assert.equal(priceRange({}, 'EUR', 'en'), null);
});

test('times are those of the hall, on the date itself', () => {
  assert.match(when('2026-03-28T19:30:00Z', 'Europe/Berlin', 'en'), /20:30/);
  assert.match(when('2026-03-29T19:30:00Z', 'Europe/Berlin', 'en'), /21:30/); // the clocks have changed
  assert.match(when('2026-03-28T19:30:00Z', 'Asia/Shanghai', 'zh'), /29日/);
  assert.match(when('2026-03-28T00:10:00Z', 'UTC', 'en'), /00:10/);
  assert.match(when('2026-03-28T19:30:00Z', 'Nowhere/Land', 'en'), /19:30 UTC/);
});

test('a countdown rounds up and never goes below zero', () => {
  assert.equal(countdown(899_001), '15:00');
  assert.equal(countdown(60_000), '1:00');
  assert.equal(countdown(1), '0:01');
  assert.equal(countdown(0), '0:00');
  assert.equal(countdown(-5000), '0:00');
});

test('the server clock closes in on the offset', () => {
  const clock = new ServerClock(() => 1_000_000);
  assert.equal(clock.now(), 1_000_000);
  // The server is 5,300 ms ahead; its Date shows whole seconds only.
  const answer = (sent, received) => clock.observe(new Date(Math.floor((sent + 5300) / 1000) * 1000).toUTCString(), sent, received);
  answer(100_000, 100_040);
  assert.ok(Math.abs(clock.offset - 5300) <= 1000);
  for (let t = 0; t < 1000; t += 50) answer(200_000 + t, 200_020 + t);
  assert.ok(Math.abs(clock.offset - 5300) <= 60, String(clock.offset));
});

test('a clock that was set starts over, and nonsense is ignored', () => {
  const clock = new ServerClock(() => 0);
  clock.observe(new Date(10_000).toUTCString(), 0, 10);
  clock.observe('yesterday', 0, 10);
  clock.observe(null, 0, 10);
  assert.ok(clock.offset > 9000);
  clock.observe(new Date(100_000).toUTCString(), 0, 10);
  assert.ok(clock.offset > 99_000);
});

test('a show is on sale within its half-open window', () => {
  const t = (key, values) => key + (values?.when ?? '');
  const show = { status: 'published', saleFrom: '2026-01-01T10:00:00Z', saleUntil: '2026-01-02T10:00:00Z', onSale: true, counts: { available: 1, held: 0, sold: 1 } };
  const at = (text) => saleState(show, Date.parse(text), (x) => x, t).state;
  assert.equal(at('2026-01-01T09:59:59Z'), 'soon');
  assert.equal(at('2026-01-01T10:00:00Z'), 'on');
  assert.equal(at('2026-01-02T09:59:59Z'), 'on');
  assert.equal(at('2026-01-02T10:00:00Z'), 'over');
  show.counts = { available: 0, held: 0, sold: 2 };
  assert.equal(at('2026-01-01T12:00:00Z'), 'soldOut');
  show.status = 'cancelled';
  assert.equal(at('2026-01-01T12:00:00Z'), 'cancelled');
});

test('Retry-After is seconds or a date', () => {
  assert.equal(retryAfter('2'), 2000);
  assert.equal(retryAfter('Thu, 01 Jan 1970 00:00:05 GMT', 1000), 4000);
  assert.equal(retryAfter(null), null);
  assert.equal(retryAfter('soon'), null);
});
