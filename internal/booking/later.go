package booking

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"seatflow"
)

// laterMost bounds the queue; beyond it the guardian and the deadline do the
// same, later.
const laterMost = 100_000

// laterEvery is how long the queue waits between rounds over what failed.
const laterEvery = 500 * time.Millisecond

// laterQueue keeps the owners about whom the view could not be told.
type laterQueue struct {
	mu    sync.Mutex
	owed  map[seatflow.Owner]debt
	shows map[seatflow.ShowID]uint64 // whose views must be rebuilt; values as debt.turn
	turns uint64
	woken chan struct{}
}

// debt is one owner's entry. What is queued again while it is being settled
// has a later turn and stays: the facts may have moved since they were read.
type debt struct {
	show seatflow.ShowID
	turn uint64
	// until, if set, is when the view may be believed for good: before that
	// something that was sent may still arrive.
	until time.Time
}

func (q *laterQueue) init() {
	q.owed = make(map[seatflow.Owner]debt)
	q.shows = make(map[seatflow.ShowID]uint64)
	q.woken = make(chan struct{}, 1)
}

// lateFor is how long a hold of which nobody heard may still be on its way to
// the store: a release that found nothing has not outrun it for certain.
const lateFor = 3 * time.Second

// laterSettle queues an owner until the view agrees with its order.
func (s *Service) laterSettle(show seatflow.ShowID, owner seatflow.Owner) {
	s.laterSettleUntil(show, owner, time.Time{})
}

// laterSettleUntil does so again and again until a time has passed.
func (s *Service) laterSettleUntil(show seatflow.ShowID, owner seatflow.Owner, until time.Time) {
	s.later.mu.Lock()
	full := len(s.later.owed) >= laterMost
	if !full {
		s.later.turns++
		s.later.owed[owner] = debt{show, s.later.turns, until}
	}
	s.later.mu.Unlock()
	if full {
		s.log.Warn("queue of changes owed to the view is full; left to the guardian", "order", owner.Order)
		return
	}
	s.later.wake()
}

// laterRebuild queues a show whose view is known to be wrong until it has
// been rebuilt.
func (s *Service) laterRebuild(show seatflow.ShowID) {
	s.later.mu.Lock()
	s.later.turns++
	s.later.shows[show] = s.later.turns
	s.later.mu.Unlock()
	s.later.wake()
}

func (q *laterQueue) wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// Owed returns how many owners and shows the view still has to be told about.
func (s *Service) Owed() int {
	s.later.mu.Lock()
	defer s.later.mu.Unlock()
	return len(s.later.owed) + len(s.later.shows)
}

// Run tells the view what could not be told at once, until the context ends.
func (s *Service) Run(ctx context.Context) error {
	timer := time.NewTimer(laterEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.later.woken:
		case <-timer.C:
			select {
			case <-s.later.woken: // one round answers both
			default:
			}
		}
		s.SettleOwed(ctx)
		timer.Reset(laterEvery)
	}
}

// SettleOwed goes once over the queue and returns how many are left.
func (s *Service) SettleOwed(ctx context.Context) int {
	s.later.mu.Lock()
	owed, shows := maps.Clone(s.later.owed), maps.Clone(s.later.shows)
	s.later.mu.Unlock()
	for _, show := range slices.Sorted(maps.Keys(shows)) {
		turn := shows[show]
		if err := s.rebuilds.join(ctx, show, force, s.runRebuild); err != nil {
			s.log.DebugContext(ctx, "the view still cannot be rebuilt", "show", show, "err", err)
			continue
		}
		s.later.mu.Lock()
		if s.later.shows[show] == turn {
			delete(s.later.shows, show)
		}
		s.later.mu.Unlock()
	}
	for _, owner := range slices.SortedFunc(maps.Keys(owed), func(a, b seatflow.Owner) int { return cmp.Compare(owed[a].turn, owed[b].turn) }) {
		d := owed[owner]
		if ctx.Err() != nil {
			break
		}
		began := time.Now()
		if err := s.settleOwed(ctx, d.show, owner); err != nil {
			s.log.DebugContext(ctx, "the view still cannot be told", "order", owner.Order, "err", err)
			continue
		}
		if began.Before(d.until) {
			continue // once more, when what was sent must have arrived
		}
		s.later.mu.Lock()
		if s.later.owed[owner] == d {
			delete(s.later.owed, owner)
		}
		s.later.mu.Unlock()
	}
	return s.Owed()
}

// settleOwed makes the view agree with one order. A number without a row is
// made void first: whoever queued it had given the order up.
func (s *Service) settleOwed(ctx context.Context, show seatflow.ShowID, owner seatflow.Owner) error {
	dctx, cancel := s.detached(ctx)
	defer cancel()
	house, err := s.houses.House(dctx, show)
	if err != nil {
		return err
	}
	order, err := s.stands(dctx, owner.Order, show)
	if err != nil {
		return err
	}
	ref := house.Show.Ref()
	if order.State == seatflow.OrderVoid || order.Attempt != owner.Attempt {
		_, err = s.seats.Release(dctx, ref, owner, nil)
	} else {
		err = s.show(dctx, ref, &order)
		if err == nil && order.State == seatflow.OrderPaid {
			err = s.unsellRefunded(dctx, ref, &order)
		}
	}
	if errors.Is(err, seatflow.ErrNotReady) {
		return nil
	}
	return err
}

// unsellRefunded frees the seats of a partly refunded order that the view
// still shows as sold to it.
func (s *Service) unsellRefunded(ctx context.Context, ref seatflow.ShowRef, o *seatflow.Order) error {
	var gone []seatflow.SeatID
	for i := range o.Items {
		if o.Items[i].Refunded {
			gone = append(gone, o.Items[i].Seat)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	_, err := s.seats.Unsell(ctx, ref, o.Owner(), gone)
	return err
}
