import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { words } from '../../../internal/web/assets/words.js';
import { choose, fill, I18n, languages } from '../../../internal/web/assets/i18n.js';

const web = new URL('../../../internal/web/', import.meta.url);
const places = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort();

test('both dictionaries have the same keys and places', () => {
  assert.deepEqual(languages, ['en', 'zh']);
  assert.deepEqual(Object.keys(words.zh), Object.keys(words.en));
  for (const [key, text] of Object.entries(words.en)) {
    assert.ok(text.trim() && words.zh[key].trim(), key);
    assert.deepEqual(places(words.zh[key]), places(text), key);
  }
});

test('every key that the page uses is there, and every key is used', () => {
  const sources = [];
  for (const dir of ['assets/', 'pages/']) {
    for (const name of readdirSync(new URL(dir, web))) {
      if (/\.(js|html)$/.test(name) && name !== 'words.js') sources.push(readFileSync(new URL(dir + name, web), 'utf8'));
    }
  }
  const all = sources.join('\n');
  const keys = Object.keys(words.en);
  const used = new Set();
  for (const m of all.matchAll(/data-t(?:-\w+)?="([\w.]+)"/g)) used.add(m[1]);
  for (const m of all.matchAll(/['"`]((?:nav|error|shows|sale|show|view|net|map|seat|state|legend|list|basket|order|orders|pay|say|notice|lang)\.[\w.]+)['"`]/g)) used.add(m[1]);
  for (const m of all.matchAll(/`((?:sale|shows|state|state\.order|legend|net)\.)\$\{/g)) for (const k of keys) if (k.startsWith(m[1])) used.add(k);
  const plural = (k) => k.replace(/\.(one|other)$/, '');
  const known = new Set([...keys, ...keys.map(plural)]);
  for (const k of used) assert.ok(known.has(k), `${k} is used but not in the dictionary`);
  for (const k of keys) assert.ok(used.has(k) || used.has(plural(k)), `${k} is in the dictionary but not used`);
});

test('the language is chosen by hand, then by the browser', () => {
  assert.equal(choose(null, ['de-DE', 'zh-TW', 'en']), 'zh');
  assert.equal(choose('en', ['zh-CN']), 'en');
  assert.equal(choose('xx', ['fr']), 'en');
  assert.equal(choose(null, undefined), 'en');
});

test('a switch is kept and told', () => {
  const kept = new Map();
  const storage = { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, v) };
  const i18n = new I18n({ storage, wanted: ['en-GB'] });
  let heard = '';
  i18n.onSwitch((lang) => { heard = lang; });
  i18n.set('zh');
  i18n.set('klingon');
  assert.equal(heard, 'zh');
  assert.equal(i18n.tag, 'zh-CN');
  assert.equal(new I18n({ storage, wanted: ['en'] }).lang, 'zh');
});

test('places are filled, plurals chosen', () => {
  assert.equal(fill('{a} and {b} and {c}', { a: 1, b: '$&' }), '1 and $& and {c}');
  const en = new I18n({ storage: null, wanted: ['en'] });
  assert.equal(en.n('basket.hold', 1), 'Hold 1 seat');
  assert.equal(en.n('basket.hold', 2), 'Hold 2 seats');
  assert.equal(en.t('no.such.key'), 'no.such.key');
});
