package memseats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 5, 1, 18, 0, 0, 0, time.UTC)

// newHouse returns a store with a show of n free seats and its clock.
func newHouse(t *testing.T, n int) (*Store, seatflow.ShowRef, *testkit.FakeClock) {
	t.Helper()
	clock := testkit.NewFakeClock(start)
	s := New(Options{Clock: clock})
	t.Cleanup(s.Close)
	ref := seatflow.ShowRef{ID: 5, Partition: 3, Until: start.Add(24 * time.Hour)}
	mustRebuild(t, s, ref, 1, n)
	return s, ref, clock
}

func mustRebuild(t *testing.T, s *Store, ref seatflow.ShowRef, g seatflow.Generation, n int, orders ...seatflow.OrderRecord) {
	t.Helper()
	base := slices.Repeat([]seatflow.SeatState{seatflow.Available}, n)
	if err := s.Rebuild(t.Context(), seatflow.View{Show: ref, Generation: g, Base: base, Orders: orders}); err != nil {
		t.Fatal(err)
	}
}

func mustHold(t *testing.T, s *Store, want seatflow.HoldOutcome, ref seatflow.ShowRef, n int64, ids ...seatflow.SeatID) seatflow.HoldReply {
	t.Helper()
	reply, err := s.Hold(t.Context(), benchHold(ref, n, ids...))
	if err != nil || reply.Outcome != want {
		t.Fatalf("hold of %v by %d: %+v, %v; want %v", ids, n, reply, err, want)
	}
	return reply
}

func (s *Store) showOf(ref seatflow.ShowRef) *show {
	return (*s.partitions[ref.Partition].shows.Load())[ref.ID]
}

// A writer that never comes back stops neither readers nor those it would
// refuse.
func TestReadersAndLosersDoNotWaitForTheLock(t *testing.T) {
	s, ref, _ := newHouse(t, 100)
	mustHold(t, s, seatflow.OutcomeHeld, ref, 1, 7)
	sh := s.showOf(ref)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	snap, err := s.Snapshot(t.Context(), ref, seatflow.DetailOrders|seatflow.DetailUsers)
	if err != nil || snap.States[6] != seatflow.Held || len(snap.Orders) != 1 || len(snap.Users) != 1 {
		t.Fatalf("snapshot %+v, %v", snap, err)
	}
	if r := mustHold(t, s, seatflow.OutcomeTaken, ref, 2, 6, 7); !slices.Equal(r.Taken, []seatflow.SeatID{7}) {
		t.Fatalf("taken %v", r.Taken)
	}
	retry := benchHold(ref, 3, 7)
	retry.Rate = 1
	for _, want := range []seatflow.HoldOutcome{seatflow.OutcomeTaken, seatflow.OutcomeBusy} {
		if r, err := s.Hold(t.Context(), retry); err != nil || r.Outcome != want {
			t.Fatalf("%+v, %v; want %v", r, err, want)
		}
	}
}

func TestSnapshotsOfARevisionShareTheirStates(t *testing.T) {
	s, ref, _ := newHouse(t, 100)
	read := func() []seatflow.SeatState {
		snap, err := s.Snapshot(t.Context(), ref, seatflow.DetailStates)
		if err != nil {
			t.Fatal(err)
		}
		return snap.States
	}
	a, b := read(), read()
	if &a[0] != &b[0] {
		t.Error("one revision was put in one piece twice")
	}
	mustHold(t, s, seatflow.OutcomeHeld, ref, 1, 1)
	if c := read(); &a[0] == &c[0] || a[0] != seatflow.Available {
		t.Error("two revisions share their states")
	}
}

// A root shares with the one before it all pages but those that changed.
func TestWritersCopyOnlyWhatTheyChange(t *testing.T) {
	s, ref, _ := newHouse(t, 5000)
	sh := s.showOf(ref)
	before := sh.root.Load()
	mustHold(t, s, seatflow.OutcomeHeld, ref, 1, 1, 2, 32, 33, 4000)
	after := sh.root.Load()
	copied := 0
	for b := range before.top {
		for p := range before.top[b] {
			if before.top[b][p] != after.top[b][p] {
				copied++
			}
		}
	}
	if copied != 3 {
		t.Errorf("%d pages were copied, want those of seats 1–32, 33 and 4000", copied)
	}
}

// However a view is shifted about, its counts go on to fit.
func TestCountsKeepFitting(t *testing.T) {
	s, ref, clock := newHouse(t, 40)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 5000 {
		n := int64(rng.IntN(12))
		owner := benchOrder(n)
		ids := []seatflow.SeatID{seatflow.SeatID(1 + rng.IntN(20)), seatflow.SeatID(21 + rng.IntN(20))}
		var err error
		switch rng.IntN(7) {
		case 0, 1:
			_, err = s.Hold(t.Context(), benchHold(ref, n, ids...))
		case 2:
			_, err = s.Sell(t.Context(), ref, owner)
		case 3:
			_, err = s.Unsell(t.Context(), ref, owner, ids)
		case 4:
			_, err = s.Block(t.Context(), ref, owner, ids)
		case 5:
			_, err = s.Unblock(t.Context(), ref, owner, nil)
		case 6:
			state, rec := s.showOf(ref).root.Load().seat(ids[0])
			fix := seatflow.SeatRepair{Seat: ids[0], SawState: state, WantState: seatflow.Sold,
				Want: seatflow.OrderRecord{Owner: owner, User: seatflow.UserID(fmt.Sprint("u", i%3))}}
			if rec != nil {
				fix.SawOwner = rec.owner
			}
			_, err = s.Repair(t.Context(), seatflow.RepairRequest{Show: ref, Generation: 1, Seats: []seatflow.SeatRepair{fix}})
		}
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if r := s.showOf(ref).root.Load(); !r.fits() {
			t.Fatalf("step %d: counts %+v", i, r.tally)
		}
		clock.Advance(time.Second)
	}
}

func TestForcedSeatMakesTheViewSuspect(t *testing.T) {
	s, ref, _ := newHouse(t, 10)
	mustHold(t, s, seatflow.OutcomeHeld, ref, 1, 1, 2)
	ghost := benchOrder(99)
	if !s.ForceSeat(ref, 5, seatflow.Sold, ghost) {
		t.Fatal("there is a seat 5")
	}
	mustHold(t, s, seatflow.OutcomeNotReady, ref, 2, 1) // even what is taken is not told
	for name, call := range map[string]func() error{
		"sell":    func() error { _, err := s.Sell(t.Context(), ref, benchOrder(1)); return err },
		"release": func() error { _, err := s.Release(t.Context(), ref, benchOrder(1), nil); return err },
		"block":   func() error { _, err := s.Block(t.Context(), ref, benchOrder(3), []seatflow.SeatID{9}); return err },
		"extend": func() error {
			_, err := s.Extend(t.Context(), ref, benchOrder(1), start.Add(20*time.Minute))
			return err
		},
	} {
		if err := call(); !errors.Is(err, seatflow.ErrNotReady) {
			t.Errorf("%s of a suspect view: %v", name, err)
		}
	}
	// It can be read, with what was forced upon it, and repaired.
	snap, err := s.Snapshot(t.Context(), ref, seatflow.DetailOrders)
	if err != nil || snap.States[4] != seatflow.Sold || snap.Owners[5] != ghost || len(snap.Orders) != 1 || snap.Revision.Number != 1 {
		t.Fatalf("snapshot %+v, %v", snap, err)
	}
	reply, err := s.Repair(t.Context(), seatflow.RepairRequest{Show: ref, Generation: 1, Seats: []seatflow.SeatRepair{
		{Seat: 5, SawState: seatflow.Sold, SawOwner: ghost, WantState: seatflow.Available}}})
	if err != nil || len(reply.Fixed) != 1 || reply.Revision != 2 {
		t.Fatalf("repair %+v, %v", reply, err)
	}
	mustHold(t, s, seatflow.OutcomeHeld, ref, 2, 5)
}

// What a repair with no seats at all does: everything is derived again from
// what stands there.
func TestRecountMendsCountsAndRecords(t *testing.T) {
	s, ref, _ := newHouse(t, 10)
	mustHold(t, s, seatflow.OutcomeHeld, ref, 1, 1, 2)
	mustHold(t, s, seatflow.OutcomeHeld, ref, 2, 3)
	s.ForceSeat(ref, 2, seatflow.Available, seatflow.Owner{})
	s.ForceSeat(ref, 4, seatflow.Held, benchOrder(2))
	reply, err := s.Repair(t.Context(), seatflow.RepairRequest{Show: ref, Generation: 1})
	if err != nil || reply.Revision != 2 {
		t.Fatalf("repair %+v, %v", reply, err)
	}
	snap, err := s.Snapshot(t.Context(), ref, seatflow.DetailOrders|seatflow.DetailUsers)
	if err != nil || len(snap.Orders) != 2 || !slices.Equal(snap.Orders[0].Seats, []seatflow.SeatID{1}) ||
		!slices.Equal(snap.Orders[1].Seats, []seatflow.SeatID{3, 4}) || snap.Users["user-2"] != 2 {
		t.Fatalf("after the recount %+v, %v", snap, err)
	}
	over := benchHold(ref, 3, 7)
	over.User, over.Limit = "user-2", 2
	if r, err := s.Hold(t.Context(), over); err != nil || r.Outcome != seatflow.OutcomeOverLimit {
		t.Fatalf("%+v, %v: the limit does not know of the forced seat", r, err)
	}
	mustHold(t, s, seatflow.OutcomeHeld, ref, 4, 2)
}

// An owner's name forced on a seat is not that owner's record.
func TestForcedOwnerChangesHands(t *testing.T) {
	s, ref, _ := newHouse(t, 4)
	mustHold(t, s, seatflow.OutcomeHeld, ref, 1, 1, 2)
	s.ForceSeat(ref, 2, seatflow.Held, benchOrder(9)) // the counts still fit
	if r, err := s.Sell(t.Context(), ref, benchOrder(9)); err != nil || r.Sold != 0 {
		t.Fatalf("an owner without a record sold %+v, %v", r, err)
	}
	if r, err := s.Release(t.Context(), ref, benchOrder(1), nil); err != nil || !slices.Equal(r.Released, []seatflow.SeatID{1}) {
		t.Fatalf("released %+v, %v; seat 2 is somebody else's", r, err)
	}
	if s.ForceSeat(ref, 5, seatflow.Held, benchOrder(9)) || s.ForceSeat(ref, 1, '?', benchOrder(9)) ||
		s.ForceSeat(seatflow.ShowRef{ID: 6, Partition: 3}, 1, seatflow.Held, benchOrder(9)) ||
		s.ForceSeat(seatflow.ShowRef{ID: 5, Partition: 99}, 1, seatflow.Held, benchOrder(9)) {
		t.Error("what is not there was forced")
	}
}

func TestDroppedViewIsNotReadyUntilRebuilt(t *testing.T) {
	s, ref, clock := newHouse(t, 4)
	mustHold(t, s, seatflow.OutcomeHeld, ref, 1, 1)
	s.DropView(ref)
	s.DropView(seatflow.ShowRef{ID: 9, Partition: 3})
	s.DropView(seatflow.ShowRef{ID: 9, Partition: 99})
	mustHold(t, s, seatflow.OutcomeNotReady, ref, 2, 2)
	if _, err := s.Snapshot(t.Context(), ref, 0); !errors.Is(err, seatflow.ErrNotReady) {
		t.Fatalf("snapshot: %v", err)
	}
	clock.Advance(time.Hour)
	if due, err := s.ClaimDue(t.Context(), ref.Partition, 10, 0); err != nil || len(due) != 0 {
		t.Fatalf("a forgotten hold is due: %+v, %v", due, err)
	}
	mustRebuild(t, s, ref, 1, 4)
	mustHold(t, s, seatflow.OutcomeHeld, ref, 2, 1)
}

// Shows come and go for years; what they leave behind must not grow.
func TestOutlivedViewsAreForgotten(t *testing.T) {
	s, _, clock := newHouse(t, 4)
	p := &s.partitions[3]
	for i := range 50 {
		ref := seatflow.ShowRef{ID: seatflow.ShowID(100 + i), Partition: 3, Until: clock.Now().Add(3 * time.Hour)}
		mustRebuild(t, s, ref, 1, 50)
		mustHold(t, s, seatflow.OutcomeHeld, ref, int64(i), 1, 2)
		clock.Advance(time.Hour)
		if _, err := s.ClaimDue(t.Context(), 3, 100, time.Minute); err != nil {
			t.Fatal(err)
		}
		if n := len(*p.shows.Load()); n > 7 {
			t.Fatalf("%d shows are kept", n)
		}
	}
	clock.Advance(100 * time.Hour)
	if due, err := s.ClaimDue(t.Context(), 3, 100, time.Minute); err != nil || len(due) != 0 {
		t.Fatalf("due %+v, %v", due, err)
	}
	if n, w := len(*p.shows.Load()), len(p.deadlines.heap); n != 0 || w != 0 {
		t.Fatalf("%d shows and %d wake-ups are left", n, w)
	}
}

func TestRateWindowForgetsAndSurvivesASetBackClock(t *testing.T) {
	var w rateWindow
	now := int64(1_000_000)
	for i := range int64(100_000) {
		w.admit(now+i, 1<<30)
	}
	if n := len(w.buckets); n > 4*int(rateSpan) {
		t.Errorf("%d buckets for a window of %d ms", n, rateSpan)
	}
	if w.total != int(rateSpan) {
		t.Errorf("%d counted, want %d", w.total, rateSpan)
	}
	last := now + 99_999
	if wait := w.admit(last-500, 10); wait != 991*time.Millisecond {
		t.Errorf("half a second back: wait %v", wait)
	}
	if wait := w.admit(last-3_600_000, 1); wait != 0 {
		t.Errorf("an hour back: wait %v", wait)
	}
	if wait := w.admit(last-3_600_000, 1); wait != time.Second {
		t.Errorf("an hour back, again: wait %v", wait)
	}
}

func TestCloseWakesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		done := make(chan error, 1)
		go func() {
			_, err := s.Changes(context.Background(), seatflow.ChangesRequest{Wait: time.Hour})
			done <- err
		}()
		synctest.Wait() // it waits now
		before := time.Now()
		s.Close()
		s.Close()
		if err := <-done; !errors.Is(err, errClosed) || !errors.Is(err, seatflow.ErrNotExecuted) {
			t.Errorf("a wait at the close: %v", err)
		}
		if time.Since(before) != 0 {
			t.Errorf("the wait went on for %v", time.Since(before))
		}
		if _, err := s.Hold(context.Background(), benchHold(benchRef(), 1, 1)); !errors.Is(err, seatflow.ErrNotExecuted) {
			t.Errorf("a hold after the close: %v", err)
		}
	})
}

func TestPositionsOfAnotherStoreAreTrimmed(t *testing.T) {
	a, ref, _ := newHouse(t, 4)
	b, _, _ := newHouse(t, 4)
	was, err := a.Changes(t.Context(), seatflow.ChangesRequest{Partition: ref.Partition})
	if err != nil {
		t.Fatal(err)
	}
	is, err := b.Changes(t.Context(), seatflow.ChangesRequest{Partition: ref.Partition, After: was.Next, Wait: time.Hour})
	if err != nil || !is.Trimmed || is.Identity == was.Identity || len(is.Changes) != 1 {
		t.Fatalf("%+v, %v", is, err)
	}
}
