package memseats

import (
	"cmp"
	"context"
	"sync"
	"time"

	"seatflow"
)

// wakeUp is when to ask the ledger about a hold. It is an index entry: the
// deadline in the record is the truth. The fields after the first two belong
// to the lock of the deadlines.
type wakeUp struct {
	show *show
	rec  *record // whose; of the fields that may change later nothing is read

	at       int64
	deadline int64
	index    int  // in the heap, from 1; 0: not in it
	stays    bool // while one view takes another's place
}

// newHeld makes a held record together with its wake-up.
func newHeld(sh *show, rec record) *record {
	both := &struct {
		record
		wakeUp
	}{record: rec}
	both.wakeUp = wakeUp{show: sh, rec: &both.record}
	both.wake = &both.wakeUp
	return &both.record
}

// deadlines is a partition's wake-ups, the next one first.
type deadlines struct {
	mu   sync.Mutex
	heap []*wakeUp
}

// add puts a wake-up in.
func (d *deadlines) add(w *wakeUp, deadline int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.at, w.deadline = deadline, deadline
	d.push(w)
}

// remove takes a wake-up out, if it is there.
func (d *deadlines) remove(w *wakeUp) {
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
		r.records(func(rec *record) {
			if rec.wake != nil {
				do(rec.wake)
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
		if w.index == 0 {
			w.at, w.deadline = w.rec.deadline, w.rec.deadline
			d.push(w)
		}
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
		due[i] = seatflow.DueHold{Show: w.show.id, Owner: w.rec.owner, User: w.rec.user, TakenAt: toTime(w.rec.takenAt),
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
	if w.at != v.at {
		return w.at < v.at
	}
	return cmp.Or(cmp.Compare(w.show.id, v.show.id), compareOwners(w.rec.owner, v.rec.owner)) < 0
}

func (d *deadlines) push(w *wakeUp) {
	d.heap = append(d.heap, w)
	w.index = len(d.heap)
	d.up(w.index - 1)
}

func (d *deadlines) pull(w *wakeUp) {
	if w.index == 0 {
		return
	}
	i, last := w.index-1, len(d.heap)-1
	d.swap(i, last)
	d.heap[last] = nil
	d.heap = d.heap[:last]
	w.index = 0
	if i < last {
		d.down(i)
		d.up(i)
	}
}

func (d *deadlines) swap(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.heap[i].index, d.heap[j].index = i+1, j+1
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
