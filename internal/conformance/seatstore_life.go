package conformance

import (
	"context"
	"errors"
	"time"

	"seatflow"
)

var lifeCases = []seatCase{
	{"life/missing", lifeMissing},
	{"life/ended", lifeEnded},
	{"life/dropped", lifeDropped},
	{"life/moved", lifeMoved},
	{"life/cancelled context", lifeCancelled},
}

// operation is one call of every method that is about one show but Hold.
type operation struct {
	name string
	call func(ctx context.Context, ref seatflow.ShowRef) error
}

func (t *seatTest) operations() []operation {
	s := t.Store
	repair := seatflow.SeatRepair{Seat: 1, SawState: seatflow.Held, SawOwner: order(1), WantState: seatflow.Available}
	return []operation{
		{"extend", func(ctx context.Context, ref seatflow.ShowRef) error {
			r, err := s.Extend(ctx, ref, order(1), t.Now().Add(holdFor+time.Minute))
			return errors.Join(err, something(r.Extended))
		}},
		{"sell", func(ctx context.Context, ref seatflow.ShowRef) error {
			r, err := s.Sell(ctx, ref, order(1))
			return errors.Join(err, something(r.Sold > 0))
		}},
		{"release", func(ctx context.Context, ref seatflow.ShowRef) error {
			r, err := s.Release(ctx, ref, order(1), nil)
			return errors.Join(err, something(len(r.Released) > 0))
		}},
		{"unsell", func(ctx context.Context, ref seatflow.ShowRef) error {
			r, err := s.Unsell(ctx, ref, order(1), nil)
			return errors.Join(err, something(len(r.Released) > 0))
		}},
		{"block", func(ctx context.Context, ref seatflow.ShowRef) error {
			r, err := s.Block(ctx, ref, order(3), seats(3))
			return errors.Join(err, something(len(r.Changed) > 0))
		}},
		{"unblock", func(ctx context.Context, ref seatflow.ShowRef) error {
			r, err := s.Unblock(ctx, ref, order(2), nil)
			return errors.Join(err, something(len(r.Changed) > 0))
		}},
		{"repair", func(ctx context.Context, ref seatflow.ShowRef) error {
			r, err := s.Repair(ctx, seatflow.RepairRequest{Show: ref, Generation: 1, Seats: []seatflow.SeatRepair{repair}})
			return errors.Join(err, something(len(r.Fixed) > 0))
		}},
		{"snapshot", func(ctx context.Context, ref seatflow.ShowRef) error {
			r, err := s.Snapshot(ctx, ref, seatflow.DetailStates)
			return errors.Join(err, something(r != nil && len(r.States) > 0))
		}},
	}
}

// errSomething: an operation that should have been a no-op did something.
var errSomething = errors.New("it did something")

func something(did bool) error {
	if did {
		return errSomething
	}
	return nil
}

func lifeMissing(t *seatTest) {
	ref := t.ref(5)
	t.hold(seatflow.OutcomeNotReady, ask(ref, 1, 1))
	for _, op := range t.operations() {
		t.fails(op.name+" without a view", op.call(t.Context(), ref), seatflow.ErrNotReady)
	}
	list, _ := t.changes(7, "")
	if len(list) != 0 {
		t.Fatalf("changes %+v of a view that is not there", list)
	}
	// Beside it, a view is ready.
	t.house(1)
	t.hold(seatflow.OutcomeNotReady, ask(ref, 1, 1))
	t.hold(seatflow.OutcomeHeld, ask(t.ref(1), 1, 1))
}

// ended makes a view whose lifetime is over, and one that never was.
func lifeEnded(t *seatTest) {
	ref := t.house(4)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	t.block(seats(2), nil, ref, 2, seats(2))
	t.Advance(24*time.Hour - time.Millisecond)
	t.text(ref, "1x00")
	t.Advance(time.Millisecond)
	never := ref
	never.ID = 77
	for _, r := range []seatflow.ShowRef{ref, never} {
		for _, op := range t.operations() {
			if err := op.call(t.Context(), r); err != nil {
				t.Errorf("%s after the end of show %d: %v", op.name, r.ID, err)
			}
		}
		t.hold(seatflow.OutcomeNotReady, ask(r, 4, 3))
		t.must(t.Store.Rebuild(t.Context(), seatflow.View{Show: r, Generation: 9, Base: base(1)}))
	}
	// It was only asked too late: the view is still there, untouched.
	ref.Until = t.Now().Add(time.Hour)
	snap := t.snap(ref)
	if text(snap.States) != "1x00" || snap.Revision != (seatflow.Revision{Generation: 1, Number: 2}) {
		t.Fatalf("after the end %s at %s", text(snap.States), snap.Revision)
	}
	never.Until = ref.Until
	t.hold(seatflow.OutcomeNotReady, ask(never, 4, 3))
}

// An hour after its end a view is gone, with all it knew.
func lifeDropped(t *seatTest) {
	ref := t.house(4)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	late := ask(ref, 2, 2)
	late.For, late.Cap = 25*time.Hour, 25*time.Hour
	t.hold(seatflow.OutcomeHeld, late)
	t.Advance(25*time.Hour - time.Millisecond)
	t.due(0, 1)
	t.Advance(time.Millisecond)
	t.due(0)
	ref.Until = t.Now().Add(time.Hour)
	t.hold(seatflow.OutcomeNotReady, ask(ref, 3, 3))
	_, err := t.Store.Sell(t.Context(), ref, order(1))
	t.fails("a sale in a view that is gone", err, seatflow.ErrNotReady)
	t.due(0)
	clear(t.views) // two views of one generation are beyond the audit
	t.must(t.Store.Rebuild(t.Context(), seatflow.View{Show: ref, Generation: 1, Base: base(2)}))
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
}

// A later end, once told, is the view's.
func lifeMoved(t *seatTest) {
	ref := t.house(4)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	moved := ref
	moved.Until = ref.Until.Add(48 * time.Hour)
	t.sell(1, moved, 1)
	t.Advance(60 * time.Hour)
	t.sell(0, ref, 1) // who has not heard of it yet does no harm
	t.text(moved, "2000")
	t.hold(seatflow.OutcomeHeld, ask(moved, 2, 2))
}

// Who has given up before it began gets nothing done.
func lifeCancelled(t *seatTest) {
	ref := t.house(4)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	t.block(seats(2), nil, ref, 2, seats(2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	t.unchanged(ref, "a call that was given up", func() {
		check := func(name string, err error) {
			t.Helper()
			t.fails(name, err, seatflow.ErrNotExecuted)
			t.fails(name, err, context.Canceled)
		}
		for _, op := range t.operations() {
			check(op.name, op.call(ctx, ref))
		}
		_, err := t.Store.Hold(ctx, ask(ref, 3, 3))
		check("hold", err)
		check("rebuild", t.Store.Rebuild(ctx, seatflow.View{Show: ref, Generation: 2, Base: base(1)}))
		_, err = t.Store.ClaimDue(ctx, 7, 10, time.Minute)
		check("claim", err)
		_, err = t.Store.Changes(ctx, seatflow.ChangesRequest{Partition: 7})
		check("changes", err)
		_, err = t.Store.Identity(ctx)
		check("identity", err)
	})
}
