package main

import (
	"context"
	"errors"
)

// Result is what became of one request for seats.
type Result uint8

// The results.
const (
	// Bought: the seats are the user's, and that is stored.
	Bought Result = iota + 1
	// Taken: a seat is another's.
	Taken
	// Busy: nothing is known of the seats; the guard could not be had in time.
	Busy
)

// String names a result.
func (r Result) String() string {
	switch r {
	case Bought:
		return "bought"
	case Taken:
		return "taken"
	case Busy:
		return "busy"
	}
	return "nothing"
}

// Request asks for seats of one show, all or none.
type Request struct {
	User  string
	Show  int   // from 1
	Seats []int // from 1, distinct, in the order in which the buyer clicked
}

// Sale is one order as a strategy stored it.
type Sale struct {
	User  string
	Show  int
	Seats []int
}

// Strategy is a way to see to it that a seat is sold once.
type Strategy interface {
	// Take asks for seats. An error says nothing of them.
	Take(ctx context.Context, r Request) (Result, error)
	// Sales reads what is stored, each order once. It is called while nobody
	// takes seats.
	Sales(ctx context.Context, each func(Sale)) error
	// Close frees what the strategy has open.
	Close() error
}

// deadlocker is a strategy whose store breaks deadlocks.
type deadlocker interface{ Deadlocks() int64 }

// House is what is sold: shows 1…Shows() in halls of PerHall shows each, and
// behind them three shows that only the probes use (see probe).
type House struct {
	Halls   int
	PerHall int
	Seats   int // of a show
}

// probeSeats is the size of the shows that the probes use.
const probeSeats = 100

// Shows is how many are sold in the measured run.
func (h House) Shows() int { return h.Halls * h.PerHall }

// Hall is the hall of a show. The first two of the probes' shows share one,
// the third is in another.
func (h House) Hall(show int) int {
	if n := show - h.Shows(); n > 0 {
		return h.Halls + 1 + n/3
	}
	return (show-1)/h.PerHall + 1
}

// All is the number of shows, the probes' included.
func (h House) All() int { return h.Shows() + 3 }

// SeatsOf is the number of seats in a show.
func (h House) SeatsOf(show int) int {
	if show > h.Shows() {
		return probeSeats
	}
	return h.Seats
}

// errDied is what a simulated death makes a strategy return, without cleaning
// up after itself.
var errDied = errors.New("strategies: the taker died here")

type betweenKey struct{}

// withBetween has strategies call a function where an interruption hurts most:
// between the check (or the guard) and the act. If it returns an error the
// strategy ends there as if its process had been killed.
func withBetween(ctx context.Context, between func() error) context.Context {
	return context.WithValue(ctx, betweenKey{}, between)
}

// interrupted reports whether the context carries such a function.
func interrupted(ctx context.Context) bool { return ctx.Value(betweenKey{}) != nil }

// between calls the context's function, if there is one.
func between(ctx context.Context) error {
	if f, ok := ctx.Value(betweenKey{}).(func() error); ok {
		return f()
	}
	return nil
}
