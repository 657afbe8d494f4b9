package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
	"seatflow/internal/memseats"
)

func orderNo(n int64) seatflow.OrderNo { return seatflow.OrderNo(fmt.Sprintf("%026d", n)) }

// countedSeats counts the reads of changes.
type countedSeats struct {
	seatflow.SeatStore
	calls atomic.Int64
}

func (c *countedSeats) Changes(ctx context.Context, r seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	c.calls.Add(1)
	return c.SeatStore.Changes(ctx, r)
}

// The bus is away for a minute: sales go on, nothing is lost, and afterwards
// everything arrives, in order.
func TestBusDown(t *testing.T) {
	bubble(t, 6, 0, func(t *testing.T, r *rig) {
		n := r.start()
		time.Sleep(time.Second)
		r.watcher.begin()
		r.rush(20, time.Millisecond)
		r.bus.with(func() { r.bus.down = true })
		r.rush(100, 300*time.Millisecond) // about a minute
		lag, err := n.Lag(t.Context())
		if err != nil || lag.Changes < 300 || lag.Oldest < 20*time.Second {
			t.Errorf("lag %+v, %v", lag, err)
		}
		r.bus.with(func() { r.bus.down = false })
		time.Sleep(2 * retryMost)
		synctest.Wait()
		if err := r.watcher.check(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.settled(n)
		if snapshots, _ := r.watcher.counts(); snapshots != 0 {
			t.Errorf("%d snapshots: something was lost", snapshots)
		}
		if _, err := complete(t.Context(), r.seats, r.shows, r.seatMessages()); err != nil {
			t.Error(err)
		}
	})
}

// Acknowledgements are lost, and batches are cut anywhere.
func TestLostAcknowledgements(t *testing.T) {
	bubble(t, 6, 0, func(t *testing.T, r *rig) {
		n := r.start()
		time.Sleep(time.Second)
		r.watcher.begin()
		calls := 0
		r.bus.with(func() {
			r.bus.before = func(m []seatflow.Message) (int, error) {
				if calls++; calls%3 == 0 {
					return len(m), nil
				}
				return calls % (len(m) + 1), errors.New("fake bus: no acknowledgement")
			}
		})
		r.rush(60, 5*time.Millisecond)
		r.bus.with(func() { r.bus.before = nil })
		r.settled(n)
		if snapshots, _ := r.watcher.counts(); snapshots != 0 {
			t.Errorf("%d snapshots", snapshots)
		}
		if _, err := complete(t.Context(), r.seats, r.shows, r.seatMessages()); err != nil {
			t.Error(err)
		}
	})
}

// A relay that dies between two messages of a batch is followed by one that
// begins with the batch again.
func TestDiesWithinABatch(t *testing.T) {
	bubble(t, 6, 0, func(t *testing.T, r *rig) {
		a := r.start()
		time.Sleep(time.Second)
		r.watcher.begin()
		r.bus.with(func() {
			r.bus.before = func(m []seatflow.Message) (int, error) {
				if len(m) < 2 {
					return len(m), nil
				}
				r.bus.down = true
				return 1, errors.New("fake bus: cut")
			}
		})
		r.rush(30, time.Millisecond)
		a.kill()
		r.bus.with(func() { r.bus.before, r.bus.down = nil, false })
		r.settled(r.start())
		if snapshots, _ := r.watcher.counts(); snapshots != 0 {
			t.Errorf("%d snapshots", snapshots)
		}
		if _, err := complete(t.Context(), r.seats, r.shows, r.seatMessages()); err != nil {
			t.Error(err)
		}
	})
}

// The stream is lost: with what nobody had read, and then every show is reset.
func TestStreamLost(t *testing.T) {
	for name, lose := range map[string]func(r *rig, n *node) *node{
		"while it runs": func(r *rig, n *node) *node {
			r.bus.wipe()
			return n
		},
		"while it runs, unnoticed by the bus": func(r *rig, n *node) *node {
			r.bus.wipe()
			r.bus.with(func() {
				for s := range r.bus.subs {
					s.queue = nil
				}
			})
			return n
		},
		"with the bus away": func(r *rig, n *node) *node {
			r.bus.with(func() { r.bus.down = true })
			r.rush(10, time.Millisecond)
			time.Sleep(time.Second)
			r.bus.wipe()
			r.bus.with(func() { r.bus.down = false })
			return n
		},
		"while nobody relays": func(r *rig, n *node) *node {
			n.stop()
			r.rush(10, time.Millisecond)
			r.bus.wipe()
			return r.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 6, 0, func(t *testing.T, r *rig) {
				n := r.start()
				time.Sleep(time.Second)
				r.rush(30, time.Millisecond)
				r.bus.with(func() { r.bus.lose = func(seatflow.Message) bool { return true } })
				r.rush(5, time.Millisecond) // stored and never read
				r.bus.with(func() { r.bus.lose = nil })
				n = lose(r, n)
				r.rush(30, time.Millisecond)
				r.settled(n)
				reset := map[seatflow.ShowID]bool{}
				for _, e := range eventsOf(t, r.seatMessages(), seatflow.SeatsReset) {
					reset[e.Show] = true
				}
				if len(reset) != len(r.shows) {
					t.Errorf("%d shows were reset", len(reset))
				}
			})
		})
	}
}

// journalled notes what the relay does that matters for the order of things.
type journalled struct {
	*fakeBus
	r *rig
}

func (j journalled) Publish(ctx context.Context, messages ...seatflow.Message) error {
	err := j.fakeBus.Publish(ctx, messages...)
	if err == nil {
		for _, m := range messages {
			j.r.note("publish " + m.ID)
		}
	}
	return err
}

// The seat store becomes another one, in which revisions have forked: every
// view is rebuilt before anything more is published, and nothing of the fork
// ever is.
func TestStoreChangesIdentity(t *testing.T) {
	bubble(t, 6, 0, func(t *testing.T, r *rig) {
		failEnsure := atomic.Int32{}
		n := r.start(func(o *Options) {
			o.Bus = journalled{r.bus, r}
			o.Ensure = func(_ context.Context, id seatflow.ShowID) error {
				if failEnsure.Add(-1) >= 0 {
					return errors.New("the ledger is away")
				}
				r.mu.Lock()
				stands := r.generations[id]
				r.mu.Unlock()
				snap, err := r.seats.Snapshot(context.Background(), r.shows[id-1].ShowRef, seatflow.DetailStates)
				if err == nil && snap.Revision.Generation == stands {
					// In this store every view of an earlier life is suspect.
					if _, fork := r.forked(snap); !fork {
						return nil
					}
				}
				// The fork goes on until the very last moment.
				for seat := seatflow.SeatID(1); seat < 4; seat++ {
					r.take(id, seat)
				}
				r.rebuild(t, id)
				r.note(fmt.Sprint("ensure ", id))
				return nil
			}
		})
		time.Sleep(time.Second)
		r.rush(50, time.Millisecond)
		time.Sleep(time.Second)
		synctest.Wait()

		// The successor has the first two changes of each show only, and then
		// others took place under the same generation and revisions.
		next := memseats.New(memseats.Options{})
		for _, s := range r.shows {
			if err := next.Rebuild(t.Context(), freeHouse(s.ShowRef, r.generations[s.ID])); err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				_, err := next.Hold(t.Context(), seatflow.HoldRequest{Show: s.ShowRef, User: "fork", For: time.Hour, Cap: time.Hour,
					Owner: seatflow.Owner{Order: orderNo(int64(900_000 + 10*int64(s.ID) + int64(i))), Attempt: 1}, Seats: []seatflow.SeatID{seatflow.SeatID(30 + i)}})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		failEnsure.Store(3)
		published := len(r.seatMessages())
		r.mu.Lock()
		r.noted = true
		r.mu.Unlock()
		r.seats.to(next)
		time.Sleep(20 * time.Second)
		r.rush(30, time.Millisecond)
		r.settled(n)

		r.mu.Lock()
		journal := slices.Clone(r.journal)
		r.mu.Unlock()
		ensured := map[string]bool{}
		for _, entry := range journal {
			what, rest, _ := strings.Cut(entry, " ")
			if what == "ensure" {
				ensured[rest] = true
				continue
			}
			show, _, _ := strings.Cut(rest, ".")
			if !ensured[show] {
				t.Fatalf("%s before its view was made sure of, in %q", entry, journal)
			}
		}
		if len(ensured) != len(r.shows) {
			t.Errorf("%d views were made sure of", len(ensured))
		}
		identity, _ := next.Identity(t.Context())
		for _, m := range r.seatMessages()[published:] {
			e, err := seatflow.ParseSeatsEvent(m.Payload)
			if err != nil {
				t.Fatal(err)
			}
			if e.Generation < 2 || e.Store != identity {
				t.Errorf("published after the change: %s", m.Payload)
			}
		}
		for show := range r.shows {
			first := slices.IndexFunc(r.seatMessages()[published:], func(m seatflow.Message) bool {
				e, _ := seatflow.ParseSeatsEvent(m.Payload)
				return e.Show == seatflow.ShowID(show+1)
			})
			if e, _ := seatflow.ParseSeatsEvent(r.seatMessages()[published+first].Payload); e.Type != seatflow.SeatsReset {
				t.Errorf("show %d: %s came first", show+1, e.Type)
			}
		}
	})
}

// forked tells whether a view is of the fork.
func (r *rig) forked(snap *seatflow.Snapshot) (seatflow.Revision, bool) {
	return snap.Revision, snap.States[29] == seatflow.Held && snap.States[33] == seatflow.Held && snap.States[0] == seatflow.Available
}

// A relay that follows one which ended in good order says nothing twice.
func TestResumesAtTheEnd(t *testing.T) {
	bubble(t, 6, 0, func(t *testing.T, r *rig) {
		n := r.start()
		time.Sleep(time.Second)
		r.rush(30, time.Millisecond)
		time.Sleep(time.Second)
		n.stop()
		before := len(r.seatMessages())
		n = r.start()
		time.Sleep(time.Second)
		if after := len(r.seatMessages()); after != before {
			t.Errorf("%d messages of a house at rest", after-before)
		}
		r.settled(n)
	})
}

// The end of the stream is lost, and the stream is still the same: a server
// may forget what it had not written to the disk.
func TestStreamLosesItsEnd(t *testing.T) {
	bubble(t, 6, 0, func(t *testing.T, r *rig) {
		n := r.start()
		time.Sleep(time.Second)
		r.bus.with(func() { r.bus.lose = func(seatflow.Message) bool { return true } })
		r.rush(30, time.Millisecond)
		time.Sleep(time.Second)
		r.bus.with(func() {
			r.bus.lose = nil
			r.bus.stored = r.bus.stored[:8]
		})
		r.settled(n)
		if resets := eventsOf(t, r.seatMessages()[8:], seatflow.SeatsReset); len(resets) != len(r.shows) {
			t.Errorf("%d resets", len(resets))
		}
	})
}

// The store changes again while views are made sure of: the relay begins anew
// once more, and says nothing of the store in between.
func TestStoreChangesTwice(t *testing.T) {
	bubble(t, 3, 0, func(t *testing.T, r *rig) {
		var changed atomic.Bool
		n := r.start(func(o *Options) {
			o.Ensure = func(_ context.Context, id seatflow.ShowID) error {
				r.rebuild(t, id)
				if id == 3 && changed.CompareAndSwap(false, true) {
					r.seats.to(memseats.New(memseats.Options{}))
				}
				return nil
			}
		})
		time.Sleep(time.Minute)
		r.rush(10, time.Millisecond)
		r.settled(n)
		identity, _ := r.seats.now.Load().Identity(t.Context())
		for _, m := range r.seatMessages() {
			if e, _ := seatflow.ParseSeatsEvent(m.Payload); e.Show == 3 && e.Store != identity {
				t.Errorf("published: %s", m.Payload)
			}
		}
	})
}

// A relay that begins under another identity than was published last makes
// sure of the views as well.
func TestResumesUnderAnotherIdentity(t *testing.T) {
	bubble(t, 3, 0, func(t *testing.T, r *rig) {
		n := r.start()
		time.Sleep(time.Second)
		r.rush(10, time.Millisecond)
		time.Sleep(time.Second)
		n.stop()
		r.seats.to(memseats.New(memseats.Options{}))
		ensured := atomic.Int32{}
		n = r.start(func(o *Options) {
			o.Ensure = func(_ context.Context, id seatflow.ShowID) error {
				ensured.Add(1)
				r.rebuild(t, id)
				return nil
			}
		})
		r.settled(n)
		if ensured.Load() != 3 {
			t.Errorf("%d views were made sure of", ensured.Load())
		}
	})
}

// Shows that are over, or gone, do not hold up their partition.
func TestShowsThatAreOver(t *testing.T) {
	bubble(t, 3, 0, func(t *testing.T, r *rig) {
		over := seatflow.ShowRef{ID: 90, Partition: 5, Until: time.Now().Add(-time.Hour)}
		n := r.start(func(o *Options) {
			shows := o.Shows
			o.Shows = func(ctx context.Context, p seatflow.Partition) ([]Show, error) {
				all, err := shows(ctx, p)
				return append(all, Show{ShowRef: over}), err
			}
			o.Ensure = func(_ context.Context, id seatflow.ShowID) error {
				if id == 90 {
					return &seatflow.Error{Code: seatflow.CodeNoShow}
				}
				return nil
			}
		})
		time.Sleep(time.Second)
		r.rush(5, time.Millisecond)
		r.settled(n)
		if found := r.bus.all(seatflow.SeatsSubject(5, 90)); len(found) > 0 {
			t.Errorf("published of a show that is over: %s", found[0].Payload)
		}
	})
}

// The store dropped changes before they were read: resets, never silence.
func TestTrimmed(t *testing.T) {
	bubble(t, 6, 50, func(t *testing.T, r *rig) {
		n := r.start()
		time.Sleep(time.Second)
		r.rush(5, time.Millisecond)
		time.Sleep(time.Second)
		n.stop()
		before := len(r.seatMessages())
		r.rush(60, time.Millisecond)
		n = r.start()
		r.settled(n)
		if resets := eventsOf(t, r.seatMessages()[before:], seatflow.SeatsReset); len(resets) != len(r.shows) {
			t.Errorf("%d resets", len(resets))
		}
		if snapshots, _ := r.watcher.counts(); snapshots == 0 {
			t.Error("nobody took a snapshot: nothing was trimmed")
		}
	})
}

// The seat store is away for a while.
func TestStoreFails(t *testing.T) {
	bubble(t, 3, 0, func(t *testing.T, r *rig) {
		flaky := &flakySeats{SeatStore: r.seats}
		n := r.start(func(o *Options) { o.Seats = flaky })
		time.Sleep(time.Second)
		r.watcher.begin()
		flaky.failing.Store(true)
		r.rush(20, time.Millisecond)
		time.Sleep(30 * time.Second)
		flaky.failing.Store(false)
		r.settled(n)
		if snapshots, _ := r.watcher.counts(); snapshots != 0 {
			t.Errorf("%d snapshots", snapshots)
		}
	})
}

type flakySeats struct {
	seatflow.SeatStore
	failing atomic.Bool
}

func (f *flakySeats) Changes(ctx context.Context, r seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	if f.failing.Load() {
		return seatflow.ChangeBatch{}, fmt.Errorf("fake: %w", seatflow.ErrNotExecuted)
	}
	return f.SeatStore.Changes(ctx, r)
}

// What was stored cannot be read, by a newer or broken publisher: everyone
// begins anew.
func TestUnreadableLast(t *testing.T) {
	bubble(t, 3, 0, func(t *testing.T, r *rig) {
		if err := r.bus.Publish(t.Context(), seatflow.Message{Subject: seatflow.SeatsSubject(5, 4), ID: "x", Payload: []byte(`{"v":9}`)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.watcher.faults = nil // it cannot read it either
		n := r.start()
		time.Sleep(time.Second)
		r.rush(5, time.Millisecond)
		r.settled(n)
	})
}
