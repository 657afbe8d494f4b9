// Words on the plan, drawn over the layer in screen px: sections with their
// free seats while seats cannot be told, rows once they can.

/** Names every section in sight, with the number of its free seats. */
export function sectionLabels({ ctx, cam, house, paint, hooks }) {
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  const taken = [];
  for (const section of house.sections) {
    const px = cam.screenX(section.cx), py = cam.screenY(section.cy);
    if (px < -80 || py < -40 || px > cam.w + 80 || py > cam.h + 40) continue;
    const n = paint.free(section);
    // Words where there is room, the bare number in a narrow section.
    const wide = (section.x1 - section.x0) * cam.scale > 84 && (section.y1 - section.y0) * cam.scale > 44;
    for (const roomy of wide ? [true, false] : [false]) {
      const free = roomy ? hooks.words().free(n) : String(n);
      const size = roomy ? 12 : 10.5;
      ctx.font = `650 ${size}px ${paint.theme.font}`;
      const label = {
        name: section.name, free, px, py, size, h: size * 3,
        w: Math.max(ctx.measureText(section.name).width, ctx.measureText(free).width) + (roomy ? 14 : 8),
      };
      // Labels never cover one another: the first, which is the plan's order, stays.
      if (taken.some((t) => overlap(t, label))) continue;
      taken.push(label);
      pill(ctx, paint.theme, label);
      break;
    }
  }
}

function overlap(a, b) {
  return Math.abs(a.px - b.px) < (a.w + b.w) / 2 + 2 && Math.abs(a.py - b.py) < (a.h + b.h) / 2 + 2;
}

function pill(ctx, theme, { name, free, px, py, w, h, size }) {
  ctx.globalAlpha = 0.9;
  ctx.fillStyle = theme.surface;
  ctx.beginPath();
  ctx.roundRect(px - w / 2, py - h / 2, w, h, size * 0.6);
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.ink;
  ctx.fillText(name, px, py - size * 0.64);
  ctx.font = `${size}px ${theme.font}`;
  ctx.fillText(free, px, py + size * 0.68);
}

/** Row names beside both ends of each row, once there is room for them. */
export function rowLabels({ ctx, cam, house, paint }) {
  const px = house.usualR * cam.scale;
  if (px < 4.5) return;
  ctx.fillStyle = paint.theme.quiet;
  ctx.font = `${Math.min(13, Math.max(9, px * 0.95))}px ${paint.theme.font}`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  const out = house.pitch * 0.95;
  for (const { name, seats } of house.rows) {
    if (seats.length < 2) continue;
    for (const [end, inner] of [[seats[0], seats[1]], [seats.at(-1), seats.at(-2)]]) {
      const dx = house.x[end] - house.x[inner], dy = house.y[end] - house.y[inner];
      const length = Math.hypot(dx, dy) || 1;
      const sx = cam.screenX(house.x[end] + (dx / length) * out), sy = cam.screenY(house.y[end] + (dy / length) * out);
      if (sx >= 0 && sy >= 0 && sx <= cam.w && sy <= cam.h) ctx.fillText(name, sx, sy);
    }
  }
}
