// Buying: what is selected, what is held, what is paid. No elements here: the
// page listens to onChange (look again) and onEvent (tell the person).
//
// Own seats are those of own orders; the public map does not know whose a
// seat is. While a confirmation is in flight its seats may already show as
// held on the map: they are ours, so they stay selected until it is answered.

import { Problem } from './api.js';
import { Confirmation, mayRetry } from './confirm.js';
import { FREE, SOLD } from './store.js';

const POLL_MS = [400, 400, 600, 800, 1000, 1500, 2000]; // while a payment is awaited
const DUE_POLL_MS = 600; // after the deadline, until the order has ended
const LONG_WAIT_MS = 20_000;

/** Purchase is one reader's business with one show. */
export class Purchase {
  selected = new Set(); // seat indices, in the order of choosing
  own = new Set(); // seat indices of pending and paid orders
  orders = []; // own orders for this show, newest first
  order = null; // the one in the panel
  holding = false;
  retrying = false;
  paying = 0; // when the payment that is awaited was sent; 0: none
  #confirmation = null; // one whose outcome is open
  #refreshing = null;
  #duePoll = 0;
  #soon = 0;

  constructor({ api, show, house, store, storage, onChange = () => {}, onEvent = () => {}, later = (fn, ms) => setTimeout(fn, ms) }) {
    Object.assign(this, { api, show, house, store, storage, onChange, onEvent, later });
    store.listen((ids) => this.#mapChanged(ids));
  }

  // ---- choosing

  /** Seats the reader may still take; Infinity without a limit. */
  get left() {
    return this.show.limitPerUser > 0 ? Math.max(0, this.show.limitPerUser - this.own.size) : Infinity;
  }

  get sum() {
    let sum = 0;
    for (const i of this.selected) sum += this.house.price(i) ?? 0;
    return sum;
  }

  free(i) {
    return this.store.state(this.house.ids[i]) === FREE && this.house.price(i) !== null;
  }

  /** Selects a seat or gives it up; an event says what happened. */
  toggle(i) {
    if (this.holding) return;
    if (this.selected.has(i)) {
      this.selected.delete(i);
      this.onEvent('unselected', { seats: [i] });
    } else if (this.own.has(i) || !this.free(i)) {
      return this.onEvent('notFree', { seats: [i] });
    } else if (this.order?.state === 'pending') {
      return this.onEvent('busy', {});
    } else if (this.selected.size >= this.left) {
      return this.onEvent('limit', { n: this.show.limitPerUser });
    } else {
      this.order = null;
      this.selected.add(i);
      this.onEvent('selected', { seats: [i] });
    }
    this.onChange();
  }

  clear() {
    this.selected.clear();
    this.onChange();
  }

  // ---- holding

  /** Confirms the selection: one key, kept while the outcome is open. */
  async hold() {
    if (this.holding || this.selected.size === 0) return;
    const seats = [...this.selected].map((i) => this.house.ids[i]).sort((a, b) => a - b);
    const same = this.#confirmation && String(this.#confirmation.seats) === String(seats);
    if (!same) this.#confirmation = new Confirmation({ showId: this.show.id, seats, storage: this.storage });
    await this.#send(this.#confirmation);
  }

  async #send(confirmation) {
    confirmation.attempts = 0;
    this.#confirmation = confirmation;
    this.holding = true;
    this.retrying = false;
    this.onChange();
    try {
      const order = await confirmation.send(
        (body, headers) => this.api.call('POST', '/orders', { as: 'guest', body, headers: { ...headers, 'X-Origin-Device': device() } }),
        { onRetry: () => { this.retrying = true; this.onChange(); } });
      this.#confirmation = null;
      this.selected.clear();
      this.#take(order);
      this.order = order;
      this.onEvent(order.state === 'pending' ? 'held' : 'found', { order });
    } catch (err) {
      this.#refused(err);
      // An open outcome may be an order after all.
      if (mayRetry(err)) this.later(() => this.refresh().catch(() => {}), 1500);
    } finally {
      this.holding = this.retrying = false;
      this.onChange();
    }
  }

  #refused(err) {
    if (!mayRetry(err)) this.#confirmation = null;
    if (!(err instanceof Problem) || (err.code !== 3002 && err.code !== 3010)) return this.onEvent('failed', { err });
    const gone = new Set(err.seats);
    const stillFree = new Set(err.available);
    const lost = [];
    for (const i of [...this.selected]) {
      const id = this.house.ids[i];
      if (gone.has(id) || (!stillFree.has(id) && !this.free(i))) {
        this.selected.delete(i);
        lost.push(i);
      }
    }
    this.onEvent('conflict', { seats: lost, kept: this.selected.size });
  }

  // ---- own orders

  /** Finds own orders, and finishes a confirmation that a reload cut off. */
  async begin(wantedOrder) {
    await this.refresh(wantedOrder);
    const open = Confirmation.recall(this.show.id, this.storage);
    if (open && !this.order) {
      for (const id of open.seats) if (this.house.at(id) >= 0) this.selected.add(this.house.at(id));
      await this.#send(open);
    } else if (this.order?.state === 'pending') {
      this.onEvent('found', { order: this.order });
    }
  }

  /** Reads own orders again; calls at the same time share one reading. */
  refresh(wanted) {
    this.#refreshing ??= this.api.orders().then((all) => {
      const newest = (o) => (o.no === this.order?.no && o.version < this.order.version ? this.order : o);
      this.orders = all.filter((o) => o.showId === this.show.id).map(newest);
      const mine = this.orders.find((o) => o.no === (this.order?.no ?? wanted));
      if (mine) this.#settle(mine);
      else if (!this.order && !this.selected.size) this.order = this.orders.find((o) => o.state === 'pending') ?? null;
      this.#recount();
      this.onChange();
    }).finally(() => {
      this.#refreshing = null;
    });
    return this.#refreshing;
  }

  /** Pending orders of this show beside the one in the panel. */
  get others() {
    return this.orders.filter((o) => o.state === 'pending' && o.no !== this.order?.no).length;
  }

  // Puts an answered order among the own ones.
  #take(order) {
    const k = this.orders.findIndex((o) => o.no === order.no);
    if (k >= 0) this.orders[k] = order;
    else this.orders.unshift(order);
    this.#recount();
  }

  #recount() {
    this.own.clear();
    for (const o of this.orders) {
      if (o.state !== 'pending' && o.state !== 'paid') continue;
      for (const s of o.seats) {
        const i = this.house.at(s.seatId);
        if (i >= 0 && !s.refunded) this.own.add(i);
      }
    }
    for (const i of this.own) this.selected.delete(i);
  }

  // Compares the panel's order with the news and says what became of it. An
  // answer that left earlier than one we have is dropped by its version.
  #settle(order) {
    const before = this.order;
    if (before?.no === order.no && order.version < before.version) return;
    this.order = order;
    this.#take(order);
    if (order.state !== 'pending') this.paying = 0;
    if (before?.no === order.no && before.state !== order.state) this.onEvent(order.state, { order });
    this.onChange();
  }

  async #reread() {
    const { order } = this;
    if (order) this.#settle(await this.api.order(order.no));
  }

  /** To be called often: asks about an order whose time is over. */
  tick(now) {
    const { order } = this;
    if (order?.state !== 'pending' || now < Date.parse(order.deadline) || now < this.#duePoll) return;
    this.#duePoll = now + DUE_POLL_MS;
    this.#reread().catch(() => {});
  }

  async #act(call, event) {
    try {
      const order = await call();
      this.#settle(order);
      if (event) this.onEvent(event, { order });
    } catch (err) {
      if (err instanceof Problem && err.order) this.#settle(err.order);
      else if (err instanceof Problem && err.code === 3005) await this.#reread().catch(() => {});
      this.onEvent('failed', { err });
    }
    this.onChange();
  }

  cancel() {
    return this.#act(() => this.api.cancel(this.order.no));
  }

  extend() {
    return this.#act(() => this.api.extend(this.order.no), 'extended');
  }

  /** Leaves the panel's order and chooses anew. */
  again() {
    this.order = this.orders.find((o) => o.state === 'pending' && o.no !== this.order?.no) ?? null;
    this.onChange();
  }

  // ---- paying

  /** Starts a payment and sends the sandbox card; resolves 'sent' or 'declined', throws a refusal. */
  async pay(outcome) {
    const { no } = this.order;
    const checkout = await this.api.startPayment(no);
    if (checkout.order) this.#settle(checkout.order);
    await this.api.card(checkout.url, outcome);
    if (outcome === 'decline') {
      this.#reread().catch(() => {});
      return 'declined';
    }
    this.paying = Date.now();
    this.onChange();
    this.#await(no, 0);
    return 'sent';
  }

  #await(no, n) {
    this.later(async () => {
      if (!this.paying || this.order?.no !== no) return;
      await this.#reread().catch(() => {});
      if (this.paying && this.order?.no === no && this.order.state === 'pending') {
        this.onChange();
        this.#await(no, n + 1);
      }
    }, POLL_MS[Math.min(n, POLL_MS.length - 1)]);
  }

  get waitsLong() {
    return this.paying > 0 && Date.now() - this.paying > LONG_WAIT_MS;
  }

  // ---- the map

  #mapChanged(ids) {
    const gone = [];
    let mine = false;
    const look = (i) => {
      if (i < 0) return;
      if (this.selected.has(i) && !this.holding && !this.free(i)) gone.push(i);
      if (this.own.has(i)) {
        const s = this.store.state(this.house.ids[i]);
        const paid = !this.order?.seats.some((x) => x.seatId === this.house.ids[i]) || this.order.state === 'paid';
        if (s === FREE || (s === SOLD && !paid)) mine = true;
      }
    };
    if (ids === null) for (const i of new Set([...this.selected, ...this.own])) look(i);
    else for (const id of ids) look(this.house.at(id));
    for (const i of gone) this.selected.delete(i);
    if (gone.length) {
      this.onEvent('gone', { seats: gone });
      this.onChange();
    }
    // The map says that something happened to own seats: the order knows what.
    if (mine && !this.#soon) {
      this.#soon = this.later(() => {
        this.#soon = 0;
        this.refresh().catch(() => {});
      }, 80);
    }
  }
}

function device() {
  return globalThis.matchMedia?.('(pointer: coarse)').matches ? 'mobile' : 'web';
}
