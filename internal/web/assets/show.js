// A show's page: the house, live, and the reader's business with it.

import { Problem } from './api.js';
import { Basket } from './basket.js';
import { debug } from './debug.js';
import { $, h, setText, show } from './dom.js';
import { count, countdown, money, when } from './format.js';
import { House } from './house.js';
import { Legend } from './legend.js';
import { ListView, seatLabel } from './list.js';
import { Live } from './live.js';
import { SeatMap } from './map.js';
import { Notices } from './notices.js';
import { payDialog } from './pay.js';
import { Purchase } from './purchase.js';
import { saleState } from './sale.js';
import { announcer, api, boot, errorText, i18n, perTab, t } from './shell.js';
import { MapStore, statusName } from './store.js';
import { tail } from './paint.js';

const SHOW_FRESH_MS = 30_000; // title, window and prices may be changed by staff
const SPEAK_AT_S = [300, 120, 60, 30, 10]; // time left at which it is said aloud

const showId = Number(location.pathname.split('/')[2]);
const store = new MapStore();
let info = null; // the show
let page = null; // {house, map, list, legend, purchase, basket, pay}
let failure = null;

// ---- words about seats

const stateOf = (i) => (page.purchase.own.has(i) ? 'own' : page.purchase.selected.has(i) ? 'selected' : statusName(store.state(page.house.ids[i])));
const label = (i) => seatLabel({ house: page.house, i18n, currency: info.currency }, i, stateOf(i));
const plain = (i) => t('seat.plain', { row: page.house.row[i], number: tail(page.house.number[i], page.house.row[i]), zone: page.house.zoneName(i) });
const plains = (seats) => new Intl.ListFormat(i18n.tag, { type: 'conjunction' }).format(seats.map(plain));
const time = (order) => countdown(Date.parse(order.deadline) - api.clock.now());

// ---- what the person is told

let noticeTimer = 0;

function notice(kind, text, action) {
  clearTimeout(noticeTimer);
  const box = $('notice');
  box.dataset.kind = kind;
  setText($('notice-text'), text);
  show($('notice-act'), !!action);
  if (action) {
    setText($('notice-act'), action.label);
    $('notice-act').onclick = () => {
      hideNotice();
      action.run();
    };
  }
  show(box, true);
  if (kind === 'info') noticeTimer = setTimeout(hideNotice, 6000);
}

function hideNotice() {
  if ($('notice').contains(document.activeElement)) $(page?.purchase.order ? 'order-title' : 'basket-title').focus();
  show($('notice'), false);
}

const told = {
  selected: ({ seats }) => {
    const n = page.purchase.selected.size;
    announcer.say(t('say.selected', { seat: plains(seats), count: i18n.n('basket.count', n), sum: money(page.purchase.sum, info.currency, i18n.lang) }));
  },
  unselected: ({ seats }) => announcer.say(t('say.unselected', { seat: plains(seats) })),
  notFree: ({ seats }) => announcer.say(t('say.notFree', { seat: plains(seats), state: t(`state.${stateOf(seats[0])}`) })),
  limit: ({ n }) => tell('info', t('say.limit', { n })),
  busy: () => tell('info', t('say.busy')),
  gone: ({ seats }) => tell('warn', t('say.gone', { seats: plains(seats) })),
  conflict: ({ seats, kept }) => {
    const rest = t(kept ? 'say.conflictKept' : 'say.conflictNone');
    tell('warn', `${t('say.conflict', { seats: plains(seats) })} ${rest}`, kept ? { label: t('notice.tryRest'), run: () => page.purchase.hold() } : null);
    page.basket.open(true);
  },
  held: ({ order }) => {
    hideNotice();
    announcer.say(t('say.held', { time: time(order) }));
    page.basket.open(true);
    $('order-title').focus({ preventScroll: true });
  },
  found: ({ order }) => {
    if (order.state === 'pending') tell('info', t('say.found', { time: time(order) }));
  },
  extended: ({ order }) => tell('ok', t('say.extended', { time: time(order) })),
  paid: () => ended('say.paid'),
  expired: () => {
    ended('say.expired');
    page.basket.open(true);
  },
  cancelled: () => ended('say.cancelled'),
  failed: ({ err }) => tell('error', errorText(err)),
};

// An order came to its end: its heading says so, and is read out.
function ended(key) {
  page.pay.close();
  hideNotice();
  announcer.alert(t(key));
  if ($('panel').contains(document.activeElement) || document.activeElement === document.body) $('order-title').focus({ preventScroll: true });
}

function tell(kind, text, action) {
  notice(kind, text, action);
  announcer.alert(text);
}

// ---- drawing

function canBuy() {
  return info && saleState(info, api.clock.now(), () => '', t).state === 'on';
}

function renderBill() {
  if (!info) return;
  document.title = t('show.pageTitle', { title: info.title });
  setText($('title'), info.title);
  setText($('hall'), info.hall.name);
  setText($('when'), when(info.starts, info.hall.zone, i18n.lang));
  $('when').dateTime = info.starts;
  $('map').setAttribute('aria-label', t('map.label', { title: info.title }));
  $('map').setAttribute('aria-roledescription', t('map.role'));
  renderCounts();
}

function renderCounts() {
  const c = store.ready ? store.counts : info.counts;
  if (!c) return;
  const box = $('counts');
  for (const [k, n] of [['free', c.available], ['held', c.held], ['sold', c.sold]]) {
    const el = box.querySelector(`[data-count="${k}"]`) ?? box.appendChild(h('span', { 'data-count': k }));
    setText(el, t(`shows.${k}`, { n: count(n, i18n.lang) }));
  }
  const sale = saleState({ ...info, counts: c }, api.clock.now(), (at) => when(at, info.hall.zone, i18n.lang), t);
  setText($('sale'), sale.text);
  $('sale').dataset.sale = sale.state;
}

function renderNet(state) {
  $('net').dataset.state = state;
  setText($('net-text'), t(`net.${state}`));
}

function render() {
  renderBill();
  renderNet($('net').dataset.state);
  if (failure) setText($('failure-text'), errorText(failure));
  if (!page) return;
  page.legend.render();
  page.list.relabel();
  page.basket.render();
  page.pay.relabel();
  page.map.refresh();
}

function changed() {
  if (hovered) hover(...hovered);
  page.basket.render();
  page.map.dirty();
  page.list.touch(null);
}

let hovered = null; // what the tooltip stands at

function hover(i, px, py) {
  hovered = i >= 0 ? [i, px, py] : null;
  const tip = $('tip');
  show(tip, i >= 0);
  if (i < 0) return;
  setText($('tip-seat'), t('seat.short', { row: page.house.row[i], number: tail(page.house.number[i], page.house.row[i]) }));
  const price = page.house.price(i);
  setText($('tip-zone'), [page.house.zoneName(i), price === null ? '' : money(price, info.currency, i18n.lang)].filter(Boolean).join(' · '));
  setText($('tip-state'), t(`state.${stateOf(i)}`));
  const box = $('mapview');
  const x = Math.min(px + 14, box.clientWidth - tip.offsetWidth - 8);
  const y = py + 18 + tip.offsetHeight > box.clientHeight ? py - tip.offsetHeight - 12 : py + 18;
  tip.style.transform = `translate(${Math.max(8, x)}px, ${Math.max(8, y)}px)`;
}

function view(which) {
  const list = which === 'list';
  show($('mapview'), !list);
  show($('listview'), list);
  $('view-map').setAttribute('aria-pressed', String(!list));
  $('view-list').setAttribute('aria-pressed', String(list));
  if (list) page.list.open();
}

// ---- time

let spoken = null; // {no, deadline, s: the last mark that was said}

function tick() {
  if (!page) return;
  const now = api.clock.now();
  const { order } = page.purchase;
  page.basket.tick();
  page.purchase.tick(now);
  if (order?.state !== 'pending') return;
  const left = (Date.parse(order.deadline) - now) / 1000;
  if (spoken?.no !== order.no || spoken.deadline !== order.deadline) spoken = { no: order.no, deadline: order.deadline, s: left };
  const due = SPEAK_AT_S.find((s) => left <= s && spoken.s > s);
  if (due !== undefined && left > 0) {
    const text = countdown(left * 1000);
    if (due <= 60) announcer.alert(t('say.leftSoon', { time: text }));
    else announcer.say(t('say.left', { time: text }));
    if (due === 60) notice('warn', t('say.leftSoon', { time: text }));
  }
  spoken.s = Math.min(spoken.s, left);
}

// ---- beginning

function build(plan) {
  const house = new House(plan);
  const purchase = new Purchase({
    api, show: info, house, store, storage: perTab,
    onChange: changed,
    onEvent: (type, data) => told[type]?.(data),
  });
  const hooks = {
    own: () => purchase.own,
    selected: () => purchase.selected,
    words: () => ({ free: (n) => t('map.zoneFree', { n: count(n, i18n.lang) }) }),
    onActivate: (i) => purchase.toggle(i),
    onFocus: (i) => announcer.say(label(i)),
    onEdge: () => announcer.say(t('map.edge')),
    onHover: hover,
    onLevel: (level) => show($('map-hint'), level === 'sections'),
    onRestyle: () => page.legend && render(),
  };
  page = { house, purchase };
  const color = (category) => page.map.color(category);
  page.basket = new Basket({ purchase, house, i18n, clock: api.clock, canBuy, color });
  page.list = new ListView({
    house, store, i18n, currency: info.currency,
    hooks: { own: (i) => purchase.own.has(i), selected: (i) => purchase.selected.has(i), onActivate: hooks.onActivate, label },
  });
  page.pay = payDialog({ purchase, i18n, errorText, onDeclined: () => announcer.alert(t('pay.declined')) });
  page.map = new SeatMap({ canvas: $('map'), house, store, hooks });
  page.legend = new Legend({ house, store, i18n, currency: info.currency, color });
  $('pay').addEventListener('click', () => page.pay.open());
  $('zoom-in').addEventListener('click', () => page.map.zoom(1.6));
  $('zoom-out').addEventListener('click', () => page.map.zoom(1 / 1.6));
  $('zoom-fit').addEventListener('click', () => page.map.fit());
  let soon = 0;
  store.listen(() => {
    soon ||= setTimeout(() => {
      soon = 0;
      page.legend.update();
      renderCounts();
    }, 150);
  });
}

async function open() {
  failure = null;
  show($('failure'), false);
  show($('loading'), true);
  try {
    const [got, plan, map] = await Promise.all([api.show(showId), api.plan(showId), api.map(showId)]);
    info = got;
    store.snapshot(map);
    if (!page) build(plan);
    show($('loading'), false);
    render();
    follow();
    await page.purchase.begin(new URLSearchParams(location.search).get('order'));
  } catch (err) {
    if (page) return told.failed({ err });
    failure = err;
    show($('loading'), false);
    show($('failure'), true);
    show($('failure-retry'), !(err instanceof Problem && err.status === 404));
    render();
  }
}

let live = null;

function follow() {
  if (live) return;
  let lost = false;
  live = new Live({
    url: `/api/v1/shows/${showId}/events`, mapUrl: `/api/v1/shows/${showId}/seats?form=compact`, store,
    onStatus: (state) => {
      renderNet(state);
      if (state === 'live' && lost) announcer.say(t('net.back'));
      if (state === 'offline' && !lost) announcer.say(t('net.lost'));
      lost = state === 'offline' || (lost && state !== 'live');
    },
  });
  live.start();
}

boot(render);
$('view-map').addEventListener('click', () => view('map'));
$('view-list').addEventListener('click', () => view('list'));
$('filters').addEventListener('submit', (e) => e.preventDefault());
$('notice-close').addEventListener('click', hideNotice);
$('failure-retry').addEventListener('click', open);
setInterval(tick, 250);
setInterval(async () => {
  if (document.hidden || !info) return;
  Object.assign(info, await api.show(showId).catch(() => ({})));
  renderBill();
}, SHOW_FRESH_MS);
// The same reader bought or gave back on another device or in another tab; or
// this one slept.
let soon = 0; // several notices at once are one look
new Notices({
  session: api.session,
  onNotice: (n) => {
    if (n.showId !== undefined && n.showId !== info?.id) return;
    soon ||= setTimeout(() => {
      soon = 0;
      page?.purchase.refresh().catch(() => {});
    }, 100);
  },
}).start();
addEventListener('storage', () => page?.purchase.refresh().catch(() => {}));
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) page?.purchase.refresh().catch(() => {});
});
debug(() => ({ page, store, label }));
open();
