// The server's time, learnt from the Date header of its answers.
//
// Date has whole seconds, so one answer only says that the offset lies in
// [Date − received, Date + 1 s − sent]. Intervals of several answers are
// intersected, which closes in on the truth; an empty intersection means that
// a clock was set, and the newest answer alone counts.

/** ServerClock corrects this machine's clock for countdowns. */
export class ServerClock {
  #low = -Infinity;
  #high = Infinity;
  #now;

  constructor(now = () => Date.now()) {
    this.#now = now;
  }

  /** Learns from an answer: its Date header, and when it was sent and received. */
  observe(dateHeader, sent, received) {
    const date = Date.parse(dateHeader ?? '');
    if (Number.isNaN(date)) return;
    const low = date - received, high = date + 1000 - sent;
    this.#low = Math.max(this.#low, low);
    this.#high = Math.min(this.#high, high);
    if (this.#low > this.#high) [this.#low, this.#high] = [low, high];
  }

  /** Milliseconds to add to this machine's clock. */
  get offset() {
    return Number.isFinite(this.#low) ? (this.#low + this.#high) / 2 : 0;
  }

  /** The server's time now, in ms. */
  now() {
    return this.#now() + this.offset;
  }
}
