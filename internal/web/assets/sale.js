// Whether a show can be bought now, in a word and a text. Pure.

/** {state, text} of a show at a moment (ms): on, soon, over, soldOut, cancelled, closed. */
export function saleState(show, now, when, t) {
  const as = (state, values) => ({ state, text: t(`sale.${state}`, values) });
  if (show.status === 'cancelled') return as('cancelled');
  if (now < Date.parse(show.saleFrom)) return as('soon', { when: when(show.saleFrom) });
  if (now >= Date.parse(show.saleUntil)) return as('over');
  if (show.onSale === false) return as('closed');
  const c = show.counts;
  if (c && c.available === 0 && c.held === 0 && c.sold > 0) return as('soldOut');
  return as('on');
}
