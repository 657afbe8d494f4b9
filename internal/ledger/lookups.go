package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seatflow"
)

// lookups answers "which order has this key?" for many callers by few
// statements: while one is under way the next gathers. It never waits for
// more, so a lone look-up is one plain statement.
//
// A statement begins after each of its callers asked, so each sees every
// commit that was acknowledged to it before.
type lookups[K comparable] struct {
	read func(ctx context.Context, keys []K) (map[K]seatflow.Order, error)
	// rejects says that the server refused the statement itself, which one
	// strange key may have caused for all.
	rejects func(err error) bool

	mu      sync.Mutex
	queue   []*lookup[K]
	running int
	closed  bool
	stopped sync.WaitGroup
}

type lookup[K comparable] struct {
	key   K
	order seatflow.Order
	err   error
	done  chan struct{}
}

const (
	lookupLanes    = 2      // statements at a time
	lookupMax      = 256    // keys in a statement
	lookupQueueMax = 16_384 // waiting; more are refused
	lookupTimeout  = 5 * time.Second
)

// find waits for the answer to one key; ErrNotFound.
func (s *lookups[K]) find(ctx context.Context, key K) (seatflow.Order, error) {
	if err := ctx.Err(); err != nil {
		return seatflow.Order{}, err
	}
	l := &lookup[K]{key: key, done: make(chan struct{})}
	s.mu.Lock()
	if s.closed || len(s.queue) >= lookupQueueMax {
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return seatflow.Order{}, errors.New("ledger: closed")
		}
		return seatflow.Order{}, fmt.Errorf("%w: too many look-ups wait", seatflow.ErrNotCommitted)
	}
	s.queue = append(s.queue, l)
	if s.running < lookupLanes {
		s.running++
		s.stopped.Go(s.run)
	}
	s.mu.Unlock()
	select {
	case <-l.done:
		return l.order, l.err
	case <-ctx.Done():
		return seatflow.Order{}, ctx.Err()
	}
}

// run answers until nothing waits.
func (s *lookups[K]) run() {
	var batch []*lookup[K]
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.running--
			s.mu.Unlock()
			return
		}
		n := min(len(s.queue), lookupMax)
		batch = append(batch[:0], s.queue[:n]...)
		left := copy(s.queue, s.queue[n:])
		clear(s.queue[left:])
		s.queue = s.queue[:left]
		s.mu.Unlock()
		s.answer(batch)
		clear(batch)
	}
}

func (s *lookups[K]) answer(batch []*lookup[K]) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	keys := make([]K, len(batch))
	for i, l := range batch {
		keys[i] = l.key
	}
	found, err := s.read(ctx, keys)
	if err != nil && len(batch) > 1 && s.rejects(err) {
		for i := range batch {
			s.answer(batch[i : i+1])
		}
		return
	}
	for _, l := range batch {
		order, ok := found[l.key]
		switch {
		case err != nil:
			l.err = err
		case !ok:
			l.err = seatflow.ErrNotFound
		default:
			l.order = order
		}
		close(l.done)
	}
}

// close answers what waits and accepts nothing more.
func (s *lookups[K]) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stopped.Wait()
}
