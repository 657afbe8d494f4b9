package reconcile_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"seatflow"
)

// populate gives the show a crowd of every kind.
func (r *rig) populate(rng *rand.Rand, seats int) (owners []seatflow.Owner) {
	r.t.Helper()
	next := seatflow.SeatID(1)
	for i := 0; ; i++ {
		n := seatflow.SeatID(1 + rng.IntN(4))
		if int(next+n) >= seats {
			return owners
		}
		ids := seatsOf(next, next+n-1)
		next += n + seatflow.SeatID(rng.IntN(2))
		if rng.IntN(12) == 0 {
			o, err := r.svc.Block(r.t.Context(), staff, r.show, ids, "camera")
			if err != nil {
				r.t.Fatal(err)
			}
			owners = append(owners, o.Owner())
			continue
		}
		user := fmt.Sprint("user", i%7)
		o := r.hold(user, ids...)
		owners = append(owners, o.Owner())
		switch rng.IntN(10) {
		case 0:
		case 1:
			r.must(r.svc.Cancel(r.t.Context(), buyer(user), o.No))
		case 2:
			r.must(r.svc.Extend(r.t.Context(), buyer(user), o.No))
		case 3:
			o = r.pay(o)
			if _, _, err := r.svc.Refund(r.t.Context(), staff, o.No, ids[:1]); err != nil {
				r.t.Fatal(err)
			}
		default:
			r.pay(o)
		}
	}
}

// corrupt does something to the view behind its back.
func (r *rig) corrupt(rng *rand.Rand, seats int, owners []seatflow.Owner) {
	r.t.Helper()
	seat := seatflow.SeatID(1 + rng.IntN(seats))
	owner := owners[rng.IntN(len(owners))]
	switch rng.IntN(5) {
	case 0:
		owner = stranger(rng.IntN(30))
	case 1:
		owner = seatflow.Owner{}
	}
	ctx, ref := r.t.Context(), r.ref()
	switch rng.IntN(12) {
	case 0, 1, 2, 3:
		state := seatflow.States[rng.IntN(4)]
		if state == seatflow.Sold && rng.IntN(12) > 0 {
			state = seatflow.Held // else there would be alarms only
		}
		r.force(seat, state, owner)
	case 4, 5:
		_, _ = r.store.Release(ctx, ref, owner, nil) // a view that does not fit refuses this, as it should
	case 6:
		_, _ = r.store.Unsell(ctx, ref, owner, nil)
	case 7:
		_, _ = r.store.Unblock(ctx, ref, owner, nil)
	case 8:
		_, _ = r.store.Hold(ctx, seatflow.HoldRequest{Show: ref, Owner: stranger(40 + rng.IntN(50)), User: "eve",
			Seats: []seatflow.SeatID{seat}, For: time.Duration(rng.IntN(3600)) * time.Second})
	case 9:
		_, _ = r.store.Block(ctx, ref, stranger(100+rng.IntN(50)), []seatflow.SeatID{seat})
	case 10:
		snap := r.mustSnapshot()
		if len(snap.Orders) == 0 {
			return
		}
		rec := snap.Orders[rng.IntN(len(snap.Orders))]
		rec.User, rec.Deadline, rec.KeyHash = "eve", rec.Deadline.Add(-time.Duration(rng.IntN(600))*time.Second), seatflow.KeyHash{1}
		_, _ = r.store.Repair(ctx, seatflow.RepairRequest{Show: ref, Generation: snap.Revision.Generation, Seats: []seatflow.SeatRepair{
			{Seat: rec.Seats[0], SawState: snap.States[rec.Seats[0]-1], SawOwner: rec.Owner, WantState: rec.State, Want: rec}}})
	case 11:
		r.clock.Advance(time.Duration(rng.IntN(120)) * time.Second)
	}
}

// factsNow is every order with seats.
func (r *rig) factsNow() map[seatflow.OrderNo]seatflow.Order {
	r.t.Helper()
	f, err := r.facts.Facts(r.t.Context(), r.show)
	if err != nil {
		r.t.Fatal(err)
	}
	m := map[seatflow.OrderNo]seatflow.Order{}
	for _, o := range f.Orders {
		m[o.No] = o
	}
	return m
}

// corruptions is small by default: under the race detector a house costs
// seconds. "make explore" runs many.
var corruptions = flag.Uint64("corruptions", 12, "how many corrupted houses are repaired")

// Whatever is done to a view, rounds within the bound make it what the facts
// call for, the next finds nothing, and the facts are what they were but for
// orders that are past their time.
func TestAnyCorruptionIsRepaired(t *testing.T) {
	const seats = 260
	corrupted, alarms := 0, 0
	fixed := map[seatflow.Drift]int{}
	for seed := range *corruptions {
		rng := rand.New(rand.NewPCG(seed, 7))
		r := newRig(t, seats)
		owners := r.populate(rng, seats)
		r.agree(r.show)
		if rng.IntN(3) == 0 {
			r.clock.Advance(16 * time.Minute) // no guardian: some are overdue
		}
		for range 1 + rng.IntN(120) {
			r.corrupt(rng, seats, owners)
		}
		switch rng.IntN(8) {
		case 0:
			r.store.DropView(r.ref())
		case 1:
			r.must(r.facts.RaiseGeneration(t.Context(), r.show, r.generation()))
		}
		before := r.factsNow()
		if r.drifts() {
			corrupted++
		}
		// The grace time, with a round in it so that what has no age is seen;
		// then as many as a rotation of one show takes, and one for what is
		// younger than the first look at it.
		for n := range 3 + seats/100 {
			rep := r.round()
			if n == 0 {
				r.later()
			}
			for _, c := range rep.Checks {
				fixed[c.Check] += c.Fixed
			}
			if len(rep.Alarms) > 0 { // a person looks, and has the view built anew
				alarms++
				if err := r.svc.Rebuild(t.Context(), r.show); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.settled()
		after := r.factsNow()
		for no, o := range after {
			if was, ok := before[no]; !ok || was.State != o.State || was.Version != o.Version {
				t.Errorf("seed %d: order %s was %s and is %s", seed, no, was.State, o.State)
			}
		}
		for no, o := range before {
			if _, ok := after[no]; !ok {
				now := r.order(no)
				if now.State != seatflow.OrderExpired || o.State != seatflow.OrderPending || o.Deadline.After(r.clock.Now()) {
					t.Errorf("seed %d: order %s was %s until %s and is %s", seed, no, o.State, o.Deadline, now.State)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d views corrupted, %d alarms, repairs %v", corrupted, alarms, fixed)
	// Without drift, and without drift of every kind, this would prove nothing.
	if corrupted < int(*corruptions)*9/10 || alarms == 0 {
		t.Errorf("%d views were corrupted, %d alarms", corrupted, alarms)
	}
	for _, d := range seatflow.Drifts {
		if fixed[d] == 0 {
			t.Errorf("nothing was repaired as %s", d)
		}
	}
}
