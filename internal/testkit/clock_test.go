package testkit_test

import (
	"sync"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

func TestFakeClockMovesOnlyWhenTold(t *testing.T) {
	start := time.Date(2026, 3, 1, 20, 0, 0, 0, time.FixedZone("CET", 3600))
	clock := testkit.NewFakeClock(start)
	var _ seatflow.Clock = clock
	if got := clock.Now(); !got.Equal(start) || got.Location() != time.UTC {
		t.Fatalf("the clock stands at %v, want %v in UTC", got, start)
	}
	if got, want := clock.Advance(90*time.Second), start.Add(90*time.Second); !got.Equal(want) || !clock.Now().Equal(want) {
		t.Fatalf("after an advance the clock stands at %v, want %v", got, want)
	}
	clock.Set(start)
	if got := clock.Now(); !got.Equal(start) {
		t.Fatalf("after a set the clock stands at %v, want %v", got, start)
	}
}

func TestFakeClockAddsConcurrentMovesUp(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	clock := testkit.NewFakeClock(start)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				clock.Advance(time.Millisecond)
			}
		})
	}
	wg.Wait()
	if got, want := clock.Now(), start.Add(8*time.Second); !got.Equal(want) {
		t.Fatalf("the clock stands at %v, want %v", got, want)
	}
}
