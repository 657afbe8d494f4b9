package memseats

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seatflow"
)

// keepAfter is how long a view is kept after its lifetime.
const keepAfter = time.Hour

// DefaultChangesKept is how many changes of a partition are kept unless the
// options say otherwise: at 2,000 changes a second a reader may fall half a
// minute behind.
const DefaultChangesKept = 65_536

// Options set up a Store.
type Options struct {
	Clock       seatflow.Clock // nil: the wall clock
	ChangesKept int            // changes kept a partition; 0: DefaultChangesKept
}

// Store is seat state in memory. It implements [seatflow.SeatStore].
type Store struct {
	clock      seatflow.Clock
	identity   string
	closed     chan struct{}
	closeOnce  sync.Once
	partitions [seatflow.Partitions]partition
}

var _ seatflow.SeatStore = (*Store)(nil)

// errClosed: the store was closed.
var errClosed = errors.New("memseats: store is closed")

// errInvalid: a request that breaks the contract. It would fail again.
var errInvalid = errors.New("memseats: invalid request")

var errNoOwner = fmt.Errorf("%w: no owner", errInvalid)

// New returns an empty store with an identity of its own.
func New(options Options) *Store {
	s := &Store{clock: options.Clock, identity: rand.Text(), closed: make(chan struct{})}
	if s.clock == nil {
		s.clock = seatflow.WallClock{}
	}
	kept := options.ChangesKept
	if kept < 1 {
		kept = DefaultChangesKept
	}
	for i := range s.partitions {
		p := &s.partitions[i]
		p.log.kept = kept
		p.shows.Store(&map[seatflow.ShowID]*show{})
		p.sweepAt.Store(noTime)
	}
	return s
}

// Close wakes everyone who waits for changes. Operations that begin
// afterwards are not executed. It may be called twice.
func (s *Store) Close() { s.closeOnce.Do(func() { close(s.closed) }) }

// Identity implements [seatflow.SeatStore].
func (s *Store) Identity(ctx context.Context) (string, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	return s.identity, nil
}

// partition is a shard of shows with their common log and deadlines. Locks
// are taken in the order: shows, one show, then log or deadlines.
type partition struct {
	log       changeLog
	deadlines deadlines

	mu      sync.Mutex // of writers of shows
	shows   atomic.Pointer[map[seatflow.ShowID]*show]
	sweepAt atomic.Int64 // no view has outlived its time before this
}

// show is the place of one show's view. Readers use root and until only.
type show struct {
	id    seatflow.ShowID
	at    *partition
	until atomic.Int64
	root  atomic.Pointer[root] // nil: no view
	rate  rateWindow

	mu   sync.Mutex
	gone bool // taken out of the partition; whoever waited for the lock looks again

	// What only writers ask for, under the lock.
	owners map[seatflow.Owner]*record
	users  map[seatflow.UserID]int32
}

// enter refuses what must not begin.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", seatflow.ErrNotExecuted, err)
	}
	select {
	case <-s.closed:
		return fmt.Errorf("%w: %w", seatflow.ErrNotExecuted, errClosed)
	default:
		return nil
	}
}

// now reads the clock in milliseconds.
func (s *Store) now() int64 { return s.clock.Now().UnixMilli() }

func (s *Store) partition(n seatflow.Partition) (*partition, error) {
	if int(n) >= len(s.partitions) {
		return nil, fmt.Errorf("%w: no partition %d", errInvalid, n)
	}
	return &s.partitions[n], nil
}

// where tells what an operation meets.
type where struct {
	show  *show // nil: no view
	now   int64
	ended bool // the view's lifetime is over
}

// look finds a show's place. A later end than the one known moves the view's
// lifetime.
func (s *Store) look(ctx context.Context, ref seatflow.ShowRef) (where, error) {
	if err := s.enter(ctx); err != nil {
		return where{}, err
	}
	p, err := s.partition(ref.Partition)
	if err != nil {
		return where{}, err
	}
	w := where{now: s.now()}
	until := ref.Until.UnixMilli()
	if w.now >= until {
		w.ended = true
		return w, nil
	}
	sh := (*p.shows.Load())[ref.ID]
	if sh == nil {
		return w, nil
	}
	for known := sh.until.Load(); known < until; known = sh.until.Load() {
		if outlived(known, w.now) {
			return w, nil
		}
		if sh.until.CompareAndSwap(known, until) {
			break
		}
	}
	w.show = sh
	return w, nil
}

func outlived(until, now int64) bool { return now >= until+keepAfter.Milliseconds() }

// lock takes the lock of a show whose view is there and fits. On an error the
// lock is not held.
func (w where) lock() (*root, error) {
	if w.show == nil {
		return nil, seatflow.ErrNotReady
	}
	w.show.mu.Lock()
	r := w.show.root.Load()
	if r == nil || !r.fits() {
		w.show.mu.Unlock()
		return nil, seatflow.ErrNotReady
	}
	return r, nil
}

// place returns the locked place of a show, making it if need be.
func (p *partition) place(ref seatflow.ShowRef) *show {
	for {
		sh := (*p.shows.Load())[ref.ID]
		if sh == nil {
			p.mu.Lock()
			old := *p.shows.Load()
			if sh = old[ref.ID]; sh == nil {
				sh = &show{id: ref.ID, at: p}
				next := maps.Clone(old)
				next[ref.ID] = sh
				p.shows.Store(&next)
			}
			p.mu.Unlock()
		}
		sh.mu.Lock()
		if !sh.gone {
			return sh
		}
		sh.mu.Unlock()
	}
}

// sweep drops the views that have outlived their time. It looks at them only
// when the next one may have.
func (p *partition) sweep(now int64) {
	if at := p.sweepAt.Load(); at != noTime && now < at {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	shows := *p.shows.Load()
	var dead []*show
	next := now + keepAfter.Milliseconds()
	for _, sh := range shows {
		if until := sh.until.Load(); outlived(until, now) {
			dead = append(dead, sh)
		} else {
			next = min(next, until+keepAfter.Milliseconds())
		}
	}
	p.sweepAt.Store(next)
	if len(dead) == 0 {
		return
	}
	slices.SortFunc(dead, func(a, b *show) int { return cmp.Compare(a.id, b.id) })
	left := maps.Clone(shows)
	for _, sh := range dead {
		sh.mu.Lock()
		if outlived(sh.until.Load(), now) {
			sh.gone = true
			sh.clear()
			delete(left, sh.id)
		}
		sh.mu.Unlock()
	}
	p.shows.Store(&left)
}

// clear forgets the view and its wake-ups. The lock is held.
func (sh *show) clear() {
	sh.at.deadlines.exchange(sh.root.Swap(nil), nil)
	sh.owners, sh.users = nil, nil
}
