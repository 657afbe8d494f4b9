// Small helpers for building elements. Text is always text: nothing here
// parses markup, so no title or label can become code.

/** Makes an element: properties, on… listeners, data-… and aria-… attributes, children. */
export function h(tag, props = {}, ...children) {
  return dress(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props = {}, ...children) {
  return dress(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children);
}

function dress(el, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else if (name === 'class') el.setAttribute('class', value);
    else el.setAttribute(name, value === true ? '' : value);
  }
  el.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

/** Shorthand for getElementById. */
export const $ = (id) => document.getElementById(id);

/** Sets text only when it differs, so that screen readers and layout stay calm. */
export function setText(el, text) {
  if (el && el.textContent !== text) el.textContent = text;
}

/** Shows or hides. */
export function show(el, on) {
  if (el && el.hidden === on) el.hidden = !on;
}

/** Announcer speaks to screen readers: say() waits its turn, alert() interrupts. */
export class Announcer {
  #timer = 0;

  constructor(polite, assertive) {
    this.polite = polite;
    this.assertive = assertive;
  }

  say(text) {
    this.#put(this.polite, text);
  }

  alert(text) {
    this.#put(this.assertive, text);
  }

  #put(el, text) {
    // The same text twice is spoken twice only if the region was empty between.
    el.textContent = '';
    clearTimeout(el === this.polite ? this.#timer : 0);
    const timer = setTimeout(() => {
      el.textContent = text;
    }, 30);
    if (el === this.polite) this.#timer = timer;
  }
}
