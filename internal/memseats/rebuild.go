package memseats

import (
	"context"
	"fmt"
	"slices"

	"seatflow"
)

// draft is a whole view with what a writer needs to know of it: what a
// rebuild installs and a repair leaves behind. Everything but the seats and
// what the records say of their orders is counted anew.
type draft struct {
	root      *root
	owners    map[seatflow.Owner]int32
	users     map[seatflow.UserID]int32
	freeOwner freeSlots
	freeUser  freeSlots
}

// draftOf derives a view from its cells and the records they point to.
func draftOf(base body, cells []cell, records []*record) *draft {
	d := &draft{root: &root{body: base}, owners: make(map[seatflow.Owner]int32), users: make(map[seatflow.UserID]int32)}
	b := &d.root.body
	b.size = len(cells)
	b.meant, b.written, b.listed = counts{}, counts{}, 0
	b.seats, b.records, b.users = vec[cell]{}, vec[*record]{}, vec[*userCount]{}

	of := make([][]seatflow.SeatID, len(records))
	seats := edits(&b.seats)
	slots := make([]int32, len(records))
	for i, c := range cells {
		b.written.add(c.state(), 1)
		if old := c.slot(); old != 0 {
			of[old] = append(of[old], seatflow.SeatID(i+1))
			if slots[old] == 0 {
				slots[old] = d.freeOwner.take()
			}
			c = newCell(c.state(), slots[old])
		}
		seats.set(i, c)
	}
	b.meant = b.written

	recs := edits(&b.records)
	perUser := make(map[seatflow.UserID]int)
	for old, slot := range slots {
		if slot == 0 {
			continue
		}
		rec := records[old]
		d.owners[rec.owner] = slot
		if !rec.ghost && !slices.Equal(rec.seats, of[old]) {
			next := *rec
			next.seats = of[old]
			rec = &next
		}
		recs.set(int(slot), rec)
		b.listed += int32(len(rec.seats))
		if rec.counted() {
			perUser[rec.user] += len(rec.seats)
		}
	}
	users := edits(&b.users)
	for user, n := range perUser {
		slot := d.freeUser.take()
		d.users[user] = slot
		users.set(int(slot), &userCount{user, n})
	}
	return d
}

// install puts the draft in the place of what was there, with a wake-up for
// every held record. The lock of the show is held.
func (d *draft) install(sh *show) {
	sh.owners, sh.users, sh.freeOwner, sh.freeUser = d.owners, d.users, d.freeOwner, d.freeUser
	before := sh.root.Swap(d.root)
	sh.at.deadlines.exchange(before, d.root)
}

// Rebuild implements [seatflow.SeatStore]. The view is made before the lock
// is taken, so that no other operation waits for it. The generation starts
// at 1; a store that has no view of the show takes any.
func (s *Store) Rebuild(ctx context.Context, view seatflow.View) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p, err := s.partition(view.Show.Partition)
	if err != nil {
		return err
	}
	cells, records, err := layOut(&view)
	if err != nil {
		return err
	}
	now, until := s.now(), view.Show.Until.UnixMilli()
	if now >= until {
		return nil
	}
	if view.Generation < 1 {
		return seatflow.ErrStaleGeneration
	}
	p.sweep(now)
	d := draftOf(body{generation: view.Generation}, cells, records)

	sh := p.place(view.Show)
	defer sh.mu.Unlock()
	if r := sh.root.Load(); r != nil && view.Generation <= r.generation && !outlived(sh.until.Load(), now) {
		return seatflow.ErrStaleGeneration
	}
	for _, rec := range records {
		if rec != nil && rec.state == seatflow.Held {
			rec.wake = newWakeUp(sh, rec)
		}
	}
	sh.until.Store(until)
	d.install(sh)
	p.log.append(seatflow.Change{Show: view.Show.ID, Revision: seatflow.Revision{Generation: view.Generation},
		Verb: seatflow.VerbRebuild, At: toTime(now)})
	return nil
}

// layOut checks a view and puts its records on its seats. Record i of the
// result is the owner of the cells with slot i.
func layOut(view *seatflow.View) ([]cell, []*record, error) {
	if len(view.Base) > seatflow.MaxSeatsPerHall {
		return nil, nil, fmt.Errorf("%w: %d seats", errInvalid, len(view.Base))
	}
	cells := make([]cell, len(view.Base))
	for i, state := range view.Base {
		if state != seatflow.Available && state != seatflow.NoSeat {
			return nil, nil, fmt.Errorf("%w: seat %d of the base is %q", errInvalid, i+1, byte(state))
		}
		cells[i] = newCell(state, 0)
	}
	records := make([]*record, 1, len(view.Orders)+1)
	seen := make(map[seatflow.Owner]bool, len(view.Orders))
	for i := range view.Orders {
		o := &view.Orders[i]
		if o.Owner.IsZero() || seen[o.Owner] || !o.State.Owned() || len(o.Seats) == 0 {
			return nil, nil, fmt.Errorf("%w: record %d of %q needs an owner of its own, a state and seats", errInvalid, i, o.Owner)
		}
		seen[o.Owner] = true
		rec := newRecord(o, o.State)
		rec.seats = slices.Clone(tidy(o.Seats))
		for _, id := range rec.seats {
			if id < 1 || int(id) > len(cells) || cells[id-1] != newCell(seatflow.Available, 0) {
				return nil, nil, fmt.Errorf("%w: seat %d of %s is not there or twice", errInvalid, id, o.Owner)
			}
			cells[id-1] = newCell(o.State, int32(len(records)))
		}
		records = append(records, rec)
	}
	return cells, records, nil
}
