package memseats

import (
	"cmp"
	"context"
	"slices"

	"seatflow"
)

// Snapshot implements [seatflow.SeatStore]. It takes no lock: the states are
// put in one piece once a revision and shared by all who ask. A view whose
// counts do not fit can be read, so that it can be repaired. After the view's
// lifetime the snapshot is empty.
func (s *Store) Snapshot(ctx context.Context, ref seatflow.ShowRef, detail seatflow.Detail) (*seatflow.Snapshot, error) {
	w, err := s.look(ctx, ref)
	if err != nil {
		return nil, err
	}
	snap := &seatflow.Snapshot{Show: ref.ID, Identity: s.identity, At: toTime(w.now)}
	if w.ended {
		return snap, nil
	}
	if w.show == nil {
		return nil, seatflow.ErrNotReady
	}
	r := w.show.root.Load()
	if r == nil {
		return nil, seatflow.ErrNotReady
	}
	snap.Revision = seatflow.Revision{Generation: r.generation, Number: r.revision}
	snap.States = r.states()
	if detail&seatflow.DetailOrders != 0 {
		snap.Orders, snap.Owners = r.orders()
	}
	if detail&seatflow.DetailUsers != 0 {
		snap.Users = make(map[seatflow.UserID]int)
		r.records(func(rec *record) {
			if n := rec.charged(); n > 0 {
				snap.Users[rec.user] += int(n)
			}
		})
	}
	return snap, nil
}

// orders lists the records, and the owners by seat.
func (b *body) orders() ([]seatflow.OrderRecord, map[seatflow.SeatID]seatflow.Owner) {
	var orders []seatflow.OrderRecord
	b.records(func(r *record) { orders = append(orders, r.export()) })
	slices.SortFunc(orders, func(a, b seatflow.OrderRecord) int { return compareOwners(a.Owner, b.Owner) })
	owners := make(map[seatflow.SeatID]seatflow.Owner, b.listed)
	b.pages(func(first int, p *page) {
		for i, r := range p.owners {
			if r != nil {
				owners[seatflow.SeatID(first+i+1)] = r.owner
			}
		}
	})
	return orders, owners
}

func compareOwners(a, b seatflow.Owner) int {
	return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Attempt, b.Attempt))
}

// export gives the record in the words of the port. The seats are copied:
// whoever sorts or cuts a reply must not reach the view.
func (r *record) export() seatflow.OrderRecord {
	return seatflow.OrderRecord{Owner: r.owner, User: r.user, KeyHash: r.key, Seats: slices.Clone(r.seats), State: r.state,
		TakenAt: toTime(r.takenAt), Deadline: toTime(r.deadline), Cap: toTime(r.cap)}
}

// newRecord takes over a record from the port, without its seats.
func newRecord(sh *show, o *seatflow.OrderRecord, state seatflow.SeatState) *record {
	r := record{owner: o.Owner, user: o.User, key: o.KeyHash, state: state,
		takenAt: fromTime(o.TakenAt), deadline: noTime, cap: fromTime(o.Cap)}
	if state != seatflow.Held {
		return &r
	}
	r.deadline = fromTime(o.Deadline)
	return newHeld(sh, r)
}
