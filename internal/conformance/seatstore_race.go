package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seatflow"
)

var raceCases = []seatCase{
	{"race/one seat", raceOneSeat},
	{"race/distinct callers", raceDistinct},
	{"race/groups", raceGroups},
	{"race/limit", raceLimit},
	{"race/one key", raceOneKey},
	{"race/rate", raceRate},
	{"race/release and hold", raceReleaseHold},
	{"race/sell and release", raceSellRelease},
	{"race/rebuild beside holds", raceRebuild},
	{"race/repair and hold", raceRepair},
	{"race/due", raceDue},
	{"race/snapshots and changes", raceReaders},
	{"race/linearizable", raceLinearizable},
}

// together runs n callers that set out at the same moment.
func together(n int, call func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			call(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// tally counts outcomes of holds.
type tally [16]atomic.Int64

func (c *tally) hold(t *seatTest, req seatflow.HoldRequest) seatflow.HoldReply {
	reply, err := t.Store.Hold(t.Context(), req)
	if err != nil {
		t.Errorf("hold by %s: %v", req.Owner, err)
		return reply
	}
	c[reply.Outcome&15].Add(1)
	return reply
}

// expect expects exact counts, and nothing beside them.
func (c *tally) expect(t *seatTest, want map[seatflow.HoldOutcome]int64) {
	t.Helper()
	for i := range c {
		if o := seatflow.HoldOutcome(i); c[i].Load() != want[o] {
			t.Errorf("%d answers %q, want %d", c[i].Load(), o, want[o])
		}
	}
}

func raceOneSeat(t *seatTest) {
	ref := t.house(3)
	var c tally
	together(200, func(i int) { c.hold(t, ask(ref, i+1, 2)) })
	c.expect(t, map[seatflow.HoldOutcome]int64{seatflow.OutcomeHeld: 1, seatflow.OutcomeTaken: 199})
	t.text(ref, "010")
}

func raceDistinct(t *seatTest) {
	ref := t.house(100)
	var c tally
	together(1000, func(i int) { c.hold(t, ask(ref, i+1, seatflow.SeatID(i%100+1))) })
	c.expect(t, map[seatflow.HoldOutcome]int64{seatflow.OutcomeHeld: 100, seatflow.OutcomeTaken: 900})
	snap := t.snap(ref)
	if len(snap.Owners) != 100 || len(snap.Orders) != 100 || snap.Revision.Number != 100 {
		t.Errorf("%d owners, %d orders, revision %d; want 100 of each", len(snap.Owners), len(snap.Orders), snap.Revision.Number)
	}
}

// Overlapping groups: whoever is held has all its seats, and whoever is not
// has none and was told at least one seat that was really gone.
func raceGroups(t *seatTest) {
	const n, callers = 60, 400
	ref := t.house(n)
	asked := make([][]seatflow.SeatID, callers)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range asked {
		for _, p := range rng.Perm(n)[:1+rng.IntN(6)] {
			asked[i] = append(asked[i], seatflow.SeatID(p+1))
		}
		slices.Sort(asked[i])
	}
	replies := make([]seatflow.HoldReply, callers)
	var c tally
	together(callers, func(i int) { replies[i] = c.hold(t, ask(ref, i+1, asked[i]...)) })
	snap := t.snap(ref)
	seen, held := make(map[seatflow.SeatID]bool), 0
	for i, r := range replies {
		switch r.Outcome {
		case seatflow.OutcomeHeld:
			held++
			for _, id := range asked[i] {
				if seen[id] || snap.Owners[id] != order(i+1) {
					t.Errorf("caller %d was told it holds seat %d, which is %s's", i, id, snap.Owners[id])
				}
				seen[id] = true
			}
		case seatflow.OutcomeTaken:
			for _, id := range r.Taken {
				if !slices.Contains(asked[i], id) || snap.States[id-1] != seatflow.Held || snap.Owners[id] == order(i+1) {
					t.Errorf("caller %d asked for %v and was told that %d is taken, which is %s", i, asked[i], id, snap.States[id-1])
				}
			}
			if len(r.Taken) == 0 {
				t.Errorf("caller %d was refused for nothing", i)
			}
		default:
			t.Errorf("caller %d: %v", i, r.Outcome)
		}
	}
	if len(seen) != len(snap.Owners) || held != len(snap.Orders) {
		t.Errorf("%d seats of %d orders were promised, %d of %d are held", len(seen), held, len(snap.Owners), len(snap.Orders))
	}
}

func raceLimit(t *seatTest) {
	ref := t.house(100)
	var c tally
	together(100, func(i int) {
		req := ask(ref, i+1, seatflow.SeatID(i+1))
		req.User, req.Limit = user(i%2), 6
		c.hold(t, req)
	})
	c.expect(t, map[seatflow.HoldOutcome]int64{seatflow.OutcomeHeld: 12, seatflow.OutcomeOverLimit: 88})
	t.effective(ref, 0, 6)
	t.effective(ref, 1, 6)
}

// Retries of one confirmation under several numbers: one holds, the others
// hear that it is theirs, none that it is taken.
func raceOneKey(t *seatTest) {
	ref := t.house(4)
	var c tally
	together(100, func(i int) {
		req := ask(ref, i+1, 1, 2)
		req.User, req.KeyHash = user(1), seatflow.HashKey(user(1), "k")
		c.hold(t, req)
	})
	c.expect(t, map[seatflow.HoldOutcome]int64{seatflow.OutcomeHeld: 1, seatflow.OutcomeYours: 99})
	c = tally{}
	together(50, func(i int) { c.hold(t, ask(ref, 500, 3, 4)) }) // one owner, many times
	c.expect(t, map[seatflow.HoldOutcome]int64{seatflow.OutcomeHeld: 50})
	if got := t.snap(ref).Revision.Number; got != 2 {
		t.Errorf("revision %d, want 2", got)
	}
}

func raceRate(t *seatTest) {
	ref := t.house(10)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1000, 1))
	for range 3 {
		var c tally
		together(100, func(i int) {
			req := ask(ref, i+1, 1)
			req.Rate = 30
			c.hold(t, req)
		})
		c.expect(t, map[seatflow.HoldOutcome]int64{seatflow.OutcomeTaken: 30, seatflow.OutcomeBusy: 70})
		t.Advance(time.Second)
	}
}

// A seat changes hands as often as it is given back: each release frees it
// for exactly one of those who keep asking.
func raceReleaseHold(t *seatTest) {
	ref := t.house(1)
	for round := range 200 {
		first, a, b := 3*round+1, 3*round+2, 3*round+3
		t.hold(seatflow.OutcomeHeld, ask(ref, first, 1))
		var c tally
		var freed atomic.Int64
		together(4, func(i int) {
			switch i {
			case 0, 1: // twice, as after a lost reply
				r, err := t.Store.Release(t.Context(), ref, order(first), nil)
				if err != nil {
					t.Errorf("release: %v", err)
				}
				freed.Add(int64(len(r.Released)))
			case 2:
				c.hold(t, ask(ref, a, 1))
			case 3:
				c.hold(t, ask(ref, b, 1))
			}
		})
		held := c[seatflow.OutcomeHeld].Load()
		if freed.Load() != 1 || held > 1 || held+c[seatflow.OutcomeTaken].Load() != 2 {
			t.Fatalf("round %d: freed %d times, %d held, %d taken", round, freed.Load(), held, c[seatflow.OutcomeTaken].Load())
		}
		snap := t.snap(ref)
		if int64(len(snap.Owners)) != held || snap.Owners[1] == order(first) {
			t.Fatalf("round %d: %d were told they hold it, it is %q's", round, held, snap.Owners[1])
		}
		for _, n := range []int{a, b} {
			_, err := t.Store.Release(t.Context(), ref, order(n), nil)
			t.must(err)
		}
	}
}

// Of a payment and a time-out exactly one has the seat.
func raceSellRelease(t *seatTest) {
	const n = 200
	ref := t.house(n)
	var sold, freed atomic.Int64
	for i := range n {
		t.hold(seatflow.OutcomeHeld, ask(ref, i+1, seatflow.SeatID(i+1)))
	}
	together(2*n, func(i int) {
		owner := order(i/2 + 1)
		if i%2 == 0 {
			r, err := t.Store.Sell(t.Context(), ref, owner)
			if err != nil {
				t.Errorf("sell: %v", err)
			}
			sold.Add(int64(r.Sold))
			return
		}
		r, err := t.Store.Release(t.Context(), ref, owner, nil)
		if err != nil {
			t.Errorf("release: %v", err)
		}
		freed.Add(int64(len(r.Released)))
	})
	var now int64
	for _, s := range t.snap(ref).States {
		if s == seatflow.Sold {
			now++
		}
	}
	if sold.Load()+freed.Load() != n || sold.Load() != now {
		t.Errorf("%d sold and %d freed of %d; %d are sold", sold.Load(), freed.Load(), n, now)
	}
}

// A rebuild from facts that know of no hold: whoever was told a generation
// that stands has its seats; whoever was told an earlier one is fenced.
func raceRebuild(t *seatTest) {
	const n, callers, rounds = 50, 300, 30
	ref := t.house(n)
	for g := range rounds {
		t.views[ref][seatflow.Generation(g+2)] = seatflow.View{Show: ref, Generation: seatflow.Generation(g + 2), Base: base(n)}
	}
	replies := make([]seatflow.HoldReply, callers)
	var c tally
	together(callers+rounds, func(i int) {
		if i < callers {
			replies[i] = c.hold(t, ask(ref, i+1, seatflow.SeatID(i%n+1)))
			return
		}
		err := t.Store.Rebuild(t.Context(), t.views[ref][seatflow.Generation(i-callers+2)])
		if err != nil && !errors.Is(err, seatflow.ErrStaleGeneration) {
			t.Errorf("rebuild: %v", err)
		}
	})
	snap := t.snap(ref)
	if snap.Revision.Generation != rounds+1 {
		t.Errorf("generation %d, want %d", snap.Revision.Generation, rounds+1)
	}
	standing := 0
	for i, r := range replies {
		id := seatflow.SeatID(i%n + 1)
		if r.Outcome == seatflow.OutcomeHeld && r.Generation == snap.Revision.Generation {
			standing++
			if snap.Owners[id] != order(i+1) {
				t.Errorf("caller %d holds seat %d in generation %d, but it is %q's", i, id, r.Generation, snap.Owners[id])
			}
		}
	}
	if standing != len(snap.Owners) || int64(standing) != snap.Revision.Number {
		t.Errorf("%d stand, %d have owners, revision %d", standing, len(snap.Owners), snap.Revision.Number)
	}
}

// A repair meets a hold on the same free seat: one of them has it.
func raceRepair(t *seatTest) {
	const n = 100
	ref := t.house(n)
	var c tally
	var fixed atomic.Int64
	together(2*n, func(i int) {
		id := seatflow.SeatID(i/2 + 1)
		if i%2 == 0 {
			c.hold(t, ask(ref, i+1, id))
			return
		}
		reply, err := t.Store.Repair(t.Context(), seatflow.RepairRequest{Show: ref, Generation: 1,
			Seats: []seatflow.SeatRepair{fix(id, seatflow.Available, 0, seatflow.Sold, t.record(i+1, seatflow.Sold))}})
		if err != nil || len(reply.Fixed)+len(reply.Changed) != 1 {
			t.Errorf("repair: %+v, %v", reply, err)
		}
		fixed.Add(int64(len(reply.Fixed)))
	})
	if got := c[seatflow.OutcomeHeld].Load() + fixed.Load(); got != n {
		t.Errorf("%d held and %d repaired, want %d together", c[seatflow.OutcomeHeld].Load(), fixed.Load(), n)
	}
}

// Many guardians: every due hold is claimed by exactly one.
func raceDue(t *seatTest) {
	const n = 200
	ref := t.house(n)
	for i := range n {
		t.hold(seatflow.OutcomeHeld, ask(ref, i+1, seatflow.SeatID(i+1)))
	}
	t.Advance(holdFor)
	var mu sync.Mutex
	claimed := make(map[seatflow.Owner]int)
	together(8, func(int) {
		for {
			due, err := t.Store.ClaimDue(t.Context(), 7, 7, time.Minute)
			if err != nil || len(due) == 0 {
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				return
			}
			mu.Lock()
			for _, d := range due {
				claimed[d.Owner]++
			}
			mu.Unlock()
		}
	})
	for owner, times := range claimed {
		if times != 1 {
			t.Errorf("%s was claimed %d times", owner, times)
		}
	}
	if len(claimed) != n {
		t.Errorf("%d claimed, want %d", len(claimed), n)
	}
}

// Readers beside writers: each snapshot holds together, and a position taken
// before a snapshot leads on from it without a gap.
func raceReaders(t *seatTest) {
	const n, writers, rounds = 40, 8, 150
	ref := t.house(n)
	var writing sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			for i := range rounds {
				me := 1 + w*rounds + i
				first := seatflow.SeatID(1 + rng.IntN(n-3))
				reply, err := t.Store.Hold(t.Context(), ask(ref, me, first, first+1, first+2))
				if err == nil && reply.Outcome == seatflow.OutcomeHeld {
					switch rng.IntN(3) {
					case 0:
						_, err = t.Store.Sell(t.Context(), ref, order(me))
						fallthrough
					case 1:
						_, err2 := t.Store.Unsell(t.Context(), ref, order(me), nil)
						err = errors.Join(err, err2)
					default:
						_, err = t.Store.Release(t.Context(), ref, order(me), seats(first+1, first+2))
					}
				}
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	var reading sync.WaitGroup
	for range 2 {
		reading.Go(func() {
			for last := (seatflow.Revision{}); ; {
				select {
				case <-stop:
					return
				default:
				}
				next, err := t.readAndFollow(ref, last)
				if err != nil {
					t.Errorf("after %s: %v", last, err)
					return
				}
				last = next
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()
}

// readAndFollow takes a position, then a snapshot, which must not be before
// one that was read earlier, and applies to it the changes from the position.
func (t *seatTest) readAndFollow(ref seatflow.ShowRef, last seatflow.Revision) (seatflow.Revision, error) {
	now, err := t.Store.Changes(t.Context(), seatflow.ChangesRequest{Partition: 7, After: seatflow.PositionNow})
	if err != nil {
		return last, err
	}
	snap, err := t.Store.Snapshot(t.Context(), ref, seatflow.DetailOrders|seatflow.DetailUsers)
	if err != nil {
		return last, err
	}
	if snap.Revision.Before(last) {
		return last, fmt.Errorf("snapshot at %s", snap.Revision)
	}
	if err := checkSnapshot(snap); err != nil {
		return last, err
	}
	batch, err := t.Store.Changes(t.Context(), seatflow.ChangesRequest{Partition: 7, After: now.Next})
	if err != nil {
		return last, err
	}
	if batch.Trimmed {
		if t.ChangesKept == 0 {
			return last, fmt.Errorf("a log that keeps everything was trimmed")
		}
		return snap.Revision, nil // read too slowly: the store said so
	}
	house := &replica{at: snap.Revision, states: slices.Clone(snap.States)}
	for _, c := range batch.Changes {
		if !house.at.Before(c.Revision) {
			continue // seen
		}
		if err := house.apply(c); err != nil {
			return last, fmt.Errorf("on from %s: %w", snap.Revision, err)
		}
	}
	return snap.Revision, nil
}
