// Package booking is the life of an order: hold, pay, cancel, expire, refund,
// and each compensation between them.
//
// # Order of writes
//
// Taking seats starts in the view: hold, then insert. Everything else commits
// in the ledger first and is told to the view afterwards. What an interrupted
// call leaves behind is settled by the guardian, which runs the same code.
//
// # Failure
//
// Whatever fails after a hold gives the seats back before the caller is
// answered. A commit whose outcome is unknown is looked up by order number; a
// row that is not found is made impossible by a void row first. While neither
// can be done the seats stay held and the guardian settles them later.
package booking

import (
	"context"
	"log/slog"
	"time"

	"seatflow"
)

// Houses gives the shows that may be sold, indexed; *catalog.Service does.
type Houses interface {
	// House returns a show with its plan, or seatflow.ErrNotFound.
	House(ctx context.Context, id seatflow.ShowID) (*seatflow.House, error)
}

// Options are what a Service needs.
type Options struct {
	Seats  seatflow.SeatStore
	Ledger seatflow.Ledger
	Houses Houses
	Clock  seatflow.Clock // for sale windows; nil: the wall clock
	Log    *slog.Logger
	// NewOrderNo makes order numbers; nil: ULIDs from crypto/rand.
	NewOrderNo func() seatflow.OrderNo
	// Grace is the age below which a hold without an order is left alone.
	Grace time.Duration
}

// CreateRequest asks for seats.
type CreateRequest struct {
	Actor       seatflow.Actor
	Show        seatflow.ShowID
	Seats       []seatflow.SeatID // any order; must be distinct
	Key         string            // idempotency key; "" for none; checked by [CheckKey]
	Fingerprint seatflow.Fingerprint
}

// Created answers a CreateRequest.
type Created struct {
	Order    seatflow.Order
	Replayed bool // the key was used before for the same request
}
