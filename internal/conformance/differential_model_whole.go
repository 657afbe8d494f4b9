package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"seatflow"
)

// Rebuild implements [seatflow.SeatStore].
func (m *Model) Rebuild(ctx context.Context, view seatflow.View) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	sh := &modelShow{id: view.Show.ID, partition: view.Show.Partition, generation: view.Generation, until: view.Show.Until,
		states: slices.Clone(view.Base), owners: make(map[seatflow.SeatID]seatflow.Owner),
		orders: make(map[seatflow.Owner]*seatflow.OrderRecord), wakeAt: make(map[seatflow.Owner]time.Time)}
	if err := sh.layOut(view); err != nil {
		return err
	}
	present := view.Show
	present.Until = m.now().Add(1) // a refused rebuild moves no lifetime
	f, err := m.find(ctx, present)
	if err != nil || !f.now.Before(view.Show.Until) {
		return err
	}
	if view.Generation < 1 || f.show != nil && view.Generation <= f.show.generation {
		return seatflow.ErrStaleGeneration
	}
	if f.show != nil {
		sh.passed = f.show.passed
	}
	f.show = sh
	m.shows[modelKey{sh.partition, sh.id}] = sh
	m.changed(f, seatflow.VerbRebuild, nil)
	return nil
}

func (sh *modelShow) layOut(view seatflow.View) error {
	if len(view.Base) > seatflow.MaxSeatsPerHall {
		return fmt.Errorf("model: too many seats")
	}
	for _, state := range view.Base {
		if state != seatflow.Available && state != seatflow.NoSeat {
			return fmt.Errorf("model: base state %q", byte(state))
		}
	}
	for _, o := range view.Orders {
		if o.Owner.IsZero() || sh.orders[o.Owner] != nil || !o.State.Owned() || len(o.Seats) == 0 {
			return fmt.Errorf("model: invalid record of %s", o.Owner)
		}
		o.Seats = slices.Compact(slices.Sorted(slices.Values(o.Seats)))
		if o.State != seatflow.Held {
			o.Deadline = time.Time{}
		} else {
			sh.wakeAt[o.Owner] = o.Deadline
		}
		for _, id := range o.Seats {
			if sh.state(id) != seatflow.Available {
				return fmt.Errorf("model: seat %d of %s", id, o.Owner)
			}
			sh.states[id-1], sh.owners[id] = o.State, o.Owner
		}
		sh.orders[o.Owner] = &o
	}
	return nil
}

// Repair implements [seatflow.SeatStore].
func (m *Model) Repair(ctx context.Context, req seatflow.RepairRequest) (seatflow.RepairReply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := make(map[seatflow.SeatID]bool)
	for _, fix := range req.Seats {
		if seen[fix.Seat] || fix.WantState != seatflow.Available && !fix.WantState.Owned() ||
			fix.WantState.Owned() && fix.Want.Owner.IsZero() {
			return seatflow.RepairReply{}, fmt.Errorf("model: invalid repair of seat %d", fix.Seat)
		}
		seen[fix.Seat] = true
	}
	f, err := m.view(ctx, req.Show)
	if err != nil || f.ended {
		return seatflow.RepairReply{}, err
	}
	sh := f.show
	if req.Generation != sh.generation {
		return seatflow.RepairReply{}, seatflow.ErrStaleGeneration
	}
	var reply seatflow.RepairReply
	var changes []seatflow.SeatChange
	before := maps.Clone(sh.owners)
	for _, fix := range req.Seats {
		state := sh.state(fix.Seat)
		if state == seatflow.NoSeat || state != fix.SawState || before[fix.Seat] != fix.SawOwner {
			reply.Changed = append(reply.Changed, fix.Seat)
			continue
		}
		reply.Fixed = append(reply.Fixed, fix.Seat)
		if o := sh.orders[fix.SawOwner]; o != nil {
			o.Seats = slices.DeleteFunc(o.Seats, func(id seatflow.SeatID) bool { return id == fix.Seat })
		}
		delete(sh.owners, fix.Seat)
		if fix.WantState.Owned() {
			sh.give(fix)
		}
		sh.states[fix.Seat-1] = fix.WantState
		changes = append(changes, seatflow.SeatChange{Seat: fix.Seat, State: fix.WantState,
			Delta: fix.WantState.Occupied() - state.Occupied()})
	}
	if len(changes) > 0 {
		m.changed(f, seatflow.VerbRepair, changes)
	}
	reply.Revision = sh.revision
	return reply, nil
}

// give makes a seat an order's, whose record takes over what is known of it.
func (sh *modelShow) give(fix seatflow.SeatRepair) {
	o := fix.Want
	o.State, o.Seats = fix.WantState, []seatflow.SeatID{fix.Seat}
	if old := sh.orders[o.Owner]; old != nil {
		o.Seats = slices.Sorted(slices.Values(append(o.Seats, old.Seats...)))
	}
	delete(sh.wakeAt, o.Owner)
	if o.State == seatflow.Held {
		sh.wakeAt[o.Owner] = o.Deadline
	} else {
		o.Deadline = time.Time{}
	}
	sh.orders[o.Owner], sh.owners[fix.Seat] = &o, o.Owner
}
