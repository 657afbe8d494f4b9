package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/reconcile"
	"seatflow/internal/testkit"
)

// traffic is buyers who hold, pay, cancel, extend and get refunds. The clock
// moves past the grace time again and again, between requests, so that
// everything that is at peace is old and what is under way is not.
type traffic struct {
	*rig
	bracket sync.RWMutex // held shared by a request, alone by the clock
	step    time.Duration
	size    int // seats

	requests, orders, paid, refused atomic.Int64
	wrong                           atomic.Int64 // a buyer lost something
	mu                              sync.Mutex
	acked                           []seatflow.Order // as acknowledged last
	stop                            chan struct{}
}

func (f *traffic) request(do func()) {
	f.requests.Add(1)
	f.bracket.RLock()
	defer f.bracket.RUnlock()
	do()
}

// run lets buyers act until n requests were made or stopped says so.
func (f *traffic) run(buyers int, n int64, stopped func() bool) {
	var all sync.WaitGroup
	f.stop = make(chan struct{})
	over := func() bool { return f.requests.Load() >= n || stopped() }
	for b := range buyers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(b), 3))
			for !over() {
				f.buyer(rng, fmt.Sprint("buyer", b))
			}
		})
	}
	var beside sync.WaitGroup
	beside.Go(func() { // the clock, and the guardian once it has moved
		for {
			select {
			case <-f.stop:
				return
			default:
			}
			f.bracket.Lock()
			f.clock.Advance(f.step)
			f.guard()
			f.bracket.Unlock()
		}
	})
	beside.Go(func() { // the reconciler, in a tight loop
		for {
			select {
			case <-f.stop:
				return
			default:
			}
			if _, err := f.rec.Round(context.Background(), reconcile.RoundOptions{}); err != nil {
				f.t.Error(err)
			}
		}
	})
	all.Wait()
	close(f.stop)
	beside.Wait()
}

// buyer goes once through an order's life.
func (f *traffic) buyer(rng *rand.Rand, name string) {
	ctx := context.Background()
	first := seatflow.SeatID(1 + rng.IntN(f.size-2))
	seats := seatsOf(first, first+seatflow.SeatID(rng.IntN(3)))
	var o seatflow.Order
	var err error
	f.request(func() {
		var c booking.Created
		c, err = f.svc.Create(ctx, booking.CreateRequest{Actor: buyer(name), Show: f.show, Seats: seats})
		o = c.Order
	})
	if err != nil {
		f.refused.Add(1)
		if code := seatflow.CodeOf(err); code != seatflow.CodeSeatsTaken && code != seatflow.CodeNotReady {
			f.t.Errorf("create: %v", err)
			f.wrong.Add(1)
		}
		return
	}
	f.orders.Add(1)
	note := func(o seatflow.Order) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.acked = append(f.acked, o)
	}
	switch rng.IntN(4) {
	case 0: // walks away
	case 1:
		f.request(func() {
			if o, err := f.svc.Cancel(ctx, buyer(name), o.No); err == nil {
				note(o)
			} else if seatflow.CodeOf(err) != seatflow.CodeWrongState { // expired meanwhile
				f.t.Errorf("cancel: %v", err)
			}
		})
	default:
		f.request(func() {
			_, err := f.svc.BeginPayment(ctx, buyer(name), o.No)
			if err != nil && seatflow.CodeOf(err) != seatflow.CodeWrongState {
				f.t.Errorf("begin: %v", err)
			}
		})
		f.request(func() {
			out, err := f.svc.ApplyPayment(ctx, capture(&o))
			if err != nil {
				f.t.Errorf("pay: %v", err)
				return
			}
			if out.Ending == seatflow.EndingPaid {
				f.paid.Add(1)
				note(out.Order)
			}
		})
		if rng.IntN(10) < 9 {
			f.request(func() {
				back, _, err := f.svc.Refund(ctx, staff, o.No, nil)
				if err == nil {
					note(back)
				} else if !errors.Is(err, seatflow.ErrWrongState) {
					f.t.Errorf("refund: %v", err)
				}
			})
		}
	}
}

// kept checks that everything that was acknowledged last stands.
func (f *traffic) kept() {
	f.t.Helper()
	last := map[seatflow.OrderNo]seatflow.Order{}
	for _, o := range f.acked {
		if o.Version >= last[o.No].Version {
			last[o.No] = o
		}
	}
	for no, o := range last {
		if got := f.order(no); got.State != o.State {
			f.t.Errorf("order %s was acknowledged as %s and is %s", no, o.State, got.State)
		}
	}
	a, err := f.facts.Audit(f.t.Context())
	if err != nil || a.ActiveSeats != a.DistinctSeats || len(a.DoubleSeats)+len(a.OrphanSeats)+len(a.MissingSeats)+len(a.BadEndings) > 0 {
		f.t.Errorf("audit: %+v, %v", a, err)
	}
}

func never() bool { return false }

// Nothing is wrong, so a reconciler that runs all the time repairs nothing.
func TestNoFalseRepairBesideTraffic(t *testing.T) {
	noFalseRepair(t, 180, 30, 6000)
}

// The same with a thousand buyers on Redis and MariaDB.
func TestOnServersThousandBuyers(t *testing.T) {
	testkit.SharedRedis(t)
	testkit.SharedMariaDB(t)
	noFalseRepair(t, 1000, 1000, 10_000)
}

func noFalseRepair(t *testing.T, seats, buyers int, requests int64) {
	t.Helper()
	f := &traffic{rig: newRig(t, seats), step: grace, size: seats}
	f.run(buyers, requests, never)
	t.Logf("%s rounds beside %d requests, %d orders, %d paid, %d refused", f.metric("seatflow_reconcile_round_seconds_count", "", ""),
		f.requests.Load(), f.orders.Load(), f.paid.Load(), f.refused.Load())
	for _, d := range seatflow.Drifts {
		if n := f.metric("seatflow_reconcile_fixed_total", "check", string(d)); n != "0" {
			t.Errorf("%s repaired under %s though nothing was wrong", n, d)
		}
	}
	if f.orders.Load() == 0 || f.paid.Load() == 0 || f.refused.Load() == 0 || f.metric("seatflow_reconcile_round_seconds_count", "", "") == "0" {
		t.Error("there was no traffic to speak of")
	}
	f.kept()
	f.agree(f.show)
}

// The control: a round between a hold and its insert leaves the hold alone for
// as long as the grace time, and without one takes it away; harmlessly, because
// a void row comes before every release.
func TestWithoutGraceTrafficIsDisturbed(t *testing.T) {
	for _, c := range []struct {
		grace time.Duration
		want  string
	}{{grace, "0"}, {time.Nanosecond, "1"}} {
		r := newRig(t, 20)
		r.hold("early", 2) // builds the view
		r.rec = r.reconciler(func(o *reconcile.Options) { o.Grace = c.grace })
		r.ledger.On("InsertOrder", testkit.Before(func() {
			r.clock.Advance(time.Second)
			r.round()
		}), testkit.Times(1))
		o := r.hold("ann", 1)
		if got := r.metric("seatflow_reconcile_fixed_total", "check", string(seatflow.DriftOrphanHolds)); got != c.want {
			t.Errorf("grace %v: %s holds were taken away between hold and insert, want %s", c.grace, got, c.want)
		}
		if now := r.order(o.No); now.State != seatflow.OrderPending {
			t.Errorf("grace %v: the buyer was given order %s, which is %s", c.grace, o.No, now.State)
		}
		r.rec = r.reconciler()
		r.agree(r.show)
	}
}

// The view is corrupted all the time, beside traffic and reconciler: nothing is
// sold twice, nothing acknowledged is lost, and all is well soon after.
func TestRepairsBesideTraffic(t *testing.T) {
	f := &traffic{rig: newRig(t, 180), step: grace, size: 180}
	done := make(chan struct{})
	var vandal sync.WaitGroup
	hits := 0
	vandal.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for {
			select {
			case <-done:
				return
			default:
			}
			f.request(func() {
				f.requests.Add(-1)
				seat := seatflow.SeatID(1 + rng.IntN(180))
				ctx, ref := context.Background(), f.ref()
				snap, err := f.store.Snapshot(ctx, ref, seatflow.DetailOrders)
				if err != nil {
					return
				}
				owner := snap.Owners[seat]
				switch rng.IntN(30) {
				case 0:
					f.store.DropView(ref)
				case 1:
					f.store.ForceSeat(ref, seat, seatflow.Available, seatflow.Owner{})
				case 2:
					f.store.ForceSeat(ref, seat, seatflow.Held, stranger(rng.IntN(1000)))
				default: // what leaves the view usable does more harm
					_, _ = f.store.Unsell(ctx, ref, owner, nil)
				}
				hits++
			})
		}
	})
	f.run(30, 4000, never)
	close(done)
	vandal.Wait()
	repaired := 0
	for _, d := range seatflow.Drifts {
		if f.metric("seatflow_reconcile_fixed_total", "check", string(d)) != "0" {
			repaired++
		}
	}
	t.Logf("%d requests, %d orders, %d paid, %d refused, %d corruptions, repairs under %d checks", f.requests.Load(), f.orders.Load(), f.paid.Load(),
		f.refused.Load(), hits, repaired)
	if hits == 0 || repaired == 0 || f.paid.Load() == 0 {
		t.Error("there was nothing to repair")
	}
	f.kept()
	f.round()
	f.later()
	for range 3 {
		f.round()
	}
	f.settled()
}
