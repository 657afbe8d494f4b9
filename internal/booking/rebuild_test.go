package booking_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/testkit"
)

// oneLease is a locker that several nodes share.
type oneLease struct {
	free  chan struct{} // holds one token while nobody has the lease
	taken int
	down  error
}

func newOneLease() *oneLease {
	l := &oneLease{free: make(chan struct{}, 1)}
	l.free <- struct{}{}
	return l
}

// TryLock implements seatflow.Locker.
func (l *oneLease) TryLock(context.Context, string, time.Duration) (context.Context, seatflow.Lock, error) {
	return nil, nil, seatflow.ErrLocked
}

// Lock implements seatflow.Locker.
func (l *oneLease) Lock(ctx context.Context, _ string, _ time.Duration) (context.Context, seatflow.Lock, error) {
	if l.down != nil {
		return nil, nil, l.down
	}
	select {
	case <-l.free:
		l.taken++
		return ctx, l, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// Release implements seatflow.Lock.
func (l *oneLease) Release(context.Context) error {
	l.free <- struct{}{}
	return nil
}

// A view found missing by many nodes at once is rebuilt by one; the others
// wait for it and sell.
func TestOneNodeRebuildsForAll(t *testing.T) {
	const nodes = 10
	r := newRig(t, 40)
	r.mustCreate("ann", "", 40)
	leases := newOneLease()
	services := make([]*booking.Service, nodes)
	for i := range services {
		services[i] = booking.New(booking.Options{Seats: r.seats, Ledger: r.ledger, Clock: r.clock, Locker: leases,
			Houses: &houses{m: map[seatflow.ShowID]*seatflow.House{r.show: r.house}}})
	}
	before, err := r.facts.Show(t.Context(), r.show)
	if err != nil {
		t.Fatal(err)
	}
	r.store.DropView(r.house.Show.Ref())
	at(nodes, func(i int) {
		if _, err := services[i].Create(t.Context(), r.request(fmt.Sprint("bob", i), "", seatflow.SeatID(i+1))); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	})
	after, err := r.facts.Show(t.Context(), r.show)
	if err != nil || after.Generation != before.Generation+1 {
		t.Errorf("generation %d after %d: %v", after.Generation, before.Generation, err)
	}
	r.agree()
	if len(leases.free) != 1 || leases.taken == 0 {
		t.Errorf("%d leases were taken; given back: %v", leases.taken, len(leases.free) == 1)
	}
}

// A lease that cannot be had keeps nobody from selling.
func TestRebuildWithoutALease(t *testing.T) {
	r := newRig(t, 10)
	r.mustCreate("ann", "", 1)
	leases := newOneLease()
	leases.down = errors.New("no majority")
	svc := booking.New(booking.Options{Seats: r.seats, Ledger: r.ledger, Clock: r.clock, Locker: leases,
		Houses: &houses{m: map[seatflow.ShowID]*seatflow.House{r.show: r.house}}})
	r.store.DropView(r.house.Show.Ref())
	if _, err := svc.Create(t.Context(), r.request("bob", "", 2)); err != nil {
		t.Error(err)
	}
	r.agree()
	// What fails while it has the lease gives it back.
	leases.down = nil
	r.store.DropView(r.house.Show.Ref())
	r.seats.On("Rebuild", testkit.FailBefore(seatflow.ErrUnknownOutcome), testkit.Times(1))
	if err := svc.EnsureView(t.Context(), r.show); !errors.Is(err, seatflow.ErrUnknownOutcome) {
		t.Error(err)
	}
	if err := svc.EnsureView(t.Context(), r.show); err != nil || len(leases.free) != 1 {
		t.Errorf("%v; given back: %v", err, len(leases.free) == 1)
	}
	r.agree()
}
