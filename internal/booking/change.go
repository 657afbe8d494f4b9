package booking

import (
	"context"
	"errors"
	"time"

	"seatflow"
	"seatflow/internal/sabotage"
)

// Order reads an order: a buyer's own, or anybody's for staff.
//
// Codes: 1003.
func (s *Service) Order(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error) {
	o, err := s.ledger.Order(ctx, no, buyerOf(actor))
	if err == nil && o.State == seatflow.OrderVoid {
		err = seatflow.ErrNotFound
	}
	if err != nil {
		return seatflow.Order{}, asError(err, nil)
	}
	return o, nil
}

// Orders lists the actor's own orders, newest first, before a number.
func (s *Service) Orders(ctx context.Context, actor seatflow.Actor, before seatflow.OrderNo, limit int) ([]seatflow.Order, error) {
	list, err := s.ledger.OrdersOf(ctx, actor.User, before, limit)
	if err != nil {
		return nil, asError(err, nil)
	}
	return list, nil
}

// History tells an order's story, oldest first.
//
// Codes: 1003.
func (s *Service) History(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) ([]seatflow.OrderEvent, error) {
	if _, err := s.Order(ctx, actor, no); err != nil {
		return nil, err
	}
	events, err := s.ledger.History(ctx, no)
	if err != nil {
		return nil, asError(err, nil)
	}
	return events, nil
}

// Cancel ends a pending order and frees its seats at once. Cancelling again
// answers the same.
//
// Codes: 1003, 2003, 3005.
func (s *Service) Cancel(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error) {
	dctx, cancel := s.detached(ctx)
	defer cancel()
	if sabotage.On(sabotage.FreeBeforeLedger) {
		s.tellEarly(dctx, no, seatflow.OrderCancelled)
	}
	o, err := s.ledger.CancelOrder(dctx, seatflow.OrderChange{No: no, User: buyerOf(actor), Actor: actor})
	if err != nil {
		return seatflow.Order{}, asError(err, &o)
	}
	s.tell(ctx, &o)
	return o, nil
}

// Extend moves a pending order's deadline once, never past its cap.
//
// Codes: 1003, 2003, 3005.
func (s *Service) Extend(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error) {
	o, err := s.Order(ctx, actor, no)
	if err != nil {
		return seatflow.Order{}, err
	}
	if o.State != seatflow.OrderPending {
		return seatflow.Order{}, asError(seatflow.ErrWrongState, &o)
	}
	if o.Extended {
		return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeWrongState, Reason: seatflow.ReasonExtendedAlready, Order: &o}
	}
	house, err := s.house(ctx, o.Show)
	if err != nil {
		return seatflow.Order{}, err
	}
	dctx, cancel := s.detached(ctx)
	defer cancel()
	c := seatflow.OrderChange{No: no, User: buyerOf(actor), Actor: actor}
	changed, err := s.ledger.ExtendOrder(dctx, c, o.Deadline, o.Deadline.Add(house.Show.ExtendBy))
	if err != nil {
		return seatflow.Order{}, asError(err, &changed)
	}
	s.tell(ctx, &changed)
	return changed, nil
}

// BeginPayment records that payment started, which extends the hold once, so
// that it does not end while the buyer types a card number.
//
// Codes: 1003, 2003, 3005.
func (s *Service) BeginPayment(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error) {
	o, err := s.Order(ctx, actor, no)
	if err != nil {
		return seatflow.Order{}, err
	}
	if o.State != seatflow.OrderPending {
		return seatflow.Order{}, asError(seatflow.ErrWrongState, &o)
	}
	house, err := s.house(ctx, o.Show)
	if err != nil {
		return seatflow.Order{}, err
	}
	var extendTo time.Time
	if !o.Extended {
		extendTo = o.Deadline.Add(house.Show.ExtendBy)
	}
	dctx, cancel := s.detached(ctx)
	defer cancel()
	changed, err := s.ledger.StartPayment(dctx, seatflow.OrderChange{No: no, User: buyerOf(actor), Actor: actor}, extendTo)
	if err != nil {
		return seatflow.Order{}, asError(err, &changed)
	}
	s.tell(ctx, &changed)
	return changed, nil
}

// ApplyPayment stores a verified payment event and what it decides. It may be
// called late, twice or out of order; it returns nil only after the commit.
func (s *Service) ApplyPayment(ctx context.Context, event seatflow.PaymentEvent) (seatflow.PaymentOutcome, error) {
	dctx, cancel := s.detached(ctx)
	defer cancel()
	if sabotage.On(sabotage.PublishBeforeCommit) {
		s.tellEarly(dctx, event.Order, seatflow.OrderPaid)
	}
	out, err := s.ledger.RecordPayment(dctx, event, seatflow.System("payment:"+event.Provider))
	if err != nil {
		return seatflow.PaymentOutcome{}, asError(err, nil)
	}
	if out.Repeat {
		s.metrics.Payments.Inc("repeat")
	} else {
		s.metrics.Payments.Inc(string(out.Ending))
	}
	switch out.Ending {
	case seatflow.EndingPaid, seatflow.EndingReseated:
		s.tell(ctx, &out.Order)
	case seatflow.EndingUnknown:
		s.log.WarnContext(ctx, "payment for an unknown order; kept for staff", "provider", event.Provider, "event", event.EventID)
	}
	return out, nil
}

// Refund gives back seats (nil: all) of a paid order; the money follows.
//
// Codes: 1002, 1003, 2003, 3005, 3010.
func (s *Service) Refund(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo, seats []seatflow.SeatID) (seatflow.Order, *seatflow.Refund, error) {
	before, err := s.staffOrder(ctx, actor, no, seats)
	if err != nil {
		return seatflow.Order{}, nil, err
	}
	dctx, cancel := s.detached(ctx)
	defer cancel()
	o, refund, err := s.ledger.RefundSeats(dctx, seatflow.OrderChange{No: no, Actor: actor}, seats)
	if err != nil {
		return seatflow.Order{}, nil, asError(err, &o)
	}
	gone := without(before.Seats(), o.Seats())
	if len(gone) > 0 {
		s.viewed(ctx, o.Show, o.Owner(), func(ctx context.Context, ref seatflow.ShowRef) error {
			_, err := s.seats.Unsell(ctx, ref, o.Owner(), gone)
			return err
		})
	}
	return o, refund, nil
}

// staffOrder reads an order for a member of staff and checks that it lists
// the seats.
func (s *Service) staffOrder(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo, seats []seatflow.SeatID) (seatflow.Order, error) {
	if buyerOf(actor) != "" {
		return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeForbidden}
	}
	o, err := s.Order(ctx, actor, no)
	if err != nil {
		return o, err
	}
	listed := make([]seatflow.SeatID, len(o.Items))
	for i := range o.Items {
		listed[i] = o.Items[i].Seat
	}
	if missing := without(seats, listed); len(missing) > 0 {
		return o, &seatflow.Error{Code: seatflow.CodeNoSeat, Field: "seats", Seats: missing}
	}
	return o, nil
}

// tell shows the view what the ledger has decided about an order. The
// decision stands whatever the view answers: what cannot be told now is told
// later.
func (s *Service) tell(ctx context.Context, o *seatflow.Order) {
	s.metrics.Transitions.Inc(string(o.State))
	s.viewed(ctx, o.Show, o.Owner(), func(ctx context.Context, ref seatflow.ShowRef) error {
		return s.show(ctx, ref, o)
	})
}

// viewed runs one step on the view after a commit and queues the order when
// it fails.
func (s *Service) viewed(ctx context.Context, show seatflow.ShowID, owner seatflow.Owner, step func(context.Context, seatflow.ShowRef) error) {
	dctx, cancel := s.detached(ctx)
	defer cancel()
	house, err := s.houses.House(dctx, show)
	if err == nil {
		err = step(dctx, house.Show.Ref())
		if err == nil || errors.Is(err, seatflow.ErrNotReady) {
			return // a view that is not there will be built from the facts
		}
	}
	s.log.WarnContext(ctx, "the view could not be told; queued", "show", show, "order", owner.Order, "err", err)
	s.laterSettle(show, owner)
}

// tellEarly is what the code must never do: show the view a state that the
// ledger has not decided.
func (s *Service) tellEarly(ctx context.Context, no seatflow.OrderNo, state seatflow.OrderState) {
	o, err := s.ledger.Order(ctx, no, "")
	if err != nil || o.State != seatflow.OrderPending {
		return
	}
	if house, err := s.houses.House(ctx, o.Show); err == nil {
		o.State = state
		_ = s.show(ctx, house.Show.Ref(), &o)
	}
}

// show makes the view agree with an order's state. Every step is fenced by
// owner and may be repeated.
func (s *Service) show(ctx context.Context, ref seatflow.ShowRef, o *seatflow.Order) error {
	owner := o.Owner()
	switch o.State {
	case seatflow.OrderPending:
		reply, err := s.seats.Extend(ctx, ref, owner, o.Deadline)
		if err != nil || reply.Extended {
			return err
		}
		return s.assert(ctx, ref, o.No)
	case seatflow.OrderPaid:
		reply, err := s.seats.Sell(ctx, ref, owner)
		if err != nil || reply.Sold == len(o.Seats()) {
			return err
		}
		// The hold was lost, or these are the seats of an order that had
		// ended: the facts override whatever stands there.
		return s.assert(ctx, ref, o.No)
	case seatflow.OrderBlocked:
		return s.assert(ctx, ref, o.No)
	case seatflow.OrderRefunded:
		_, err := s.seats.Unsell(ctx, ref, owner, nil)
		return err
	default: // cancelled, expired, void
		if o.Kind == seatflow.KindBlock {
			_, err := s.seats.Unblock(ctx, ref, owner, nil)
			return err
		}
		_, err := s.seats.Release(ctx, ref, owner, nil)
		return err
	}
}
