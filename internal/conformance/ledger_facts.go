package conformance

import (
	"errors"

	"seatflow"
)

var ledgerFactsCases = []ledgerCase{
	{"facts/occupancy", ledgerFactsOf},
	{"facts/generations at once", ledgerGenerationsAtOnce},
	{"facts/audit", ledgerAuditCounts},
	{"facts/outbox", ledgerOutbox},
	{"facts/healthy", func(t *ledgerTest) { t.wantErr("healthy", t.l.Healthy(t.Context()), nil) }},
	{"facts/closed", ledgerClosed},
}

func ledgerFactsOf(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(20)
	pending := t.insert(t.sale(show, buyer.User, "k1", 1, 2))
	paid := t.pay(t.insert(t.sale(show, buyer.User, "k2", 3, 4)))
	ended := t.insert(t.sale(show, buyer.User, "k3", 5))
	if _, err := t.l.CancelOrder(ctx, by(ended, buyer)); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	part := t.pay(t.insert(t.sale(show, buyer.User, "k4", 6, 7)))
	part, _, err := t.l.RefundSeats(ctx, by(part, staff), seats(6))
	if err != nil {
		t.Fatalf("refund: %v", err)
	}
	block := t.insert(t.block(show, "x", 8))
	whole := t.pay(t.insert(t.sale(show, buyer.User, "k5", 9)))
	if _, _, err := t.l.RefundSeats(ctx, by(whole, staff), nil); err != nil {
		t.Fatalf("refund: %v", err)
	}
	t.insert(t.sale(t.show(5), buyer.User, "k6", 1)) // of another show
	if _, err := t.l.RaiseGeneration(ctx, show.ID, show.Generation); err != nil {
		t.Fatalf("raise: %v", err)
	}
	f, err := t.l.Facts(ctx, show.ID)
	if err != nil {
		t.Fatalf("facts: %v", err)
	}
	t.same("orders with seats, by number", f.Orders, []seatflow.Order{pending, paid, part, block})
	if f.Generation != show.Generation+1 || f.Show.Generation != f.Generation || f.Show.ID != show.ID {
		t.Errorf("facts of generation %d: show %+v", f.Generation, f.Show)
	}
	_, err = t.l.Facts(ctx, show.ID+100)
	t.wantErr("facts of no show", err, seatflow.ErrNotFound)
}

func ledgerGenerationsAtOnce(t *ledgerTest) {
	show := t.show(1)
	won := 0
	for _, err := range parallel(20, func(int) error {
		gen, err := t.l.RaiseGeneration(t.Context(), show.ID, show.Generation)
		if err == nil && gen != show.Generation+1 {
			return errors.New("raised to another generation")
		}
		return err
	}) {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, seatflow.ErrStaleGeneration):
			t.Errorf("a loser heard %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d raised one generation", won)
	}
}

func ledgerAuditCounts(t *ledgerTest) {
	want := map[seatflow.OrderState]int64{}
	for i, state := range []seatflow.OrderState{seatflow.OrderPending, seatflow.OrderPaid, seatflow.OrderCancelled, seatflow.OrderExpired,
		seatflow.OrderRefunded, seatflow.OrderVoid, seatflow.OrderBlocked} {
		for range i + 1 {
			t.inState(state)
		}
		want[state] = int64(i + 1)
	}
	a := t.audit()
	t.same("orders by state", a.Orders, want)
	// Two seats each for 1 pending, 2 paid and 7 blocked orders.
	if a.ActiveSeats != 20 || a.DistinctSeats != 20 || a.Captures != 2+5 || a.EndingPaid != 7 || a.EndingRefund != 0 || a.EndingUnknown != 0 {
		t.Errorf("audit: %+v", a)
	}
}

func ledgerOutbox(t *ledgerTest) {
	ctx := t.Context()
	_, o := t.pending(2)
	t.pay(o)
	out, err := t.l.Outbox(ctx, 10)
	if err != nil || len(out) != 2 {
		t.Fatalf("outbox: %+v, %v", out, err)
	}
	now := t.order(o.No)
	for _, e := range out {
		t.same("the order as it is now", e.Order, now)
	}
	if out[0].Event.Type != seatflow.EventCreated || out[1].Event.Type != seatflow.EventPaid || out[0].ID == out[1].ID || out[0].Event.ID == out[1].Event.ID {
		t.Errorf("outbox: %+v", out)
	}
	one, err := t.l.Outbox(ctx, 1)
	t.wantErr("outbox", err, nil)
	t.same("the first", one, out[:1])
	for range 2 { // a repeat is a no-op
		t.wantErr("done", t.l.OutboxDone(ctx, []int64{out[0].ID}), nil)
		left, err := t.l.Outbox(ctx, 10)
		t.wantErr("outbox", err, nil)
		t.same("what is left", left, out[1:])
	}
	t.wantErr("done with nothing", t.l.OutboxDone(ctx, nil), nil)
	t.wantErr("done", t.l.OutboxDone(ctx, []int64{out[1].ID}), nil)
	if left, err := t.l.Outbox(ctx, 10); err != nil || len(left) != 0 {
		t.Errorf("outbox at the end: %v, %v", left, err)
	}
	if h := t.history(o.No); len(h) != 2 {
		t.Errorf("the history went with the outbox: %+v", h)
	}
}

// ledgerClosed closes a ledger under load: what it accepted is committed, what
// it did not is refused, and nothing hangs.
func ledgerClosed(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(200)
	inserted := make(chan struct{}, 200)
	done := make(chan []error)
	go func() {
		done <- parallel(200, func(i int) error {
			_, err := t.l.InsertOrder(ctx, t.sale(show, user(i), "k", seatflow.SeatID(i+1)))
			inserted <- struct{}{}
			return err
		})
	}()
	<-inserted
	if err := t.l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for _, err := range <-done {
		if err != nil && !errors.Is(err, seatflow.ErrNotCommitted) {
			t.Errorf("insert while closing: %v", err)
		}
	}
	if err := t.l.Close(); err != nil {
		t.Errorf("close twice: %v", err)
	}
	_, err := t.l.InsertOrder(ctx, t.sale(show, "late", "k", 1))
	t.wantErr("insert after close", err, seatflow.ErrNotCommitted)
	_, err = t.l.CancelOrder(ctx, seatflow.OrderChange{No: t.newNo()})
	t.wantErr("cancel after close", err, seatflow.ErrNotCommitted)
	if _, err := t.l.Show(ctx, show.ID); err == nil {
		t.Errorf("a closed ledger answered")
	}
	t.l = nil
}
