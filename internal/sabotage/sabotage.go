// Package sabotage breaks the core on purpose, so that what checks it can be
// checked: each Break turns one line of the real code into a fault that this
// kind of system is known for, and the simulation must find it.
//
// Nothing is broken unless a test says so, and then until that test ends. The
// code asks [On] where it could be broken, which costs one atomic read.
package sabotage

import "sync/atomic"

// Break is a fault of the code.
type Break uint32

// The breaks, each named after what is wrong with the code while it is on.
const (
	SkipOwnerCheck      Break = 1 << iota // a seat is given back, sold or repaired whoever has it by then
	ReuseAttempt                          // seats taken again for an ended order go by its old attempt
	PublishBeforeCommit                   // the view, and every map, says sold before the payment is committed
	LimitOutsideStep                      // a user's limit is read before the step that takes the seats
	ForgetRelease                         // a hold is not given back when what follows it fails
	KeepGeneration                        // a view is rebuilt under the generation of the one before
	NoGrace                               // the reconciler judges what is under way
	TrustSelect                           // a row that is not found is believed never to come
	AcceptTwice                           // a callback that comes again is another one
	FreeBeforeLedger                      // a cancelled order's seats are free before it is cancelled
)

// All lists the breaks by name.
var All = []struct {
	Name  string
	Break Break
}{
	{"skip the owner check", SkipOwnerCheck},
	{"reuse an attempt number", ReuseAttempt},
	{"publish before commit", PublishBeforeCommit},
	{"read the limit outside the step", LimitOutsideStep},
	{"forget release on failure", ForgetRelease},
	{"rebuild without raising the generation", KeepGeneration},
	{"reconcile without grace", NoGrace},
	{"trust a SELECT for absence", TrustSelect},
	{"accept a callback twice", AcceptTwice},
	{"free seats before the ledger", FreeBeforeLedger},
}

var on atomic.Uint32

// On reports whether the code is broken in this way.
func On(b Break) bool { return on.Load()&uint32(b) != 0 }

// TB is the part of testing.TB that [Do] needs; only tests have one.
type TB interface {
	Helper()
	Cleanup(func())
}

// Do breaks the code until the test ends. Tests that run beside it are broken
// too.
func Do(t TB, b Break) {
	t.Helper()
	on.Or(uint32(b))
	t.Cleanup(func() { on.And(^uint32(b)) })
}
