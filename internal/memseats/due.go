package memseats

import (
	"cmp"
	"context"
	"sync"
	"time"

	"seatflow"
)

// wakeUp is when to ask the ledger about a hold. It is an index entry: the
// deadline in the record is the truth. Its fields but the first three belong
// to the lock of the deadlines.
type wakeUp struct {
	show  *show
	owner seatflow.Owner
	rec   *record // user and time of taking

	at       int64
	deadline int64
	index    int  // in the heap; −1: not in it
	stays    bool // while one view takes another's place
}

func newWakeUp(sh *show, rec *record) *wakeUp {
	return &wakeUp{show: sh, owner: rec.owner, rec: rec, at: rec.deadline, deadline: rec.deadline, index: -1}
}

// deadlines is a partition's wake-ups, the next one first.
type deadlines struct {
	mu   sync.Mutex
	heap []*wakeUp
}

// add puts a wake-up in.
func (d *deadlines) add(w *wakeUp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.push(w)
}

// remove takes a wake-up out, if it is there; nil is none.
func (d *deadlines) remove(w *wakeUp) {
	if w == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pull(w)
}

// move sets a new deadline and wakes then.
func (d *deadlines) move(w *wakeUp, deadline int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pull(w)
	w.at, w.deadline = deadline, deadline
	d.push(w)
}

// exchange takes out the wake-ups of the view before and puts in those of the
// view after; either may be nil. One that stays keeps its lease.
func (d *deadlines) exchange(before, after *root) {
	d.mu.Lock()
	defer d.mu.Unlock()
	each := func(r *root, do func(w *wakeUp)) {
		if r == nil {
			return
		}
		r.records.pages(func(_ int, p *page[*record]) {
			for _, rec := range p {
				if rec != nil && rec.wake != nil {
					do(rec.wake)
				}
			}
		})
	}
	each(after, func(w *wakeUp) { w.stays = true })
	each(before, func(w *wakeUp) {
		if !w.stays {
			d.pull(w)
		}
	})
	each(after, func(w *wakeUp) {
		w.stays = false
		d.push(w)
	})
}

// claim returns what is due and sleeps on it until the lease is over.
func (d *deadlines) claim(now int64, limit int, lease time.Duration) []seatflow.DueHold {
	d.mu.Lock()
	defer d.mu.Unlock()
	var claimed []*wakeUp
	for len(claimed) < limit && len(d.heap) > 0 && d.heap[0].at <= now {
		w := d.heap[0]
		d.pull(w)
		claimed = append(claimed, w)
	}
	due := make([]seatflow.DueHold, len(claimed))
	for i, w := range claimed {
		due[i] = seatflow.DueHold{Show: w.show.id, Owner: w.owner, User: w.rec.user, TakenAt: toTime(w.rec.takenAt),
			Deadline: toTime(w.deadline), Age: age(now, w.rec.takenAt)}
		w.at = later(now, lease)
		d.push(w)
	}
	return due
}

func age(now, since int64) time.Duration {
	if since == noTime {
		return 0
	}
	return time.Duration(now-since) * time.Millisecond
}

// less orders wake-ups by time, and equal ones by name so that every store
// offers them in the same order.
func (w *wakeUp) less(v *wakeUp) bool {
	return cmp.Or(cmp.Compare(w.at, v.at), cmp.Compare(w.show.id, v.show.id),
		cmp.Compare(w.owner.Order, v.owner.Order), cmp.Compare(w.owner.Attempt, v.owner.Attempt)) < 0
}

func (d *deadlines) push(w *wakeUp) {
	if w.index >= 0 {
		return
	}
	w.index = len(d.heap)
	d.heap = append(d.heap, w)
	d.up(w.index)
}

func (d *deadlines) pull(w *wakeUp) {
	i := w.index
	if i < 0 {
		return
	}
	last := len(d.heap) - 1
	d.swap(i, last)
	d.heap[last] = nil
	d.heap = d.heap[:last]
	w.index = -1
	if i < last {
		d.down(i)
		d.up(i)
	}
}

func (d *deadlines) swap(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.heap[i].index, d.heap[j].index = i, j
}

func (d *deadlines) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !d.heap[i].less(d.heap[parent]) {
			return
		}
		d.swap(i, parent)
		i = parent
	}
}

func (d *deadlines) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(d.heap) {
			return
		}
		if child+1 < len(d.heap) && d.heap[child+1].less(d.heap[child]) {
			child++
		}
		if !d.heap[child].less(d.heap[i]) {
			return
		}
		d.swap(i, child)
		i = child
	}
}

// ClaimDue implements [seatflow.SeatStore]. Holds are offered in the order of
// their wake-ups. A limit below one claims nothing.
func (s *Store) ClaimDue(ctx context.Context, n seatflow.Partition, limit int, lease time.Duration) ([]seatflow.DueHold, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	p, err := s.partition(n)
	if err != nil {
		return nil, err
	}
	now := s.now()
	p.sweep(now)
	return p.deadlines.claim(now, limit, max(0, lease)), nil
}
