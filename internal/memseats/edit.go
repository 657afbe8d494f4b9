package memseats

import (
	"slices"
	"time"

	"seatflow"
)

// edit is a change in the making, under the lock of its show: the next root,
// and what to tell of it. Nobody sees it before publish. An edit that has
// begun must be published, since the writer's maps follow at once; so every
// operation decides first.
type edit struct {
	show    *show
	next    *root
	now     int64
	branch  int // 1 + the last branch copied, so that seats in order copy a page once
	page    int // likewise
	copied  bool
	changes []seatflow.SeatChange
}

// begin starts a change of about n seats.
func (sh *show) begin(r *root, now int64, n int) edit {
	next := &root{body: r.body}
	next.revision++
	return edit{show: sh, next: next, now: now, changes: make([]seatflow.SeatChange, 0, n)}
}

// open returns the page of seat index i, as a copy that nobody else has.
func (e *edit) open(i int) *page {
	b, p := i>>(pageBits+fanBits), i>>pageBits
	top := e.next.top
	if p+1 == e.page {
		return top[b][p&fanMask]
	}
	if !e.copied {
		top = slices.Clone(top)
		e.next.top, e.copied = top, true
	}
	if b+1 != e.branch {
		br := *top[b]
		top[b], e.branch = &br, b+1
	}
	pg := *top[b][p&fanMask]
	top[b][p&fanMask], e.page = &pg, p+1
	return &pg
}

// seat moves a seat from the state the operation found it in to another, and
// to an owner.
func (e *edit) seat(id seatflow.SeatID, from, to seatflow.SeatState, rec *record) {
	e.next.meant.add(from, -1)
	e.next.meant.add(to, 1)
	e.force(id, to, rec)
	e.tell(id, from, to)
}

// tell adds a seat to the announced change.
func (e *edit) tell(id seatflow.SeatID, from, to seatflow.SeatState) {
	e.changes = append(e.changes, seatflow.SeatChange{Seat: id, State: to, Delta: to.Occupied() - from.Occupied()})
}

// force writes a seat, whatever stands there.
func (e *edit) force(id seatflow.SeatID, to seatflow.SeatState, rec *record) {
	i := int(id) - 1
	p := e.open(i)
	e.next.written.add(p.states[i&pageMask], -1)
	e.next.written.add(to, 1)
	p.states[i&pageMask], p.owners[i&pageMask] = to, rec
}

// replace puts a record in the place of an owner's earlier one (nil: none),
// points the seats that it keeps to it and charges the user. A record without
// seats goes, and its wake-up with it.
func (e *edit) replace(old, rec *record) {
	e.next.listed += int32(len(rec.seats))
	e.next.billed += rec.charged()
	change := rec.charged()
	if old != nil {
		e.next.listed -= int32(len(old.seats))
		e.next.billed -= old.charged()
		if old.user == rec.user {
			change -= old.charged()
		} else {
			e.charge(old.user, -old.charged())
		}
		if old.wake != nil && (old.wake != rec.wake || len(rec.seats) == 0) {
			e.show.at.deadlines.remove(old.wake)
		}
	}
	e.charge(rec.user, change)
	if len(rec.seats) == 0 {
		delete(e.show.owners, rec.owner)
		return
	}
	e.show.owners[rec.owner] = rec
	if old == nil {
		return
	}
	for _, id := range rec.seats {
		if state, at := e.next.seat(id); at != rec && at.owns(rec.owner) {
			e.force(id, state, rec)
		}
	}
}

// charge adds to a user's seats in effect.
func (e *edit) charge(user seatflow.UserID, delta int32) {
	if delta == 0 {
		return
	}
	e.next.charged += delta
	if n := e.show.users[user] + delta; n != 0 {
		e.show.users[user] = n
	} else {
		delete(e.show.users, user)
	}
}

// publish makes the change visible, then tells of it: in this order, so that
// no position in the log is ahead of the root.
func (e *edit) publish(verb seatflow.Verb) {
	e.show.root.Store(e.next)
	e.show.at.log.append(seatflow.Change{
		Show: e.show.id, Revision: seatflow.Revision{Generation: e.next.generation, Number: e.next.revision},
		Verb: verb, At: toTime(e.now), Seats: e.changes,
	})
}

// tidy returns seats sorted and distinct, as a copy unless they are already.
func tidy(seats []seatflow.SeatID) []seatflow.SeatID {
	if ascending(seats) {
		return seats
	}
	seats = slices.Clone(seats)
	slices.Sort(seats)
	return slices.Compact(seats)
}

func ascending(seats []seatflow.SeatID) bool {
	for i := 1; i < len(seats); i++ {
		if seats[i-1] >= seats[i] {
			return false
		}
	}
	return true
}

// later adds a span to an instant.
func later(now int64, d time.Duration) int64 { return now + d.Milliseconds() }
