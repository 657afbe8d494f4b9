package guardian_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/guardian"
	"seatflow/internal/memseats"
	"seatflow/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2031, 5, 4, 18, 0, 0, 0, time.UTC)

// settler records what it is asked about and fails for one owner.
type settler struct {
	mu   sync.Mutex
	seen map[seatflow.Owner]int
	fail seatflow.Owner
	did  chan struct{}
}

func (s *settler) Settle(_ context.Context, due seatflow.DueHold) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[seatflow.Owner]int{}
	}
	s.seen[due.Owner]++
	if s.did != nil {
		s.did <- struct{}{}
	}
	if due.Owner == s.fail {
		return errors.New("cannot")
	}
	return nil
}

// house opens a show of n seats in a partition and holds each for its owner.
func house(t *testing.T, store *memseats.Store, id seatflow.ShowID, p seatflow.Partition, n int) []seatflow.Owner {
	t.Helper()
	ref := seatflow.ShowRef{ID: id, Partition: p, Until: start.Add(time.Hour)}
	base := make([]seatflow.SeatState, n)
	for i := range base {
		base[i] = seatflow.Available
	}
	if err := store.Rebuild(t.Context(), seatflow.View{Show: ref, Generation: 1, Base: base}); err != nil {
		t.Fatal(err)
	}
	owners := make([]seatflow.Owner, n)
	for i := range owners {
		owners[i] = seatflow.Owner{Order: seatflow.OrderNo(fmt.Sprintf("01ARZ3NDEKTSV4RR%02d%08d", id, i)), Attempt: 1}
		reply, err := store.Hold(t.Context(), seatflow.HoldRequest{Show: ref, Owner: owners[i], User: "ann",
			Seats: []seatflow.SeatID{seatflow.SeatID(i + 1)}, For: time.Minute, Cap: time.Minute})
		if err != nil || reply.Outcome != seatflow.OutcomeHeld {
			t.Fatalf("%+v, %v", reply, err)
		}
	}
	return owners
}

func TestEveryDueHoldOfEveryPartitionOnce(t *testing.T) {
	clock := testkit.NewFakeClock(start)
	store := memseats.New(memseats.Options{Clock: clock})
	defer store.Close()
	owners := append(house(t, store, 1, 0, 25), house(t, store, 2, seatflow.Partitions-1, 25)...)
	s := &settler{fail: owners[3]}
	g := guardian.New(guardian.Options{Seats: store, Booking: s, Batch: 10, Lease: 10 * time.Second})

	if n, err := g.RunOnce(t.Context()); n != 0 || err != nil {
		t.Fatalf("before the deadline: %d, %v", n, err)
	}
	clock.Advance(time.Minute)
	n, err := g.RunOnce(t.Context())
	if n != len(owners)-1 || err == nil {
		t.Fatalf("settled %d of %d, %v", n, len(owners), err)
	}
	for _, o := range owners {
		if s.seen[o] != 1 {
			t.Errorf("owner %v was settled %d times", o, s.seen[o])
		}
	}
	if n, _ := g.RunOnce(t.Context()); n != 0 {
		t.Errorf("settled %d again within the lease", n)
	}
	// A guardian that died after claiming lost nothing: they come again.
	clock.Advance(10 * time.Second)
	if _, err := g.RunOnce(t.Context()); err == nil || s.seen[owners[0]] != 2 {
		t.Errorf("after the lease: seen %d times, %v", s.seen[owners[0]], err)
	}
}

func TestOnePartitionDownDoesNotStopTheOthers(t *testing.T) {
	clock := testkit.NewFakeClock(start)
	store := memseats.New(memseats.Options{Clock: clock})
	defer store.Close()
	owners := house(t, store, 1, 9, 3)
	faulty := testkit.NewFaultySeats(store)
	faulty.On("ClaimDue", testkit.FailBefore(seatflow.ErrUnknownOutcome), testkit.Times(5))
	s := &settler{}
	g := guardian.New(guardian.Options{Seats: faulty, Booking: s})
	clock.Advance(time.Minute)
	if n, err := g.RunOnce(t.Context()); n != len(owners) || !errors.Is(err, seatflow.ErrUnknownOutcome) {
		t.Errorf("settled %d, %v", n, err)
	}
}

func TestRunStopsAndRefusesASecond(t *testing.T) {
	clock := testkit.NewFakeClock(start)
	store := memseats.New(memseats.Options{Clock: clock})
	defer store.Close()
	house(t, store, 1, 9, 1)
	clock.Advance(time.Minute)
	s := &settler{did: make(chan struct{}, 1)}
	g := guardian.New(guardian.Options{Seats: store, Booking: s, Interval: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	<-s.did
	if err := g.Run(ctx); err == nil {
		t.Error("a second Run was let in")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := g.Run(ended); err != nil {
		t.Errorf("Run after Run: %v", err)
	}
}
