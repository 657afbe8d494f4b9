package seatflow

import (
	"context"
	"errors"
	"time"
)

// PaymentProvider takes money. Callbacks may come late, twice, out of order
// or never.
type PaymentProvider interface {
	// Name is stable and stands in the ledger.
	Name() string
	// Start begins a payment of an order's total. It may be retried with the
	// same order.
	Start(ctx context.Context, req PaymentRequest) (Checkout, error)
	// Verify checks a callback's signature over its raw bytes before it reads
	// them. It returns ErrBadSignature for a wrong, missing or too old one.
	Verify(header func(name string) string, body []byte) (PaymentEvent, error)
	// Refund gives money back. The refund's id is the provider's idempotency
	// key, so it may be retried until it succeeds.
	Refund(ctx context.Context, refund Refund) error
}

// ErrBadSignature: a callback that the provider did not sign.
var ErrBadSignature = errors.New("seatflow: bad callback signature")

// PaymentRequest asks a provider for a payment.
type PaymentRequest struct {
	Order OrderNo
	Total Money
}

// Checkout tells the buyer where to pay.
type Checkout struct {
	Provider string
	Ref      string // the provider's name for this payment
	URL      string // where the buyer pays; a path on this server for the sandbox
}

// PaymentEventType is what a callback reports.
type PaymentEventType string

// The types of payment event. Only captures move money.
const (
	PaymentCaptured PaymentEventType = "payment.captured"
	PaymentFailed   PaymentEventType = "payment.failed"
)

// PaymentEvent is a verified callback.
type PaymentEvent struct {
	Provider  string
	EventID   string // unique per provider; a repeat is recognised by it
	CaptureID string // unique per provider; "" unless captured
	Type      PaymentEventType
	Order     OrderNo
	Amount    Money
	At        time.Time
}

// PaymentEnding is what became of a payment event. Every captured payment has
// exactly one.
type PaymentEnding string

// The endings.
const (
	EndingPaid     PaymentEnding = "paid"     // it paid its order
	EndingReseated PaymentEnding = "reseated" // it paid an order that had ended: the same seats, next attempt
	EndingRefund   PaymentEnding = "refund"   // a refund is recorded
	EndingUnknown  PaymentEnding = "unknown"  // no such order: staff settle it
	EndingNone     PaymentEnding = "none"     // no money moved
)

// PaymentOutcome is the ledger's decision on a payment event.
type PaymentOutcome struct {
	Ending PaymentEnding
	Repeat bool    // the event was known already; nothing changed
	Order  Order   // as it stands now; zero for an unknown one
	Refund *Refund // with EndingRefund
}

// Payment is a stored payment event.
type Payment struct {
	ID     int64
	Event  PaymentEvent
	Ending PaymentEnding
	At     time.Time
}

// RefundReason says why money goes back.
type RefundReason string

// The reasons for a refund.
const (
	RefundSecondCapture RefundReason = "second_capture"
	RefundWrongAmount   RefundReason = "wrong_amount"
	RefundWrongCurrency RefundReason = "wrong_currency"
	RefundOrderEnded    RefundReason = "order_ended" // and its seats were gone
	RefundByStaff       RefundReason = "staff"
)

// Refund is money to give back.
type Refund struct {
	ID        string // the provider's idempotency key
	Provider  string
	CaptureID string
	Order     OrderNo
	Amount    Money
	Reason    RefundReason
	Done      bool
	CreatedAt time.Time
}
