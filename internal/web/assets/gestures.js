// Hands on the map: mouse, touch, pen, wheel and keys become pans, zooms,
// taps and steps.

const TAP_SLOP_PX = 7;
const DOUBLE_MS = 320;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Wires a SeatMap's canvas. */
export function gestures(map) {
  const { canvas } = map;
  const pointers = new Map();
  let moved = 0, pinch = null, lastTap = null;

  const local = (e) => {
    const box = canvas.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  };

  const spread = () => {
    const [a, b] = [...pointers.values()];
    return { d: Math.hypot(a.x - b.x, a.y - b.y), x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  };

  canvas.addEventListener('pointerdown', (e) => {
    if (e.button !== 0) return;
    canvas.setPointerCapture(e.pointerId);
    map.byKeys = false;
    pointers.set(e.pointerId, local(e));
    if (pointers.size === 1) moved = 0;
    if (pointers.size === 2) {
      pinch = spread();
      moved = Infinity; // a pinch is never a tap
    }
  });

  canvas.addEventListener('pointermove', (e) => {
    const at = local(e);
    const from = pointers.get(e.pointerId);
    if (!from) {
      if (e.pointerType !== 'touch') map.hooks.onHover(map.seatAt(at.x, at.y), at.x, at.y);
      return;
    }
    pointers.set(e.pointerId, at);
    if (pointers.size === 2 && pinch) {
      const now = spread();
      map.pan(now.x - pinch.x, now.y - pinch.y);
      if (pinch.d > 0) map.zoom(now.d / pinch.d, now.x, now.y, 0);
      pinch = now;
      return;
    }
    moved += Math.hypot(at.x - from.x, at.y - from.y);
    if (moved > TAP_SLOP_PX) {
      canvas.classList.add('dragging');
      map.hooks.onHover(-1, 0, 0);
      map.pan(at.x - from.x, at.y - from.y);
    }
  });

  const up = (e) => {
    if (!pointers.delete(e.pointerId)) return;
    if (pointers.size < 2) pinch = null;
    if (pointers.size > 0) return;
    canvas.classList.remove('dragging');
    if (e.type !== 'pointerup' || moved > TAP_SLOP_PX) return;
    const at = local(e), now = performance.now();
    const again = lastTap && now - lastTap.at < DOUBLE_MS && Math.hypot(at.x - lastTap.x, at.y - lastTap.y) < 28;
    // Twice on empty ground goes closer; a seat answers to each tap.
    if (again && !lastTap.hit) {
      map.zoom(2.2, at.x, at.y, 240);
      lastTap = null;
      return;
    }
    lastTap = { ...at, at: now, hit: map.tap(at.x, at.y, e.pointerType !== 'mouse') };
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('pointerleave', () => map.hooks.onHover(-1, 0, 0));

  canvas.addEventListener('wheel', (e) => {
    e.preventDefault();
    const at = local(e);
    const unit = e.deltaMode === 1 ? 20 : e.deltaMode === 2 ? 300 : 1;
    const delta = Math.max(-240, Math.min(240, e.deltaY * unit));
    map.zoom(Math.exp(-delta * (e.ctrlKey ? 0.008 : 0.0024)), at.x, at.y, 0);
  }, { passive: false });

  canvas.addEventListener('keydown', (e) => {
    if (e.altKey || e.metaKey || e.ctrlKey) return;
    const arrow = ARROWS[e.key];
    if (arrow && e.shiftKey) map.pan(-arrow[0] * 80, -arrow[1] * 80);
    else if (arrow) {
      if (!map.step(...arrow)) map.hooks.onEdge();
    } else if (e.key === 'Enter' || e.key === ' ') {
      if (map.focused >= 0) map.hooks.onActivate(map.focused);
      else map.step(1, 0);
    } else if (e.key === '+' || e.key === '=') map.zoom(1.5);
    else if (e.key === '-' || e.key === '_') map.zoom(1 / 1.5);
    else if (e.key === '0') map.fit();
    else if (e.key === 'Escape' && map.focused >= 0) map.focus(-1);
    else return;
    e.preventDefault();
  });
  canvas.addEventListener('focus', map.dirty);
  canvas.addEventListener('blur', map.dirty);
}
