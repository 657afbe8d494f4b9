package memseats

import "seatflow"

// DropView forgets a show's view at once, as a store that has lost its memory
// would. It is for tests of what finds that out and rebuilds it.
func (s *Store) DropView(ref seatflow.ShowRef) {
	p, err := s.partition(ref.Partition)
	if err != nil {
		return
	}
	if sh := (*p.shows.Load())[ref.ID]; sh != nil {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		sh.clear()
	}
}

// ForceSeat writes a state and an owner into a seat behind the view's back:
// no count, no record, no revision and no change follows. It is for tests of
// what finds that out and repairs it. A state other than the one there makes
// the counts disagree, so the view is suspect afterwards. It reports whether
// there is such a seat.
func (s *Store) ForceSeat(ref seatflow.ShowRef, id seatflow.SeatID, state seatflow.SeatState, owner seatflow.Owner) bool {
	p, err := s.partition(ref.Partition)
	if err != nil || !state.Valid() {
		return false
	}
	sh := (*p.shows.Load())[ref.ID]
	if sh == nil {
		return false
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.root.Load()
	if r == nil || id < 1 || int(id) > r.size {
		return false
	}
	e := sh.begin(r, 0, 0)
	e.next.revision = r.revision
	var rec *record
	if !owner.IsZero() {
		if rec = sh.owners[owner]; rec == nil {
			rec = &record{owner: owner, ghost: true}
		}
	}
	e.force(id, state, rec)
	sh.root.Store(e.next)
	return true
}
