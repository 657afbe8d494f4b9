package memseats

import (
	"context"
	"fmt"
	"slices"

	"seatflow"
)

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
	if err := checkBase(&view); err != nil {
		return err
	}
	now, until := s.now(), view.Show.Until.UnixMilli()
	p.sweep(now)
	d := newDraft(&view)
	for i := range view.Orders {
		if err := d.add(&view.Orders[i]); err != nil {
			return err
		}
	}
	if now >= until {
		return nil
	}
	if view.Generation < 1 {
		return seatflow.ErrStaleGeneration
	}

	sh := p.place(view.Show)
	defer sh.mu.Unlock()
	if r := sh.root.Load(); r != nil && view.Generation <= r.generation && !outlived(sh.until.Load(), now) {
		return seatflow.ErrStaleGeneration
	}
	d.root.records(func(rec *record) {
		if rec.wake != nil {
			rec.wake.show = sh
		}
	})
	sh.until.Store(until)
	sh.owners, sh.users = d.owners, d.users
	before := sh.root.Swap(d.root)
	p.deadlines.exchange(before, d.root)
	p.log.append(seatflow.Change{Show: view.Show.ID, Revision: seatflow.Revision{Generation: view.Generation},
		Verb: seatflow.VerbRebuild, At: toTime(now)})
	return nil
}

func checkBase(view *seatflow.View) error {
	if len(view.Base) > seatflow.MaxSeatsPerHall {
		return fmt.Errorf("%w: %d seats", errInvalid, len(view.Base))
	}
	for i, state := range view.Base {
		if state != seatflow.Available && state != seatflow.NoSeat {
			return fmt.Errorf("%w: seat %d of the base is %q", errInvalid, i+1, byte(state))
		}
	}
	return nil
}

// draft is a view that nobody has seen yet.
type draft struct {
	root   *root
	owners map[seatflow.Owner]*record
	users  map[seatflow.UserID]int32
}

// newDraft lays out an empty house.
func newDraft(view *seatflow.View) *draft {
	d := &draft{root: &root{body: body{generation: view.Generation, size: len(view.Base)}},
		owners: make(map[seatflow.Owner]*record, len(view.Orders)), users: make(map[seatflow.UserID]int32)}
	b := &d.root.body
	for i := 0; i < b.size; i += pageSize {
		if i>>pageBits&fanMask == 0 {
			b.top = append(b.top, new(branch))
		}
		p := new(page)
		for j, state := range view.Base[i:min(i+pageSize, b.size)] {
			p.states[j] = state
			b.written.add(state, 1)
		}
		b.top[len(b.top)-1][i>>pageBits&fanMask] = p
	}
	b.meant = b.written
	return d
}

// add puts an order on its seats.
func (d *draft) add(o *seatflow.OrderRecord) error {
	b := &d.root.body
	if o.Owner.IsZero() || d.owners[o.Owner] != nil || !o.State.Owned() || len(o.Seats) == 0 {
		return fmt.Errorf("%w: the record of %q needs an owner of its own, a state and seats", errInvalid, o.Owner)
	}
	rec := newRecord(nil, o, o.State)
	rec.seats = slices.Clone(tidy(o.Seats))
	for _, id := range rec.seats {
		if state, _ := b.seat(id); state != seatflow.Available {
			return fmt.Errorf("%w: seat %d of %s is not there or not free", errInvalid, id, o.Owner)
		}
		i := int(id) - 1
		p := b.top[i>>(pageBits+fanBits)][i>>pageBits&fanMask]
		p.states[i&pageMask], p.owners[i&pageMask] = o.State, rec
		b.written.add(seatflow.Available, -1)
		b.written.add(o.State, 1)
	}
	n := int32(len(rec.seats))
	b.meant.add(seatflow.Available, -n)
	b.meant.add(o.State, n)
	b.listed += n
	b.billed += rec.charged()
	d.owners[o.Owner] = rec
	if n := rec.charged(); n > 0 {
		b.charged += n
		d.users[o.User] += n
	}
	return nil
}
