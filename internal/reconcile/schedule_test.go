package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
	"seatflow/internal/reconcile"
	"seatflow/internal/testkit"
)

// The scheduled path, on a clock of its own: the first round once what was
// under way at the start is old enough, then at a fixed delay.
func TestScheduledRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 20)
		o := r.buy("ann", 1, 2)
		r.must(r.store.Unsell(t.Context(), r.ref(), o.Owner(), nil))
		r.rec = r.reconciler(func(opt *reconcile.Options) { opt.Interval = 5 * time.Minute })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.rec.Run(ctx) }()
		pass := func(d time.Duration) {
			r.clock.Advance(d)
			time.Sleep(d)
			synctest.Wait()
		}
		rounds := func() int { return r.ledger.Calls("MoveRotation") }
		pass(grace - time.Millisecond)
		if rounds() != 0 || !r.drifts() {
			t.Fatalf("%d rounds before the first was due", rounds())
		}
		if err := r.rec.Run(ctx); err == nil {
			t.Error("a second Run was let in")
		}
		pass(time.Millisecond)
		if rounds() != 1 || r.drifts() {
			t.Fatalf("%d rounds; drift left: %v", rounds(), r.drifts())
		}
		r.must(r.store.Unsell(t.Context(), r.ref(), o.Owner(), nil))
		pass(5*time.Minute - time.Millisecond)
		if rounds() != 1 || !r.drifts() {
			t.Fatalf("%d rounds before the second was due", rounds())
		}
		// A round that fails is only a round that failed.
		r.ledger.On("Rotation", testkit.FailBefore(errors.New("boom")), testkit.Times(1))
		pass(time.Millisecond)
		if rounds() != 1 || !strings.Contains(r.log.String(), "boom") {
			t.Fatalf("%d rounds, log %s", rounds(), r.log.String())
		}
		pass(5 * time.Minute)
		if rounds() != 2 || r.drifts() {
			t.Fatalf("%d rounds; drift left: %v", rounds(), r.drifts())
		}
		if got := r.metric("seatflow_reconcile_fixed_total", "check", string(seatflow.DriftPaidSeats)); got != "4" {
			t.Errorf("%s seats counted", got)
		}
		if got := r.metric("seatflow_reconcile_round_seconds_count", "", ""); got != "3" {
			t.Errorf("%s rounds counted", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		// A Run after a Run, and one without an interval, end with their context.
		if err := r.rec.Run(ctx); err != nil {
			t.Error(err)
		}
		off := r.reconciler()
		live, stop := context.WithCancel(t.Context())
		go func() { done <- off.Run(live) }()
		pass(24 * time.Hour)
		if rounds() != 2 {
			t.Error("it ran although it is switched off")
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// unsellIn makes a paid seat of a show free in the view.
func (r *rig) unsellIn(show seatflow.ShowID) {
	r.t.Helper()
	o := r.holdIn(show, "ann", 1)
	paid := r.pay(o)
	r.must(r.store.Unsell(r.t.Context(), r.refOf(show), paid.Owner(), nil))
}

// 250 shows and drift in the last: it is repaired in the round that the
// rotation says, and a cursor that is stored survives the process.
func TestRotation(t *testing.T) {
	r := newRig(t, 4)
	for range 249 {
		r.addShow(func(s *seatflow.Show) { s.SaleFrom = start.Add(time.Hour) }) // their views are not built
	}
	last := r.addShow(func(s *seatflow.Show) { s.Starts, s.Ends = s.Starts.Add(time.Minute), s.Ends.Add(time.Minute) })
	r.unsellIn(last)
	r.later()
	var seen []int
	for range 6 {
		r.rec = r.reconciler() // another process
		rep := r.round(reconcile.RoundOptions{Shows: 100})
		seen = append(seen, rep.Shows)
		if fixed := rep.FixedBy(seatflow.DriftPaidSeats); fixed != map[int]int{3: 1}[len(seen)] {
			t.Errorf("round %d fixed %d", len(seen), fixed)
		}
	}
	if want := []int{100, 100, 51, 100, 100, 51}; !equal(seen, want) {
		t.Errorf("shows by round: %v, want %v", seen, want)
	}
	rot, err := r.facts.Rotation(t.Context())
	if err != nil || rot.After != 0 || rot.Began.IsZero() || rot.Before.IsZero() {
		t.Errorf("%+v, %v", rot, err)
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// A lap that ends exactly where a round does begins anew.
func TestRotationAtTheEnd(t *testing.T) {
	r := newRig(t, 4)
	r.addShow()
	for i := range 4 {
		if rep := r.round(reconcile.RoundOptions{Shows: 1}); rep.Shows != 1 {
			t.Errorf("round %d: %d shows", i, rep.Shows)
		}
	}
	if rep := r.round(reconcile.RoundOptions{Shows: 2}); rep.Shows != 2 {
		t.Errorf("%d shows", rep.Shows)
	}
	r.clock.Advance(26*time.Hour + seatflow.ViewAfterEnd + time.Second)
	for range 2 {
		if rep := r.round(reconcile.RoundOptions{Shows: 2}); rep.Shows != 0 || !rep.Clean() {
			t.Errorf("shows that are long over: %+v", rep)
		}
	}
}

// What a round did not come to is the next one's, and a show that cannot be
// read holds nobody up for ever.
func TestRotationAfterAStop(t *testing.T) {
	r := newRig(t, 4)
	for range 9 {
		r.addShow()
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.ledger.On("Facts", testkit.After(cancel), testkit.Skip(2), testkit.Times(1))
	rep, err := r.rec.Round(ctx, reconcile.RoundOptions{Shows: 8})
	if err == nil || rep.Clean() && rep.Shows == 8 {
		t.Fatalf("%+v, %v", rep, err)
	}
	rot, _ := r.facts.Rotation(t.Context())
	if rot.After == 0 || rot.After >= r.show+8 {
		t.Errorf("the rotation is after show %d", rot.After)
	}
	seen := 0
	for rot.After != 0 {
		seen += r.round(reconcile.RoundOptions{Shows: 4}).Shows
		rot, _ = r.facts.Rotation(t.Context())
	}
	if seen < 7 {
		t.Errorf("%d shows were looked at after the stop", seen)
	}

	// Five in a row that fail: the rest waits for the next round.
	rule := r.ledger.On("Facts", testkit.FailBefore(errors.New("boom")))
	rep, err = r.rec.Round(t.Context(), reconcile.RoundOptions{Shows: 10})
	if err == nil || len(rep.Skipped) != 5 || rule.Hits() != 5 {
		t.Errorf("%d skipped, %v", len(rep.Skipped), err)
	}
	rule.Stop()
	if rep := r.round(reconcile.RoundOptions{Shows: 10}); rep.Shows != 5 {
		t.Errorf("%d shows after the failing ones", rep.Shows)
	}
}

// The age of the oldest unchecked show grows while rounds fail.
func TestOldestUnchecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		r.addShow()
		age := func() string { return r.metric("seatflow_reconcile_oldest_unchecked_seconds", "", "") }
		pass := func(d time.Duration) { r.clock.Advance(d); time.Sleep(d) }
		if age() != "0" {
			t.Errorf("before the first round: %s", age())
		}
		time.Sleep(time.Until(r.clock.Now())) // the process's clock to the house's
		// Nobody knows that a lap is complete before the next round begins one,
		// so that the age is never told too short.
		for i, want := range []string{"0", "10", "20", "30"} {
			r.round(reconcile.RoundOptions{Shows: 1})
			if got := age(); got != want {
				t.Errorf("after round %d: %s s, want %s", i+1, got, want)
			}
			pass(10 * time.Second)
		}
		r.ledger.On("Facts", testkit.FailBefore(errors.New("boom")))
		for range 4 {
			if _, err := r.rec.Round(t.Context(), reconcile.RoundOptions{Shows: 2}); err == nil {
				t.Error("no error")
			}
			pass(time.Minute)
		}
		if got := age(); got != "240" {
			t.Errorf("after four failing rounds: %s", got)
		}
	})
}

// Ten nodes at once: each drift is repaired once.
func TestTenNodes(t *testing.T) {
	r := newRig(t, 4)
	shows := []seatflow.ShowID{r.show}
	for range 19 {
		shows = append(shows, r.addShow())
	}
	for _, id := range shows {
		r.unsellIn(id)
	}
	r.later()
	locks := &sharedLocker{held: map[string]bool{}}
	var nodes sync.WaitGroup
	gate := make(chan struct{})
	var fixed atomic.Int64
	for i := range 10 {
		rec := r.reconciler(func(o *reconcile.Options) { o.Locker = locks })
		o := reconcile.RoundOptions{}
		if i%2 == 0 {
			o.Shows = 7
		}
		nodes.Go(func() {
			<-gate
			for range 3 {
				rep, err := rec.Round(t.Context(), o)
				if err != nil {
					t.Error(err)
				}
				fixed.Add(int64(rep.FixedBy(seatflow.DriftPaidSeats)))
			}
		})
	}
	close(gate)
	nodes.Wait()
	rows, err := r.facts.RepairsOf(t.Context(), 0, 0, 1000)
	if err != nil || fixed.Load() != int64(len(shows)) || len(rows) != len(shows) {
		t.Errorf("%d repairs and %d rows of %d drifts, %v", fixed.Load(), len(rows), len(shows), err)
	}
	for _, id := range shows {
		r.agree(id)
	}
}

// sharedLocker is a locker that several nodes use.
type sharedLocker struct {
	mu   sync.Mutex
	held map[string]bool
}

// TryLock implements seatflow.Locker.
func (l *sharedLocker) TryLock(ctx context.Context, name string, _ time.Duration) (context.Context, seatflow.Lock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] {
		return nil, nil, seatflow.ErrLocked
	}
	l.held[name] = true
	return ctx, oneLock(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, name)
	}), nil
}

// Lock implements seatflow.Locker.
func (l *sharedLocker) Lock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	return l.TryLock(ctx, name, lease)
}
