package booking

import (
	"context"
	"errors"
	"fmt"

	"seatflow"
)

// settledAs names what was done with a due hold, by its order's state.
var settledAs = map[seatflow.OrderState]string{
	seatflow.OrderPending: "postponed", seatflow.OrderPaid: "sold", seatflow.OrderVoid: "voided",
	seatflow.OrderCancelled: "released", seatflow.OrderExpired: "released", seatflow.OrderRefunded: "released",
}

// Settle decides about a hold whose wake-up has come. The ledger decides, the
// view follows, and every step is fenced by owner, so that it may run twice,
// late or beside the buyer's own action:
//
//	pending, deadline passed   expire (exactly as a cancel), release
//	pending, later deadline    correct the view's deadline
//	paid                       sell in the view, never release
//	ended or void              release
//	no row, past the grace     make its absence a fact, then release
//	no row, younger            leave it to the one that is inserting it
func (s *Service) Settle(ctx context.Context, due seatflow.DueHold) error {
	house, err := s.houses.House(ctx, due.Show)
	if err != nil {
		return fmt.Errorf("booking: settle order %s: %w", due.Owner.Order, err)
	}
	ref, now := house.Show.Ref(), due.TakenAt.Add(due.Age) // the seat store's now
	order, err := s.ledger.Order(ctx, due.Owner.Order, "")
	if errors.Is(err, seatflow.ErrNotFound) {
		if due.Age < s.grace {
			s.metrics.Settled.Inc("left")
			return nil
		}
		order, err = s.ledger.VoidOrder(ctx, due.Owner.Order, due.Show, seatflow.System("guardian"))
	}
	if err != nil {
		return fmt.Errorf("booking: settle order %s: %w", due.Owner.Order, err)
	}
	if order.Attempt != due.Owner.Attempt && order.State != seatflow.OrderVoid {
		// An earlier attempt's hold: the order has moved on without it.
		s.metrics.Settled.Inc("released")
		_, err := s.seats.Release(ctx, ref, due.Owner, nil)
		return err
	}
	if order.State == seatflow.OrderPending && !order.Deadline.After(now) {
		ended, err := s.ledger.ExpireOrder(ctx, seatflow.OrderChange{No: order.No, Actor: seatflow.System("guardian")}, order.Deadline)
		switch {
		case err == nil:
			order = ended
			s.metrics.Settled.Inc("expired")
		case errors.Is(err, seatflow.ErrWrongState):
			// Paid, cancelled or extended in the same moment: look again when
			// the lease ends.
			s.metrics.Settled.Inc("raced")
			return nil
		default:
			return fmt.Errorf("booking: expire order %s: %w", order.No, err)
		}
	} else {
		s.metrics.Settled.Inc(settledAs[order.State])
	}
	if order.State == seatflow.OrderVoid {
		_, err := s.seats.Release(ctx, ref, due.Owner, nil)
		return err
	}
	return s.show(ctx, ref, &order)
}
