package booking

import (
	"context"
	"errors"

	"seatflow"
)

// Block takes seats out of sale. A block is a fact first, under the same
// unique key as every order; then the view shows it. All seats or none.
//
// Codes: 1000, 1002, 2003, 3001, 3002, 3010.
func (s *Service) Block(ctx context.Context, actor seatflow.Actor, show seatflow.ShowID, seats []seatflow.SeatID, reason string) (seatflow.Order, error) {
	if buyerOf(actor) != "" {
		return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeForbidden}
	}
	house, err := s.house(ctx, show)
	if err != nil {
		return seatflow.Order{}, err
	}
	order, err := s.draftBlock(house, actor, seats, reason)
	if err != nil {
		return seatflow.Order{}, err
	}
	for try := 0; ; try++ {
		row, err := s.ledger.Show(ctx, show)
		if err != nil {
			return seatflow.Order{}, asError(err, nil)
		}
		stored, err := s.insert(ctx, seatflow.NewOrder{Order: order, Generation: row.Generation, Actor: actor})
		var conflict *seatflow.SeatConflictError
		switch {
		case err == nil:
			s.viewed(ctx, show, stored.Owner(), func(ctx context.Context, ref seatflow.ShowRef) error {
				reply, err := s.seats.Block(ctx, ref, stored.Owner(), stored.Seats())
				if err != nil || len(reply.Refused) == 0 {
					return err
				}
				// Held by someone whose order will not be inserted any more.
				return s.assert(ctx, ref, stored.No)
			})
			return stored, nil
		case errors.As(err, &conflict):
			return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeSeatsTaken, Seats: conflict.Seats,
				Available: without(order.Seats(), conflict.Seats), Err: err}
		case errors.Is(err, seatflow.ErrStaleGeneration) && try < rebuildTries:
		case errors.Is(err, errStillUnknown):
			return seatflow.Order{}, unavailable(seatflow.ReasonOutcomeUnknown, err)
		default:
			return seatflow.Order{}, asError(err, nil)
		}
	}
}

func (s *Service) draftBlock(house *seatflow.House, actor seatflow.Actor, asked []seatflow.SeatID, reason string) (seatflow.Order, error) {
	seats, err := sortSeats(asked, len(house.Plan.Seats))
	if err != nil {
		return seatflow.Order{}, err
	}
	now := s.clock.Now()
	o := seatflow.Order{
		No: s.newNo(), Attempt: 1, Version: 1, Show: house.Show.ID, User: actor.User, Kind: seatflow.KindBlock,
		State: seatflow.OrderBlocked, Items: make([]seatflow.OrderItem, len(seats)), Reason: reason,
		Total: seatflow.Money{Currency: house.Show.Currency}, Device: actor.Device,
		TakenAt: now, CreatedAt: now, UpdatedAt: now,
	}
	base := house.Base()
	var missing []seatflow.SeatID
	for i, id := range seats {
		if house.Seat(id) == nil || base[id-1] == seatflow.NoSeat {
			missing = append(missing, id)
		}
		o.Items[i].Seat = id
	}
	if missing != nil {
		return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeNoSeat, Seats: missing, Field: "seats"}
	}
	return o, nil
}

// Unblock gives back seats (nil: all) of a block; doing it again changes
// nothing.
//
// Codes: 1002, 1003, 2003, 3005, 3010.
func (s *Service) Unblock(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo, seats []seatflow.SeatID) (seatflow.Order, error) {
	before, err := s.staffOrder(ctx, actor, no, seats)
	if err != nil {
		return seatflow.Order{}, err
	}
	if before.Kind != seatflow.KindBlock {
		return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeNotFound}
	}
	dctx, cancel := s.detached(ctx)
	defer cancel()
	o, err := s.ledger.UnblockSeats(dctx, seatflow.OrderChange{No: no, Actor: actor}, seats)
	if err != nil {
		return seatflow.Order{}, asError(err, &o)
	}
	if gone := without(before.Seats(), o.Seats()); len(gone) > 0 {
		s.viewed(ctx, o.Show, o.Owner(), func(ctx context.Context, ref seatflow.ShowRef) error {
			_, err := s.seats.Unblock(ctx, ref, o.Owner(), gone)
			return err
		})
	}
	return o, nil
}

// Blocks lists a show's blocks.
//
// Codes: 1002, 3001.
func (s *Service) Blocks(ctx context.Context, actor seatflow.Actor, show seatflow.ShowID) ([]seatflow.Order, error) {
	if buyerOf(actor) != "" {
		return nil, &seatflow.Error{Code: seatflow.CodeForbidden}
	}
	if _, err := s.house(ctx, show); err != nil {
		return nil, err
	}
	list, err := s.ledger.Blocks(ctx, show)
	if err != nil {
		return nil, asError(err, nil)
	}
	return list, nil
}
