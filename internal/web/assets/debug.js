// window.seatflow: what the canvas shows, for tests and the curious. Read only.

import { statusName } from './store.js';

/** Publishes the accessor; get() returns the page's present parts. */
export function debug(get) {
  const seat = (id) => {
    const { page, store, label } = get();
    const i = page?.house.at(id) ?? -1;
    if (i < 0) return null;
    const { x, y } = page.map.place(i);
    return {
      id, x, y, label: label(i), state: statusName(store.state(id)),
      own: page.purchase.own.has(i), selected: page.purchase.selected.has(i),
      row: page.house.row[i], number: page.house.number[i], zone: page.house.zoneName(i),
      sizePx: page.house.r[i] * page.map.cam.scale,
    };
  };
  const api = {
    seat,
    get ready() { return !!get().page?.map && get().store.ready; },
    get revision() { return get().store.revisionText; },
    get counts() { return { ...get().store.counts }; },
    get level() { return get().page.map.level; },
    get scale() { return get().page.map.cam.scale; },
    get frames() { return get().page.map.frames; },
    get paintMs() { return get().page.map.layerMs; },
    get seats() { return get().page.house.n; },
    get order() { return structuredClone(get().page.purchase.order); },
    get selected() { const { page } = get(); return [...page.purchase.selected].map((i) => page.house.ids[i]); },
    get own() { const { page } = get(); return [...page.purchase.own].map((i) => page.house.ids[i]); },
    get focused() { const { page } = get(); return page.map.focused < 0 ? null : page.house.ids[page.map.focused]; },
  };
  Object.defineProperty(window, 'seatflow', { value: Object.freeze(api) });
}
