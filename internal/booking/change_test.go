package booking_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

func capture(o seatflow.Order, event string) seatflow.PaymentEvent {
	return seatflow.PaymentEvent{Provider: "test", EventID: "evt-" + event, CaptureID: "cap-" + event,
		Type: seatflow.PaymentCaptured, Order: o.No, Amount: o.Total, At: start}
}

func (r *rig) pay(e seatflow.PaymentEvent) seatflow.PaymentOutcome {
	r.t.Helper()
	out, err := r.svc.ApplyPayment(r.t.Context(), e)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func TestCancelFreesAtOnce(t *testing.T) {
	r := newRig(t, 20)
	o := r.mustCreate("ann", "", 1, 2)
	_, err := r.svc.Cancel(t.Context(), buyer("bob"), o.No)
	wantCode(t, err, seatflow.CodeNotFound) // not theirs
	for range 2 {
		got, err := r.svc.Cancel(t.Context(), buyer("ann"), o.No)
		if err != nil || got.State != seatflow.OrderCancelled {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if r.state(1) != seatflow.Available || r.state(2) != seatflow.Available {
		t.Error("the seats are not free")
	}
	next := r.mustCreate("bob", "", 1)
	if _, err := r.svc.Cancel(t.Context(), buyer("ann"), o.No); err != nil {
		t.Fatal(err)
	}
	if r.snapshot().Owners[1] != next.Owner() {
		t.Error("a repeated cancel took the next owner's seat")
	}
	r.agree()
}

func TestExtendOnceUpToTheCap(t *testing.T) {
	r := newRig(t, 20, func(s *seatflow.Show) { s.HoldCap = 18 * time.Minute })
	o := r.mustCreate("ann", "", 1)
	got, err := r.svc.Extend(t.Context(), buyer("ann"), o.No)
	if err != nil || !got.Deadline.Equal(start.Add(18*time.Minute)) {
		t.Fatalf("deadline %v, %v", got.Deadline, err)
	}
	_, err = r.svc.Extend(t.Context(), buyer("ann"), o.No)
	e := wantCode(t, err, seatflow.CodeWrongState)
	if e.Reason != seatflow.ReasonExtendedAlready {
		t.Errorf("reason %q", e.Reason)
	}
	r.clock.Advance(16 * time.Minute) // past the old deadline
	r.settleDue()
	if s := r.state(1); s != seatflow.Held {
		t.Errorf("an extended hold became %v", s)
	}
	r.clock.Advance(2 * time.Minute)
	r.settleDue()
	if s := r.state(1); s != seatflow.Available {
		t.Errorf("after the cap the seat is %v", s)
	}
	r.agree()
}

// The ledger was extended, the view was not told (a crash between): the
// guardian corrects the view instead of expiring.
func TestGuardianCorrectsAnEarlyWakeUp(t *testing.T) {
	r := newRig(t, 20)
	o := r.mustCreate("ann", "", 1)
	c := seatflow.OrderChange{No: o.No, User: "ann", Actor: buyer("ann")}
	if _, err := r.facts.ExtendOrder(t.Context(), c, o.Deadline, o.Deadline.Add(5*time.Minute)); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(16 * time.Minute)
	if n := r.settleDue(); n != 1 {
		t.Fatalf("%d due", n)
	}
	if s := r.state(1); s != seatflow.Held {
		t.Errorf("the seat is %v", s)
	}
	r.agree()
	r.clock.Advance(5 * time.Minute)
	r.settleDue()
	if s := r.state(1); s != seatflow.Available {
		t.Errorf("after the later deadline the seat is %v", s)
	}
}

func TestExpireFreesTheSeats(t *testing.T) {
	r := newRig(t, 20)
	o := r.mustCreate("ann", "", 1, 2)
	r.clock.Advance(15*time.Minute - time.Second)
	if n := r.settleDue(); n != 0 {
		t.Fatalf("%d due before the deadline", n)
	}
	r.clock.Advance(time.Second)
	if n := r.settleDue(); n != 1 {
		t.Fatalf("%d due at the deadline", n)
	}
	got, err := r.svc.Order(t.Context(), buyer("ann"), o.No)
	if err != nil || got.State != seatflow.OrderExpired {
		t.Errorf("%+v, %v", got, err)
	}
	r.mustCreate("bob", "", 1, 2)
	r.agree()
}

// The process died between hold and insert: once older than the grace time
// the hold is given back, and not before.
func TestOrphanedHoldIsReleasedAfterTheGrace(t *testing.T) {
	r := newRig(t, 20)
	if err := r.svc.EnsureView(t.Context(), r.show); err != nil {
		t.Fatal(err)
	}
	owner := seatflow.Owner{Order: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Attempt: 1}
	_, err := r.store.Hold(t.Context(), seatflow.HoldRequest{Show: r.house.Show.Ref(), Owner: owner, User: "ann",
		Seats: []seatflow.SeatID{1}, For: 10 * time.Second, Cap: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(30 * time.Second)
	if n := r.settleDue(); n != 1 || r.state(1) != seatflow.Held {
		t.Fatalf("%d due; before the grace time the seat is %v", n, r.state(1))
	}
	r.clock.Advance(31 * time.Second)
	if n := r.settleDue(); n != 1 || r.state(1) != seatflow.Available {
		t.Fatalf("%d due; after the grace time the seat is %v", n, r.state(1))
	}
	r.agree()
}

// Pay, late, twice, out of order: exactly one ending each.
func TestPayments(t *testing.T) {
	t.Run("paid once", func(t *testing.T) {
		r := newRig(t, 20)
		o := r.mustCreate("ann", "", 1, 2)
		out := r.pay(capture(o, "1"))
		if out.Ending != seatflow.EndingPaid || out.Order.State != seatflow.OrderPaid || out.Repeat {
			t.Fatalf("%+v", out)
		}
		if r.state(1) != seatflow.Sold || r.state(2) != seatflow.Sold {
			t.Error("the seats are not sold")
		}
		again := r.pay(capture(o, "1"))
		if !again.Repeat || again.Ending != seatflow.EndingPaid {
			t.Errorf("repeat: %+v", again)
		}
		second := r.pay(capture(o, "2"))
		if second.Ending != seatflow.EndingRefund || second.Refund == nil || second.Refund.Reason != seatflow.RefundSecondCapture {
			t.Errorf("second capture: %+v", second)
		}
		r.clock.Advance(time.Hour)
		r.settleDue()
		if r.state(1) != seatflow.Sold {
			t.Error("a paid seat was released by its old wake-up")
		}
		_, err := r.svc.Cancel(t.Context(), buyer("ann"), o.No)
		wantCode(t, err, seatflow.CodeWrongState)
		r.agree()
	})
	t.Run("callbacks at once", func(t *testing.T) {
		r := newRig(t, 20)
		o := r.mustCreate("ann", "", 1)
		var mu sync.Mutex
		endings := map[string]int{}
		at(40, func(i int) {
			out, err := r.svc.ApplyPayment(t.Context(), capture(o, fmt.Sprint(i%4)))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if !out.Repeat {
				endings[string(out.Ending)]++
			}
		})
		if endings["paid"] != 1 || endings["refund"] != 3 || len(endings) != 2 {
			t.Errorf("endings %v", endings)
		}
		r.agree()
	})
	t.Run("after expiry, seats free", func(t *testing.T) {
		r := newRig(t, 20)
		o := r.mustCreate("ann", "", 1, 2)
		r.clock.Advance(16 * time.Minute)
		r.settleDue()
		out := r.pay(capture(o, "1"))
		if out.Ending != seatflow.EndingReseated || out.Order.State != seatflow.OrderPaid || out.Order.Attempt != 2 {
			t.Fatalf("%+v", out)
		}
		if r.state(1) != seatflow.Sold || r.snapshot().Owners[1] != out.Order.Owner() {
			t.Errorf("seat 1 is %v of %v", r.state(1), r.snapshot().Owners[1])
		}
		r.agree()
	})
	t.Run("after expiry, seats gone", func(t *testing.T) {
		r := newRig(t, 20)
		o := r.mustCreate("ann", "", 1, 2)
		r.clock.Advance(16 * time.Minute)
		r.settleDue()
		other := r.mustCreate("bob", "", 2)
		out := r.pay(capture(o, "1"))
		if out.Ending != seatflow.EndingRefund || out.Refund.Reason != seatflow.RefundOrderEnded || out.Refund.Amount != o.Total {
			t.Fatalf("%+v", out)
		}
		if r.snapshot().Owners[2] != other.Owner() || r.state(1) != seatflow.Available {
			t.Error("the refund disturbed the seats")
		}
		r.agree()
	})
	t.Run("reseated over a hold in flight", func(t *testing.T) {
		r := newRig(t, 20)
		o := r.mustCreate("ann", "", 1)
		if _, err := r.svc.Cancel(t.Context(), buyer("ann"), o.No); err != nil {
			t.Fatal(err)
		}
		reached, release := make(chan struct{}), make(chan struct{})
		r.ledger.On("InsertOrder", testkit.Signal(reached, testkit.HoldBefore(release)), testkit.Times(1))
		done := make(chan error, 1)
		go func() {
			_, err := r.create("bob", "", 1)
			done <- err
		}()
		<-reached // bob holds the seat in the view, the ledger does not know it
		out := r.pay(capture(o, "1"))
		if out.Ending != seatflow.EndingReseated || r.snapshot().Owners[1] != out.Order.Owner() || r.state(1) != seatflow.Sold {
			t.Fatalf("%+v; seat 1 is %v", out, r.state(1))
		}
		close(release)
		wantCode(t, <-done, seatflow.CodeSeatsTaken)
		r.agree()
	})
	t.Run("unknown order and wrong amounts", func(t *testing.T) {
		r := newRig(t, 20)
		o := r.mustCreate("ann", "", 1)
		lost := capture(o, "lost")
		lost.Order = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
		if out := r.pay(lost); out.Ending != seatflow.EndingUnknown {
			t.Errorf("%+v", out)
		}
		list, err := r.facts.UnknownPayments(t.Context(), 0, 10)
		if err != nil || len(list) != 1 || list[0].Event.EventID != "evt-lost" {
			t.Errorf("%+v, %v", list, err)
		}
		short := capture(o, "short")
		short.Amount.Amount--
		if out := r.pay(short); out.Ending != seatflow.EndingRefund || out.Refund.Reason != seatflow.RefundWrongAmount || out.Refund.Amount != short.Amount {
			t.Errorf("%+v", out)
		}
		dollars := capture(o, "usd")
		dollars.Amount.Currency = "USD"
		if out := r.pay(dollars); out.Ending != seatflow.EndingRefund || out.Refund.Reason != seatflow.RefundWrongCurrency {
			t.Errorf("%+v", out)
		}
		if got, _ := r.svc.Order(t.Context(), buyer("ann"), o.No); got.State != seatflow.OrderPending {
			t.Errorf("the order became %s", got.State)
		}
		r.agree()
	})
	t.Run("view lost the hold", func(t *testing.T) {
		r := newRig(t, 20)
		o := r.mustCreate("ann", "", 1)
		if _, err := r.store.Release(t.Context(), r.house.Show.Ref(), o.Owner(), nil); err != nil {
			t.Fatal(err)
		}
		r.pay(capture(o, "1"))
		if r.state(1) != seatflow.Sold {
			t.Errorf("seat 1 is %v", r.state(1))
		}
		r.agree()
	})
	t.Run("view cannot be told", func(t *testing.T) {
		r := newRig(t, 20)
		o := r.mustCreate("ann", "", 1)
		r.seats.On("Sell", testkit.FailAfter(seatflow.ErrUnknownOutcome), testkit.Times(1))
		r.pay(capture(o, "1"))
		if left := r.svc.SettleOwed(t.Context()); left != 0 {
			t.Errorf("left %d", left)
		}
		r.agree()
	})
}

func TestBeginPaymentExtendsOnce(t *testing.T) {
	r := newRig(t, 20)
	o := r.mustCreate("ann", "", 1)
	for range 2 {
		got, err := r.svc.BeginPayment(t.Context(), buyer("ann"), o.No)
		if err != nil || !got.Deadline.Equal(start.Add(20*time.Minute)) || !got.Extended {
			t.Fatalf("deadline %v, %v", got.Deadline, err)
		}
	}
	_, err := r.svc.Extend(t.Context(), buyer("ann"), o.No)
	wantCode(t, err, seatflow.CodeWrongState)
	r.agree()
	// An abandoned payment does not keep the order for ever.
	r.clock.Advance(21 * time.Minute)
	r.settleDue()
	if s := r.state(1); s != seatflow.Available {
		t.Errorf("seat 1 is %v", s)
	}
}

// Of pay, cancel and expire at once exactly one wins, and view and facts
// agree about which.
func TestRacingEndings(t *testing.T) {
	for round := range 30 {
		r := newRig(t, 10)
		o := r.mustCreate("ann", "", 1)
		r.clock.Advance(15 * time.Minute)
		at(3, func(i int) {
			switch i {
			case 0:
				if _, err := r.svc.ApplyPayment(t.Context(), capture(o, fmt.Sprint(round))); err != nil {
					t.Error(err)
				}
			case 1:
				_, err := r.svc.Cancel(t.Context(), buyer("ann"), o.No)
				if err != nil && seatflow.CodeOf(err) != seatflow.CodeWrongState {
					t.Error(err)
				}
			case 2:
				r.settleDue()
			}
		})
		got, err := r.svc.Order(t.Context(), buyer("ann"), o.No)
		if err != nil || got.State != seatflow.OrderPaid { // money always has the last word here: the seat is free
			t.Fatalf("%+v, %v", got, err)
		}
		r.agree()
		if t.Failed() {
			return
		}
	}
}

func TestRefundPartThenWhole(t *testing.T) {
	r := newRig(t, 20)
	o := r.mustCreate("ann", "", 1, 2, 3)
	r.pay(capture(o, "1"))
	_, _, err := r.svc.Refund(t.Context(), buyer("ann"), o.No, nil)
	wantCode(t, err, seatflow.CodeForbidden)
	_, _, err = r.svc.Refund(t.Context(), staff, o.No, []seatflow.SeatID{9})
	wantCode(t, err, seatflow.CodeNoSeat)
	got, refund, err := r.svc.Refund(t.Context(), staff, o.No, []seatflow.SeatID{2})
	if err != nil || refund == nil || refund.Amount.Amount != 1500 || got.State != seatflow.OrderPaid {
		t.Fatalf("%+v, %+v, %v", got, refund, err)
	}
	if r.state(2) != seatflow.Available || r.state(1) != seatflow.Sold {
		t.Errorf("seats %v %v", r.state(1), r.state(2))
	}
	r.agree()
	_, again, err := r.svc.Refund(t.Context(), staff, o.No, []seatflow.SeatID{2})
	if err != nil || again != nil {
		t.Fatalf("a second refund of one seat: %+v, %v", again, err)
	}
	r.mustCreate("bob", "", 2)
	got, refund, err = r.svc.Refund(t.Context(), staff, o.No, nil)
	if err != nil || refund == nil || refund.Amount.Amount != 3000 || got.State != seatflow.OrderRefunded {
		t.Fatalf("%+v, %+v, %v", got, refund, err)
	}
	if r.state(1) != seatflow.Available || r.state(2) != seatflow.Held || r.state(3) != seatflow.Available {
		t.Error("refund freed the wrong seats")
	}
	r.agree()
}

func TestBlocks(t *testing.T) {
	r := newRig(t, 20)
	if err := r.svc.EnsureView(t.Context(), r.show); err != nil {
		t.Fatal(err)
	}
	_, err := r.svc.Block(t.Context(), buyer("ann"), r.show, []seatflow.SeatID{1}, "mine")
	wantCode(t, err, seatflow.CodeForbidden)
	o := r.mustCreate("ann", "", 5)
	_, err = r.svc.Block(t.Context(), staff, r.show, []seatflow.SeatID{4, 5}, "camera")
	e := wantCode(t, err, seatflow.CodeSeatsTaken)
	if !slices.Equal(e.Seats, []seatflow.SeatID{5}) || !slices.Equal(e.Available, []seatflow.SeatID{4}) {
		t.Errorf("taken %v, available %v", e.Seats, e.Available)
	}
	block, err := r.svc.Block(t.Context(), staff, r.show, []seatflow.SeatID{1, 2}, "camera")
	if err != nil || r.state(1) != seatflow.Blocked || r.state(2) != seatflow.Blocked {
		t.Fatalf("%v; seats %v %v", err, r.state(1), r.state(2))
	}
	_, err = r.create("bob", "", 1)
	wantCode(t, err, seatflow.CodeSeatsTaken)
	r.agree()
	if err := r.svc.Rebuild(t.Context(), r.show); err != nil || r.state(1) != seatflow.Blocked {
		t.Fatalf("after a rebuild the blocked seat is %v, %v", r.state(1), err)
	}
	list, err := r.svc.Blocks(t.Context(), staff, r.show)
	if err != nil || len(list) != 1 || list[0].No != block.No || list[0].Reason != "camera" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := r.svc.Unblock(t.Context(), staff, block.No, []seatflow.SeatID{1}); err != nil || r.state(1) != seatflow.Available || r.state(2) != seatflow.Blocked {
		t.Fatalf("%v; seats %v %v", err, r.state(1), r.state(2))
	}
	_, err = r.svc.Unblock(t.Context(), staff, o.No, nil)
	wantCode(t, err, seatflow.CodeNotFound)
	got, err := r.svc.Unblock(t.Context(), staff, block.No, nil)
	if err != nil || got.State != seatflow.OrderCancelled || r.state(2) != seatflow.Available {
		t.Fatalf("%+v, %v", got, err)
	}
	r.agree()
}

// A block of a seat that someone holds without an order yet: the fact wins.
func TestBlockOverAHoldInFlight(t *testing.T) {
	r := newRig(t, 20)
	reached, release := make(chan struct{}), make(chan struct{})
	r.ledger.On("InsertOrder", testkit.Signal(reached, testkit.HoldBefore(release)), testkit.Times(1))
	done := make(chan error, 1)
	go func() {
		_, err := r.create("bob", "", 1)
		done <- err
	}()
	<-reached
	if _, err := r.svc.Block(t.Context(), staff, r.show, []seatflow.SeatID{1}, ""); err != nil {
		t.Fatal(err)
	}
	if s := r.state(1); s != seatflow.Blocked {
		t.Errorf("seat 1 is %v", s)
	}
	close(release)
	wantCode(t, <-done, seatflow.CodeSeatsTaken)
	r.agree()
}

func TestOwnershipAndLists(t *testing.T) {
	r := newRig(t, 20)
	var mine []seatflow.OrderNo
	for i := range 3 {
		mine = append(mine, r.mustCreate("ann", "", seatflow.SeatID(i+1)).No)
	}
	other := r.mustCreate("bob", "", 9)
	_, err := r.svc.Order(t.Context(), buyer("ann"), other.No)
	wantCode(t, err, seatflow.CodeNotFound)
	_, err = r.svc.History(t.Context(), buyer("ann"), other.No)
	wantCode(t, err, seatflow.CodeNotFound)
	if _, err := r.svc.Order(t.Context(), staff, other.No); err != nil {
		t.Error(err)
	}
	list, err := r.svc.Orders(t.Context(), buyer("ann"), "", 10)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d orders, %v", len(list), err)
	}
	events, err := r.svc.History(t.Context(), buyer("ann"), mine[0])
	if err != nil || len(events) != 1 || events[0].Type != seatflow.EventCreated || events[0].Actor.User != "ann" {
		t.Errorf("%+v, %v", events, err)
	}
}
