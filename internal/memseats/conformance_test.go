package memseats_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/conformance"
	"seatflow/internal/memseats"
	"seatflow/internal/testkit"
)

func factory(kept int) conformance.SeatFactory {
	return func(t conformance.TB) conformance.Seats {
		clock := testkit.NewFakeClock(time.Date(2026, 5, 1, 18, 0, 0, 0, time.UTC))
		store := memseats.New(memseats.Options{Clock: clock, ChangesKept: kept})
		t.Cleanup(store.Close)
		return conformance.Seats{Store: store, Now: clock.Now, ChangesKept: kept,
			Advance: func(d time.Duration) { clock.Advance(d) }}
	}
}

func TestConformance(t *testing.T) { conformance.SeatStore(t, factory(0)) }

// With a log that is soon full.
func TestConformanceTrimmed(t *testing.T) { conformance.SeatStore(t, factory(16)) }

func TestDifferential(t *testing.T) {
	model := func(t conformance.TB) conformance.Seats {
		clock := testkit.NewFakeClock(time.Date(2026, 5, 1, 18, 0, 0, 0, time.UTC))
		return conformance.Seats{Store: conformance.NewModel(clock), Now: clock.Now,
			Advance: func(d time.Duration) { clock.Advance(d) }}
	}
	for seed := range uint64(20) {
		conformance.Differential(t, factory(0), model, seed, 500)
	}
}

var (
	histories = flag.Int("histories", 1, "how many histories TestLinearizable records")
	calls     = flag.Int("calls", 20_000, "calls in each of them")
)

// What concurrent callers are told is what one after the other would be (I5).
func TestLinearizable(t *testing.T) {
	for seed := range uint64(*histories) {
		s := factory(0)(t)
		ref := seatflow.ShowRef{ID: 1, Partition: 7, Until: s.Now().Add(24 * time.Hour)}
		const size = 40
		base := []seatflow.SeatState(strings.Repeat("0", size))
		if err := s.Store.Rebuild(t.Context(), seatflow.View{Show: ref, Generation: 1, Base: base}); err != nil {
			t.Fatal(err)
		}
		got := conformance.Linearizable(t, conformance.History{Store: s.Store, Show: ref, Seats: size, Clients: 16, Operations: *calls, Seed: seed, Lost: 0.005})
		t.Logf("history %d: %+v", seed, got)
	}
}
