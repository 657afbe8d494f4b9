// window.seatflow: what the canvas shows, for tests and the curious. Read only.

import { statusName } from './store.js';

/** Publishes the accessor; get() returns the page's present parts. */
export function debug(get) {
  const page = () => get().page;
  const seat = (id) => {
    const { store, label } = get();
    const p = page();
    const i = p?.house.at(id) ?? -1;
    if (i < 0) return null;
    const { x, y } = p.map.place(i);
    return {
      id, x, y, label: label(i), state: statusName(store.state(id)),
      own: p.purchase.own.has(i), selected: p.purchase.selected.has(i),
      row: p.house.row[i], number: p.house.number[i], zone: p.house.zoneName(i),
      sizePx: p.house.r[i] * p.map.cam.scale,
    };
  };
  const ids = (set) => [...(set ?? [])].map((i) => page().house.ids[i]);
  // Everything is null or empty until the house is open.
  const api = {
    seat,
    get ready() { return !!page()?.map && get().store.ready; },
    get revision() { return get().store.revisionText; },
    get counts() { return { ...get().store.counts }; },
    get level() { return page()?.map.level ?? null; },
    get scale() { return page()?.map.cam.scale ?? 0; },
    get frames() { return page()?.map.frames ?? 0; },
    get paintMs() { return page()?.map.layerMs ?? 0; },
    get seats() { return page()?.house.n ?? 0; },
    get order() { return structuredClone(page()?.purchase.order ?? null); },
    get selected() { return ids(page()?.purchase.selected); },
    get own() { return ids(page()?.purchase.own); },
    get focused() { const i = page()?.map.focused ?? -1; return i < 0 ? null : page().house.ids[i]; },
  };
  Object.defineProperty(window, 'seatflow', { value: Object.freeze(api) });
}
