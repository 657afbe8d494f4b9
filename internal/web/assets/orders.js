// The reader's own orders in this browser.

import { $, h, setText, show } from './dom.js';
import { countdown, money, when } from './format.js';
import { Notices } from './notices.js';
import { api, boot, errorText, i18n, t } from './shell.js';
import { tail } from './paint.js';

const FRESH_MS = 8000;

let orders = null;
let failure = null;
const shows = new Map(); // show id → show, or null when it is gone

async function load() {
  try {
    const got = await api.orders();
    await Promise.all([...new Set(got.map((o) => o.showId))].filter((id) => !shows.has(id)).map(async (id) => {
      shows.set(id, await api.show(id).catch(() => null));
    }));
    orders = got;
    failure = null;
  } catch (err) {
    failure = err;
  }
  render();
}

function row(o) {
  const s = shows.get(o.showId);
  const { lang } = i18n;
  const zone = s?.hall?.zone ?? 'UTC';
  const href = `/shows/${o.showId}?order=${o.no}`;
  const seats = o.seats.map((seat) => h('li', { class: seat.refunded ? 'gone' : '' },
    `${seat.zone} · ${t('seat.short', { row: seat.row, number: tail(seat.number, seat.row) })}`,
    seat.refunded ? ` (${t('orders.refunded')})` : ''));
  const left = o.state === 'pending' ? h('span', { class: 'left', 'data-deadline': o.deadline }) : null;
  return h('li', { class: 'card order', 'data-state': o.state },
    h('div', { class: 'card-main' },
      h('div', { class: 'card-head' },
        h('h2', {}, h('a', { class: 'card-link', href }, s?.title ?? `#${o.showId}`)),
        h('span', { class: 'badge', 'data-order': o.state }, t(`state.order.${o.state}`), left ? ' ' : '', left)),
      s ? h('p', { class: 'card-where' }, s.hall.name, h('span', { class: 'sep', 'aria-hidden': 'true' }, '·'), when(s.starts, zone, lang)) : null,
      h('ul', { class: 'seat-tags' }, seats),
      h('p', { class: 'quiet small' }, `${t('order.number')} `, h('code', {}, o.no), ` · ${t('orders.made', { when: when(o.createdAt, zone, lang) })}`)),
    h('div', { class: 'card-side' },
      h('span', { class: 'price' }, money(o.total.amount, o.total.currency, lang)),
      h('span', { class: 'go', 'aria-hidden': 'true' }, t(o.state === 'pending' ? 'orders.continue' : 'orders.seeSeats'))));
}

function render() {
  document.title = `${t('orders.title')} · SeatFlow`;
  show($('loading'), orders === null && !failure);
  show($('empty'), orders?.length === 0);
  show($('failure'), failure !== null && orders === null);
  if (failure) setText($('failure-text'), errorText(failure));
  const list = $('orders');
  const focused = document.activeElement?.closest?.('#orders') ? document.activeElement.getAttribute('href') : null;
  list.replaceChildren(...(orders ?? []).map(row));
  if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  tick();
}

function tick() {
  for (const el of document.querySelectorAll('[data-deadline]')) {
    setText(el, countdown(Date.parse(el.dataset.deadline) - api.clock.now()));
  }
}

boot(render);
$('failure-retry').addEventListener('click', load);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) load();
});
let soon = 0; // several notices at once are one look
new Notices({
  session: api.session,
  onNotice: () => {
    soon ||= setTimeout(() => {
      soon = 0;
      load();
    }, 100);
  },
}).start();
setInterval(tick, 500);
setInterval(() => {
  if (!document.hidden && (failure || orders?.some((o) => o.state === 'pending'))) load();
}, FRESH_MS);
load();
