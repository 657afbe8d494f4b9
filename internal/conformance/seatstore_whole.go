package conformance

import (
	"fmt"
	"slices"
	"time"

	"seatflow"
)

var wholeCases = []seatCase{
	{"snapshot", snapshot},
	{"rebuild/installs", rebuildInstalls},
	{"rebuild/fences", rebuildFences},
	{"rebuild/invalid", rebuildInvalid},
	{"repair/as seen", repairAsSeen},
	{"repair/records", repairRecords},
	{"repair/fences", repairFences},
	{"repair/wake-ups", repairWakeUps},
}

func snapshot(t *seatTest) {
	ref := t.house(70, 9)
	key := seatflow.HashKey(user(2), "k")
	req := ask(ref, 2, 1, 33, 70)
	req.KeyHash = key
	t.hold(seatflow.OutcomeHeld, req)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 2))
	t.sell(1, ref, 1)
	t.Advance(time.Minute)

	plain, err := t.Store.Snapshot(t.Context(), ref, seatflow.DetailStates)
	t.must(err)
	if plain.Orders != nil || plain.Owners != nil || plain.Users != nil {
		t.Fatalf("a plain snapshot has %+v", plain)
	}
	whole := t.snap(ref)
	identity := t.identity(7)
	if whole.Show != 1 || whole.Identity != identity || whole.Revision != (seatflow.Revision{Generation: 1, Number: 3}) {
		t.Fatalf("snapshot of show %d at %s by %q", whole.Show, whole.Revision, whole.Identity)
	}
	t.at("the time of the snapshot", whole.At, t.Now())
	if text(plain.States) != text(whole.States) || len(whole.States) != 70 {
		t.Fatalf("states %s and %s", text(plain.States), text(whole.States))
	}
	if len(whole.Orders) != 2 || whole.Orders[1].KeyHash != key || len(whole.Users) != 2 {
		t.Fatalf("orders %+v, users %v", whole.Orders, whole.Users)
	}
	for detail, want := range map[seatflow.Detail][2]bool{seatflow.DetailOrders: {true, false}, seatflow.DetailUsers: {false, true}} {
		part, err := t.Store.Snapshot(t.Context(), ref, detail)
		t.must(err)
		if got := [2]bool{part.Orders != nil && part.Owners != nil, part.Users != nil}; got != want {
			t.Fatalf("detail %d has orders and users: %v", detail, got)
		}
	}
	// A snapshot stays what it was.
	kept := text(plain.States) + fmt.Sprint(whole.Orders, whole.Owners, whole.Users)
	t.release(seats(1, 33, 70), ref, 2, nil)
	t.unsell(seats(2), ref, 1, nil)
	t.hold(seatflow.OutcomeHeld, ask(ref, 3, 1, 2))
	if now := text(plain.States) + fmt.Sprint(whole.Orders, whole.Owners, whole.Users); now != kept {
		t.Fatalf("a snapshot changed from %s to %s", kept, now)
	}
}

func rebuildInstalls(t *seatTest) {
	ref := t.ref(1)
	held, sold, blocked := t.record(1, seatflow.Held, 1, 2), t.record(2, seatflow.Sold, 3, 40), t.record(3, seatflow.Blocked, 5)
	held.KeyHash = seatflow.HashKey(user(1), "k")
	t.install(seatflow.View{Show: ref, Generation: 4, Base: base(40, 7), Orders: []seatflow.OrderRecord{sold, held, blocked}})
	snap := t.snap(ref)
	if snap.Revision != (seatflow.Revision{Generation: 4}) {
		t.Fatalf("a rebuilt view is at %s", snap.Revision)
	}
	t.text(ref, "1120x0-"+"00000000000000000000000000000000"+"2")
	for _, want := range []seatflow.OrderRecord{held, sold, blocked} {
		if want.State == seatflow.Sold {
			want.Seats = seats(3, 40)
		}
		t.expectRecord(ref, want)
	}
	t.effective(ref, 1, 2)
	t.effective(ref, 2, 2)
	t.effective(ref, 3, 0)

	// It is as alive as one that grew.
	if reply := t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2)); !reply.Repeat || reply.Generation != 4 {
		t.Fatalf("a hold from before: %+v", reply)
	}
	over := ask(ref, 9, 8)
	over.User, over.Limit = user(2), 2
	t.hold(seatflow.OutcomeOverLimit, over)
	reply, err := t.Store.Extend(t.Context(), ref, order(1), t.Now().Add(holdFor+time.Minute))
	if err != nil || !reply.Extended {
		t.Fatalf("extension: %+v, %v", reply, err)
	}
	t.Advance(holdFor + time.Minute)
	t.due(time.Minute, 1)
	t.sell(2, ref, 1)
	t.unsell(seats(3, 40), ref, 2, nil)
	t.unblock(seats(5), nil, ref, 3, nil)

	// The next generation forgets all of that.
	late := t.record(6, seatflow.Held, 2)
	late.Deadline = t.Now().Add(-time.Minute)
	t.install(seatflow.View{Show: ref, Generation: 9, Base: base(3), Orders: []seatflow.OrderRecord{t.record(5, seatflow.Held, 1), late}})
	t.text(ref, "110")
	t.sell(0, ref, 1)
	due := t.due(time.Minute, 6) // over already: due at once
	t.at("its deadline", due[0].Deadline, late.Deadline)
	if reply := t.hold(seatflow.OutcomeHeld, ask(ref, 7, 3)); reply.Generation != 9 || reply.Revision != 1 {
		t.Fatalf("the first hold of a generation: %+v", reply)
	}
	t.Advance(holdFor)
	t.due(time.Minute, 6, 5, 7)
	t.release(seats(2), ref, 6, nil)
	t.release(seats(1), ref, 5, nil)
}

func rebuildFences(t *seatTest) {
	ref := t.ref(1)
	for _, g := range []seatflow.Generation{0, -1} {
		t.fails("the first generation", t.Store.Rebuild(t.Context(), seatflow.View{Show: ref, Generation: g, Base: base(2)}), seatflow.ErrStaleGeneration)
	}
	t.install(seatflow.View{Show: ref, Generation: 5, Base: base(2)})
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	t.unchanged(ref, "a stale rebuild", func() {
		for _, g := range []seatflow.Generation{-1, 0, 1, 4, 5} {
			t.fails(fmt.Sprintf("generation %d after 5", g), t.Store.Rebuild(t.Context(), seatflow.View{Show: ref, Generation: g, Base: base(2)}), seatflow.ErrStaleGeneration)
		}
	})
	t.install(seatflow.View{Show: ref, Generation: 6, Base: base(2)})
	t.text(ref, "00")
	// A move: the same show in another partition is another view.
	moved := ref
	moved.Partition = 8
	t.hold(seatflow.OutcomeNotReady, ask(moved, 1, 1))
	t.install(seatflow.View{Show: moved, Generation: 7, Base: base(2)})
	t.hold(seatflow.OutcomeHeld, ask(moved, 1, 1))
	t.text(ref, "00")
	t.text(moved, "10")
}

func rebuildInvalid(t *seatTest) {
	ref := t.house(4)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	for name, view := range map[string]seatflow.View{
		"a held seat in the base":    {Base: []seatflow.SeatState{seatflow.Held}},
		"a state that is none":       {Base: []seatflow.SeatState{'?'}},
		"more seats than any hall":   {Base: base(seatflow.MaxSeatsPerHall + 1)},
		"a seat beyond the base":     {Base: base(2), Orders: []seatflow.OrderRecord{t.record(1, seatflow.Sold, 3)}},
		"seat zero":                  {Base: base(2), Orders: []seatflow.OrderRecord{t.record(1, seatflow.Sold, 0)}},
		"a gap that is sold":         {Base: base(2, 1), Orders: []seatflow.OrderRecord{t.record(1, seatflow.Sold, 1)}},
		"a seat sold twice":          {Base: base(2), Orders: []seatflow.OrderRecord{t.record(1, seatflow.Sold, 1), t.record(2, seatflow.Sold, 1)}},
		"an owner twice":             {Base: base(2), Orders: []seatflow.OrderRecord{t.record(1, seatflow.Sold, 1), t.record(1, seatflow.Held, 2)}},
		"an order without an owner":  {Base: base(2), Orders: []seatflow.OrderRecord{{State: seatflow.Sold, Seats: seats(1)}}},
		"an order without seats":     {Base: base(2), Orders: []seatflow.OrderRecord{t.record(1, seatflow.Sold)}},
		"an order of available ones": {Base: base(2), Orders: []seatflow.OrderRecord{t.record(1, seatflow.Available, 1)}},
	} {
		view.Show, view.Generation = ref, 2
		t.unchanged(ref, name, func() { t.fails(name, t.Store.Rebuild(t.Context(), view), nil) })
	}
	nowhere := seatflow.View{Show: ref, Generation: 2, Base: base(1)}
	nowhere.Show.Partition = seatflow.Partitions
	t.fails("a partition that is none", t.Store.Rebuild(t.Context(), nowhere), nil)
	t.install(seatflow.View{Show: t.ref(2), Generation: 1}) // a house without seats is a house
	t.hold(seatflow.OutcomeTaken, ask(t.ref(2), 1, 1))
}

// fix is a repair of a seat from (state, owner) to what record has.
func fix(id seatflow.SeatID, saw seatflow.SeatState, sawOwner int, want seatflow.SeatState, record seatflow.OrderRecord) seatflow.SeatRepair {
	r := seatflow.SeatRepair{Seat: id, SawState: saw, WantState: want, Want: record}
	if sawOwner > 0 {
		r.SawOwner = order(sawOwner)
	}
	return r
}

// Every state to every state, seen rightly and not.
func repairAsSeen(t *seatTest) {
	show := 0
	for _, from := range seatflow.States {
		for _, to := range seatflow.States[:4] {
			for _, sight := range []string{"right", "other state", "other owner", "no owner"} {
				show++
				ref := t.ref(show)
				view := seatflow.View{Show: ref, Generation: 1, Base: base(2)}
				saw := fix(1, from, 0, to, t.record(5, to))
				if from == seatflow.NoSeat {
					view.Base = base(2, 1)
				}
				if from.Owned() {
					view.Orders = []seatflow.OrderRecord{t.record(1, from, 1)}
					saw.SawOwner = order(1)
				}
				switch sight {
				case "other state":
					saw.SawState = seatflow.States[(slices.Index(seatflow.States[:], from)+1)%4]
				case "other owner":
					saw.SawOwner = order(9)
				case "no owner":
					if !from.Owned() {
						continue
					}
					saw.SawOwner = seatflow.Owner{}
				}
				t.install(view)
				reply := t.repair(ref, 1, saw)
				snap := t.snap(ref)
				if from == seatflow.NoSeat || sight != "right" {
					if !slices.Equal(reply.Changed, seats(1)) || len(reply.Fixed) != 0 || reply.Revision != 0 ||
						snap.States[0] != from || snap.Revision.Number != 0 {
						t.Errorf("repair of %s to %s (%s): %+v and %s", from, to, sight, reply, text(snap.States))
					}
					continue
				}
				if !slices.Equal(reply.Fixed, seats(1)) || len(reply.Changed) != 0 || reply.Revision != 1 ||
					snap.States[0] != to || snap.Revision.Number != 1 {
					t.Errorf("repair of %s to %s: %+v and %s at %s", from, to, reply, text(snap.States), snap.Revision)
				}
				if want := map[bool]seatflow.Owner{true: order(5)}[to.Owned()]; snap.Owners[1] != want {
					t.Errorf("repair of %s to %s leaves the seat to %q", from, to, snap.Owners[1])
				}
			}
		}
	}
}

func repairRecords(t *seatTest) {
	ref := t.house(12)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2, 3))
	t.hold(seatflow.OutcomeHeld, ask(ref, 2, 4))
	t.hold(seatflow.OutcomeHeld, ask(ref, 3, 8, 9))
	t.sell(2, ref, 3)

	// Seats of three owners in one step, and one that has changed.
	paid := t.record(3, seatflow.Sold)
	reply := t.repair(ref, 1,
		fix(2, seatflow.Held, 1, seatflow.Sold, paid),
		fix(4, seatflow.Held, 2, seatflow.Sold, paid),
		fix(5, seatflow.Sold, 2, seatflow.Sold, paid),
		fix(6, seatflow.Available, 0, seatflow.Blocked, t.record(4, seatflow.Blocked)),
		fix(99, seatflow.Available, 0, seatflow.Sold, paid))
	if !slices.Equal(reply.Fixed, seats(2, 4, 6)) || !slices.Equal(reply.Changed, seats(5, 99)) {
		t.Fatalf("repaired %+v", reply)
	}
	t.text(ref, "12120x022000")
	t.expectRecord(ref, t.record(1, seatflow.Held, 1, 3))
	t.expectRecord(ref, t.record(3, seatflow.Sold, 2, 4, 8, 9))
	t.effective(ref, 1, 2)
	t.effective(ref, 2, 0)
	t.effective(ref, 3, 4)
	t.effective(ref, 4, 0)
	t.Advance(holdFor)
	t.due(time.Hour, 1) // the record of 2 lost its last seat, and its wake-up

	// The record takes over what is known of the order; limits follow.
	known := t.record(1, seatflow.Held)
	known.User, known.KeyHash = user(7), seatflow.HashKey(user(7), "k")
	known.Deadline, known.TakenAt = t.Now().Add(time.Minute), t.Now().Add(-time.Minute)
	t.repair(ref, 1, fix(1, seatflow.Held, 1, seatflow.Held, known))
	known.Seats = seats(1, 3)
	t.expectRecord(ref, known)
	t.effective(ref, 1, 0)
	t.effective(ref, 7, 2)
	yours := ask(ref, 8, 3)
	yours.User, yours.KeyHash = user(7), known.KeyHash
	t.hold(seatflow.OutcomeYours, yours)

	// A seat moves from one order to another and the other's to a third.
	t.repair(ref, 1,
		fix(8, seatflow.Sold, 3, seatflow.Sold, t.record(20, seatflow.Sold)),
		fix(9, seatflow.Sold, 3, seatflow.Sold, t.record(20, seatflow.Sold)),
		fix(2, seatflow.Sold, 3, seatflow.Available, seatflow.OrderRecord{}),
		fix(4, seatflow.Sold, 3, seatflow.Sold, t.record(21, seatflow.Sold)),
		fix(10, seatflow.Available, 0, seatflow.Sold, t.record(3, seatflow.Sold)))
	t.expectRecord(ref, t.record(20, seatflow.Sold, 8, 9))
	t.expectRecord(ref, t.record(21, seatflow.Sold, 4))
	t.expectRecord(ref, t.record(3, seatflow.Sold, 10))
	t.unsell(seats(8, 9), ref, 20, nil)
	t.hold(seatflow.OutcomeHeld, ask(ref, 30, 2, 5, 8, 9))
	t.unchanged(ref, "a repair of nothing", func() { t.repair(ref, 1) })
}

func repairFences(t *seatTest) {
	ref := t.house(3)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	for _, g := range []seatflow.Generation{0, 2} {
		t.unchanged(ref, "a repair of another generation", func() {
			_, err := t.Store.Repair(t.Context(), seatflow.RepairRequest{Show: ref, Generation: g, Seats: []seatflow.SeatRepair{
				fix(1, seatflow.Held, 1, seatflow.Available, seatflow.OrderRecord{})}})
			t.fails("another generation", err, seatflow.ErrStaleGeneration)
		})
	}
	good := fix(1, seatflow.Held, 1, seatflow.Available, seatflow.OrderRecord{})
	for name, bad := range map[string]seatflow.SeatRepair{
		"to no seat":     fix(2, seatflow.Available, 0, seatflow.NoSeat, t.record(2, seatflow.Sold)),
		"to nonsense":    fix(2, seatflow.Available, 0, '?', t.record(2, seatflow.Sold)),
		"without owner":  fix(2, seatflow.Available, 0, seatflow.Sold, seatflow.OrderRecord{}),
		"the seat twice": good,
	} {
		t.unchanged(ref, name, func() { // and the good one beside it is not done either
			_, err := t.Store.Repair(t.Context(), seatflow.RepairRequest{Show: ref, Generation: 1, Seats: []seatflow.SeatRepair{good, bad}})
			t.fails(name, err, nil)
		})
	}
}

func repairWakeUps(t *seatTest) {
	ref := t.house(6)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	held := t.record(2, seatflow.Held)
	held.Deadline = t.Now().Add(time.Minute)
	t.repair(ref, 1, fix(2, seatflow.Available, 0, seatflow.Held, held), fix(3, seatflow.Available, 0, seatflow.Held, held))
	t.Advance(time.Minute)
	t.due(2*holdCap, 2)
	t.repair(ref, 1, fix(1, seatflow.Held, 1, seatflow.Sold, t.record(1, seatflow.Sold)))
	t.Advance(holdCap)
	t.due(2 * holdCap) // order 1 is sold; the lease on 2 goes on
	held.Deadline = t.Now().Add(time.Minute)
	t.repair(ref, 1, fix(3, seatflow.Held, 2, seatflow.Held, held))
	t.Advance(time.Minute)
	t.due(time.Minute, 2) // the deadline that a repair sets wakes anew
	t.repair(ref, 1, fix(2, seatflow.Held, 2, seatflow.Available, seatflow.OrderRecord{}))
	t.Advance(time.Minute)
	t.due(time.Minute, 2) // it has a seat left
	t.repair(ref, 1, fix(3, seatflow.Held, 2, seatflow.Available, seatflow.OrderRecord{}))
	t.Advance(time.Hour)
	t.due(time.Minute)
}
