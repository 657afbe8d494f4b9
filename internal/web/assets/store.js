// The state of every seat of one show, as the server tells it.
//
// Revisions are "generation.number", and an update leads on from the frame
// before it; a burst is merged into one, so numbers may step by more than one.
// What was seen is dropped; another generation asks for a snapshot. An update
// also says how each seat's occupancy changes: one that does not fit what we
// have means that something was missed, and asks for a snapshot as well. So
// the map never stays in a state that the house was not in.

export const FREE = 48; // '0'
export const HELD = 49; // '1'
export const SOLD = 50; // '2'
export const BLOCKED = 120; // 'x'
export const NONE = 45; // '-'

const byStatus = { available: FREE, held: HELD, sold: SOLD, blocked: BLOCKED };
const names = { [FREE]: 'available', [HELD]: 'held', [SOLD]: 'sold', [BLOCKED]: 'blocked', [NONE]: 'none' };

const occupied = (state) => (state === FREE || state === NONE ? 0 : 1);

/** The public word for a state's character code. */
export function statusName(state) {
  return names[state] ?? 'none';
}

/** Reads "3.17"; null when it is not a revision. */
export function parseRevision(text) {
  const m = /^(\d{1,15})\.(\d{1,15})$/.exec(text ?? '');
  return m ? { generation: Number(m[1]), number: Number(m[2]) } : null;
}

/** MapStore holds a show's seats; listeners hear which seat ids changed (null: all). */
export class MapStore {
  states = new Uint8Array(0);
  revision = null;
  revisionText = '';
  counts = { available: 0, held: 0, sold: 0, blocked: 0 };
  #listeners = new Set();

  /** Calls fn(changedIds|null) after each change; returns a function that stops it. */
  listen(fn) {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  }

  /** Whether a snapshot has been taken. */
  get ready() {
    return this.revision !== null;
  }

  /** The state of a seat id. */
  state(id) {
    return id >= 1 && id <= this.states.length ? this.states[id - 1] : NONE;
  }

  /** Takes a compact map whole. An older one than we have in the same generation is dropped. */
  snapshot(map) {
    const revision = parseRevision(map.revision);
    if (!revision || typeof map.states !== 'string') return 'bad';
    const old = this.revision;
    if (old && revision.generation === old.generation && revision.number < old.number) return 'seen';
    const states = new Uint8Array(map.states.length);
    for (let i = 0; i < states.length; i++) {
      const c = map.states.charCodeAt(i);
      states[i] = c in names ? c : NONE;
    }
    const first = !old || this.states.length !== states.length;
    const changed = [];
    if (!first) {
      for (let i = 0; i < states.length; i++) if (states[i] !== this.states[i]) changed.push(i + 1);
    }
    this.states = states;
    this.revision = revision;
    this.revisionText = map.revision;
    this.#recount();
    this.#tell(first ? null : changed);
    return 'applied';
  }

  /** Applies an update: 'applied', 'seen' (dropped) or 'gap' (take a snapshot). */
  update(event) {
    const next = parseRevision(event.revision);
    if (!next || !this.revision || !Array.isArray(event.updates)) return 'gap';
    const { generation, number } = this.revision;
    if (next.generation < generation) return 'seen';
    if (next.generation > generation) return 'gap';
    if (next.number <= number) return 'seen';
    for (const { seatId, status, delta } of event.updates) {
      const state = byStatus[status];
      if (state === undefined || !Number.isInteger(seatId) || seatId < 1 || seatId > this.states.length) return 'gap';
      if (Number.isInteger(delta) && delta !== occupied(state) - occupied(this.states[seatId - 1])) return 'gap';
    }
    const changed = [];
    for (const { seatId, status } of event.updates) {
      const before = this.states[seatId - 1], state = byStatus[status];
      if (before === state) continue;
      if (before !== NONE) this.counts[names[before]]--;
      this.counts[names[state]]++;
      this.states[seatId - 1] = state;
      changed.push(seatId);
    }
    this.revision = next;
    this.revisionText = event.revision;
    this.#tell(changed);
    return 'applied';
  }

  #recount() {
    const c = { available: 0, held: 0, sold: 0, blocked: 0 };
    for (const s of this.states) if (s !== NONE) c[names[s]]++;
    this.counts = c;
  }

  #tell(changed) {
    for (const fn of this.#listeners) fn(changed);
  }
}
