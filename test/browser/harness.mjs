// What the browser tests share: a browser, readers with a page each, and the
// staff's hands behind the scenes (halls, plans, shows, blocks) through the
// public API.
//
// SEATFLOW_URL and SEATFLOW_ADMIN_TOKEN name the server; CHROMIUM the browser.
// Every page is watched: an error on its console, an uncaught exception, a
// refused asset or a violation of the content security policy fails the test.

import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';

export const base = process.env.SEATFLOW_URL?.replace(/\/$/, '');
const admin = process.env.SEATFLOW_ADMIN_TOKEN;
assert.ok(base && admin, 'SEATFLOW_URL and SEATFLOW_ADMIN_TOKEN must be set; run the tests through go test');

const WAIT_MS = 20_000; // for anything that must happen at all, on a busy machine

let browser;

/** Starts one browser for the test file and closes it at the end. */
export function useBrowser() {
  before(async () => {
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    });
  });
  after(() => browser?.close());
}

/** A reader: a browser context of its own with one page, watched for errors. */
export async function reader(t, options = {}) {
  const { allow = [], ...rest } = options;
  const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 1280, height: 860 }, ...rest });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const faults = [];
  page.on('console', (m) => {
    if (m.type() === 'error' && !allow.some((a) => m.text().includes(a))) faults.push(`console: ${m.text()}`);
  });
  page.on('pageerror', (e) => faults.push(`uncaught: ${e.stack ?? e.message}`));
  page.on('requestfailed', (r) => {
    const reason = r.failure()?.errorText ?? '';
    if (!reason.includes('ERR_ABORTED') && !allow.some((a) => reason.includes(a))) faults.push(`request: ${r.url()} ${reason}`);
  });
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (e) => console.error(`CSP: ${e.violatedDirective} ${e.blockedURI}`));
  });
  t.after(async () => {
    await context.close();
    assert.deepEqual(faults, [], 'the page reported errors');
  });
  return page;
}

/** One call as the administrator. */
export async function staff(method, path, body) {
  const answer = await fetch(`${base}/api/v1${path}`, {
    method, headers: { Authorization: `Bearer ${admin}`, 'Content-Type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text.slice(0, 500)}`);
  return text ? JSON.parse(text) : null;
}

/** A buyer without a browser: seats taken behind the readers' backs. */
export async function rival() {
  const { token } = await (await fetch(`${base}/api/v1/guests`, { method: 'POST' })).json();
  const call = async (method, path, body) => {
    const answer = await fetch(`${base}/api/v1${path}`, {
      method, headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', 'Idempotency-Key': crypto.randomUUID() }, body: body && JSON.stringify(body),
    });
    return { status: answer.status, body: await answer.json() };
  };
  return {
    take: (showId, seats) => call('POST', '/orders', { showId, seats }),
    cancel: (no) => call('POST', `/orders/${no}/cancel`),
  };
}

/** A plan document of two zones. */
export function smallPlan(rows = 6, seats = 10) {
  const zone = (name, y, count, prefix, category) => ({
    name, position: { x: 0, y },
    rows: Array.from({ length: count }, (_, r) => ({
      row_number: String(r + 1), position: { x: 0, y: r * 36 },
      seats: Array.from({ length: seats }, (_, q) => ({
        seat_guid: `${prefix}-${r + 1}-${q + 1}`, seat_number: String(q + 1), position: { x: 40 + q * 30 + (q >= seats / 2 ? 30 : 0), y: 0 }, category,
      })),
    })),
  });
  const stalls = zone('Stalls', 90, rows, 's', 'Stalls');
  stalls.areas = [{
    shape: 'rectangle', color: '#e6e8ec', border_color: '#c0c6d0', rotation: 0, position: { x: 40, y: -80 },
    rectangle: { width: seats * 30, height: 36 }, text: { position: { x: seats * 15, y: 18 }, color: '#333333', text: 'STAGE' },
  }];
  return {
    name: 'Little House', size: { width: 40 + seats * 30 + 70, height: 90 + (rows + 4) * 36 },
    categories: [{ name: 'Stalls', color: '#2f6db5' }, { name: 'Balcony', color: '#b5533c' }],
    zones: [stalls, zone('Balcony', 90 + rows * 36 + 50, 2, 'b', 'Balcony')],
  };
}

/** A plan document of a stadium: sections in a ring, 60,000 seats. */
export function stadiumPlan(wanted = 60_000) {
  const sections = 40, zones = [];
  const perSection = wanted / sections, perRow = 50;
  for (let k = 0; k < sections; k++) {
    const angle = (k / sections) * 2 * Math.PI;
    const ux = Math.cos(angle), uy = Math.sin(angle);
    const rows = [];
    for (let r = 0; r < perSection / perRow; r++) {
      rows.push({
        row_number: String(r + 1), position: { x: 0, y: 0 },
        seats: Array.from({ length: perRow }, (_, q) => {
          const out = 8200 + r * 26, side = (q - (perRow - 1) / 2) * 24;
          return { seat_guid: `${k}-${r}-${q}`, seat_number: String(q + 1), position: { x: Math.round(out * ux - side * uy), y: Math.round(out * uy + side * ux) }, category: k % 2 ? 'East' : 'West' };
        }),
      });
    }
    zones.push({ name: `Block ${k + 1}`, position: { x: 9500, y: 9500 }, rows });
  }
  return { name: 'Stadium', size: { width: 19000, height: 19000 }, categories: [{ name: 'East', color: '#2f6db5' }, { name: 'West', color: '#3f8f6a' }], zones };
}

/** A show on sale in a hall of its own; returns it with its id. */
export async function newShow({ plan = smallPlan(), zone = 'Europe/Berlin', title = 'The Test', ...rest } = {}) {
  const hall = await staff('POST', '/admin/halls', { name: `Hall of ${title}`, zone });
  await staff('POST', `/admin/halls/${hall.id}/plans`, plan);
  const starts = Date.now() + 7 * 86_400_000;
  return staff('POST', '/admin/shows', {
    hallId: hall.id, title, starts: new Date(starts).toISOString(), ends: new Date(starts + 7_200_000).toISOString(),
    currency: 'EUR', prices: Object.fromEntries(plan.categories.map((c, k) => [c.name, 2500 + 1000 * k])), ...rest,
  });
}

/** A wire to the server that can be cut: every connection through it breaks until it is mended. */
export async function wire(t) {
  const target = new URL(base);
  const open = new Set();
  let cut = false;
  const server = net.createServer((near) => {
    if (cut) return near.destroy();
    const far = net.connect(Number(target.port), target.hostname);
    for (const [a, b] of [[near, far], [far, near]]) {
      open.add(a);
      a.pipe(b);
      a.on('error', () => b.destroy());
      a.on('close', () => {
        open.delete(a);
        b.destroy();
      });
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  t.after(() => {
    for (const s of open) s.destroy();
    return new Promise((done) => server.close(done));
  });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut() {
      cut = true;
      for (const s of open) s.destroy();
    },
    mend() {
      cut = false;
    },
  };
}

/** Opens a show's page and waits until its map is drawn and live. */
export async function open(page, show, at = base) {
  await page.goto(`${at}/shows/${show.id}`);
  await page.waitForFunction(() => window.seatflow?.ready && document.querySelector('[data-testid=net]').dataset.state === 'live' && window.seatflow.frames > 0);
}

/** What the page knows of a seat. */
export const seat = (page, id) => page.evaluate((i) => window.seatflow.seat(i), id);

/** Waits for a seat to be so: {state, own, selected}. */
export function seatIs(page, id, want) {
  return page.waitForFunction(([i, w]) => {
    const s = window.seatflow.seat(i);
    return s && Object.entries(w).every(([k, v]) => s[k] === v);
  }, [id, want]);
}

/** Clicks seats on the canvas. */
export async function pick(page, ...ids) {
  for (const id of ids) {
    const { x, y } = await seat(page, id);
    await page.mouse.click(x, y);
    await seatIs(page, id, { selected: true });
  }
}

/** Waits until the page's order is in a state. */
export const orderIs = (page, state) => page.waitForFunction((s) => window.seatflow.order?.state === s, state);

/** Every text that the page has spoken to screen readers since listen(). */
export async function listen(page) {
  await page.evaluate(() => {
    window.spoken = [];
    for (const id of ['say', 'alert']) {
      const el = document.getElementById(id);
      new MutationObserver(() => el.textContent && window.spoken.push(el.textContent)).observe(el, { childList: true, characterData: true, subtree: true });
    }
  });
}

/** Waits until something that matches was spoken, and returns it. */
export async function heard(page, pattern) {
  const handle = await page.waitForFunction((source) => window.spoken.find((s) => new RegExp(source).test(s)), pattern.source);
  return handle.jsonValue();
}
