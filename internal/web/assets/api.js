// Calls to the public API: one place for tokens, languages, time-outs and for
// turning problem documents into errors.

import { ServerClock } from './clock.js';
import { Session } from './session.js';

const TIMEOUT_MS = 15_000;

/** Problem is a refusal of the server; its text is in the reader's language. */
export class Problem extends Error {
  constructor(status, body, retryAfterMs) {
    super(body?.detail || body?.title || `HTTP ${status}`);
    this.name = 'Problem';
    this.status = status;
    this.code = body?.code ?? 0;
    this.reason = body?.reason ?? '';
    this.seats = body?.seats ?? [];
    this.available = body?.available ?? [];
    this.left = body?.left;
    this.order = body?.order;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Unreachable: no answer came, so nobody knows whether the request arrived. */
export class Unreachable extends Error {
  constructor(cause) {
    super('unreachable', { cause });
    this.name = 'Unreachable';
  }
}

/** Retry-After (seconds or a date) in ms, or null. */
export function retryAfter(header, now = Date.now()) {
  if (!header) return null;
  if (/^\d+$/.test(header)) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

/** Api talks to /api/v1. */
export class Api {
  constructor({ fetch = (...a) => globalThis.fetch(...a), storage, lang = () => 'en' }) {
    this.fetch = fetch;
    this.lang = lang;
    this.clock = new ServerClock();
    this.session = new Session({ storage, now: () => this.clock.now(), mint: () => this.call('POST', '/guests') });
  }

  /**
   * One request. as: 'nobody' sends no token, 'me' sends the token that is
   * there, 'guest' makes one when there is none and once more when it was
   * refused.
   */
  async call(method, path, { body, headers = {}, as = 'nobody', signal } = {}) {
    const token = as === 'guest' ? await this.session.token() : as === 'me' ? this.session.existing() : null;
    try {
      return await this.#once(method, path, { body, headers, token, signal });
    } catch (err) {
      if (!(err instanceof Problem) || err.status !== 401 || !token) throw err;
      this.session.drop(token);
      if (as !== 'guest') throw err;
      return this.#once(method, path, { body, headers, token: await this.session.token(), signal });
    }
  }

  async #once(method, path, { body, headers, token, signal }) {
    const init = { method, headers: { Accept: 'application/json', 'Accept-Language': this.lang(), ...headers } };
    if (token) init.headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) {
      init.headers['Content-Type'] = 'application/json';
      init.body = JSON.stringify(body);
    }
    const limit = AbortSignal.timeout(TIMEOUT_MS);
    init.signal = signal ? AbortSignal.any([signal, limit]) : limit;
    const sent = Date.now();
    let answer, text;
    try {
      answer = await this.fetch(path.startsWith('/api/') ? path : `/api/v1${path}`, init);
      text = await answer.text();
    } catch (err) {
      throw new Unreachable(err);
    }
    this.clock.observe(answer.headers.get('Date'), sent, Date.now());
    let data = null;
    try {
      data = text ? JSON.parse(text) : null;
    } catch {
      if (answer.ok) throw new Problem(502, null, null);
    }
    if (!answer.ok) throw new Problem(answer.status, data, retryAfter(answer.headers.get('Retry-After')));
    return data;
  }

  shows() { return this.#all('/shows', 'shows'); }
  show(id) { return this.call('GET', `/shows/${id}`); }
  plan(id) { return this.call('GET', `/shows/${id}/plan`); }
  map(id) { return this.call('GET', `/shows/${id}/seats?form=compact`); }

  /** Own orders, newest first; none without a token. */
  async orders(pages = 2) {
    if (!this.session.existing()) return [];
    try {
      return await this.#all('/orders', 'orders', pages, 'me');
    } catch (err) {
      if (err instanceof Problem && err.status === 401) return [];
      throw err;
    }
  }

  order(no) { return this.call('GET', `/orders/${no}`, { as: 'me' }); }
  cancel(no) { return this.call('POST', `/orders/${no}/cancel`, { as: 'me' }); }
  extend(no) { return this.call('POST', `/orders/${no}/extend`, { as: 'me' }); }
  startPayment(no) { return this.call('POST', `/orders/${no}/payments`, { as: 'me', body: { provider: 'sandbox' } }); }
  card(url, outcome) { return this.call('POST', url, { as: 'me', body: { outcome } }); }

  async #all(path, member, pages = 5, as = 'nobody') {
    const out = [];
    let cursor = '';
    for (let i = 0; i < pages; i++) {
      const page = await this.call('GET', `${path}?limit=100${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`, { as });
      out.push(...(page[member] ?? []));
      if (!page.next) break;
      cursor = page.next;
    }
    return out;
  }
}
