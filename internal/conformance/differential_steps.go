package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"seatflow"
)

const duelSeats = 14 // few, so that callers meet

// step makes up one operation and gives it to both stores.
func (d *duel) step(rng *rand.Rand) string {
	ref := places[min(rng.IntN(8), len(places)-1)%len(places)]
	if rng.IntN(3) > 0 {
		ref = places[0]
	}
	// Mostly alive; now and then asked too late, or told of a later end.
	now := d.stores[0].Now()
	ref.Until = now.Add([]time.Duration{2 * time.Hour, 2 * time.Hour, 2 * time.Hour, 5 * time.Hour, 0}[min(4, rng.IntN(40)/9)])
	owner := seatflow.Owner{Order: order(1 + rng.IntN(7)).Order, Attempt: int32(1 + rng.IntN(10)/9)}
	ctx := d.ctx
	where := fmt.Sprintf("%d/%d until +%v", ref.Partition, ref.ID, ref.Until.Sub(now))

	switch k := rng.IntN(100); {
	case k < 34:
		req := d.holdRequest(rng, ref, owner)
		return d.both(fmt.Sprintf("hold %s %s by %s %v for %v cap %v key %x limit %d rate %d", where, owner, req.User, req.Seats,
			req.For, req.Cap, req.KeyHash[:2], req.Limit, req.Rate),
			func(s seatflow.SeatStore) (any, error) { return s.Hold(ctx, req) })
	case k < 40:
		to := now.Add(time.Duration(rng.IntN(50)-10) * time.Minute)
		return d.both(fmt.Sprintf("extend %s %s to +%v", where, owner, to.Sub(now)),
			func(s seatflow.SeatStore) (any, error) { return s.Extend(ctx, ref, owner, to) })
	case k < 48:
		return d.both(fmt.Sprintf("sell %s %s", where, owner),
			func(s seatflow.SeatStore) (any, error) { return s.Sell(ctx, ref, owner) })
	case k < 56:
		ids := someSeats(rng)
		return d.both(fmt.Sprintf("release %s %s %v", where, owner, ids),
			func(s seatflow.SeatStore) (any, error) { return s.Release(ctx, ref, owner, ids) })
	case k < 62:
		ids := someSeats(rng)
		return d.both(fmt.Sprintf("unsell %s %s %v", where, owner, ids),
			func(s seatflow.SeatStore) (any, error) { return s.Unsell(ctx, ref, owner, ids) })
	case k < 66:
		ids := someSeats(rng)
		return d.both(fmt.Sprintf("block %s %s %v", where, owner, ids),
			func(s seatflow.SeatStore) (any, error) { return s.Block(ctx, ref, owner, ids) })
	case k < 70:
		ids := someSeats(rng)
		return d.both(fmt.Sprintf("unblock %s %s %v", where, owner, ids),
			func(s seatflow.SeatStore) (any, error) { return s.Unblock(ctx, ref, owner, ids) })
	case k < 77:
		limit, lease := rng.IntN(5), time.Duration(rng.IntN(4))*time.Minute
		return d.both(fmt.Sprintf("claim %d limit %d lease %v", ref.Partition, limit, lease),
			func(s seatflow.SeatStore) (any, error) { return s.ClaimDue(ctx, ref.Partition, limit, lease) })
	case k < 82:
		view := d.view(rng, ref)
		return d.both(fmt.Sprintf("rebuild %s generation %d with %s %+v", where, view.Generation, text(view.Base), view.Orders),
			func(s seatflow.SeatStore) (any, error) { return nil, s.Rebuild(ctx, view) })
	case k < 89:
		req := d.repairRequest(rng, ref)
		return d.both(fmt.Sprintf("repair %s %+v", where, req),
			func(s seatflow.SeatStore) (any, error) { return s.Repair(ctx, req) })
	case k < 90:
		gone, cancel := context.WithCancel(ctx)
		cancel()
		return d.both(fmt.Sprintf("sell %s %s, given up", where, owner),
			func(s seatflow.SeatStore) (any, error) { return s.Sell(gone, ref, owner) })
	default:
		by := []time.Duration{time.Millisecond, 400 * time.Millisecond, 30 * time.Second, 5 * time.Minute, 20 * time.Minute, 3 * time.Hour}[min(5, rng.IntN(26)/5)]
		d.log = append(d.log, fmt.Sprintf("advance %v", by))
		for _, s := range d.stores {
			s.Advance(by)
		}
		return ""
	}
}

// someSeats makes a list in any order, with repeats and strangers, or none.
func someSeats(rng *rand.Rand) []seatflow.SeatID {
	if rng.IntN(3) == 0 {
		return nil
	}
	ids := make([]seatflow.SeatID, rng.IntN(6))
	for i := range ids {
		ids[i] = seatflow.SeatID(rng.IntN(duelSeats + 2))
	}
	return ids
}

func (d *duel) holdRequest(rng *rand.Rand, ref seatflow.ShowRef, owner seatflow.Owner) seatflow.HoldRequest {
	req := seatflow.HoldRequest{Show: ref, Owner: owner, User: user(rng.IntN(3)), Limit: rng.IntN(8), Rate: max(0, rng.IntN(12)-5),
		For: time.Duration(rng.IntN(20)) * time.Minute, Cap: time.Duration(rng.IntN(30)) * time.Minute}
	for range 1 + rng.IntN(4) {
		req.Seats = append(req.Seats, seatflow.SeatID(rng.IntN(duelSeats+2)))
	}
	if rng.IntN(30) > 0 {
		slices.Sort(req.Seats)
		req.Seats = slices.Compact(req.Seats)
	}
	if rng.IntN(2) == 0 {
		req.KeyHash = seatflow.HashKey(req.User, fmt.Sprint(rng.IntN(2)))
	}
	// Half of the time the retry of a hold that is there.
	if orders := d.orders(ref); len(orders) > 0 && rng.IntN(4) == 0 {
		o := orders[rng.IntN(len(orders))]
		req.User, req.KeyHash, req.Seats = o.User, o.KeyHash, slices.Clone(o.Seats)
		if rng.IntN(2) == 0 {
			req.Owner = o.Owner
		}
		if req.User == "" {
			req.User = user(0)
		}
	}
	return req
}

// orders reads the records of the first store, from which the next operation
// is made up; the second is held to be the same.
func (d *duel) orders(ref seatflow.ShowRef) []seatflow.OrderRecord {
	snap := d.snapshot(ref)
	return snap.Orders
}

func (d *duel) snapshot(ref seatflow.ShowRef) *seatflow.Snapshot {
	ref.Until = d.stores[0].Now().Add(time.Hour)
	snap, err := d.stores[0].Store.Snapshot(d.ctx, ref, seatflow.DetailOrders)
	if err != nil {
		return &seatflow.Snapshot{}
	}
	return snap
}

// randomRecord describes an order; seats are left to the caller.
func (d *duel) randomRecord(rng *rand.Rand, state seatflow.SeatState) seatflow.OrderRecord {
	now := d.stores[0].Now()
	o := seatflow.OrderRecord{Owner: order(1 + rng.IntN(7)), User: user(rng.IntN(3)), State: state,
		TakenAt: now.Add(-time.Duration(rng.IntN(10)) * time.Minute)}
	if rng.IntN(2) == 0 {
		o.KeyHash = seatflow.HashKey(o.User, fmt.Sprint(rng.IntN(2)))
	}
	if state != seatflow.Blocked {
		o.Cap = now.Add(time.Duration(rng.IntN(30)) * time.Minute)
	}
	if state == seatflow.Held {
		o.Deadline = o.Cap.Add(-time.Duration(rng.IntN(15)) * time.Minute)
	}
	return o
}

func ownedState(rng *rand.Rand) seatflow.SeatState {
	return [...]seatflow.SeatState{seatflow.Held, seatflow.Sold, seatflow.Blocked}[rng.IntN(3)]
}

// view makes up facts, usually with a generation that is higher and with
// seats that are distinct.
func (d *duel) view(rng *rand.Rand, ref seatflow.ShowRef) seatflow.View {
	view := seatflow.View{Show: ref, Base: base(duelSeats, 4)}
	view.Generation = d.snapshot(ref).Revision.Generation + seatflow.Generation(rng.IntN(6)/2)
	free := rng.Perm(duelSeats)
	for range rng.IntN(5) {
		o := d.randomRecord(rng, ownedState(rng))
		twice := slices.ContainsFunc(view.Orders, func(x seatflow.OrderRecord) bool { return x.Owner == o.Owner })
		if twice && rng.IntN(20) > 0 {
			continue
		}
		for range 1 + rng.IntN(3) {
			if id := seatflow.SeatID(free[0] + 1); id != 4 || rng.IntN(20) == 0 {
				o.Seats = append(o.Seats, id)
			}
			free = append(free[1:], free[0])
		}
		if len(o.Seats) > 0 {
			slices.Sort(o.Seats)
			view.Orders = append(view.Orders, o)
		}
	}
	return view
}

// repairRequest makes up repairs of what stands there, some of them of what
// was seen wrongly.
func (d *duel) repairRequest(rng *rand.Rand, ref seatflow.ShowRef) seatflow.RepairRequest {
	snap := d.snapshot(ref)
	req := seatflow.RepairRequest{Show: ref, Generation: snap.Revision.Generation}
	if rng.IntN(15) == 0 {
		req.Generation++
	}
	for _, p := range rng.Perm(duelSeats + 1)[:rng.IntN(5)] {
		r := seatflow.SeatRepair{Seat: seatflow.SeatID(p + 1), WantState: seatflow.Available}
		if p < len(snap.States) {
			r.SawState, r.SawOwner = snap.States[p], snap.Owners[r.Seat]
		}
		if rng.IntN(6) == 0 {
			r.SawState = seatflow.States[rng.IntN(len(seatflow.States))]
		}
		if rng.IntN(6) == 0 {
			r.SawOwner = order(1 + rng.IntN(7))
		}
		if rng.IntN(3) > 0 {
			r.WantState = ownedState(rng)
			r.Want = d.randomRecord(rng, r.WantState)
		}
		req.Seats = append(req.Seats, r)
	}
	return req
}
