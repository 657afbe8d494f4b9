package seatflow

import "time"

// OrderState is where an order stands in its life.
type OrderState string

// The states of an order. A void row makes the absence of an order a fact:
// its number can never be used (see Ledger.VoidOrder). A block is a staff
// order of [KindBlock]: blocked while it has seats, cancelled after.
const (
	OrderPending   OrderState = "pending"
	OrderPaid      OrderState = "paid"
	OrderCancelled OrderState = "cancelled"
	OrderExpired   OrderState = "expired"
	OrderRefunded  OrderState = "refunded"
	OrderVoid      OrderState = "void"
	OrderBlocked   OrderState = "blocked"
)

// orderEdges is the order state machine, whole. Money for an order that has
// ended may pay it after all, if its seats are still free.
var orderEdges = map[OrderState][]OrderState{
	OrderPending:   {OrderPaid, OrderCancelled, OrderExpired},
	OrderCancelled: {OrderPaid},
	OrderExpired:   {OrderPaid},
	OrderPaid:      {OrderRefunded},
	OrderBlocked:   {OrderCancelled},
}

// CanBecome reports whether an order may move from s to t. Every edge is a
// compare-and-set in the ledger.
func (s OrderState) CanBecome(t OrderState) bool {
	for _, to := range orderEdges[s] {
		if to == t {
			return true
		}
	}
	return false
}

// Active reports whether an order in state s has seats.
func (s OrderState) Active() bool { return s == OrderPending || s == OrderPaid || s == OrderBlocked }

// OrderKind tells a sale from a block.
type OrderKind string

// The kinds of order.
const (
	KindSale  OrderKind = "sale"
	KindBlock OrderKind = "block"
)

// Order is a request for seats and what became of it.
type Order struct {
	No          OrderNo
	Attempt     int32
	Version     int64 // grows with every transition; events carry it
	Show        ShowID
	User        UserID
	Kind        OrderKind
	State       OrderState
	Items       []OrderItem // sorted by seat; kept when the order ends
	Total       Money       // of all items when the order was made
	Key         string      // idempotency key, unique per user; "" for none
	Fingerprint Fingerprint
	TakenAt     time.Time // the seat store's clock
	Deadline    time.Time // the seat store's clock; zero for a block
	Cap         time.Time
	Extended    bool // the one extension was used
	Device      Device
	Reason      string // of a block
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// OrderItem is one seat of an order.
type OrderItem struct {
	Seat     SeatID
	Price    int64 // minor units
	Refunded bool  // given back; the seat is no longer the order's
}

// Owner returns the name under which the order's present attempt owns seats.
func (o *Order) Owner() Owner { return Owner{o.No, o.Attempt} }

// Seats returns the ids of the order's seats that are not refunded.
func (o *Order) Seats() []SeatID {
	ids := make([]SeatID, 0, len(o.Items))
	for i := range o.Items {
		if !o.Items[i].Refunded {
			ids = append(ids, o.Items[i].Seat)
		}
	}
	return ids
}

// Record returns the order as the view should keep it, and false when it has
// no seats.
func (o *Order) Record() (OrderRecord, bool) {
	r := OrderRecord{Owner: o.Owner(), User: o.User, Seats: o.Seats(), TakenAt: o.TakenAt, Cap: o.Cap,
		KeyHash: HashKey(o.User, o.Key)}
	switch o.State {
	case OrderPending:
		r.State, r.Deadline = Held, o.Deadline
	case OrderPaid:
		r.State = Sold
	case OrderBlocked:
		r.State = Blocked
	default:
		return OrderRecord{}, false
	}
	return r, len(r.Seats) > 0
}

// EventType names an entry of an order's history.
type EventType string

// The types of order event.
const (
	EventCreated        EventType = "order.created"
	EventPaymentStarted EventType = "order.payment_started"
	EventExtended       EventType = "order.extended"
	EventPaid           EventType = "order.paid"
	EventReseated       EventType = "order.reseated" // paid after it had ended; the same seats again
	EventCancelled      EventType = "order.cancelled"
	EventCancelRepeated EventType = "order.cancel_repeated" // a cancel call that changed nothing
	EventExpired        EventType = "order.expired"
	EventRefundDue      EventType = "order.refund_due" // money that goes back
	EventRefunded       EventType = "order.refunded"   // seats given back, all or some
	EventBlocked        EventType = "seats.blocked"
	EventUnblocked      EventType = "seats.unblocked"
	EventVoided         EventType = "order.voided"
)

// OrderEvent is an entry of the append-only history of orders; each is also
// what the outbox publishes.
type OrderEvent struct {
	ID      int64
	Order   OrderNo
	Version int64
	Type    EventType
	From    OrderState
	To      OrderState
	Seats   []SeatID // concerned
	Actor   Actor
	At      time.Time
}
