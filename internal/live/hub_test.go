package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
)

func TestMapIsSharedUntilItChanges(t *testing.T) {
	s := newFakeStore()
	s.open(1, worldSeats)
	h := New(Options{Seats: s, Houses: fakeHouses(8)})
	get := func() *Map {
		t.Helper()
		m, err := h.Map(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a := get()
	if b := get(); a != b {
		t.Error("an unchanged map was encoded again")
	}
	s.change(1, seatflow.Sold, 2, 3)
	b := get()
	if a == b || b.Revision.String() != "1.1" || string(b.States) != "022000000" || !strings.HasPrefix(b.ETag, `"1.1-`) || b.Show != 1 {
		t.Errorf("got %+v", b)
	}
	if string(a.States) != "000000000" {
		t.Errorf("the old map became %s", a.States)
	}
	counts, err := h.Counts(t.Context(), 1)
	if err != nil || counts != (Counts{Available: 7, Sold: 2}) {
		t.Errorf("counts %+v, %v", counts, err)
	}
	body := `{"showId":1,"revision":"1.1","counts":{"available":7,"held":0,"sold":2,"blocked":0},"states":"022000000"}`
	if string(b.Compact) != body {
		t.Errorf("body %s, want %s", b.Compact, body)
	}
}

func TestMapErrors(t *testing.T) {
	s := newFakeStore()
	s.open(1, worldSeats)
	h := New(Options{Seats: s, Houses: fakeHouses(8)})
	var told *seatflow.Error
	for _, show := range []seatflow.ShowID{0, -1, 9, 2} { // 2 is there, and its view past its lifetime
		if _, err := h.Map(t.Context(), show); seatflow.CodeOf(err) != seatflow.CodeNoShow {
			t.Errorf("map of show %d: %v, want code %d", show, err, seatflow.CodeNoShow)
		}
		if _, err := h.Subscribe(t.Context(), show, ""); seatflow.CodeOf(err) != seatflow.CodeNoShow {
			t.Errorf("subscribe to show %d: %v, want code %d", show, err, seatflow.CodeNoShow)
		}
	}
	s.lose(1)
	_, err := h.Map(t.Context(), 1)
	if !errors.As(err, &told) || told.Code != seatflow.CodeNotReady || told.RetryAfter <= 0 || !errors.Is(err, seatflow.ErrNotReady) {
		t.Errorf("a lost view that nobody rebuilds: %v, want code %d", err, seatflow.CodeNotReady)
	}
	down := errors.New("the ledger is down")
	h = New(Options{Seats: s, Houses: fakeHouses(8), Ensure: func(context.Context, seatflow.ShowID) error { return down }})
	if _, err := h.Map(t.Context(), 1); !errors.Is(err, down) {
		t.Errorf("map: %v, want %v", err, down)
	}
	h = New(Options{Seats: s, Houses: fakeHouses(8), Ensure: s.ensure})
	if m, err := h.Map(t.Context(), 1); err != nil || m.Revision.String() != "2.0" {
		t.Errorf("map after a rebuild: %v, %v, want 2.0", m, err)
	}
	s.with(func() { s.failSnapshots = 9 })
	if _, err := h.Map(t.Context(), 1); !errors.Is(err, seatflow.ErrNotExecuted) {
		t.Errorf("map: %v, want ErrNotExecuted", err)
	}
	if n := h.Subscribers(); n != 0 {
		t.Errorf("%d subscribers after refusals", n)
	}
}

// Callers wait their turn to encode, share what came of the turn before, and
// give up with their context.
func TestMapTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.open(1, worldSeats)
		h := New(Options{Seats: s, Houses: fakeHouses(8)})
		turn := h.cell(1).turn
		turn <- struct{}{}
		maps := make(chan *Map, 100)
		for range cap(maps) {
			go func() {
				m, err := h.Map(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				maps <- m
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Map(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("map: %v, want a time-out", err)
		}
		_, before := s.calls()
		<-turn
		first := <-maps
		for range cap(maps) - 1 {
			if m := <-maps; m != first {
				t.Fatal("callers who waited together got two encodings")
			}
		}
		if _, n := s.calls(); n-before != 1 {
			t.Errorf("%d snapshots for callers who waited together, want 1", n-before)
		}
	})
}

func TestRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.open(1, worldSeats)
		h := New(Options{Seats: s, Houses: fakeHouses(8), Node: "n1"})
		// Subscribed before Run: a snapshot at once, changes once it runs.
		early := subscribe(t, h, 1, "")
		want(t, next(t, early), EventSnapshot, "1.0")
		s.change(1, seatflow.Held, 1)
		quiet(t, early)
		stop := run(t, h)
		want(t, next(t, early), EventUpdate, "1.1")
		if err := h.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("second run: %v, want ErrRunning", err)
		}
		blocked := make(chan error)
		go func() {
			_, err := early.Next(context.Background())
			blocked <- err
		}()
		synctest.Wait()
		stop()
		if err := <-blocked; !errors.Is(err, ErrClosed) {
			t.Errorf("next when the hub ended: %v, want ErrClosed", err)
		}
		if _, err := h.Subscribe(t.Context(), 1, ""); !errors.Is(err, ErrClosed) {
			t.Errorf("subscribe after the end: %v, want ErrClosed", err)
		}
		if _, err := h.Map(t.Context(), 1); err != nil {
			t.Errorf("map after the end: %v", err)
		}
		if err := h.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("run after the end: %v, want ErrRunning", err)
		}
		if n := h.Subscribers(); n != 0 {
			t.Errorf("%d subscribers after the end", n)
		}
	})
}

func TestCloseWakesTheReader(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
		sub := subscribe(t, h, 1, "")
		next(t, sub)
		done := make(chan error)
		go func() {
			_, err := sub.Next(context.Background())
			done <- err
		}()
		synctest.Wait()
		sub.Close()
		sub.Close()
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("next: %v, want ErrClosed", err)
		}
	})
}

// A feed outlives its last subscriber for a while, then goes; with the last
// feed of a partition its follower ends, and maps that nobody asks for go too.
func TestIdle(t *testing.T) {
	for _, replicas := range []bool{false, true} {
		t.Run(fmt.Sprint("replicas ", replicas), func(t *testing.T) {
			tune := func(o *Options) { o.Idle, o.Replicas = time.Minute, replicas }
			bubble(t, tune, func(t *testing.T, s *fakeStore, h *Hub) {
				p := &h.parts[1]
				state := func() (feeds int, following bool) {
					p.mu.Lock()
					defer p.mu.Unlock()
					return len(p.feeds), p.following
				}
				sub := subscribe(t, h, 1, "")
				next(t, sub)
				time.Sleep(time.Hour)
				if n, following := state(); n != 1 || !following {
					t.Fatalf("watched: %d feeds, following %v", n, following)
				}
				sub.Close()
				time.Sleep(50 * time.Second)
				s.change(1, seatflow.Held, 1)
				again := subscribe(t, h, 1, "1.0")
				want(t, next(t, again), EventUpdate, "1.1")
				again.Close()
				time.Sleep(3 * time.Minute)
				if n, following := state(); n != 0 || following {
					t.Errorf("after idling: %d feeds, following %v", n, following)
				}
				h.cells.Range(func(show, _ any) bool { t.Errorf("map of show %v is still cached", show); return true })
				before, _ := s.calls()
				time.Sleep(time.Hour)
				if n, _ := s.calls(); n-before != 0 {
					t.Errorf("%d reads of changes that nobody watches", n-before)
				}
				// And it begins anew.
				sub = subscribe(t, h, 1, "1.0")
				want(t, next(t, sub), EventSnapshot, "1.1")
				s.change(1, seatflow.Sold, 1)
				want(t, next(t, sub), EventUpdate, "1.2")
			})
		})
	}
}

// With replicas a map costs no call to the store, and follows within a window.
func TestReplicas(t *testing.T) {
	bubble(t, func(o *Options) { o.Replicas = true }, func(t *testing.T, s *fakeStore, h *Hub) {
		get := func(rev, states string) *Map {
			t.Helper()
			m, err := h.Map(t.Context(), 1)
			if err != nil || m.Revision.String() != rev || string(m.States) != states {
				t.Fatalf("map %+v, %v, want %s %s", m, err, rev, states)
			}
			return m
		}
		first := get("1.0", "000000000")
		_, before := s.calls()
		s.change(1, seatflow.Held, 2)
		synctest.Wait()
		second := get("1.1", "010000000")
		if get("1.1", "010000000") != second {
			t.Error("an unchanged replica was encoded again")
		}
		s.change(1, seatflow.Sold, 2)
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		get("1.2", "020000000")
		if _, n := s.calls(); n-before != 0 {
			t.Errorf("%d snapshots to read a replica, want none", n-before)
		}
		if string(first.States) != "000000000" || string(second.States) != "010000000" {
			t.Error("a map changed after it was given")
		}
		s.rebuild(1)
		synctest.Wait()
		time.Sleep(time.Second)
		get("2.0", "020000000")
	})
}

// A plan with more seats than the replica has is not written past its end.
func TestChangeOutsideTheHouse(t *testing.T) {
	bubble(t, func(o *Options) { o.Replicas = true }, func(t *testing.T, s *fakeStore, h *Hub) {
		sub := subscribe(t, h, 1, "")
		next(t, sub)
		for _, id := range []seatflow.SeatID{0, -4, worldSeats + 1} {
			s.with(func() {
				house := s.houses[1]
				house.rev.Number++
				s.append(seatflow.Change{Show: 1, Revision: house.rev, Seats: []seatflow.SeatChange{{Seat: id, State: '1'}}})
			})
			rev, _ := s.see(1)
			want(t, next(t, sub), EventSnapshot, rev.String())
		}
	})
}

func TestNodeNameIsQuoted(t *testing.T) {
	for name, wanted := range map[string]string{
		"":             `""`,
		"box-1":        `"box-1"`,
		"a\"b\\c\nd":   `"a\"b\\c\nd"`,
		"bad\xff\xfe!": `"bad?!"`,
	} {
		if got := string(New(Options{Node: name}).node); got != wanted {
			t.Errorf("node %q is written %s, want %s", name, got, wanted)
		}
	}
}

// TestNothingIsLeft opens and closes 10,000 subscriptions, some in the middle
// of changes, and looks for what they leave.
func TestNothingIsLeft(t *testing.T) {
	s := newFakeStore()
	s.open(1, 1057)
	s.open(2, 1057)
	h, stop := running(t, s, func(o *Options) { o.Window = time.Millisecond })
	defer stop()
	cycle := func(n int) {
		for i := range n {
			show := seatflow.ShowID(1 + i%2)
			sub, err := h.Subscribe(t.Context(), show, "")
			if err != nil {
				t.Fatal(err)
			}
			if i%3 == 0 {
				if _, err := sub.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if i%10 == 0 {
				s.change(show, seatflow.Held, seatflow.SeatID(1+i%1057))
			}
			sub.Close()
		}
	}
	measure := func() (uint64, int) {
		s.trim()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	cycle(2000)
	heap, goroutines := measure()
	cycle(10_000)
	heap2, goroutines2 := measure()
	if goroutines2 > goroutines {
		t.Errorf("%d goroutines became %d", goroutines, goroutines2)
	}
	if h.Subscribers() != 0 {
		t.Errorf("%d subscribers are left", h.Subscribers())
	}
	// The rings fill with 1,000 more changes; 10,000 queues would be 20 MB.
	if heap2 > heap+2<<20 {
		t.Errorf("the heap grew from %d to %d bytes", heap, heap2)
	}
}

// TestRealStore runs writers and viewers over the store in memory. A writer
// must see its own change in the next map, and every viewer must end with the
// view.
func TestRealStore(t *testing.T) {
	const seats, writers, rounds = 300, 4, 400
	store, houses := memory(t, seats)
	ref := houses.house.Show.Ref()
	h := New(Options{Seats: store, Houses: houses, Node: "n1", Window: time.Millisecond, Queue: 8})
	defer run(t, h)()

	var writing, viewing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range rounds {
				n := w*rounds + i
				seat := seatflow.SeatID(1 + w*(seats/writers) + i%(seats/writers))
				if err := take(t.Context(), store, ref, n, seat); err != nil {
					t.Error(err)
					return
				}
				m, err := h.Map(t.Context(), 1)
				if err != nil || m.States[seat-1] != byte(seatflow.Held) {
					t.Errorf("seat %d was held, the map after it says otherwise (%v)", seat, err)
					return
				}
				if i < rounds-seats/writers { // the last round of each seat stays
					if err := free(t.Context(), store, ref, n); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	final := func() (string, string) {
		snap, err := store.Snapshot(context.Background(), ref, seatflow.DetailStates)
		if err != nil {
			t.Error(err)
			return "", ""
		}
		return snap.Revision.String(), string(stateBytes(snap.States))
	}
	ended := make(chan struct{})
	for i := range 8 {
		viewing.Go(func() {
			dice := rand.New(rand.NewPCG(1, uint64(i)))
			v := viewer{show: 1}
			for done := false; !done; {
				sub, err := h.Subscribe(t.Context(), 1, v.rev)
				if err != nil {
					t.Error(err)
					return
				}
				for left := dice.IntN(20); ; left-- {
					select {
					case <-ended:
						left = 1 << 30
						if rev, _ := final(); rev == v.rev {
							done = true
						}
					default:
					}
					if done || left <= 0 {
						break
					}
					f, err := sub.Next(t.Context())
					if errors.Is(err, ErrSlow) {
						break
					}
					if err == nil {
						err = v.apply(f)
					}
					if err != nil {
						t.Error(err)
						sub.Close()
						return
					}
				}
				sub.Close()
			}
			if rev, states := final(); v.rev != rev || string(v.states) != states {
				t.Errorf("viewer %d ended at %s, the view is at %s", i, v.rev, rev)
			}
		})
	}
	writing.Wait()
	close(ended)
	// One more change, so that nobody waits for a frame that has gone by.
	if err := free(t.Context(), store, ref, rounds-1); err != nil {
		t.Error(err)
	}
	viewing.Wait()
}
