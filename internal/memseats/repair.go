package memseats

import (
	"context"
	"fmt"
	"slices"

	"seatflow"
	"seatflow/internal/sabotage"
)

// Repair implements [seatflow.SeatStore].
//
// A seat that becomes an owner's joins the owner's record, which takes over
// what the request says of the order; a record whose last seat goes, goes
// with its wake-up. All counts are derived anew when they do not fit, or when
// the request lists no seat, which is no change. NoSeat is not repaired, nor
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
	var fixes []*seatflow.SeatRepair
	for i := range req.Seats {
		if fix := &req.Seats[i]; r.stands(fix) {
			reply.Fixed = append(reply.Fixed, fix.Seat)
			fixes = append(fixes, fix)
		} else {
			reply.Changed = append(reply.Changed, fix.Seat)
		}
	}
	if len(fixes) == 0 && len(req.Seats) > 0 && r.fits() {
		return reply, nil
	}
	e := sh.begin(r, w.now, len(fixes))
	e.repair(fixes)
	if len(fixes) == 0 || !e.next.fits() {
		e.recount()
	}
	if len(fixes) == 0 {
		e.next.revision = r.revision
		sh.root.Store(e.next)
		return reply, nil
	}
	reply.Revision = e.next.revision
	e.publish(seatflow.VerbRepair)
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
	state, rec := b.seat(fix.Seat)
	var owner seatflow.Owner
	if rec != nil {
		owner = rec.owner
	}
	return state != seatflow.NoSeat && state == fix.SawState && (owner == fix.SawOwner || sabotage.On(sabotage.SkipOwnerCheck))
}

// repair sets seats as wanted: first the records of all orders concerned as
// they will be, then the seats.
func (e *edit) repair(fixes []*seatflow.SeatRepair) {
	var order []*record // in the order in which they were met
	later := make(map[seatflow.Owner]*record)
	regard := func(owner seatflow.Owner, want *seatflow.SeatRepair) *record {
		rec, met := later[owner]
		old := e.show.owners[owner]
		if !met && want == nil {
			if old == nil {
				return nil
			}
			copied := *old
			rec = &copied
			rec.seats = slices.Clone(old.seats)
		}
		if want != nil {
			seats := []seatflow.SeatID(nil)
			if met {
				seats = rec.seats
			} else if old != nil {
				seats = slices.Clone(old.seats)
			}
			fresh := newRecord(e.show, &want.Want, want.WantState)
			fresh.seats = seats
			if met { // keep the place in the order
				order[slices.Index(order, rec)] = fresh
			}
			rec = fresh
		}
		if !met {
			order = append(order, rec)
		}
		later[owner] = rec
		return rec
	}
	for _, fix := range fixes {
		if rec := regard(fix.SawOwner, nil); rec != nil {
			rec.seats = slices.DeleteFunc(rec.seats, func(id seatflow.SeatID) bool { return id == fix.Seat })
		}
		if fix.WantState.Owned() {
			rec := regard(fix.Want.Owner, fix)
			rec.seats = tidy(append(rec.seats, fix.Seat))
		}
	}
	for _, rec := range order {
		old := e.show.owners[rec.owner]
		e.replace(old, rec)
		if rec.wake != nil && len(rec.seats) > 0 && (old == nil || old.wake != rec.wake) {
			e.show.at.deadlines.add(rec.wake, rec.deadline)
		}
	}
	for _, fix := range fixes {
		e.seat(fix.Seat, fix.SawState, fix.WantState, later[fix.Want.Owner].ifOwned(fix.WantState))
	}
}

// ifOwned returns the record for a state that has an owner, and nil for one
// that has none.
func (r *record) ifOwned(state seatflow.SeatState) *record {
	if state.Owned() {
		return r
	}
	return nil
}

// recount derives everything from what stands in the pages: records list the
// seats that are their own, and all counts follow.
func (e *edit) recount() {
	own := make(map[seatflow.Owner][]seatflow.SeatID)
	var written counts
	e.next.pages(func(first int, p *page) {
		for i := range min(pageSize, e.next.size-first) {
			written.add(p.states[i], 1)
			if rec := p.owners[i]; rec != nil {
				own[rec.owner] = append(own[rec.owner], seatflow.SeatID(first+i+1))
			}
		}
	})
	var changed []*record
	for owner, rec := range e.show.owners {
		if !slices.Equal(rec.seats, own[owner]) {
			next := *rec
			next.seats = own[owner]
			changed = append(changed, &next)
		}
	}
	for _, rec := range changed {
		e.replace(e.show.owners[rec.owner], rec)
	}
	e.next.tally = tally{meant: written, written: written}
	clear(e.show.users)
	for _, rec := range e.show.owners {
		e.next.listed += int32(len(rec.seats))
		e.next.billed += rec.charged()
		e.charge(rec.user, rec.charged())
	}
}
