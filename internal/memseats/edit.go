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
	seats   editor[cell]
	records editor[*record]
	users   editor[*userCount]
	changes []seatflow.SeatChange
}

// begin starts a change of about n seats.
func (sh *show) begin(r *root, now int64, n int) edit {
	next := &root{body: r.body}
	next.revision++
	return edit{show: sh, next: next, now: now, seats: edits(&next.seats), records: edits(&next.records),
		users: edits(&next.users), changes: make([]seatflow.SeatChange, 0, n)}
}

// seat moves a seat from the state the operation found it in.
func (e *edit) seat(id seatflow.SeatID, from, to seatflow.SeatState, slot int32) {
	e.next.meant.add(from, -1)
	e.next.meant.add(to, 1)
	e.next.force(&e.seats, id, newCell(to, slot))
	e.tell(id, from, to)
}

// tell adds a seat to the announced change.
func (e *edit) tell(id seatflow.SeatID, from, to seatflow.SeatState) {
	e.changes = append(e.changes, seatflow.SeatChange{Seat: id, State: to, Delta: to.Occupied() - from.Occupied()})
}

// force writes a cell, whatever stands there.
func (b *body) force(seats *editor[cell], id seatflow.SeatID, c cell) {
	b.written.add(seats.vec.get(int(id)-1).state(), -1)
	b.written.add(c.state(), 1)
	seats.set(int(id)-1, c)
}

// add gives an owner without a record one, and returns its slot.
func (e *edit) add(rec *record) int32 {
	slot, ok := e.show.owners[rec.owner] // a ghost's, if at all
	if !ok {
		slot = e.show.freeOwner.take()
		e.show.owners[rec.owner] = slot
	}
	e.records.set(int(slot), rec)
	e.next.listed += int32(len(rec.seats))
	return slot
}

// replace puts a newer record in the place of an owner's; one without seats
// goes, and its wake-up with it.
func (e *edit) replace(slot int32, old, rec *record) {
	e.next.listed += int32(len(rec.seats) - len(old.seats))
	if len(rec.seats) == 0 {
		e.records.set(int(slot), nil)
		delete(e.show.owners, old.owner)
		e.show.freeOwner.give(slot)
		e.show.at.deadlines.remove(old.wake)
		return
	}
	e.records.set(int(slot), rec)
}

// count adds to a user's seats in effect.
func (e *edit) count(user seatflow.UserID, delta int) {
	slot, ok := e.show.users[user]
	n := delta
	if ok {
		n += e.users.vec.get(int(slot)).seats
	}
	switch {
	case n > 0:
		if !ok {
			slot = e.show.freeUser.take()
			e.show.users[user] = slot
		}
		e.users.set(int(slot), &userCount{user, n})
	case ok:
		e.users.set(int(slot), nil)
		delete(e.show.users, user)
		e.show.freeUser.give(slot)
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

// record finds an owner's record among the writer's; nil if there is none.
func (sh *show) record(r *root, owner seatflow.Owner) (int32, *record) {
	slot, ok := sh.owners[owner]
	if !ok {
		return 0, nil
	}
	rec := r.records.get(int(slot))
	if rec == nil || rec.ghost {
		return 0, nil
	}
	return slot, rec
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
