// Package seatflow holds the words of a system that sells and reserves
// numbered seats, and the rules that every part of it obeys.
//
// # Facts and view
//
// Two stores, two jobs. The [Ledger] holds the facts: who bought what, and
// which seats are blocked; a unique key on (show, seat) makes a double sale
// impossible whatever else fails. The [SeatStore] holds the view: may this
// seat be taken right now? It answers in one atomic step and may be lost at
// any moment, because it can always be rebuilt from the facts.
//
// Only taking a seat starts in the view (hold, then insert). Every other
// change commits in the ledger first and is told to the view afterwards, so
// that whatever is interrupted leaves a remnant with a name and a repair, and
// never a seat sold twice.
//
// # State model
//
// A seat's state in the view moves along the edges of [Transitions] and
// nowhere else. Each change names its [Owner] (an order and its attempt); a
// change by anyone else does nothing, so that callbacks, time-outs,
// cancellations and repairs may be retried freely, in any order.
//
// An order moves along the edges of [OrderState.CanBecome], each a
// compare-and-set in the ledger: of two racing edges exactly one wins.
//
// # Failure
//
// A missing or suspect view sells nothing until it is rebuilt
// ([OutcomeNotReady]). An unknown outcome is never reported as "taken": see
// [ErrUnknownOutcome] and [ErrUnknownCommit]. Generations fence a rebuild
// against orders in flight: see [Generation].
//
// This package does no I/O and imports the standard library only.
package seatflow
