// A house of 60,000: it opens, shows sections first, and seats when near.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newShow, open, orderIs, pick, reader, rival, seat, seatIs, stadiumPlan, useBrowser } from './harness.mjs';

useBrowser();

test('60,000 seats open as sections, zoom to seats, and sell', async (t) => {
  const show = await newShow({ title: 'Stadium', plan: stadiumPlan() });
  const page = await reader(t);
  const other = await rival();
  const begun = performance.now();
  await open(page, show);
  t.diagnostic(`opened in ${Math.round(performance.now() - begun)} ms, painted in ${(await page.evaluate(() => window.seatflow.paintMs)).toFixed(1)} ms`);
  assert.equal(await page.evaluate(() => window.seatflow.seats), 60_000);
  assert.equal(await page.evaluate(() => window.seatflow.level), 'sections');

  // A click on a section goes closer, until seats can be told.
  const target = 30_025;
  const far = await seat(page, target);
  await page.mouse.click(far.x, far.y);
  await page.waitForFunction(() => window.seatflow.level === 'seats');
  await page.waitForFunction((id) => {
    const s = window.seatflow.seat(id);
    return s.sizePx > 8 && s.x > 0 && s.x < innerWidth && s.y > 0 && s.y < innerHeight;
  }, target);
  await settled(page);
  await pick(page, target);

  // The wheel goes out to sections and back in to seats, drawing all the way.
  const frames = await page.evaluate(() => window.seatflow.frames);
  const at = await seat(page, target);
  await page.mouse.move(at.x, at.y);
  while ((await page.evaluate(() => window.seatflow.level)) !== 'sections') await page.mouse.wheel(0, 240);
  while ((await page.evaluate(() => window.seatflow.level)) !== 'seats') await page.mouse.wheel(0, -240);
  assert.ok(await page.evaluate((f) => window.seatflow.frames > f, frames));

  await other.take(show.id, [target + 1]);
  await seatIs(page, target + 1, { state: 'held' });
  await page.getByTestId('hold').click();
  await orderIs(page, 'pending');

  // The list opens at once: rows are filled when they are looked at.
  await page.getByTestId('view-list').click();
  await page.locator('#list .zone-name', { hasText: 'Block 40' }).waitFor();
  assert.ok((await page.locator('#list button.seat').count()) < 2000);
});

// Waits for the camera to come to rest.
async function settled(page) {
  await page.evaluate(() => new Promise((done) => {
    let last = -1;
    const look = () => {
      const now = window.seatflow.scale;
      if (now === last) done();
      else {
        last = now;
        setTimeout(look, 50);
      }
    };
    look();
  }));
}
