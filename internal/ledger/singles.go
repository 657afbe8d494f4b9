package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"seatflow"
)

// Where several processes write, a transaction may fail because of another
// one. A batch that does is rolled back and, unless a second try helps, its
// changes run singly on connections of their own, each until it has an answer
// or its time is up, while the committers go on with what comes.

const (
	// singleTries and singleFor bound the tries of one change.
	singleTries = 10
	singleFor   = 5 * time.Second
	// singlePause is the first pause between two tries; it doubles.
	singlePause    = 2 * time.Millisecond
	singlePauseMax = 200 * time.Millisecond
	// busyFor is how long the orders of a show whose row was locked for a
	// whole lock wait go singly at once, lest they hold up the others.
	busyFor = 2 * time.Second
)

// mayPass reports whether the same batch may well succeed if it is written
// again at once: its rival has won meanwhile, or its connection was cut. One
// that waited for a lock until it gave up would only wait again.
func (c *committer) mayPass(err error) bool {
	if err == nil || errors.Is(err, seatflow.ErrUnknownCommit) || errors.Is(err, errNoTransaction) {
		return false
	}
	d := c.l.dialect
	return errors.Is(err, errDuplicate) || d.isTransient(err) && !d.isLockWait(err) || d.isDown(err)
}

// single carries one change through to its answer. It is the commit of a
// committer that runs each change by itself.
func (c *committer) single(w *writer, batch []*op) {
	start := time.Now()
	o := batch[0]
	until := start.Add(singleFor)
	if !o.deadline.IsZero() && o.deadline.Before(until) {
		until = o.deadline
	}
	d := c.l.dialect
	errs := make([]error, 1)
	var err error
	for try := 0; ; try++ {
		if !time.Now().Before(until) {
			if err == nil {
				err = fmt.Errorf("%w: its time was up before it was tried alone", seatflow.ErrNotCommitted)
			}
			break
		}
		errs[0] = nil
		err = c.l.write(w, batch, errs, true)
		if err == nil || errors.Is(err, seatflow.ErrUnknownCommit) || errors.Is(err, errNoTransaction) {
			break
		}
		if !d.isTransient(err) && !d.isDown(err) && !d.isDuplicate(err) && !errors.Is(err, errLostRace) || try == singleTries-1 {
			break
		}
		if errors.Is(err, errShowLocked) {
			c.l.busy.mark(o.insert.Order.Show)
		}
		pause := min(singlePause<<try, singlePauseMax)
		time.Sleep(pause/2 + rand.N(pause)) // not the moment at which its rival tries again
	}
	c.note(err)
	if err != nil {
		errs[0] = err
	}
	c.finish(w, start, batch, errs)
}

// busyShows remembers shows whose row somebody keeps locked.
type busyShows struct {
	n     atomic.Int64 // entries of until
	mu    sync.Mutex
	until map[seatflow.ShowID]time.Time
}

func (b *busyShows) mark(show seatflow.ShowID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil {
		b.until = map[seatflow.ShowID]time.Time{}
	}
	b.until[show] = time.Now().Add(busyFor)
	b.n.Store(int64(len(b.until)))
}

// has reports whether a show was marked of late.
func (b *busyShows) has(show seatflow.ShowID) bool {
	if b.n.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.until[show]
	if ok && time.Now().After(until) {
		delete(b.until, show)
		b.n.Store(int64(len(b.until)))
		ok = false
	}
	return ok
}

// apart commits a batch of new orders without those of shows that are known
// to be locked, which go singly.
func (c *committer) apart(w *writer, batch []*op) {
	if c.l.busy.n.Load() > 0 {
		var aside []*op
		rest := batch[:0]
		for _, o := range batch {
			if o.insert != nil && c.l.busy.has(o.insert.Order.Show) {
				aside = append(aside, o)
			} else {
				rest = append(rest, o)
			}
		}
		if len(aside) > 0 {
			c.singles.again(aside)
		}
		batch = rest
	}
	if len(batch) > 0 {
		c.together(w, batch)
	}
}
