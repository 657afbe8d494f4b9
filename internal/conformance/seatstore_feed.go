package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"seatflow"
)

var feedCases = []seatCase{
	{"due/claims", dueClaims},
	{"due/order and limit", dueOrder},
	{"changes/content", changesContent},
	{"changes/positions", changesPositions},
	{"changes/wait", changesWait},
	{"changes/trimmed", changesTrimmed},
}

func dueClaims(t *seatTest) {
	ref := t.house(10)
	start := t.Now()
	t.due(time.Minute)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2))
	t.Advance(holdFor - time.Millisecond)
	t.due(time.Minute)
	t.Advance(time.Millisecond) // at the deadline it is over
	due := t.due(time.Minute, 1)[0]
	if due.Show != 1 || due.User != user(1) || due.Age != holdFor {
		t.Fatalf("claimed %+v", due)
	}
	t.at("taken at", due.TakenAt, start)
	t.at("the deadline", due.Deadline, start.Add(holdFor))
	t.due(time.Minute) // leased
	t.Advance(time.Minute - time.Millisecond)
	t.due(time.Minute)
	t.Advance(time.Millisecond) // the guardian died: claimed again
	due = t.due(time.Minute, 1)[0]
	t.at("the deadline after a lease", due.Deadline, start.Add(holdFor))
	if due.Age != holdFor+time.Minute {
		t.Fatalf("age %v", due.Age)
	}
	t.text(ref, "1100000000") // claiming frees nothing

	// What was extended wakes at its new deadline, leased or not.
	late := start.Add(holdFor + 5*time.Minute)
	if r, err := t.Store.Extend(t.Context(), ref, order(1), late); err != nil || !r.Extended {
		t.Fatalf("extension: %+v, %v", r, err)
	}
	t.Advance(3 * time.Minute)
	t.due(time.Hour)
	t.Advance(time.Minute)
	t.at("the new deadline", t.due(time.Hour, 1)[0].Deadline, late)

	// A part released leaves the rest due; all released, nothing.
	t.release(seats(1), ref, 1, seats(1))
	t.Advance(time.Hour)
	t.due(time.Minute, 1)
	t.release(seats(2), ref, 1, nil)
	t.Advance(time.Hour)
	t.due(time.Minute)

	// Other partitions are other guardians' business.
	moved := t.ref(2)
	moved.Partition = 8
	t.install(seatflow.View{Show: moved, Generation: 1, Base: base(2)})
	t.hold(seatflow.OutcomeHeld, ask(moved, 3, 1))
	t.Advance(holdFor)
	t.due(time.Minute)
	if due, err := t.Store.ClaimDue(t.Context(), 8, 10, time.Minute); err != nil || len(due) != 1 || due[0].Show != 2 {
		t.Fatalf("claimed %+v, %v", due, err)
	}
	_, err := t.Store.ClaimDue(t.Context(), seatflow.Partitions, 10, time.Minute)
	t.fails("a partition that is none", err, nil)
}

func dueOrder(t *seatTest) {
	ref, other := t.house(20), t.ref(2)
	t.install(seatflow.View{Show: other, Generation: 1, Base: base(5)})
	for i, after := range []time.Duration{5, 1, 4, 2, 3} {
		req := ask(ref, 10+i, seatflow.SeatID(i+1))
		req.For = after * time.Minute
		t.hold(seatflow.OutcomeHeld, req)
	}
	req := ask(other, 9, 1)
	req.For = 2*time.Minute + time.Second
	t.hold(seatflow.OutcomeHeld, req)
	t.Advance(10 * time.Minute)
	for _, limit := range []int{0, -1} {
		if due, err := t.Store.ClaimDue(t.Context(), 7, limit, time.Minute); err != nil || len(due) != 0 {
			t.Fatalf("a limit of %d claims %+v, %v", limit, due, err)
		}
	}
	var got []string
	for {
		due, err := t.Store.ClaimDue(t.Context(), 7, 4, time.Hour)
		t.must(err)
		if len(due) == 0 {
			break
		}
		if len(due) > 4 {
			t.Fatalf("claimed %d of at most 4", len(due))
		}
		for _, d := range due {
			got = append(got, fmt.Sprint(d.Show, d.Owner))
		}
	}
	var want []string
	for _, w := range []struct{ show, order int }{{1, 11}, {1, 13}, {2, 9}, {1, 14}, {1, 12}, {1, 10}} {
		want = append(want, fmt.Sprint(w.show, order(w.order)))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("claimed in the order\n\t%v, want\n\t%v", got, want)
	}
	// A lease of nothing is offered again at once, but once a claim.
	t.Advance(2 * time.Hour)
	for range 2 {
		if due, err := t.Store.ClaimDue(t.Context(), 7, 100, 0); err != nil || len(due) != 6 {
			t.Fatalf("claimed %d, %v; want 6", len(due), err)
		}
	}
}

func changesContent(t *seatTest) {
	ref := t.house(6)
	start := t.Now()
	t.Advance(time.Second)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1, 2, 3))
	t.hold(seatflow.OutcomeTaken, ask(ref, 2, 3))
	_, err := t.Store.Extend(t.Context(), ref, order(1), t.Now().Add(holdFor+time.Minute))
	t.must(err)
	t.release(seats(3), ref, 1, seats(3))
	t.sell(2, ref, 1)
	t.sell(2, ref, 1)
	t.unsell(seats(2), ref, 1, seats(2))
	t.block(seats(5), seats(1), ref, 3, seats(1, 5))
	t.repair(ref, 1, fix(5, seatflow.Blocked, 3, seatflow.Blocked, t.record(4, seatflow.Blocked)),
		fix(6, seatflow.Available, 0, seatflow.Sold, t.record(1, seatflow.Sold)))
	t.unblock(seats(5), nil, ref, 4, nil)
	t.install(seatflow.View{Show: ref, Generation: 3, Base: base(6)})
	t.hold(seatflow.OutcomeHeld, ask(ref, 5, 6))

	want := []string{
		"1.0 rebuild []",
		"1.1 hold [{1 held 1} {2 held 1} {3 held 1}]",
		"1.2 extend [{1 held 0} {2 held 0} {3 held 0}]",
		"1.3 release [{3 available -1}]",
		"1.4 sell [{1 sold 0} {2 sold 0}]",
		"1.5 unsell [{2 available -1}]",
		"1.6 block [{5 blocked 1}]",
		"1.7 repair [{5 blocked 0} {6 sold 1}]",
		"1.8 unblock [{5 available -1}]",
		"3.0 rebuild []",
		"3.1 hold [{6 held 1}]",
	}
	list, _ := t.changes(7, "")
	for i, c := range list {
		if i >= len(want) || c.Show != 1 || fmt.Sprint(c.Revision, c.Verb, c.Seats) != want[i] {
			t.Fatalf("change %d is %+v, want %q", i, c, want[min(i, len(want)-1)])
		}
	}
	if len(list) != len(want) {
		t.Fatalf("%d changes, want %d", len(list), len(want))
	}
	t.at("the first change", list[0].At, start)
	t.at("the last change", list[len(list)-1].At, start.Add(time.Second))
}

// poll asks for changes without waiting.
func (t *seatTest) poll(partition seatflow.Partition, after seatflow.Position, limit int) seatflow.ChangeBatch {
	t.Helper()
	batch, err := t.Store.Changes(t.Context(), seatflow.ChangesRequest{Partition: partition, After: after, Limit: limit})
	t.must(err)
	return batch
}

func revisions(batch seatflow.ChangeBatch) string {
	var s []string
	for _, c := range batch.Changes {
		s = append(s, fmt.Sprintf("%d/%s", c.Show, c.Revision))
	}
	return fmt.Sprint(s)
}

// batch expects changes of partition 7.
func (t *seatTest) batch(got seatflow.ChangeBatch, want string, trimmed bool) {
	t.Helper()
	t.batchOf(7, got, want, trimmed)
}

func (t *seatTest) batchOf(partition seatflow.Partition, got seatflow.ChangeBatch, want string, trimmed bool) {
	t.Helper()
	if revisions(got) != want || got.Trimmed != trimmed {
		t.Fatalf("changes %s trimmed %t, want %s and %t", revisions(got), got.Trimmed, want, trimmed)
	}
	if identity := t.identity(partition); got.Identity != identity {
		t.Fatalf("a batch of %q by %q", got.Identity, identity)
	}
}

func changesPositions(t *seatTest) {
	empty := t.poll(7, "", 0)
	t.batch(empty, "[]", false)
	ref, other := t.house(9), t.ref(2)
	t.install(seatflow.View{Show: other, Generation: 4, Base: base(2)})
	now := t.poll(7, seatflow.PositionNow, 0)
	t.batch(now, "[]", false)
	t.batch(t.poll(7, now.Next, 0), "[]", false)
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	t.hold(seatflow.OutcomeHeld, ask(other, 2, 1))
	t.hold(seatflow.OutcomeHeld, ask(ref, 3, 3))
	t.batch(t.poll(7, empty.Next, 0), "[1/1.0 2/4.0 1/1.1 2/4.1 1/1.2]", false)
	t.batch(t.poll(7, "", 0), "[1/1.0 2/4.0 1/1.1 2/4.1 1/1.2]", false)
	t.batch(t.poll(7, now.Next, 0), "[1/1.1 2/4.1 1/1.2]", false)
	two := t.poll(7, now.Next, 2)
	t.batch(two, "[1/1.1 2/4.1]", false)
	t.batch(t.poll(7, two.Next, 2), "[1/1.2]", false)
	t.batch(t.poll(7, now.Next, 2), "[1/1.1 2/4.1]", false) // reading takes nothing away
	t.batch(t.poll(7, seatflow.PositionNow, 2), "[]", false)

	// Partitions have logs of their own.
	t.batchOf(8, t.poll(8, "", 0), "[]", false)
	_, err := t.Store.Changes(t.Context(), seatflow.ChangesRequest{Partition: seatflow.Partitions})
	t.fails("a partition that is none", err, nil)

	// A position that this store never gave may have missed anything.
	for _, foreign := range []seatflow.Position{"nonsense", "-", "0", "$$", "\x00", "another-2"} {
		got := t.poll(7, foreign, 2)
		t.batch(got, "[1/1.0 2/4.0]", true)
		t.batch(t.poll(7, got.Next, 2), "[1/1.1 2/4.1]", false)
	}
}

// patience is how long to wait for what comes at once in a store that does as
// it should.
const patience = 10 * time.Second

func changesWait(t *seatTest) {
	ref := t.house(9)
	type answer struct {
		batch seatflow.ChangeBatch
		err   error
	}
	wait := func(ctx context.Context, after seatflow.Position, span time.Duration) <-chan answer {
		done := make(chan answer, 1)
		go func() {
			batch, err := t.Store.Changes(ctx, seatflow.ChangesRequest{Partition: 7, After: after, Wait: span})
			done <- answer{batch, err}
		}()
		return done
	}
	// What is there is given without waiting.
	got := <-wait(t.Context(), "", patience)
	t.must(got.err)
	t.batch(got.batch, "[1/1.0]", false)
	// Whether they wait already or not, all get what comes.
	var waiting []<-chan answer
	for range 5 {
		waiting = append(waiting, wait(t.Context(), got.batch.Next, patience))
	}
	t.hold(seatflow.OutcomeHeld, ask(ref, 1, 1))
	for _, w := range waiting {
		a := <-w
		t.must(a.err)
		t.batch(a.batch, "[1/1.1]", false)
		got = a
	}
	// Nothing came: an empty batch to go on from.
	a := <-wait(t.Context(), got.batch.Next, time.Millisecond)
	t.must(a.err)
	t.batch(a.batch, "[]", false)
	// Who gives up is told so.
	ctx, cancel := context.WithCancel(t.Context())
	w := wait(ctx, a.batch.Next, patience)
	cancel()
	t.fails("a wait given up", (<-w).err, context.Canceled)
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	t.fails("a wait out of time", (<-wait(ctx, a.batch.Next, patience)).err, context.DeadlineExceeded)
	t.hold(seatflow.OutcomeHeld, ask(ref, 2, 2))
	t.batch(t.poll(7, a.batch.Next, 0), "[1/1.2]", false)
}

func changesTrimmed(t *seatTest) {
	ref := t.house(1)
	start := t.poll(7, "", 0)
	if t.ChangesKept == 0 {
		return
	}
	read := start
	for i := range t.ChangesKept {
		t.hold(seatflow.OutcomeHeld, ask(ref, i+1, 1))
		t.release(seats(1), ref, i+1, nil)
		if i == t.ChangesKept/4 {
			read = t.poll(7, seatflow.PositionNow, 0)
		}
	}
	last := int64(2 * t.ChangesKept)
	for _, lost := range []seatflow.Position{start.Next, read.Next} {
		batch := t.poll(7, lost, 1)
		if !batch.Trimmed || len(batch.Changes) != 1 {
			t.Fatalf("after %q: trimmed %t, %d changes", lost, batch.Trimmed, len(batch.Changes))
		}
	}
	// The oldest kept is no loss, and from there on nothing is missing.
	batch := t.poll(7, "", t.ChangesKept)
	if batch.Trimmed || len(batch.Changes) != t.ChangesKept {
		t.Fatalf("from the oldest: trimmed %t, %d changes", batch.Trimmed, len(batch.Changes))
	}
	for i, c := range batch.Changes {
		if want := last - int64(t.ChangesKept) + int64(i) + 1; c.Revision.Number != want {
			t.Fatalf("change %d of those kept has revision %d, want %d", i, c.Revision.Number, want)
		}
	}
	t.batch(t.poll(7, batch.Next, 0), "[]", false)
}
