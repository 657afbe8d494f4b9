// One confirmation: "hold these seats for me".
//
// It has one idempotency key, made when the person confirms and sent with
// every attempt, so that a lost answer is asked for again and never becomes a
// second order. Whatever leaves the outcome open is tried again, a bounded
// number of times; a refusal is final. The confirmation is remembered until
// it is answered, so that a reload in the middle finishes it.

import { Problem, Unreachable } from './api.js';

const STORE = 'seatflow.confirming';
const ATTEMPTS = 6;
const REMEMBER_MS = 120_000;

/** Whether an error leaves the outcome open, or says to come back later. */
export function mayRetry(err) {
  if (err instanceof Unreachable) return true;
  if (!(err instanceof Problem)) return false;
  return err.status >= 500 || err.status === 429 || err.code === 1005;
}

/** How long to wait before attempt n (from 1): what the server said, else doubling with spread. */
export function pauseMs(err, n, random = Math.random) {
  const own = Math.min(300 * 2 ** (n - 1), 4000) * (0.75 + random() / 2);
  const told = err instanceof Problem && err.retryAfterMs !== null && err.retryAfterMs !== undefined ? err.retryAfterMs : 0;
  return Math.min(Math.max(own, told), 10_000);
}

/** Confirmation sends one order until it is answered. */
export class Confirmation {
  constructor({ showId, seats, key = crypto.randomUUID(), at = Date.now(), storage = null }) {
    Object.assign(this, { showId, seats, key, at, storage });
    this.attempts = 0;
  }

  /** The confirmation that a reload interrupted, or null. */
  static recall(showId, storage, now = Date.now()) {
    try {
      const c = JSON.parse(storage?.getItem(STORE) ?? 'null');
      if (c && c.showId === showId && now - c.at < REMEMBER_MS && Array.isArray(c.seats)) return new Confirmation({ ...c, storage });
    } catch {
      // Unreadable: nothing to finish.
    }
    return null;
  }

  #remember(on) {
    try {
      if (on) this.storage?.setItem(STORE, JSON.stringify({ showId: this.showId, seats: this.seats, key: this.key, at: this.at }));
      else this.storage?.removeItem(STORE);
    } catch {
      // Without storage a reload merely forgets the attempt.
    }
  }

  /** Sends through post(body, headers); the order, or the error that ended it. */
  async send(post, { sleep = (ms) => new Promise((r) => setTimeout(r, ms)), onRetry = () => {}, random } = {}) {
    this.#remember(true);
    for (;;) {
      this.attempts++;
      try {
        const order = await post({ showId: this.showId, seats: this.seats }, { 'Idempotency-Key': this.key });
        this.#remember(false);
        return order;
      } catch (err) {
        if (!mayRetry(err) || this.attempts >= ATTEMPTS) {
          // An open outcome stays remembered: the next visit asks once more.
          if (!mayRetry(err)) this.#remember(false);
          throw err;
        }
        onRetry(this.attempts, err);
        await sleep(pauseMs(err, this.attempts, random));
      }
    }
  }
}
