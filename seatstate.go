package seatflow

// SeatState is a seat's state in the view. Its value is the character that
// stands for the seat in a house's text form.
type SeatState byte

// The states of a seat.
const (
	Available SeatState = '0'
	Held      SeatState = '1'
	Sold      SeatState = '2'
	Blocked   SeatState = 'x'
	NoSeat    SeatState = '-' // no such seat in this plan version; no edge leaves it
)

// States lists every state, in the order in which counts are reported.
var States = [...]SeatState{Available, Held, Sold, Blocked, NoSeat}

// Valid reports whether s is one of the states.
func (s SeatState) Valid() bool {
	switch s {
	case Available, Held, Sold, Blocked, NoSeat:
		return true
	}
	return false
}

// Owned reports whether a seat in state s has an owner.
func (s SeatState) Owned() bool { return s == Held || s == Sold || s == Blocked }

// String returns the word for s that people and the public API use.
func (s SeatState) String() string {
	switch s {
	case Available:
		return "available"
	case Held:
		return "held"
	case Sold:
		return "sold"
	case Blocked:
		return "blocked"
	case NoSeat:
		return "none"
	}
	return "invalid"
}

// Occupied is 1 for a state that takes up a place and 0 otherwise; the
// difference over an edge is the delta of a public seat event.
func (s SeatState) Occupied() int {
	if s.Owned() {
		return 1
	}
	return 0
}

// Verb is an operation on seat state.
type Verb uint8

// The verbs of the protocol. Rebuild and Repair may set any seat of the plan
// to any state, fenced by generation and by what the caller saw.
const (
	VerbHold Verb = iota + 1
	VerbExtend
	VerbSell
	VerbRelease
	VerbUnsell
	VerbBlock
	VerbUnblock
	VerbRebuild
	VerbRepair
)

var verbNames = [...]string{"", "hold", "extend", "sell", "release", "unsell", "block", "unblock", "rebuild", "repair"}

// String returns the verb in lower case.
func (v Verb) String() string {
	if int(v) < len(verbNames) {
		return verbNames[v]
	}
	return "invalid"
}

// Edge is one allowed transition of a seat.
type Edge struct {
	Verb     Verb
	From, To SeatState
	// OwnerOnly: the seat's present owner alone may take this edge.
	OwnerOnly bool
}

// Transitions is the seat state machine, whole. Stores call [Next], which
// reads it; nothing else in the system decides what a seat may become.
var Transitions = [...]Edge{
	{VerbHold, Available, Held, false},
	{VerbExtend, Held, Held, true},
	{VerbSell, Held, Sold, true},
	{VerbSell, Sold, Sold, true}, // a repeat is a no-op
	{VerbRelease, Held, Available, true},
	{VerbUnsell, Held, Available, true},
	{VerbUnsell, Sold, Available, true},
	{VerbBlock, Available, Blocked, false},
	{VerbBlock, Blocked, Blocked, true}, // a repeat is a no-op
	{VerbUnblock, Blocked, Available, true},
}

// Next returns the state that verb leads to from a seat in state from that
// the caller owns or not, and false when there is no such edge.
func Next(verb Verb, from SeatState, owned bool) (SeatState, bool) {
	for i := range Transitions {
		e := &Transitions[i]
		if e.Verb == verb && e.From == from && (owned || !e.OwnerOnly) {
			return e.To, true
		}
	}
	return from, false
}
