// Two readers, one house: what one does the other sees, and the loser of a
// race is told which seat went.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base, heard, listen, newShow, open, orderIs, pick, reader, rival, seat, seatIs, staff, useBrowser, wire } from './harness.mjs';

useBrowser();

test('a seat that one buyer takes is taken on the other’s map within a second', async (t) => {
  const show = await newShow({ title: 'Two at once' });
  const anna = await reader(t), ben = await reader(t);
  await Promise.all([open(anna, show), open(ben, show)]);
  assert.equal((await seat(ben, 12)).state, 'available');
  // Ben's page notes the moment by itself, so that only the map is timed.
  await ben.evaluate(() => {
    window.noted = new Promise((done) => {
      const until = Date.now() + 15_000;
      const look = () => {
        const now = Date.now();
        if (window.seatflow.seat(12).state === 'held') done(now);
        else if (now > until) done(Infinity);
        else setTimeout(look, 5);
      };
      look();
    });
    window.loadedAt = performance.timeOrigin;
  });
  await pick(anna, 12, 13);
  const answered = anna.waitForResponse((r) => r.url().endsWith('/api/v1/orders') && r.request().method() === 'POST').then(() => Date.now());
  await anna.getByTestId('hold').click();
  const [tookAt, sawAt] = await Promise.all([answered, ben.evaluate(() => window.noted)]);
  assert.ok(sawAt - tookAt < 1000, `seen ${sawAt - tookAt} ms after the answer`);
  assert.equal(await ben.evaluate(() => performance.timeOrigin === window.loadedAt), true, 'without a reload');

  await orderIs(anna, 'pending');
  await seatIs(anna, 12, { own: true, selected: false });
  assert.match((await seat(anna, 12)).label, /^Row 2, seat 2, Stalls, 25\.00 EUR, yours$/);
  assert.match((await seat(ben, 12)).label, /held by someone$/);

  await anna.getByTestId('cancel').click();
  await orderIs(anna, 'cancelled');
  await seatIs(ben, 12, { state: 'available' });
});

test('the loser of a race is told which seat went, and keeps the rest', async (t) => {
  const show = await newShow({ title: 'One chair' });
  const anna = await reader(t, { allow: ['409'] });
  const other = await rival();
  await open(anna, show);
  await listen(anna);
  await pick(anna, 21, 22, 23);
  // The winner's order arrives while the loser's own is on its way.
  await anna.route('**/api/v1/orders', async (route) => {
    if (route.request().method() === 'POST') assert.equal((await other.take(show.id, [22])).status, 201);
    await route.continue();
  }, { times: 1 });
  await anna.getByTestId('hold').click();
  const notice = anna.getByTestId('notice');
  await notice.waitFor();
  assert.match(await notice.innerText(), /row 3, seat 2, Stalls/);
  await heard(anna, /Someone was faster: row 3, seat 2, Stalls/);
  assert.deepEqual(await anna.evaluate(() => window.seatflow.selected), [21, 23]);
  await seatIs(anna, 22, { state: 'held', own: false });
  await notice.getByRole('button', { name: 'Hold the rest' }).click();
  await orderIs(anna, 'pending');
  await seatIs(anna, 23, { own: true });
  assert.deepEqual((await anna.evaluate(() => window.seatflow.order.seats.map((s) => s.seatId))), [21, 23]);
});

test('a selected seat that someone takes leaves the selection, and is named', async (t) => {
  const show = await newShow({ title: 'Gone' });
  const anna = await reader(t);
  const other = await rival();
  await open(anna, show);
  await listen(anna);
  await pick(anna, 31, 32);
  await other.take(show.id, [31]);
  await heard(anna, /Just taken by someone else: row 4, seat 1, Stalls/);
  assert.deepEqual(await anna.evaluate(() => window.seatflow.selected), [32]);
});

test('a hold that runs out frees the seat on both maps and says so', async (t) => {
  const show = await newShow({ title: 'Six seconds', holdSeconds: 6, holdCapSeconds: 60, extendSeconds: 0 });
  const anna = await reader(t), ben = await reader(t);
  await Promise.all([open(anna, show), open(ben, show)]);
  await listen(anna);
  await pick(anna, 5);
  await anna.getByTestId('hold').click();
  await orderIs(anna, 'pending');
  await seatIs(ben, 5, { state: 'held' });
  assert.match(await anna.getByTestId('countdown').innerText(), /^0:0\d$/);
  await orderIs(anna, 'expired');
  await seatIs(anna, 5, { state: 'available', own: false });
  await seatIs(ben, 5, { state: 'available' });
  await heard(anna, /The time ran out/);
  assert.match(await anna.getByTestId('order').innerText(), /The time ran out/);
  await anna.getByTestId('again').click();
  await pick(anna, 5);
});

test('a reload in the middle of a hold finds it again', async (t) => {
  const show = await newShow({ title: 'Reload' });
  const anna = await reader(t);
  await open(anna, show);
  await pick(anna, 7, 8);
  await anna.getByTestId('hold').click();
  await orderIs(anna, 'pending');
  const no = await anna.getByTestId('order-no').innerText();
  const deadline = await anna.evaluate(() => window.seatflow.order.deadline);
  await anna.getByTestId('extend').click();
  await anna.waitForFunction((d) => window.seatflow.order.extended && Date.parse(window.seatflow.order.deadline) > Date.parse(d), deadline);
  await anna.getByTestId('extend').waitFor({ state: 'hidden' });
  await anna.reload();
  await orderIs(anna, 'pending');
  assert.equal(await anna.getByTestId('order-no').innerText(), no);
  await seatIs(anna, 8, { own: true });
  await anna.getByTestId('pay').click();
  await anna.getByTestId('card-bad').check();
  await anna.getByTestId('pay-now').click();
  await anna.getByText('The card was declined').first().waitFor();
  await anna.getByTestId('card-good').check();
  await anna.getByTestId('pay-now').click();
  await orderIs(anna, 'paid');
  await seatIs(anna, 8, { state: 'sold', own: true });
  assert.equal(await anna.getByTestId('order-state').innerText(), 'Paid');
  await anna.getByRole('link', { name: 'See my orders' }).click();
  await anna.getByTestId('orders').getByText(no).waitFor();
});

test('an answer that is lost is asked for again with the same key', async (t) => {
  const show = await newShow({ title: 'Lost answer' });
  const anna = await reader(t, { allow: ['ERR_CONNECTION', 'ERR_FAILED', '503'] });
  await open(anna, show);
  await pick(anna, 9);
  const keys = [];
  await anna.route('**/api/v1/orders', async (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    keys.push(route.request().headers()['idempotency-key']);
    if (keys.length === 1) {
      await route.fetch(); // it arrives and is done, and the answer is lost
      return route.abort('connectionreset');
    }
    if (keys.length === 2) return route.fulfill({ status: 503, headers: { 'Retry-After': '1', 'Content-Type': 'application/problem+json' }, body: '{"status":503,"code":2003,"detail":"not ready"}' });
    return route.continue();
  });
  await anna.getByTestId('hold').click();
  await orderIs(anna, 'pending');
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 1);
  await seatIs(anna, 9, { state: 'held', own: true });
  const orders = await anna.evaluate(async () => {
    const { token } = JSON.parse(localStorage.getItem('seatflow.guest'));
    return (await (await fetch('/api/v1/orders', { headers: { Authorization: `Bearer ${token}` } })).json()).orders;
  });
  assert.equal(orders.length, 1);
});

test('a feed that breaks off resumes where it was', async (t) => {
  const show = await newShow({ title: 'Resume' });
  const line = await wire(t);
  const anna = await reader(t, { allow: ['net::ERR_'] });
  const other = await rival();
  await open(anna, show, line.url);
  const feeds = [];
  anna.on('request', (r) => r.url().includes('/events') && feeds.push(r));
  const before = await anna.evaluate(() => window.seatflow.revision);
  line.cut();
  await anna.waitForFunction(() => document.querySelector('[data-testid=net]').dataset.state !== 'live');
  await other.take(show.id, [41, 42]);
  await staff('POST', `/admin/shows/${show.id}/blocks`, { seats: [50], reason: 'camera' });
  assert.equal((await seat(anna, 42)).state, 'available');
  line.mend();
  await seatIs(anna, 42, { state: 'held' });
  await seatIs(anna, 50, { state: 'blocked' });
  await anna.waitForFunction(() => document.querySelector('[data-testid=net]').dataset.state === 'live');
  const resumed = await Promise.all(feeds.map(async (r) => (await r.allHeaders())['last-event-id'] ?? new URL(r.url()).searchParams.get('lastEventId')));
  assert.ok(resumed.includes(before), `resumed at ${resumed}, not at ${before}`);
});

test('what a buyer does on one device the other shows, without being asked', async (t) => {
  const show = await newShow({ title: 'Two devices' });
  const desk = await reader(t);
  await open(desk, show);
  await pick(desk, 3);
  await desk.getByTestId('hold').click();
  await orderIs(desk, 'pending');
  // A page that looks at nothing by itself: only a notice makes it look.
  const orders = await desk.context().newPage();
  await orders.addInitScript(() => { window.setInterval = () => 0; });
  await orders.goto(`${base}/orders`);
  await orders.locator('#orders [data-state="pending"]').waitFor();
  const phone = await desk.context().newPage();
  await phone.addInitScript(() => { window.setInterval = () => 0; });
  await open(phone, show);
  await orderIs(phone, 'pending');
  await desk.getByTestId('cancel').click();
  await orderIs(desk, 'cancelled');
  await orders.locator('#orders [data-state="cancelled"]').waitFor();
  await seatIs(phone, 3, { own: false });
});
