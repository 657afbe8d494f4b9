package lock

import (
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/conformance"
)

func TestLocalConformance(t *testing.T) {
	conformance.LockerIn(t, synctest.Test, func(t conformance.TB) conformance.Lockers {
		l := NewLocal()
		t.Cleanup(func() { _ = l.Close() })
		return conformance.Lockers{Nodes: []seatflow.Locker{l}, Lease: MinLease, Wait: time.Sleep,
			Close: func(int) error { return l.Close() }}
	})
}

// TestLocalIsFair: who waits is served in the order of coming, and nobody who
// only tries comes in between.
func TestLocalIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLocal()
		_, first, err := l.Lock(t.Context(), "n", MinLease)
		if err != nil {
			t.Fatal(err)
		}
		const waiting = 20
		served := make(chan int, waiting)
		for i := range waiting {
			go func() {
				_, lock, err := l.Lock(t.Context(), "n", MinLease)
				if err != nil {
					t.Error(err)
					return
				}
				served <- i
				time.Sleep(time.Second)
				if _, _, err := l.TryLock(t.Context(), "n", MinLease); !errors.Is(err, seatflow.ErrLocked) {
					t.Errorf("tried while others wait: %v", err)
				}
				_ = lock.Release(t.Context())
			}()
			synctest.Wait() // it stands in line
		}
		_ = first.Release(t.Context())
		var order []int
		for range waiting {
			order = append(order, <-served)
		}
		if !slices.IsSorted(order) {
			t.Errorf("served in the order %v", order)
		}
		time.Sleep(time.Minute)
		l.mu.Lock()
		defer l.mu.Unlock()
		if got := l.Stats(); got.Held != 0 || got.Taken != waiting+1 || got.Released != waiting+1 || got.Locked != waiting || len(l.names) != 0 {
			t.Errorf("stats %+v, %d names", got, len(l.names))
		}
	})
}

func TestMain(m *testing.M) {
	if addrs := os.Getenv(holderVariable); addrs != "" {
		os.Exit(holdLease(addrs)) // this process is a holder that a test pauses
	}
	goleak.VerifyTestMain(m)
}
