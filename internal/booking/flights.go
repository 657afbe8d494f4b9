package booking

import (
	"context"
	"hash/maphash"
	"sync"

	"seatflow"
)

// flights lets requests with one key wait for the first of them on this node.
// Across nodes, the view's reply "yours" and the ledger's unique key do.
type flights struct {
	seed   maphash.Seed
	shards [64]flightShard
}

type flightShard struct {
	mu sync.Mutex
	m  map[flightKey]*flight
}

type flightKey struct {
	user seatflow.UserID
	key  string
}

type flight struct {
	done  chan struct{}
	order *seatflow.Order // what the first got; nil when it was refused
}

func (f *flights) init() {
	f.seed = maphash.MakeSeed()
	for i := range f.shards {
		f.shards[i].m = make(map[flightKey]*flight)
	}
}

// enter makes the caller the first of its key and returns the flight that it
// must leave, or waits for the one under way and returns what that got; a
// refused first lets the next one try. It fails when the context ends first.
func (f *flights) enter(ctx context.Context, k flightKey) (*flight, *seatflow.Order, error) {
	sh := &f.shards[maphash.Comparable(f.seed, k)%uint64(len(f.shards))]
	for {
		sh.mu.Lock()
		first, busy := sh.m[k]
		if !busy {
			mine := &flight{done: make(chan struct{})}
			sh.m[k] = mine
			sh.mu.Unlock()
			return mine, nil, nil
		}
		sh.mu.Unlock()
		select {
		case <-first.done:
			if first.order != nil {
				return nil, first.order, nil
			}
		case <-ctx.Done():
			return nil, nil, &seatflow.Error{Code: seatflow.CodeInFlight, Err: ctx.Err()}
		}
	}
}

// leave ends a flight; order is what the first got, or nil.
func (f *flights) leave(k flightKey, mine *flight, order *seatflow.Order) {
	sh := &f.shards[maphash.Comparable(f.seed, k)%uint64(len(f.shards))]
	sh.mu.Lock()
	delete(sh.m, k)
	sh.mu.Unlock()
	mine.order = order
	close(mine.done)
}
