package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// held is a lease of a Redlock. Its keeper renews it; its watch ends it by
// time, whatever the keeper is waiting for.
type held struct {
	locker *Redlock
	name   string
	lease  time.Duration
	mutex  *redsync.Mutex
	votes  []*vote
	inner  context.Context // cancelled when the lease ends
	ctx    *holderContext  // the same, as the holder sees it
	cancel context.CancelCauseFunc
	kept   chan struct{} // closed when the keeper has ended

	mu    sync.Mutex
	since time.Time   // when the grant that counts was asked for
	watch *time.Timer // looks at the time
	over  bool        // ended, for whatever reason

	freeing sync.Mutex
	freed   bool
}

// keep starts to keep a lease that was granted.
func (r *Redlock) keep(parent context.Context, name string, lease time.Duration, mutex *redsync.Mutex, votes []*vote, start time.Time) (*held, error) {
	h := &held{locker: r, name: name, lease: lease, mutex: mutex, votes: votes, since: start, kept: make(chan struct{})}
	h.inner, h.cancel = context.WithCancelCause(parent)
	h.ctx = &holderContext{h.inner, h}
	for _, v := range votes {
		v.skip = false // renewals ask everybody
	}
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.held[h] = struct{}{}
	}
	r.counts.taken.Add(1)
	r.counts.held.Add(1)
	r.mu.Unlock()
	if closed {
		close(h.kept)
		return nil, errors.Join(ErrClosed, h.free(ErrClosed))
	}
	h.mu.Lock()
	h.watch = time.AfterFunc(h.glance(start), h.look)
	h.mu.Unlock()
	go h.renew()
	return h, nil
}

// holderContext is a lease's context. Whoever asks it whether the lease is
// still held gets an answer by the clock, even in the instant after a pause,
// before any timer has run.
type holderContext struct {
	context.Context
	h *held
}

// Err implements context.Context.
func (c *holderContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.h.lapse()
	return c.Context.Err()
}

// left returns how much of the lease is left at now. Both clocks count: the
// monotonic one stands still while the machine sleeps, and the wall clock may
// be set back.
func (h *held) left(now time.Time) time.Duration {
	valid := h.lease - drift(h.lease)
	return min(valid-now.Sub(h.since), valid-now.Round(0).Sub(h.since.Round(0)))
}

// lapse ends the lease if its time is over, and reports whether it has ended.
func (h *held) lapse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over && h.left(time.Now()) <= 0 {
		h.end(ErrLost)
	}
	return h.over
}

// end cancels the holder's context and reports whether it had not ended
// before; the mutex is held.
func (h *held) end(cause error) bool {
	if h.over {
		return false
	}
	h.over = true
	if h.watch != nil {
		h.watch.Stop()
	}
	r := h.locker
	// A holder whose context had ended before did not lose what it wanted.
	if errors.Is(cause, ErrLost) && h.inner.Err() == nil {
		r.counts.lost.Add(1)
		r.log.Warn("a lease was lost", "name", h.name, "err", cause)
	}
	h.cancel(cause)
	r.counts.held.Add(-1)
	r.mu.Lock()
	delete(r.held, h)
	r.mu.Unlock()
	return true
}

// look is the watch: it ends the lease in time, and looks now and then before
// that, for what a timer does not see.
func (h *held) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	switch {
	case h.over:
	case h.left(now) <= 0:
		h.end(ErrLost)
	default:
		h.watch.Reset(h.glance(now))
	}
}

func (h *held) glance(now time.Time) time.Duration { return min(h.left(now), h.lease/10) }

// renew keeps the lease while its context lives. What a holder forgets to give
// back after that ends by itself.
func (h *held) renew() {
	defer close(h.kept)
	h.mu.Lock()
	first := h.lease/3 - time.Since(h.since)
	h.mu.Unlock()
	timer := time.NewTimer(first)
	defer timer.Stop()
	retry := patience(h.lease) / 2
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-timer.C:
		}
		if h.lapse() {
			return
		}
		start := time.Now()
		if h.extend(start) {
			timer.Reset(h.lease/3 - time.Since(start))
		} else {
			timer.Reset(retry)
		}
	}
}

// extend asks every server to extend the lease if the token there is still
// this holder's. It counts if a majority did, and in time: an answer that
// comes when the lease is over may be true of a lease that another had in
// between.
func (h *held) extend(start time.Time) bool {
	r := h.locker
	ctx, cancel := context.WithTimeout(h.ctx, patience(h.lease))
	defer cancel()
	ok, err := h.mutex.ExtendContext(ctx)
	_, foreign := errors.AsType[*redsync.ErrTaken](err)
	switch {
	case !h.settle(start, ok, foreign):
		return false
	case ok:
		r.counts.renewed.Add(1)
		h.rejoin()
		return true
	case h.inner.Err() == nil:
		r.counts.renewalsFailed.Add(1)
		r.log.Warn("a lease could not be renewed; trying again", "name", h.name, "err", err)
	}
	return false
}

// settle takes the servers' answers and reports whether the lease goes on.
func (h *held) settle(start time.Time, ok, foreign bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over:
	case h.left(time.Now()) <= 0:
		h.end(ErrLost)
	case foreign:
		h.end(fmt.Errorf("%w: a majority of the servers does not know it any more", ErrLost))
	case ok:
		h.since = start
	}
	return !h.over
}

// rejoin tells servers of the lease that have forgotten it or were away when
// it was given. It is safe while a majority still has it: nobody else can.
func (h *held) rejoin() {
	// Not cut short by a release, which waits for it: a key that came after
	// would stand for its whole lease.
	ctx, cancel := context.WithTimeout(context.Background(), patience(h.lease))
	defer cancel()
	var wg sync.WaitGroup
	for _, v := range h.votes {
		if v.evalErr == nil && v.status == 0 {
			wg.Go(func() {
				if ok, _ := (&ballot{vote: v, ctx: ctx}).SetNX(h.mutex.Name(), h.mutex.Value(), h.lease); ok {
					h.locker.counts.rejoined.Add(1)
				}
			})
		}
	}
	wg.Wait()
}

// Release implements seatflow.Lock. Neither an ended ctx nor one that ends
// keeps it from asking the servers, as a holder often gives a lease back
// because its context ended; it is bounded by itself, to about a second.
func (h *held) Release(context.Context) error { return h.free(ErrReleased) }

// free ends the lease and deletes its token where it still stands.
func (h *held) free(cause error) error {
	h.freeing.Lock()
	defer h.freeing.Unlock()
	if h.freed {
		return nil
	}
	h.mu.Lock()
	ours := h.end(cause)
	h.mu.Unlock()
	<-h.kept
	abstain(h.votes, h.locker.quorum)
	ctx, cancel := context.WithTimeout(context.Background(), patience(h.lease))
	defer cancel()
	_, err := h.mutex.UnlockContext(ctx) // what it makes of the answers is not what is asked here
	answered := 0
	for _, v := range h.votes {
		if v.evalErr == nil {
			answered++
		}
	}
	if answered < h.locker.quorum {
		h.locker.counts.releasesFailed.Add(1)
		return fmt.Errorf("lock: release of %q: %w: %w", h.name, ErrUnavailable, err)
	}
	h.freed = true
	if ours {
		h.locker.counts.released.Add(1)
	}
	return nil
}
