// The legend: what the colours cost and what the marks mean.

import { $, h, s } from './dom.js';
import { count, money } from './format.js';
import { FREE } from './store.js';

const mark = (...shapes) => s('svg', { viewBox: '0 0 20 20', class: 'mark', 'aria-hidden': 'true' }, ...shapes);

const marks = {
  held: () => mark(s('circle', { cx: 10, cy: 10, r: 6.2, class: 'm-held' }), s('path', { d: 'M5.6 11.6 11.6 5.6M8.4 14.4l6-6', class: 'm-held' })),
  sold: () => mark(s('circle', { cx: 10, cy: 10, r: 4.4, class: 'm-sold' })),
  blocked: () => mark(s('path', { d: 'M6 6l8 8M14 6l-8 8', class: 'm-blocked' })),
  own: () => mark(s('circle', { cx: 10, cy: 10, r: 6.4, class: 'm-own' }), s('circle', { cx: 10, cy: 10, r: 8.8, class: 'm-own-ring' }), s('path', { d: 'M7.2 10.2l2.1 2.2 3.6-4.4', class: 'm-tick' })),
  selected: () => mark(s('circle', { cx: 10, cy: 10, r: 8, class: 'm-pick' }), s('circle', { cx: 10, cy: 10, r: 5.9, class: 'm-pick-gap' }), s('circle', { cx: 10, cy: 10, r: 3.7, class: 'm-pick' })),
};

/** Draws the legend of a house in the reader's language. */
export class Legend {
  constructor({ house, store, i18n, currency, color }) {
    Object.assign(this, { house, store, i18n, currency, color });
  }

  render() {
    const { house, i18n } = this;
    const { t } = i18n;
    this.frees = [];
    $('legend-prices').replaceChildren(...house.categories.map((c, k) => {
      const dot = h('span', { class: 'dot', 'aria-hidden': 'true' });
      dot.style.backgroundColor = this.color(k);
      const free = h('span', { class: 'legend-free' });
      this.frees.push(free);
      const price = c.price === null || c.price === undefined ? t('legend.noPrice') : money(c.price, this.currency, i18n.lang);
      return h('li', {}, dot, h('span', { class: 'legend-name' }, c.name), free, h('span', { class: 'legend-price' }, price));
    }));
    $('legend-marks').replaceChildren(...Object.entries(marks).map(([k, draw]) => h('li', {}, draw(), t(`legend.${k}`))));
    this.update();
  }

  /** The free seats of each category. */
  update() {
    const { house, store, i18n } = this;
    const n = new Array(house.categories.length).fill(0);
    for (let i = 0; i < house.n; i++) if (store.states[house.ids[i] - 1] === FREE) n[house.category[i]]++;
    this.frees?.forEach((el, c) => {
      const text = house.categories[c].price === null ? '' : i18n.t('legend.free', { n: count(n[c], i18n.lang) });
      if (el.textContent !== text) el.textContent = text;
    });
  }
}
