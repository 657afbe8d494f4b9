package conformance

import (
	"errors"
	"fmt"
	"time"

	"seatflow"
)

var ledgerMoneyCases = []ledgerCase{
	{"money/decisions", ledgerDecisions},
	{"money/repeats", ledgerRepeats},
	{"money/repeats at once", ledgerRepeatsAtOnce},
	{"money/reseated", ledgerReseated},
	{"money/reseat refused", ledgerReseatRefused},
	{"money/unknown", ledgerUnknownPayments},
	{"money/malformed", ledgerMoneyMalformed},
}

func capture(o seatflow.Order, n int) seatflow.PaymentEvent {
	id := string(o.No)
	if n > 0 {
		id += fmt.Sprint("-", n)
	}
	return seatflow.PaymentEvent{Provider: "sandbox", EventID: "event-" + id, CaptureID: "capture-" + id, Type: seatflow.PaymentCaptured,
		Order: o.No, Amount: o.Total, At: noon}
}

var teller = seatflow.System("payment:sandbox")

func (t *ledgerTest) record(e seatflow.PaymentEvent) seatflow.PaymentOutcome {
	t.Helper()
	out, err := t.l.RecordPayment(t.Context(), e, teller)
	if err != nil {
		t.Fatalf("record %s: %v", e.EventID, err)
	}
	return out
}

// pay pays an order.
func (t *ledgerTest) pay(o seatflow.Order) seatflow.Order {
	t.Helper()
	out := t.record(capture(o, 0))
	if out.Ending != seatflow.EndingPaid || out.Repeat || out.Refund != nil || out.Order.State != seatflow.OrderPaid {
		t.Fatalf("pay %s: %+v", o.No, out)
	}
	return out.Order
}

// ledgerDecisions is the whole table: the state of the order, what the money
// is like, and the one ending that it may have.
func ledgerDecisions(t *ledgerTest) {
	right := func(e *seatflow.PaymentEvent) {}
	money := map[string]func(e *seatflow.PaymentEvent){
		"right":          right,
		"less":           func(e *seatflow.PaymentEvent) { e.Amount.Amount-- },
		"more":           func(e *seatflow.PaymentEvent) { e.Amount.Amount++ },
		"other currency": func(e *seatflow.PaymentEvent) { e.Amount.Currency = "CHF" },
		"failed":         func(e *seatflow.PaymentEvent) { e.Type, e.CaptureID = seatflow.PaymentFailed, "" },
	}
	type decision struct {
		ending seatflow.PaymentEnding
		reason seatflow.RefundReason
		state  seatflow.OrderState
		event  seatflow.EventType
	}
	decide := func(state seatflow.OrderState, money string) decision {
		again := decision{seatflow.EndingRefund, seatflow.RefundSecondCapture, state, seatflow.EventRefundDue}
		switch {
		case money == "failed":
			return decision{ending: seatflow.EndingNone, state: state}
		case state == seatflow.OrderVoid || state == seatflow.OrderBlocked:
			return decision{ending: seatflow.EndingUnknown, state: state}
		case state == seatflow.OrderPaid || state == seatflow.OrderRefunded:
			return again
		case money == "other currency":
			return decision{seatflow.EndingRefund, seatflow.RefundWrongCurrency, state, seatflow.EventRefundDue}
		case money != "right":
			return decision{seatflow.EndingRefund, seatflow.RefundWrongAmount, state, seatflow.EventRefundDue}
		case state == seatflow.OrderPending:
			return decision{seatflow.EndingPaid, "", seatflow.OrderPaid, seatflow.EventPaid}
		}
		return decision{seatflow.EndingReseated, "", seatflow.OrderPaid, seatflow.EventReseated}
	}
	states := []seatflow.OrderState{seatflow.OrderPending, seatflow.OrderPaid, seatflow.OrderCancelled, seatflow.OrderExpired,
		seatflow.OrderRefunded, seatflow.OrderVoid, seatflow.OrderBlocked}
	for _, state := range states {
		for name, spoil := range money {
			what := fmt.Sprintf("%s money for an order that is %s", name, state)
			o := t.inState(state)
			before := t.history(o.No)
			e := capture(o, 1)
			if o.Total.Amount == 0 { // neither a void order nor a block has a total
				e.Amount = seatflow.Money{Amount: seatPrice, Currency: "EUR"}
			}
			spoil(&e)
			out, want := t.record(e), decide(state, name)
			if out.Ending != want.ending || out.Repeat || (out.Refund != nil) != (want.ending == seatflow.EndingRefund) {
				t.Errorf("%s: %+v, want %+v", what, out, want)
				continue
			}
			now := t.order(o.No)
			if now.State != want.state {
				t.Errorf("%s: the order became %s", what, now.State)
			}
			if unknown := state == seatflow.OrderVoid || state == seatflow.OrderBlocked; unknown {
				t.same(what+": order told", out.Order, seatflow.Order{})
			} else {
				t.same(what+": order told", out.Order, now)
			}
			after := t.history(o.No)
			switch {
			case want.event == "" && len(after) != len(before):
				t.Errorf("%s: the history grew: %+v", what, after)
			case want.event != "" && (len(after) != len(before)+1 || after[len(before)].Type != want.event || after[len(before)].Actor != teller ||
				after[len(before)].From != state || after[len(before)].To != want.state):
				t.Errorf("%s: history %+v", what, after[len(before):])
			}
			if out.Refund != nil {
				t.same(what+": refund", *out.Refund, seatflow.Refund{ID: out.Refund.ID, Provider: e.Provider, CaptureID: e.CaptureID, Order: o.No,
					Amount: e.Amount, Reason: want.reason, CreatedAt: out.Refund.CreatedAt})
			}
			stored, err := t.l.PaymentsOf(t.Context(), o.No)
			if err != nil || len(stored) == 0 {
				t.Fatalf("payments: %v, %v", stored, err)
			}
			last := stored[len(stored)-1]
			e.At = e.At.Truncate(time.Microsecond)
			t.same(what+": payment", last, seatflow.Payment{ID: last.ID, Event: e, Ending: want.ending, At: last.At})
		}
	}
	a := t.audit()
	// Each of 7 states met 4 captures; paid and refunded ones were paid by a
	// capture before, 5 of each.
	if a.Captures != 7*4+2*5 || a.EndingPaid != 1+2+10 || a.EndingUnknown != 8 || a.EndingRefund != 17 {
		t.Errorf("audit counts %d captures: %d paid, %d refunds, %d unknown", a.Captures, a.EndingPaid, a.EndingRefund, a.EndingUnknown)
	}
}

func ledgerRepeats(t *ledgerTest) {
	show, o := t.pending(2)
	first := t.record(capture(o, 0))
	repeat := func(what string, e seatflow.PaymentEvent, want seatflow.PaymentOutcome) {
		t.Helper()
		t.unchanged(what, want.Order.No, nil, func() error {
			got := t.record(e)
			want := want
			want.Repeat = true
			if (got.Refund == nil) != (want.Refund == nil) || got.Refund != nil && *got.Refund != *want.Refund {
				t.Errorf("%s: refund %+v, want %+v", what, got.Refund, want.Refund)
			}
			got.Refund, want.Refund = nil, nil
			t.same(what, got, want)
			return nil
		})
	}
	repeat("the same event", capture(o, 0), first)
	e := capture(o, 0)
	e.EventID = "another event"
	repeat("the same capture in another event", e, first)
	e = capture(o, 0)
	e.CaptureID, e.Amount.Amount = "another capture", 1
	repeat("the same event saying otherwise", e, first)
	second := t.record(capture(o, 1))
	if second.Ending != seatflow.EndingRefund {
		t.Fatalf("a second capture: %+v", second)
	}
	repeat("the second capture again", capture(o, 1), second)
	// A repeat tells the order as it is now.
	refunded, _, err := t.l.RefundSeats(t.Context(), by(o, staff), nil)
	if err != nil {
		t.Fatalf("refund: %v", err)
	}
	first.Order = refunded
	repeat("the first event after a refund", capture(o, 0), first)
	// Another provider's ids are other ids.
	e = capture(t.insert(t.sale(show, "rival", "k", 5)), 0)
	e.Provider, e.EventID, e.CaptureID = "other", capture(o, 0).EventID, capture(o, 0).CaptureID
	if out := t.record(e); out.Ending != seatflow.EndingPaid || out.Repeat {
		t.Errorf("another provider's event: %+v", out)
	}
	// A failure, told twice, and then money after all.
	o = t.insert(t.sale(show, "rival", "k2", 6))
	fail := capture(o, 1)
	fail.Type, fail.CaptureID = seatflow.PaymentFailed, ""
	failed := t.record(fail)
	repeat("a failure told twice", fail, failed)
	t.pay(o)
}

func ledgerRepeatsAtOnce(t *ledgerTest) {
	_, o := t.pending(2)
	outs := make([]seatflow.PaymentOutcome, 50)
	first := 0
	for i, err := range parallel(len(outs), func(i int) (err error) {
		e := capture(o, 0)
		if i%2 == 1 {
			e.EventID = fmt.Sprint("copy-", i)
		}
		outs[i], err = t.l.RecordPayment(t.Context(), e, teller)
		return err
	}) {
		t.wantErr("one of many", err, nil)
		if outs[i].Ending != seatflow.EndingPaid || outs[i].Order.State != seatflow.OrderPaid || outs[i].Refund != nil {
			t.Errorf("call %d: %+v", i, outs[i])
		}
		if !outs[i].Repeat {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d of 50 paid", first)
	}
	t.told(o.No, "order.created:>pending", "order.paid:pending>paid")
	// Different captures: one pays, each other goes back by a refund of its own.
	_, o = t.pending(2)
	ids := map[string]bool{}
	for i, err := range parallel(len(outs), func(i int) (err error) {
		outs[i], err = t.l.RecordPayment(t.Context(), capture(o, i+1), teller)
		return err
	}) {
		t.wantErr("one of many", err, nil)
		if r := outs[i].Refund; r != nil && outs[i].Ending == seatflow.EndingRefund {
			ids[r.ID] = true
		}
	}
	if len(ids) != 49 {
		t.Errorf("%d refunds of 49", len(ids))
	}
}

func ledgerReseated(t *ledgerTest) {
	for _, state := range []seatflow.OrderState{seatflow.OrderCancelled, seatflow.OrderExpired} {
		o := t.inState(state)
		out := t.record(capture(o, 0))
		if out.Ending != seatflow.EndingReseated || out.Order.State != seatflow.OrderPaid || out.Order.Attempt != 2 || out.Refund != nil {
			t.Fatalf("money for an order that is %s: %+v", state, out)
		}
		t.same("occupancy", t.occupancy(o.Show), map[seatflow.SeatID]seatflow.Owner{1: out.Order.Owner(), 2: out.Order.Owner()})
		var conflict *seatflow.SeatConflictError
		show, err := t.l.Show(t.Context(), o.Show)
		t.wantErr("show", err, nil)
		if _, err := t.l.InsertOrder(t.Context(), t.sale(show, "rival", "k", 1)); !errors.As(err, &conflict) {
			t.Errorf("the seat of a reseated order: %v", err)
		}
		t.told(o.No, "order.created:>pending", fmt.Sprintf("order.%s:pending>%s", state, state), fmt.Sprintf("order.reseated:%s>paid", state))
		// Its refund goes against the capture that paid it.
		_, r, err := t.l.RefundSeats(t.Context(), by(o, staff), nil)
		if err != nil || r == nil || r.CaptureID != capture(o, 0).CaptureID || r.Amount != o.Total {
			t.Errorf("refund: %+v, %v", r, err)
		}
	}
}

func ledgerReseatRefused(t *ledgerTest) {
	ctx := t.Context()
	ended := func(o seatflow.Order) {
		t.Helper()
		before := t.occupancy(o.Show)
		out := t.record(capture(o, 0))
		if out.Ending != seatflow.EndingRefund || out.Refund == nil || out.Refund.Reason != seatflow.RefundOrderEnded || out.Refund.Amount != o.Total ||
			out.Order.State != o.State || out.Order.Attempt != 1 {
			t.Errorf("money for an order that has ended: %+v", out)
		}
		t.same("occupancy", t.occupancy(o.Show), before)
	}
	show, o := t.pending(2)
	o, err := t.l.CancelOrder(ctx, by(o, buyer))
	if err != nil {
		t.Fatalf("cancel: %v", err)
	}
	t.insert(t.sale(show, "rival", "k", 2, 3)) // one of its two seats
	ended(o)
	// A show that is not given.
	show, o = t.pending(2)
	if o, err = t.l.ExpireOrder(ctx, by(o, buyer), o.Deadline); err != nil {
		t.Fatalf("expire: %v", err)
	}
	show.Status = seatflow.ShowCancelled
	if _, err := t.l.UpdateShow(ctx, show); err != nil {
		t.Fatalf("update: %v", err)
	}
	ended(o)
}

func ledgerUnknownPayments(t *ledgerTest) {
	ctx := t.Context()
	show, o := t.pending(1)
	t.pay(o)
	var all []seatflow.Payment
	for i := range 3 {
		e := capture(seatflow.Order{No: t.newNo(), Total: seatflow.Money{Amount: 100, Currency: "EUR"}}, i)
		out := t.record(e)
		if out.Ending != seatflow.EndingUnknown || out.Refund != nil || out.Order.No != "" {
			t.Errorf("money for no order: %+v", out)
		}
		again := t.record(e)
		if again.Ending != seatflow.EndingUnknown || !again.Repeat || again.Order.No != "" {
			t.Errorf("the same again: %+v", again)
		}
		e.At = e.At.Truncate(time.Microsecond)
		all = append(all, seatflow.Payment{Event: e, Ending: seatflow.EndingUnknown})
	}
	list, err := t.l.UnknownPayments(ctx, 0, 2)
	if err != nil || len(list) != 2 {
		t.Fatalf("unknown payments: %v, %v", list, err)
	}
	rest, err := t.l.UnknownPayments(ctx, list[1].ID, 10)
	t.wantErr("the rest", err, nil)
	list = append(list, rest...)
	for i := range list {
		if list[i].ID < 1 || i > 0 && list[i].ID <= list[i-1].ID || list[i].At.IsZero() {
			t.Errorf("payment %+v", list[i])
		}
		list[i].ID, list[i].At = 0, time.Time{}
	}
	t.same("unknown payments", list, all)
	_ = show
}

func ledgerMoneyMalformed(t *ledgerTest) {
	_, o := t.pending(1)
	for what, spoil := range map[string]func(e *seatflow.PaymentEvent){
		"no provider": func(e *seatflow.PaymentEvent) { e.Provider = "" },
		"no event id": func(e *seatflow.PaymentEvent) { e.EventID = "" },
		"no capture":  func(e *seatflow.PaymentEvent) { e.CaptureID = "" },
		"below zero":  func(e *seatflow.PaymentEvent) { e.Amount.Amount = -1 },
		"no type":     func(e *seatflow.PaymentEvent) { e.Type = "" },
	} {
		e := capture(o, 0)
		spoil(&e)
		before := t.state(o.No)
		if out, err := t.l.RecordPayment(t.Context(), e, teller); err == nil {
			t.Errorf("%s: %+v", what, out)
		}
		t.same(what, t.state(o.No), before)
	}
	t.pay(o)
}
