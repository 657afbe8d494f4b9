// Colours: parsing and mixing, for shades that follow the plan's own colours.

/** [r, g, b] of "#rgb" or "#rrggbb"; grey for anything else. */
export function parse(color) {
  let m = /^#([0-9a-f]{6})$/i.exec(color ?? '');
  if (m) {
    const v = parseInt(m[1], 16);
    return [v >> 16, (v >> 8) & 255, v & 255];
  }
  m = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(color ?? '');
  if (m) return [m[1], m[2], m[3]].map((d) => parseInt(d + d, 16));
  m = /^rgba?\((\d+),\s*(\d+),\s*(\d+)/.exec(color ?? '');
  if (m) return [Number(m[1]), Number(m[2]), Number(m[3])];
  const named = { black: [0, 0, 0], white: [255, 255, 255], red: [200, 30, 30], gray: [128, 128, 128], grey: [128, 128, 128], blue: [30, 60, 200], green: [20, 120, 60] };
  return named[(color ?? '').toLowerCase()] ?? [138, 146, 158];
}

/** a mixed with share (0…1) of b. */
export function mix(a, b, share) {
  const p = parse(a), q = parse(b);
  const c = p.map((v, k) => Math.round(v + (q[k] - v) * share));
  return `rgb(${c[0]}, ${c[1]}, ${c[2]})`;
}

/** Relative luminance as WCAG defines it. */
export function luminance(color) {
  const [r, g, b] = parse(color).map((v) => {
    const u = v / 255;
    return u <= 0.03928 ? u / 12.92 : ((u + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Contrast ratio of two colours, 1…21. */
export function contrast(a, b) {
  const l = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (l[0] + 0.05) / (l[1] + 0.05);
}

/** color, moved away from background until it stands out by at least ratio. */
export function standOut(color, background, ratio) {
  const towards = luminance(background) > 0.4 ? '#000000' : '#ffffff';
  let c = mix(color, color, 0);
  for (let step = 1; step <= 10 && contrast(c, background) < ratio; step++) c = mix(color, towards, step / 12);
  return c;
}
