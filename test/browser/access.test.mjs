// Everybody can buy: with the keyboard alone, from the list, in Chinese, on a
// phone, in the dark.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { base, heard, listen, newShow, open, orderIs, reader, rival, seat, seatIs, useBrowser } from './harness.mjs';

useBrowser();

// Presses Tab until the focus is on what the selector names.
async function tabTo(page, selector, most = 60) {
  for (let n = 0; n < most; n++) {
    await page.keyboard.press('Tab');
    if (await page.evaluate((s) => document.activeElement?.matches(s), selector)) return;
  }
  assert.fail(`Tab does not reach ${selector}`);
}

test('from the list of shows to a paid order with the keyboard alone', async (t) => {
  const show = await newShow({ title: 'Keys only' });
  const page = await reader(t);
  await page.goto(`${base}/`);
  await page.getByRole('link', { name: 'Keys only' }).waitFor();
  await tabTo(page, `a[href="/shows/${show.id}"]`);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => window.seatflow?.ready && window.seatflow.frames > 0);
  await listen(page);
  await tabTo(page, '#map');
  await page.keyboard.press('ArrowRight');
  const first = await page.evaluate(() => window.seatflow.focused);
  const label = (await seat(page, first)).label;
  assert.match(label, /^Row \d+, seat \d+, \w+, \d+\.\d\d EUR, free$/);
  await heard(page, new RegExp(`^${label.replaceAll('.', '\\.')}$`));
  await page.keyboard.press('Space');
  await seatIs(page, first, { selected: true });
  await heard(page, /^Selected: row/);
  await page.keyboard.press('ArrowDown');
  const second = await page.evaluate(() => window.seatflow.focused);
  assert.notEqual(second, first);
  await page.keyboard.press('Enter');
  await seatIs(page, second, { selected: true });
  const before = await page.evaluate(() => window.seatflow.scale);
  await page.keyboard.press('+');
  await page.waitForFunction((s) => window.seatflow.scale > s * 1.2, before);
  await page.keyboard.press('0');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => window.seatflow.focused), null);
  await tabTo(page, '#hold');
  await page.keyboard.press('Enter');
  await orderIs(page, 'pending');
  await heard(page, /^Your seats are held/);
  await tabTo(page, '#pay');
  await page.keyboard.press('Enter');
  await page.getByTestId('paybox').waitFor();
  assert.equal(await page.evaluate(() => document.querySelector('#paybox').contains(document.activeElement)), true);
  await tabTo(page, '#paybox-pay');
  await page.keyboard.press('Enter');
  await orderIs(page, 'paid');
  await heard(page, /^Paid\./);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'order-title');
});

test('the list shows the same seats, filters them and follows the house', async (t) => {
  const show = await newShow({ title: 'By list' });
  const page = await reader(t);
  const other = await rival();
  await open(page, show);
  await page.getByTestId('view-list').click();
  await page.getByTestId('list-search').fill('row 3');
  const chair = page.getByRole('button', { name: 'Row 3, seat 2, Stalls, 25.00 EUR, free' });
  await chair.click();
  await seatIs(page, 22, { selected: true });
  await page.getByRole('button', { name: 'Row 3, seat 2, Stalls, 25.00 EUR, selected', pressed: true }).waitFor();
  await other.take(show.id, [23]);
  await page.getByRole('button', { name: 'Row 3, seat 3, Stalls, 25.00 EUR, held by someone', disabled: true }).waitFor();
  await page.getByTestId('list-search').fill('balcony');
  await page.locator('#list .zone-name', { hasText: 'Balcony' }).waitFor();
  assert.equal(await page.locator('#list details.row').count(), 2);
  await page.getByTestId('list-search').fill('row 99');
  await page.getByText('No seat matches.').waitFor();
  await page.getByTestId('hold').click();
  await orderIs(page, 'pending');
});

test('the page speaks Chinese and English, and so do the server’s errors', async (t) => {
  const show = await newShow({ title: '语言', limitPerUser: 2 });
  const page = await reader(t, { locale: 'zh-CN', allow: ['404'] });
  await page.goto(`${base}/`);
  await page.getByRole('heading', { name: '近期演出' }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-CN');
  await open(page, show);
  assert.equal((await seat(page, 12)).label, '2 排 2 座，Stalls，25.00 EUR，可选');
  await page.getByRole('button', { name: '列表' }).click();
  await page.getByTestId('lang-en').click();
  await page.getByRole('button', { name: 'Plan' }).waitFor();
  assert.equal((await seat(page, 12)).label, 'Row 2, seat 2, Stalls, 25.00 EUR, free');
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'en');
  await page.reload();
  await page.getByRole('button', { name: 'Plan' }).waitFor(); // the switch is kept
  const detail = (lang) => page.evaluate(async (l) => (await (await fetch('/api/v1/shows/999999', { headers: { 'Accept-Language': l } })).json()).detail, lang);
  assert.notEqual(await detail('zh-CN'), await detail('en'));
});

test('an unknown show says so in the reader’s language', async (t) => {
  const page = await reader(t, { locale: 'zh-CN', allow: ['404'] });
  await page.goto(`${base}/shows/999999`);
  const text = await page.locator('#failure-text').filter({ hasText: /\S/ }).innerText();
  assert.match(text, /\p{Script=Han}/u);
});

test('on a phone seats are tapped and the sheet comes up', async (t) => {
  const show = await newShow({ title: 'Pocket' });
  const page = await reader(t, { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: 'dark' });
  await open(page, show);
  const { x, y } = await seat(page, 15);
  await page.touchscreen.tap(x, y);
  // Too small to hit at first: the tap goes closer.
  if (!(await seat(page, 15)).selected) {
    await page.waitForFunction(() => window.seatflow.seat(15).sizePx >= 10);
    const near = await seat(page, 15);
    await page.touchscreen.tap(near.x, near.y);
  }
  await seatIs(page, 15, { selected: true });
  await page.getByTestId('grip').tap();
  await page.getByTestId('hold').tap();
  await orderIs(page, 'pending');
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing sticks out sideways');
});

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// Runs the accessibility rules of WCAG 2.2 AA over the page as it stands.
async function rules(page) {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
    const { violations, passes } = await window.axe.run(document, { runOnly: { type: 'tag', values: tags } });
    return { passed: passes.length, violations: violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html} ${n.any.map((a) => a.message)}`).join(' | ')}`) };
  });
}

for (const colorScheme of ['light', 'dark']) {
  test(`pages keep the accessibility rules in the ${colorScheme} scheme`, async (t) => {
    const show = await newShow({ title: `Rules ${colorScheme}` });
    const page = await reader(t, { colorScheme, reducedMotion: 'reduce' });
    const check = async (where) => {
      const { passed, violations } = await rules(page);
      assert.ok(passed > 10, 'the rules were run');
      assert.deepEqual(violations, [], where);
    };
    await page.goto(`${base}/`);
    await page.getByRole('link', { name: show.title }).waitFor();
    await check('shows');
    await open(page, show);
    await page.getByTestId('view-list').click();
    await page.getByTestId('list-search').fill('row 2');
    await page.getByRole('button', { name: /^Row 2, seat 5, Stalls/ }).click();
    await check('choosing from the list');
    await page.getByTestId('hold').click();
    await orderIs(page, 'pending');
    await check('held');
    await page.getByTestId('pay').click();
    await page.getByTestId('paybox').waitFor();
    await check('paying');
    await page.getByTestId('pay-now').click();
    await orderIs(page, 'paid');
    await check('paid');
    await page.goto(`${base}/orders`);
    await page.getByRole('link', { name: show.title }).waitFor();
    await check('orders');
    // The rules must be able to fail.
    await page.evaluate(() => document.querySelector('h1').replaceChildren(Object.assign(document.createElement('img'), { src: '/favicon.ico' })));
    assert.notDeepEqual((await rules(page)).violations, []);
  });
}
