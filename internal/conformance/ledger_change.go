package conformance

import (
	"slices"
	"time"

	"seatflow"
)

var ledgerChangeCases = []ledgerCase{
	{"change/cancel", ledgerCancel},
	{"change/expire", ledgerExpire},
	{"change/extend", ledgerExtend},
	{"change/payment start", ledgerStartPayment},
	{"change/wrong states", ledgerWrongStates},
	{"change/ownership", ledgerOwnership},
}

var ledgerGiveBackCases = []ledgerCase{
	{"give back/refund", ledgerRefund},
	{"give back/refund bounds", ledgerRefundBounds},
	{"give back/refunds done", ledgerRefundDone},
	{"give back/unblock", ledgerUnblock},
}

func ledgerCancel(t *ledgerTest) {
	ctx := t.Context()
	show, o := t.pending(3)
	c, err := t.l.CancelOrder(ctx, by(o, buyer))
	if err != nil {
		t.Fatalf("cancel: %v", err)
	}
	if c.State != seatflow.OrderCancelled || c.Version != 2 || len(c.Items) != 3 || c.Attempt != 1 || c.UpdatedAt.Before(o.UpdatedAt) {
		t.Errorf("cancelled: %+v", c)
	}
	t.same("what stands", t.order(o.No), c)
	t.same("occupancy", t.occupancy(show.ID), map[seatflow.SeatID]seatflow.Owner{})
	h := t.told(o.No, "order.created:>pending", "order.cancelled:pending>cancelled")
	if !slices.Equal(h[1].Seats, seats(1, 2, 3)) || h[1].Actor != buyer {
		t.Errorf("the event: %+v", h[1])
	}
	// Cancelled again: as it is, and in the history.
	again, err := t.l.CancelOrder(ctx, seatflow.OrderChange{No: o.No, Actor: staff})
	if err != nil || again.State != seatflow.OrderCancelled {
		t.Errorf("cancel again: %+v, %v", again, err)
	}
	t.same("what stands", t.order(o.No), again)
	h = t.told(o.No, "order.created:>pending", "order.cancelled:pending>cancelled", "order.cancel_repeated:cancelled>cancelled")
	if h[2].Actor != staff {
		t.Errorf("the event: %+v", h[2])
	}
	// The seats are another's now; a third cancel does not touch them.
	rival := t.insert(t.sale(show, "rival", "k", 1, 2))
	if _, err := t.l.CancelOrder(ctx, by(o, buyer)); err != nil {
		t.Errorf("cancel once more: %v", err)
	}
	t.same("the rival's seats", t.occupancy(show.ID), map[seatflow.SeatID]seatflow.Owner{1: rival.Owner(), 2: rival.Owner()})
}

func ledgerExpire(t *ledgerTest) {
	ctx := t.Context()
	show, o := t.pending(2)
	system := seatflow.System("guardian")
	change := seatflow.OrderChange{No: o.No, Actor: system}
	t.unchanged("expire with another deadline", o.No, seatflow.ErrWrongState, func() error {
		got, err := t.l.ExpireOrder(ctx, change, o.Deadline.Add(time.Second))
		t.same("the order as it is", got, o)
		return err
	})
	x, err := t.l.ExtendOrder(ctx, by(o, buyer), o.Deadline, o.Deadline.Add(5*time.Minute))
	if err != nil {
		t.Fatalf("extend: %v", err)
	}
	t.unchanged("expire by an old wake-up", o.No, seatflow.ErrWrongState, func() error {
		_, err := t.l.ExpireOrder(ctx, change, o.Deadline)
		return err
	})
	e, err := t.l.ExpireOrder(ctx, change, x.Deadline)
	if err != nil || e.State != seatflow.OrderExpired || e.Version != 3 {
		t.Fatalf("expire: %+v, %v", e, err)
	}
	t.same("what stands", t.order(o.No), e)
	t.same("occupancy", t.occupancy(show.ID), map[seatflow.SeatID]seatflow.Owner{})
	h := t.told(o.No, "order.created:>pending", "order.extended:pending>pending", "order.expired:pending>expired")
	if h[2].Actor != system {
		t.Errorf("the event: %+v", h[2])
	}
	t.unchanged("expire again", o.No, seatflow.ErrWrongState, func() error {
		_, err := t.l.ExpireOrder(ctx, change, x.Deadline)
		return err
	})
}

func ledgerExtend(t *ledgerTest) {
	ctx := t.Context()
	_, o := t.pending(1)
	t.unchanged("extend from another deadline", o.No, seatflow.ErrWrongState, func() error {
		_, err := t.l.ExtendOrder(ctx, by(o, buyer), o.Deadline.Add(-time.Microsecond), o.Deadline.Add(time.Minute))
		return err
	})
	t.unchanged("extend to no later time", o.No, seatflow.ErrWrongState, func() error {
		_, err := t.l.ExtendOrder(ctx, by(o, buyer), o.Deadline, o.Deadline)
		return err
	})
	x, err := t.l.ExtendOrder(ctx, by(o, buyer), o.Deadline, o.Deadline.Add(time.Minute))
	if err != nil || !x.Deadline.Equal(o.Deadline.Add(time.Minute)) || !x.Extended || x.Version != 2 || x.State != seatflow.OrderPending {
		t.Fatalf("extend: %+v, %v", x, err)
	}
	t.same("what stands", t.order(o.No), x)
	t.unchanged("extend a second time", o.No, seatflow.ErrWrongState, func() error {
		_, err := t.l.ExtendOrder(ctx, by(o, buyer), x.Deadline, x.Deadline.Add(time.Minute))
		return err
	})
	t.told(o.No, "order.created:>pending", "order.extended:pending>pending")
	// Never past the cap.
	_, o = t.pending(1)
	x, err = t.l.ExtendOrder(ctx, by(o, buyer), o.Deadline, o.Cap.Add(time.Hour))
	if err != nil || !x.Deadline.Equal(o.Cap) {
		t.Errorf("extended to %s, the cap is %s: %v", x.Deadline, o.Cap, err)
	}
}

func ledgerStartPayment(t *ledgerTest) {
	ctx := t.Context()
	_, o := t.pending(2)
	s, err := t.l.StartPayment(ctx, by(o, buyer), time.Time{})
	if err != nil || !s.Deadline.Equal(o.Deadline) || s.Extended || s.State != seatflow.OrderPending {
		t.Fatalf("start without extension: %+v, %v", s, err)
	}
	t.told(o.No, "order.created:>pending", "order.payment_started:pending>pending")
	// An earlier time does not shorten a hold nor use the extension.
	s, err = t.l.StartPayment(ctx, by(o, buyer), o.Deadline.Add(-time.Minute))
	if err != nil || !s.Deadline.Equal(o.Deadline) || s.Extended {
		t.Errorf("start with an earlier time: %+v, %v", s, err)
	}
	s, err = t.l.StartPayment(ctx, by(o, buyer), o.Deadline.Add(5*time.Minute))
	if err != nil || !s.Deadline.Equal(o.Deadline.Add(5*time.Minute)) || !s.Extended {
		t.Errorf("start with extension: %+v, %v", s, err)
	}
	t.same("what stands", t.order(o.No), s)
	// The one extension is used: a later start is recorded and moves nothing.
	again, err := t.l.StartPayment(ctx, by(o, buyer), o.Deadline.Add(10*time.Minute))
	if err != nil || !again.Deadline.Equal(s.Deadline) {
		t.Errorf("start again: %+v, %v", again, err)
	}
	t.told(o.No, "order.created:>pending", "order.payment_started:pending>pending", "order.payment_started:pending>pending",
		"order.payment_started:pending>pending", "order.extended:pending>pending", "order.payment_started:pending>pending")
	_, o = t.pending(1)
	s, err = t.l.StartPayment(ctx, by(o, buyer), o.Cap.Add(time.Hour))
	if err != nil || !s.Deadline.Equal(o.Cap) {
		t.Errorf("extended to %s, the cap is %s: %v", s.Deadline, o.Cap, err)
	}
}

// ledgerWrongStates tries every change in every state: an edge that is not in
// the state machine changes nothing, and the caller is told the order.
func ledgerWrongStates(t *ledgerTest) {
	ctx := t.Context()
	change := map[string]func(o seatflow.Order) (seatflow.Order, error){
		"start": func(o seatflow.Order) (seatflow.Order, error) {
			return t.l.StartPayment(ctx, by(o, buyer), o.Deadline.Add(time.Minute))
		},
		"extend": func(o seatflow.Order) (seatflow.Order, error) {
			return t.l.ExtendOrder(ctx, by(o, buyer), o.Deadline, o.Deadline.Add(time.Minute))
		},
		"cancel": func(o seatflow.Order) (seatflow.Order, error) { return t.l.CancelOrder(ctx, by(o, buyer)) },
		"expire": func(o seatflow.Order) (seatflow.Order, error) { return t.l.ExpireOrder(ctx, by(o, buyer), o.Deadline) },
		"refund": func(o seatflow.Order) (seatflow.Order, error) {
			o, _, err := t.l.RefundSeats(ctx, by(o, buyer), nil)
			return o, err
		},
		"unblock": func(o seatflow.Order) (seatflow.Order, error) { return t.l.UnblockSeats(ctx, by(o, buyer), nil) },
	}
	allowed := map[seatflow.OrderState][]string{
		seatflow.OrderPending:   {"start", "extend", "cancel", "expire"},
		seatflow.OrderPaid:      {"refund"},
		seatflow.OrderRefunded:  {"refund"}, // nothing left to do
		seatflow.OrderCancelled: {"cancel"}, // repeated
		seatflow.OrderExpired:   nil,
		seatflow.OrderVoid:      nil,
		seatflow.OrderBlocked:   {"unblock"},
	}
	for state, can := range allowed {
		for name, do := range change {
			if slices.Contains(can, name) {
				continue
			}
			o := t.inState(state)
			t.unchanged(name+" of an order that is "+string(state), o.No, seatflow.ErrWrongState, func() error {
				got, err := do(o)
				t.same("the order as it is", got, o)
				return err
			})
		}
	}
}

// inState makes an order, of seats 1 and 2 of a show of its own, and leads it
// to a state.
func (t *ledgerTest) inState(state seatflow.OrderState) seatflow.Order {
	t.Helper()
	ctx := t.Context()
	var (
		o   seatflow.Order
		err error
	)
	switch state {
	case seatflow.OrderVoid:
		o, err = t.l.VoidOrder(ctx, t.newNo(), t.show(2).ID, staff)
	case seatflow.OrderBlocked:
		o = t.insert(t.block(t.show(2), "", 1, 2))
	default:
		_, o = t.pending(2)
	}
	switch state {
	case seatflow.OrderCancelled:
		o, err = t.l.CancelOrder(ctx, by(o, buyer))
	case seatflow.OrderExpired:
		o, err = t.l.ExpireOrder(ctx, by(o, buyer), o.Deadline)
	case seatflow.OrderPaid:
		o = t.pay(o)
	case seatflow.OrderRefunded:
		o, _, err = t.l.RefundSeats(ctx, by(t.pay(o), staff), nil)
	}
	if err != nil || o.State != state {
		t.Fatalf("an order that is %s: %+v, %v", state, o, err)
	}
	return o
}

func ledgerOwnership(t *ledgerTest) {
	ctx := t.Context()
	_, o := t.pending(2)
	c := seatflow.OrderChange{No: o.No, User: "someone else", Actor: buyer}
	for what, do := range map[string]func() error{
		"start":   func() error { _, err := t.l.StartPayment(ctx, c, time.Time{}); return err },
		"extend":  func() error { _, err := t.l.ExtendOrder(ctx, c, o.Deadline, o.Cap); return err },
		"cancel":  func() error { _, err := t.l.CancelOrder(ctx, c); return err },
		"expire":  func() error { _, err := t.l.ExpireOrder(ctx, c, o.Deadline); return err },
		"refund":  func() error { _, _, err := t.l.RefundSeats(ctx, c, nil); return err },
		"unblock": func() error { _, err := t.l.UnblockSeats(ctx, c, nil); return err },
	} {
		t.unchanged(what+" of another's order", o.No, seatflow.ErrNotFound, do)
	}
	c = seatflow.OrderChange{No: t.newNo(), Actor: staff}
	_, err := t.l.CancelOrder(ctx, c)
	t.wantErr("cancel of no order", err, seatflow.ErrNotFound)
	_, _, err = t.l.RefundSeats(ctx, c, nil)
	t.wantErr("refund of no order", err, seatflow.ErrNotFound)
}

func ledgerRefund(t *ledgerTest) {
	ctx := t.Context()
	show, o := t.pending(4)
	o = t.pay(o)
	change := seatflow.OrderChange{No: o.No, Actor: staff}
	part, refund, err := t.l.RefundSeats(ctx, change, seats(4, 2))
	if err != nil || refund == nil {
		t.Fatalf("refund of two: %+v, %v", refund, err)
	}
	if part.State != seatflow.OrderPaid || !slices.Equal(part.Seats(), seats(1, 3)) || len(part.Items) != 4 || part.Total != o.Total {
		t.Errorf("after a part: %+v", part)
	}
	want := seatflow.Refund{ID: refund.ID, Provider: "sandbox", CaptureID: "capture-" + string(o.No), Order: o.No,
		Amount: seatflow.Money{Amount: 2 * seatPrice, Currency: "EUR"}, Reason: seatflow.RefundByStaff, CreatedAt: refund.CreatedAt}
	t.same("the refund", *refund, want)
	if refund.ID == "" || refund.CreatedAt.IsZero() {
		t.Errorf("a refund without id or time: %+v", refund)
	}
	t.same("what stands", t.order(o.No), part)
	t.same("occupancy", t.occupancy(show.ID), map[seatflow.SeatID]seatflow.Owner{1: o.Owner(), 3: o.Owner()})
	t.insert(t.sale(show, "rival", "k", 2)) // free for others, and safe from a repeat
	t.unchanged("the same again", o.No, nil, func() error {
		got, again, err := t.l.RefundSeats(ctx, change, seats(2, 4))
		if again != nil {
			t.Errorf("the same seats were refunded twice: %+v", again)
		}
		t.same("the order", got, part)
		return err
	})
	t.unchanged("a seat that never was the order's", o.No, seatflow.ErrNotFound, func() error {
		_, _, err := t.l.RefundSeats(ctx, change, seats(1, 9))
		return err
	})
	// One that is left and one that is not: the one.
	part, second, err := t.l.RefundSeats(ctx, change, seats(1, 2))
	if err != nil || second == nil || second.Amount.Amount != seatPrice || second.ID == refund.ID || !slices.Equal(part.Seats(), seats(3)) {
		t.Fatalf("refund of one more: %+v, %+v, %v", part, second, err)
	}
	whole, third, err := t.l.RefundSeats(ctx, change, nil)
	if err != nil || third == nil || third.Amount.Amount != seatPrice || whole.State != seatflow.OrderRefunded || len(whole.Seats()) != 0 {
		t.Fatalf("refund of the rest: %+v, %+v, %v", whole, third, err)
	}
	h := t.told(o.No, "order.created:>pending", "order.paid:pending>paid", "order.refunded:paid>paid", "order.refunded:paid>paid", "order.refunded:paid>refunded")
	if !slices.Equal(h[2].Seats, seats(2, 4)) || !slices.Equal(h[3].Seats, seats(1)) || !slices.Equal(h[4].Seats, seats(3)) {
		t.Errorf("the events: %+v", h)
	}
	t.unchanged("when nothing is left", o.No, nil, func() error {
		_, none, err := t.l.RefundSeats(ctx, change, nil)
		if none != nil {
			t.Errorf("a refund of nothing: %+v", none)
		}
		return err
	})
	due, err := t.l.DueRefunds(ctx, 10)
	t.wantErr("due refunds", err, nil)
	t.same("due refunds", due, []seatflow.Refund{*refund, *second, *third})
}

// ledgerRefundBounds: a capture never gives back more than it took, whatever
// the seats are said to have cost.
func ledgerRefundBounds(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(20)
	n := t.sale(show, buyer.User, "k", 1, 2, 3)
	n.Order.Total.Amount = 2*seatPrice - 1 // a voucher
	o := t.pay(t.insert(n))
	var sum int64
	for _, s := range o.Seats() {
		_, r, err := t.l.RefundSeats(ctx, by(o, staff), seats(s))
		if err != nil {
			t.Fatalf("refund of %d: %v", s, err)
		}
		if r != nil {
			sum += r.Amount.Amount
		}
	}
	if sum != o.Total.Amount {
		t.Errorf("%d refunded of %d", sum, o.Total.Amount)
	}
	if got := t.order(o.No); got.State != seatflow.OrderRefunded {
		t.Errorf("the order is %s", got.State)
	}
	// Several at once: each seat once.
	_, o = t.pending(6)
	o = t.pay(o)
	refunds := make([]*seatflow.Refund, 12)
	for i, err := range parallel(12, func(i int) (err error) {
		_, refunds[i], err = t.l.RefundSeats(ctx, by(o, staff), seats(seatflow.SeatID(i%6+1), seatflow.SeatID((i+1)%6+1)))
		return err
	}) {
		t.wantErr("one of many refunds", err, nil)
		if refunds[i] != nil {
			sum += refunds[i].Amount.Amount
		}
	}
	if sum -= 2*seatPrice - 1; sum != 6*seatPrice {
		t.Errorf("refunds at once: %d of %d", sum, 6*seatPrice)
	}
}

func ledgerRefundDone(t *ledgerTest) {
	ctx := t.Context()
	_, o := t.pending(3)
	o = t.pay(o)
	var ids []string
	for _, s := range o.Seats() {
		_, r, err := t.l.RefundSeats(ctx, by(o, staff), seats(s))
		if err != nil {
			t.Fatalf("refund: %v", err)
		}
		ids = append(ids, r.ID)
	}
	due := func(limit int) (ids []string) {
		list, err := t.l.DueRefunds(ctx, limit)
		t.wantErr("due", err, nil)
		for _, r := range list {
			if r.Done {
				t.Errorf("due and done: %+v", r)
			}
			ids = append(ids, r.ID)
		}
		return ids
	}
	t.same("oldest first", due(2), ids[:2])
	for range 2 { // a repeat is a no-op
		t.wantErr("done", t.l.RefundDone(ctx, ids[0]), nil)
		t.same("the rest", due(10), ids[1:])
	}
	t.wantErr("no such refund", t.l.RefundDone(ctx, "refund-x"), seatflow.ErrNotFound)
}

func ledgerUnblock(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(20)
	t.insert(t.sale(show, buyer.User, "k", 10))
	b := t.insert(t.block(show, "Kamera", 1, 2, 3))
	second := t.insert(t.block(show, "Rollstuhl", 5))
	blocks := func(want ...seatflow.Order) {
		t.Helper()
		got, err := t.l.Blocks(ctx, show.ID)
		t.wantErr("blocks", err, nil)
		t.same("blocks", got, want)
	}
	blocks(b, second)
	change := seatflow.OrderChange{No: b.No, Actor: staff}
	part, err := t.l.UnblockSeats(ctx, change, seats(2))
	if err != nil || part.State != seatflow.OrderBlocked || !slices.Equal(part.Seats(), seats(1, 3)) || part.Version != 2 {
		t.Fatalf("unblock one: %+v, %v", part, err)
	}
	blocks(part, second)
	t.insert(t.sale(show, "rival", "k", 2))
	t.unchanged("again", b.No, nil, func() error {
		_, err := t.l.UnblockSeats(ctx, change, seats(2))
		return err
	})
	t.unchanged("a seat of another block", b.No, seatflow.ErrNotFound, func() error {
		_, err := t.l.UnblockSeats(ctx, change, seats(1, 5))
		return err
	})
	end, err := t.l.UnblockSeats(ctx, change, nil)
	if err != nil || end.State != seatflow.OrderCancelled || len(end.Seats()) != 0 {
		t.Fatalf("unblock the rest: %+v, %v", end, err)
	}
	blocks(second)
	t.unchanged("when nothing is left", b.No, nil, func() error {
		_, err := t.l.UnblockSeats(ctx, change, nil)
		return err
	})
	h := t.told(b.No, "seats.blocked:>blocked", "seats.unblocked:blocked>blocked", "seats.unblocked:blocked>cancelled")
	if !slices.Equal(h[1].Seats, seats(2)) || !slices.Equal(h[2].Seats, seats(1, 3)) {
		t.Errorf("the events: %+v", h)
	}
	if got, err := t.l.Blocks(ctx, show.ID+100); err != nil || len(got) != 0 {
		t.Errorf("blocks of no show: %v, %v", got, err)
	}
}
