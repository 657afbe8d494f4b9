package booking_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// After any failure of the insert the seats are free again, or the order
// exists; and a retry with the same key gets one order.
func TestInsertFailures(t *testing.T) {
	timeout := context.DeadlineExceeded
	for name, c := range map[string]struct {
		action  testkit.Action
		lookup  testkit.Action // of Order, nil: works
		code    seatflow.Code  // 0: the order is answered
		exists  bool           // the row is there after the answer
		stays   bool           // the seats stay held: nothing could be settled
		message string
	}{
		"connection":               {action: testkit.FailBefore(seatflow.ErrNotCommitted), code: seatflow.CodeNotReady},
		"time-out before commit":   {action: testkit.FailBefore(errors.Join(seatflow.ErrNotCommitted, timeout)), code: seatflow.CodeNotReady},
		"internal":                 {action: testkit.FailBefore(errors.New("disk on fire")), code: seatflow.CodeSystem},
		"no such show":             {action: testkit.FailBefore(seatflow.ErrNotFound), code: seatflow.CodeNoShow},
		"unknown, committed":       {action: testkit.FailAfter(seatflow.ErrUnknownCommit), exists: true},
		"unknown, not committed":   {action: testkit.FailBefore(seatflow.ErrUnknownCommit), code: seatflow.CodeNotReady},
		"unknown, look-up fails":   {action: testkit.FailAfter(seatflow.ErrUnknownCommit), lookup: testkit.FailBefore(errors.New("down")), code: seatflow.CodeNotReady, exists: true, stays: true},
		"unknown, lost, no ledger": {action: testkit.FailBefore(seatflow.ErrUnknownCommit), lookup: testkit.FailBefore(errors.New("down")), code: seatflow.CodeNotReady, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			r.ledger.On("InsertOrder", c.action, testkit.Times(1))
			if c.lookup != nil {
				r.ledger.On("Order", c.lookup, testkit.Times(1))
			}
			got, err := r.create("ann", "k", 1, 2)
			if c.code == 0 {
				if err != nil {
					t.Fatal(err)
				}
			} else {
				if seatflow.CodeOf(err) != c.code || err == nil {
					t.Fatalf("got %v, want code %d", err, c.code)
				}
			}
			row, rowErr := r.facts.OrderByKey(t.Context(), "ann", "k")
			if c.exists != (rowErr == nil) {
				t.Fatalf("row %+v, %v; want it there: %v", row, rowErr, c.exists)
			}
			if c.code == 0 && row.No != got.Order.No {
				t.Errorf("answered order %s, stored %s", got.Order.No, row.No)
			}
			held := r.state(1) == seatflow.Held && r.state(2) == seatflow.Held
			free := r.state(1) == seatflow.Available && r.state(2) == seatflow.Available
			if (c.exists || c.stays) != held || !held && !free {
				t.Errorf("seats are %v and %v", r.state(1), r.state(2))
			}
			if !c.stays {
				r.agree()
			}
			again, err := r.create("ann", "k", 1, 2)
			if err != nil {
				t.Fatalf("retry: %v", err)
			}
			if c.exists && again.Order.No != row.No {
				t.Errorf("the retry made another order")
			}
			r.agree()
		})
	}
}

// A late insert that lands after its number was made void loses: the void row
// decides.
func TestVoidDecidesOverALateInsert(t *testing.T) {
	r := newRig(t, 20)
	reached, release := make(chan struct{}), make(chan struct{})
	r.ledger.On("InsertOrder", testkit.Signal(reached, testkit.HoldBefore(release)), testkit.Times(1))
	type answer struct {
		order seatflow.Order
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		c, err := r.create("ann", "k", 1)
		done <- answer{c.Order, err}
	}()
	<-reached // held, not inserted: the process is paused here
	r.clock.Advance(16 * time.Minute)
	if n := r.settleDue(); n != 1 {
		t.Fatalf("%d holds were due", n)
	}
	if s := r.state(1); s != seatflow.Available {
		t.Fatalf("the orphaned hold is %v", s)
	}
	other := r.mustCreate("bob", "", 1) // the seat is sold to another meanwhile
	close(release)
	a := <-done
	wantCode(t, a.err, seatflow.CodeSeatsTaken)
	if s := r.snapshot().Owners[1]; s != other.Owner() {
		t.Errorf("seat 1 belongs to %v", s)
	}
	r.agree()
}

// The same, but nobody took the seat: the paused buyer gets it under a new
// number.
func TestPausedBuyerHoldsAgain(t *testing.T) {
	r := newRig(t, 20)
	reached, release := make(chan struct{}), make(chan struct{})
	r.ledger.On("InsertOrder", testkit.Signal(reached, testkit.HoldBefore(release)), testkit.Times(1))
	done := make(chan error, 1)
	go func() {
		_, err := r.create("ann", "k", 1)
		done <- err
	}()
	<-reached
	r.clock.Advance(16 * time.Minute)
	r.settleDue()
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.agree()
}

func TestHoldOutcomeUnknownIsNeverTaken(t *testing.T) {
	for name, action := range map[string]testkit.Action{
		"reply lost":   testkit.FailAfter(seatflow.ErrUnknownOutcome),
		"request lost": testkit.FailBefore(seatflow.ErrUnknownOutcome),
		"not executed": testkit.FailBefore(seatflow.ErrNotExecuted),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			if err := r.svc.EnsureView(t.Context(), r.show); err != nil {
				t.Fatal(err)
			}
			r.seats.On("Hold", action, testkit.Times(1))
			_, err := r.create("ann", "k", 1)
			wantCode(t, err, seatflow.CodeNotReady)
			if s := r.state(1); s != seatflow.Available {
				t.Errorf("seat 1 is %v", s)
			}
			r.mustCreate("ann", "k", 1)
			r.agree()
		})
	}
}

// A release that fails is tried until it is confirmed.
func TestReleaseThatFailsIsQueued(t *testing.T) {
	r := newRig(t, 20)
	r.ledger.On("InsertOrder", testkit.FailBefore(seatflow.ErrNotCommitted), testkit.Times(1))
	r.seats.On("Release", testkit.FailBefore(seatflow.ErrUnknownOutcome), testkit.Times(2))
	_, err := r.create("ann", "k", 1)
	wantCode(t, err, seatflow.CodeNotReady)
	if r.svc.Owed() != 1 || r.state(1) != seatflow.Held {
		t.Fatalf("owed %d, seat %v", r.svc.Owed(), r.state(1))
	}
	if left := r.svc.SettleOwed(t.Context()); left != 1 {
		t.Fatalf("left %d after a round that failed", left)
	}
	if left := r.svc.SettleOwed(t.Context()); left != 0 || r.state(1) != seatflow.Available {
		t.Fatalf("left %d, seat %v", left, r.state(1))
	}
	r.agree()
}

// A cancel whose release fails is a cancel all the same; the view follows.
func TestCancelWhoseReleaseFails(t *testing.T) {
	r := newRig(t, 20)
	o := r.mustCreate("ann", "", 1)
	r.seats.On("Release", testkit.FailBefore(seatflow.ErrUnknownOutcome), testkit.Times(1))
	got, err := r.svc.Cancel(t.Context(), buyer("ann"), o.No)
	if err != nil || got.State != seatflow.OrderCancelled {
		t.Fatalf("%+v, %v", got, err)
	}
	if left := r.svc.SettleOwed(t.Context()); left != 0 {
		t.Fatalf("left %d", left)
	}
	r.agree()
}

// A view that lets a buyer have a seat which the facts say is another's is
// rebuilt at once, and the seat is not announced as free.
func TestConflictAfterAGoodHoldRebuildsTheView(t *testing.T) {
	r := newRig(t, 20)
	winner := r.mustCreate("ann", "", 1)
	if _, err := r.store.Release(t.Context(), r.house.Show.Ref(), winner.Owner(), nil); err != nil {
		t.Fatal(err) // the view forgets
	}
	before := r.snapshot().Revision.Generation
	_, err := r.create("bob", "", 1, 2)
	e := wantCode(t, err, seatflow.CodeSeatsTaken)
	if len(e.Seats) != 1 || e.Seats[0] != 1 || len(e.Available) != 1 || e.Available[0] != 2 {
		t.Errorf("taken %v, available %v", e.Seats, e.Available)
	}
	if after := r.snapshot().Revision.Generation; after <= before {
		t.Errorf("generation stayed %d", after)
	}
	if s := r.state(1); s != seatflow.Held {
		t.Errorf("seat 1 is %v", s)
	}
	r.agree()
}

func TestConflictWhoseRebuildFailsIsRebuiltLater(t *testing.T) {
	r := newRig(t, 20)
	winner := r.mustCreate("ann", "", 1)
	if _, err := r.store.Release(t.Context(), r.house.Show.Ref(), winner.Owner(), nil); err != nil {
		t.Fatal(err)
	}
	r.ledger.On("RaiseGeneration", testkit.FailBefore(seatflow.ErrNotCommitted), testkit.Times(1))
	_, err := r.create("bob", "", 1, 2)
	e := wantCode(t, err, seatflow.CodeSeatsTaken)
	if len(e.Available) != 0 || r.state(1) == seatflow.Available {
		t.Errorf("announced %v as free; seat 1 is %v", e.Available, r.state(1))
	}
	if left := r.svc.SettleOwed(t.Context()); left != 0 {
		t.Fatalf("left %d", left)
	}
	r.agree()
}

func TestLedgerDownRefusesBeforeTheHold(t *testing.T) {
	r := newRig(t, 20)
	if err := r.svc.EnsureView(t.Context(), r.show); err != nil {
		t.Fatal(err)
	}
	r.ledger.On("Healthy", testkit.FailBefore(errors.New("down")))
	_, err := r.create("ann", "", 1)
	e := wantCode(t, err, seatflow.CodeNotReady)
	if e.RetryAfter <= 0 {
		t.Error("no Retry-After")
	}
	if n := r.seats.Calls("Hold"); n != 0 {
		t.Errorf("%d holds were asked for", n)
	}
}

// A rebuild between hold and insert: the stale hold is taken again under the
// new generation and the order is in the new view.
func TestStaleGenerationHoldsAgain(t *testing.T) {
	r := newRig(t, 20)
	if err := r.svc.EnsureView(t.Context(), r.show); err != nil {
		t.Fatal(err)
	}
	node := r.service()
	rule := r.ledger.On("InsertOrder", testkit.Before(func() {
		if err := node.Rebuild(t.Context(), r.show); err != nil {
			t.Error(err)
		}
	}), testkit.Times(1))
	r.mustCreate("ann", "k", 1)
	if rule.Hits() != 1 {
		t.Fatal("the rebuild did not come between")
	}
	r.agree()
}

// The caller's going does not cut a commit in two.
func TestCallerGoesBeforeTheCommit(t *testing.T) {
	r := newRig(t, 20)
	ctx, cancel := context.WithCancel(t.Context())
	r.ledger.On("InsertOrder", testkit.Before(cancel), testkit.Times(1))
	if _, err := r.svc.Create(ctx, r.request("ann", "k", 1)); err != nil {
		t.Fatal(err)
	}
	r.agree()
}

// Negative control: the comparison of view and facts sees each kind of drift.
func TestDriftIsSeen(t *testing.T) {
	r := newRig(t, 20)
	o := r.mustCreate("ann", "", 1)
	if d := r.drift(); d != "" {
		t.Fatal(d)
	}
	if _, err := r.store.Release(t.Context(), r.house.Show.Ref(), o.Owner(), nil); err != nil {
		t.Fatal(err)
	}
	if r.drift() == "" {
		t.Error("a released seat of a live order was not seen")
	}
}

// A view whose counts do not fit sells nothing until it has been rebuilt,
// which the next buyer does.
func TestSuspectViewIsRebuiltOnUse(t *testing.T) {
	r := newRig(t, 20)
	ann := r.mustCreate("ann", "", 1)
	r.store.ForceSeat(r.house.Show.Ref(), 1, seatflow.Available, seatflow.Owner{})
	_, err := r.create("bob", "", 1)
	wantCode(t, err, seatflow.CodeSeatsTaken)
	if r.snapshot().Owners[1] != ann.Owner() {
		t.Error("the facts did not win")
	}
	r.agree()
	r.store.DropView(r.house.Show.Ref())
	_, err = r.create("bob", "", 1)
	wantCode(t, err, seatflow.CodeSeatsTaken)
	r.agree()
}

// An owner that is queued again while its earlier entry is being settled is
// not forgotten: the facts moved after they were read.
func TestQueuedAgainWhileSettling(t *testing.T) {
	r := newRig(t, 20)
	o := r.mustCreate("ann", "", 1)
	r.seats.On("Extend", testkit.FailBefore(seatflow.ErrUnknownOutcome), testkit.Times(1))
	if _, err := r.svc.Extend(t.Context(), buyer("ann"), o.No); err != nil || r.svc.Owed() != 1 {
		t.Fatalf("%v, owed %d", err, r.svc.Owed())
	}
	r.seats.On("Sell", testkit.FailBefore(seatflow.ErrUnknownOutcome), testkit.Times(1))
	// The queue has read the order as pending; now it is paid, and the view
	// cannot be told.
	r.seats.On("Extend", testkit.Before(func() { r.pay(capture(o, "1")) }), testkit.Times(1))
	if left := r.svc.SettleOwed(t.Context()); left != 1 {
		t.Fatalf("left %d, want the payment that was queued meanwhile", left)
	}
	if left := r.svc.SettleOwed(t.Context()); left != 0 || r.state(1) != seatflow.Sold {
		t.Fatalf("left %d, seat %v", left, r.state(1))
	}
	r.agree()
}

// TestAHoldArrivesAfterItsRelease: nobody heard of the hold, its release found
// nothing, and then it is executed after all. The seat does not stay held for
// an order that will never be.
func TestAHoldArrivesAfterItsRelease(t *testing.T) {
	r := newRig(t, 10)
	r.mustCreate("bob", "k", 2) // builds the view
	var arrive func() error
	r.seats.On("Hold", func(_ context.Context, do func() error) error {
		arrive = do
		return seatflow.ErrUnknownOutcome
	}, testkit.Times(1))
	if _, err := r.create("ann", "k", 1); seatflow.CodeOf(err) != seatflow.CodeNotReady {
		t.Fatalf("a hold of which nobody heard: %v", err)
	}
	r.svc.SettleOwed(t.Context())
	_ = arrive()
	if s := r.state(1); s != seatflow.Held {
		t.Fatalf("the late hold made the seat %v", s)
	}
	if left := r.svc.SettleOwed(t.Context()); left != 1 {
		t.Errorf("%d owed: what may still arrive must be looked at again", left)
	}
	if s := r.state(1); s != seatflow.Available {
		t.Errorf("the seat is %v", s)
	}
	if c, err := r.create("ann", "k", 1); err != nil || c.Replayed {
		t.Errorf("the same key again: %+v, %v", c, err)
	}
}
