package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
)

// bubble runs a test with a store of two shows of nine seats and a running
// hub, under a clock that moves when everyone waits.
func bubble(t *testing.T, change func(*Options), test func(t *testing.T, s *fakeStore, h *Hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.open(1, worldSeats)
		s.open(2, worldSeats)
		h, stop := running(t, s, change)
		defer stop()
		synctest.Wait() // it runs
		test(t, s, h)
	})
}

func subscribe(t *testing.T, h *Hub, show seatflow.ShowID, after string) *Subscription {
	t.Helper()
	sub, err := h.Subscribe(t.Context(), show, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sub.Close)
	return sub
}

// next returns the next frame if one comes within a bubble's hour.
func next(t *testing.T, sub *Subscription) Frame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	f, err := sub.Next(ctx)
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return f
}

// quiet fails if a frame is queued, or comes within a minute.
func quiet(t *testing.T, sub *Subscription) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if f, err := sub.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got frame %s %s (%v), want none", f.Event, f.ID, err)
	}
}

func want(t *testing.T, f Frame, event, id string, parts ...string) {
	t.Helper()
	if f.Event != event || f.ID != id {
		t.Fatalf("got %s %s (%s), want %s %s", f.Event, f.ID, f.Data, event, id)
	}
	for _, part := range parts {
		if !strings.Contains(string(f.Data), part) {
			t.Fatalf("%s %s is %s, want it to contain %s", event, id, f.Data, part)
		}
	}
}

func TestSnapshotThenUpdates(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
		s.change(1, seatflow.Blocked, 9)
		sub := subscribe(t, h, 1, "")
		want(t, next(t, sub), EventSnapshot, "1.1",
			`{"showId":1,"revision":"1.1","counts":{"available":8,"held":0,"sold":0,"blocked":1},"states":"00000000x"}`)
		quiet(t, sub)
		s.change(1, seatflow.Held, 1, 2)
		want(t, next(t, sub), EventUpdate, "1.2", `"showId":1,"hallId":7,"revision":"1.2","lamport":1,"node":"n1"`,
			`"updates":[{"seatId":1,"status":"held","delta":1},{"seatId":2,"status":"held","delta":1}]}`)
		time.Sleep(time.Second)
		s.change(2, seatflow.Held, 1) // another show
		s.change(1, seatflow.Available, 1)
		want(t, next(t, sub), EventUpdate, "1.3", `"lamport":2`, `"updates":[{"seatId":1,"status":"available","delta":-1}]`)
		quiet(t, sub)
	})
}

func TestResume(t *testing.T) {
	small := func(o *Options) { o.Ring = 4 }
	bubble(t, small, func(t *testing.T, s *fakeStore, h *Hub) {
		first := subscribe(t, h, 1, "")
		next(t, first)
		for _, seat := range []seatflow.SeatID{1, 2, 3} {
			s.change(1, seatflow.Held, seat)
			next(t, first)
		}
		s.change(1, seatflow.Sold, 1)
		next(t, first)

		want(t, next(t, subscribe(t, h, 1, "1.0")), EventUpdate, "1.4", `"updates":[`+
			`{"seatId":1,"status":"sold","delta":1},{"seatId":2,"status":"held","delta":1},{"seatId":3,"status":"held","delta":1}]`)
		want(t, next(t, subscribe(t, h, 1, "1.3")), EventUpdate, "1.4", `"updates":[{"seatId":1,"status":"sold","delta":0}]`)
		up := subscribe(t, h, 1, "1.4")
		quiet(t, up)
		for _, after := range []string{"", "1", "1.x", "-1.2", "1.5", "1.99", "0.4", "2.0", "1.4 ", "nonsense"} {
			want(t, next(t, subscribe(t, h, 1, after)), EventSnapshot, "1.4", `"states":"211000000"`)
		}
		s.change(1, seatflow.Held, 9)
		want(t, next(t, up), EventUpdate, "1.5", `{"seatId":9`)
		want(t, next(t, first), EventUpdate, "1.5", `{"seatId":9`)
		want(t, next(t, subscribe(t, h, 1, "1.0")), EventSnapshot, "1.5") // out of the ring of four
		want(t, next(t, subscribe(t, h, 1, "1.1")), EventUpdate, "1.5")
	})
}

// A long absence is answered with the map when that is shorter.
func TestResumeWithMapWhenShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.open(1, 1000)
		h, stop := running(t, s, nil)
		defer stop()
		next(t, subscribe(t, h, 1, ""))
		for seat := range 999 {
			s.change(1, seatflow.Held, seatflow.SeatID(seat+1))
			if seat == 9 {
				time.Sleep(time.Second)
				want(t, next(t, subscribe(t, h, 1, "1.0")), EventUpdate, "1.10")
			}
		}
		time.Sleep(time.Second)
		want(t, next(t, subscribe(t, h, 1, "1.0")), EventSnapshot, "1.999")
		want(t, next(t, subscribe(t, h, 1, "1.900")), EventUpdate, "1.999")
	})
}

// A page loads the map first and listens from there: the map may be ahead of
// what was sent to the others, and of what was read even.
func TestResumeAheadOfTheFeed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
		old := subscribe(t, h, 1, "")
		next(t, old)
		s.change(1, seatflow.Held, 1)
		want(t, next(t, old), EventUpdate, "1.1") // the window begins here
		s.change(1, seatflow.Held, 2)
		m, err := h.Map(t.Context(), 1)
		if err != nil || m.Revision.String() != "1.2" {
			t.Fatalf("map at %v, %v, want 1.2", m, err)
		}
		fresh := subscribe(t, h, 1, "1.2")
		first := subscribe(t, h, 1, "")
		want(t, next(t, first), EventSnapshot, "1.2", `"states":"110000000"`)
		s.change(1, seatflow.Held, 3)
		want(t, next(t, old), EventUpdate, "1.3", `"updates":[{"seatId":2,"status":"held","delta":1},{"seatId":3,`)
		want(t, next(t, fresh), EventUpdate, "1.3", `"updates":[{"seatId":3,"status":"held","delta":1}]`)
		want(t, next(t, first), EventUpdate, "1.3", `"updates":[{"seatId":3,"status":"held","delta":1}]`)
	})
}

func TestCoalesce(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
		a, b := subscribe(t, h, 1, ""), subscribe(t, h, 1, "")
		first, other := next(t, a), next(t, b)
		if &first.Data[0] != &other.Data[0] {
			t.Error("two subscribers got two encodings of one map")
		}
		time.Sleep(time.Second)
		begin := time.Now()
		s.change(1, seatflow.Held, 1)
		want(t, next(t, a), EventUpdate, "1.1")
		if d := time.Since(begin); d != 0 {
			t.Errorf("the first change after a quiet spell took %v, want none", d)
		}
		want(t, next(t, b), EventUpdate, "1.1")
		// A burst for half a second: a change a millisecond.
		frames, changes := 0, 1
		for range 500 {
			time.Sleep(time.Millisecond)
			s.change(1, seatflow.Sold, 1)
			changes++
		}
		v := viewer{show: 1, rev: "1.1", states: []byte("100000000")}
		for v.rev != fmt.Sprint("1.", changes) {
			f, g := next(t, a), next(t, b)
			if &f.Data[0] != &g.Data[0] {
				t.Fatal("two subscribers got two encodings of one update")
			}
			if err := v.apply(f); err != nil {
				t.Fatal(err)
			}
			frames++
		}
		late := time.Since(begin) - 500*time.Millisecond
		if frames < 10 || frames > 11 || late > 50*time.Millisecond {
			t.Errorf("a burst of half a second came in %d frames, the last %v after its end; want 10 or 11 and 50ms at most", frames, late)
		}
	})
}

func TestSlowReaderIsCut(t *testing.T) {
	bubble(t, func(o *Options) { o.Queue = 3 }, func(t *testing.T, s *fakeStore, h *Hub) {
		slow, good := subscribe(t, h, 1, ""), subscribe(t, h, 1, "")
		next(t, slow)
		next(t, good)
		for seat := range 4 {
			s.change(1, seatflow.Held, seatflow.SeatID(seat+1))
			next(t, good)
		}
		if h.Subscribers() != 1 || h.Cut() != 1 {
			t.Errorf("%d subscribers and %d cut, want 1 and 1", h.Subscribers(), h.Cut())
		}
		for range 2 {
			if _, err := slow.Next(t.Context()); !errors.Is(err, ErrSlow) {
				t.Fatalf("next: %v, want ErrSlow", err)
			}
		}
		slow.Close()
		if _, err := slow.Next(t.Context()); !errors.Is(err, ErrSlow) {
			t.Errorf("next after close: %v, want ErrSlow still", err)
		}
		if h.Subscribers() != 1 {
			t.Errorf("%d subscribers, want 1", h.Subscribers())
		}
		want(t, next(t, subscribe(t, h, 1, "1.0")), EventUpdate, "1.4")
	})
}

// What breaks the chain of revisions makes the hub take a snapshot.
func TestSnapshotWhenTheChainBreaks(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(s *fakeStore)
		want string
		slow bool // nothing tells the hub: it has to look
	}{
		"gap": {func(s *fakeStore) {
			s.skip(1, seatflow.Sold, 3)
			s.change(1, seatflow.Held, 4)
		}, "1.3", false},
		"lost in silence": {func(s *fakeStore) { s.skip(1, seatflow.Sold, 3) }, "1.2", true},
		"rebuilt":         {func(s *fakeStore) { s.rebuild(1) }, "2.0", false},
		"rebuilt, and more": {func(s *fakeStore) {
			s.rebuild(1)
			s.change(1, seatflow.Held, 3)
			s.change(1, seatflow.Held, 4)
		}, "2.2", false},
		"view lost": {func(s *fakeStore) { s.lose(1) }, "2.0", true},
		"restarted": {func(s *fakeStore) { s.restart() }, "2.0", false},
		"forked": {func(s *fakeStore) {
			s.with(func() {
				s.lives++
				s.identity = "fork"
				s.log = nil
				s.houses[1].states[0] = seatflow.Sold // the same revision, another house
				close(s.moved)
				s.moved = make(chan struct{})
			})
		}, "1.1", false},
		"trimmed": {func(s *fakeStore) {
			s.with(func() { s.failChanges = 1 }) // the reader pauses …
			s.change(1, seatflow.Held, 3)        // … is woken …
			s.change(1, seatflow.Held, 4)
			s.trim() // … and comes too late
		}, "1.3", false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
				v := viewer{show: 1}
				sub := subscribe(t, h, 1, "")
				s.change(1, seatflow.Held, 1)
				for v.rev != "1.1" {
					if err := v.apply(next(t, sub)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				synctest.Wait() // the follower waits for more
				if _, err := h.Map(t.Context(), 1); err != nil {
					t.Fatal(err) // which is cached now
				}
				begin := time.Now()
				c.do(s)
				f := next(t, sub)
				want(t, f, EventSnapshot, c.want)
				took, most := time.Since(begin), 100*time.Millisecond
				if c.slow {
					most = 3 * checkEvery
				}
				if took > most {
					t.Errorf("noticed after %v, want %v at most", took, most)
				}
				if err := errors.Join(v.apply(f), v.converged(s)); err != nil {
					t.Fatal(err)
				}
				quiet(t, sub)
				s.change(1, seatflow.Held, 9)
				if err := errors.Join(v.apply(next(t, sub)), v.converged(s)); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A trimmed log that took nothing of a watched show is no news to it.
func TestTrimmedElsewhere(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
		s.open(3, worldSeats) // in the partition of show 1
		sub := subscribe(t, h, 1, "")
		want(t, next(t, sub), EventSnapshot, "1.0")
		synctest.Wait()
		s.with(func() { s.failChanges = 1 })
		s.change(3, seatflow.Held, 1)
		s.trim()
		quiet(t, sub)
		s.change(1, seatflow.Held, 1)
		want(t, next(t, sub), EventUpdate, "1.1")
	})
}

func TestStoreFailures(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
		sub := subscribe(t, h, 1, "")
		next(t, sub)
		synctest.Wait()
		s.with(func() { s.failChanges, s.failSnapshots = 20, 5 })
		s.change(1, seatflow.Held, 1)
		want(t, next(t, sub), EventUpdate, "1.1")
		// A snapshot is due, and cannot be had for a while.
		s.with(func() { s.failSnapshots = 5 })
		s.rebuild(1)
		want(t, next(t, sub), EventSnapshot, "2.0")
		if h.Subscribers() != 1 {
			t.Error("the subscriber did not stay")
		}
	})
}

// The watchers of a show whose view is past its lifetime are let go.
func TestShowIsOver(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
		sub := subscribe(t, h, 1, "")
		next(t, sub)
		s.with(func() { delete(s.houses, 1) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := sub.Next(ctx); !errors.Is(err, ErrClosed) {
			t.Fatalf("next: %v, want ErrClosed", err)
		}
		if _, err := h.Map(t.Context(), 1); seatflow.CodeOf(err) != seatflow.CodeNoShow {
			t.Fatalf("map: %v, want code %d", err, seatflow.CodeNoShow)
		}
	})
}

// What happens between a feed's registration and its first map is not lost,
// whichever the map shows.
func TestChangesBeforeTheFirstMap(t *testing.T) {
	s := newFakeStore()
	s.open(1, worldSeats)
	h := New(Options{Seats: s, Houses: fakeHouses(8), Node: "n1"})
	house, err := h.house(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p := h.partition(house)
	step := func() {
		t.Helper()
		if _, _, err := p.step(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	f, err := p.feed(t.Context(), house)
	if err != nil {
		t.Fatal(err)
	}
	defer f.release()
	s.change(1, seatflow.Held, 1)
	step()
	m, err := h.Map(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	s.change(1, seatflow.Held, 2)
	s.change(1, seatflow.Held, 3)
	step()
	sub := newSubscription(f)
	if ok, err := f.attach(sub, m, ""); !ok || err != nil {
		t.Fatalf("attach: %v, %v", ok, err)
	}
	defer sub.Close()
	step()
	want(t, next(t, sub), EventSnapshot, "1.1")
	want(t, next(t, sub), EventUpdate, "1.3", `"updates":[{"seatId":2,"status":"held","delta":1},{"seatId":3,`)
}

func TestSubscribeWhileTheStoreFails(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
		s.change(1, seatflow.Held, 1)
		for _, fail := range []*int{&s.failChanges, &s.failSnapshots} {
			s.with(func() { *fail = 2 })
			if _, err := h.Subscribe(t.Context(), 1, ""); !errors.Is(err, seatflow.ErrNotExecuted) {
				t.Fatalf("subscribe: %v, want ErrNotExecuted", err)
			}
			s.with(func() { *fail = 0 })
		}
		if n := h.Subscribers(); n != 0 {
			t.Errorf("%d subscribers", n)
		}
		sub := subscribe(t, h, 1, "")
		want(t, next(t, sub), EventSnapshot, "1.1")
		s.change(1, seatflow.Held, 2)
		want(t, next(t, sub), EventUpdate, "1.2")
	})
}
