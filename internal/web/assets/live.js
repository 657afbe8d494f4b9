// The live feed of a show: an EventSource that feeds a MapStore.
//
// The browser reconnects by itself with Last-Event-ID. What it does not do is
// done here: a feed that was refused (503, a restart) is opened again with a
// growing pause and the last revision; a misfit or a new generation is answered
// by a fresh feed, which begins with a snapshot; a hidden page gives its
// connection back after a while; and a feed that has been silent is checked
// against the map's ETag, because a dead connection looks like a quiet house.

const PAUSE_MS = [500, 1000, 2000, 4000, 8000, 15000];
const HIDDEN_CLOSE_MS = 60_000;
const SILENCE_MS = 45_000;

/** Live keeps store up to date; onStatus hears 'connecting', 'live', 'offline'. */
export class Live {
  #source = null;
  #timer = 0;
  #failures = 0;
  #stopped = true;
  #hiddenTimer = 0;
  #watch = 0;
  #lastHeard = 0;
  #status = '';

  constructor({ url, mapUrl, store, onStatus = () => {}, EventSource = globalThis.EventSource, fetch = (...a) => globalThis.fetch(...a) }) {
    Object.assign(this, { url, mapUrl, store, onStatus, EventSource, fetch });
  }

  start() {
    if (!this.#stopped) return;
    this.#stopped = false;
    this.#open();
    this.#watch = setInterval(() => this.#checkSilence(), SILENCE_MS / 3);
    document.addEventListener('visibilitychange', this.#visibility);
    addEventListener('online', this.#wake);
    addEventListener('pageshow', this.#wake);
  }

  stop() {
    this.#stopped = true;
    this.#close();
    clearInterval(this.#watch);
    clearTimeout(this.#hiddenTimer);
    document.removeEventListener('visibilitychange', this.#visibility);
    removeEventListener('online', this.#wake);
    removeEventListener('pageshow', this.#wake);
  }

  #set(status) {
    if (status === this.#status) return;
    this.#status = status;
    this.onStatus(status);
  }

  #close() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#source?.close();
    this.#source = null;
  }

  // fresh: without a revision, so that the feed begins with a snapshot.
  #open(fresh = false) {
    this.#close();
    this.#set('connecting');
    const resume = !fresh && this.store.ready ? `?lastEventId=${encodeURIComponent(this.store.revisionText)}` : '';
    const source = new this.EventSource(this.url + resume);
    this.#source = source;
    source.onopen = () => {
      this.#lastHeard = Date.now();
      if (this.store.ready && !fresh) this.#set('live');
    };
    source.addEventListener('snapshot', (e) => this.#hear(source, e, (data) => this.store.snapshot(data)));
    source.addEventListener('update', (e) => this.#hear(source, e, (data) => this.store.update(data)));
    source.onerror = () => {
      if (source !== this.#source) return;
      if (source.readyState === this.EventSource.CLOSED) this.#later(false);
      else this.#set(navigator.onLine === false ? 'offline' : 'connecting');
    };
  }

  #hear(source, event, apply) {
    if (source !== this.#source) return;
    this.#lastHeard = Date.now();
    let outcome;
    try {
      outcome = apply(JSON.parse(event.data));
    } catch {
      outcome = 'bad';
    }
    if (outcome === 'gap') return this.#open(true);
    if (outcome === 'bad') return this.#later(true);
    this.#failures = 0;
    this.#set('live');
  }

  #later(fresh) {
    this.#close();
    this.#set(navigator.onLine === false ? 'offline' : 'connecting');
    const pause = PAUSE_MS[Math.min(this.#failures++, PAUSE_MS.length - 1)];
    // Spread out, so that a restart is not met by everyone at once.
    this.#timer = setTimeout(() => this.#open(fresh), pause * (0.75 + Math.random() / 2));
  }

  #wake = () => {
    if (!this.#stopped && (!this.#source || this.#source.readyState !== this.EventSource.OPEN)) {
      this.#failures = 0;
      this.#open();
    }
  };

  #visibility = () => {
    clearTimeout(this.#hiddenTimer);
    if (document.visibilityState === 'hidden') {
      this.#hiddenTimer = setTimeout(() => this.#close(), HIDDEN_CLOSE_MS);
    } else {
      this.#wake();
    }
  };

  async #checkSilence() {
    if (!this.#source || !this.store.ready || Date.now() - this.#lastHeard < SILENCE_MS) return;
    this.#lastHeard = Date.now();
    const source = this.#source;
    try {
      const before = this.store.revisionText;
      const answer = await this.fetch(this.mapUrl, { signal: AbortSignal.timeout(10_000) });
      if (!answer.ok) return;
      const map = await answer.json();
      if (source === this.#source && this.store.revisionText === before && map.revision !== before) this.#open(true);
    } catch {
      if (source === this.#source) this.#set('offline');
    }
  }
}
