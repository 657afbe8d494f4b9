package seatflow

import (
	"errors"
	"fmt"
	"time"
)

// Code is the stable number of an error that a caller may see.
type Code int

// The codes. Their numbers never change.
const (
	CodeInvalid       Code = 1000 // malformed or invalid request
	CodeUnauthorized  Code = 1001 // no token, or a bad one
	CodeForbidden     Code = 1002 // the role does not allow it
	CodeNotFound      Code = 1003 // not there, or not yours
	CodeKeyReused     Code = 1004 // idempotency key reused with another body
	CodeInFlight      Code = 1005 // a request with that key is still in flight
	CodeRateLimited   Code = 1029 // over a rate limit, or the queue is full
	CodeSystem        Code = 2000 // system error
	CodeNotReady      Code = 2003 // seat state or a backend is not ready
	CodeNoShow        Code = 3001 // the show does not exist, is not given or is closed
	CodeSeatsTaken    Code = 3002 // at least one seat is taken
	CodeSlotHeld      Code = 3003 // you already hold this slot
	CodeOverLimit     Code = 3004 // over the purchase limit
	CodeWrongState    Code = 3005 // the order is not in a state that allows this
	CodeOverDaily     Code = 3006 // over the daily limit
	CodeNoRoom        Code = 3007 // the room does not exist or is off
	CodeNotOnSale     Code = 3008 // not on sale yet, or no longer
	CodeSlotStarted   Code = 3009 // the slot has started
	CodeNoSeat        Code = 3010 // the seat does not exist, is off or is elsewhere
	CodeSlotSeatTaken Code = 3011 // the seat is taken in this slot
)

// Status returns the HTTP status of the code.
func (c Code) Status() int {
	switch c {
	case CodeInvalid:
		return 400
	case CodeUnauthorized:
		return 401
	case CodeForbidden:
		return 403
	case CodeNotFound, CodeNoShow, CodeNoRoom, CodeNoSeat:
		return 404
	case CodeKeyReused:
		return 422
	case CodeInFlight, CodeSeatsTaken, CodeSlotHeld, CodeOverLimit, CodeWrongState,
		CodeOverDaily, CodeNotOnSale, CodeSlotStarted, CodeSlotSeatTaken:
		return 409
	case CodeRateLimited:
		return 429
	case CodeNotReady:
		return 503
	}
	return 500
}

// Codes lists every code.
var Codes = [...]Code{
	CodeInvalid, CodeUnauthorized, CodeForbidden, CodeNotFound, CodeKeyReused, CodeInFlight,
	CodeRateLimited, CodeSystem, CodeNotReady, CodeNoShow, CodeSeatsTaken, CodeSlotHeld,
	CodeOverLimit, CodeWrongState, CodeOverDaily, CodeNoRoom, CodeNotOnSale, CodeSlotStarted,
	CodeNoSeat, CodeSlotSeatTaken,
}

// Reason refines a code for the detail text, which the transport gives in the
// caller's language. The zero reason stands for the code's own text.
type Reason string

// The reasons. Args of the [Error] fill the places in their texts.
const (
	ReasonNone            Reason = ""
	ReasonField           Reason = "field"            // Field is invalid: Args[0] in English, from validation
	ReasonKeyMismatch     Reason = "key_mismatch"     // header and body carry different keys
	ReasonKeyInvalid      Reason = "key_invalid"      // not 1–64 printable characters
	ReasonNoSeats         Reason = "no_seats"         // an empty list
	ReasonTooManySeats    Reason = "too_many_seats"   // Args[0]: the most
	ReasonRepeatedSeat    Reason = "repeated_seat"    // Args[0]: the seat
	ReasonNotOnSaleYet    Reason = "not_on_sale_yet"  // Args[0]: RFC 3339
	ReasonSaleOver        Reason = "sale_over"        //
	ReasonOverLimit       Reason = "over_limit"       // Args[0]: the limit, Args[1]: seats left
	ReasonOrderState      Reason = "order_state"      // Args[0]: the state
	ReasonExtendedAlready Reason = "extended_already" //
	ReasonHoldLost        Reason = "hold_lost"        // the hold ended meanwhile
	ReasonRebuilding      Reason = "rebuilding"       // the seat map is being rebuilt
	ReasonLedgerDown      Reason = "ledger_down"      //
	ReasonOutcomeUnknown  Reason = "outcome_unknown"  // ask again with the same key
	ReasonBadSignature    Reason = "bad_signature"    //
	ReasonNoProvider      Reason = "no_provider"      // Args[0]: its name
	ReasonPlanFaults      Reason = "plan_faults"      // Args[0]: how many; Faults lists them
	ReasonVersion         Reason = "version"          // someone else changed it meanwhile
)

// Reasons lists every reason but the zero one.
var Reasons = [...]Reason{
	ReasonField, ReasonKeyMismatch, ReasonKeyInvalid, ReasonNoSeats, ReasonTooManySeats,
	ReasonRepeatedSeat, ReasonNotOnSaleYet, ReasonSaleOver, ReasonOverLimit, ReasonOrderState,
	ReasonExtendedAlready, ReasonHoldLost, ReasonRebuilding, ReasonLedgerDown,
	ReasonOutcomeUnknown, ReasonBadSignature, ReasonNoProvider, ReasonPlanFaults, ReasonVersion,
}

// Error is what a caller may see of a failure. Any other error is internal:
// logged once and shown as a system error.
type Error struct {
	Code       Code
	Reason     Reason
	Args       []any
	Field      string        // the JSON path of an invalid value, e.g. "seats[3]"
	Seats      []SeatID      // CodeSeatsTaken, CodeNoSeat: which
	Available  []SeatID      // CodeSeatsTaken: which of the asked ones are still free
	Order      *Order        // CodeWrongState: the order as it is
	Faults     []string      // ReasonPlanFaults
	RetryAfter time.Duration // CodeNotReady, CodeRateLimited
	Err        error         // the cause, for the log only
}

// Error implements error; the text is for logs.
func (e *Error) Error() string {
	s := fmt.Sprintf("seatflow: error %d", e.Code)
	if e.Reason != "" {
		s += " (" + string(e.Reason) + ")"
	}
	if e.Field != "" {
		s += " at " + e.Field
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code that a caller is shown for err: its own, or
// CodeSystem.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeSystem
}

// ErrLocked: a lease that another holder has.
var ErrLocked = errors.New("seatflow: locked")
