package conformance

import (
	"slices"
	"time"

	"seatflow"
)

var holdCases = []seatCase{
	{"hold/takes", holdTakes},
	{"hold/all or none", holdAllOrNone},
	{"hold/repeat", holdRepeat},
	{"hold/one record an owner", holdOneRecord},
	{"hold/yours", holdYours},
	{"hold/rate window", holdRate},
	{"hold/limit", holdLimit},
	{"hold/order of decision", holdOrder},
	{"hold/cap", holdCapped},
	{"hold/past its deadline", holdPastDeadline},
	{"hold/invalid", holdInvalid},
}

func holdTakes(t *seatTest) {
	ref := t.house(6)
	reply := t.hold(seatflow.OutcomeHeld, ask(ref, 1, 2, 3))
	if reply.Generation != 1 || reply.Revision != 1 || reply.Repeat {
		t.Fatalf("reply %+v, want generation 1 and revision 1", reply)
	}
	t.at("taken at", reply.TakenAt, t.Now())
	t.at("deadline", reply.Deadline, t.Now().Add(holdFor))
	t.at("cap", reply.Cap, t.Now().Add(holdCap))
	t.text(ref, "011000")
	t.expectRecord(ref, t.record(1, seatflow.Held, 2, 3))
	t.effective(ref, 1, 2)
	if reply := t.hold(seatflow.OutcomeHeld, ask(ref, 2, 1)); reply.Revision != 2 {
		t.Fatalf("the second change has revision %d", reply.Revision)
	}
}

func holdAllOrNone(t *seatTest) {
	ref := t.house(8, 7)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 2, 3))
	t.sell(2, ref, 1)
	t.hold(seatflow.OutcomeHeld, ask(ref, 2, 5))
	t.block(seats(6), nil, ref, 3, seats(6))
	t.unchanged(ref, "a refused hold", func() {
		// Held, sold, blocked, no seat, and ids that never were.
		reply := t.hold(seatflow.OutcomeTaken, ask(ref, 4, -1, 0, 1, 2, 4, 5, 6, 7, 8, 9, 1<<30))
		if want := seats(-1, 0, 2, 5, 6, 7, 9, 1<<30); !slices.Equal(reply.Taken, want) {
			t.Fatalf("taken %v, want %v", reply.Taken, want)
		}
	})
	if reply := t.hold(seatflow.OutcomeTaken, ask(ref, 4, 7)); !slices.Equal(reply.Taken, seats(7)) {
		t.Fatalf("taken %v, want the gap", reply.Taken)
	}
	t.hold(seatflow.OutcomeHeld, ask(ref, 4, 1, 4, 8))
	t.text(ref, "1221"+"1x-1")
}

func holdRepeat(t *seatTest) {
	ref := t.house(4)
	first := t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2))
	t.Advance(time.Minute)
	t.unchanged(ref, "a repeat", func() {
		again := t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2))
		if !again.Repeat || again.Generation != 1 || again.Revision != 1 {
			t.Fatalf("the repeat answers %+v", again)
		}
		t.at("deadline of the repeat", again.Deadline, first.Deadline)
		t.at("cap of the repeat", again.Cap, first.Cap)
		t.at("time of taking of the repeat", again.TakenAt, first.TakenAt)
	})
	// Another attempt of the same order is another owner.
	second := ask(ref, 1, 1, 2)
	second.Owner.Attempt = 2
	t.hold(seatflow.OutcomeTaken, second)
	// So is the same order asked for by somebody else.
	stranger := ask(ref, 1, 1, 2)
	stranger.User = user(2)
	t.hold(seatflow.OutcomeTaken, stranger)
	// Sold, it is no live hold any more.
	t.sell(2, ref, 1)
	t.hold(seatflow.OutcomeTaken, ask(ref, 1, 1, 2))
}

// An owner takes seats once. While it has any, all that it may ask for again
// is the same seats; anything else is taken, and where every asked seat is
// available, all of them are named.
func holdOneRecord(t *seatTest) {
	ref := t.house(6)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2))
	t.hold(seatflow.OutcomeHeld, ask(ref, 2, 3))
	for _, c := range []struct{ asked, taken []seatflow.SeatID }{
		{seats(1), seats(1)},
		{seats(1, 2, 4), seats(1, 2)},
		{seats(2, 3, 4), seats(2, 3)},
		{seats(3, 4), seats(3)},
		{seats(4, 5), seats(4, 5)},
	} {
		t.unchanged(ref, "a second hold of an owner", func() {
			if reply := t.hold(seatflow.OutcomeTaken, ask(ref, 1, c.asked...)); !slices.Equal(reply.Taken, c.taken) {
				t.Fatalf("asked for %v, taken %v, want %v", c.asked, reply.Taken, c.taken)
			}
		})
	}
	t.block(seats(6), nil, ref, 3, seats(6))
	t.hold(seatflow.OutcomeTaken, ask(ref, 3, 4))
	t.release(seats(1, 2), ref, 1, nil)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 4, 5))
}

func holdYours(t *seatTest) {
	ref := t.house(6)
	key := seatflow.HashKey(user(1), "confirmation")
	mine := ask(ref, 1, 2, 3)
	mine.KeyHash = key
	t.hold(seatflow.OutcomeHeld, mine)
	t.hold(seatflow.OutcomeHeld, ask(ref, 9, 1))

	retry := func(change func(*seatflow.HoldRequest)) seatflow.HoldRequest {
		req := ask(ref, 2, 2, 3)
		req.User, req.KeyHash = user(1), key
		if change != nil {
			change(&req)
		}
		return req
	}
	yours := func(req seatflow.HoldRequest) {
		t.Helper()
		t.unchanged(ref, "a hold of one's own seats", func() {
			if reply := t.hold(seatflow.OutcomeYours, req); reply.Owner != order(1) {
				t.Fatalf("yours of %s, want %s", reply.Owner, order(1))
			}
		})
	}
	yours(retry(nil))
	// One seat is enough, whatever stands beside it.
	yours(retry(func(r *seatflow.HoldRequest) { r.Seats = seats(1, 3, 4, 99) }))
	// The later attempt of the order meets the earlier one.
	yours(retry(func(r *seatflow.HoldRequest) { r.Owner = seatflow.Owner{Order: order(1).Order, Attempt: 2} }))
	// Another key, no key, another user, other seats: a conflict, or nothing.
	t.hold(seatflow.OutcomeTaken, retry(func(r *seatflow.HoldRequest) { r.KeyHash = seatflow.HashKey(user(1), "other") }))
	t.hold(seatflow.OutcomeTaken, retry(func(r *seatflow.HoldRequest) { r.KeyHash = seatflow.KeyHash{} }))
	t.hold(seatflow.OutcomeTaken, retry(func(r *seatflow.HoldRequest) { r.User = user(2) }))
	t.hold(seatflow.OutcomeTaken, retry(func(r *seatflow.HoldRequest) { r.Seats = seats(1) }))
	// Its own owner is a repeat, not somebody else.
	t.hold(seatflow.OutcomeHeld, mine)
	// A block is nobody's retry, whatever its record says.
	blocked := t.record(7, seatflow.Blocked)
	blocked.User, blocked.KeyHash = user(7), seatflow.HashKey(user(7), "block")
	t.repair(ref, 1, fix(4, seatflow.Available, 0, seatflow.Blocked, blocked))
	again := ask(ref, 8, 4)
	again.User, again.KeyHash = blocked.User, blocked.KeyHash
	t.hold(seatflow.OutcomeTaken, again)
	// It stays one's own when its time is over, and when it is paid.
	t.Advance(holdCap)
	yours(retry(nil))
	t.sell(2, ref, 1)
	yours(retry(nil))
	t.hold(seatflow.OutcomeHeld, retry(func(r *seatflow.HoldRequest) { r.Seats = seats(5, 6) }))
	// Orders without a key have nothing in common.
	t.hold(seatflow.OutcomeTaken, func() seatflow.HoldRequest { r := ask(ref, 10, 1); r.User = user(9); return r }())
}

func holdRate(t *seatTest) {
	ref := t.house(20)
	other := t.ref(2)
	t.install(seatflow.View{Show: other, Generation: 1, Base: base(1)})
	rated := func(n int, ids ...seatflow.SeatID) seatflow.HoldRequest {
		req := ask(ref, n, ids...)
		req.Rate = 3
		return req
	}
	t.hold(seatflow.OutcomeHeld, rated(1, 1))
	t.Advance(400 * time.Millisecond)
	t.hold(seatflow.OutcomeTaken, rated(2, 1)) // a refused one counts
	over := rated(3, 2, 3)
	over.Limit = 1
	t.hold(seatflow.OutcomeOverLimit, over) // so does this
	busy := func(n int, wait time.Duration, ids ...seatflow.SeatID) {
		t.Helper()
		t.unchanged(ref, "a busy answer", func() {
			if reply := t.hold(seatflow.OutcomeBusy, rated(n, ids...)); reply.RetryAfter != wait {
				t.Fatalf("retry after %v, want %v", reply.RetryAfter, wait)
			}
		})
	}
	busy(4, 600*time.Millisecond, 5)
	busy(4, 600*time.Millisecond, 1) // asked before whether the seat is taken
	t.hold(seatflow.OutcomeHeld, rated(1, 1))
	free := ask(other, 5, 1)
	free.Rate = 3
	t.hold(seatflow.OutcomeHeld, free) // another show has its own window
	t.hold(seatflow.OutcomeHeld, ask(ref, 6, 6))
	t.Advance(599 * time.Millisecond)
	busy(4, time.Millisecond, 5)
	t.Advance(time.Millisecond) // the first leaves; the busy ones never counted
	t.hold(seatflow.OutcomeHeld, rated(4, 5))
	busy(7, 400*time.Millisecond, 7)
	t.Advance(400 * time.Millisecond)
	t.hold(seatflow.OutcomeHeld, rated(7, 7))
	t.hold(seatflow.OutcomeHeld, rated(8, 8))
	busy(9, 600*time.Millisecond, 9)
	t.Advance(time.Hour)
	for n := range 3 {
		t.hold(seatflow.OutcomeHeld, rated(10+n, seatflow.SeatID(10+n)))
	}
	busy(13, time.Second, 13)
}

func holdLimit(t *seatTest) {
	ref := t.house(20)
	as := func(order int, ids ...seatflow.SeatID) seatflow.HoldRequest {
		req := ask(ref, order, ids...)
		req.User, req.Limit = user(1), 4
		return req
	}
	over := func(left int, req seatflow.HoldRequest) {
		t.Helper()
		t.unchanged(ref, "a hold over the limit", func() {
			if reply := t.hold(seatflow.OutcomeOverLimit, req); reply.Left != left {
				t.Fatalf("%d left, want %d", reply.Left, left)
			}
		})
	}
	over(4, as(1, 1, 2, 3, 4, 5))
	t.hold(seatflow.OutcomeHeld, as(1, 1, 2, 3))
	over(1, as(2, 4, 5)) // several orders do not walk around it
	t.hold(seatflow.OutcomeHeld, as(2, 4))
	over(0, as(3, 5))
	t.hold(seatflow.OutcomeHeld, ask(ref, 9, 20)) // another user
	t.sell(3, ref, 1)                             // sold seats stay in effect
	over(0, as(3, 5))
	t.release(seats(4), ref, 2, nil)
	t.release(nil, ref, 2, nil) // given back once
	t.effective(ref, 1, 3)
	over(1, as(3, 5, 6))
	t.unsell(seats(1), ref, 1, seats(1))
	t.unsell(nil, ref, 1, seats(1))
	t.effective(ref, 1, 2)
	t.hold(seatflow.OutcomeHeld, as(3, 5, 6))
	t.release(nil, ref, 8, seats(5)) // not by another owner
	over(0, as(4, 7))
	t.block(span(10, 15), nil, ref, 5, span(10, 15)) // blocks count for nobody
	t.effective(ref, 5, 0)
	lower := as(6, 7)
	lower.Limit = 1
	over(0, lower) // a limit lowered meanwhile leaves nothing, not less
	none := as(7, 7, 8)
	none.Limit = 0
	t.hold(seatflow.OutcomeHeld, none)
	t.effective(ref, 1, 6)
}

// Not ready, repeat, yours, busy, taken, over limit, held.
func holdOrder(t *seatTest) {
	ref := t.house(10)
	key := seatflow.HashKey(user(1), "k")
	first := ask(ref, 1, 1, 2)
	first.KeyHash, first.Rate, first.Limit = key, 1, 2
	t.hold(seatflow.OutcomeHeld, first)
	t.hold(seatflow.OutcomeHeld, ask(ref, 2, 3))
	t.hold(seatflow.OutcomeHeld, first) // over the rate and the limit, but a repeat
	retry := first
	retry.Owner, retry.Seats = order(3), seats(2, 3)
	t.hold(seatflow.OutcomeYours, retry) // before busy and taken
	retry.Seats = seats(3, 4)
	t.hold(seatflow.OutcomeBusy, retry) // before taken
	t.Advance(time.Second)
	t.hold(seatflow.OutcomeTaken, retry) // before over limit
	t.Advance(time.Second)
	retry.Seats = seats(4)
	t.hold(seatflow.OutcomeOverLimit, retry)
	missing := retry
	missing.Show = t.ref(99)
	t.hold(seatflow.OutcomeNotReady, missing)
}

func holdCapped(t *seatTest) {
	ref := t.house(4)
	short := ask(ref, 1, 1)
	short.For, short.Cap = 10*time.Minute, 4*time.Minute
	reply := t.hold(seatflow.OutcomeHeld, short)
	t.at("a deadline beyond the cap", reply.Deadline, t.Now().Add(4*time.Minute))
	t.at("the cap", reply.Cap, t.Now().Add(4*time.Minute))
	none := ask(ref, 2, 2)
	none.Cap = 0
	reply = t.hold(seatflow.OutcomeHeld, none)
	t.at("the deadline of a hold without a cap", reply.Deadline, t.Now().Add(holdFor))
	t.at("its cap", reply.Cap, t.Now().Add(holdFor))
}

// Nothing frees itself: only the guardian knows whether it was paid.
func holdPastDeadline(t *seatTest) {
	ref := t.house(3)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2))
	t.Advance(5 * holdCap)
	t.text(ref, "110")
	t.hold(seatflow.OutcomeTaken, ask(ref, 2, 2, 3))
	t.effective(ref, 1, 2)
	// The owner itself is not live any more either.
	if reply := t.hold(seatflow.OutcomeTaken, ask(ref, 1, 1, 2)); !slices.Equal(reply.Taken, seats(1, 2)) {
		t.Fatalf("taken %v, want both", reply.Taken)
	}
	t.sell(2, ref, 1) // money may still arrive
	t.text(ref, "220")
}

func holdInvalid(t *seatTest) {
	ref := t.house(3)
	for name, change := range map[string]func(*seatflow.HoldRequest){
		"no seats":          func(r *seatflow.HoldRequest) { r.Seats = nil },
		"unsorted":          func(r *seatflow.HoldRequest) { r.Seats = seats(2, 1) },
		"repeated":          func(r *seatflow.HoldRequest) { r.Seats = seats(1, 1) },
		"no owner":          func(r *seatflow.HoldRequest) { r.Owner = seatflow.Owner{} },
		"no user":           func(r *seatflow.HoldRequest) { r.User = "" },
		"negative time":     func(r *seatflow.HoldRequest) { r.For = -time.Second },
		"no such partition": func(r *seatflow.HoldRequest) { r.Show.Partition = seatflow.Partitions },
		"far-off partition": func(r *seatflow.HoldRequest) { r.Show.Partition = 255 },
	} {
		req := ask(ref, 1, 1)
		change(&req)
		t.unchanged(ref, name, func() {
			_, err := t.Store.Hold(t.Context(), req)
			t.fails(name, err, nil)
		})
	}
}
