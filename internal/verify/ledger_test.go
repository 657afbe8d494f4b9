package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"seatflow"
	"seatflow/internal/testkit"
)

// fails checks that exactly the named invariant is violated, and that it says
// how.
func fails(t *testing.T, r Report, invariant, text string) {
	t.Helper()
	if r.OK() || r.Violations() == 0 {
		t.Fatalf("nothing was found: %+v", r)
	}
	found := false
	for _, c := range r.Checks {
		if c.OK != (len(c.Violations) == 0) {
			t.Errorf("%s is %v with violations %q", c.Name, c.OK, c.Violations)
		}
		for _, v := range c.Violations {
			found = found || c.Invariant == invariant && strings.Contains(v, text)
		}
		if !c.OK && c.Invariant != invariant {
			t.Errorf("%s (%s) failed as well: %q", c.Name, c.Invariant, c.Violations)
		}
	}
	if !found {
		t.Errorf("%s does not say %q: %+v", invariant, text, r)
	}
}

func holds(t *testing.T, r Report) {
	t.Helper()
	if !r.OK() {
		t.Fatalf("violations: %+v", r)
	}
}

func TestLedgerHolds(t *testing.T) {
	w := newWorld(t)
	r := Ledger(t.Context(), w.ledger)
	holds(t, r)
	if c := r.Checks[0].Counts; c["active seats"] != 5 || c["distinct seats"] != 5 || c["orders paid"] != 1 || c["orders blocked"] != 1 {
		t.Errorf("counts %v", c)
	}
	if c := r.Checks[1].Counts; c["captures"] != 1 || c["paid"] != 1 {
		t.Errorf("counts %v", c)
	}
}

func TestLedgerFindsWhatIsBroken(t *testing.T) {
	for name, tc := range map[string]struct {
		statements []string
		invariant  string
		text       string
	}{
		"a seat sold twice": {[]string{
			"CREATE TABLE loose AS SELECT * FROM order_seat", "DROP TABLE order_seat", "ALTER TABLE loose RENAME TO order_seat",
			fmt.Sprintf("INSERT INTO order_seat (show_id, seat_id, order_no) VALUES (1, 3, '%s')", orderNo(1)),
		}, I1, "two active orders: show 1 seat 3"},
		"a unique key that is gone": {[]string{
			"CREATE TABLE loose AS SELECT * FROM order_seat", "DROP TABLE order_seat", "ALTER TABLE loose RENAME TO order_seat",
		}, I1, "missing unique key: uk_order_seat_show_seat"},
		"occupancy lost":              {[]string{"DELETE FROM order_seat WHERE seat_id = 4"}, I1, "without its occupancy: show 1 seat 4"},
		"occupancy of nobody":         {[]string{"INSERT INTO order_seat (show_id, seat_id, order_no) VALUES (1, 7, 'nobody')"}, I1, "without its order: show 1 seat 7"},
		"an order in no known state":  {[]string{"UPDATE order_info SET state = 'lost' WHERE state = 'blocked'"}, I1, `in state "lost"`},
		"money without an ending":     {[]string{"UPDATE payment SET ending = 'none'"}, I2, "1 captures have 0 endings"},
		"a refund that is not there":  {[]string{"UPDATE payment SET ending = 'refund'"}, I2, "ending: sandbox capture"},
		"paid without money":          {[]string{"DELETE FROM payment"}, I2, "paid without money"},
		"unknown with a known order":  {[]string{"UPDATE payment SET ending = 'unknown'"}, I2, "ending: sandbox capture"},
		"a capture of a lost payment": {[]string{"UPDATE payment SET capture_id = NULL"}, I2, "no capture id"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.sql(tc.statements...)
			fails(t, Ledger(t.Context(), w.ledger), tc.invariant, tc.text)
		})
	}
}

// audits answers with a fixed audit.
type audits struct {
	seatflow.FactsReader
	a   seatflow.LedgerAudit
	err error
}

func (a audits) Audit(context.Context) (seatflow.LedgerAudit, error) { return a.a, a.err }

func TestLedgerPassesOnEveryFinding(t *testing.T) {
	if !Ledger(t.Context(), audits{}).OK() {
		t.Error("an empty ledger is not in order")
	}
	for name, tc := range map[string]struct {
		a         seatflow.LedgerAudit
		invariant string
	}{
		"double":    {seatflow.LedgerAudit{DoubleSeats: []string{"x"}}, I1},
		"orphan":    {seatflow.LedgerAudit{OrphanSeats: []string{"x"}}, I1},
		"missing":   {seatflow.LedgerAudit{MissingSeats: []string{"x"}}, I1},
		"counts":    {seatflow.LedgerAudit{ActiveSeats: 2, DistinctSeats: 1}, I1},
		"index":     {seatflow.LedgerAudit{MissingIndexes: []string{"x"}}, I1},
		"integrity": {seatflow.LedgerAudit{IntegrityFaults: []string{"x"}}, I1},
		"ending":    {seatflow.LedgerAudit{BadEndings: []string{"x"}}, I2},
		"cash":      {seatflow.LedgerAudit{PaidWithoutCash: []string{"x"}}, I2},
		"captures":  {seatflow.LedgerAudit{Captures: 3, EndingPaid: 1, EndingRefund: 1}, I2},
	} {
		t.Run(name, func(t *testing.T) { fails(t, Ledger(t.Context(), audits{a: tc.a}), tc.invariant, "") })
	}
}

func TestACheckThatCannotLookFails(t *testing.T) {
	w := newWorld(t)
	broken := errors.New("disk on fire")
	for _, method := range []string{"Audit", "Facts", "Show", "Hall", "Plan", "Shows", "Order", "PaymentsOf"} {
		f := testkit.NewFaultyLedger(w.ledger)
		f.On(method, testkit.FailBefore(broken))
		r := All(t.Context(), f, w.seats, nil, strings.NewReader(line(OpPay, w.paid, "paid")+line(OpOrder, w.gone(), "pending")))
		if r.OK() || !strings.Contains(fmt.Sprint(r), broken.Error()) {
			t.Errorf("%s failed and the report says %+v", method, r)
		}
	}
	f := testkit.NewFaultySeats(w.seats)
	f.On("Snapshot", testkit.FailBefore(broken))
	fails(t, View(t.Context(), w.ledger, f, w.show.ID), I4, broken.Error())
}
