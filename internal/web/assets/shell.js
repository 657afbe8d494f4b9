// What every page has: the language, the header, the API, the announcer.

import { Api, Unreachable } from './api.js';
import { $, Announcer, h } from './dom.js';
import { I18n, languages } from './i18n.js';
import { words } from './words.js';

// Storage may be forbidden; then the page forgets, but works.
function storageOf(name) {
  try {
    const s = window[name];
    s.getItem('seatflow');
    return s;
  } catch {
    const kept = new Map();
    return { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, v), removeItem: (k) => kept.delete(k) };
  }
}

export const local = storageOf('localStorage');
export const perTab = storageOf('sessionStorage');
export const i18n = new I18n({ storage: local, wanted: navigator.languages ?? [navigator.language] });
export const { t } = i18n;
export const api = new Api({ storage: local, lang: () => i18n.tag });
export const announcer = new Announcer($('say'), $('alert'));

/** Puts the dictionary's texts where the page asks: data-t, data-t-label, data-t-placeholder. */
export function translate(root = document) {
  document.documentElement.lang = i18n.tag;
  for (const el of root.querySelectorAll('[data-t]')) el.textContent = t(el.dataset.t);
  for (const el of root.querySelectorAll('[data-t-label]')) el.setAttribute('aria-label', t(el.dataset.tLabel));
  for (const el of root.querySelectorAll('[data-t-title]')) el.title = t(el.dataset.tTitle);
  for (const el of root.querySelectorAll('[data-t-placeholder]')) el.placeholder = t(el.dataset.tPlaceholder);
}

/** The text of any error, for people. */
export function errorText(err) {
  if (err instanceof Unreachable) return t('error.unreachable');
  return err?.name === 'Problem' && err.status < 500 && err.message ? err.message : err?.name === 'Problem' && err.code ? err.message : t('error.later');
}

/** Starts the shell; render() is called now and after each switch of language. */
export function boot(render) {
  const box = $('lang');
  for (const lang of languages) {
    box.append(h('button', {
      type: 'button', lang: lang === 'zh' ? 'zh-CN' : lang, 'data-lang': lang, 'data-testid': `lang-${lang}`,
      onclick: () => i18n.set(lang),
    }, words[lang]['lang.name']));
  }
  const all = () => {
    translate();
    for (const b of box.children) b.setAttribute('aria-pressed', String(b.dataset.lang === i18n.lang));
    render();
  };
  i18n.onSwitch(all);
  all();
}
