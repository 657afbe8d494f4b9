// Package conformance holds one suite for each port: what every backend of it
// must do, sentence by sentence of the contract, with exact counts where
// callers race. A backend's own tests call the suite with a factory:
//
//	func TestConformance(t *testing.T) {
//		conformance.SeatStore(t, func(t conformance.TB) conformance.Seats { … })
//	}
//
// A backend that differs says so in what its factory returns; nothing is
// skipped on the spot.
//
// # A second opinion
//
// A suite knows only the sequences its author thought of. [Differential] makes
// up its own: the same random operations go to two stores, and every reply,
// revision, change and whole view must be equal after each. [Model] is a seat
// store that is slow and plain enough to be believed; what a backend does
// otherwise is shown as the shortest sequence that still shows it.
//
// # Checking the checkers
//
// The suites ask a test for no more than [TB], so that they can be run against
// stores that are broken on purpose and be seen to fail.
//
// It is imported from tests only.
package conformance
