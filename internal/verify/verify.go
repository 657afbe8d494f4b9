// Package verify checks what must always hold of a house that sells seats. It
// reads, compares and reports; it never repairs.
//
//   - I1: at most one active order a seat and show, and the unique keys that
//     promise it exist ([Ledger]).
//   - I2: every captured payment has exactly one ending ([Ledger]).
//   - I3: nothing that was acknowledged is lost ([Acked], against a log that
//     the load tools write).
//   - I4: the view of a show equals what follows from its facts ([View]).
//
// # Live traffic
//
// The ledger's own checks are consistent reads and hold at any moment. The
// view is told of most changes after they committed, so beside live traffic
// it differs from the facts for the length of a request. [View] therefore
// looks again: a difference counts only when every look shows the very same
// one, owner included. Taking a seat starts in the view; a hold whose order
// never came is left to the guardian for a grace time, which [WithGrace]
// tolerates on request.
//
// # Failure
//
// A check that could not look has failed: an error of a port is a violation
// of the check that met it, never a gap in the report. A report without
// checks is not in order either.
package verify

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"seatflow"
)

// The invariants, as reports name them.
const (
	I1 = "I1"
	I2 = "I2"
	I3 = "I3"
	I4 = "I4"
)

// maxViolations bounds what one check lists; Counts["violations"] has all.
const maxViolations = 50

// Check is the result of one checker.
type Check struct {
	Name       string           `json:"name"`
	Invariant  string           `json:"invariant"`
	OK         bool             `json:"ok"`
	Counts     map[string]int64 `json:"counts,omitempty"`
	Violations []string         `json:"violations,omitempty"`
	Note       string           `json:"note,omitempty"`
}

// violate records that the check failed and how.
func (c *Check) violate(format string, args ...any) {
	c.OK = false
	c.Counts["violations"]++
	if len(c.Violations) < maxViolations {
		c.Violations = append(c.Violations, fmt.Sprintf(format, args...))
	}
}

func (c *Check) violateAll(what string, list []string) {
	for _, v := range list {
		c.violate("%s: %s", what, v)
	}
}

func newCheck(invariant, name string) Check {
	return Check{Name: name, Invariant: invariant, OK: true, Counts: map[string]int64{}}
}

// Report is the result of a verification.
type Report struct {
	At     time.Time `json:"at"`
	Checks []Check   `json:"checks"`
}

// OK reports whether something was checked and nothing failed.
func (r Report) OK() bool {
	for i := range r.Checks {
		if !r.Checks[i].OK {
			return false
		}
	}
	return len(r.Checks) > 0
}

// Violations counts what failed.
func (r Report) Violations() int64 {
	var n int64
	for i := range r.Checks {
		n += r.Checks[i].Counts["violations"]
	}
	return n
}

// add appends the checks of another report.
func (r *Report) add(q Report) { r.Checks = append(r.Checks, q.Checks...) }

func report(checks ...Check) Report {
	return Report{At: time.Now().UTC(), Checks: checks}
}

// Ledger checks I1 and I2, which the ledger holds by itself.
func Ledger(ctx context.Context, ledger seatflow.FactsReader) Report {
	seats := newCheck(I1, "one active order a seat and show")
	money := newCheck(I2, "one ending for every captured payment")
	file := newCheck(I1, "database and unique keys")
	a, err := ledger.Audit(ctx)
	if err != nil {
		for _, c := range []*Check{&seats, &money, &file} {
			c.violate("the ledger could not be read: %v", err)
		}
		return report(seats, money, file)
	}
	for state, n := range a.Orders {
		seats.Counts["orders "+string(state)] = n
	}
	seats.Counts["active seats"] = a.ActiveSeats
	seats.Counts["distinct seats"] = a.DistinctSeats
	seats.violateAll("two active orders", a.DoubleSeats)
	seats.violateAll("occupancy without its order", a.OrphanSeats)
	seats.violateAll("active order without its occupancy", a.MissingSeats)
	if a.ActiveSeats != a.DistinctSeats {
		seats.violate("%d seats are in active orders, but only %d distinct ones", a.ActiveSeats, a.DistinctSeats)
	}
	for state, n := range a.Orders {
		if n < 0 || !knownState(state) {
			seats.violate("%d orders are in state %q", n, state)
		}
	}

	file.violateAll("missing unique key", a.MissingIndexes)
	file.violateAll("database", a.IntegrityFaults)

	money.Counts["captures"] = a.Captures
	money.Counts["paid"] = a.EndingPaid
	money.Counts["refund"] = a.EndingRefund
	money.Counts["unknown"] = a.EndingUnknown
	money.violateAll("ending", a.BadEndings)
	money.violateAll("paid without money", a.PaidWithoutCash)
	if sum := a.EndingPaid + a.EndingRefund + a.EndingUnknown; sum != a.Captures {
		money.violate("%d captures have %d endings", a.Captures, sum)
	}
	return report(seats, money, file)
}

func knownState(s seatflow.OrderState) bool {
	return slices.Contains([]seatflow.OrderState{seatflow.OrderPending, seatflow.OrderPaid, seatflow.OrderCancelled,
		seatflow.OrderExpired, seatflow.OrderRefunded, seatflow.OrderVoid, seatflow.OrderBlocked}, s)
}

// Facts is what of a ledger the checks of this package read.
type Facts interface {
	seatflow.FactsReader
	seatflow.Catalog
	Order(ctx context.Context, no seatflow.OrderNo, user seatflow.UserID) (seatflow.Order, error)
	PaymentsOf(ctx context.Context, no seatflow.OrderNo) ([]seatflow.Payment, error)
}

// All runs every check: I1 and I2, I3 when there is a log of acknowledgements
// (acked may be nil), and I4 for the shows listed (nil: every show) when there
// is a view (seats may be nil).
func All(ctx context.Context, ledger Facts, seats seatflow.SeatStore, shows []seatflow.ShowID, acked io.Reader, opts ...Option) Report {
	r := Ledger(ctx, ledger)
	if acked != nil {
		r.add(Acked(ctx, ledger, acked))
	}
	if seats == nil {
		c := newCheck(I4, "view equals facts")
		c.Note = "not looked at: there is no view while the server is down"
		r.Checks = append(r.Checks, c)
		return r
	}
	if shows == nil {
		var err error
		if shows, err = everyShow(ctx, ledger); err != nil {
			c := newCheck(I4, "view equals facts")
			c.violate("the shows could not be listed: %v", err)
			r.Checks = append(r.Checks, c)
		}
	}
	for _, id := range shows {
		r.add(View(ctx, ledger, seats, id, opts...))
	}
	return r
}

func everyShow(ctx context.Context, catalog seatflow.Catalog) ([]seatflow.ShowID, error) {
	const page = 100
	var ids []seatflow.ShowID
	for after := seatflow.ShowID(0); ; {
		shows, err := catalog.Shows(ctx, after, time.Time{}, page)
		if err != nil {
			return ids, err
		}
		for i := range shows {
			ids = append(ids, shows[i].ID)
		}
		if len(shows) < page {
			return ids, nil
		}
		after = shows[len(shows)-1].ID
	}
}
