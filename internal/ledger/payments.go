package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"seatflow"
	"seatflow/internal/sabotage"
)

// RecordPayment implements [seatflow.Payments].
//
// The decision on a capture, in this order: no such order, a void one or a
// block → unknown; paid once already → refund (second capture); another
// currency or amount than the order's total → refund; pending → paid; ended →
// its seats again under the next attempt if every one is free and the show is
// given, else refund.
func (l *Ledger) RecordPayment(ctx context.Context, event seatflow.PaymentEvent, actor seatflow.Actor) (seatflow.PaymentOutcome, error) {
	switch {
	case event.Provider == "" || event.EventID == "":
		return seatflow.PaymentOutcome{}, errors.New("ledger: a payment event without provider or id")
	case event.Type == seatflow.PaymentCaptured && event.CaptureID == "":
		return seatflow.PaymentOutcome{}, fmt.Errorf("ledger: capture event %s without a capture", event.EventID)
	case event.Amount.Amount < 0:
		return seatflow.PaymentOutcome{}, fmt.Errorf("ledger: payment event %s of %d", event.EventID, event.Amount.Amount)
	case event.Type != seatflow.PaymentCaptured && event.Type != seatflow.PaymentFailed:
		return seatflow.PaymentOutcome{}, fmt.Errorf("ledger: payment event %s of type %q", event.EventID, event.Type)
	}
	if event.Type != seatflow.PaymentCaptured {
		event.CaptureID = ""
	}
	event.At = stored(event.At)
	return change(ctx, l, 256, func(t *tx) (seatflow.PaymentOutcome, error) {
		out, known, err := knownPayment(t, event)
		if err != nil || known {
			return out, err
		}
		out = seatflow.PaymentOutcome{}
		order, err := queryOrder(t.ctx, t, "no = ?"+l.dialect.forUpdate(), string(event.Order))
		if err == nil && (order.State == seatflow.OrderVoid || order.Kind == seatflow.KindBlock) {
			err = seatflow.ErrNotFound
		}
		missing := errors.Is(err, seatflow.ErrNotFound)
		if err != nil && !missing {
			return out, err
		}
		if !missing {
			out.Order = order
		}
		switch {
		case event.Type == seatflow.PaymentFailed:
			out.Ending = seatflow.EndingNone
		case missing:
			out.Ending = seatflow.EndingUnknown
		default:
			if err := l.decide(t, &out, event, actor); err != nil {
				return out, err
			}
		}
		var refundID any
		if out.Refund != nil {
			refundID = out.Refund.ID
		}
		_, err = t.exec("INSERT INTO payment (provider, event_id, capture_id, type, order_no, amount, currency, event_at, ending, refund_id, created_at) "+
			"VALUES (?,?,?,?,?,?,?,?,?,?,?)", event.Provider, event.EventID, nullText(event.CaptureID), string(event.Type), string(event.Order),
			event.Amount.Amount, event.Amount.Currency, micros(event.At), string(out.Ending), refundID, micros(l.opts.Clock.Now()))
		return out, err
	})
}

// knownPayment returns the first decision on an event or capture that is
// stored already.
func knownPayment(t *tx, event seatflow.PaymentEvent) (out seatflow.PaymentOutcome, known bool, err error) {
	var (
		no       seatflow.OrderNo
		refundID sql.NullString
	)
	const columns = "SELECT ending, order_no, refund_id FROM payment WHERE provider = ? AND "
	err = t.QueryRowContext(t.ctx, columns+"event_id = ?", event.Provider, event.EventID).Scan(&out.Ending, &no, &refundID)
	if errors.Is(err, sql.ErrNoRows) && event.CaptureID != "" {
		err = t.QueryRowContext(t.ctx, columns+"capture_id = ?", event.Provider, event.CaptureID).Scan(&out.Ending, &no, &refundID)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return out, false, nil
	}
	if err != nil {
		return out, false, err
	}
	out.Repeat = true
	if out.Ending != seatflow.EndingUnknown {
		out.Order, err = queryOrder(t.ctx, t, "no = ?", string(no))
		if err != nil && !errors.Is(err, seatflow.ErrNotFound) {
			return out, false, err
		}
	}
	if refundID.Valid {
		r, err := scanRefund(t.QueryRowContext(t.ctx, "SELECT "+refundColumns+" FROM refund WHERE id = ?", refundID.String))
		if err != nil {
			return out, false, err
		}
		out.Refund = &r
	}
	return out, true, nil
}

// decide decides the ending of a capture for the order in out, and writes it.
func (l *Ledger) decide(t *tx, out *seatflow.PaymentOutcome, event seatflow.PaymentEvent, actor seatflow.Actor) error {
	o := &out.Order
	from := o.State
	giveBack := func(why seatflow.RefundReason) error {
		r := seatflow.Refund{Provider: event.Provider, CaptureID: event.CaptureID, Order: o.No, Amount: event.Amount, Reason: why}
		if err := l.addRefund(t, &r); err != nil {
			return err
		}
		out.Ending, out.Refund = seatflow.EndingRefund, &r
		return l.move(t, o, from, seatflow.EventRefundDue, []seatflow.SeatID{}, actor)
	}
	switch {
	case from == seatflow.OrderPaid || from == seatflow.OrderRefunded:
		return giveBack(seatflow.RefundSecondCapture)
	case event.Amount.Currency != o.Total.Currency:
		return giveBack(seatflow.RefundWrongCurrency)
	case event.Amount.Amount != o.Total.Amount:
		return giveBack(seatflow.RefundWrongAmount)
	case from == seatflow.OrderPending:
		o.State, out.Ending = seatflow.OrderPaid, seatflow.EndingPaid
		return l.move(t, o, from, seatflow.EventPaid, nil, actor)
	case !from.CanBecome(seatflow.OrderPaid):
		return fmt.Errorf("ledger: order %s is %q", o.No, from)
	}
	var status seatflow.ShowStatus
	err := t.QueryRowContext(t.ctx, "SELECT status FROM "+showTable+" WHERE id = ?"+l.dialect.lockShow(), int64(o.Show)).Scan(&status)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	taken, err := takenSeats(t, o.Show, o.Items)
	if err != nil {
		return err
	}
	if status != seatflow.ShowPublished || len(taken) > 0 {
		return giveBack(seatflow.RefundOrderEnded)
	}
	for i := range o.Items {
		if _, err := t.exec("INSERT INTO order_seat (show_id, seat_id, order_no) VALUES (?,?,?)",
			int64(o.Show), int64(o.Items[i].Seat), string(o.No)); err != nil {
			return err
		}
	}
	o.State, o.Attempt, out.Ending = seatflow.OrderPaid, o.Attempt+1, seatflow.EndingReseated
	if sabotage.On(sabotage.ReuseAttempt) {
		o.Attempt--
	}
	return l.move(t, o, from, seatflow.EventReseated, nil, actor)
}

const refundColumns = "id, provider, capture_id, order_no, amount, currency, reason, done, created_at"

func scanRefund(row scanner) (seatflow.Refund, error) {
	var (
		r       seatflow.Refund
		created int64
	)
	err := row.Scan(&r.ID, &r.Provider, &r.CaptureID, &r.Order, &r.Amount.Amount, &r.Amount.Currency, &r.Reason, &r.Done, &created)
	r.CreatedAt = instant(created)
	return r, notFound(err)
}

// addRefund stores a refund and gives it its id.
func (l *Ledger) addRefund(t *tx, r *seatflow.Refund) error {
	r.ID, r.CreatedAt = l.opts.NewRefundID(), stored(l.opts.Clock.Now())
	_, err := t.exec("INSERT INTO refund ("+refundColumns+", done_at) VALUES (?,?,?,?,?,?,?,0,?,0)",
		r.ID, r.Provider, r.CaptureID, string(r.Order), r.Amount.Amount, r.Amount.Currency, string(r.Reason), micros(r.CreatedAt))
	return err
}

// RefundSeats implements [seatflow.Orders]. A seat that never was the order's
// is ErrNotFound. Seats that cost nothing are given back without a refund.
func (l *Ledger) RefundSeats(ctx context.Context, c seatflow.OrderChange, seats []seatflow.SeatID) (seatflow.Order, *seatflow.Refund, error) {
	seats = slices.Clone(seats)
	type answer struct {
		order  seatflow.Order
		refund *seatflow.Refund
	}
	a, err := change(ctx, l, 8*len(seats), func(t *tx) (a answer, err error) {
		o, err := find(t, c)
		if err != nil {
			return a, err
		}
		a.order = o
		if o.Kind != seatflow.KindSale || o.State != seatflow.OrderPaid && o.State != seatflow.OrderRefunded {
			return a, wrongState(&o)
		}
		given, sum, err := giveBack(&o, seats)
		if err != nil || len(given) == 0 {
			return a, err
		}
		r := seatflow.Refund{Order: o.No, Reason: seatflow.RefundByStaff, Amount: seatflow.Money{Amount: sum}}
		var captured, returned int64
		err = t.QueryRowContext(t.ctx, "SELECT p.provider, p.capture_id, p.amount, p.currency, "+
			"(SELECT COALESCE(SUM(r.amount), 0) FROM refund r WHERE r.provider = p.provider AND r.capture_id = p.capture_id) "+
			"FROM payment p WHERE p.order_no = ? AND p.ending IN ('paid', 'reseated')", string(o.No)).
			Scan(&r.Provider, &r.CaptureID, &captured, &r.Amount.Currency, &returned)
		if err != nil {
			return a, fmt.Errorf("ledger: the capture of order %s: %w", o.No, err)
		}
		r.Amount.Amount = min(r.Amount.Amount, captured-returned)
		if r.Amount.Amount > 0 {
			if err := l.addRefund(t, &r); err != nil {
				return a, err
			}
			a.refund = &r
		}
		if err := vacate(t, &o, given); err != nil {
			return a, err
		}
		if len(o.Seats()) == 0 {
			o.State = seatflow.OrderRefunded
		}
		err = l.move(t, &o, seatflow.OrderPaid, seatflow.EventRefunded, given, c.Actor)
		a.order = o
		return a, err
	})
	return a.order, a.refund, err
}

const paymentColumns = "id, provider, event_id, capture_id, type, order_no, amount, currency, event_at, ending, created_at"

func scanPayment(row scanner) (seatflow.Payment, error) {
	var (
		p       seatflow.Payment
		capture sql.NullString
		at, on  int64
	)
	err := row.Scan(&p.ID, &p.Event.Provider, &p.Event.EventID, &capture, &p.Event.Type, &p.Event.Order, &p.Event.Amount.Amount,
		&p.Event.Amount.Currency, &at, &p.Ending, &on)
	p.Event.CaptureID, p.Event.At, p.At = capture.String, instant(at), instant(on)
	return p, err
}

// PaymentsOf implements [seatflow.Payments].
func (l *Ledger) PaymentsOf(ctx context.Context, no seatflow.OrderNo) (_ []seatflow.Payment, err error) {
	defer l.unread(&err)
	return queryAll(ctx, &l.reads, scanPayment, "SELECT "+paymentColumns+" FROM payment WHERE order_no = ? ORDER BY id", string(no))
}

// UnknownPayments implements [seatflow.Payments].
func (l *Ledger) UnknownPayments(ctx context.Context, after int64, limit int) (_ []seatflow.Payment, err error) {
	defer l.unread(&err)
	return queryAll(ctx, &l.reads, scanPayment, "SELECT "+paymentColumns+" FROM payment WHERE ending = 'unknown' AND id > ? ORDER BY id LIMIT ?", after, bounded(limit))
}

// DueRefunds implements [seatflow.Payments].
func (l *Ledger) DueRefunds(ctx context.Context, limit int) (_ []seatflow.Refund, err error) {
	defer l.unread(&err)
	return queryAll(ctx, &l.reads, scanRefund, "SELECT "+refundColumns+" FROM refund WHERE done = 0 ORDER BY created_at, id LIMIT ?", bounded(limit))
}

// RefundDone implements [seatflow.Payments].
func (l *Ledger) RefundDone(ctx context.Context, id string) error {
	_, err := change(ctx, l, 0, func(t *tx) (struct{}, error) {
		var done bool
		err := t.QueryRowContext(t.ctx, "SELECT done FROM refund WHERE id = ?"+l.dialect.forUpdate(), id).Scan(&done)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return struct{}{}, domainError{fmt.Errorf("ledger: refund %s: %w", id, seatflow.ErrNotFound)}
		case err != nil || done:
			return struct{}{}, err
		}
		return struct{}{}, t.execOne("UPDATE refund SET done = 1, done_at = ? WHERE id = ? AND done = 0", micros(l.opts.Clock.Now()), id)
	})
	return err
}
