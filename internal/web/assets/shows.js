// The list of shows. It asks again every few seconds while it is looked at.

import { $, h, setText, show } from './dom.js';
import { count, dateTile, priceRange, when } from './format.js';
import { saleState } from './sale.js';
import { api, boot, errorText, i18n, t } from './shell.js';

const FRESH_MS = 5000;

let shows = null;
let failure = null;
const cards = new Map(); // show id → {root, update}

function card() {
  const tile = { weekday: h('span', { class: 'tile-weekday' }), day: h('span', { class: 'tile-day' }), month: h('span', { class: 'tile-month' }) };
  const title = h('a', { class: 'card-link' });
  const hall = h('span'), time = h('time');
  const badge = h('span', { class: 'badge' });
  const bar = h('span', { class: 'bar', role: 'img' });
  const parts = ['sold', 'held', 'free'].map((k) => h('span', { class: `bar-${k}` }));
  bar.append(...parts);
  const numbers = ['free', 'held', 'sold'].map((k) => h('span', { class: `count count-${k}` }));
  const price = h('span', { class: 'price' });
  const go = h('span', { class: 'go', 'aria-hidden': 'true' });
  const root = h('li', { class: 'card' },
    h('div', { class: 'tile', 'aria-hidden': 'true' }, tile.weekday, tile.day, tile.month),
    h('div', { class: 'card-main' },
      h('div', { class: 'card-head' }, h('h2', {}, title), badge),
      h('p', { class: 'card-where' }, hall, h('span', { class: 'sep', 'aria-hidden': 'true' }, '·'), time),
      bar, h('p', { class: 'counts' }, ...numbers)),
    h('div', { class: 'card-side' }, price, go));

  const update = (s) => {
    const { lang } = i18n;
    const d = dateTile(s.starts, s.hall.zone, lang);
    setText(tile.weekday, d.weekday);
    setText(tile.day, d.day);
    setText(tile.month, d.month);
    setText(title, s.title);
    title.href = `/shows/${s.id}`;
    setText(hall, s.hall.name);
    setText(time, when(s.starts, s.hall.zone, lang));
    time.dateTime = s.starts;
    const sale = saleState(s, api.clock.now(), (at) => when(at, s.hall.zone, lang), t);
    badge.dataset.sale = sale.state;
    setText(badge, sale.text);
    const c = s.counts ?? { available: 0, held: 0, sold: 0 };
    const total = c.available + c.held + c.sold;
    const text = { free: count(c.available, lang), held: count(c.held, lang), sold: count(c.sold, lang) };
    [c.sold, c.held, c.available].forEach((n, k) => {
      parts[k].style.flexGrow = String(total ? n / total : k === 2 ? 1 : 0);
    });
    bar.setAttribute('aria-label', t('shows.bar', { ...text, total: count(total, lang) }));
    ['free', 'held', 'sold'].forEach((k, j) => setText(numbers[j], t(`shows.${k}`, { n: text[k] })));
    setText(price, priceRange(s.prices, s.currency, lang) ?? t('shows.noPrice'));
    setText(go, t(sale.state === 'on' ? 'shows.pick' : 'shows.look'));
    root.dataset.sale = sale.state;
  };
  return { root, update };
}

function render() {
  document.title = `${t('shows.title')} · SeatFlow`;
  const list = $('shows');
  show($('loading'), shows === null && !failure);
  show($('empty'), shows?.length === 0);
  show($('failure'), failure !== null && shows === null);
  if (failure) setText($('failure-text'), errorText(failure));
  if (!shows) return;
  const seen = new Set();
  shows.forEach((s, k) => {
    seen.add(s.id);
    let c = cards.get(s.id);
    if (!c) cards.set(s.id, (c = card()));
    c.update(s);
    // Moved only when out of place, so that focus and scroll stay.
    if (list.children[k] !== c.root) list.insertBefore(c.root, list.children[k] ?? null);
  });
  for (const [id, c] of cards) {
    if (!seen.has(id)) {
      c.root.remove();
      cards.delete(id);
    }
  }
}

let timer = 0, asking = false;

async function load() {
  clearTimeout(timer);
  if (asking) return;
  asking = true;
  try {
    shows = await api.shows();
    failure = null;
  } catch (err) {
    failure = err;
  }
  asking = false;
  render();
  if (!document.hidden) timer = setTimeout(load, FRESH_MS);
}

boot(render);
$('failure-retry').addEventListener('click', load);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) load();
});
addEventListener('pageshow', (e) => e.persisted && load());
load();
