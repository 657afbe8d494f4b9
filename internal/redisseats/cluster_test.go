package redisseats

import (
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/conformance"
	"seatflow/internal/testkit"
)

// three returns the URL of the Cluster that tests share, each time empty.
func three(t *testing.T) func() string {
	testkit.SharedRedisCluster(t) // or the test is skipped
	return func() string { return testkit.SharedRedisCluster(t).URLs() }
}

func TestConformanceOnACluster(t *testing.T) {
	conformance.SeatStore(t, factory(today(), 0, three(t)))
}

func TestRateWindowsOnACluster(t *testing.T) { conformance.RateWindows(t, windows(three(t))) }

func TestDifferentialOnACluster(t *testing.T) {
	start, url := today(), three(t)
	for seed := range uint64(2) {
		conformance.Differential(t, memory(start), factory(start, 0, url), 100+seed, *operations/10)
	}
}

// The partitions of 64 halls are spread over three masters, and all keys of
// one are in one place.
func TestPartitionsAreSpread(t *testing.T) {
	cluster := testkit.SharedRedisCluster(t)
	s := open(t, Options{URL: cluster.URLs()})
	at := make(map[int]int)
	for p := range seatflow.Partition(seatflow.Partitions) {
		ref := seatflow.ShowRef{ID: 42, Partition: p, Until: time.Now().Add(time.Hour)}
		install(t, s, ref, 1, 4)
		req := ask(ref, int(p)+1, 1, 2)
		req.Rate = 10
		mustHold(t, s, seatflow.OutcomeHeld, req)
		k := newShowKeys(p, 42)
		slot := cluster.Slot(t, k.seats)
		for _, key := range k.hold {
			if other := cluster.Slot(t, key); other != slot {
				t.Errorf("%s is in slot %d, %s in %d", key, other, k.seats, slot)
			}
		}
		at[cluster.Owner(t, slot)]++
	}
	for node := range cluster.Nodes {
		if n := at[node]; n < 12 || n > 32 {
			t.Errorf("master %d has %d of %d partitions", node, n, seatflow.Partitions)
		}
	}
	// Identities are the masters', and one stands for all of them.
	identities := make(map[string]bool)
	for p := range seatflow.Partition(seatflow.Partitions) {
		identity, err := s.IdentityOf(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		identities[identity] = true
	}
	before, err := s.Identity(t.Context())
	if err != nil || len(identities) != 3 || identities[before] {
		t.Errorf("%d identities, together %q, %v", len(identities), before, err)
	}
	slot := cluster.Slot(t, changesKey(7))
	cluster.MoveSlot(t, slot, (cluster.Owner(t, slot)+1)%3)
	if after, err := s.Identity(within(t, guard)); err != nil || after == before {
		t.Errorf("after a move they are together still %q, %v", after, err)
	}
}

// reach waits until so many were sold.
func reach(t *testing.T, sold func() int64, n int64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	ctx := within(t, guard)
	for sold() < n && !t.Failed() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d sold, waiting for %d", sold(), n)
		}
	}
}

// A partition moves from master to master while its show is sold: nothing is
// lost and nothing sold twice.
func TestSlotsMoveUnderLoad(t *testing.T) {
	cluster := testkit.SharedRedisCluster(t)
	stores := []*Store{open(t, Options{URL: cluster.URLs()}), open(t, Options{URL: cluster.URLs()})}
	ref := seatflow.ShowRef{ID: 42, Partition: 7, Until: time.Now().Add(24 * time.Hour)}
	f := newFacts(ref, 1200)
	slot := cluster.Slot(t, changesKey(7))
	f.sellOut(t, stores, func(sold func() int64) {
		for i := range int64(4) {
			reach(t, sold, 200*(i+1))
			cluster.MoveSlot(t, slot, (cluster.Owner(t, slot)+1)%3)
		}
	})
	if f.rebuilt < 2 {
		t.Errorf("the view was rebuilt %d times", f.rebuilt)
	}
}

// While the keys of a show are here and there, scripts are not executed, and
// go on when the move is over.
func TestHalfAMoveIsWaitedFor(t *testing.T) {
	cluster := testkit.SharedRedisCluster(t)
	s, ref := house(t, Options{URL: cluster.URLs()}, 10)
	mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 1, 1, 2))
	slot := cluster.Slot(t, changesKey(7))
	from := cluster.Owner(t, slot)
	to := (from + 1) % 3
	cluster.BeginMove(t, slot, to)
	cluster.MoveKeys(t, slot, from, to, 3)
	if r, err := s.Hold(within(t, 300*time.Millisecond), ask(ref, 2, 3)); !isNotExecuted(err) {
		t.Errorf("a hold half-way: %+v, %v", r, err)
	}
	done := make(chan error, 1)
	go func() {
		r, err := s.Hold(within(t, guard), ask(ref, 2, 3))
		if err == nil && r.Outcome != seatflow.OutcomeNotReady {
			err = errForeignData
		}
		done <- err
	}()
	for cluster.MoveKeys(t, slot, from, to, 100) > 0 {
	}
	cluster.EndMove(t, slot, to)
	if err := <-done; err != nil {
		t.Errorf("a hold over the end of a move: %v", err)
	}
	install(t, s, ref, 2, 10)
	mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 2, 3))
}

// A show that is given another partition is another view there.
func TestAHotShowGetsItsOwnPartition(t *testing.T) {
	s, ref := house(t, Options{URL: testkit.SharedRedisCluster(t).URLs()}, 10)
	mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 1, 1))
	hot := ref
	hot.Partition = 63
	mustHold(t, s, seatflow.OutcomeNotReady, ask(hot, 2, 1))
	install(t, s, hot, 2, 10)
	if r := mustHold(t, s, seatflow.OutcomeHeld, ask(hot, 2, 1)); r.Generation != 2 {
		t.Errorf("reply %+v", r)
	}
	batch, err := s.Changes(t.Context(), seatflow.ChangesRequest{Partition: 63})
	if err != nil || len(batch.Changes) != 2 || batch.Changes[1].Revision != (seatflow.Revision{Generation: 2, Number: 1}) {
		t.Errorf("changes %+v, %v", batch, err)
	}
}
