package lock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"seatflow"
)

// Local gives leases within one process. A lease is never lost: it ends when
// it is released, when the locker is closed or, forgotten by a holder whose
// context ended, a lease's length after that. Who waits is served in the order
// of coming.
type Local struct {
	least time.Duration

	mu     sync.Mutex
	closed bool
	names  map[string]*line // of names that are held
	counts counts
}

var _ seatflow.Locker = (*Local)(nil)

// line is the holder of a name and those who wait for it.
type line struct {
	holder  *localLock
	waiting []chan *localLock // closed without a lock when the locker is closed
}

// NewLocal returns a Local.
func NewLocal() *Local { return &Local{least: MinLease, names: make(map[string]*line)} }

// Stats returns the counts.
func (l *Local) Stats() Stats { return l.counts.stats() }

// TryLock implements seatflow.Locker.
func (l *Local) TryLock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	if err := l.admit(ctx, name, lease); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, nil, ErrClosed
	case l.names[name] != nil:
		l.counts.locked.Add(1)
		return nil, nil, locked(name)
	}
	k := l.take(name, &line{})
	return k.begin(ctx, lease), k, nil
}

// Lock implements seatflow.Locker.
func (l *Local) Lock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	if err := l.admit(ctx, name, lease); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, nil, ErrClosed
	}
	q := l.names[name]
	if q == nil {
		k := l.take(name, &line{})
		ctx = k.begin(ctx, lease)
		l.mu.Unlock()
		return ctx, k, nil
	}
	turn := make(chan *localLock, 1)
	q.waiting = append(q.waiting, turn)
	l.mu.Unlock()

	select {
	case k := <-turn:
		return l.begin(ctx, k, lease)
	case <-ctx.Done():
	}
	l.mu.Lock()
	if i := slices.Index(q.waiting, turn); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		l.mu.Unlock()
		return nil, nil, waited(ctx, name, nil)
	}
	l.mu.Unlock()
	if k := <-turn; k != nil { // its turn came just now: the next one's
		k.end(ErrReleased)
	}
	return nil, nil, waited(ctx, name, nil)
}

// Close ends every lease and every wait. Nothing is given afterwards.
func (l *Local) Close() error {
	l.mu.Lock()
	l.closed = true
	var held []*localLock
	for _, q := range l.names {
		held = append(held, q.holder)
		for _, turn := range q.waiting {
			close(turn)
		}
		q.waiting = nil
	}
	l.mu.Unlock()
	for _, k := range held {
		k.end(ErrClosed)
	}
	return nil
}

func (l *Local) admit(ctx context.Context, name string, lease time.Duration) error {
	if err := check(name, lease, l.least); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("lock: %q: %w", name, context.Cause(ctx))
	}
	return nil
}

// take makes a holder of a name; the lock is held.
func (l *Local) take(name string, q *line) *localLock {
	k := &localLock{local: l, name: name}
	q.holder = k
	l.names[name] = q
	l.counts.taken.Add(1)
	l.counts.held.Add(1)
	return k
}

// begin starts a lease whose turn has come.
func (l *Local) begin(ctx context.Context, k *localLock, lease time.Duration) (context.Context, seatflow.Lock, error) {
	if k == nil {
		return nil, nil, ErrClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.ended {
		return nil, nil, ErrClosed // meanwhile; nothing else ends what nobody has yet
	}
	return k.begin(ctx, lease), k, nil
}

// localLock is a lease of a Local, guarded by its mutex.
type localLock struct {
	local  *Local
	name   string
	ended  bool
	cancel context.CancelCauseFunc // nil until it began
	stop   func() bool             // stops waiting for the end of the holder's context
	timer  *time.Timer             // runs once that has ended
}

func (k *localLock) begin(parent context.Context, lease time.Duration) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	k.cancel = cancel
	k.stop = context.AfterFunc(parent, func() {
		k.local.mu.Lock()
		defer k.local.mu.Unlock()
		if !k.ended {
			k.timer = time.AfterFunc(lease, func() { k.end(ErrLost) })
		}
	})
	return ctx
}

// Release implements seatflow.Lock.
func (k *localLock) Release(context.Context) error {
	k.end(ErrReleased)
	return nil
}

// end gives the name to the next in line.
func (k *localLock) end(cause error) {
	l := k.local
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.ended {
		return
	}
	k.ended = true
	if cause == ErrLost {
		l.counts.lost.Add(1)
	} else {
		l.counts.released.Add(1)
	}
	l.counts.held.Add(-1)
	if k.cancel != nil {
		k.cancel(cause)
		k.stop()
	}
	if k.timer != nil {
		k.timer.Stop()
	}
	q := l.names[k.name]
	if len(q.waiting) == 0 {
		delete(l.names, k.name)
		return
	}
	turn := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	turn <- l.take(k.name, q) // has room for it
}
