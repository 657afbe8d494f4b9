package seatflow

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of a [Ledger]. A method that changes something and returns an error
// other than ErrUnknownCommit has changed nothing.
var (
	// ErrUnknownCommit: the transaction may or may not have committed. Look
	// the order up before anyone is told anything.
	ErrUnknownCommit = errors.New("seatflow: commit unknown")
	// ErrNotCommitted: the transaction certainly did not commit (no
	// connection, a time-out before the commit, a ledger that is down).
	ErrNotCommitted = errors.New("seatflow: not committed")
	// ErrWrongState: a compare-and-set found another state, deadline or
	// version than was seen.
	ErrWrongState = errors.New("seatflow: wrong state")
)

// SeatConflictError: seats that another active order has, by the unique key.
type SeatConflictError struct{ Seats []SeatID }

// Error implements error.
func (e *SeatConflictError) Error() string {
	return fmt.Sprintf("seatflow: seats %v belong to another active order", e.Seats)
}

// OrderExistsError: an order of that user and key, or of that number (a void
// row included), is there already.
type OrderExistsError struct{ Order Order }

// Error implements error.
func (e *OrderExistsError) Error() string {
	return fmt.Sprintf("seatflow: order %s (%s) is there already", e.Order.No, e.Order.State)
}

// Ledger is the facts. Every method is one transaction or one consistent
// read, may be called concurrently, and honours the context's deadline until
// it begins to commit. Reads see every commit that was acknowledged before.
type Ledger interface {
	Catalog
	Orders
	Payments
	FactsReader
	Outbox
	Repairs

	// Healthy returns nil while the ledger can commit. While it is known to
	// be down, callers refuse before they hold.
	Healthy(ctx context.Context) error
	Close() error
}

// Catalog keeps halls, plans and shows.
type Catalog interface {
	CreateHall(ctx context.Context, hall Hall) (Hall, error)
	Hall(ctx context.Context, id HallID) (Hall, error)
	// Halls lists by id, after one.
	Halls(ctx context.Context, after HallID, limit int) ([]Hall, error)
	// HallSeats returns what a new plan version must respect.
	HallSeats(ctx context.Context, hall HallID) (HallSeats, error)
	// PublishPlan stores an immutable plan. Its version must be the latest
	// plus one, and its new ids must start at NextID (else ErrWrongState).
	PublishPlan(ctx context.Context, plan *Plan) error
	// Plan reads a published plan; version 0 is the latest.
	Plan(ctx context.Context, hall HallID, version PlanVersion) (*Plan, error)
	CreateShow(ctx context.Context, show Show) (Show, error)
	// UpdateShow replaces what may change of a show (title, times, window,
	// prices, limits, status, partition) if show.Version is the one there
	// (else ErrWrongState). Another partition raises the generation in the
	// same step, so that no order held in the old place can be inserted; it
	// is ErrWrongState while an order of the show is pending. Otherwise the
	// generation stays.
	UpdateShow(ctx context.Context, show Show) (Show, error)
	Show(ctx context.Context, id ShowID) (Show, error)
	// Shows lists by start and id, after a show's place in that order (0: from
	// the start), those that end after a time (zero: all).
	Shows(ctx context.Context, after ShowID, endAfter time.Time, limit int) ([]Show, error)
}

// NewOrder is an order to insert after a good hold, or a block.
type NewOrder struct {
	Order      Order
	Generation Generation // of the hold; checked against the show in the transaction
	Actor      Actor
}

// OrderChange is a compare-and-set on an order.
type OrderChange struct {
	No    OrderNo
	User  UserID // the order must be this user's; "" for staff and the system
	Actor Actor
}

// Orders keeps orders and their history.
type Orders interface {
	// InsertOrder stores an order, its occupancy, its event and its outbox
	// row. Concurrent inserts are committed in groups; one that conflicts
	// fails alone: *SeatConflictError, *OrderExistsError, ErrStaleGeneration,
	// ErrNotFound (no such show), ErrNotCommitted, ErrUnknownCommit. A block
	// (KindBlock) has no key and no deadline and starts as blocked.
	InsertOrder(ctx context.Context, order NewOrder) (Order, error)
	// OrderByKey finds a user's order by idempotency key without waiting for
	// any transaction; ErrNotFound.
	OrderByKey(ctx context.Context, user UserID, key string) (Order, error)
	// Order reads an order; user "" reads anybody's; ErrNotFound.
	Order(ctx context.Context, no OrderNo, user UserID) (Order, error)
	// OrdersOf lists a user's orders, newest first, before a number ("": from
	// the newest). Void rows are not listed.
	OrdersOf(ctx context.Context, user UserID, before OrderNo, limit int) ([]Order, error)
	// History tells an order's events, oldest first.
	History(ctx context.Context, no OrderNo) ([]OrderEvent, error)

	// VoidOrder makes the absence of an order a fact: it inserts a row of
	// that number in state void, unless one is there, and returns the row
	// that stands. Afterwards a late insert of the number fails.
	VoidOrder(ctx context.Context, no OrderNo, show ShowID, actor Actor) (Order, error)
	// StartPayment records that payment began; when extendTo is not zero and
	// the one extension is unused it moves the deadline to
	// min(extendTo, cap) as well. Only pending orders (ErrWrongState).
	StartPayment(ctx context.Context, c OrderChange, extendTo time.Time) (Order, error)
	// ExtendOrder moves the deadline of a pending order to
	// min(deadline, cap), once in its life, if the deadline seen is the one
	// there (ErrWrongState).
	ExtendOrder(ctx context.Context, c OrderChange, seen, deadline time.Time) (Order, error)
	// CancelOrder ends a pending order and deletes its occupancy. An order
	// that is cancelled already is returned as it is, and the call is added
	// to its history; any other state: the order and ErrWrongState.
	CancelOrder(ctx context.Context, c OrderChange) (Order, error)
	// ExpireOrder is a cancel by time: only if the order is pending with
	// exactly the deadline seen (ErrWrongState).
	ExpireOrder(ctx context.Context, c OrderChange, seen time.Time) (Order, error)
	// RefundSeats gives back seats (nil: all that are left) of a paid order:
	// occupancy deleted, one refund recorded against its capture, the order
	// refunded when none is left. Seats given back already are skipped; when
	// nothing remains to do it returns the order and a nil refund.
	RefundSeats(ctx context.Context, c OrderChange, seats []SeatID) (Order, *Refund, error)
	// UnblockSeats gives back seats (nil: all) of a block.
	UnblockSeats(ctx context.Context, c OrderChange, seats []SeatID) (Order, error)
	// Blocks lists a show's blocks that have seats.
	Blocks(ctx context.Context, show ShowID) ([]Order, error)
}

// Payments keeps money.
type Payments interface {
	// RecordPayment stores a verified event and decides its ending in the
	// same transaction (see PaymentEnding). A repeated event or capture
	// changes nothing and returns the first decision with Repeat.
	RecordPayment(ctx context.Context, event PaymentEvent, actor Actor) (PaymentOutcome, error)
	// PaymentsOf lists an order's payments, oldest first.
	PaymentsOf(ctx context.Context, no OrderNo) ([]Payment, error)
	// UnknownPayments lists captures without an order, for staff.
	UnknownPayments(ctx context.Context, after int64, limit int) ([]Payment, error)
	// DueRefunds lists refunds not done yet, oldest first.
	DueRefunds(ctx context.Context, limit int) ([]Refund, error)
	// RefundDone marks a refund as done; a repeat is a no-op.
	RefundDone(ctx context.Context, id string) error
}

// Facts is what a show's view must agree with.
type Facts struct {
	Show       Show
	Generation Generation
	Orders     []Order // every order with seats, blocks included, by number
}

// FactsReader reads what views are built from and checked against.
type FactsReader interface {
	// RaiseGeneration sets a show's generation from the one seen to the next
	// (ErrStaleGeneration when another is there) and returns it. Orders that
	// were held under the old one can no longer be inserted.
	RaiseGeneration(ctx context.Context, show ShowID, seen Generation) (Generation, error)
	// Facts reads a show's active occupancy in one consistent read.
	Facts(ctx context.Context, show ShowID) (Facts, error)
	// Audit reads, in one consistent read, what must always hold of the
	// ledger by itself (I1, I2 and the keys that promise it).
	Audit(ctx context.Context) (LedgerAudit, error)
}

// LedgerAudit is what the ledger says about itself. Lists are bounded;
// counts are not.
type LedgerAudit struct {
	Orders          map[OrderState]int64
	ActiveSeats     int64    // rows of active occupancy
	DistinctSeats   int64    // distinct (show, seat) among them; must be equal
	DoubleSeats     []string // "show 3 seat 17: ORDER, ORDER"
	OrphanSeats     []string // occupancy whose order is not active, or whose order does not list it
	MissingSeats    []string // active orders that list a seat without occupancy
	MissingIndexes  []string // unique keys that should exist and do not
	Captures        int64    // captured payments
	EndingPaid      int64    // of them, by ending
	EndingRefund    int64
	EndingUnknown   int64
	BadEndings      []string // captures without exactly one ending that its rows bear out
	PaidWithoutCash []string // paid orders without a capture that paid them
	IntegrityFaults []string // of the database itself
}

// OutboxEvent is an order event that waits to be published.
type OutboxEvent struct {
	ID    int64 // of the outbox row
	Event OrderEvent
	Order Order // as it stands now
}

// Outbox is the order events that wait to be published. Rows are read by
// presence, never by an id cursor, which would skip late commits.
type Outbox interface {
	Outbox(ctx context.Context, limit int) ([]OutboxEvent, error)
	// OutboxDone deletes rows after the acknowledgement of their publication.
	OutboxDone(ctx context.Context, ids []int64) error
}
