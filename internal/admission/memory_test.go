package admission_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
	"seatflow/internal/admission"
	"seatflow/internal/conformance"
	"seatflow/internal/testkit"
)

var noon = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)

func TestConformance(t *testing.T) {
	conformance.RateWindows(t, func(conformance.TB) conformance.Windows {
		clock := testkit.NewFakeClock(noon)
		m := admission.NewMemory(clock)
		return conformance.Windows{Nodes: []seatflow.RateWindows{m}, Now: clock.Now,
			Advance: func(d time.Duration) { clock.Advance(d) }, Back: func(d time.Duration) { clock.Advance(-d) }}
	})
}

// On the process's own clock, in a bubble that lets it run without waiting.
func TestConformanceOnTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := admission.NewMemory(nil)
		for _, most := range []int{1, 3} {
			for i := range 2 * most {
				wait := attempt(t, m, strconv.Itoa(most), most, time.Minute)
				if (wait == 0) != (i < most) || wait > time.Minute {
					t.Fatalf("attempt %d of %d: retry after %v", i+1, most, wait)
				}
			}
		}
		time.Sleep(time.Minute)
		if wait := attempt(t, m, "3", 3, time.Minute); wait != 0 {
			t.Errorf("after a minute: retry after %v", wait)
		}
	})
}

func attempt(t testing.TB, m *admission.Memory, name string, most int, span time.Duration) time.Duration {
	t.Helper()
	wait, err := m.Attempt(t.Context(), name, most, span)
	if err != nil {
		t.Fatal(err)
	}
	return wait
}

// TestIdleNamesAreDropped: a stream of names that never come again does not
// pile up, whatever the spans.
func TestIdleNamesAreDropped(t *testing.T) {
	clock := testkit.NewFakeClock(noon)
	m := admission.NewMemory(clock)
	const perSpan = 10_000
	most := 0
	for i := range 20 * perSpan {
		clock.Advance(time.Minute / perSpan)
		attempt(t, m, strconv.Itoa(i), 10, time.Minute)
		most = max(most, m.Names())
	}
	if most > 3*perSpan {
		t.Errorf("%d names were remembered where %d are in a span", most, perSpan)
	}

	attempt(t, m, "for years", 1, math.MaxInt64)
	clock.Advance(time.Hour)
	for i := range 4 * most { // others keep coming
		attempt(t, m, "busy "+strconv.Itoa(i%2000), 10, time.Minute)
	}
	if n := m.Names(); n != 2001 {
		t.Errorf("%d names are left of 2001 that are in their spans", n)
	}
	if wait := attempt(t, m, "for years", 1, math.MaxInt64); wait <= 0 {
		t.Error("a window without end was forgotten")
	}
}

// TestMemoryIsBounded: one who hammers takes no more room than the window.
func TestMemoryIsBounded(t *testing.T) {
	m := admission.NewMemory(testkit.NewFakeClock(noon))
	attempt(t, m, "n", 10, time.Minute)
	for range 9 {
		attempt(t, m, "n", 10, time.Minute)
	}
	if n := testing.AllocsPerRun(10_000, func() { attempt(t, m, "n", 10, time.Minute) }); n > 0 {
		t.Errorf("%v allocations for an attempt over the limit", n)
	}
}

// TestPlacesAreUsedAgain: what a dropped name left behind is not seen by the
// one that comes in its place.
func TestPlacesAreUsedAgain(t *testing.T) {
	clock := testkit.NewFakeClock(noon)
	m := admission.NewMemory(clock)
	for round := range 5 {
		for i := range 2000 {
			name := fmt.Sprintf("round %d, name %d", round, i)
			for j := range 4 {
				if wait := attempt(t, m, name, 3, time.Second); (wait == 0) != (j < 3) {
					t.Fatalf("attempt %d under %q: %v", j+1, name, wait)
				}
			}
		}
		clock.Advance(time.Second)
	}
}

func BenchmarkAttempt(b *testing.B) {
	for _, bench := range []struct {
		name  string
		names int
	}{{"one name", 1}, {"100000 names", 100_000}} {
		b.Run(bench.name, func(b *testing.B) {
			names := make([]string, bench.names)
			for i := range names {
				names[i] = "orders:user-" + strconv.Itoa(i)
			}
			m := admission.NewMemory(nil)
			ctx := context.Background()
			for range 10 {
				for _, name := range names {
					attempt(b, m, name, 10, time.Minute)
				}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := m.Attempt(ctx, names[i%len(names)], 10, time.Minute); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// Names that were never seen before and are soon forgotten: the costly case.
func BenchmarkAttemptNewNames(b *testing.B) {
	clock := testkit.NewFakeClock(noon)
	m := admission.NewMemory(clock)
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = "orders:user-" + strconv.Itoa(i)
	}
	ctx := context.Background()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i%len(names) == 0 {
			clock.Advance(time.Minute)
		}
		if _, err := m.Attempt(ctx, names[i%len(names)], 10, 30*time.Second); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
