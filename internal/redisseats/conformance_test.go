package redisseats

import (
	"flag"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/conformance"
	"seatflow/internal/memseats"
	"seatflow/internal/testkit"
)

func TestConformance(t *testing.T) {
	conformance.SeatStore(t, factory(today(), 0, one(t)))
}

// With a log that is soon full.
func TestConformanceTrimmed(t *testing.T) {
	conformance.SeatStore(t, factory(today(), 16, one(t)))
}

func TestRateWindows(t *testing.T) { conformance.RateWindows(t, windows(one(t))) }

// windows are those of two stores on the same servers.
func windows(url func() string) conformance.WindowsFactory {
	return func(t conformance.TB) conformance.Windows {
		clock, at := testkit.NewFakeClock(today()), url()
		nodes := []seatflow.RateWindows{open(t, Options{URL: at, Clock: clock}), open(t, Options{URL: at, Clock: clock})}
		return conformance.Windows{Nodes: nodes, Now: clock.Now, Grain: time.Millisecond,
			Advance: func(d time.Duration) { clock.Advance(d) }, Back: func(d time.Duration) { clock.Advance(-d) }}
	}
}

// one returns the URL of the server that tests share, each time empty.
func one(t *testing.T) func() string {
	testkit.SharedRedis(t) // or the test is skipped
	return func() string { return testkit.SharedRedis(t).URL() }
}

var operations = flag.Int("differential", 3000, "how many operations the differential runs are about, over all seeds")

func memory(start time.Time) conformance.SeatFactory {
	return func(t conformance.TB) conformance.Seats {
		clock := testkit.NewFakeClock(start)
		s := memseats.New(memseats.Options{Clock: clock})
		t.Cleanup(s.Close)
		return conformance.Seats{Store: s, Now: clock.Now, Advance: func(d time.Duration) { clock.Advance(d) }}
	}
}

func TestDifferential(t *testing.T) {
	const seeds = 5
	start, url := today(), one(t)
	for seed := range uint64(seeds) {
		conformance.Differential(t, memory(start), factory(start, 0, url), seed, *operations/seeds)
	}
}
