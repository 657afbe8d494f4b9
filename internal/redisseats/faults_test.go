package redisseats

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// guard is how long to wait for what should come within moments.
const guard = 30 * time.Second

// within gives an operation a deadline.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// settled asks again until it is known what became of it: calls find broken
// connections one by one.
func settled(call func() error) error {
	for {
		if err := call(); !errors.Is(err, seatflow.ErrUnknownOutcome) {
			return err
		}
	}
}

// crowd keeps holding and releasing seats of its own, each goroutine another
// one, until stopped. Every reply must be held.
func crowd(t *testing.T, s *Store, ref seatflow.ShowRef, callers int) (stop func() int64) {
	t.Helper()
	var done sync.WaitGroup
	var held atomic.Int64
	quit := make(chan struct{})
	for i := range callers {
		done.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-quit:
					return
				default:
				}
				req := ask(ref, 1_000_000*(i+1)+n, seatflow.SeatID(i+1))
				r, err := s.Hold(t.Context(), req)
				if err != nil || r.Outcome != seatflow.OutcomeHeld {
					t.Errorf("hold: %+v, %v", r, err)
					return
				}
				held.Add(1)
				if r, err := s.Release(t.Context(), ref, req.Owner, nil); err != nil || len(r.Released) != 1 {
					t.Errorf("release: %+v, %v", r, err)
					return
				}
			}
		})
	}
	return func() int64 { close(quit); done.Wait(); return held.Load() }
}

func TestScriptFlushUnderLoad(t *testing.T) {
	redis := testkit.SharedRedis(t)
	s, ref := house(t, Options{URL: redis.URL()}, 20)
	before, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop := crowd(t, s, ref, 16)
	for range 10 {
		redis.CLI(t, "SCRIPT", "FLUSH")
	}
	if stop() == 0 {
		t.Error("nothing was held")
	}
	if after, err := s.Identity(t.Context()); err != nil || after != before {
		t.Errorf("identity %q became %q, %v", before, after, err)
	}
	if snap := mustSnapshot(t, s, ref); text(snap.States) != strings.Repeat("0", 20) || len(snap.Orders) != 0 {
		t.Errorf("left behind: %+v", snap)
	}
}

func TestRestartMakesViewsSuspect(t *testing.T) {
	for name, appendOnly := range map[string]bool{"empty": false, "with data": true} {
		t.Run(name, func(t *testing.T) {
			redis := testkit.StartRedis(t, testkit.RedisOptions{AppendOnly: appendOnly, Args: []string{"--appendfsync", "always"}})
			s, ref := house(t, Options{URL: redis.URL()}, 10)
			mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 1, 1, 2))
			was, err := s.Changes(t.Context(), seatflow.ChangesRequest{Partition: 7})
			if err != nil {
				t.Fatal(err)
			}
			redis.Kill()
			redis.Restart(t)
			ctx := within(t, guard)
			if got := redis.CLI(t, "EXISTS", "seatflow:{p07}:show:42:meta"); (got == "1") != appendOnly {
				t.Fatalf("after the restart the view exists: %s", got)
			}
			var r seatflow.HoldReply
			err = settled(func() (err error) { r, err = s.Hold(ctx, ask(ref, 2, 3)); return err })
			if err != nil || r.Outcome != seatflow.OutcomeNotReady {
				t.Fatalf("a hold after the restart: %+v, %v", r, err)
			}
			err = settled(func() error { _, err := s.Sell(ctx, ref, order(1)); return err })
			if !errors.Is(err, seatflow.ErrNotReady) {
				t.Errorf("a sale after the restart: %v", err)
			}
			is, err := s.Changes(ctx, seatflow.ChangesRequest{Partition: 7, After: was.Next})
			if err != nil || is.Identity == was.Identity || !is.Trimmed {
				t.Errorf("changes after the restart: %+v, %v; before by %q", is, err, was.Identity)
			}
			err = settled(func() error { return s.Rebuild(ctx, seatflow.View{Show: ref, Generation: 1, Base: free(10)}) })
			if stale := errors.Is(err, seatflow.ErrStaleGeneration); stale != appendOnly {
				t.Errorf("a rebuild with the generation of before: %v", err)
			}
			err = settled(func() error { return s.Rebuild(ctx, seatflow.View{Show: ref, Generation: 2, Base: free(10)}) })
			if err != nil {
				t.Fatal(err)
			}
			err = settled(func() (err error) { r, err = s.Hold(ctx, ask(ref, 2, 1)); return err })
			if err != nil || r.Outcome != seatflow.OutcomeHeld {
				t.Fatalf("a hold after the rebuild: %+v, %v", r, err)
			}
			if snap := mustSnapshot(t, s, ref); snap.Identity != is.Identity {
				t.Errorf("the view is %q's, the server %q", snap.Identity, is.Identity)
			}
		})
	}
}

func TestServerDownIsNotExecuted(t *testing.T) {
	redis := testkit.StartRedis(t, testkit.RedisOptions{})
	s, ref := house(t, Options{URL: redis.URL()}, 10)
	redis.Kill()
	ctx := within(t, guard)
	var err error
	for range 20 { // until every connection has been found broken
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		if _, err = s.Hold(short, ask(ref, 1, 1)); errors.Is(err, seatflow.ErrNotExecuted) {
			cancel()
			break
		}
		cancel()
	}
	if !errors.Is(err, seatflow.ErrNotExecuted) {
		t.Fatalf("a hold of a server that is down: %v", err)
	}
	if err := s.Healthy(within(t, 200*time.Millisecond)); err == nil {
		t.Error("a server that is down is healthy")
	}
	redis.Restart(t)
	if err := s.Healthy(ctx); err != nil {
		t.Errorf("back again: %v", err)
	}
}

func TestAtTheMemoryLimit(t *testing.T) {
	redis := testkit.StartRedis(t, testkit.RedisOptions{})
	s, ref := house(t, Options{URL: redis.URL()}, 20)
	for i := range 6 {
		mustHold(t, s, seatflow.OutcomeHeld, ask(ref, i+1, seatflow.SeatID(2*i+1), seatflow.SeatID(2*i+2)))
	}
	before := mustSnapshot(t, s, ref)
	redis.CLI(t, "CONFIG", "SET", "maxmemory", "1mb")
	if r, err := s.Hold(t.Context(), ask(ref, 7, 20)); !errors.Is(err, seatflow.ErrNotExecuted) {
		t.Fatalf("a hold at the limit: %+v, %v", r, err)
	}
	if err := s.Rebuild(t.Context(), seatflow.View{Show: ref, Generation: 2, Base: free(20)}); !errors.Is(err, seatflow.ErrNotExecuted) {
		t.Fatalf("a rebuild at the limit: %v", err)
	}
	if after := mustSnapshot(t, s, ref); text(after.States) != text(before.States) || after.Revision != before.Revision {
		t.Fatalf("a refused hold left %s at %s", text(after.States), after.Revision)
	}
	if r, err := s.Sell(t.Context(), ref, order(1)); err != nil || r.Sold != 2 {
		t.Errorf("sell: %+v, %v", r, err)
	}
	if r, err := s.Extend(t.Context(), ref, order(2), time.Now().Add(20*time.Minute)); err != nil || !r.Extended {
		t.Errorf("extend: %+v, %v", r, err)
	}
	if r, err := s.Release(t.Context(), ref, order(3), nil); err != nil || len(r.Released) != 2 {
		t.Errorf("release: %+v, %v", r, err)
	}
	if r, err := s.Unsell(t.Context(), ref, order(1), []seatflow.SeatID{1}); err != nil || len(r.Released) != 1 {
		t.Errorf("unsell: %+v, %v", r, err)
	}
	if r, err := s.Block(t.Context(), ref, order(8), []seatflow.SeatID{19}); err != nil || len(r.Changed) != 1 {
		t.Errorf("block: %+v, %v", r, err)
	}
	if _, err := s.ClaimDue(t.Context(), 7, 10, time.Minute); err != nil {
		t.Errorf("claim: %v", err)
	}
	if _, err := s.Attempt(t.Context(), "u", 1, time.Minute); err != nil {
		t.Errorf("attempt: %v", err)
	}
	batch, err := s.Changes(t.Context(), seatflow.ChangesRequest{Partition: 7})
	if err != nil || len(batch.Changes) != 1+6+5 {
		t.Errorf("changes: %d, %v", len(batch.Changes), err)
	}
	redis.CLI(t, "CONFIG", "SET", "maxmemory", "0")
	mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 7, 20))
}

func TestAnEvictingServerIsRefused(t *testing.T) {
	redis := testkit.StartRedis(t, testkit.RedisOptions{Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	_, err := Open(t.Context(), Options{URL: redis.URL()})
	if !errors.Is(err, errUnsuitable) || !strings.Contains(err.Error(), "allkeys-lru") || !strings.Contains(err.Error(), "noeviction") {
		t.Fatalf("open: %v", err)
	}
	redis.CLI(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	s, ref := house(t, Options{URL: redis.URL()}, 10)
	// One that becomes so is refused as soon as it is looked at again.
	redis.CLI(t, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	redis.CLI(t, "SCRIPT", "FLUSH")
	if _, err := s.Hold(t.Context(), ask(ref, 1, 1)); !errors.Is(err, seatflow.ErrNotExecuted) || !errors.Is(err, errUnsuitable) {
		t.Errorf("a hold: %v", err)
	}
	for _, version := range []string{"6.2.14", "", "x", "5"} {
		if suitable(version, "noeviction") == nil {
			t.Errorf("Redis %q is suitable", version)
		}
	}
}

// A reply that is lost on the way is never "taken": nobody knows, until the
// same owner asks again.
func TestDroppedReplies(t *testing.T) {
	redis := testkit.SharedRedis(t)
	proxy := testkit.StartProxy(t, redis.Addr())
	direct, ref := house(t, Options{URL: redis.URL()}, 10)
	s := open(t, Options{URL: "redis://" + proxy.Addr()})
	mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 1, 1))
	for range 100 { // all connections are open, and what is behind them is known
		mustSnapshot(t, s, ref)
	}
	proxy.DropReplies()
	req := ask(ref, 2, 2, 3)
	if r, err := s.Hold(within(t, 500*time.Millisecond), req); !errors.Is(err, seatflow.ErrUnknownOutcome) {
		t.Fatalf("a hold without a reply: %+v, %v", r, err)
	}
	snap := mustSnapshot(t, direct, ref)
	if text(snap.States) != "1110000000" || snap.Revision.Number != 2 {
		t.Fatalf("the house is %s at %s", text(snap.States), snap.Revision)
	}
	proxy.Clear()
	ctx := within(t, guard)
	var r seatflow.HoldReply
	err := settled(func() (err error) { r, err = s.Hold(ctx, req); return err })
	if err != nil || r.Outcome != seatflow.OutcomeHeld || !r.Repeat || r.Revision != 2 {
		t.Fatalf("asked again: %+v, %v", r, err)
	}
	if after := mustSnapshot(t, direct, ref); after.Revision != snap.Revision || len(after.Orders) != 2 {
		t.Fatalf("asking again changed %s to %s", snap.Revision, after.Revision)
	}
}

// quiet waits until the store has no reason to ask who its server is, and keeps
// it from that until goOn: while it asks, calls wait for the answer before they
// wait for leave to be sent.
func quiet(t *testing.T, s *Store, ref seatflow.ShowRef) (goOn func()) {
	t.Helper()
	goOn = func() {
		for p := range s.partitions {
			<-s.partitions[p].turn
		}
	}
	for range 100 { // a call opens its connection, one of a few, at random
		mustSnapshot(t, s, ref)
	}
	for {
		mustSnapshot(t, s, ref)
		for p := range s.partitions {
			s.partitions[p].turn <- struct{}{}
		}
		if s.partitions[ref.Partition].now.Load().dials == s.dials.Load() {
			return goOn
		}
		goOn()
	}
}

// A server that swallows everything: deadlines are kept, what is under way is
// bounded, and once it is back so is the store.
func TestBlackHole(t *testing.T) {
	redis := testkit.SharedRedis(t)
	proxy := testkit.StartProxy(t, redis.Addr())
	s, ref := house(t, Options{URL: "redis://" + proxy.Addr()}, 10)
	goOn := quiet(t, s, ref)
	proxy.BlackHole()
	// All but a few places are taken, as by calls that were given up: however
	// slowly callers come, those few are gone long before a connection is.
	const few = 64
	for range maxInFlight - few {
		s.slots <- struct{}{}
	}
	var done sync.WaitGroup
	var late atomic.Int64
	for i := range 2 * maxInFlight {
		done.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			_, err := s.Hold(ctx, ask(ref, i+1, 1))
			if !errors.Is(err, seatflow.ErrUnknownOutcome) && !errors.Is(err, seatflow.ErrNotExecuted) {
				t.Errorf("a hold into the void: %v", err)
			}
			if errors.Is(err, seatflow.ErrNotExecuted) {
				late.Add(1)
			}
			if stats := s.Stats(); stats.InFlight > stats.Capacity {
				t.Errorf("%+v", stats)
			}
		})
	}
	for ctx := within(t, guard); s.Stats().Blocked == 0 && ctx.Err() == nil; {
		runtime.Gosched()
	}
	goOn()
	done.Wait()
	if late.Load() < maxInFlight {
		t.Errorf("%d callers were kept from sending, want at least %d", late.Load(), maxInFlight)
	}
	for range maxInFlight - few {
		<-s.slots
	}
	proxy.Clear()
	ctx := within(t, guard)
	for {
		if _, err := s.Snapshot(ctx, ref, seatflow.DetailStates); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatalf("not back: %v", err)
		}
	}
	if stats := s.Stats(); stats.Waits == 0 || stats.Waited == 0 {
		t.Errorf("nobody waited: %+v", stats)
	}
}

func TestCloseWakesWhoWaits(t *testing.T) {
	redis := testkit.SharedRedis(t)
	s := open(t, Options{URL: redis.URL()})
	done := make(chan error, 1)
	go func() {
		_, err := s.Changes(context.Background(), seatflow.ChangesRequest{Wait: time.Hour})
		done <- err
	}()
	for !strings.Contains(redis.CLI(t, "CLIENT", "LIST"), "cmd=xread") { // until it waits there
	}
	s.Close()
	s.Close()
	if err := <-done; !errors.Is(err, errClosed) || !errors.Is(err, seatflow.ErrNotExecuted) {
		t.Errorf("a wait at the close: %v", err)
	}
	if _, err := s.Hold(context.Background(), ask(seatflow.ShowRef{}, 1, 1)); !errors.Is(err, seatflow.ErrNotExecuted) {
		t.Errorf("a hold after the close: %v", err)
	}
	if s.Healthy(context.Background()) == nil {
		t.Error("a closed store is healthy")
	}
}
