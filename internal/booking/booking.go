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
// can be done the seats stay held and the guardian settles them later. What
// the view could not be told is tried again from a queue (see Service.Run);
// when the process dies, the guardian and a rebuild do the same.
package booking

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/oklog/ulid/v2"

	"seatflow"
	"seatflow/internal/telemetry"
)

// Houses gives the shows that may be sold, indexed; *catalog.Service does.
type Houses interface {
	// House returns a show with its plan, or seatflow.ErrNotFound.
	House(ctx context.Context, id seatflow.ShowID) (*seatflow.House, error)
}

// Admission limits how often a user may ask for seats.
type Admission interface {
	// Admit counts a request and returns nil, or a *seatflow.Error of code
	// 1029 when the user is over the limit.
	Admit(ctx context.Context, user seatflow.UserID) error
	// Remote reports whether Admit asks another process: it is then asked
	// while the ledger is.
	Remote() bool
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
	// Grace is the age below which a hold without an order is left alone;
	// 0: seatflow.ReconcileGrace.
	Grace time.Duration
	// LedgerDeadline bounds one ledger transaction; 0: seatflow.LedgerDeadline.
	LedgerDeadline time.Duration
	// Admission limits how often a user may ask for seats; nil: it does not.
	Admission Admission
	// Locker lets one node at a time rebuild a show's view while the others
	// wait; nil: each rebuilds for itself, which is as safe and more work.
	Locker seatflow.Locker
	// ShowRate is the orders a second that one show takes; 0: any number.
	ShowRate int
	Metrics  *telemetry.Metrics // nil: counted and thrown away
}

// Service runs orders through their life. It keeps no state that a restart
// could lose: requests in flight wait for each other here, and what could not
// be told to the view is retried from here, but both are settled by key, owner
// and guardian if the process dies.
type Service struct {
	seats    seatflow.SeatStore
	ledger   seatflow.Ledger
	houses   Houses
	clock    seatflow.Clock
	log      *slog.Logger
	newNo    func() seatflow.OrderNo
	grace    time.Duration
	deadline time.Duration
	metrics  *telemetry.Metrics
	admits   Admission
	locker   seatflow.Locker
	showRate int

	flights  flights
	rebuilds rebuilds
	later    laterQueue
}

// New returns a Service. Its background work runs in [Service.Run].
func New(o Options) *Service {
	s := &Service{seats: o.Seats, ledger: o.Ledger, houses: o.Houses, clock: o.Clock, log: o.Log,
		newNo: o.NewOrderNo, grace: o.Grace, deadline: o.LedgerDeadline, metrics: o.Metrics,
		admits: o.Admission, locker: o.Locker, showRate: o.ShowRate}
	if s.clock == nil {
		s.clock = seatflow.WallClock{}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.newNo == nil {
		s.newNo = newULID
	}
	if s.grace == 0 {
		s.grace = seatflow.ReconcileGrace
	}
	if s.deadline == 0 {
		s.deadline = seatflow.LedgerDeadline
	}
	if s.metrics == nil {
		s.metrics = telemetry.NewMetrics()
	}
	s.flights.init()
	s.later.init()
	return s
}

// newULID makes an order number: not monotonic, so that numbers cannot be
// guessed from each other.
func newULID() seatflow.OrderNo {
	id, err := ulid.New(ulid.Now(), rand.Reader)
	if err != nil { // only for a clock past the year 10889
		panic(err)
	}
	return seatflow.OrderNo(id.String())
}

// CreateRequest asks for seats.
type CreateRequest struct {
	Actor       seatflow.Actor
	Show        seatflow.ShowID
	Seats       []seatflow.SeatID // any order; must be distinct
	Key         string            // idempotency key; "" for none; see [CheckKey]
	Fingerprint seatflow.Fingerprint
}

// Created answers a CreateRequest.
type Created struct {
	Order    seatflow.Order
	Replayed bool // the key was used before for the same request
}

// detached returns a context for what must be finished although the caller
// may have gone: it keeps the values and has a deadline of its own.
func (s *Service) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.deadline)
}

// house resolves a show for a caller: 3001 when it is not there.
func (s *Service) house(ctx context.Context, id seatflow.ShowID) (*seatflow.House, error) {
	h, err := s.houses.House(ctx, id)
	switch {
	case err == nil:
		return h, nil
	case errors.Is(err, seatflow.ErrNotFound):
		return nil, &seatflow.Error{Code: seatflow.CodeNoShow}
	default:
		return nil, unavailable(seatflow.ReasonLedgerDown, err)
	}
}

// unavailable is the answer while a backend cannot be relied on: nothing is
// known to be refused, and the same request may be sent again.
func unavailable(reason seatflow.Reason, err error) *seatflow.Error {
	return &seatflow.Error{Code: seatflow.CodeNotReady, Reason: reason, RetryAfter: time.Second, Err: err}
}

// buyerOf returns the user whose orders an actor may touch: "" for anybody's.
func buyerOf(a seatflow.Actor) seatflow.UserID {
	if a.Role == seatflow.RoleStaff || a.Role == seatflow.RoleAdmin {
		return ""
	}
	return a.User
}

// asError turns a ledger's error into what the caller may see; order is the
// one that stands, if known.
func asError(err error, order *seatflow.Order) error {
	switch {
	case errors.Is(err, seatflow.ErrNotFound):
		return &seatflow.Error{Code: seatflow.CodeNotFound}
	case errors.Is(err, seatflow.ErrWrongState):
		e := &seatflow.Error{Code: seatflow.CodeWrongState, Err: err}
		if order != nil && order.No != "" {
			e.Reason, e.Args, e.Order = seatflow.ReasonOrderState, []any{string(order.State)}, order
		}
		return e
	case errors.Is(err, seatflow.ErrUnknownCommit):
		return unavailable(seatflow.ReasonOutcomeUnknown, err)
	case errors.Is(err, seatflow.ErrNotCommitted), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable(seatflow.ReasonLedgerDown, err)
	}
	return err
}
