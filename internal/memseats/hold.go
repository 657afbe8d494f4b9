package memseats

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"seatflow"
)

// Hold implements [seatflow.SeatStore].
//
// An owner takes seats once: while it has a record, only a repeat of its live
// hold is answered held. Anything else it asks for is refused as taken, with
// every asked seat listed when all of them were available.
func (s *Store) Hold(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
	if err := checkHold(&req); err != nil {
		return seatflow.HoldReply{}, err
	}
	w, err := s.look(ctx, req.Show)
	if err != nil {
		return seatflow.HoldReply{}, err
	}
	if w.show == nil {
		return seatflow.HoldReply{Outcome: seatflow.OutcomeNotReady}, nil
	}
	if reply, done := w.show.refuse(&req, w.now); done {
		return reply, nil
	}
	r, err := w.lock()
	if err != nil {
		return seatflow.HoldReply{Outcome: seatflow.OutcomeNotReady}, nil
	}
	defer w.show.mu.Unlock()
	return w.show.hold(r, &req, w.now), nil
}

func checkHold(req *seatflow.HoldRequest) error {
	switch {
	case len(req.Seats) == 0 || !ascending(req.Seats):
		return fmt.Errorf("%w: seats of a hold must be one or more, sorted and distinct", errInvalid)
	case req.Owner.IsZero():
		return errNoOwner
	case req.User == "":
		return fmt.Errorf("%w: a hold needs a user", errInvalid)
	case req.For < 0:
		return fmt.Errorf("%w: a hold of %v", errInvalid, req.For)
	}
	return nil
}

// refuse answers without the lock a hold that cannot be won and does not
// meet an order of the caller's own: one consistent root is enough for that.
func (sh *show) refuse(req *seatflow.HoldRequest, now int64) (seatflow.HoldReply, bool) {
	r := sh.root.Load()
	if r == nil || !r.fits() {
		return seatflow.HoldReply{}, false
	}
	f := r.find(req)
	if f.own || f.taken == 0 {
		return seatflow.HoldReply{}, false
	}
	if !f.yours.IsZero() {
		return r.reply(seatflow.HoldReply{Outcome: seatflow.OutcomeYours, Owner: f.yours}), true
	}
	if wait := sh.rate.admit(now, req.Rate); wait > 0 {
		return r.reply(seatflow.HoldReply{Outcome: seatflow.OutcomeBusy, RetryAfter: wait}), true
	}
	return r.reply(seatflow.HoldReply{Outcome: seatflow.OutcomeTaken, Taken: r.taken(req, f.taken)}), true
}

// hold decides under the lock and, if it is to be, takes the seats.
func (sh *show) hold(r *root, req *seatflow.HoldRequest, now int64) seatflow.HoldReply {
	own := sh.owners[req.Owner]
	if own != nil && own.state == seatflow.Held && own.deadline > now && own.user == req.User && slices.Equal(own.seats, req.Seats) {
		return r.reply(own.held(true))
	}
	f := r.find(req)
	if !f.yours.IsZero() {
		return r.reply(seatflow.HoldReply{Outcome: seatflow.OutcomeYours, Owner: f.yours})
	}
	if wait := sh.rate.admit(now, req.Rate); wait > 0 {
		return r.reply(seatflow.HoldReply{Outcome: seatflow.OutcomeBusy, RetryAfter: wait})
	}
	if f.taken > 0 {
		return r.reply(seatflow.HoldReply{Outcome: seatflow.OutcomeTaken, Taken: r.taken(req, f.taken)})
	}
	if own != nil {
		return r.reply(seatflow.HoldReply{Outcome: seatflow.OutcomeTaken, Taken: slices.Clone(req.Seats)})
	}
	if req.Limit > 0 {
		if left := req.Limit - int(sh.users[req.User]); len(req.Seats) > left {
			return r.reply(seatflow.HoldReply{Outcome: seatflow.OutcomeOverLimit, Left: max(0, left)})
		}
	}

	rec := newHeld(sh, record{owner: req.Owner, user: req.User, key: req.KeyHash, seats: slices.Clone(req.Seats),
		state: seatflow.Held, takenAt: now, deadline: later(now, req.For), cap: later(now, req.For)})
	if req.Cap > 0 {
		rec.cap = later(now, req.Cap)
		rec.deadline = min(rec.deadline, rec.cap)
	}
	e := sh.begin(r, now, len(rec.seats))
	e.replace(nil, rec)
	for _, id := range rec.seats {
		from, _ := r.seat(id)
		to, _ := seatflow.Next(seatflow.VerbHold, from, false)
		e.seat(id, from, to, rec)
	}
	e.publish(seatflow.VerbHold)
	sh.at.deadlines.add(rec.wake, rec.deadline)
	return e.next.reply(rec.held(false))
}

// found is what a hold meets among the seats it asks for.
type found struct {
	taken int            // how many are not available
	own   bool           // one of them is the caller's
	yours seatflow.Owner // another order of the same user and key that has one
}

func (b *body) find(req *seatflow.HoldRequest) (f found) {
	for _, id := range req.Seats {
		state, rec := b.seat(id)
		if _, free := seatflow.Next(seatflow.VerbHold, state, false); free {
			continue
		}
		f.taken++
		switch {
		case rec == nil:
		case rec.owner == req.Owner:
			f.own = true
		case f.yours.IsZero() && !req.KeyHash.IsZero() && rec.key == req.KeyHash && rec.user == req.User && rec.state != seatflow.Blocked:
			f.yours = rec.owner
		}
	}
	return f
}

// taken lists the n asked seats that are not available.
func (b *body) taken(req *seatflow.HoldRequest, n int) []seatflow.SeatID {
	ids := make([]seatflow.SeatID, 0, n)
	for _, id := range req.Seats {
		state, _ := b.seat(id)
		if _, free := seatflow.Next(seatflow.VerbHold, state, false); !free {
			ids = append(ids, id)
		}
	}
	return ids
}

func (r *record) held(repeat bool) seatflow.HoldReply {
	return seatflow.HoldReply{Outcome: seatflow.OutcomeHeld, TakenAt: toTime(r.takenAt),
		Deadline: toTime(r.deadline), Cap: toTime(r.cap), Repeat: repeat}
}

// reply marks a reply with the revision it was decided at.
func (b *body) reply(h seatflow.HoldReply) seatflow.HoldReply {
	h.Generation, h.Revision = b.generation, b.revision
	return h
}

// rateWindow counts the holds of a show over the last second, to the
// millisecond. A hold that is let through counts whatever becomes of it. One
// that is turned away here does not, or a crowd that asks again and again
// would keep the window full and nobody could buy.
type rateWindow struct {
	mu      sync.Mutex
	buckets []rateBucket // oldest first, from head on
	head    int
	total   int
}

type rateBucket struct {
	at int64
	n  int
}

const rateSpan = int64(time.Second / time.Millisecond)

// admit counts a hold at now unless rate were counted already; then it
// returns how long until there is room.
func (w *rateWindow) admit(now int64, rate int) time.Duration {
	if rate <= 0 {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.buckets) - 1; last >= w.head && now < w.buckets[last].at {
		if w.buckets[last].at-now > rateSpan { // the clock was set back
			w.buckets, w.head, w.total = w.buckets[:0], 0, 0
		} else {
			now = w.buckets[last].at
		}
	}
	for w.head < len(w.buckets) && w.buckets[w.head].at <= now-rateSpan {
		w.total -= w.buckets[w.head].n
		w.head++
	}
	if w.total >= rate {
		leave := w.total - rate + 1
		for i := w.head; i < len(w.buckets); i++ {
			if leave -= w.buckets[i].n; leave <= 0 {
				return time.Duration(w.buckets[i].at+rateSpan-now) * time.Millisecond
			}
		}
	}
	w.total++
	if last := len(w.buckets) - 1; last >= w.head && w.buckets[last].at == now {
		w.buckets[last].n++
		return 0
	}
	if w.head > len(w.buckets)/2 {
		n := copy(w.buckets, w.buckets[w.head:])
		w.buckets, w.head = w.buckets[:n], 0
	}
	w.buckets = append(w.buckets, rateBucket{now, 1})
	return 0
}
