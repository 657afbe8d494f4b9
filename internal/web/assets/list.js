// The list view: the same seats as the plan, as sections, rows and real
// buttons. Rows are filled when they are opened, so that a stadium costs no
// more than what is looked at.

import { $, h, setText, show } from './dom.js';
import { FREE, statusName } from './store.js';
import { tail } from './paint.js';
import { moneyCode } from './format.js';

const ROWS_AT_ONCE = 60;
const OPEN_ZONES = 3; // so few sections start open
const OPEN_MATCHES = 4; // so few found rows start open

/** Reads "row 3 seat 12", "3 12", "3 排 12 座": lower-case tokens without the words. */
export function searchTokens(text) {
  return text.toLowerCase().replace(/(row|seat|排|座|号|號)/g, ' ').split(/[\s,，·]+/).filter(Boolean);
}

/** Whether a row matches the tokens: by its name, or its section's name. */
export function rowMatches(row, zoneName, tokens) {
  if (tokens.length === 0) return true;
  if (String(row.name).toLowerCase() === tokens[0]) return true;
  return zoneName.toLowerCase().includes(tokens.join(' '));
}

/** ListView fills #list; hooks: own(i), selected(i), onActivate(i), label(i). */
export class ListView {
  #drawn = new Map(); // row → {details, summary, box, buttons: Map(i → button)}
  #zones = [];
  #rowOf = [];
  #dirty = new Set();
  #raf = 0;
  #shown = false;

  constructor({ house, store, i18n, currency, hooks }) {
    Object.assign(this, { house, store, i18n, currency, hooks });
    this.#rowOf = new Array(house.n);
    for (const row of house.rows) for (const i of row.seats) this.#rowOf[i] = row;
    for (const id of ['list-search', 'list-zone', 'list-category', 'list-free']) {
      $(id).addEventListener('input', () => this.rebuild());
    }
    store.listen((ids) => this.touch(ids === null ? null : ids.map((id) => house.at(id))));
  }

  /** Builds the list when it is first looked at. */
  open() {
    if (!this.#shown) {
      this.#shown = true;
      this.relabel();
    }
  }

  /** Seats whose look may have changed (null: all). */
  touch(seats) {
    if (!this.#shown) return;
    if (seats === null) for (const row of this.#drawn.keys()) this.#dirty.add(row);
    else for (const i of seats) if (i >= 0) this.#dirty.add(this.#rowOf[i]);
    this.#raf ||= requestAnimationFrame(() => {
      this.#raf = 0;
      for (const row of this.#dirty) this.#refresh(row);
      this.#dirty.clear();
      this.#zoneSummaries();
    });
  }

  /** Fills the filters in the reader's language, and the list. */
  relabel() {
    if (!this.#shown) return;
    const { t } = this.i18n;
    const fillSelect = (el, names) => {
      const was = el.value;
      el.replaceChildren(h('option', { value: '' }, t('list.all')), ...names.map((n, k) => h('option', { value: String(k) }, n)));
      el.value = was;
    };
    fillSelect($('list-zone'), this.house.zones.map((z) => z.name));
    fillSelect($('list-category'), this.house.categories.map((c) => c.name));
    show($('list-zone-box'), this.house.zones.length > 1);
    show($('list-category-box'), this.house.categories.length > 1);
    this.rebuild();
  }

  /** Builds everything that the filters let through. */
  rebuild() {
    const tokens = searchTokens($('list-search').value);
    const zone = $('list-zone').value, category = $('list-category').value;
    this.filter = { category: category === '' ? -1 : Number(category), onlyFree: $('list-free').checked, seat: tokens.length > 1 ? tokens.slice(1).join(' ') : null };
    this.#drawn.clear();
    this.#zones = [];
    const { house } = this;
    let found = 0;
    const byZone = new Map();
    for (const row of house.rows) {
      const zoneName = house.zones[row.zone]?.name ?? '';
      if (zone !== '' && row.zone !== Number(zone)) continue;
      if (!rowMatches(row, zoneName, tokens)) continue;
      if (!row.seats.some((i) => this.#passes(i))) continue;
      if (!byZone.has(row.zone)) byZone.set(row.zone, []);
      byZone.get(row.zone).push(row);
      found++;
    }
    const openRows = tokens.length > 0 && found <= OPEN_MATCHES;
    const parts = [];
    for (const [k, rows] of byZone) {
      const title = h('span', { class: 'zone-name' }, house.zones[k]?.name ?? '');
      const free = h('span', { class: 'zone-free' });
      const box = h('div', { class: 'rows' });
      const details = h('details', { class: 'zone', open: byZone.size <= OPEN_ZONES || openRows }, h('summary', {}, title, free), box);
      const entry = { zone: k, free };
      this.#zones.push(entry);
      let filled = false;
      const fill = () => {
        if (filled || !details.open) return;
        filled = true;
        this.#addRows(box, rows, 0, openRows);
      };
      details.addEventListener('toggle', fill);
      fill();
      parts.push(details);
    }
    if (!parts.length) parts.push(h('p', { class: 'quiet' }, this.i18n.t('list.none')));
    $('list').replaceChildren(...parts);
    this.#zoneSummaries();
  }

  #passes(i) {
    const { category, onlyFree, seat } = this.filter;
    if (category >= 0 && this.house.category[i] !== category) return false;
    if (onlyFree && this.store.state(this.house.ids[i]) !== FREE && !this.hooks.selected(i) && !this.hooks.own(i)) return false;
    if (seat !== null) {
      const full = String(this.house.number[i]).toLowerCase();
      if (full !== seat && tail(full, String(this.house.row[i]).toLowerCase()) !== seat) return false;
    }
    return true;
  }

  #addRows(box, rows, from, open) {
    const until = Math.min(rows.length, from + ROWS_AT_ONCE);
    for (const row of rows.slice(from, until)) box.append(this.#row(row, open));
    if (until < rows.length) {
      const more = h('button', { type: 'button', class: 'plain', onclick: () => {
        more.remove();
        this.#addRows(box, rows, until, open);
        box.children[until]?.querySelector('summary')?.focus();
      } }, this.i18n.t('list.more', { n: rows.length - until }));
      box.append(more);
    }
  }

  #row(row, open) {
    const name = h('span', { class: 'row-name' }, this.i18n.t('list.row', { row: row.name }));
    const summary = h('span', { class: 'row-free' });
    const box = h('div', { class: 'seats', role: 'group', 'aria-label': this.i18n.t('list.row', { row: row.name }) });
    const details = h('details', { class: 'row', open }, h('summary', {}, name, summary), box);
    const drawn = { details, summary, box, buttons: new Map() };
    this.#drawn.set(row, drawn);
    const fill = () => {
      if (!details.open || drawn.buttons.size) return;
      for (const i of row.seats) {
        if (!this.#passes(i)) continue;
        const button = h('button', { type: 'button', class: 'seat', 'data-seat': this.house.ids[i], onclick: () => this.hooks.onActivate(i) });
        drawn.buttons.set(i, button);
        box.append(button);
      }
      this.#refresh(row);
    };
    details.addEventListener('toggle', fill);
    this.#refresh(row);
    fill();
    return details;
  }

  #refresh(row) {
    const drawn = this.#drawn.get(row);
    if (!drawn) return;
    let free = 0;
    for (const i of row.seats) if (this.store.state(this.house.ids[i]) === FREE) free++;
    setText(drawn.summary, this.i18n.n('list.rowSummary', row.seats.length, { free }));
    for (const [i, button] of drawn.buttons) {
      const state = this.hooks.own(i) ? 'own' : this.hooks.selected(i) ? 'selected' : statusName(this.store.state(this.house.ids[i]));
      const label = this.hooks.label(i);
      if (button.getAttribute('aria-label') === label && button.dataset.state === state) continue;
      setText(button, tail(this.house.number[i], this.house.row[i]));
      button.setAttribute('aria-label', label);
      button.dataset.state = state;
      button.dataset.category = String(this.house.category[i] % 12);
      button.setAttribute('aria-pressed', String(state === 'selected' || state === 'own'));
      // Not "disabled": a screen reader must still find the seat and its state.
      if (state === 'available' || state === 'selected') button.removeAttribute('aria-disabled');
      else button.setAttribute('aria-disabled', 'true');
    }
  }

  #zoneSummaries() {
    const free = new Map();
    const { house, store } = this;
    for (let i = 0; i < house.n; i++) {
      if (store.state(house.ids[i]) === FREE) free.set(house.zone[i], (free.get(house.zone[i]) ?? 0) + 1);
    }
    for (const z of this.#zones) setText(z.free, this.i18n.t('legend.free', { n: free.get(z.zone) ?? 0 }));
  }
}

/** What a screen reader hears of a seat. */
export function seatLabel({ house, i18n, currency }, i, state) {
  const price = house.price(i);
  const values = { row: house.row[i], number: tail(house.number[i], house.row[i]), zone: house.zoneName(i), state: i18n.t(`state.${state}`) };
  if (price === null) return i18n.t('seat.labelNoPrice', values);
  return i18n.t('seat.label', { ...values, price: moneyCode(price, currency, i18n.lang) });
}
