// The panel beside the plan: the selection, the held order with its clock,
// and how it ended. It looks at a Purchase and draws what it sees.

import { $, h, setText, show } from './dom.js';
import { countdown, money } from './format.js';
import { tail } from './paint.js';

const WARN_MS = 60_000;

/** Basket draws a Purchase into the panel. */
export class Basket {
  #picks = new Map(); // seat index → element
  #orderShown = '';

  constructor({ purchase, house, i18n, clock, canBuy, color }) {
    Object.assign(this, { purchase, house, i18n, clock, canBuy, color });
    $('hold').addEventListener('click', () => purchase.hold());
    $('clear').addEventListener('click', () => {
      purchase.clear();
      $('basket-title').focus();
    });
    $('cancel').addEventListener('click', async () => {
      $('cancel').disabled = true;
      setText($('cancel'), i18n.t('order.cancelling'));
      await purchase.cancel();
      $('cancel').disabled = false;
      this.render();
    });
    $('extend').addEventListener('click', () => purchase.extend());
    $('again').addEventListener('click', () => {
      purchase.again();
      $(purchase.order ? 'order-title' : 'basket-title').focus();
    });
    $('grip').addEventListener('click', () => this.open(!this.opened));
  }

  get opened() {
    return $('panel').dataset.open === 'true';
  }

  /** Opens or closes the sheet on a phone; wide screens ignore it. */
  open(on) {
    $('panel').dataset.open = String(on);
    $('grip').setAttribute('aria-expanded', String(on));
  }

  render() {
    const { purchase } = this;
    show($('choose'), !purchase.order);
    show($('order'), !!purchase.order);
    if (purchase.order) this.#renderOrder(purchase.order);
    else this.#renderChoice();
    this.#renderGrip();
    this.tick();
  }

  #renderChoice() {
    const { purchase, i18n, house } = this;
    const { t } = i18n;
    const { currency, limitPerUser, holdSeconds } = purchase.show;
    const list = $('basket');
    for (const [i, el] of this.#picks) {
      if (!purchase.selected.has(i)) {
        // The keyboard stays in the list when the row under it goes.
        if (el.contains(document.activeElement)) ((el.nextElementSibling ?? el.previousElementSibling)?.querySelector('button') ?? $('basket-title')).focus();
        el.remove();
        this.#picks.delete(i);
      }
    }
    for (const i of purchase.selected) {
      let el = this.#picks.get(i);
      if (!el) {
        const button = h('button', { type: 'button', class: 'close', onclick: () => purchase.toggle(i) }, '×');
        const dot = h('span', { class: 'dot', 'aria-hidden': 'true' });
        dot.style.backgroundColor = this.color(house.category[i]);
        el = h('li', { class: 'pick', 'data-seat': house.ids[i] }, dot, h('span', { class: 'pick-text' }, h('strong'), h('span')), h('span', { class: 'pick-price' }), button);
        this.#picks.set(i, el);
        list.append(el);
      }
      setText(el.querySelector('strong'), t('seat.short', { row: house.row[i], number: tail(house.number[i], house.row[i]) }));
      setText(el.querySelector('.pick-text span'), house.zoneName(i));
      setText(el.querySelector('.pick-price'), money(house.price(i) ?? 0, currency, i18n.lang));
      const button = el.querySelector('button');
      button.disabled = purchase.holding;
      button.setAttribute('aria-label', t('basket.remove', { seat: t('seat.plain', { row: house.row[i], number: tail(house.number[i], house.row[i]), zone: house.zoneName(i) }) }));
    }
    const n = purchase.selected.size;
    show($('basket-empty'), n === 0);
    show($('basket-sum'), n > 0);
    setText($('basket-empty-title'), t('basket.empty'));
    setText($('basket-empty-hint'), !this.canBuy() ? t('basket.closed')
      : limitPerUser > 0 ? t('basket.emptyHint', { n: limitPerUser }) : t('basket.emptyHintNoLimit'));
    setText($('sum'), money(purchase.sum, currency, i18n.lang));
    const hold = $('hold');
    // Not "disabled" while it works: the focus would be lost.
    hold.setAttribute('aria-disabled', String(purchase.holding));
    setText(hold, purchase.retrying ? t('basket.retrying') : purchase.holding ? t('basket.holding') : i18n.n('basket.hold', n));
    setText($('hold-note'), t('basket.holdNote', { minutes: this.duration(holdSeconds) }));
    $('clear').disabled = purchase.holding;
  }

  /** "15 minutes", "8 seconds". */
  duration(seconds) {
    return seconds >= 60 && seconds % 60 === 0 ? this.i18n.n('basket.minutes', seconds / 60) : this.i18n.n('basket.seconds', seconds);
  }

  #renderOrder(o) {
    const { purchase, i18n } = this;
    const { t } = i18n;
    const pending = o.state === 'pending';
    const panel = $('order');
    panel.dataset.state = o.state;
    setText($('order-title'), t({ pending: 'order.held', paid: 'order.paid', expired: 'order.expired', cancelled: 'order.cancelled', refunded: 'order.refunded' }[o.state] ?? 'order.held'));
    const hint = { paid: 'order.paidHint', expired: 'order.expiredHint', cancelled: 'order.cancelledHint' }[o.state];
    show($('order-hint'), !!hint);
    if (hint) setText($('order-hint'), t(hint));
    show($('clock'), pending);
    const key = `${o.no}|${o.version}|${i18n.lang}`;
    if (key !== this.#orderShown) {
      this.#orderShown = key;
      $('order-seats').replaceChildren(...o.seats.map((s) => {
        const dot = h('span', { class: 'dot', 'aria-hidden': 'true' });
        const i = this.house.at(s.seatId);
        if (i >= 0) dot.style.backgroundColor = this.color(this.house.category[i]);
        return h('li', { class: s.refunded ? 'pick gone' : 'pick', 'data-seat': s.seatId }, dot,
          h('span', { class: 'pick-text' }, h('strong', {}, t('seat.short', { row: s.row, number: tail(s.number, s.row) })), h('span', {}, s.zone)),
          h('span', { class: 'pick-price' }, money(s.price, o.total.currency, i18n.lang)));
      }));
    }
    const sum = money(o.total.amount, o.total.currency, i18n.lang);
    setText($('order-sum'), sum);
    setText($('order-no'), o.no);
    setText($('order-state'), t(`state.order.${o.state}`));
    const waiting = purchase.paying > 0;
    show($('order-wait'), waiting);
    setText($('order-wait-text'), t(purchase.waitsLong ? 'order.waitingLong' : 'order.waiting'));
    show($('pay'), pending && !waiting);
    setText($('pay'), t('order.pay', { sum }));
    show($('cancel'), pending && !waiting);
    if (!$('cancel').disabled) setText($('cancel'), t('order.cancel'));
    show($('extend'), pending && !waiting && !o.extended && purchase.show.extendSeconds !== 0);
    show($('to-orders'), !pending);
    show($('again'), !pending);
    setText($('again'), t(o.state === 'paid' ? 'order.again' : 'order.over'));
    show($('order-others'), purchase.others > 0);
    setText($('order-others'), i18n.n('order.others', purchase.others));
  }

  #renderGrip() {
    const { purchase, i18n } = this;
    const o = purchase.order;
    if (o) {
      setText($('grip-what'), i18n.t({ pending: 'order.held', paid: 'order.paid', expired: 'order.expired', cancelled: 'order.cancelled', refunded: 'order.refunded' }[o.state] ?? 'order.held'));
      if (o.state !== 'pending') setText($('grip-sum'), money(o.total.amount, o.total.currency, i18n.lang));
    } else {
      const n = purchase.selected.size;
      setText($('grip-what'), n ? i18n.n('basket.count', n) : i18n.t('basket.empty'));
      setText($('grip-sum'), n ? money(purchase.sum, purchase.show.currency, i18n.lang) : '');
    }
    $('panel').dataset.full = String(!!o || purchase.selected.size > 0);
  }

  /** The clock: called several times a second. */
  tick() {
    const o = this.purchase.order;
    if (o?.state !== 'pending') return;
    const left = Date.parse(o.deadline) - this.clock.now();
    const text = countdown(left);
    setText($('time'), text);
    setText($('grip-sum'), text);
    $('clock').dataset.soon = String(left < WARN_MS);
    const whole = Math.max(1, Date.parse(o.deadline) - Date.parse(o.createdAt));
    $('clock-fill').style.transform = `scaleX(${Math.max(0, Math.min(1, left / whole)).toFixed(4)})`;
  }
}
