package redisseats

import (
	"testing"
	"time"

	"seatflow/internal/conformance"
	"seatflow/internal/testkit"
)

const tmpURL = "redis://127.0.0.1:7391"

func factory(kept int) conformance.SeatFactory {
	return func(t conformance.TB) conformance.Seats {
		clock := testkit.NewFakeClock(time.Now().UTC().Truncate(time.Millisecond))
		store, err := Open(t.Context(), Options{URL: tmpURL, Clock: clock, ChangesKept: kept})
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(store.Close)
		if err := store.client.Do(t.Context(), store.client.B().Flushall().Build()).Error(); err != nil {
			t.Fatalf("%v", err)
		}
		return conformance.Seats{Store: store, Now: clock.Now, ChangesKept: max(0, kept),
			Advance: func(d time.Duration) { clock.Advance(d) }}
	}
}

func TestConformance(t *testing.T) { conformance.SeatStore(t, factory(0)) }
func TestConformanceTrimmed(t *testing.T) { conformance.SeatStore(t, factory(16)) }
