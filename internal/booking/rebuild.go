package booking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"seatflow"
	"seatflow/internal/sabotage"
)

// rebuildTries bounds the races with other nodes that rebuild the same show.
const rebuildTries = 5

// force stands for a generation that no view has: whatever is there is
// replaced.
const force = seatflow.Generation(-1)

// EnsureView builds a show's view unless one is there.
func (s *Service) EnsureView(ctx context.Context, show seatflow.ShowID) error {
	seen, err := s.generation(ctx, show)
	if err != nil || seen > 0 {
		return err
	}
	return s.rebuilds.join(ctx, show, seen, s.runRebuild)
}

// Rebuild replaces a show's view by one made from the facts, whatever is
// there. The generation is raised first, so that an order held under the old
// view cannot be inserted unseen, then the facts are read, then exactly that
// generation is installed, once and atomically. A rebuild that fails is queued
// and tried until it succeeds (see Service.Run).
func (s *Service) Rebuild(ctx context.Context, show seatflow.ShowID) error {
	err := s.rebuilds.join(ctx, show, force, s.runRebuild)
	if err != nil && seatflow.CodeOf(err) != seatflow.CodeNoShow {
		s.laterRebuild(show)
	}
	return err
}

// refresh replaces a view that the store said is missing or suspect, unless
// somebody has replaced it meanwhile.
func (s *Service) refresh(ctx context.Context, show seatflow.ShowID) error {
	seen, err := s.generation(ctx, show)
	if err != nil {
		return err
	}
	return s.rebuilds.join(ctx, show, seen, s.runRebuild)
}

// generation returns the generation of the view that is there, 0 for none. A
// show whose views have outlived their time has one that needs no building.
func (s *Service) generation(ctx context.Context, show seatflow.ShowID) (seatflow.Generation, error) {
	house, err := s.house(ctx, show)
	if err != nil {
		return 0, err
	}
	snap, err := s.seats.Snapshot(ctx, house.Show.Ref(), seatflow.DetailStates)
	switch {
	case errors.Is(err, seatflow.ErrNotReady):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return max(snap.Revision.Generation, 1), nil
}

func (s *Service) runRebuild(ctx context.Context, show seatflow.ShowID, seen seatflow.Generation) error {
	dctx, cancel := s.detached(ctx)
	defer cancel()
	defer s.leaseRebuild(dctx, show)()
	if seen != force {
		there, err := s.generation(dctx, show)
		if err != nil || there > seen {
			return err // built while we waited
		}
	}
	return s.rebuild(dctx, show)
}

// How long a node waits for another that rebuilds the same show, and for how
// long one that died keeps the others waiting.
const (
	rebuildWait  = 2 * time.Second
	rebuildLease = 10 * time.Second
)

// leaseRebuild waits its turn to rebuild a show and returns what ends it. The
// lease only saves work: generations keep rebuilds apart. So where it cannot be
// had in time, the rebuild goes on without it.
func (s *Service) leaseRebuild(ctx context.Context, show seatflow.ShowID) (end func()) {
	if s.locker == nil {
		return func() {}
	}
	waiting, stop := context.WithTimeout(ctx, rebuildWait)
	_, lock, err := s.locker.Lock(waiting, fmt.Sprintf("lock:rebuild:%d", show), rebuildLease)
	if err != nil {
		stop()
		s.log.WarnContext(ctx, "no lease on a rebuild; it goes on without", "show", show, "err", err)
		return func() {}
	}
	return func() {
		defer stop()
		rctx, cancel := s.detached(ctx)
		defer cancel()
		if err := lock.Release(rctx); err != nil {
			s.log.DebugContext(ctx, "the lease on a rebuild was not given back; it runs out", "show", show, "err", err)
		}
	}
}

// rebuilds lets callers on this node share the rebuilds of a show: one runs,
// one may wait for it. A forced call never joins the one that runs, which may
// have read the facts before there was a reason to force it.
type rebuilds struct {
	mu sync.Mutex
	m  map[seatflow.ShowID]*showRebuilds
}

type showRebuilds struct{ running, waiting *rebuildCall }

type rebuildCall struct {
	seen seatflow.Generation // the view that is to be replaced
	done chan struct{}
	err  error // after done
}

type rebuildFunc func(ctx context.Context, show seatflow.ShowID, seen seatflow.Generation) error

func (r *rebuilds) join(ctx context.Context, show seatflow.ShowID, seen seatflow.Generation, run rebuildFunc) error {
	r.mu.Lock()
	sh := r.m[show]
	var call *rebuildCall
	switch {
	case sh == nil:
		call = &rebuildCall{seen: seen, done: make(chan struct{})}
		sh = &showRebuilds{running: call}
		if r.m == nil {
			r.m = make(map[seatflow.ShowID]*showRebuilds)
		}
		r.m[show] = sh
		go r.work(context.WithoutCancel(ctx), show, sh, run)
	case seen != force:
		call = sh.running
	default:
		if sh.waiting == nil {
			sh.waiting = &rebuildCall{seen: force, done: make(chan struct{})}
		}
		call = sh.waiting
	}
	r.mu.Unlock()
	select {
	case <-call.done:
		return call.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// work runs a show's rebuilds one after another until none waits.
func (r *rebuilds) work(ctx context.Context, show seatflow.ShowID, sh *showRebuilds, run rebuildFunc) {
	call := sh.running
	for call != nil {
		call.err = run(ctx, show, call.seen)
		r.mu.Lock()
		over := call
		sh.running, sh.waiting = sh.waiting, nil
		call = sh.running
		if call == nil {
			delete(r.m, show)
		}
		r.mu.Unlock()
		close(over.done) // only now: whoever comes later must not join what is over
	}
}

func (s *Service) rebuild(ctx context.Context, show seatflow.ShowID) error {
	house, err := s.house(ctx, show)
	if err != nil {
		return err
	}
	for range rebuildTries {
		row, err := s.ledger.Show(ctx, show)
		if err != nil {
			return err
		}
		generation, err := row.Generation, error(nil)
		if !sabotage.On(sabotage.KeepGeneration) {
			generation, err = s.ledger.RaiseGeneration(ctx, show, row.Generation)
		}
		if errors.Is(err, seatflow.ErrStaleGeneration) {
			continue
		}
		if err != nil {
			return err
		}
		facts, err := s.ledger.Facts(ctx, show)
		if err != nil {
			return err
		}
		if facts.Generation != generation {
			continue // someone raised it again: theirs will be installed, or ours next time
		}
		err = s.seats.Rebuild(ctx, ViewOf(house, facts))
		if errors.Is(err, seatflow.ErrStaleGeneration) {
			continue
		}
		if err != nil {
			return err
		}
		s.metrics.Rebuilds.Inc("installed")
		s.log.InfoContext(ctx, "view rebuilt from the facts", "show", show, "generation", generation, "orders", len(facts.Orders))
		return nil
	}
	s.metrics.Rebuilds.Inc("stale")
	return fmt.Errorf("booking: show %d: %w after %d tries to rebuild", show, seatflow.ErrStaleGeneration, rebuildTries)
}

// ViewOf derives the view that facts call for. A seat that an order has is in
// the house even when its category has lost its price since.
func ViewOf(house *seatflow.House, facts seatflow.Facts) seatflow.View {
	// The house may be remembered; the facts tell where the show is now.
	v := seatflow.View{Show: facts.Show.Ref(), Generation: facts.Generation, Base: house.Base()}
	for i := range facts.Orders {
		r, ok := facts.Orders[i].Record()
		if !ok {
			continue
		}
		for _, id := range r.Seats {
			if id >= 1 && int(id) <= len(v.Base) {
				v.Base[id-1] = seatflow.Available
			}
		}
		v.Orders = append(v.Orders, r)
	}
	return v
}

// assert makes the view show an order's seats as the ledger has them,
// whatever stands there, by Repair against a fresh look. It is for orders
// that have seats; those of ended ones are released by owner.
func (s *Service) assert(ctx context.Context, ref seatflow.ShowRef, no seatflow.OrderNo) error {
	for range rebuildTries {
		snap, err := s.seats.Snapshot(ctx, ref, seatflow.DetailOrders)
		if errors.Is(err, seatflow.ErrNotReady) {
			return s.EnsureView(ctx, ref.ID)
		}
		if err != nil || snap == nil {
			return err
		}
		// The facts after the view: what they say now is at least as new.
		order, err := s.ledger.Order(ctx, no, "")
		if err != nil {
			return err
		}
		want, ok := order.Record()
		if !ok {
			_, err := s.seats.Unsell(ctx, ref, order.Owner(), nil)
			return err
		}
		req := seatflow.RepairRequest{Show: ref, Generation: snap.Revision.Generation}
		for _, id := range want.Seats {
			if id < 1 || int(id) > len(snap.States) {
				return fmt.Errorf("booking: order %s has seat %d, which the view has not", no, id)
			}
			saw, owner := snap.States[id-1], snap.Owners[id]
			if saw == want.State && owner == want.Owner {
				continue
			}
			req.Seats = append(req.Seats, seatflow.SeatRepair{Seat: id, SawState: saw, SawOwner: owner,
				WantState: want.State, Want: want})
		}
		if len(req.Seats) == 0 {
			return nil
		}
		reply, err := s.seats.Repair(ctx, req)
		if errors.Is(err, seatflow.ErrStaleGeneration) {
			continue
		}
		if err != nil {
			return err
		}
		if len(reply.Changed) == 0 {
			s.log.InfoContext(ctx, "view repaired", "show", ref.ID, "order", no, "seats", slices.Clone(reply.Fixed))
			return nil
		}
	}
	return fmt.Errorf("booking: order %s: its seats kept changing while they were repaired", no)
}
