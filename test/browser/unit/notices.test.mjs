import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventReader, Notices, pauseAfter } from '../../../internal/web/assets/notices.js';

test('events are cut out of any pieces', () => {
  const text = 'retry: 2000\n\nid: a.1\nevent: notice\ndata: {"a":\ndata: 1}\n\n: \n\nevent: end\ndata:x\n\ndata: rest';
  for (const size of [1, 2, 3, 7, text.length]) {
    const reader = new EventReader();
    const got = [];
    for (let i = 0; i < text.length; i += size) got.push(...reader.push(text.slice(i, i + size)));
    assert.deepEqual(got, [{ event: 'notice', data: '{"a":\n1}' }, { event: 'end', data: 'x' }], `pieces of ${size}`);
  }
});

test('pauses grow by half up to a minute, and are spread', () => {
  assert.equal(pauseAfter(0, 0.5), 500);
  assert.equal(pauseAfter(2, 0.5), 1125);
  assert.equal(pauseAfter(50, 0.5), 60_000);
  assert.equal(pauseAfter(50, 0), 45_000);
});

// A server that answers as a test says, one connection after the other.
function rig(answers, token = 'T') {
  const heard = [], pauses = [], asked = [];
  let notices;
  const session = { existing: () => token, drop: (t) => { if (t === token) token = null; } };
  const ended = new Promise((done) => {
    notices = new Notices({
      session,
      onNotice: (n) => heard.push(n.id ?? n.type),
      later: (fn, ms) => {
        if (ms < 45_000) pauses.push(ms);
        if (ms < 45_000) setImmediate(fn); // not the watch over silence
      },
      fetch: async (url, { headers }) => {
        asked.push(headers.Authorization);
        const next = answers.shift();
        if (!next) {
          notices.stop();
          done();
          throw new Error('no more');
        }
        if (next instanceof Error) throw next;
        return next;
      },
    });
  });
  return { notices, heard, pauses, asked, ended, session };
}

const stream = (...pieces) => new Response(new ReadableStream({
  start(c) {
    for (const p of pieces) c.enqueue(new TextEncoder().encode(p));
    c.close();
  },
}), { status: 200 });
const say = (id) => `id: ${id}\nevent: notice\ndata: {"type":"order.changed","id":"${id}"}\n\n`;

test('notices come through, also one that is cut in two', async () => {
  const { notices, heard, asked, ended } = rig([stream('retry: 2000\n\n', say('a.1') + say('b.1').slice(0, 20), say('b.1').slice(20))]);
  notices.start();
  await ended;
  assert.deepEqual(heard, ['a.1', 'b.1']);
  assert.equal(asked[0], 'Bearer T');
});

test('after a lost connection something may have been missed', async () => {
  const { notices, heard, pauses, ended } = rig([stream(say('a.1')), new Error('gone'), new Response('', { status: 503 }), stream(': \n\n', say('a.2'))]);
  notices.start();
  await ended;
  assert.deepEqual(heard, ['a.1', 'missed', 'a.2']);
  assert.ok(pauses.length >= 3 && pauses.every((ms) => ms >= 375), String(pauses));
});

test('a refused token is dropped, and nothing is asked without one', async () => {
  const { notices, asked, session, pauses } = rig([new Response('', { status: 401 })]);
  notices.start();
  while (pauses.length < 4) await new Promise(setImmediate);
  notices.stop();
  await notices.done;
  assert.equal(session.existing(), null);
  assert.deepEqual(asked, ['Bearer T']);
});

test('a server without the stream is left alone', async () => {
  const { notices, asked } = rig([new Response('', { status: 404 })]);
  notices.start();
  await notices.done;
  assert.equal(asked.length, 1);
});

test('a silent connection is given up', async () => {
  let silence;
  let aborted = false;
  const notices = new Notices({
    session: { existing: () => 'T', drop() {} },
    onNotice() {},
    later: (fn, ms) => {
      if (ms === 45_000) silence = fn;
    },
    fetch: (url, { signal }) => new Promise((_, fail) => {
      signal.addEventListener('abort', () => { aborted = true; fail(new Error('aborted')); });
    }),
  });
  notices.start();
  await new Promise(setImmediate);
  silence();
  await new Promise(setImmediate);
  assert.ok(aborted);
  notices.stop();
  await notices.done;
});
