package redisseats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
)

// facts is the least of a ledger: which orders have which seats, and the
// generation that fences them.
type facts struct {
	ref  seatflow.ShowRef
	size int

	mu         sync.Mutex
	generation seatflow.Generation
	sold       map[seatflow.Owner][]seatflow.SeatID
	taken      map[seatflow.SeatID]seatflow.Owner
	rebuilt    int
}

func newFacts(ref seatflow.ShowRef, size int) *facts {
	return &facts{ref: ref, size: size, sold: make(map[seatflow.Owner][]seatflow.SeatID), taken: make(map[seatflow.SeatID]seatflow.Owner)}
}

// insert makes a hold a fact, unless it is of a view that is no more, or a
// seat of it is sold.
func (f *facts) insert(owner seatflow.Owner, g seatflow.Generation, ids []seatflow.SeatID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g != f.generation {
		return seatflow.ErrStaleGeneration
	}
	for _, id := range ids {
		if by, gone := f.taken[id]; gone {
			return fmt.Errorf("seat %d was promised to %s and to %s", id, by, owner)
		}
	}
	for _, id := range ids {
		f.taken[id] = owner
	}
	f.sold[owner] = ids
	return nil
}

// rebuild raises the generation and installs what is a fact.
func (f *facts) rebuild(ctx context.Context, s *Store) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, _, err := s.Revision(ctx, f.ref); err == nil {
		return nil // somebody else did
	}
	f.generation++
	f.rebuilt++
	view := seatflow.View{Show: f.ref, Generation: f.generation, Base: free(f.size)}
	for owner, ids := range f.sold {
		view.Orders = append(view.Orders, seatflow.OrderRecord{Owner: owner, User: "u", Seats: ids, State: seatflow.Sold})
	}
	return s.Rebuild(ctx, view)
}

// buy takes the seats of an order for good, through whatever happens to the
// servers. Each try is another attempt, so that a hold nobody knows of stays
// somebody else's.
func (f *facts) buy(ctx context.Context, s *Store, n int, ids ...seatflow.SeatID) error {
	for attempt := int32(1); ; attempt++ {
		req := ask(f.ref, n, ids...)
		req.Owner.Attempt = attempt
		req.KeyHash = seatflow.HashKey(req.User, "k")
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		r, err := s.Hold(short, req)
		cancel()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("order %d: %w (%v, %v)", n, ctx.Err(), r.Outcome, err)
		case errors.Is(err, seatflow.ErrNotExecuted):
			continue
		case errors.Is(err, seatflow.ErrUnknownOutcome): // its owner is not used again
			continue
		case err != nil:
			return err
		}
		switch r.Outcome {
		case seatflow.OutcomeNotReady:
			if err := f.rebuild(ctx, s); err != nil && !errors.Is(err, seatflow.ErrUnknownOutcome) &&
				!errors.Is(err, seatflow.ErrNotExecuted) && !errors.Is(err, seatflow.ErrStaleGeneration) {
				return err
			}
			continue
		case seatflow.OutcomeYours: // of an attempt whose reply was lost
			if _, err := s.Release(ctx, f.ref, r.Owner, nil); err != nil && ctx.Err() != nil {
				return err
			}
			continue
		case seatflow.OutcomeHeld:
		default:
			return fmt.Errorf("order %d was told %v of its own seats %v", n, r.Outcome, r.Taken)
		}
		if err := f.insert(req.Owner, r.Generation, ids); errors.Is(err, seatflow.ErrStaleGeneration) {
			continue
		} else if err != nil {
			return err
		}
		// A late sale is made good by the rebuild, or by a repair.
		_, _ = s.Sell(ctx, f.ref, req.Owner)
		return nil
	}
}

// sellOut sells the whole house seat by seat from several callers, while
// something happens, the last third after that, and then holds the view
// against the facts.
func (f *facts) sellOut(t *testing.T, stores []*Store, meanwhile func(sold func() int64)) {
	t.Helper()
	ctx := within(t, 2*guard)
	var next, sold atomic.Int64
	var done sync.WaitGroup
	happened := make(chan struct{})
	for c := range 8 {
		done.Go(func() {
			for {
				n := int(next.Add(1))
				if n > f.size || t.Failed() {
					return
				}
				if n > f.size*2/3 {
					<-happened
				}
				if err := f.buy(ctx, stores[c%len(stores)], n, seatflow.SeatID(n)); err != nil {
					t.Errorf("caller %d: %v", c, err)
					return
				}
				sold.Add(1)
			}
		})
	}
	func() {
		defer close(happened)
		meanwhile(sold.Load)
	}()
	done.Wait()
	if t.Failed() {
		return
	}
	// What a rebuild or a lost reply kept from being told is told now.
	for owner := range f.sold {
		for {
			_, err := stores[0].Sell(ctx, f.ref, owner)
			if err == nil {
				break
			}
			if errors.Is(err, seatflow.ErrNotReady) {
				err = f.rebuild(ctx, stores[0])
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	snap := mustSnapshot(t, stores[0], f.ref)
	if text(snap.States) != strings.Repeat("2", f.size) || len(snap.Orders) != f.size {
		t.Errorf("the house reads %s with %d orders", text(snap.States), len(snap.Orders))
	}
	for id, owner := range snap.Owners {
		if f.taken[id] != owner {
			t.Errorf("seat %d is %s's in the view and %s's in fact", id, owner, f.taken[id])
		}
	}
}
