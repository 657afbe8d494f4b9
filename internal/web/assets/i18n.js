// The reader's language: chosen by the browser, switched by hand, kept.

import { words } from './words.js';

const STORE = 'seatflow.lang';

/** The languages, in the order of the switch. */
export const languages = Object.keys(words);

/** The first language of the list that we speak; English otherwise. */
export function choose(saved, wanted) {
  for (const tag of [saved, ...(wanted ?? [])]) {
    const base = (tag ?? '').toLowerCase().split('-')[0];
    if (words[base]) return base;
  }
  return 'en';
}

/** A text with its places filled: {name}. */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (place, name) => (values && name in values ? String(values[name]) : place));
}

/** I18n speaks one language at a time; listeners hear a switch. */
export class I18n {
  #listeners = new Set();

  constructor({ storage, wanted }) {
    this.storage = storage;
    let saved = null;
    try {
      saved = storage?.getItem(STORE);
    } catch {
      // Storage may be forbidden.
    }
    this.lang = choose(saved, wanted);
  }

  /** The text of a key. A missing key shows itself, which tests look for. */
  t = (key, values) => fill(words[this.lang][key] ?? words.en[key] ?? key, values);

  /** The text for a number: key.one or key.other; {n} is the number, grouped. */
  n = (key, n, values) => {
    const form = new Intl.PluralRules(this.lang).select(n) === 'one' ? 'one' : 'other';
    return this.t(`${key}.${form}`, { n: new Intl.NumberFormat(this.lang).format(n), ...values });
  };

  /** The value of the lang attribute. */
  get tag() {
    return this.lang === 'zh' ? 'zh-CN' : this.lang;
  }

  set(lang) {
    if (!words[lang] || lang === this.lang) return;
    this.lang = lang;
    try {
      this.storage?.setItem(STORE, lang);
    } catch {
      // The switch then lasts as long as the page.
    }
    for (const fn of this.#listeners) fn(lang);
  }

  onSwitch(fn) {
    this.#listeners.add(fn);
  }
}
