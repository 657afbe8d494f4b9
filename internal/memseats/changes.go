package memseats

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"seatflow"
)

// batchDefault is how many changes a reader gets who names no number.
const batchDefault = 1024

// changeLog is the changes of a partition, the newest kept ones in a ring.
// Every change has a number from 1; a position is how many were read.
type changeLog struct {
	kept int

	mu   sync.Mutex
	ring []seatflow.Change // the change with number n is at (n − 1) mod len, once full
	last uint64            // how many were ever appended
	wake chan struct{}     // closed by the next append; nil when nobody waits
}

// append adds a change and wakes who waits for it.
func (l *changeLog) append(c seatflow.Change) {
	l.mu.Lock()
	if len(l.ring) < l.kept {
		l.ring = append(l.ring, c)
	} else {
		l.ring[l.last%uint64(l.kept)] = c
	}
	l.last++
	wake := l.wake
	l.wake = nil
	l.mu.Unlock()
	if wake != nil {
		close(wake)
	}
}

// place is what a position says.
type place struct {
	after   uint64
	oldest  bool // before the oldest change kept
	newest  bool // after the newest
	foreign bool // of another log; as oldest, but changes were missed
}

// run is a piece of the log.
type run struct {
	changes []seatflow.Change
	next    uint64
	trimmed bool
	wake    <-chan struct{} // closed by the next change; set if asked for and there are none
}

// read copies up to limit changes after a place.
func (l *changeLog) read(at place, limit int, wait bool) run {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.last - uint64(len(l.ring))
	after := at.after
	r := run{trimmed: at.foreign}
	switch {
	case at.newest:
		after = l.last
	case at.oldest:
		after = oldest
	case at.foreign || after < oldest || after > l.last:
		after, r.trimmed = oldest, true
	}
	n := min(uint64(limit), l.last-after)
	r.next = after + n
	if n == 0 {
		if wait && !r.trimmed {
			if l.wake == nil {
				l.wake = make(chan struct{})
			}
			r.wake = l.wake
		}
		return r
	}
	r.changes = make([]seatflow.Change, 0, n)
	for i := after; i < after+n; i++ {
		r.changes = append(r.changes, l.ring[i%uint64(l.kept)])
	}
	return r
}

// Changes implements [seatflow.SeatStore]. A position that this store did not
// give is answered as trimmed, from the oldest change kept.
func (s *Store) Changes(ctx context.Context, req seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	if err := s.enter(ctx); err != nil {
		return seatflow.ChangeBatch{}, err
	}
	p, err := s.partition(req.Partition)
	if err != nil {
		return seatflow.ChangeBatch{}, err
	}
	limit := req.Limit
	if limit < 1 {
		limit = batchDefault
	}
	got := p.log.read(s.place(req.After), limit, req.Wait > 0)
	if got.wake != nil {
		timer := time.NewTimer(req.Wait)
		defer timer.Stop()
		select {
		case <-got.wake:
			got = p.log.read(place{after: got.next}, limit, false)
		case <-timer.C:
		case <-ctx.Done():
			return seatflow.ChangeBatch{}, fmt.Errorf("%w: %w", seatflow.ErrNotExecuted, ctx.Err())
		case <-s.closed:
			return seatflow.ChangeBatch{}, fmt.Errorf("%w: %w", seatflow.ErrNotExecuted, errClosed)
		}
	}
	return seatflow.ChangeBatch{Identity: s.identity, Changes: got.changes, Next: s.position(got.next), Trimmed: got.trimmed}, nil
}

func (s *Store) position(n uint64) seatflow.Position {
	return seatflow.Position(s.identity + "-" + strconv.FormatUint(n, 10))
}

// place reads a position.
func (s *Store) place(pos seatflow.Position) place {
	switch pos {
	case "":
		return place{oldest: true}
	case seatflow.PositionNow:
		return place{newest: true}
	}
	identity, number, _ := strings.Cut(string(pos), "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if identity != s.identity || err != nil {
		return place{foreign: true}
	}
	return place{after: n}
}
