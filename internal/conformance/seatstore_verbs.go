package conformance

import (
	"slices"
	"time"

	"seatflow"
)

var verbCases = []seatCase{
	{"table/every verb, state and owner", wholeTable},
	{"extend", extend},
	{"sell", sell},
	{"release", release},
	{"unsell", unsell},
	{"block", block},
	{"unblock", unblock},
	{"verbs/lists in any order", listsInAnyOrder},
}

// Every verb from every state, by the owner and by somebody else, does what
// the table says and nothing else.
func wholeTable(t *seatTest) {
	verbs := map[seatflow.Verb]func(ref seatflow.ShowRef, owner int){
		seatflow.VerbHold: func(ref seatflow.ShowRef, owner int) {
			_, err := t.Store.Hold(t.Context(), ask(ref, owner, 1))
			t.must(err)
		},
		seatflow.VerbExtend: func(ref seatflow.ShowRef, owner int) {
			_, err := t.Store.Extend(t.Context(), ref, order(owner), t.Now().Add(holdFor+time.Minute))
			t.must(err)
		},
		seatflow.VerbSell: func(ref seatflow.ShowRef, owner int) {
			_, err := t.Store.Sell(t.Context(), ref, order(owner))
			t.must(err)
		},
		seatflow.VerbRelease: func(ref seatflow.ShowRef, owner int) {
			_, err := t.Store.Release(t.Context(), ref, order(owner), seats(1))
			t.must(err)
		},
		seatflow.VerbUnsell: func(ref seatflow.ShowRef, owner int) {
			_, err := t.Store.Unsell(t.Context(), ref, order(owner), seats(1))
			t.must(err)
		},
		seatflow.VerbBlock: func(ref seatflow.ShowRef, owner int) {
			_, err := t.Store.Block(t.Context(), ref, order(owner), seats(1))
			t.must(err)
		},
		seatflow.VerbUnblock: func(ref seatflow.ShowRef, owner int) {
			_, err := t.Store.Unblock(t.Context(), ref, order(owner), seats(1))
			t.must(err)
		},
	}
	show := 0
	for verb, do := range verbs {
		for _, from := range seatflow.States {
			for _, owned := range []bool{true, false} {
				show++
				ref := t.ref(show)
				view := seatflow.View{Show: ref, Generation: 1, Base: base(1)}
				if from == seatflow.NoSeat {
					view.Base = base(1, 1)
				}
				if from.Owned() {
					view.Orders = []seatflow.OrderRecord{t.record(1, from, 1)}
				}
				t.install(view)
				owner := 2
				if owned {
					owner = 1
				}
				do(ref, owner)
				want, edge := seatflow.Next(verb, from, owned)
				snap := t.snap(ref)
				if got := snap.States[0]; got != want {
					t.Errorf("%s of a seat that is %s (owned: %t) leads to %s, want %s", verb, from, owned, got, want)
				}
				changed := edge && (want != from || verb == seatflow.VerbExtend)
				if got := snap.Revision.Number; got != map[bool]int64{true: 1}[changed] {
					t.Errorf("%s of a seat that is %s (owned: %t) leads to revision %d", verb, from, owned, got)
				}
				wantOwner := seatflow.Owner{}
				switch {
				case want.Owned() && changed:
					wantOwner = order(owner)
				case want.Owned():
					wantOwner = order(1)
				}
				if snap.Owners[1] != wantOwner {
					t.Errorf("%s of a seat that is %s (owned: %t) leaves it to %q, want %q", verb, from, owned, snap.Owners[1], wantOwner)
				}
			}
		}
	}
}

func (t *seatTest) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

func extend(t *seatTest) {
	ref := t.house(6)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2))
	start := t.Now()
	do := func(owner seatflow.Owner, by time.Duration, extended bool, in time.Duration) {
		t.Helper()
		reply, err := t.Store.Extend(t.Context(), ref, owner, start.Add(by))
		if err != nil || reply.Extended != extended {
			t.Fatalf("extension to %v: %+v, %v; want %t", by, reply, err, extended)
		}
		want := time.Time{}
		if in > 0 {
			want = start.Add(in)
		}
		t.at("the deadline", reply.Deadline, want)
	}
	do(order(1), holdFor+time.Minute, true, holdFor+time.Minute)
	t.unchanged(ref, "an extension that is none", func() {
		do(order(1), holdFor+time.Minute, true, holdFor+time.Minute) // a repeat
		do(order(1), time.Minute, true, holdFor+time.Minute)         // never earlier
		do(order(2), holdFor+2*time.Minute, false, 0)                // not by another
		do(seatflow.Owner{Order: order(1).Order, Attempt: 2}, holdFor+2*time.Minute, false, 0)
	})
	want := t.record(1, seatflow.Held, 1, 2)
	want.Deadline = start.Add(holdFor + time.Minute)
	t.expectRecord(ref, want)
	// The deadline seen by the view is over, the one of the ledger is not.
	t.Advance(holdFor + 2*time.Minute)
	t.unchanged(ref, "an extension into the past", func() {
		do(order(1), holdFor+2*time.Minute, false, holdFor+time.Minute)
	})
	do(order(1), holdFor+3*time.Minute, true, holdFor+3*time.Minute)
	do(order(1), holdCap+time.Hour, true, holdCap) // never past the cap
	t.Advance(holdCap)
	t.unchanged(ref, "an extension past the cap", func() { do(order(1), 3*holdCap, false, holdCap) })
	t.sell(2, ref, 1)
	t.unchanged(ref, "an extension of what is sold", func() { do(order(1), 3*holdCap, false, 0) })
	t.release(nil, ref, 1, nil)
	t.unsell(seats(1, 2), ref, 1, nil)
	do(order(1), 3*holdCap, false, 0)
}

func sell(t *seatTest) {
	ref := t.house(6)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2, 3))
	t.unchanged(ref, "a sale by another", func() {
		t.sell(0, ref, 2)
		reply, err := t.Store.Sell(t.Context(), ref, seatflow.Owner{Order: order(1).Order, Attempt: 2})
		if err != nil || reply.Sold != 0 {
			t.Fatalf("a later attempt sold %d, %v", reply.Sold, err)
		}
	})
	t.release(seats(2), ref, 1, seats(2))
	t.sell(2, ref, 1)
	t.text(ref, "202000")
	t.expectRecord(ref, t.record(1, seatflow.Sold, 1, 3))
	t.unchanged(ref, "a repeated sale", func() { t.sell(2, ref, 1) })
	t.Advance(2 * holdCap)
	t.due(time.Minute) // nothing: the deadline ended
	t.unsell(seats(1), ref, 1, seats(1))
	t.unchanged(ref, "a sale of what is left", func() { t.sell(1, ref, 1) })
	t.unsell(seats(3), ref, 1, nil)
	t.unchanged(ref, "a late sale", func() { t.sell(0, ref, 1) })
	t.block(seats(4), nil, ref, 4, seats(4))
	t.unchanged(ref, "a sale of a block", func() { t.sell(0, ref, 4) })
}

func release(t *seatTest) {
	ref := t.house(8)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2, 3, 4))
	t.hold(seatflow.OutcomeHeld, ask(ref, 2, 5))
	t.unchanged(ref, "a release of what is not one's own", func() {
		t.release(nil, ref, 3, nil)
		t.release(nil, ref, 3, seats(1, 5))
		t.release(nil, ref, 1, seats(5, 6, 99, -1))
		t.release(nil, ref, 1, none) // listed, and none
	})
	t.release(seats(2, 4), ref, 1, seats(2, 4, 5))
	t.text(ref, "10101000")
	t.effective(ref, 1, 2)
	t.release(nil, ref, 1, seats(2, 4))
	t.expectRecord(ref, t.record(1, seatflow.Held, 1, 3))
	t.hold(seatflow.OutcomeHeld, ask(ref, 3, 2))
	t.release(seats(1, 3), ref, 1, nil)
	t.unchanged(ref, "a repeated release", func() { t.release(nil, ref, 1, nil) })
	t.effective(ref, 1, 0)
	t.sell(1, ref, 2)
	t.block(seats(8), nil, ref, 4, seats(8))
	t.unchanged(ref, "a release of what is sold or blocked", func() {
		t.release(nil, ref, 2, nil)
		t.release(nil, ref, 2, seats(5))
		t.release(nil, ref, 4, nil)
	})
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1)) // the same owner may start anew
	t.text(ref, "1100200x")
}

func unsell(t *seatTest) {
	ref := t.house(6)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2, 3))
	t.hold(seatflow.OutcomeHeld, ask(ref, 2, 4))
	t.sell(3, ref, 1)
	t.unchanged(ref, "a refund by another", func() {
		t.unsell(nil, ref, 3, nil)
		t.unsell(nil, ref, 3, seats(1, 4))
		t.unsell(nil, ref, 1, seats(4, 5))
		t.unsell(nil, ref, 1, none)
	})
	t.unsell(seats(2), ref, 1, seats(2))
	t.effective(ref, 1, 2)
	t.unsell(seats(1, 3), ref, 1, seats(1, 2, 3))
	t.effective(ref, 1, 0)
	t.unsell(seats(4), ref, 2, nil) // held ones as well
	t.Advance(2 * holdCap)
	t.due(time.Minute)
	t.block(seats(5), nil, ref, 3, seats(5))
	t.unchanged(ref, "a refund of a block", func() { t.unsell(nil, ref, 3, nil) })
	t.text(ref, "0000x0")
}

func block(t *seatTest) {
	ref := t.house(8, 7)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	t.hold(seatflow.OutcomeHeld, ask(ref, 2, 2))
	t.sell(1, ref, 2)
	t.block(seats(3, 5), seats(-4, 1, 2, 7, 9), ref, 3, seats(-4, 1, 2, 3, 5, 7, 9))
	blocked := t.record(3, seatflow.Blocked, 3, 5)
	blocked.User = ""
	t.expectRecord(ref, blocked)
	t.unchanged(ref, "a block that is there", func() {
		t.block(nil, nil, ref, 3, seats(3, 5)) // a repeat: neither changed nor refused
		t.block(nil, seats(3, 5), ref, 4, seats(3, 5))
		t.block(nil, nil, ref, 4, nil)
	})
	t.block(seats(4), nil, ref, 3, seats(3, 4, 5)) // a block may grow
	blocked.Seats = seats(3, 4, 5)
	t.expectRecord(ref, blocked)
	t.unchanged(ref, "a block by a sale", func() { // an owner is a sale or a block, not both
		t.block(nil, seats(6), ref, 1, seats(6))
		t.block(nil, seats(6), ref, 2, seats(6))
	})
	t.Advance(2 * holdCap)
	t.due(time.Minute, 1)
	_, err := t.Store.Block(t.Context(), ref, seatflow.Owner{}, seats(6))
	t.fails("a block without an owner", err, nil)
	t.text(ref, "12xxx0-0")
}

func unblock(t *seatTest) {
	ref := t.house(8)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	t.block(span(2, 6), nil, ref, 2, span(2, 6))
	t.unchanged(ref, "an unblock of what is not of the block", func() {
		t.unblock(nil, seats(1, 2, 7, 99), ref, 3, seats(1, 2, 7, 99))
		t.unblock(nil, seats(1, 7), ref, 2, seats(1, 7))
		t.unblock(nil, nil, ref, 3, nil)
		t.unblock(nil, nil, ref, 1, nil)
		t.unblock(nil, nil, ref, 2, none)
	})
	t.unblock(seats(3, 4), seats(1), ref, 2, seats(1, 3, 4))
	t.unblock(seats(2, 5, 6), nil, ref, 2, nil)
	t.unblock(nil, seats(2), ref, 2, seats(2))
	t.hold(seatflow.OutcomeHeld, ask(ref, 3, 2, 3))
	t.text(ref, "11100000")
}

// What staff list need not be sorted nor distinct; answers are.
func listsInAnyOrder(t *seatTest) {
	ref := t.house(8)
	asked := seats(5, 1, 5, 3)
	t.block(seats(1, 3, 5), nil, ref, 1, asked)
	t.unblock(seats(1, 5), seats(2), ref, 1, seats(5, 2, 1, 2))
	t.hold(seatflow.OutcomeHeld, ask(ref, 2, 1, 2, 4, 6))
	t.release(seats(2, 6), ref, 2, seats(6, 2, 6))
	t.sell(2, ref, 2)
	t.unsell(seats(1, 4), ref, 2, seats(4, 1, 1))
	if !slices.Equal(asked, seats(5, 1, 5, 3)) {
		t.Fatalf("the caller's list was changed to %v", asked)
	}
}
