package lock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
	"seatflow/internal/conformance"
)

func fakeLockers(servers, nodes int) conformance.LockerFactory {
	return func(t conformance.TB) conformance.Lockers {
		list, rs := fakes(t, servers, nodes)
		lockers := make([]seatflow.Locker, len(rs))
		for i, r := range rs {
			lockers[i] = r
		}
		return conformance.Lockers{Nodes: lockers, Lease: MinLease, Wait: time.Sleep,
			Lose: func(name string) {
				for _, f := range list {
					f.edit(func(f *fakeServer) { delete(f.keys, keyPrefix+name) })
				}
			},
			Close: func(i int) error { return rs[i].Close() }}
	}
}

func TestConformance(t *testing.T) {
	t.Run("five servers", func(t *testing.T) { conformance.LockerIn(t, synctest.Test, fakeLockers(5, 3)) })
	t.Run("one server", func(t *testing.T) { conformance.LockerIn(t, synctest.Test, fakeLockers(1, 2)) })
	t.Run("two of five down", func(t *testing.T) {
		conformance.LockerIn(t, synctest.Test, func(t conformance.TB) conformance.Lockers {
			list, rs := fakes(t, 5, 2)
			list[1].down, list[3].deaf = true, true
			lose := func(name string) {
				for _, f := range list {
					f.edit(func(f *fakeServer) { delete(f.keys, keyPrefix+name) })
				}
			}
			return conformance.Lockers{Nodes: []seatflow.Locker{rs[0], rs[1]}, Lease: MinLease, Wait: time.Sleep,
				Lose: lose, Close: func(i int) error { return rs[i].Close() }}
		})
	})
}

// TestRenewedAtAThird: each renewal is asked for a third of the lease after
// the one before, at every server.
func TestRenewedAtAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, rs := fakes(t, 5, 1)
		const lease = 30 * time.Second
		start := time.Now()
		h := mustTry(t, rs[0], "n", lease)
		time.Sleep(10*lease/3 + time.Second)
		for i, f := range list {
			f.edit(func(f *fakeServer) {
				if len(f.touches) != 10 {
					t.Fatalf("server %d was asked %d times", i, len(f.touches))
				}
				for n, at := range f.touches {
					if got, want := at.Sub(start), time.Duration(n+1)*lease/3; got != want {
						t.Errorf("server %d: renewal %d came after %v, not %v", i, n+1, got, want)
					}
				}
			})
		}
		if got := rs[0].Stats(); got.Renewed != 10 || got.Held != 1 || got.RenewalsFailed+got.Lost != 0 {
			t.Errorf("stats %+v", got)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if got := rs[0].Stats(); got.Released != 1 || got.Held != 0 {
			t.Errorf("stats %+v", got)
		}
	})
}

// TestMajority: as many servers as may be away are, in every way, and one
// more; either answer comes in bounded time.
func TestMajority(t *testing.T) {
	ways := map[string]func(*fakeServer){
		"down": func(f *fakeServer) { f.down = true },
		"deaf": func(f *fakeServer) { f.deaf = true },
		"slow": func(f *fakeServer) { f.slow = time.Minute },
	}
	for how, away := range ways {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				list, rs := fakes(t, 5, 1)
				list[0].edit(away)
				list[3].edit(away)
				began := time.Now()
				h := mustTry(t, rs[0], "n", MinLease)
				bound := patience(MinLease)
				if took := time.Since(began); took > bound {
					t.Errorf("with two away it took %v", took)
				}
				if err := h.Release(t.Context()); err != nil {
					t.Error(err)
				}
				list[4].edit(away)
				for range 3 {
					began = time.Now()
					_, _, err := rs[0].TryLock(t.Context(), "n", MinLease)
					if !errors.Is(err, ErrUnavailable) || errors.Is(err, seatflow.ErrLocked) {
						t.Errorf("with three away: %v", err)
					}
					if took := time.Since(began); took > 2*bound {
						t.Errorf("with three away it took %v", took)
					}
				}
				for _, f := range list {
					f.edit(func(f *fakeServer) { f.down, f.deaf, f.slow = false, false, 0 })
				}
				if err := mustTry(t, rs[0], "n", MinLease).Release(t.Context()); err != nil {
					t.Errorf("with all back: %v", err)
				}
			})
		})
	}
}

// TestSetAside: a server that lets answers time out does not slow every lease
// down, and is asked again after a while.
func TestSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, rs := fakes(t, 3, 1)
		list[1].deaf = true
		for i := range 100 {
			began := time.Now()
			if err := mustTry(t, rs[0], "n", MinLease).Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); i > 0 && took > 0 {
				t.Fatalf("lease %d took %v", i+1, took)
			}
		}
		list[1].edit(func(f *fakeServer) { f.deaf = false })
		time.Sleep(aside)
		h := mustTry(t, rs[0], "n", MinLease)
		list[1].edit(func(f *fakeServer) {
			if f.token(keyPrefix+"n") != h.mutex.Value() {
				t.Error("the server is back and was not asked")
			}
		})
	})
}

// TestLostInTime: when no majority renews it, the lease ends for its holder
// before it can end for the servers.
func TestLostInTime(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			list, rs := fakes(t, 5, 1)
			const lease = 30 * time.Second
			ctx, l, err := rs[0].TryLock(t.Context(), "n", lease)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(lease / 3) // one renewal, which the rest counts from
			synctest.Wait()
			for _, f := range list[:3] {
				f.edit(func(f *fakeServer) { f.down, f.deaf = !deaf, deaf })
			}
			last := time.Now()
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ErrLost) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			if after := time.Since(last); after > lease-drift(lease) || after < lease-lease/10 {
				t.Errorf("cancelled after %v of a lease of %v", after, lease)
			}
			got := rs[0].Stats()
			if got.Lost != 1 || got.Renewed != 1 || got.RenewalsFailed < 5 || got.Held != 0 {
				t.Errorf("stats %+v", got)
			}
			if err := l.Release(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Errorf("release that no majority answered: %v", err)
			}
			for _, f := range list {
				f.edit(func(f *fakeServer) { f.down, f.deaf = false, false })
			}
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("tried again: %v", err)
			}
		})
	}
}

// TestRidesOut: a majority that is away for less than the lease costs nothing.
func TestRidesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, rs := fakes(t, 5, 1)
		const lease = 30 * time.Second
		h := mustTry(t, rs[0], "n", lease)
		for range 5 {
			for _, f := range list {
				f.edit(func(f *fakeServer) { f.down = true })
			}
			time.Sleep(lease / 2)
			for _, f := range list {
				f.edit(func(f *fakeServer) { f.down = false })
			}
			time.Sleep(lease)
			if h.ctx.Err() != nil {
				t.Fatalf("lost: %v", context.Cause(h.ctx))
			}
		}
		if got := rs[0].Stats(); got.RenewalsFailed == 0 || got.Lost != 0 {
			t.Errorf("stats %+v", got)
		}
	})
}

// TestServersRejoin: servers that forget one after the other do not add up to
// a lost lease, but a majority that forgets at once does.
func TestServersRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, rs := fakes(t, 5, 2)
		const lease = 30 * time.Second
		h := mustTry(t, rs[0], "n", lease)
		for i := range 10 {
			list[i%5].edit(func(f *fakeServer) { clear(f.keys) })
			time.Sleep(lease / 2)
			if h.ctx.Err() != nil {
				t.Fatalf("lost after %d restarts: %v", i+1, context.Cause(h.ctx))
			}
		}
		if got := rs[0].Stats(); got.ServersRejoined != 10 {
			t.Errorf("stats %+v", got)
		}
		time.Sleep(time.Second) // between two renewals: at once means before the next one
		for _, f := range list[1:4] {
			f.edit(func(f *fakeServer) { clear(f.keys) })
		}
		began := time.Now()
		select {
		case <-h.ctx.Done():
		case <-time.After(lease):
			t.Fatal("forgotten by three, it went on")
		}
		if took := time.Since(began); took > lease/3 || !errors.Is(context.Cause(h.ctx), ErrLost) {
			t.Errorf("forgotten by three, it was cancelled after %v: %v", took, context.Cause(h.ctx))
		}
		for i, f := range list[1:4] {
			f.edit(func(f *fakeServer) {
				if f.token(keyPrefix+"n") != "" {
					t.Errorf("server %d was told of a lease that was lost", i+1)
				}
			})
		}
	})
}

// TestAnAnswerTooLateExtendsNothing: the servers extended it, but the answer
// came when the lease was over.
func TestAnAnswerTooLateExtendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, rs := fakes(t, 1, 1)
		h := mustTry(t, rs[0], "n", MinLease)
		list[0].edit(func(f *fakeServer) { f.slow = MinLease })
		<-h.ctx.Done()
		if !errors.Is(context.Cause(h.ctx), ErrLost) || h.settle(time.Now(), true, false) {
			t.Errorf("cause %v", context.Cause(h.ctx))
		}
	})
}

// TestByTheClock: no timer has run, but who asks is told that it is over; and
// an answer that comes then extends nothing.
func TestByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rs := fakes(t, 1, 1)
		h := mustTry(t, rs[0], "n", MinLease)
		h.mu.Lock()
		h.since = h.since.Add(-MinLease)
		h.mu.Unlock()
		select {
		case <-h.ctx.Done():
			t.Fatal("something looked at the time before it was asked")
		default:
		}
		if h.ctx.Err() == nil || !errors.Is(context.Cause(h.ctx), ErrLost) {
			t.Errorf("asked after its end: %v, %v", h.ctx.Err(), context.Cause(h.ctx))
		}

		h = mustTry(t, rs[0], "m", MinLease)
		h.mu.Lock()
		h.since = h.since.Add(-MinLease)
		h.mu.Unlock()
		if h.settle(time.Now(), true, false) || h.inner.Err() == nil {
			t.Error("a lease that was over went on")
		}

		// A machine that slept: the monotonic clock stood still.
		h = mustTry(t, rs[0], "o", MinLease)
		if left := h.left(time.Now().Round(0).Add(MinLease)); left > 0 {
			t.Errorf("%v left by the wall clock", left)
		}
		// A wall clock that was set back does not lengthen it.
		now := time.Now()
		h.mu.Lock()
		h.since = h.since.Round(0).Add(time.Hour)
		h.mu.Unlock()
		if left := h.left(now); left <= MinLease {
			t.Fatalf("%v left; this test sets nothing back", left)
		}
	})
}

// TestNothingIsLeftBehind: a caller who leaves during an attempt leaves no key.
func TestNothingIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, rs := fakes(t, 5, 1)
		for _, f := range list {
			f.slow = 100 * time.Millisecond
		}
		for _, lock := range []func(context.Context, string, time.Duration) (context.Context, seatflow.Lock, error){rs[0].TryLock, rs[0].Lock} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			began := time.Now()
			if _, _, err := lock(ctx, "n", MinLease); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			if took := time.Since(began); took != 50*time.Millisecond {
				t.Errorf("left after %v", took)
			}
			time.Sleep(time.Second)
			for i, f := range list {
				f.edit(func(f *fakeServer) {
					if f.token(keyPrefix+"n") != "" || f.sets == 0 {
						t.Errorf("server %d: a key is left, or was never set", i)
					}
				})
			}
		}
		if got := rs[0].Stats(); got.Held != 0 {
			t.Errorf("stats %+v", got)
		}
	})
}

// TestReleaseWaitsOutARejoin: a release that comes while a server is told
// again leaves no key there.
func TestReleaseWaitsOutARejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, rs := fakes(t, 5, 1)
		h := mustTry(t, rs[0], "n", MinLease)
		list[2].edit(func(f *fakeServer) { clear(f.keys) })
		for _, f := range list {
			f.edit(func(f *fakeServer) { f.slow = 100 * time.Millisecond })
		}
		time.Sleep(MinLease/3 + 150*time.Millisecond) // the renewal has been answered, the rejoin not
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		for i, f := range list {
			f.edit(func(f *fakeServer) {
				if f.token(keyPrefix+"n") != "" {
					t.Errorf("server %d has a key of a lease that was released", i)
				}
			})
		}
		if got := rs[0].Stats(); got.ServersRejoined != 1 {
			t.Errorf("the release did not meet a rejoin: %+v", got)
		}
	})
}

// TestWaitsThroughAnOutage: servers that are away while someone waits only
// make the wait longer.
func TestWaitsThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, rs := fakes(t, 3, 1)
		for _, f := range list {
			f.down = true
		}
		time.AfterFunc(time.Minute, func() {
			for _, f := range list {
				f.edit(func(f *fakeServer) { f.down = false })
			}
		})
		began := time.Now()
		_, l, err := rs[0].Lock(t.Context(), "n", MinLease)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("after %v", took)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		tries := rs[0].Stats().Unavailable
		if tries < 30 || tries > 200 {
			t.Errorf("%d attempts in a minute", tries)
		}

		for _, f := range list {
			f.edit(func(f *fakeServer) { f.down = true })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := rs[0].Lock(ctx, "n", MinLease); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait that ended in an outage says %v", err)
		}
	})
}

// TestTokens: every lease has a token of its own.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rs := fakes(t, 1, 1)
		var tokens []string
		for range 100 {
			h := mustTry(t, rs[0], "n", MinLease)
			tokens = append(tokens, h.mutex.Value())
			if err := h.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(tokens)
		if len(slices.Compact(tokens)) != 100 || len(tokens[0]) < 20 {
			t.Errorf("tokens repeat or are short: %q", tokens[0])
		}
	})
}

func TestHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, rs := fakes(t, 5, 1)
		list[0].down, list[1].deaf = true, true
		if err := rs[0].Healthy(t.Context()); err != nil {
			t.Errorf("with two away: %v", err)
		}
		list[2].edit(func(f *fakeServer) { f.down = true })
		if err := rs[0].Healthy(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "c: connection refused") {
			t.Errorf("with three away: %v", err)
		}
	})
}
