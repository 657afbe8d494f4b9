package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/reconcile"
	"seatflow/internal/testkit"
)

// Sold seats that the ledger knows nothing of: up to a hundredth are released,
// more are left for a person, with everything else in that show.
func TestAlarmWhenTheLedgerMayHaveLostSomething(t *testing.T) {
	for name, prepare := range map[string]func(r *rig){
		"unknown orders": func(r *rig) {
			r.force(1, seatflow.Sold, stranger(1))
			r.force(2, seatflow.Sold, stranger(2))
		},
		"orders that the ledger calls pending": func(r *rig) {
			o := r.hold("ann", 1, 2)
			r.must(r.store.Sell(r.t.Context(), r.ref(), o.Owner()))
		},
		"before a rebuild": func(r *rig) { // which would forget them
			r.force(1, seatflow.Sold, stranger(1))
			r.force(2, seatflow.Sold, stranger(2))
			r.must(r.facts.RaiseGeneration(r.t.Context(), r.show, r.generation()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 200)
			r.sellOut(10, 150)
			other := r.hold("bob", 160)
			r.must(r.store.Release(t.Context(), r.ref(), other.Owner(), nil)) // would be repaired
			prepare(r)
			r.round() // remembers what has no age
			r.later()
			before, text := r.mustSnapshot(), r.ledgerText()
			rep := r.round()
			if len(rep.Alarms) != 1 || rep.Alarms[0].Show != r.show || rep.Alarms[0].Unaccounted != 2 || rep.Fixed() != 0 || rep.Clean() {
				t.Fatalf("%+v", rep)
			}
			if after := r.mustSnapshot(); after.Revision != before.Revision || r.ledgerText() != text {
				t.Error("something was changed beside an alarm")
			}
			if r.metric("seatflow_reconcile_shows_total", "outcome", "alarm") == "0" || !strings.Contains(r.log.String(), "level=ERROR") {
				t.Error("the alarm is not counted, or not logged as an error")
			}
			var table bytes.Buffer
			if err := rep.Print(&table); err != nil || !strings.Contains(table.String(), "ALARM") {
				t.Errorf("%v: %s", err, table.String())
			}
		})
	}
	for forced, alarms := range map[int]int{1: 0, 2: 1} { // of a hundred: exactly a hundredth is no alarm
		r := newRig(t, 200)
		r.sellOut(10, seatflow.SeatID(109-forced))
		for n := range forced {
			r.force(seatflow.SeatID(n+1), seatflow.Sold, stranger(n))
		}
		r.round()
		r.later()
		if rep := r.round(); len(rep.Alarms) != alarms || alarms == 0 && rep.FixedBy(seatflow.DriftOrphanSales) != 1 {
			t.Errorf("%d of 100: %+v", forced, rep)
		}
	}
}

func (r *rig) mustSnapshot() *seatflow.Snapshot {
	r.t.Helper()
	snap, err := r.store.Snapshot(r.t.Context(), r.ref(), seatflow.DetailOrders|seatflow.DetailUsers)
	if err != nil {
		r.t.Fatal(err)
	}
	return snap
}

// A dry run tells what there is and changes nothing, neither store.
func TestDryRun(t *testing.T) {
	r := newRig(t, 200)
	lost := r.addShow()
	r.sellOut(50, 200)
	r.holdView(lost)
	r.store.DropView(r.refOf(lost))
	due := r.hold("dee", 11)
	r.clock.Set(due.Deadline.Add(2 * grace))
	r.mixed(seatflow.ShowID(r.show))
	r.round(reconcile.RoundOptions{DryRun: true})
	r.later()
	before, text := r.mustSnapshot(), r.ledgerText()
	calls := r.ledger.Calls("VoidOrder") + r.ledger.Calls("RecordRepairs") + r.ledger.Calls("MoveRotation") + r.seats.Calls("Repair") + r.seats.Calls("Rebuild")
	dry := r.round(reconcile.RoundOptions{DryRun: true})
	dryOne := r.round(reconcile.RoundOptions{DryRun: true, Show: r.show})
	dryFew := r.round(reconcile.RoundOptions{DryRun: true, Shows: 1})
	if n := r.ledger.Calls("VoidOrder") + r.ledger.Calls("RecordRepairs") + r.ledger.Calls("MoveRotation") + r.seats.Calls("Repair") + r.seats.Calls("Rebuild"); n != calls {
		t.Errorf("%d changes were asked for", n-calls)
	}
	if after := r.mustSnapshot(); after.Revision != before.Revision || r.ledgerText() != text {
		t.Error("a dry run changed something")
	}
	if dry.Fixed() != 0 || dry.Clean() || !dry.DryRun || dry.Shows != 2 || dryOne.Shows != 1 || dryFew.Shows != 1 {
		t.Errorf("%+v", dry)
	}
	for _, c := range dry.Checks {
		if c.Left == 0 {
			t.Errorf("%s is not in the dry run", c.Check)
		}
	}
	// What it announced is what is done.
	real := r.round()
	r.agree(r.show)
	r.agree(lost)
	for i, c := range real.Checks {
		if c.Left != 0 || c.Fixed < dry.Checks[i].Left { // a rebuild brings up what is overdue
			t.Errorf("%s: %d fixed and %d left; the dry run said %d", c.Check, c.Fixed, c.Left, dry.Checks[i].Left)
		}
	}
	r.settled()

	var table bytes.Buffer
	if err := dry.Print(&table); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"nothing was changed", "paid_seats_fixed", "to be sold by", "to be expired", "to be built anew"} {
		if !strings.Contains(table.String(), text) {
			t.Errorf("the table lacks %q:\n%s", text, table.String())
		}
	}
	encoded, err := json.Marshal(real)
	if err != nil {
		t.Fatal(err)
	}
	var back reconcile.Report
	if err := json.Unmarshal(encoded, &back); err != nil || back.Fixed() != real.Fixed() || len(back.Repairs) != len(real.Repairs) ||
		back.Repairs[0].Cause == "" || back.ID != real.ID {
		t.Errorf("%v: %s", err, encoded)
	}
	if err := real.Print(failing{}); err == nil {
		t.Error("a table that could not be written is no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

// holdView gives a show a view that somebody has a seat in.
func (r *rig) holdView(show seatflow.ShowID) {
	r.t.Helper()
	r.holdIn(show, "zoe", 1)
}

// mixed makes a drift of every kind but the first and third in the first
// fifty seats of the show, whose crowd is elsewhere.
func (r *rig) mixed(seatflow.ShowID) {
	r.t.Helper()
	paid := r.buy("ann", 1, 2)
	pending := r.hold("bob", 3, 4)
	block, err := r.svc.Block(r.t.Context(), staff, r.show, []seatflow.SeatID{5, 6}, "camera")
	if err != nil {
		r.t.Fatal(err)
	}
	refunded := r.buy("cat", 7, 8)
	rule := r.seats.On("Unsell", testkit.FailBefore(seatflow.ErrUnknownOutcome))
	if _, _, err := r.svc.Refund(r.t.Context(), staff, refunded.No, []seatflow.SeatID{7}); err != nil {
		r.t.Fatal(err)
	}
	rule.Stop()
	r.must(r.store.Hold(r.t.Context(), seatflow.HoldRequest{Show: r.ref(), Owner: stranger(1), User: "eve",
		Seats: []seatflow.SeatID{9, 10}, For: 1 << 40, Cap: 1 << 40}))
	r.force(1, seatflow.Available, seatflow.Owner{})
	r.force(3, seatflow.Held, stranger(2))
	r.force(5, seatflow.Available, seatflow.Owner{})
	_, _, _ = paid, pending, block
}

// Everything wrong at once is right after one round.
func TestAllMixed(t *testing.T) {
	r := newRig(t, 200)
	r.sellOut(50, 200)
	r.mixed(r.show)
	text := r.ledgerText()
	r.round()
	r.later()
	rep := r.round()
	want(t, rep, map[seatflow.Drift]int{seatflow.DriftPaidSeats: 1, seatflow.DriftOrphanHolds: 2, seatflow.DriftOrphanSales: 1,
		seatflow.DriftPendingSeats: 1, seatflow.DriftDerived: 1})
	r.settled()
	after := r.ledgerText()
	if text = strings.Replace(text, "Orders:map[", "Orders:map[void:1 ", 1); !sameButVoid(text, after) {
		t.Errorf("the facts changed:\n%s\n%s", text, after)
	}
}

// sameButVoid compares ledger texts, whose audits count void rows.
func sameButVoid(a, b string) bool {
	strip := func(s string) string {
		s = strings.Replace(s, " void:1", "", 1)
		return strings.Replace(s, "void:1 ", "", 1)
	}
	return strip(a) == strip(b)
}

// At most a hundred repairs a check a round; the rest comes next.
func TestLimitOfARound(t *testing.T) {
	r := newRig(t, 400)
	r.sellOut(1, 250)
	o, err := r.svc.Block(t.Context(), staff, r.show, seatsOf(260, 399), "stand")
	if err != nil {
		t.Fatal(err)
	}
	for id := seatflow.SeatID(1); id <= 250; id++ {
		r.force(id, seatflow.Available, seatflow.Owner{})
	}
	r.must(r.store.Repair(t.Context(), seatflow.RepairRequest{Show: r.ref(), Generation: r.generation()})) // all at peace with it
	r.must(r.store.Unblock(t.Context(), r.ref(), o.Owner(), nil))
	r.later()
	for i, step := range []struct{ sold, soldLeft, blocked, blockedLeft int }{{100, 150, 100, 40}, {100, 50, 40, 0}, {50, 0, 0, 0}} {
		rep := r.round()
		c, d := rep.Checks[1], rep.Checks[6]
		if c.Fixed != step.sold || c.Left != step.soldLeft || d.Fixed != step.blocked || d.Left != step.blockedLeft {
			t.Errorf("round %d: %+v", i+1, rep.Checks)
		}
	}
	r.settled()
	if n := r.metric("seatflow_reconcile_fixed_total", "check", string(seatflow.DriftPaidSeats)); n != "250" {
		t.Errorf("%s paid seats counted", n)
	}
}

// A view that sells nothing because it does not add up, although every seat is
// right, is counted anew.
func TestRecountsWhatDoesNotFit(t *testing.T) {
	r := newRig(t, 20)
	o := r.buy("ann", 1, 2)
	r.later()
	want(t, r.round(), nil)
	// The seat goes from under its record and comes back without it.
	r.force(1, seatflow.Available, seatflow.Owner{})
	r.must(r.store.Repair(t.Context(), seatflow.RepairRequest{Show: r.ref(), Generation: r.generation()}))
	r.force(1, seatflow.Sold, o.Owner())
	if reply, err := r.store.Hold(t.Context(), seatflow.HoldRequest{Show: r.ref(), Owner: stranger(1), User: "eve",
		Seats: []seatflow.SeatID{9}, For: grace}); err != nil || reply.Outcome != seatflow.OutcomeNotReady {
		t.Fatalf("the view is usable: %+v, %v", reply, err)
	}
	want(t, r.round(), map[seatflow.Drift]int{seatflow.DriftDerived: 1})
	r.settled()
	if reply, err := r.store.Hold(t.Context(), seatflow.HoldRequest{Show: r.ref(), Owner: stranger(1), User: "eve",
		Seats: []seatflow.SeatID{9}, For: grace}); err != nil || reply.Outcome != seatflow.OutcomeHeld {
		t.Errorf("%+v, %v", reply, err)
	}
}

// A lease that another node has is not waited for.
func TestLockedShowIsSkipped(t *testing.T) {
	r := newRig(t, 20)
	other := r.addShow()
	r.holdIn(other, "bob", 1)
	r.store.DropView(r.refOf(other))
	r.store.DropView(r.ref())
	r.must(r.facts.RaiseGeneration(t.Context(), r.show, r.generation())) // it had a view
	locks := &locker{held: map[string]bool{"lock:reconcile:" + fmtInt(int(r.show)): true}}
	r.rec = r.reconciler(func(o *reconcile.Options) { o.Locker = locks })
	rep := r.round()
	if len(rep.Skipped) != 1 || rep.Skipped[0].Show != r.show || rep.FixedBy(seatflow.DriftView) != 1 || rep.Clean() {
		t.Errorf("%+v", rep)
	}
	if !strings.Contains(r.log.String(), "level=WARN msg=\"reconcile: show skipped") {
		t.Error("no warning")
	}
	if locks.lease != "30s" || locks.waited {
		t.Errorf("lease %s, waited %v", locks.lease, locks.waited)
	}
	// A dry run looks all the same.
	if rep := r.round(reconcile.RoundOptions{DryRun: true}); len(rep.Skipped) != 0 || rep.Left() != 1 {
		t.Errorf("%+v", rep)
	}
	locks.held = map[string]bool{}
	want(t, r.round(), map[seatflow.Drift]int{seatflow.DriftView: 1})
	if len(locks.held) != 0 {
		t.Errorf("leases were kept: %v", locks.held)
	}
}

// locker records what it is asked for.
type locker struct {
	held   map[string]bool
	lease  string
	waited bool
}

// TryLock implements seatflow.Locker.
func (l *locker) TryLock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	l.lease = lease.String()
	if l.held[name] {
		return nil, nil, seatflow.ErrLocked
	}
	l.held[name] = true
	return ctx, oneLock(func() { delete(l.held, name) }), nil
}

// Lock implements seatflow.Locker.
func (l *locker) Lock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	l.waited = true
	return l.TryLock(ctx, name, lease)
}

type oneLock func()

func (f oneLock) Release(context.Context) error { f(); return nil }

// An order that moves between the look and the repair makes the repair wrong;
// it is undone in the same round.
func TestOvertakenRepairIsUndone(t *testing.T) {
	for name, c := range map[string]struct {
		make func(r *rig) seatflow.Order
		move func(r *rig, o seatflow.Order)
	}{
		"cancelled while it is held again": {
			func(r *rig) seatflow.Order {
				o := r.hold("ann", 1, 2)
				r.must(r.store.Release(r.t.Context(), r.ref(), o.Owner(), nil))
				return o
			},
			func(r *rig, o seatflow.Order) { r.must(r.svc.Cancel(r.t.Context(), buyer("ann"), o.No)) },
		},
		"refunded while it is sold again": {
			func(r *rig) seatflow.Order {
				o := r.buy("ann", 1, 2)
				r.must(r.store.Unsell(r.t.Context(), r.ref(), o.Owner(), nil))
				return o
			},
			func(r *rig, o seatflow.Order) {
				if _, _, err := r.svc.Refund(r.t.Context(), staff, o.No, []seatflow.SeatID{1}); err != nil {
					r.t.Fatal(err)
				}
			},
		},
		"paid while it is held again": {
			func(r *rig) seatflow.Order {
				o := r.hold("ann", 1, 2)
				r.must(r.store.Release(r.t.Context(), r.ref(), o.Owner(), nil))
				return o
			},
			func(r *rig, o seatflow.Order) {
				// The view hears of it from the queue of what is owed to it.
				defer r.seats.On("Sell", testkit.FailBefore(seatflow.ErrUnknownOutcome)).Stop()
				r.pay(o)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			o := c.make(r)
			r.later()
			r.seats.On("Repair", testkit.Before(func() { c.move(r, o) }), testkit.Times(1))
			r.round()
			r.agree(r.show)
		})
	}
}

// Lost requests, lost replies and a ledger that is away: the round says so, and
// the next one finishes.
func TestFailuresOnTheWay(t *testing.T) {
	boom := errors.New("boom")
	for name, fail := range map[string]func(r *rig) *testkit.Rule{
		"snapshot": func(r *rig) *testkit.Rule { return r.seats.On("Snapshot", testkit.FailBefore(boom)) },
		"facts":    func(r *rig) *testkit.Rule { return r.ledger.On("Facts", testkit.FailBefore(boom)) },
		"order":    func(r *rig) *testkit.Rule { return r.ledger.On("Order", testkit.FailBefore(boom)) },
		"void":     func(r *rig) *testkit.Rule { return r.ledger.On("VoidOrder", testkit.FailBefore(boom)) },
		"void, its answer lost": func(r *rig) *testkit.Rule {
			return r.ledger.On("VoidOrder", testkit.FailAfter(seatflow.ErrUnknownCommit))
		},
		"repair":      func(r *rig) *testkit.Rule { return r.seats.On("Repair", testkit.FailBefore(boom)) },
		"repair lost": func(r *rig) *testkit.Rule { return r.seats.On("Repair", testkit.FailAfter(seatflow.ErrUnknownOutcome)) },
		"second look": func(r *rig) *testkit.Rule { return r.seats.On("Snapshot", testkit.FailBefore(boom), testkit.Skip(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 200)
			r.sellOut(50, 200)
			r.mixed(r.show)
			r.round()
			r.later()
			rule := fail(r)
			rep, err := r.rec.Round(t.Context(), reconcile.RoundOptions{})
			if err == nil || len(rep.Skipped) != 1 || rep.Clean() || rule.Hits() == 0 {
				t.Errorf("%v, %+v", err, rep)
			}
			rule.Stop()
			r.later()
			r.round()
			r.settled()
		})
	}
}

// Rows that the audit table did not take are written with the next round.
func TestAuditIsTriedAgain(t *testing.T) {
	for name, action := range map[string]testkit.Action{
		"not written":    testkit.FailBefore(seatflow.ErrNotCommitted),
		"its reply lost": testkit.FailAfter(seatflow.ErrUnknownCommit),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			o := r.buy("ann", 1, 2)
			r.must(r.store.Unsell(t.Context(), r.ref(), o.Owner(), nil))
			r.later()
			r.ledger.On("RecordRepairs", action, testkit.Times(1))
			want(t, r.round(), map[seatflow.Drift]int{seatflow.DriftPaidSeats: 2})
			r.settled()
			rows, err := r.facts.RepairsOf(t.Context(), r.show, 0, 10)
			if err != nil || len(rows) != 1 || rows[0].Order != o.No || !sameSeats(rows[0].Seats, o.Seats()) {
				t.Errorf("%+v, %v", rows, err)
			}
		})
	}
}

// A process that sleeps past the grace time between its hold and its insert
// finds out on waking: its number is void. It holds again, or is told.
func TestPausedBetweenHoldAndInsert(t *testing.T) {
	for name, taken := range map[string]bool{"holds again": false, "is told": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			reached, wake := make(chan struct{}), make(chan struct{})
			r.ledger.On("InsertOrder", testkit.Signal(reached, testkit.HoldBefore(wake)), testkit.Times(1))
			type answer struct {
				got booking.Created
				err error
			}
			done := make(chan answer, 1)
			go func() {
				got, err := r.svc.Create(t.Context(), booking.CreateRequest{Actor: buyer("ann"), Show: r.show, Seats: []seatflow.SeatID{1, 2}})
				done <- answer{got, err}
			}()
			<-reached
			_, asleep := r.state(1)
			if rep := r.round(); rep.Fixed() != 0 || rep.Young() != 2 {
				t.Fatalf("before the grace time: %+v", rep)
			}
			r.later()
			want(t, r.round(), map[seatflow.Drift]int{seatflow.DriftOrphanHolds: 2})
			var other seatflow.Order
			if taken {
				other = r.buy("bob", 2)
			}
			close(wake)
			a := <-done
			if row := r.order(asleep.Order); row.State != seatflow.OrderVoid {
				t.Errorf("the number it slept on is %s", row.State)
			}
			switch {
			case taken:
				if seatflow.CodeOf(a.err) != seatflow.CodeSeatsTaken {
					t.Errorf("%+v, %v", a.got, a.err)
				}
				if s, owner := r.state(2); s != seatflow.Sold || owner != other.Owner() {
					t.Errorf("seat 2 is %s by %s", s, owner)
				}
			case a.err != nil || a.got.Order.No == asleep.Order || a.got.Order.State != seatflow.OrderPending:
				t.Errorf("%+v, %v", a.got, a.err)
			}
			r.later()
			r.settled()
		})
	}
}

func TestWhatCannotBeLookedAtIsAnError(t *testing.T) {
	r := newRig(t, 5)
	if _, err := r.rec.Round(t.Context(), reconcile.RoundOptions{Show: 99}); !errors.Is(err, seatflow.ErrNotFound) {
		t.Error(err)
	}
	r.ledger.On("Shows", testkit.FailBefore(errors.New("boom")))
	if _, err := r.rec.Round(t.Context(), reconcile.RoundOptions{}); err == nil {
		t.Error("a round without a list of shows is no error")
	}
	if _, err := r.rec.Round(t.Context(), reconcile.RoundOptions{Shows: 5}); err == nil {
		t.Error("a rotation without a list of shows is no error")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.ledger.Clear()
	if _, err := r.rec.Round(ended, reconcile.RoundOptions{}); err == nil {
		t.Error("a round that was stopped is no error")
	}
}
