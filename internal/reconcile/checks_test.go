package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/memseats"
	"seatflow/internal/testkit"
)

// young makes a round that must do nothing, and moves past the grace time.
func (r *rig) young() {
	r.t.Helper()
	before := r.ledgerText()
	rep := r.round()
	if rep.Fixed() > 0 || rep.Left() > 0 || rep.Young() == 0 {
		r.t.Errorf("before the grace time: %+v", rep)
	}
	if r.ledgerText() != before {
		r.t.Error("the facts changed before the grace time")
	}
	r.clock.Advance(grace - time.Millisecond)
	if rep := r.round(); rep.Fixed() > 0 {
		r.t.Errorf("a millisecond before the grace time: %+v", rep)
	}
	r.clock.Advance(time.Millisecond)
}

// repaired makes a round that must fix exactly n under one check, holds the
// counters, the audit and the cause against it, and checks that all is well.
func (r *rig) repaired(d seatflow.Drift, n int, cause string) {
	r.t.Helper()
	before := r.metric("seatflow_reconcile_fixed_total", "check", string(d))
	rep := r.round()
	want(r.t, rep, map[seatflow.Drift]int{d: n})
	if before != "0" || r.metric("seatflow_reconcile_fixed_total", "check", string(d)) != fmtInt(n) {
		r.t.Errorf("the counter of %s went from %s to %s, want %d", d, before, r.metric("seatflow_reconcile_fixed_total", "check", string(d)), n)
	}
	rows, err := r.facts.RepairsOf(r.t.Context(), 0, 0, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	counted := 0
	for _, row := range rows {
		if row.Drift != d || row.Show != r.show || row.Was == "" || row.Now == "" || row.Round != rep.ID {
			r.t.Errorf("audit row %+v", row)
		}
		if !strings.Contains(row.Cause, cause) {
			r.t.Errorf("the cause is %q, want one with %q", row.Cause, cause)
		}
		counted += row.Count
	}
	if counted != n {
		r.t.Errorf("the audit counts %d, want %d: %+v", counted, n, rows)
	}
	if logged := r.log.String(); !strings.Contains(logged, "check="+string(d)) || !strings.Contains(logged, "cause=") {
		r.t.Errorf("not logged: %s", logged)
	}
	r.settled()
}

func fmtInt(n int) string {
	return strings.TrimSuffix(time.Duration(n).String(), "ns")
}

// 1: no guardian came.
func TestExpiresWhatIsLongOverdue(t *testing.T) {
	r := newRig(t, 20)
	o := r.hold("ann", 1, 2)
	kept := r.hold("bob", 3)
	r.clock.Set(o.Deadline.Add(-time.Second))
	if _, err := r.svc.Extend(t.Context(), buyer("bob"), kept.No); err != nil {
		t.Fatal(err)
	}
	r.clock.Set(o.Deadline.Add(time.Minute))
	want(t, r.round(), nil) // a guardian has a minute
	r.clock.Advance(time.Millisecond)
	r.repaired(seatflow.DriftExpired, 1, "no guardian")
	if s, _ := r.state(1); s != seatflow.Available {
		t.Errorf("seat 1 is %s", s)
	}
	if got := r.order(o.No); got.State != seatflow.OrderExpired {
		t.Errorf("the order is %s", got.State)
	}
	if got := r.order(kept.No); got.State != seatflow.OrderPending {
		t.Errorf("an extended order is %s", got.State)
	}
}

// 2: the view was not told of a payment, and no other way lets it know.
func TestSellsThePaid(t *testing.T) {
	for name, drift := range map[string]func(r *rig, o seatflow.Order){
		"still held": func(r *rig, o seatflow.Order) {},
		"set free":   func(r *rig, o seatflow.Order) { r.must(r.store.Release(r.t.Context(), r.ref(), o.Owner(), nil)) },
		"half free": func(r *rig, o seatflow.Order) {
			r.must(r.store.Release(r.t.Context(), r.ref(), o.Owner(), []seatflow.SeatID{2}))
		},
		"another's": func(r *rig, o seatflow.Order) {
			r.must(r.store.Release(r.t.Context(), r.ref(), o.Owner(), nil))
			r.must(r.store.Hold(r.t.Context(), seatflow.HoldRequest{Show: r.ref(), Owner: stranger(1), User: "eve",
				Seats: []seatflow.SeatID{1, 2}, For: time.Hour, Cap: time.Hour}))
		},
		"forced to another": func(r *rig, o seatflow.Order) {
			r.force(1, seatflow.Sold, stranger(1))
			r.force(2, seatflow.Available, seatflow.Owner{})
		},
		"without an owner": func(r *rig, o seatflow.Order) {
			r.force(1, seatflow.Sold, seatflow.Owner{})
			r.force(2, seatflow.Sold, seatflow.Owner{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			o := r.hold("ann", 1, 2)
			want(t, r.round(), nil)
			rule := r.seats.On("Sell", testkit.FailBefore(seatflow.ErrUnknownOutcome))
			paid := r.pay(o)
			rule.Stop()
			drift(r, paid)
			if !r.drifts() {
				t.Fatal("there is no drift to repair")
			}
			r.young()
			r.repaired(seatflow.DriftPaidSeats, 2, "paid at")
			for _, id := range o.Seats() {
				if s, owner := r.state(id); s != seatflow.Sold || owner != paid.Owner() {
					t.Errorf("seat %d is %s by %s", id, s, owner)
				}
			}
		})
	}
}

// must fails the test on an error of a call with a result.
func (r *rig) must(_ any, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// 3: whatever the view lost as a whole is built anew.
func TestRebuildsWhatIsLost(t *testing.T) {
	for name, lose := range map[string]func(r *rig){
		"dropped": func(r *rig) { r.store.DropView(r.ref()) },
		"another generation": func(r *rig) { // a rebuild that died in the middle
			r.must(r.facts.RaiseGeneration(r.t.Context(), r.show, r.generation()))
		},
		"an unknown plan": func(r *rig) {
			gen, err := r.facts.RaiseGeneration(r.t.Context(), r.show, r.generation())
			if err != nil {
				r.t.Fatal(err)
			}
			if err := r.store.Rebuild(r.t.Context(), seatflow.View{Show: r.ref(), Generation: gen, Base: make2(5)}); err != nil {
				r.t.Fatal(err)
			}
		},
		"a seat that is not in this show": func(r *rig) { r.force(21, seatflow.Available, seatflow.Owner{}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			r.buy("ann", 1, 2)
			r.hold("bob", 3)
			if _, err := r.svc.Block(t.Context(), staff, r.show, []seatflow.SeatID{9}, "camera"); err != nil {
				t.Fatal(err)
			}
			want(t, r.round(), nil)
			lose(r)
			gen := r.generation()
			r.repaired(seatflow.DriftView, 1, "")
			if r.generation() != gen+1 {
				t.Errorf("generation %d after %d", r.generation(), gen)
			}
		})
	}
}

// 3: nobody ever sees a house between two views: it is not ready, or it is whole.
func TestARebuildIsNeverHalfSeen(t *testing.T) {
	const size, free, rebuilds = 200, 20, 15
	r := newRig(t, size)
	r.sellOut(free+1, size)
	var seen, away, odd atomic.Int64
	look := func(ctx context.Context) {
		snap, err := r.store.Snapshot(ctx, r.ref(), seatflow.DetailOrders)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, seatflow.ErrNotReady):
			away.Add(1)
		case err != nil:
			t.Error(err)
		case strings.Count(string(textOf(snap.States)), "0") != free || len(snap.Owners) != size-free:
			odd.Add(1)
		default:
			seen.Add(1)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				look(ctx)
			}
		})
	}
	for i := range rebuilds {
		if i%2 == 0 {
			r.store.DropView(r.ref())
		} else {
			r.must(r.facts.RaiseGeneration(t.Context(), r.show, r.generation()))
		}
		want(t, r.round(), map[seatflow.Drift]int{seatflow.DriftView: 1})
	}
	stop()
	readers.Wait()
	if odd.Load() > 0 || seen.Load() == 0 {
		t.Errorf("readers saw a whole house %d times, none %d times, and %d times something between", seen.Load(), away.Load(), odd.Load())
	}
	// The control: a view that is built in two steps.
	gen, err := r.facts.RaiseGeneration(t.Context(), r.show, r.generation())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.Rebuild(t.Context(), seatflow.View{Show: r.ref(), Generation: gen, Base: make2(size)}); err != nil {
		t.Fatal(err)
	}
	if look(t.Context()); odd.Load() == 0 {
		t.Error("an empty house is not noticed")
	}
}

func textOf(states []seatflow.SeatState) []byte {
	text := make([]byte, len(states))
	for i, s := range states {
		text[i] = byte(s)
	}
	return text
}

func make2(n int) []seatflow.SeatState {
	base := make([]seatflow.SeatState, n)
	for i := range base {
		base[i] = seatflow.Available
	}
	return base
}

func (r *rig) generation() seatflow.Generation {
	r.t.Helper()
	show, err := r.facts.Show(r.t.Context(), r.show)
	if err != nil {
		r.t.Fatal(err)
	}
	return show.Generation
}

// A restart loses every view; those that somebody needs are there again after
// a round.
func TestRebuildsAfterARestart(t *testing.T) {
	r := newRig(t, 20)
	sold := r.addShow(func(s *seatflow.Show) { s.SaleUntil = start.Add(time.Hour) })
	early := r.addShow(func(s *seatflow.Show) { s.SaleFrom = start.Add(10 * time.Hour) })
	unbuilt := r.addShow()
	r.buy("ann", 1)
	r.holdIn(sold, "bob", 4)
	if _, err := r.svc.Block(t.Context(), staff, early, []seatflow.SeatID{1}, "camera"); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(5 * time.Minute)
	fresh := memseats.New(memseats.Options{Clock: r.clock})
	defer fresh.Close()
	r.seats.SeatStore, r.store = fresh, fresh
	rep := r.round()
	want(t, rep, map[seatflow.Drift]int{seatflow.DriftView: 2})
	for _, id := range []seatflow.ShowID{r.show, sold, unbuilt} { // the last was built as its sale is open; that is no drift
		if _, err := fresh.Snapshot(t.Context(), r.refOf(id), 0); err != nil {
			t.Errorf("show %d: %v", id, err)
		}
		r.agree(id)
	}
	if _, err := fresh.Snapshot(t.Context(), r.refOf(early), 0); err == nil {
		t.Error("the view of a show that is not on sale yet was built")
	}
	r.settled()
}

// 4: a hold whose order never came, or has ended.
func TestReleasesOrphanHolds(t *testing.T) {
	held := func(r *rig) seatflow.Owner {
		r.must(r.store.Hold(r.t.Context(), seatflow.HoldRequest{Show: r.ref(), Owner: stranger(1), User: "eve",
			Seats: []seatflow.SeatID{1, 2}, For: time.Hour, Cap: time.Hour}))
		return stranger(1)
	}
	for name, c := range map[string]struct {
		make  func(r *rig) seatflow.Owner
		cause string
		void  bool
	}{
		"no order": {held, "never came", true},
		"void": {func(r *rig) seatflow.Owner {
			owner := held(r)
			r.must(r.facts.VoidOrder(r.t.Context(), owner.Order, r.show, seatflow.System("test")))
			return owner
		}, "made void", true},
		"cancelled": {func(r *rig) seatflow.Owner {
			o := r.hold("ann", 1, 2)
			defer r.seats.On("Release", testkit.FailBefore(seatflow.ErrUnknownOutcome)).Stop()
			r.must(r.svc.Cancel(r.t.Context(), buyer("ann"), o.No))
			return o.Owner()
		}, "cancelled at", false},
		"of an owner without a record": {func(r *rig) seatflow.Owner {
			r.force(1, seatflow.Held, stranger(1))
			r.force(2, seatflow.Held, stranger(1))
			return stranger(1)
		}, "never came", true},
		"of nobody": {func(r *rig) seatflow.Owner {
			r.force(1, seatflow.Held, seatflow.Owner{})
			r.force(2, seatflow.Held, seatflow.Owner{})
			return seatflow.Owner{}
		}, "by hand", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			want(t, r.round(), nil)
			owner := c.make(r)
			r.young()
			r.repaired(seatflow.DriftOrphanHolds, 2, c.cause)
			if s, _ := r.state(1); s != seatflow.Available {
				t.Errorf("seat 1 is %s", s)
			}
			if c.void && r.order(owner.Order).State != seatflow.OrderVoid {
				t.Error("no void row was made before the release")
			}
		})
	}
}

// 5: sold without a paid order.
func TestReleasesOrphanSales(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(r *rig)
		n     int
		cause string
	}{
		"a stranger": {func(r *rig) { r.force(1, seatflow.Sold, stranger(1)) }, 1, "no such order"},
		"nobody":     {func(r *rig) { r.force(1, seatflow.Sold, seatflow.Owner{}) }, 1, "by hand"},
		"an order that is cancelled": {func(r *rig) {
			o := r.hold("ann", 1)
			r.must(r.svc.Cancel(r.t.Context(), buyer("ann"), o.No))
			r.force(1, seatflow.Sold, o.Owner())
		}, 1, "cancelled at"},
		"what was refunded": {func(r *rig) { // more than a hundredth, but accounted for
			o := r.buy("ann", 1, 2, 3, 4)
			defer r.seats.On("Unsell", testkit.FailBefore(seatflow.ErrUnknownOutcome)).Stop()
			if _, _, err := r.svc.Refund(r.t.Context(), staff, o.No, []seatflow.SeatID{1, 2, 3}); err != nil {
				r.t.Fatal(err)
			}
		}, 3, "refunded at"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 150)
			r.sellOut(10, 120)
			r.later()
			want(t, r.round(), nil)
			c.make(r)
			r.young()
			r.repaired(seatflow.DriftOrphanSales, c.n, c.cause)
			if s, _ := r.state(1); s != seatflow.Available {
				t.Errorf("seat 1 is %s", s)
			}
		})
	}
}

// 6: a pending order whose hold is gone.
func TestHoldsAgainForThePending(t *testing.T) {
	for name, drift := range map[string]func(r *rig, o seatflow.Order){
		"free": func(r *rig, o seatflow.Order) { r.must(r.store.Release(r.t.Context(), r.ref(), o.Owner(), nil)) },
		"another's": func(r *rig, o seatflow.Order) {
			r.force(1, seatflow.Held, stranger(1))
			r.force(2, seatflow.Held, stranger(2))
		},
		"blocked": func(r *rig, o seatflow.Order) {
			r.must(r.store.Release(r.t.Context(), r.ref(), o.Owner(), nil))
			r.must(r.store.Block(r.t.Context(), r.ref(), stranger(3), []seatflow.SeatID{1, 2}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			want(t, r.round(), nil)
			o := r.hold("ann", 1, 2)
			drift(r, o)
			r.young()
			r.repaired(seatflow.DriftPendingSeats, 2, "lost the hold")
			for _, id := range o.Seats() {
				if s, owner := r.state(id); s != seatflow.Held || owner != o.Owner() {
					t.Errorf("seat %d is %s by %s", id, s, owner)
				}
			}
			// It wakes the guardian as before.
			r.clock.Set(o.Deadline)
			r.guard()
			if r.order(o.No).State != seatflow.OrderExpired {
				t.Error("the repaired hold does not expire")
			}
		})
	}
}

// 7: blocks, records and counts.
func TestDerivedIsSet(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(r *rig)
		n     int
		young bool
		cause string
	}{
		"a block that is not shown": {func(r *rig) {
			defer r.seats.On("Block", testkit.FailBefore(seatflow.ErrUnknownOutcome)).Stop()
			r.must(r.svc.Block(r.t.Context(), staff, r.show, []seatflow.SeatID{1, 2}, "camera"))
		}, 2, true, "blocked at"},
		"an unblocked seat that is": {func(r *rig) {
			o, err := r.svc.Block(r.t.Context(), staff, r.show, []seatflow.SeatID{1, 2}, "camera")
			if err != nil {
				r.t.Fatal(err)
			}
			defer r.seats.On("Unblock", testkit.FailBefore(seatflow.ErrUnknownOutcome)).Stop()
			r.must(r.svc.Unblock(r.t.Context(), staff, o.No, []seatflow.SeatID{1}))
		}, 1, true, "unblocked at"},
		"an extension that is not": {func(r *rig) {
			o := r.hold("ann", 1)
			defer r.seats.On("Extend", testkit.FailBefore(seatflow.ErrUnknownOutcome)).Stop()
			r.must(r.svc.Extend(r.t.Context(), buyer("ann"), o.No))
		}, 1, true, "extended at"},
		"a record of another user": {func(r *rig) {
			o := r.hold("ann", 1, 2)
			rec, _ := o.Record()
			rec.User = "eve"
			r.must(r.store.Repair(r.t.Context(), seatflow.RepairRequest{Show: r.ref(), Generation: r.generation(),
				Seats: []seatflow.SeatRepair{{Seat: 1, SawState: seatflow.Held, SawOwner: o.Owner(), WantState: seatflow.Held, Want: rec}}}))
		}, 1, true, "made at"},
		"an owner left on a free seat": {func(r *rig) { r.force(1, seatflow.Available, stranger(1)) }, 1, true, "no such order"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			want(t, r.round(), nil)
			c.make(r)
			if !r.drifts() {
				t.Fatal("there is no drift to repair")
			}
			r.young()
			r.repaired(seatflow.DriftDerived, c.n, c.cause)
		})
	}
}

// A user's count is right again once the seats are.
func TestPurchaseLimitAfterRepairs(t *testing.T) {
	r := newRig(t, 20, func(s *seatflow.Show) { s.LimitPerUser = 3 })
	o := r.buy("ann", 1, 2)
	r.force(1, seatflow.Available, seatflow.Owner{})
	r.later()
	r.round()
	reply, err := r.store.Hold(t.Context(), seatflow.HoldRequest{Show: r.ref(), Owner: stranger(5), User: o.User, Limit: 3,
		Seats: []seatflow.SeatID{5, 6}, For: time.Minute})
	if err != nil || reply.Outcome != seatflow.OutcomeOverLimit || reply.Left != 1 {
		t.Errorf("%+v, %v", reply, err)
	}
}
