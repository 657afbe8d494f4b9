package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
	"seatflow/internal/memseats"
)

const rigSeats = 40

// rig is a seat store with shows, a bus, locks, and nodes that relay. It runs
// in a bubble, whose clock moves when everyone waits.
type rig struct {
	t       *testing.T
	seats   *failover
	bus     *fakeBus
	locks   *fakeLocks
	shows   []Show
	watcher *watcher
	orders  atomic.Int64

	mu          sync.Mutex
	generations map[seatflow.ShowID]seatflow.Generation // the fact
	journal     []string                                // what was done, in order, where a test asks for it
	noted       bool
}

// bubble runs a test over so many shows, spread over three partitions, with a
// watcher of all of them.
func bubble(t *testing.T, shows int, kept int, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, seats: &failover{}, bus: newFakeBus(), locks: newFakeLocks(), generations: map[seatflow.ShowID]seatflow.Generation{}}
		r.seats.to(memseats.New(memseats.Options{ChangesKept: kept}))
		defer func() { r.seats.now.Load().Close() }()
		for i := range shows {
			s := Show{ShowRef: seatflow.ShowRef{ID: seatflow.ShowID(i + 1), Partition: seatflow.Partition(5 + i%3), Until: time.Now().Add(24 * time.Hour)}, Hall: 7}
			r.shows = append(r.shows, s)
			r.rebuild(t, s.ID)
		}
		r.watcher = newWatcher(r.seats, r.shows)
		r.watcher.begin()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.bus.Subscribe(ctx, seatflow.SeatsSubjects, nil, r.watcher.deliver) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		test(t, r)
	})
}

// rebuild installs a free house under the next generation.
func (r *rig) rebuild(t testing.TB, id seatflow.ShowID) {
	t.Helper()
	r.mu.Lock()
	r.generations[id]++
	generation := r.generations[id]
	r.mu.Unlock()
	if err := r.seats.Rebuild(context.Background(), freeHouse(r.shows[id-1].ShowRef, generation)); err != nil {
		t.Error(err)
	}
}

func freeHouse(ref seatflow.ShowRef, generation seatflow.Generation) seatflow.View {
	base := make([]seatflow.SeatState, rigSeats)
	for i := range base {
		base[i] = seatflow.Available
	}
	return seatflow.View{Show: ref, Generation: generation, Base: base}
}

func (r *rig) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noted {
		r.journal = append(r.journal, what)
	}
}

// node is one process's relay.
type node struct {
	*Relay
	locker *fakeLocker
	stop   func() // it ends in good order
	kill   func() // it ends as by kill -9: its leases run out a lease later
}

func (r *rig) start(change ...func(*Options)) *node {
	n := &node{locker: &fakeLocker{locks: r.locks}}
	o := Options{
		Seats: r.seats, Bus: r.bus, Locker: n.locker,
		Shows: func(_ context.Context, p seatflow.Partition) ([]Show, error) {
			var found []Show
			for _, s := range r.shows {
				if s.Partition == p {
					found = append(found, s)
				}
			}
			return found, nil
		},
		Hall: func(context.Context, seatflow.ShowID) seatflow.HallID { return 7 },
	}
	for _, c := range change {
		c(&o)
	}
	n.Relay = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("run: %v", err)
		}
	})
	n.kill = func() {
		n.locker.dead.Store(true)
		n.stop()
		time.AfterFunc(DefaultLease, func() { r.locks.lapse(n.locker, true) })
	}
	r.t.Cleanup(n.stop)
	synctest.Wait()
	return n
}

// sell takes a free seat somewhere, or gives one back: one change.
func (r *rig) sell(seed *rand.Rand) {
	show := r.shows[seed.IntN(len(r.shows))]
	seat := seatflow.SeatID(1 + seed.IntN(rigSeats))
	owner := seatflow.Owner{Order: seatflow.OrderNo(fmt.Sprintf("%026d", r.orders.Add(1))), Attempt: 1}
	reply, err := r.seats.Hold(context.Background(), seatflow.HoldRequest{
		Show: show.ShowRef, Owner: owner, User: "u", Seats: []seatflow.SeatID{seat}, For: time.Hour, Cap: time.Hour})
	if err != nil {
		r.t.Errorf("hold: %v", err)
	}
	if reply.Outcome == seatflow.OutcomeHeld && seed.IntN(2) == 0 {
		if _, err := r.seats.Release(context.Background(), show.ShowRef, owner, nil); err != nil {
			r.t.Errorf("release: %v", err)
		}
	}
}

// rush sells from eight writers for a while.
func (r *rig) rush(each int, gap time.Duration) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			seed := rand.New(rand.NewPCG(uint64(i), 1))
			for range each {
				r.sell(seed)
				time.Sleep(time.Duration(seed.Int64N(int64(2 * gap))))
			}
		})
	}
	all.Wait()
}

// settled lets everything come to rest and wants everyone to have converged
// and nothing to wait.
func (r *rig) settled(n *node) {
	r.t.Helper()
	time.Sleep(30 * time.Second)
	synctest.Wait()
	if err := r.watcher.check(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if lag, err := n.Lag(r.t.Context()); err != nil || !lag.Zero() {
		r.t.Errorf("lag %+v, %v", lag, err)
	}
}

// seatMessages returns what is stored about seats.
func (r *rig) seatMessages() []seatflow.Message { return r.bus.all(seatflow.SeatsSubjects) }

// eventsOf parses messages of a type.
func eventsOf(t testing.TB, messages []seatflow.Message, kind seatflow.SeatsEventType) (found []seatflow.SeatsEvent) {
	t.Helper()
	for _, m := range messages {
		e, err := seatflow.ParseSeatsEvent(m.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == kind {
			found = append(found, e)
		}
	}
	return found
}
