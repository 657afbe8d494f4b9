package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seatflow"

	"github.com/go-json-experiment/json"
)

// viewer is a client as the protocol asks for one, and the checker of what it
// is sent: it believes only the JSON, and refuses frames that do not lead on
// from what it has.
type viewer struct {
	show   seatflow.ShowID
	rev    string // "" before the first snapshot
	states []byte
	frames int
}

type wireMap struct {
	ShowID   seatflow.ShowID `json:"showId"`
	Revision string          `json:"revision"`
	Counts   Counts          `json:"counts"`
	States   string          `json:"states"`
}

type wireEvent struct {
	Type      string          `json:"type"`
	Version   string          `json:"version"`
	Timestamp time.Time       `json:"timestamp"`
	ShowID    seatflow.ShowID `json:"showId"`
	HallID    seatflow.HallID `json:"hallId"`
	Revision  string          `json:"revision"`
	Lamport   uint64          `json:"lamport"`
	Node      string          `json:"node"`
	Updates   []struct {
		SeatID seatflow.SeatID `json:"seatId"`
		Status string          `json:"status"`
		Delta  int             `json:"delta"`
	} `json:"updates"`
}

var stateOf = map[string]seatflow.SeatState{
	"available": seatflow.Available, "held": seatflow.Held, "sold": seatflow.Sold, "blocked": seatflow.Blocked,
}

// apply takes a frame in.
func (v *viewer) apply(f Frame) error {
	v.frames++
	switch f.Event {
	case EventSnapshot:
		return v.snapshot(f)
	case EventUpdate:
		return v.update(f)
	}
	return fmt.Errorf("event %q", f.Event)
}

func (v *viewer) snapshot(f Frame) error {
	var m wireMap
	if err := json.Unmarshal(f.Data, &m, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("snapshot %s: %w", f.ID, err)
	}
	if m.Revision != f.ID || m.ShowID != v.show {
		return fmt.Errorf("snapshot %s: of show %d at %s", f.ID, m.ShowID, m.Revision)
	}
	have := map[byte]int{}
	for i := range len(m.States) {
		have[m.States[i]]++
	}
	if want := (Counts{have['0'], have['1'], have['2'], have['x']}); m.Counts != want {
		return fmt.Errorf("snapshot %s: counts %v, states say %v", f.ID, m.Counts, want)
	}
	v.rev, v.states = f.ID, []byte(m.States)
	return nil
}

func (v *viewer) update(f Frame) error {
	var e wireEvent
	if err := json.Unmarshal(f.Data, &e, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("update %s: %w", f.ID, err)
	}
	switch {
	case e.Type != "seat.update" || e.Version != EventVersion || e.ShowID != v.show || e.HallID != 7 || e.Node != "n1":
		return fmt.Errorf("update %s: head %+v", f.ID, e)
	case e.Revision != f.ID:
		return fmt.Errorf("update %s: says %s", f.ID, e.Revision)
	case v.rev == "":
		return fmt.Errorf("update %s before any snapshot", f.ID)
	case f.since.String() != v.rev:
		return fmt.Errorf("update %s leads on from %s, not from %s", f.ID, f.since, v.rev)
	}
	have, _ := seatflow.ParseRevision(v.rev)
	next, err := seatflow.ParseRevision(f.ID)
	if err != nil || next.Generation != have.Generation || !have.Before(next) {
		return fmt.Errorf("update %s after %s", f.ID, v.rev)
	}
	seen := map[seatflow.SeatID]bool{}
	for _, u := range e.Updates {
		state, ok := stateOf[u.Status]
		if !ok || u.SeatID < 1 || int(u.SeatID) > len(v.states) || seen[u.SeatID] {
			return fmt.Errorf("update %s: seat %d %q", f.ID, u.SeatID, u.Status)
		}
		seen[u.SeatID] = true
		was := seatflow.SeatState(v.states[u.SeatID-1])
		if u.Delta != state.Occupied()-was.Occupied() {
			return fmt.Errorf("update %s: seat %d went %s to %s with delta %d: something was skipped or came twice",
				f.ID, u.SeatID, was, state, u.Delta)
		}
		v.states[u.SeatID-1] = byte(state)
	}
	v.rev = f.ID
	return nil
}

// since takes in what came while the viewer was away.
func (v *viewer) since(s Since) error {
	if s.Map != nil {
		if s.Changes != nil || s.Revision != s.Map.Revision.String() {
			return fmt.Errorf("since %s: a map at %s and %d changes", v.rev, s.Map.Revision, len(s.Changes))
		}
		return v.snapshot(*s.Map.snapshotFrame())
	}
	have, err := seatflow.ParseRevision(v.rev)
	if err != nil {
		return fmt.Errorf("since %q: no map", v.rev)
	}
	next, err := seatflow.ParseRevision(s.Revision)
	if err != nil || next.Generation != have.Generation || next.Before(have) || next == have && len(s.Changes) > 0 {
		return fmt.Errorf("since %s: %d changes to %s", v.rev, len(s.Changes), s.Revision)
	}
	seen := map[seatflow.SeatID]bool{}
	for _, c := range s.Changes {
		if c.Seat < 1 || int(c.Seat) > len(v.states) || seen[c.Seat] {
			return fmt.Errorf("since %s: seat %d", v.rev, c.Seat)
		}
		seen[c.Seat] = true
		if was := seatflow.SeatState(v.states[c.Seat-1]); c.Delta != c.State.Occupied()-was.Occupied() {
			return fmt.Errorf("since %s: seat %d went %s to %s with delta %d: something was skipped or came twice", v.rev, c.Seat, was, c.State, c.Delta)
		}
		v.states[c.Seat-1] = byte(c.State)
	}
	v.rev = s.Revision
	return nil
}

// drain applies the frames that are queued now. more is false when the
// subscription has ended.
func (v *viewer) drain(s *Subscription, most int) (more bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range most {
		f, err := s.Next(ctx)
		switch {
		case errors.Is(err, context.Canceled):
			return true, nil
		case errors.Is(err, ErrSlow), errors.Is(err, ErrClosed):
			return false, nil
		case err != nil:
			return false, err
		}
		if err := v.apply(f); err != nil {
			return false, err
		}
	}
	return true, nil
}

// converged compares a viewer with the store.
func (v *viewer) converged(s *fakeStore) error {
	rev, states := s.see(v.show)
	if v.rev != rev.String() || string(v.states) != states {
		return fmt.Errorf("show %d: viewer has %s %s, the view is %s %s", v.show, v.rev, v.states, rev, states)
	}
	return nil
}
