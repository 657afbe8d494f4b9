package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"seatflow"
)

// Where an op stands. A caller whose context ends may withdraw an op that
// still waits; the committer may claim it. Exactly one of them succeeds.
const (
	opWaiting int32 = iota
	opClaimed
	opWithdrawn
)

// op is one change that waits for the committer.
type op struct {
	// Exactly one of these is set. do must check everything before it writes
	// anything: what it returns as an error of its own must have written
	// nothing.
	insert *seatflow.NewOrder
	do     func(t *tx) error

	bytes    int
	deadline time.Time // of its caller; zero: none
	probe    bool      // it is to find out whether the ledger works again
	state    atomic.Int32
	done     chan error
}

// domainError marks a do's own answer, as against a failure of the database:
// it concerns this op alone and the batch goes on.
type domainError struct{ error }

func (e domainError) Unwrap() error { return e.error }

// opPool keeps ops for their next use. Each ledger has its own: an op's channel
// belongs to the synctest bubble that it was made in.
type opPool struct{ pool sync.Pool }

func (p *opPool) get() *op {
	if o, ok := p.pool.Get().(*op); ok {
		return o
	}
	return &op{done: make(chan error, 1)}
}

func (p *opPool) put(o *op) { p.pool.Put(o) }

// committer takes everything that queued while the previous commit ran and
// commits it as one transaction. One that has several writers does so on each
// of them by turns.
type committer struct {
	l        *Ledger
	batchMax int
	commit   func(w *writer, batch []*op)
	singles  *committer // runs by itself what spoilt a batch; nil: this one does

	mu      sync.Mutex
	queue   []*op
	closing bool
	wake    chan struct{} // holds one token while the queue may be non-empty
	stopped sync.WaitGroup

	down *atomic.Pointer[downState] // one for all committers of a ledger

	batches   atomic.Int64
	committed atomic.Int64
	nanos     atomic.Int64
	queued    atomic.Int64
}

// downState says why the ledger is known not to commit, and when somebody may
// try it again.
type downState struct {
	err   error
	retry atomic.Int64 // UnixNano
}

const probeEvery = 250 * time.Millisecond

func newCommitter(l *Ledger, batchMax int, down *atomic.Pointer[downState]) *committer {
	c := &committer{l: l, batchMax: batchMax, wake: make(chan struct{}, 1), down: down}
	c.commit = c.together
	return c
}

// start lets a committer run on its writers.
func (c *committer) start(writers ...*writer) *committer {
	gather := len(writers) == 1 && c.l.dialect.shared()
	for _, w := range writers {
		c.stopped.Go(func() { c.run(w, len(writers), gather) })
	}
	return c
}

// mayTry reports whether an op may be queued: always while the ledger is up,
// and once every probeEvery while it is down.
func (c *committer) mayTry() error {
	d := c.down.Load()
	if d == nil {
		return nil
	}
	now := time.Now().UnixNano()
	if at := d.retry.Load(); now >= at && d.retry.CompareAndSwap(at, now+int64(probeEvery)) {
		return nil
	}
	return fmt.Errorf("%w: the ledger is down: %w", seatflow.ErrNotCommitted, d.err)
}

// submit queues an op and waits for its outcome. When the context ends while
// the op waits, it is withdrawn; once it is claimed the caller waits for the
// commit, unless its deadline passes: then the outcome is unknown to it.
// reusable reports whether nobody else refers to the op any more.
func (c *committer) submit(ctx context.Context, o *op) (err error, reusable bool) {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", seatflow.ErrNotCommitted, err), true
	}
	if !o.probe {
		if err := c.mayTry(); err != nil {
			return err, true
		}
	}
	o.deadline, _ = ctx.Deadline()
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return fmt.Errorf("%w: the ledger is closed", seatflow.ErrNotCommitted), true
	}
	if len(c.queue) >= c.l.opts.QueueMax {
		c.mu.Unlock()
		return fmt.Errorf("%w: the queue is full", seatflow.ErrNotCommitted), true
	}
	c.queue = append(c.queue, o)
	c.mu.Unlock()
	c.queued.Add(1)
	c.rouse()

	if ctx.Done() == nil {
		return <-o.done, true
	}
	select {
	case err := <-o.done:
		return err, true
	case <-ctx.Done():
	}
	if o.state.CompareAndSwap(opWaiting, opWithdrawn) {
		return fmt.Errorf("%w: %w", seatflow.ErrNotCommitted, ctx.Err()), false
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return <-o.done, true // about to commit: the answer is near and certain
	}
	select {
	case err := <-o.done:
		return err, true
	default:
		return fmt.Errorf("%w: %w", seatflow.ErrUnknownCommit, ctx.Err()), false
	}
}

// again queues ops that were claimed once more, in a committer that runs them
// one by one. Their callers may withdraw them as if they had never been taken.
func (c *committer) again(ops []*op) {
	for _, o := range ops {
		o.state.Store(opWaiting)
	}
	c.queued.Add(int64(len(ops)))
	c.mu.Lock()
	c.queue = append(c.queue, ops...)
	c.mu.Unlock()
	c.rouse()
}

func (c *committer) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close stops accepting, commits what was accepted and waits for that.
func (c *committer) close() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.rouse()
	c.stopped.Wait()
}

func (c *committer) run(w *writer, lanes int, gather bool) {
	var taken, batch []*op
	for {
		if gather {
			// Those who were just answered may have more to say; a transaction
			// over the network costs much the same with or without them.
			runtime.Gosched()
		}
		c.mu.Lock()
		if lanes == 1 {
			taken, c.queue = c.queue, taken[:0]
		} else {
			// A share, so that the others need not wait for all of it.
			n := (len(c.queue) + lanes - 1) / lanes
			taken = append(taken[:0], c.queue[:n]...)
			left := copy(c.queue, c.queue[n:])
			clear(c.queue[left:])
			c.queue = c.queue[:left]
			if left > 0 {
				c.rouse()
			}
		}
		closing := c.closing
		c.mu.Unlock()
		if len(taken) == 0 {
			if closing {
				c.rouse() // the next one may end too
				return
			}
			<-c.wake
			continue
		}
		c.queued.Add(-int64(len(taken)))
		for rest := taken; len(rest) > 0; {
			var n int
			batch, n = c.claim(batch[:0], rest)
			rest = rest[n:]
			if len(batch) > 0 {
				c.commit(w, batch)
			}
		}
		clear(taken)
		clear(batch[:cap(batch)])
	}
}

// claim takes ops from the front of the queue up to a batch's bounds, leaving
// out those that were withdrawn, and says how many it has dealt with.
func (c *committer) claim(batch, queue []*op) ([]*op, int) {
	bytes := 0
	for i, o := range queue {
		if len(batch) > 0 && (len(batch) >= c.batchMax || bytes+o.bytes > c.l.opts.BatchBytes) {
			return batch, i
		}
		if o.state.CompareAndSwap(opWaiting, opClaimed) {
			batch = append(batch, o)
			bytes += o.bytes
		}
	}
	return batch, len(queue)
}

// together carries a batch through to an answer for each of its ops.
func (c *committer) together(w *writer, batch []*op) {
	start := time.Now()
	errs := make([]error, len(batch))
	err := c.l.write(w, batch, errs, false)
	look := errors.Is(err, errDuplicate)
	if look {
		// Some row met a key. Look before each insert, so that it fails alone.
		clear(errs)
		err = c.l.write(w, batch, errs, true)
	}
	if c.singles != nil && c.mayPass(err) {
		clear(errs)
		err = c.l.write(w, batch, errs, look)
	}
	switch {
	case err == nil || errors.Is(err, seatflow.ErrUnknownCommit):
		c.note(err)
	case c.singles != nil && !errors.Is(err, errNoTransaction):
		// Each on its own, and out of the way of those that come.
		c.note(err)
		c.finish(w, start, nil, nil)
		c.singles.again(batch)
		return
	case c.singles == nil && len(batch) > 1:
		// One op may have spoilt it for all: each on its own. If the database
		// is down, the first will say so for the rest.
		clear(errs)
		c.alone(w, batch, errs)
		err = nil
	default:
		c.note(err)
	}
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	c.finish(w, start, batch, errs)
}

// finish counts a transaction and answers its ops.
func (c *committer) finish(w *writer, start time.Time, batch []*op, errs []error) {
	took := time.Since(start)
	c.batches.Add(1)
	c.committed.Add(int64(len(batch)))
	c.nanos.Add(int64(took))
	if f := c.l.opts.OnCommit; f != nil && len(batch) > 0 {
		f(len(batch), took)
	}
	for i, o := range batch {
		o.done <- errs[i]
	}
	if c.l.checkpoints != nil {
		c.l.checkpoints.committed(w, len(batch)) // after the answers
	}
}

func (c *committer) alone(w *writer, batch []*op, errs []error) {
	failed := 0
	for i := range batch {
		err := c.l.write(w, batch[i:i+1], errs[i:i+1], true)
		if err != nil {
			errs[i] = err
			if failed++; failed == 3 && failed == i+1 { // nothing works: spare the rest
				for j := i + 1; j < len(batch); j++ {
					errs[j] = err
				}
				if errors.Is(err, seatflow.ErrUnknownCommit) {
					for j := i + 1; j < len(batch); j++ {
						errs[j] = fmt.Errorf("%w: not tried after %v", seatflow.ErrNotCommitted, err)
					}
				}
				c.note(err)
				return
			}
			continue
		}
	}
	if failed == len(batch) {
		c.note(errs[len(batch)-1])
	} else {
		c.note(nil)
	}
}

// note remembers whether the last transaction worked.
func (c *committer) note(err error) {
	was := c.down.Load()
	down := errors.Is(err, seatflow.ErrUnknownCommit) || errors.Is(err, errNoTransaction) || c.l.dialect.isDown(err)
	if err == nil || !down {
		if was != nil && err == nil {
			c.down.Store(nil)
			c.l.opts.Log.Info("ledger commits again")
		}
		return
	}
	d := &downState{err: err}
	switch {
	case c.l.dialect.shared() && errors.Is(err, context.DeadlineExceeded):
		d.retry.Store(math.MaxInt64) // who tried would wait; see Ledger.watch
	case c.l.dialect.shared() && was == nil:
		// It may have been one connection: the next caller may see at once.
	default:
		d.retry.Store(time.Now().Add(probeEvery).UnixNano())
	}
	c.down.Store(d)
	if was == nil {
		c.l.opts.Log.Error("ledger does not commit", "error", err)
	}
}
