package memseats

import (
	"context"
	"fmt"

	"seatflow"
)

// Repair implements [seatflow.SeatStore].
//
// A seat that becomes an owner's joins the owner's record, which takes over
// what the request says of the order; a record whose last seat goes, goes
// with its wake-up. All counts are taken anew from the seats. A request
// without seats does only that, and is no change. NoSeat is not repaired, nor
// is a seat that does not exist: both are reported as changed.
func (s *Store) Repair(ctx context.Context, req seatflow.RepairRequest) (seatflow.RepairReply, error) {
	if err := checkRepair(&req); err != nil {
		return seatflow.RepairReply{}, err
	}
	w, err := s.look(ctx, req.Show)
	if err != nil || w.ended {
		return seatflow.RepairReply{}, err
	}
	if w.show == nil {
		return seatflow.RepairReply{}, seatflow.ErrNotReady
	}
	sh := w.show
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.root.Load()
	if r == nil {
		return seatflow.RepairReply{}, seatflow.ErrNotReady
	}
	if req.Generation != r.generation {
		return seatflow.RepairReply{}, seatflow.ErrStaleGeneration
	}
	reply := seatflow.RepairReply{Revision: r.revision}
	for i := range req.Seats {
		if fix := &req.Seats[i]; r.stands(fix) {
			reply.Fixed = append(reply.Fixed, fix.Seat)
		} else {
			reply.Changed = append(reply.Changed, fix.Seat)
		}
	}
	if len(reply.Fixed) == 0 && len(req.Seats) > 0 && r.fits() {
		return reply, nil
	}

	cells, records := r.unfold()
	var changes []seatflow.SeatChange
	fresh := make(map[seatflow.Owner]int32) // owners whose record the request speaks of
	for i := range req.Seats {
		fix := &req.Seats[i]
		if !r.stands(fix) {
			continue
		}
		var slot int32
		if fix.WantState.Owned() {
			slot, records = sh.regard(records, fresh, fix)
		}
		cells[fix.Seat-1] = newCell(fix.WantState, slot)
		changes = append(changes, seatflow.SeatChange{Seat: fix.Seat, State: fix.WantState,
			Delta: fix.WantState.Occupied() - fix.SawState.Occupied()})
	}
	base := body{generation: r.generation, revision: r.revision}
	if len(reply.Fixed) > 0 {
		base.revision++
	}
	d := draftOf(base, cells, records)
	d.install(sh)
	reply.Revision = base.revision
	if len(reply.Fixed) > 0 {
		sh.at.log.append(seatflow.Change{Show: sh.id, Revision: seatflow.Revision{Generation: base.generation, Number: base.revision},
			Verb: seatflow.VerbRepair, At: toTime(w.now), Seats: changes})
	}
	return reply, nil
}

func checkRepair(req *seatflow.RepairRequest) error {
	seen := make(map[seatflow.SeatID]bool, len(req.Seats))
	for i := range req.Seats {
		fix := &req.Seats[i]
		switch {
		case seen[fix.Seat]:
			return fmt.Errorf("%w: seat %d is repaired twice", errInvalid, fix.Seat)
		case fix.WantState != seatflow.Available && !fix.WantState.Owned():
			return fmt.Errorf("%w: seat %d cannot become %q", errInvalid, fix.Seat, byte(fix.WantState))
		case fix.WantState.Owned() && fix.Want.Owner.IsZero():
			return errNoOwner
		}
		seen[fix.Seat] = true
	}
	return nil
}

// stands reports whether a seat is as the caller saw it.
func (b *body) stands(fix *seatflow.SeatRepair) bool {
	c := b.seat(fix.Seat)
	if c.state() == seatflow.NoSeat || c.state() != fix.SawState {
		return false
	}
	var owner seatflow.Owner
	if rec := b.owner(c); rec != nil {
		owner = rec.owner
	}
	return owner == fix.SawOwner
}

// unfold gives a view's cells and records as slices of the caller's own.
func (b *body) unfold() ([]cell, []*record) {
	cells := make([]cell, (b.size+pageMask)&^pageMask)
	b.seats.pages(func(first int, p *page[cell]) { copy(cells[first:], p[:]) })
	records := make([]*record, 1)
	b.records.pages(func(first int, p *page[*record]) {
		records = append(records, make([]*record, first+pageSize-len(records))...)
		copy(records[first:], p[:])
	})
	return cells[:b.size], records
}

// regard returns the slot of the owner that a repair gives a seat to, with
// its record as the request describes it.
func (sh *show) regard(records []*record, fresh map[seatflow.Owner]int32, fix *seatflow.SeatRepair) (int32, []*record) {
	slot, ok := fresh[fix.Want.Owner]
	if !ok {
		if slot, ok = sh.owners[fix.Want.Owner]; !ok {
			slot = int32(len(records))
			records = append(records, nil)
		}
		fresh[fix.Want.Owner] = slot
	}
	rec := newRecord(&fix.Want, fix.WantState)
	if rec.state == seatflow.Held {
		rec.wake = newWakeUp(sh, rec)
	}
	records[slot] = rec
	return slot, records
}
