package memseats_test

import (
	"testing"
	"time"

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
