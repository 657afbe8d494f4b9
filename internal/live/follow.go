package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seatflow"
)

const (
	pollWait   = 5 * time.Second // one read of changes waits this long at most
	checkEvery = 5 * time.Second // how often feeds are compared with the store
	batchMost  = 1024            // changes per read
	retryFirst = 50 * time.Millisecond
	retryMost  = 5 * time.Second
	rereadMost = 15 * time.Second // a rebuild included, so that one show does not stop its partition for ever
)

// partition is the place where the changes of its shows come from.
type partition struct {
	hub *Hub
	id  seatflow.Partition

	mu        sync.Mutex
	feeds     map[seatflow.ShowID]*feed
	following bool
	source    Source // nil: nobody watches
}

// feed returns the feed of a show, registered and counted as in use; the
// caller releases it. Changes from now on reach it, so a map that is read
// after this call can begin it.
func (p *partition) feed(ctx context.Context, house *seatflow.House) (*feed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hub.currentPhase() == phaseEnded {
		return nil, ErrClosed
	}
	if p.source == nil {
		source, err := p.hub.opt.Feed.Follow(ctx, p.id)
		if err != nil {
			return nil, err
		}
		p.source = source
	}
	f := p.feeds[house.Show.ID]
	if f == nil {
		f = &feed{
			hub: p.hub, show: house.Show.ID, hall: house.Show.Hall,
			subs: make(map[*Subscription]struct{}), ring: ring{most: p.hub.opt.Ring},
		}
		if p.feeds == nil {
			p.feeds = make(map[seatflow.ShowID]*feed)
		}
		p.feeds[f.show] = f
	}
	f.mu.Lock()
	f.users++
	f.mu.Unlock()
	p.hub.start(p)
	return f, nil
}

func (p *partition) startIfWatched() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.feeds) > 0 {
		p.hub.start(p)
	}
}

// close ends every feed.
func (p *partition) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for show, f := range p.feeds {
		f.close()
		delete(p.feeds, show)
	}
}

// follow reads changes until the context ends or nobody watches any show of
// the partition.
func (p *partition) follow(ctx context.Context) {
	retry := time.Duration(0)
	checked := time.Now()
	for !p.retire(ctx) {
		more, read, err := p.step(ctx, p.patience())
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil:
			if retry == 0 {
				p.hub.opt.Log.Error("cannot follow seat changes: trying again", "partition", p.id, "err", err)
			}
			retry = later(retry)
			pause(ctx, retry)
			continue
		case retry != 0:
			p.hub.opt.Log.Info("following seat changes again", "partition", p.id)
			retry = 0
		}
		if more {
			continue
		}
		if time.Since(checked) >= checkEvery {
			p.check(ctx)
			checked = time.Now()
		}
		if read {
			// Whatever happens meanwhile is read and sent in one go.
			pause(ctx, p.hub.opt.Window)
		}
	}
}

// later returns the pause after one that was not enough.
func later(retry time.Duration) time.Duration {
	return min(max(2*retry, retryFirst), retryMost)
}

// patience is how long a read may wait for changes.
func (p *partition) patience() time.Duration {
	wait := min(pollWait, p.hub.opt.Idle)
	for _, f := range p.all() {
		if f.retry != 0 { // a snapshot is due
			wait = min(wait, max(time.Until(f.retryAt), 0))
		}
	}
	return wait
}

// step reads what there is and sends what came of it. It tells whether there
// is more and whether anything was read.
func (p *partition) step(ctx context.Context, wait time.Duration) (more, read bool, err error) {
	// A flush must find in the ring all that was read since the last one.
	n, err := p.source.Next(ctx, min(batchMost, p.hub.opt.Ring), wait)
	if err != nil {
		return false, false, err
	}
	p.mu.Lock()
	for i := range n.Changes {
		if f := p.feeds[n.Changes[i].Show]; f != nil {
			f.mu.Lock()
			f.add(&n.Changes[i])
			f.mu.Unlock()
		}
	}
	for i := range n.Messages {
		show, ok := showOf(n.Messages[i].Subject)
		if f := p.feeds[show]; ok && f != nil {
			f.hear(&n.Messages[i])
		}
	}
	p.mu.Unlock()
	if n.Missed {
		p.hub.opt.Log.Info("seat changes may have been missed: taking snapshots", "partition", p.id, "forked", n.Forked)
		for _, f := range p.all() {
			f.doubt(n.Forked)
		}
	}
	p.send(ctx)
	return n.More, n.Missed || len(n.Changes)+len(n.Messages) > 0, nil
}

// send flushes the feeds and settles the stale ones. One that cannot be
// settled is tried again after a pause that grows, and does not hold up the
// others.
func (p *partition) send(ctx context.Context) {
	for _, f := range p.all() {
		if f.flush() {
			f.retry = 0
			continue
		}
		if f.retry != 0 && time.Now().Before(f.retryAt) {
			continue
		}
		m, err := p.reread(ctx, f.show)
		if err == nil && !f.settle(m) {
			err = fmt.Errorf("live: the store gave %s, of a generation that is over", m.Revision)
		}
		switch {
		case err == nil:
			f.retry = 0
		case ctx.Err() != nil:
			return
		case seatflow.CodeOf(err) == seatflow.CodeNoShow:
			p.drop(f) // there is nothing to watch any more
		default:
			if f.retry == 0 {
				p.hub.opt.Log.Error("no snapshot of a show: trying again", "show", f.show, "err", err)
			}
			f.retry = later(f.retry)
			f.retryAt = time.Now().Add(f.retry)
		}
	}
}

// reread takes a fresh map for a stale feed.
func (p *partition) reread(ctx context.Context, show seatflow.ShowID) (*Map, error) {
	ctx, cancel := context.WithTimeout(ctx, rereadMost)
	defer cancel()
	house, err := p.hub.house(ctx, show)
	if err != nil {
		return nil, err
	}
	return p.hub.freshMap(ctx, house)
}

// drop ends a feed and its subscriptions.
func (p *partition) drop(f *feed) {
	p.mu.Lock()
	if p.feeds[f.show] == f {
		delete(p.feeds, f.show)
	}
	p.mu.Unlock()
	f.close()
}

// check compares the feeds with the store, so that a view which was lost or
// moved on without a change that could be read is noticed while the house is
// quiet.
func (p *partition) check(ctx context.Context) {
	for _, f := range p.all() {
		house, err := p.hub.house(ctx, f.show)
		if err != nil {
			continue
		}
		if house.Show.Partition != p.id {
			p.drop(f) // the show has moved; those who come again find it
			continue
		}
		identity, rev, err := p.hub.revision(ctx, house.Show.Ref())
		switch {
		case errors.Is(err, seatflow.ErrNotReady), errors.Is(err, errGone):
			f.doubt(false)
		case err == nil:
			f.compare(identity, rev)
		}
	}
	p.send(ctx)
}

// compare makes the feed stale if it has not reached where the store was seen
// last time, though all changes since must have been read by now.
func (f *feed) compare(identity string, rev seatflow.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.live {
		return
	}
	if identity != f.identity {
		f.stale, f.forked = true, true
		return
	}
	if f.seen != nil && (f.head.Before(*f.seen) || rev == *f.seen && rev != f.head) {
		f.stale = true
	}
	f.seen = nil
	if rev != f.head {
		f.seen = &rev
	}
}

// doubt makes the feed stale; forked: its revision means nothing any more.
func (f *feed) doubt(forked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = true
	f.forked = f.forked || forked
}

func (p *partition) all() []*feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	feeds := make([]*feed, 0, len(p.feeds))
	for _, f := range p.feeds {
		feeds = append(feeds, f)
	}
	return feeds
}

// retire drops the feeds that nobody uses any more, and reports whether the
// follower shall end: none is left, or the hub ends. Then it has closed the
// source.
func (p *partition) retire(ctx context.Context) bool {
	now := time.Now()
	p.mu.Lock()
	for show, f := range p.feeds {
		f.mu.Lock()
		over := f.users == 0 && now.Sub(f.idle) >= p.hub.opt.Idle
		f.mu.Unlock()
		if over {
			delete(p.feeds, show)
		}
	}
	if len(p.feeds) > 0 && ctx.Err() == nil {
		p.mu.Unlock()
		return false
	}
	source := p.source
	p.following, p.source = false, nil
	p.mu.Unlock()
	source.Close() // whoever watches next has another one
	return true
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
