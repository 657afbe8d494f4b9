// Who this browser is: a guest token, made once and kept.
//
// It is minted only when the server must know the buyer (the first hold), and
// again when it has expired or was refused. Several calls at once share one
// minting.

const KEY = 'seatflow.guest';
const EARLY_MS = 30_000; // renew this long before the end, for clocks that differ

/** Session keeps the guest token in storage; mint() asks the server for one. */
export class Session {
  #minting = null;

  constructor({ storage, mint, now = () => Date.now() }) {
    Object.assign(this, { storage, mint, now });
  }

  /** The live token's record, or null. */
  current() {
    try {
      const s = JSON.parse(this.storage.getItem(KEY) ?? 'null');
      if (s && typeof s.token === 'string' && Date.parse(s.expiresAt) - EARLY_MS > this.now()) return s;
    } catch {
      // Unreadable: as good as absent.
    }
    return null;
  }

  /** A live token, minted when there is none. */
  async token() {
    const s = this.current();
    if (s) return s.token;
    this.#minting ??= this.mint()
      .then((made) => {
        try {
          this.storage.setItem(KEY, JSON.stringify(made));
        } catch {
          // No room or no permission: the token serves until the page closes.
          this.#fallback = made;
        }
        return made;
      })
      .finally(() => {
        this.#minting = null;
      });
    return (await this.#minting).token;
  }

  #fallback = null;

  /** The token to send if there is one, without minting. */
  existing() {
    return this.current()?.token ?? this.#fallback?.token ?? null;
  }

  /** Forgets a token that the server refused, unless a newer one is there. */
  drop(token) {
    if (this.#fallback?.token === token) this.#fallback = null;
    try {
      const s = JSON.parse(this.storage.getItem(KEY) ?? 'null');
      if (s?.token === token) this.storage.removeItem(KEY);
    } catch {
      this.storage.removeItem(KEY);
    }
  }
}
