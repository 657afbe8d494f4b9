package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"seatflow"
)

// Lockers are lockers under test that share their leases, and the strings they
// hang on.
type Lockers struct {
	// Nodes are one or more lockers that know the same leases.
	Nodes []seatflow.Locker
	// Lease is the shortest that is given. The suite waits for some of them.
	Lease time.Duration
	// Wait returns after a time, on the clock that leases go by.
	Wait func(time.Duration)
	// Lose makes the servers forget a lease that is held; nil where a lease
	// cannot be lost.
	Lose func(name string)
	// Close closes a node, for good.
	Close func(node int) error
}

// LockerFactory makes lockers that nobody else uses. It cleans up after itself
// by t.Cleanup.
type LockerFactory func(t TB) Lockers

// Locker checks that a backend is a seatflow.Locker, by every sentence of the
// contract.
func Locker(t *testing.T, factory LockerFactory) {
	LockerIn(t, func(t *testing.T, run func(*testing.T)) { run(t) }, factory)
}

// LockerIn is Locker with each case run by a function such as synctest.Test.
func LockerIn(t *testing.T, in func(t *testing.T, run func(*testing.T)), factory LockerFactory) {
	for _, c := range lockerCases {
		t.Run(c.name, func(t *testing.T) { in(t, func(t *testing.T) { c.check(t, factory) }) })
	}
}

type lockerCase struct {
	name string
	run  func(t *lockerTest)
}

func (c lockerCase) check(t TB, factory LockerFactory) {
	c.run(&lockerTest{TB: t, Lockers: factory(t)})
}

var lockerCases = []lockerCase{
	{"one holder a name", lockOne},
	{"released", lockReleased},
	{"the context descends", lockDescends},
	{"only the holder releases", lockForeignRelease},
	{"waits its turn", lockWaits},
	{"stops waiting", lockGivesUp},
	{"an ended context gets nothing", lockEnded},
	{"kept beyond its length", lockKept},
	{"what is forgotten ends", lockForgotten},
	{"lost", lockLost},
	{"strange names", lockNames},
	{"refuses what is no lease", lockInvalid},
	{"closed", lockClosed},
	{"50 contenders", lockRace},
}

// hang is when a wait that should end at once is given up.
const hang = 30 * time.Second

type lockerTest struct {
	TB
	Lockers
}

// grip is a lease that a test holds.
type grip struct {
	ctx  context.Context
	lock seatflow.Lock
}

func (t *lockerTest) other() int { return len(t.Nodes) - 1 }

func (t *lockerTest) take(node int, name string) grip {
	t.Helper()
	ctx, lock, err := t.Nodes[node].TryLock(t.Context(), name, t.Lease)
	if err != nil {
		t.Fatalf("%q could not be locked: %v", name, err)
	}
	if ctx == nil || lock == nil {
		t.Fatalf("%q was locked without a context or a lock", name)
	}
	if ctx.Err() != nil {
		t.Fatalf("the context of %q has ended from the start: %v", name, context.Cause(ctx))
	}
	return grip{ctx, lock}
}

// locked expects every node to say that a name has a holder.
func (t *lockerTest) locked(name string) {
	t.Helper()
	for i, n := range t.Nodes {
		ctx, lock, err := n.TryLock(t.Context(), name, t.Lease)
		if !errors.Is(err, seatflow.ErrLocked) {
			t.Fatalf("node %d: %q is held: %v", i, name, err)
		}
		if ctx != nil || lock != nil {
			t.Fatalf("node %d: %q is held, and yet there is a context or a lock", i, name)
		}
	}
}

func (t *lockerTest) release(g grip) {
	t.Helper()
	if err := g.lock.Release(t.Context()); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// ended expects a context to be cancelled, soon.
func (t *lockerTest) ended(g grip, why string) {
	t.Helper()
	select {
	case <-g.ctx.Done():
	case <-time.After(hang):
		t.Fatalf("the context lives on: %s", why)
	}
	if context.Cause(g.ctx) == nil {
		t.Errorf("the context has no cause: %s", why)
	}
}

func lockOne(t *lockerTest) {
	a := t.take(0, "a")
	t.locked("a")
	b := t.take(t.other(), "b")
	t.locked("b")
	if a.ctx.Err() != nil || b.ctx.Err() != nil {
		t.Errorf("held, the contexts have ended: %v, %v", context.Cause(a.ctx), context.Cause(b.ctx))
	}
	t.release(a)
	t.locked("b")
	if b.ctx.Err() != nil {
		t.Errorf("the release of another ended the context: %v", context.Cause(b.ctx))
	}
	t.release(b)
}

func lockReleased(t *lockerTest) {
	for i := range 3 * len(t.Nodes) {
		g := t.take(i%len(t.Nodes), "n")
		t.release(g)
		t.ended(g, "released")
		if i%2 == 0 {
			t.release(g) // twice is fine
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	g := t.take(0, "n")
	if err := g.lock.Release(ended); err != nil {
		t.Errorf("release by a caller whose context has ended: %v", err)
	}
	t.release(t.take(t.other(), "n"))
}

type contextKey struct{}

func lockDescends(t *lockerTest) {
	for _, wait := range []bool{false, true} {
		parent, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "value"))
		lock := t.Nodes[0].TryLock
		if wait {
			lock = t.Nodes[0].Lock
		}
		ctx, l, err := lock(parent, "n", t.Lease)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if ctx.Value(contextKey{}) != "value" {
			t.Errorf("the context has not its parent's values")
		}
		cancel()
		t.ended(grip{ctx, l}, "its parent has ended")
		t.Wait(t.Lease / 20)
		t.locked("n") // until it is released
		t.release(grip{ctx, l})
		t.release(t.take(t.other(), "n"))
	}
}

func lockForeignRelease(t *lockerTest) {
	old := t.take(0, "n")
	t.release(old)
	now := t.take(t.other(), "n")
	t.release(old)
	t.locked("n")
	if now.ctx.Err() != nil {
		t.Errorf("another's release ended the context: %v", context.Cause(now.ctx))
	}
	t.release(now)
}

func lockWaits(t *lockerTest) {
	first := t.take(0, "n")
	got := make(chan grip, 1)
	go func() {
		ctx, lock, err := t.Nodes[t.other()].Lock(t.Context(), "n", t.Lease)
		if err != nil {
			t.Errorf("waiting: %v", err)
		}
		got <- grip{ctx, lock}
	}()
	t.Wait(t.Lease / 10)
	select {
	case <-got:
		t.Fatalf("a second holder beside the first")
	default:
	}
	t.release(first)
	select {
	case g := <-got:
		if g.lock == nil {
			return
		}
		t.locked("n")
		t.release(g)
	case <-time.After(hang):
		t.Fatalf("still waiting for a name that is free")
	}
}

func lockGivesUp(t *lockerTest) {
	first := t.take(0, "n")
	cause := errors.New("no longer wanted")
	cancelled, cancel := context.WithCancelCause(t.Context())
	late, stop := context.WithTimeout(t.Context(), t.Lease/10)
	defer stop()
	var wg sync.WaitGroup
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{{cancelled, context.Canceled}, {cancelled, cause}, {late, context.DeadlineExceeded}} {
		wg.Go(func() {
			ctx, lock, err := t.Nodes[t.other()].Lock(c.ctx, "n", t.Lease)
			if !errors.Is(err, c.want) || ctx != nil || lock != nil {
				t.Errorf("a wait that ended says %v and not %v", err, c.want)
			}
		})
	}
	t.Wait(t.Lease / 20)
	cancel(cause)
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(hang):
		t.Fatalf("still waiting under contexts that have ended")
	}
	t.locked("n")
	t.release(first)
	t.release(t.take(0, "n")) // those who left do not come into it
}

func lockEnded(t *lockerTest) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for i, n := range t.Nodes {
		if _, _, err := n.TryLock(ended, "n", t.Lease); !errors.Is(err, context.Canceled) {
			t.Errorf("node %d: TryLock under an ended context: %v", i, err)
		}
		if _, _, err := n.Lock(ended, "n", t.Lease); !errors.Is(err, context.Canceled) {
			t.Errorf("node %d: Lock under an ended context: %v", i, err)
		}
	}
	t.release(t.take(0, "n"))
}

func lockKept(t *lockerTest) {
	g := t.take(0, "n")
	for range 5 {
		t.Wait(t.Lease / 2)
		t.locked("n")
		if g.ctx.Err() != nil {
			t.Fatalf("held, the context has ended: %v", context.Cause(g.ctx))
		}
	}
	t.release(g)
}

// lockForgotten: a holder whose context ended and who never releases does not
// keep the name for ever.
func lockForgotten(t *lockerTest) {
	parent, cancel := context.WithCancel(t.Context())
	if _, _, err := t.Nodes[0].TryLock(parent, "n", t.Lease); err != nil {
		t.Fatalf("%v", err)
	}
	t.Wait(t.Lease / 2)
	cancel()
	next, stop := context.WithTimeout(t.Context(), hang+10*t.Lease)
	defer stop()
	_, lock, err := t.Nodes[t.other()].Lock(next, "n", t.Lease)
	if err != nil {
		t.Fatalf("a forgotten lease was kept: %v", err)
	}
	t.release(grip{lock: lock})
}

func lockLost(t *lockerTest) {
	if t.Lose == nil {
		return
	}
	old := t.take(0, "n")
	t.Lose("n")
	t.ended(old, "its lease is lost")
	now := t.take(t.other(), "n")
	if err := old.lock.Release(t.Context()); err != nil {
		t.Errorf("release of a lost lease: %v", err)
	}
	t.locked("n")
	if now.ctx.Err() != nil {
		t.Errorf("the release of a lost lease ended its successor: %v", context.Cause(now.ctx))
	}
	t.release(now)
}

func lockNames(t *lockerTest) {
	names := []string{
		" ", "  ", "a", "A", "a ", "a\n", "a\x00", "a\x00b", "{a}", "{b}a", "a:b", "a:", ":", "*", "a*", "?", "relay/p07",
		"ä", "a\u0308", "用户", "\xff", "\xfe\xff", "'", "\\", "%s", "0", "00", strings.Repeat("x", 500), strings.Repeat("x", 501),
	}
	var held []grip
	for i, name := range names {
		held = append(held, t.take(i%len(t.Nodes), name))
	}
	for _, name := range names {
		t.locked(name)
	}
	for _, g := range held {
		t.release(g)
	}
}

func lockInvalid(t *lockerTest) {
	soon, stop := context.WithTimeout(t.Context(), hang)
	defer stop()
	for _, c := range []struct {
		name  string
		lease time.Duration
	}{{"", t.Lease}, {"n", t.Lease - 1}, {"n", 0}, {"n", -t.Lease}} {
		for i, n := range t.Nodes {
			if _, _, err := n.TryLock(t.Context(), c.name, c.lease); err == nil || errors.Is(err, seatflow.ErrLocked) {
				t.Errorf("node %d: TryLock of %q for %v: %v", i, c.name, c.lease, err)
			}
			if _, _, err := n.Lock(soon, c.name, c.lease); err == nil || soon.Err() != nil {
				t.Errorf("node %d: Lock of %q for %v: %v", i, c.name, c.lease, err)
			}
		}
	}
}

func lockClosed(t *lockerTest) {
	last := t.other()
	var held []grip
	for i := range 10 {
		held = append(held, t.take(last, fmt.Sprintf("n%d", i)))
	}
	waiting := make(chan error, 1)
	go func() {
		_, _, err := t.Nodes[last].Lock(t.Context(), "n0", t.Lease)
		waiting <- err
	}()
	t.Wait(t.Lease / 20)
	if err := t.Close(last); err != nil {
		t.Fatalf("close: %v", err)
	}
	for _, g := range held {
		t.ended(g, "its locker is closed")
		if err := g.lock.Release(t.Context()); err != nil {
			t.Errorf("release after the close: %v", err)
		}
	}
	select {
	case err := <-waiting:
		if err == nil {
			t.Errorf("a closed locker gave a lease to one who waited")
		}
	case <-time.After(hang):
		t.Fatalf("still waiting at a closed locker")
	}
	if _, _, err := t.Nodes[last].TryLock(t.Context(), "n0", t.Lease); err == nil || errors.Is(err, seatflow.ErrLocked) {
		t.Errorf("TryLock at a closed locker: %v", err)
	}
	soon, stop := context.WithTimeout(t.Context(), hang)
	defer stop()
	if _, _, err := t.Nodes[last].Lock(soon, "n1", t.Lease); err == nil || soon.Err() != nil {
		t.Errorf("Lock at a closed locker: %v", err)
	}
	if err := t.Close(last); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if last > 0 { // what it held is free at once
		for i := range held {
			t.release(t.take(0, fmt.Sprintf("n%d", i)))
		}
	}
}

// lockRace: 50 contenders, each with the name in turn. They change what they
// share in two steps, as people do without a lock.
func lockRace(t *lockerTest) {
	const contenders, rounds = 50, 2
	var (
		mu    sync.Mutex // so that this test is no race itself
		total int
	)
	load := func() int { mu.Lock(); defer mu.Unlock(); return total }
	store := func(n int) { mu.Lock(); defer mu.Unlock(); total = n }
	var inside, most int
	enter := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		inside += by
		most = max(most, inside)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*hang)
	defer cancel()
	var wg sync.WaitGroup
	for i := range contenders {
		wg.Go(func() {
			for range rounds {
				held, lock, err := t.Nodes[i%len(t.Nodes)].Lock(ctx, "n", t.Lease)
				if err != nil {
					t.Errorf("contender %d: %v", i, err)
					return
				}
				enter(1)
				n := load()
				for range 10 {
					runtime.Gosched()
				}
				store(n + 1)
				if held.Err() != nil {
					t.Logf("contender %d lost the lease: %v", i, context.Cause(held))
				}
				enter(-1)
				if err := lock.Release(ctx); err != nil {
					t.Errorf("contender %d: release: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	if most > 1 {
		t.Errorf("%d held it at once", most)
	}
	if n := load(); n != contenders*rounds {
		t.Errorf("%d changes are left of %d: holders overlapped", n, contenders*rounds)
	}
}
