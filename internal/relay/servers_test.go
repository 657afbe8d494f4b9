package relay

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
	"seatflow/internal/bus"
	"seatflow/internal/lock"
	"seatflow/internal/redisseats"
	"seatflow/internal/testkit"
)

// servers is the relay's world with nothing faked: Redis, JetStream, leases in
// Redis, and two nodes.
type servers struct {
	t     *testing.T
	redis *testkit.Redis
	store *redisseats.Store
	bus   *bus.Bus
	shows []Show
	w     *watcher

	mu          sync.Mutex
	generations map[seatflow.ShowID]seatflow.Generation
	orders      atomic.Int64
}

func newServers(t *testing.T, options bus.Options) *servers {
	t.Helper()
	s := &servers{t: t, redis: testkit.StartRedis(t, testkit.RedisOptions{}), generations: map[seatflow.ShowID]seatflow.Generation{}}
	var err error
	if s.store, err = redisseats.Open(t.Context(), redisseats.Options{URL: s.redis.URL()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.store.Close() })
	if s.bus, err = bus.Open(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.bus.Close() })
	for i := range 8 {
		show := Show{ShowRef: seatflow.ShowRef{ID: seatflow.ShowID(i + 1), Partition: seatflow.Partition(i % 3), Until: time.Now().Add(24 * time.Hour)}, Hall: 7}
		s.shows = append(s.shows, show)
		if err := s.ensure(t.Context(), show.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.w = newWatcher(s.store, s.shows)
	s.w.begin()
	ctx, cancel := context.WithCancel(t.Context())
	done, ready := make(chan error), make(chan struct{})
	go func() {
		done <- s.bus.Subscribe(ctx, seatflow.SeatsSubjects, sync.OnceFunc(func() { close(ready) }), s.w.deliver)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-ready
	return s
}

// ensure rebuilds a view that is missing or suspect, under the next
// generation.
func (s *servers) ensure(ctx context.Context, id seatflow.ShowID) error {
	ref := s.shows[id-1].ShowRef
	_, err := s.store.Snapshot(ctx, ref, seatflow.DetailStates)
	if !errors.Is(err, seatflow.ErrNotReady) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generations[id]++
	return s.store.Rebuild(ctx, freeHouse(ref, s.generations[id]))
}

// node relays with leases in Redis.
func (s *servers) node(leases *testkit.Redis) (relay *Relay, stop func()) {
	s.t.Helper()
	locks, err := lock.OpenRedlock(s.t.Context(), lock.Options{Addrs: []string{leases.Addr()}})
	if err != nil {
		s.t.Fatal(err)
	}
	relay = New(Options{Seats: s.store, Bus: s.bus, Locker: locks, Ensure: s.ensure, Retry: 100 * time.Millisecond,
		Shows: func(_ context.Context, p seatflow.Partition) (found []Show, err error) {
			for _, show := range s.shows {
				if show.Partition == p {
					found = append(found, show)
				}
			}
			return found, nil
		}})
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error)
	go func() { done <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		_ = locks.Close()
	})
	s.t.Cleanup(stop)
	return relay, stop
}

// rush takes and frees seats from eight writers. What a store that is away
// does not do is tried no more.
func (s *servers) rush(each int) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			seed := rand.New(rand.NewPCG(uint64(i), 3))
			for range each {
				show := s.shows[seed.IntN(len(s.shows))].ShowRef
				owner := seatflow.Owner{Order: orderNo(s.orders.Add(1)), Attempt: 1}
				reply, err := s.store.Hold(s.t.Context(), seatflow.HoldRequest{Show: show, Owner: owner, User: "u",
					Seats: []seatflow.SeatID{seatflow.SeatID(1 + seed.IntN(rigSeats))}, For: time.Hour, Cap: time.Hour})
				if err == nil && reply.Outcome == seatflow.OutcomeHeld && seed.IntN(4) > 0 {
					_, _ = s.store.Release(s.t.Context(), show, owner, nil)
				}
			}
		})
	}
	all.Wait()
}

// settled waits until everyone has what the store has, and nothing waits.
func (s *servers) settled(r *Relay) {
	s.t.Helper()
	until(s.t, "convergence", func() error {
		lag, err := r.Lag(s.t.Context())
		if err == nil && !lag.Zero() {
			err = fmt.Errorf("lag %+v", lag)
		}
		return errors.Join(err, s.w.check(s.t.Context()))
	})
}

// Two nodes on Redis and a cluster of NATS: a rush, one node that ends in the
// middle, a server of the cluster that is killed, and a Redis that comes back
// empty.
func TestOnServers(t *testing.T) {
	cluster := testkit.StartNATS(t, testkit.NATSOptions{Nodes: 3})
	s := newServers(t, bus.Options{URL: cluster.URL(), Replicas: 3})
	leases := testkit.StartRedis(t, testkit.RedisOptions{})
	a, stopA := s.node(leases)
	s.rush(10)
	s.settled(a)
	b, _ := s.node(leases)

	s.w.begin()
	s.rush(200)
	s.settled(b)
	if snapshots, repeats := s.w.counts(); snapshots != 0 || repeats != 0 {
		t.Errorf("%d snapshots and %d repeats in a run without faults", snapshots, repeats)
	}

	var rushing sync.WaitGroup
	rushing.Go(func() { s.rush(300) })
	stopA()
	rushing.Wait()
	s.settled(b)

	cluster.Kill(1)
	s.rush(100)
	s.settled(b)
	cluster.Restart(t, 1)

	before := make(map[seatflow.ShowID]seatflow.Generation)
	for id, g := range s.generations {
		before[id] = g
	}
	s.redis.RestartEmpty(t)
	until(t, "the views", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for id, g := range before {
			if s.generations[id] == g {
				return fmt.Errorf("the view of show %d was not rebuilt", id)
			}
		}
		return nil
	})
	s.rush(50)
	s.settled(b)
}

// The only server of the bus goes away and comes back without what it had
// stored: sales go on meanwhile, and everyone converges.
func TestOnServersBusLost(t *testing.T) {
	nats := testkit.StartNATS(t, testkit.NATSOptions{})
	s := newServers(t, bus.Options{URL: nats.URL()})
	leases := testkit.StartRedis(t, testkit.RedisOptions{})
	r, _ := s.node(leases)
	s.rush(50)
	s.settled(r)
	nats.Kill(0)
	before := s.orders.Load()
	s.rush(50)
	if n := s.orders.Load() - before; n != 8*50 {
		t.Errorf("%d of %d attempts without a bus", n, 8*50)
	}
	nats.WipeStore(t, 0)
	nats.Restart(t, 0)
	s.settled(r)
	s.rush(50)
	s.settled(r)
}
