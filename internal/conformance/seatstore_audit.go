package conformance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"seatflow"
)

// auditAll looks at every show that a case was about.
func (t *seatTest) auditAll() {
	t.Helper()
	for ref := range t.views {
		snap, err := t.Store.Snapshot(t.Context(), ref, seatflow.DetailOrders|seatflow.DetailUsers)
		if errors.Is(err, seatflow.ErrNotReady) || err == nil && len(snap.States) == 0 {
			continue // a case about its end
		}
		if err != nil {
			t.Fatalf("snapshot of show %d: %v", ref.ID, err)
		}
		if err := checkSnapshot(snap); err != nil {
			t.Errorf("show %d at %s: %v", ref.ID, snap.Revision, err)
		}
		t.replay(ref, snap)
	}
}

// checkSnapshot reports the first place where the parts of a snapshot
// disagree.
func checkSnapshot(s *seatflow.Snapshot) error {
	owned := 0
	users := make(map[seatflow.UserID]int)
	for i, o := range s.Orders {
		if i > 0 && compareOwners(s.Orders[i-1].Owner, o.Owner) >= 0 {
			return fmt.Errorf("orders are not sorted by owner at %s", o.Owner)
		}
		if len(o.Seats) == 0 || !slices.IsSorted(o.Seats) {
			return fmt.Errorf("order %s lists seats %v", o.Owner, o.Seats)
		}
		if (o.State == seatflow.Held) == o.Deadline.IsZero() {
			return fmt.Errorf("order %s is %s with deadline %v", o.Owner, o.State, o.Deadline)
		}
		for _, id := range o.Seats {
			if s.Owners[id] != o.Owner || s.States[id-1] != o.State {
				return fmt.Errorf("order %s lists seat %d as %s, which is %s and %s's", o.Owner, id, o.State, s.States[id-1], s.Owners[id])
			}
		}
		owned += len(o.Seats)
		if o.State != seatflow.Blocked {
			users[o.User] += len(o.Seats)
		}
	}
	if owned != len(s.Owners) {
		return fmt.Errorf("%d seats have owners, orders list %d", len(s.Owners), owned)
	}
	for i, state := range s.States {
		if _, has := s.Owners[seatflow.SeatID(i+1)]; !state.Valid() || has != state.Owned() {
			return fmt.Errorf("seat %d is %s and has an owner: %t", i+1, state, has)
		}
	}
	if !maps.Equal(users, s.Users) {
		return fmt.Errorf("users are charged with %v, orders amount to %v", s.Users, users)
	}
	return nil
}

// changes reads the whole log of a partition in batches, after a position.
func (t *seatTest) changes(partition seatflow.Partition, after seatflow.Position) ([]seatflow.Change, seatflow.Position) {
	t.Helper()
	var list []seatflow.Change
	for {
		batch, err := t.Store.Changes(t.Context(), seatflow.ChangesRequest{Partition: partition, After: after, Limit: 97})
		if err != nil || batch.Trimmed {
			t.Fatalf("changes after %q: trimmed %t, %v", after, batch.Trimmed, err)
		}
		list = append(list, batch.Changes...)
		after = batch.Next
		if len(batch.Changes) == 0 {
			return list, after
		}
	}
}

// replay plays the changes of a show upon the views it was given: the result
// must be the snapshot, and no revision may be missing.
func (t *seatTest) replay(ref seatflow.ShowRef, snap *seatflow.Snapshot) {
	t.Helper()
	if t.ChangesKept > 0 {
		return // some are gone
	}
	list, _ := t.changes(ref.Partition, "")
	var house *replica
	for _, c := range list {
		if c.Show != ref.ID {
			continue
		}
		if c.Verb == seatflow.VerbRebuild {
			view, known := t.views[ref][c.Revision.Generation]
			if !known || c.Revision.Number != 0 || len(c.Seats) != 0 || house != nil && c.Revision.Generation <= house.at.Generation {
				t.Errorf("show %d: rebuild told as %+v", ref.ID, c)
				return
			}
			house = newReplica(view)
			continue
		}
		if house == nil {
			t.Errorf("show %d: %+v before the first rebuild", ref.ID, c)
			return
		}
		if err := house.apply(c); err != nil {
			t.Errorf("show %d: %v", ref.ID, err)
			return
		}
	}
	if house == nil || house.at != snap.Revision || text(house.states) != text(snap.States) {
		t.Errorf("show %d: changes lead to %+v, the snapshot at %s is %s", ref.ID, house, snap.Revision, text(snap.States))
	}
}

// replica is a house that lives on changes.
type replica struct {
	at     seatflow.Revision
	states []seatflow.SeatState
}

func newReplica(view seatflow.View) *replica {
	r := &replica{at: seatflow.Revision{Generation: view.Generation}, states: slices.Clone(view.Base)}
	for _, o := range view.Orders {
		for _, id := range o.Seats {
			r.states[id-1] = o.State
		}
	}
	return r
}

func (r *replica) apply(c seatflow.Change) error {
	if want := (seatflow.Revision{Generation: r.at.Generation, Number: r.at.Number + 1}); c.Revision != want {
		return fmt.Errorf("revision %s follows %s", c.Revision, r.at)
	}
	if len(c.Seats) == 0 {
		return fmt.Errorf("change %s (%s) has no seats", c.Revision, c.Verb)
	}
	for _, s := range c.Seats {
		from := r.states[s.Seat-1]
		if want := s.State.Occupied() - from.Occupied(); s.Delta != want {
			return fmt.Errorf("change %s (%s): seat %d from %s to %s with delta %d", c.Revision, c.Verb, s.Seat, from, s.State, s.Delta)
		}
		if c.Verb != seatflow.VerbRepair {
			if to, ok := seatflow.Next(c.Verb, from, true); !ok || to != s.State {
				return fmt.Errorf("change %s: %s took seat %d from %s to %s", c.Revision, c.Verb, s.Seat, from, s.State)
			}
		}
		r.states[s.Seat-1] = s.State
	}
	r.at = c.Revision
	return nil
}

// diffSnapshots tells the first difference of two views, leaving out identity
// and time of reading.
func diffSnapshots(a, b *seatflow.Snapshot) string {
	switch {
	case a.Show != b.Show:
		return fmt.Sprintf("show %d and %d", a.Show, b.Show)
	case a.Revision != b.Revision:
		return fmt.Sprintf("revision %s and %s", a.Revision, b.Revision)
	case text(a.States) != text(b.States):
		return fmt.Sprintf("states\n\t%s\n\t%s", text(a.States), text(b.States))
	case !maps.Equal(a.Owners, b.Owners):
		return fmt.Sprintf("owners %v and %v", a.Owners, b.Owners)
	case !maps.Equal(a.Users, b.Users):
		return fmt.Sprintf("users %v and %v", a.Users, b.Users)
	case len(a.Orders) != len(b.Orders):
		return fmt.Sprintf("orders %+v and %+v", a.Orders, b.Orders)
	}
	for i := range a.Orders {
		if d := diffRecords(&a.Orders[i], &b.Orders[i]); d != "" {
			return d
		}
	}
	return ""
}

func diffRecords(a, b *seatflow.OrderRecord) string {
	same := a.Owner == b.Owner && a.User == b.User && a.KeyHash == b.KeyHash && slices.Equal(a.Seats, b.Seats) &&
		a.State == b.State && a.TakenAt.Equal(b.TakenAt) && a.Deadline.Equal(b.Deadline) && a.Cap.Equal(b.Cap)
	if same {
		return ""
	}
	return fmt.Sprintf("order %+v and %+v", *a, *b)
}

// expectRecord expects what the view keeps of an order.
func (t *seatTest) expectRecord(ref seatflow.ShowRef, want seatflow.OrderRecord) {
	t.Helper()
	for _, o := range t.snap(ref).Orders {
		if o.Owner == want.Owner {
			if d := diffRecords(&o, &want); d != "" {
				t.Fatalf("got and want: %s", d)
			}
			return
		}
	}
	t.Fatalf("no record of %s", want.Owner)
}

// at expects an instant.
func (t *seatTest) at(what string, got, want time.Time) {
	t.Helper()
	if !got.Equal(want) {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}
