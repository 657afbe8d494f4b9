package catalog_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
	"seatflow/internal/catalog"
	"seatflow/internal/seatplan"
	"seatflow/internal/testkit"
)

func over(l seatflow.Catalog) *catalog.Service {
	return catalog.New(l, testkit.NewFakeClock(noon), slog.New(slog.DiscardHandler))
}

func get(t *testing.T, s *catalog.Service, id seatflow.ShowID) *seatflow.House {
	t.Helper()
	h, err := s.House(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestStaleness: a change made elsewhere is seen within the TTL and not asked
// for before; a show that did not change stays the same house.
func TestStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows(1)
		s := over(r)
		first := get(t, s, 1)
		r.house.Show.Version, r.house.Show.Title = 2, "Changed"
		time.Sleep(catalog.TTL - 1)
		synctest.Wait()
		if get(t, s, 1) != first || r.reads != 1 {
			t.Errorf("%d reads within the TTL", r.reads)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		second := get(t, s, 1)
		if second.Show.Title != "Changed" || first.Show.Title != "Opening night" || r.reads != 2 {
			t.Errorf("after the TTL %q, before %q, %d reads", second.Show.Title, first.Show.Title, r.reads)
		}
		if second.Plan != first.Plan || second.Seat(1) != first.Seat(1) {
			t.Error("the plan was indexed again though it is the same")
		}
		time.Sleep(catalog.TTL)
		synctest.Wait()
		if get(t, s, 1) != second || r.reads != 3 {
			t.Errorf("an unchanged show became another house, %d reads", r.reads)
		}
		r.house.Show.Generation, r.house.Show.Partition = 5, 9
		time.Sleep(catalog.TTL)
		synctest.Wait()
		if h := get(t, s, 1); h.Show.Generation != 5 || h.Show.Partition != 9 {
			t.Errorf("moved to %d and %d", h.Show.Generation, h.Show.Partition)
		}
	})
}

// TestLedgerDown: what was cached is served on, and recovers by itself; what
// was not is an error; what is gone is gone.
func TestLedgerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows(1)
		s := over(r)
		first, usual := get(t, s, 1), r.show
		r.show = func(context.Context, seatflow.ShowID) (seatflow.Show, error) {
			return seatflow.Show{}, seatflow.ErrNotCommitted
		}
		time.Sleep(catalog.TTL)
		synctest.Wait()
		for range 3 {
			if get(t, s, 1) != first || r.reads != 2 {
				t.Errorf("%d reads", r.reads)
			}
		}
		if _, err := s.House(t.Context(), 2); seatflow.CodeOf(err) != seatflow.CodeNotReady || errors.Is(err, seatflow.ErrNotFound) {
			t.Errorf("error %v", err)
		}
		r.show, r.house.Show.Version = usual, 2
		time.Sleep(catalog.TTL)
		synctest.Wait()
		if get(t, s, 1).Show.Version != 2 {
			t.Error("the change is not seen after the ledger is back")
		}
		r.house.Show.ID = 7
		time.Sleep(catalog.TTL)
		synctest.Wait()
		if _, err := s.House(t.Context(), 1); !errors.Is(err, seatflow.ErrNotFound) {
			t.Errorf("error %v", err)
		}
		if houses, _, _ := s.Cached(); houses != 0 {
			t.Errorf("%d houses are kept", houses)
		}
	})
}

// TestOneLoad: many who ask at once for a show that is not cached cause one
// read, and one that gives up does not take the others with it.
func TestOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows(1)
		s := over(r)
		release, usual := make(chan struct{}), r.show
		r.show = func(ctx context.Context, id seatflow.ShowID) (seatflow.Show, error) {
			<-release
			if ctx.Err() != nil {
				return seatflow.Show{}, ctx.Err()
			}
			return usual(ctx, id)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() {
			_, err := s.House(ctx, 1)
			gaveUp <- err
		}()
		synctest.Wait() // it leads the load
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if h, err := s.House(t.Context(), 1); err != nil || h.Show.ID != 1 {
					t.Error(h, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		close(release)
		group.Wait()
		if r.reads != 1 {
			t.Errorf("%d reads, want 1", r.reads)
		}
	})
}

// TestLoadBesideUpdate: a load that read the old row before an update and ends
// after it is not kept, and nobody who asks after the update gets it.
func TestLoadBesideUpdate(t *testing.T) {
	h := newHouse(t)
	stored := h.create(t)
	reached, release := make(chan struct{}), make(chan struct{})
	// The load has its answer from the ledger, which is held back.
	h.ledger.On("Show", testkit.Signal(reached, testkit.HoldAfter(release, errors.New("too late"))), testkit.Times(1))
	type answer struct {
		house *seatflow.House
		err   error
	}
	old := make(chan answer, 1)
	go func() {
		house, err := h.House(context.Background(), stored.ID)
		old <- answer{house, err}
	}()
	<-reached
	changed := stored
	changed.Title = "Changed"
	if _, err := h.UpdateShow(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if got := get(t, h.Service, stored.ID).Show.Title; got != "Changed" {
		t.Errorf("after the update: %q", got)
	}
	close(release)
	if a := <-old; a.err != nil {
		t.Error(a.err)
	}
	if got := get(t, h.Service, stored.ID).Show.Title; got != "Changed" {
		t.Errorf("after the late load: %q", got)
	}
}

// TestBounds: the cache holds no more shows than it should, and lets go of
// plans with them.
func TestBounds(t *testing.T) {
	r := newRows(1)
	r.show = func(_ context.Context, id seatflow.ShowID) (seatflow.Show, error) {
		s := r.house.Show
		s.ID, s.Hall = id, seatflow.HallID(id%50+1)
		return s, nil
	}
	s := over(r)
	for id := range seatflow.ShowID(3 * catalog.MaxHouses) {
		if get(t, s, id+1).Show.ID != id+1 {
			t.Fatal("another show")
		}
		get(t, s, 1) // asked for all the time
		if houses, _, _ := s.Cached(); houses > catalog.MaxHouses {
			t.Fatalf("%d houses", houses)
		}
	}
}

// TestWeight: large plans are dropped when together they weigh too much.
func TestWeight(t *testing.T) {
	const capacity = 150_000
	plan, err := seatplan.Generate(seatplan.GenerateOptions{Stadium: true, Capacity: capacity}).Plan(1, seatflow.HallSeats{})
	if err != nil {
		t.Fatal(err)
	}
	base := newRows(1)
	r := &plansByHall{rows: base, plan: plan}
	base.show = func(_ context.Context, id seatflow.ShowID) (seatflow.Show, error) {
		s := base.house.Show
		s.ID, s.Hall = id, seatflow.HallID(id)
		return s, nil
	}
	s := over(r)
	for id := range seatflow.ShowID(2 * catalog.MaxWeight / capacity) {
		get(t, s, id+1)
		houses, plans, weight := s.Cached()
		if weight > catalog.MaxWeight || plans > houses || plans*capacity > weight {
			t.Fatalf("%d houses, %d plans, weight %d", houses, plans, weight)
		}
	}
}

// plansByHall gives every hall the same large plan under its own number.
type plansByHall struct {
	*rows
	plan *seatflow.Plan
}

func (p *plansByHall) Plan(_ context.Context, hall seatflow.HallID, _ seatflow.PlanVersion) (*seatflow.Plan, error) {
	plan := *p.plan
	plan.Hall = hall
	return &plan, nil
}

// TestUnderFire reads and writes from many sides; for the race detector.
func TestUnderFire(t *testing.T) {
	h := newHouse(t)
	stored := h.create(t)
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			last := int64(0)
			for !stop.Load() {
				house, err := h.House(context.Background(), stored.ID)
				if err != nil {
					t.Error(err)
					return
				}
				if house.Show.Version < last {
					t.Errorf("version %d after %d", house.Show.Version, last)
					return
				}
				last = house.Show.Version
			}
		})
	}
	s := stored
	for range 50 {
		var err error
		if s, err = h.UpdateShow(t.Context(), s); err != nil {
			t.Error(err)
			break
		}
		if got := get(t, h.Service, s.ID).Show.Version; got != s.Version {
			t.Errorf("version %d after an update to %d", got, s.Version)
		}
	}
	stop.Store(true)
	readers.Wait()
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	r := newRows(1)
	s := over(r)
	get(t, s, 1)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if h, err := s.House(ctx, 1); err != nil || h == nil {
			t.Fatal(err)
		}
	}); n >= 1 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkHouse(b *testing.B) {
	r := newRows(300)
	s := over(r)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.House(ctx, 300); err != nil {
			b.Fatal(err)
		}
	}
}
