package admission

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"seatflow"
)

const (
	// shards is how many locks names are spread over: enough that callers on
	// every core rarely meet.
	shards = 64
	// swept is how many windows an attempt looks at for idleness. Two, as an
	// attempt adds at most one: what is idle goes faster than anything comes.
	swept = 2
)

// Memory is seatflow.RateWindows of one process. It starts no goroutine and
// needs no closing.
type Memory struct {
	clock  seatflow.Clock
	base   time.Time
	seed   maphash.Seed
	shards [shards]shard
}

// NewMemory returns windows that go by a clock; nil: the wall clock.
func NewMemory(clock seatflow.Clock) *Memory {
	if clock == nil {
		clock = seatflow.WallClock{}
	}
	m := &Memory{clock: clock, base: clock.Now(), seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].index = make(map[string]int)
	}
	return m
}

// Attempt implements seatflow.RateWindows. It fails only for a window that
// cannot be: fewer than one attempt or no span.
func (m *Memory) Attempt(_ context.Context, name string, most int, span time.Duration) (time.Duration, error) {
	if most < 1 || span <= 0 {
		return 0, fmt.Errorf("admission: a window of %d attempts in %v", most, span)
	}
	// Where the clock has a monotonic reading the difference is taken by it,
	// and setting the wall clock changes nothing.
	now := int64(m.clock.Now().Sub(m.base))
	s := &m.shards[maphash.String(m.seed, name)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.window(name).attempt(now, most, int64(span))
	s.sweep(now)
	return time.Duration(wait), nil
}

// Names returns how many names are remembered.
func (m *Memory) Names() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		n += len(s.windows)
		s.mu.Unlock()
	}
	return n
}

// shard is the windows of some names, in no order.
type shard struct {
	mu      sync.Mutex
	index   map[string]int // name → place in windows
	windows []window
	hand    int      // where the next sweep begins
	_       [64]byte // keeps neighbours' locks off this one's cache line
}

func (s *shard) window(name string) *window {
	if i, ok := s.index[name]; ok {
		return &s.windows[i]
	}
	// Cloned: a name is often a piece of something larger, such as a token.
	name = strings.Clone(name)
	s.index[name] = len(s.windows)
	if n := len(s.windows); n < cap(s.windows) {
		s.windows = s.windows[:n+1] // with the room of one that was dropped
		s.windows[n].reset(name)
	} else {
		s.windows = append(s.windows, window{name: name})
	}
	return &s.windows[len(s.windows)-1]
}

// sweep drops a few windows that have been idle for their span.
func (s *shard) sweep(now int64) {
	for range swept {
		if s.hand >= len(s.windows) {
			s.hand = 0
			return
		}
		w := &s.windows[s.hand]
		// Set back by more than a span, the clock has made it as good as idle.
		if idle := now - w.last; idle < w.span && idle >= -w.span {
			s.hand++
			continue
		}
		delete(s.index, w.name)
		last := len(s.windows) - 1
		if s.hand != last {
			s.index[s.windows[last].name] = s.hand
			s.windows[s.hand], s.windows[last] = s.windows[last], s.windows[s.hand]
		}
		s.windows[last].reset("")
		s.windows = s.windows[:last]
	}
}

// window is a ring of the newest times of attempts.
type window struct {
	name string
	last int64   // when the newest attempt was made
	span int64   // of that attempt
	ring []int64 // full when len is the most that was asked for
	next int     // where the ring's oldest is, once it is full
}

// roomKept is the largest ring that stays with a place whose name was
// dropped, so that one generous window does not hold on to its memory.
const roomKept = 16

func (w *window) reset(name string) {
	w.name, w.last, w.span, w.next = name, 0, 0, 0
	if cap(w.ring) > roomKept {
		w.ring = nil
	}
	w.ring = w.ring[:0]
}

// newest returns the k-th newest time, for k from 1 to len(ring).
func (w *window) newest(k int) int64 {
	i := w.next - k
	if i < 0 {
		i += len(w.ring)
	}
	return w.ring[i]
}

// attempt counts an attempt at now and returns 0, or how long until one would
// pass. Only the most-th newest time decides: when that has left the span,
// fewer than most are in it.
func (w *window) attempt(now int64, most int, span int64) int64 {
	w.span = span
	at := now
	if len(w.ring) > 0 && at < w.last { // the clock was set back
		if w.last-at > span {
			w.ring, w.next = w.ring[:0], 0
		} else {
			at = w.last
		}
	}
	w.last = at
	passes := len(w.ring) < most || at-w.newest(most) >= span
	w.push(at, most)
	if passes {
		return 0
	}
	return span - (now - w.newest(most))
}

// push remembers a time. A ring never shrinks while its name lives: with fewer
// asked for, older times do no harm.
func (w *window) push(at int64, most int) {
	n := len(w.ring)
	if n >= most {
		if w.next == n {
			w.next = 0
		}
		w.ring[w.next] = at
		w.next++
		return
	}
	if w.next != n { // full at a smaller most, and turned: put the oldest first
		turned := make([]int64, 0, min(2*n, most))
		w.ring = append(append(turned, w.ring[w.next:]...), w.ring[:w.next]...)
	}
	w.ring = append(w.ring, at)
	w.next = n + 1
}
