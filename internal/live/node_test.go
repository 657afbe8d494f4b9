package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/bus"
	"seatflow/internal/lock"
	"seatflow/internal/memseats"
	"seatflow/internal/relay"
)

// TestNodesOverTheBus runs the whole way with nothing faked: a store, a relay,
// the embedded bus, and hubs of several nodes with viewers, while eight
// writers take and free seats; and then with the relay gone and come back.
func TestNodesOverTheBus(t *testing.T) {
	const nodes, shows, seats = 3, 6, 50
	store := memseats.New(memseats.Options{})
	defer store.Close()
	var refs []relay.Show
	for i := range shows {
		ref := seatflow.ShowRef{ID: seatflow.ShowID(i + 1), Partition: seatflow.Partition((i + 1) % 2), Until: time.Now().Add(24 * time.Hour)}
		base := make([]seatflow.SeatState, seats)
		for i := range base {
			base[i] = seatflow.Available
		}
		if err := store.Rebuild(t.Context(), seatflow.View{Show: ref, Generation: 1, Base: base}); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, relay.Show{ShowRef: ref, Hall: 7})
	}
	b, err := bus.Open(t.Context(), bus.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	locks := lock.NewLocal()
	defer locks.Close()
	begin := func() (stop func()) {
		r := relay.New(relay.Options{Seats: store, Bus: b, Locker: locks, Shows: func(_ context.Context, p seatflow.Partition) (found []relay.Show, err error) {
			for _, s := range refs {
				if s.Partition == p {
					found = append(found, s)
				}
			}
			return found, nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		return sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	stop := begin()
	defer func() { stop() }()

	var watchers []*nodeWatcher
	var following sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range nodes {
		h := New(Options{Seats: store, Houses: fakeHouses(shows), Node: "n1", Replicas: true, Feed: BusFeed(b, nil)})
		defer run(t, h)()
		for _, s := range refs {
			w := &nodeWatcher{viewer: viewer{show: s.ID}, ref: s.ShowRef}
			sub, err := h.Subscribe(t.Context(), s.ID, "")
			if err != nil {
				t.Fatal(err)
			}
			watchers = append(watchers, w)
			following.Go(func() { defer sub.Close(); w.follow(ctx, sub) })
		}
	}
	defer func() { cancel(); following.Wait() }()

	converged := func() {
		t.Helper()
		tick, guard := time.NewTicker(20*time.Millisecond), time.NewTimer(time.Minute)
		defer tick.Stop()
		defer guard.Stop()
		for {
			var all []error
			for _, w := range watchers {
				all = append(all, w.converged(t.Context(), store))
			}
			err := errors.Join(all...)
			if err == nil {
				return
			}
			select {
			case <-tick.C:
			case <-guard.C:
				t.Fatal(err)
			}
		}
	}
	orders := 0
	rush := func() {
		var writers sync.WaitGroup
		for i := range 8 {
			first := orders
			orders += 200
			writers.Go(func() {
				seed := rand.New(rand.NewPCG(uint64(i), 2))
				for n := first; n < first+200; n++ {
					show := refs[seed.IntN(shows)].ShowRef
					if take(t.Context(), store, show, n+1, seatflow.SeatID(1+seed.IntN(seats))) == nil && seed.IntN(4) > 0 {
						if err := free(t.Context(), store, show, n+1); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		writers.Wait()
	}
	rush()
	converged()
	stop()
	rush() // nobody relays
	stop = begin()
	rush()
	converged()
}

// nodeWatcher is a viewer that reads on a goroutine of its own.
type nodeWatcher struct {
	viewer
	ref seatflow.ShowRef

	mu    sync.Mutex
	fault error
}

func (w *nodeWatcher) follow(ctx context.Context, sub *Subscription) {
	for {
		f, err := sub.Next(ctx)
		if err != nil {
			w.mu.Lock()
			if ctx.Err() == nil && w.fault == nil {
				w.fault = err
			}
			w.mu.Unlock()
			return
		}
		w.mu.Lock()
		if err := w.apply(f); err != nil && w.fault == nil {
			w.fault = err
		}
		w.mu.Unlock()
	}
}

func (w *nodeWatcher) converged(ctx context.Context, store *memseats.Store) error {
	snap, err := store.Snapshot(ctx, w.ref, seatflow.DetailStates)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil || w.fault != nil:
		return errors.Join(err, w.fault)
	case w.rev != snap.Revision.String() || string(w.states) != string(stateBytes(snap.States)):
		return fmt.Errorf("show %d: a viewer is at %s, the view at %s", w.show, w.rev, snap.Revision)
	}
	return nil
}
