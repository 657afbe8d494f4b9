package simulate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/guardian"
	"seatflow/internal/payment"
	"seatflow/internal/reconcile"
	"seatflow/internal/relay"
)

// Times of a world. They are short, so that much happens in one.
const (
	holdFor        = 12 * time.Second
	holdCap        = 24 * time.Second
	extendBy       = 5 * time.Second
	grace          = 3 * time.Second
	guardianEvery  = 700 * time.Millisecond
	reconcileEvery = 1500 * time.Millisecond
	requestFor     = 10 * time.Second
)

// node is one life of a process. When it dies another takes its name.
type node struct {
	w      *world
	name   string
	ctx    context.Context
	end    context.CancelFunc
	offset atomic.Int64 // of its clock, a time.Duration

	booking *booking.Service
	payment *payment.Service

	// under w.mu
	dead        bool
	diedAt      time.Time
	pausedAt    time.Time
	pausedUntil time.Time
}

type nodeClock struct{ n *node }

// Now implements [seatflow.Clock].
func (c nodeClock) Now() time.Time { return time.Now().Add(time.Duration(c.n.offset.Load())).UTC() }

// seatClock is the seat store's.
type seatClock struct{ w *world }

// Now implements [seatflow.Clock].
func (c seatClock) Now() time.Time { return time.Now().Add(time.Duration(c.w.seatOffset.Load())).UTC() }

// oneHouse is the catalogue of a world.
type oneHouse struct{ house *seatflow.House }

// House implements booking.Houses and reconcile.Houses.
func (h oneHouse) House(_ context.Context, id seatflow.ShowID) (*seatflow.House, error) {
	if id != h.house.Show.ID {
		return nil, seatflow.ErrNotFound
	}
	return h.house, nil
}

// start begins a life of the i-th node.
func (w *world) start(i int) {
	w.lives++
	n := &node{w: w, name: fmt.Sprintf("n%d", i)}
	n.ctx, n.end = context.WithCancel(context.Background())
	seats, ledger := seatsPort{n}, ledgerPort{w.ledger, n}
	locks := locker{w.leases, n}
	houses := oneHouse{w.house}
	n.booking = booking.New(booking.Options{Seats: seats, Ledger: ledger, Houses: houses, Clock: nodeClock{n}, Grace: grace,
		NewOrderNo: w.newNo, Locker: locks})
	n.payment = payment.New(payment.Options{Booking: n.booking, Ledger: ledger, Providers: []seatflow.PaymentProvider{w.provider}})
	g := guardian.New(guardian.Options{Seats: seats, Booking: n.booking, Interval: guardianEvery, Lease: 2 * time.Second})
	r := reconcile.New(reconcile.Options{Seats: seats, Ledger: ledger, Booking: n.booking, Houses: houses, Locker: locks,
		Clock: nodeClock{n}, Interval: reconcileEvery, Grace: grace})
	y := relay.New(relay.Options{Seats: seats, Bus: busPort{w.bus, n}, Locker: locks, Outbox: ledger, Ensure: n.booking.EnsureView,
		Shows: func(context.Context, seatflow.Partition) ([]relay.Show, error) {
			return []relay.Show{{ShowRef: w.house.Show.Ref(), Hall: w.house.Show.Hall}}, nil
		},
		OutboxPoll: time.Second, Jitter: func(d time.Duration) time.Duration { return d / 2 }})
	w.mu.Lock()
	w.nodes[i] = n
	w.mu.Unlock()
	for j, work := range []struct {
		name string
		run  func(context.Context) error
	}{{"later", n.booking.Run}, {"guardian", g.Run}, {"reconcile", r.Run}, {"relay", y.Run}, {"refunds", n.payment.Run}} {
		// No two of a world begin at the same instant.
		begins := time.Duration(1+i*7+j*31+w.lives*3) * time.Millisecond
		w.wg.Go(func() {
			ctx := as(n.ctx, n.name+"/"+work.name)
			if rest(ctx, begins) {
				_ = work.run(ctx)
			}
		})
	}
}

// kill ends a node's life between two steps.
func (w *world) kill(n *node) {
	w.mu.Lock()
	n.dead, n.diedAt = true, time.Now()
	w.mu.Unlock()
	n.end()
	w.expel(n)
}

// rest waits, and reports whether the context goes on.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
