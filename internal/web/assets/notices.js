// What happens to the reader's own orders, from whatever device, as the server
// tells it. An EventSource cannot send a token, so this is a fetch whose answer
// never ends.
//
// Notices are hints: whoever hears one reads the orders again. Nothing is kept
// on the server for a page that is away, so a connection that was lost and is
// there again counts as a notice too.

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;
const NOBODY_MS = 2000; // between two looks whether there is a token by now
const SILENCE_MS = 45_000; // three heartbeats
const HIDDEN_CLOSE_MS = 60_000;

/** EventReader cuts text into server-sent events as it comes. */
export class EventReader {
  #rest = '';

  /** The events that are complete with this piece: [{event, data}]. */
  push(text) {
    const blocks = (this.#rest + text).split('\n\n');
    this.#rest = blocks.pop();
    return blocks.flatMap((block) => {
      let event = 'message';
      const data = [];
      for (const line of block.split('\n')) {
        const colon = line.indexOf(':');
        if (colon <= 0) continue; // a comment
        const value = line.slice(colon + 1).replace(/^ /, '');
        if (line.slice(0, colon) === 'event') event = value;
        else if (line.slice(0, colon) === 'data') data.push(value);
      }
      return data.length ? [{ event, data: data.join('\n') }] : [];
    });
  }
}

/** pauseAfter is how long to wait after so many failures in a row, in ms. */
export function pauseAfter(failures, random = Math.random()) {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 1.5 ** failures) * (0.75 + random / 2);
}

/** Notices calls onNotice with each notice; {type: 'missed'} after an absence. */
export class Notices {
  #abort = null;
  #wake = null;
  #stopped = true;
  #hiddenTimer = 0;
  #failures = 0;
  #connected = false; // ever

  constructor({ session, onNotice, url = '/api/v1/me/events', fetch = (...a) => globalThis.fetch(...a), later = (fn, ms) => setTimeout(fn, ms) }) {
    Object.assign(this, { session, onNotice, url, fetch, later });
  }

  start() {
    if (!this.#stopped) return;
    this.#stopped = false;
    globalThis.document?.addEventListener('visibilitychange', this.#visibility);
    globalThis.addEventListener?.('online', this.#hurry);
    this.done = this.#run();
  }

  stop() {
    this.#stopped = true;
    globalThis.document?.removeEventListener('visibilitychange', this.#visibility);
    globalThis.removeEventListener?.('online', this.#hurry);
    clearTimeout(this.#hiddenTimer);
    this.#abort?.abort();
    this.#hurry();
  }

  async #run() {
    while (!this.#stopped) {
      const token = this.session.existing();
      if (!token || globalThis.document?.hidden) {
        await this.#rest(NOBODY_MS);
        continue;
      }
      try {
        if (!await this.#listen(token)) return;
      } catch {
        // Not reached, cut or silent: again, later.
      }
      if (!this.#stopped) await this.#rest(pauseAfter(this.#failures++));
    }
  }

  // false: the server has no such stream.
  async #listen(token) {
    const abort = new AbortController();
    this.#abort = abort;
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = this.later(() => abort.abort(), SILENCE_MS);
    };
    try {
      heard();
      const answer = await this.fetch(this.url, { headers: { Authorization: `Bearer ${token}` }, cache: 'no-store', signal: abort.signal });
      if (answer.status === 401) this.session.drop(token);
      if (answer.status === 404) return false;
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      const reader = new EventReader();
      const text = new TextDecoder();
      const body = answer.body.getReader(); // not every browser lets it be iterated
      for (let got; !(got = await body.read()).done;) {
        heard();
        if (this.#failures || !this.#connected) {
          if (this.#connected) this.onNotice({ type: 'missed' });
          this.#failures = 0;
          this.#connected = true;
        }
        for (const { event, data } of reader.push(text.decode(got.value, { stream: true }))) {
          if (event === 'notice') this.onNotice(JSON.parse(data));
        }
      }
    } finally {
      clearTimeout(silence);
    }
    return true;
  }

  #rest(ms) {
    return new Promise((done) => {
      this.#wake = done;
      this.later(done, ms);
    });
  }

  #hurry = () => this.#wake?.();

  #visibility = () => {
    clearTimeout(this.#hiddenTimer);
    if (document.hidden) this.#hiddenTimer = setTimeout(() => this.#abort?.abort(), HIDDEN_CLOSE_MS);
    else this.#hurry();
  };
}
