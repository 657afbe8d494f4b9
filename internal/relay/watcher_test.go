package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"seatflow"
)

// watcher is a consumer as the rules ask for one, and the checker of what the
// relay publishes. It believes the payloads only, and holds each change
// against what it has.
type watcher struct {
	seats seatflow.SeatStore
	refs  map[seatflow.ShowID]seatflow.ShowRef

	mu        sync.Mutex
	shows     map[seatflow.ShowID]*replica
	faults    []string
	snapshots int // taken after the first of each show
	repeats   int // changes seen already
	superior  map[seatflow.ShowID]seatflow.Generation
}

type replica struct {
	store  string
	rev    seatflow.Revision
	states []byte
	stale  bool // no snapshot can be had just now
}

func newWatcher(seats seatflow.SeatStore, shows []Show) *watcher {
	w := &watcher{seats: seats, refs: map[seatflow.ShowID]seatflow.ShowRef{}, shows: map[seatflow.ShowID]*replica{},
		superior: map[seatflow.ShowID]seatflow.Generation{}}
	for _, s := range shows {
		w.refs[s.ID] = s.ShowRef
	}
	return w
}

// begin takes the first snapshots.
func (w *watcher) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.refs {
		w.shows[id] = &replica{}
		w.snapshot(id)
	}
	w.snapshots, w.repeats = 0, 0
}

func (w *watcher) deliver(messages []seatflow.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range messages {
		w.apply(m)
	}
}

func (w *watcher) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *watcher) apply(m seatflow.Message) {
	if m.Gap {
		for id := range w.shows {
			w.snapshot(id)
		}
	}
	if m.Subject == "" {
		return
	}
	e, err := seatflow.ParseSeatsEvent(m.Payload)
	if err != nil {
		w.fault("%s: %v", m.Subject, err)
		return
	}
	ref, known := w.refs[e.Show]
	if !known || m.Subject != seatflow.SeatsSubject(ref.Partition, e.Show) {
		w.fault("show %d under %s", e.Show, m.Subject)
		return
	}
	if strings.Contains(string(m.Payload), "user") {
		w.fault("the public stream names a user: %s", m.Payload)
	}
	r := w.shows[e.Show]
	switch {
	case r.stale:
		w.snapshot(e.Show)
	case e.Generation < r.rev.Generation && e.Type != seatflow.SeatsReset:
		w.repeats++
	case e.Generation > r.rev.Generation, e.Store != r.store:
		w.snapshot(e.Show)
	case e.Type == seatflow.SeatsReset, e.Type == seatflow.SeatsPosition:
		if r.rev.Before(e.Revision()) || e.Generation == 0 {
			w.snapshot(e.Show)
		}
	case e.First > r.rev.Number+1:
		w.snapshot(e.Show)
	default:
		for i := range e.Changes {
			w.change(r, &e, &e.Changes[i])
		}
	}
}

func (w *watcher) change(r *replica, e *seatflow.SeatsEvent, c *seatflow.Change) {
	if c.Revision.Number <= r.rev.Number {
		w.repeats++
		return
	}
	if c.Revision.Number != r.rev.Number+1 {
		w.fault("show %d: %s after %s", e.Show, c.Revision, r.rev)
	}
	for _, s := range c.Seats {
		if int(s.Seat) > len(r.states) {
			w.fault("show %d: seat %d of %d", e.Show, s.Seat, len(r.states))
			continue
		}
		was := seatflow.SeatState(r.states[s.Seat-1])
		if s.Delta != s.State.Occupied()-was.Occupied() {
			w.fault("show %d at %s: seat %d went %s to %s with delta %d: something was skipped or came twice",
				e.Show, c.Revision, s.Seat, was, s.State, s.Delta)
		}
		r.states[s.Seat-1] = byte(s.State)
	}
	r.rev = c.Revision
}

func (w *watcher) snapshot(id seatflow.ShowID) {
	w.snapshots++
	r := w.shows[id]
	snap, err := w.seats.Snapshot(context.Background(), w.refs[id], seatflow.DetailStates)
	if err != nil {
		r.stale = true
		if !errors.Is(err, seatflow.ErrNotReady) && !errors.Is(err, seatflow.ErrNotExecuted) {
			w.fault("snapshot of show %d: %v", id, err)
		}
		return
	}
	states := make([]byte, len(snap.States))
	for i, s := range snap.States {
		states[i] = byte(s)
	}
	*r = replica{store: snap.Identity, rev: snap.Revision, states: states}
}

// check compares every replica with the store, and returns every fault.
func (w *watcher) check(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []error
	for _, f := range w.faults {
		all = append(all, errors.New(f))
	}
	for id, r := range w.shows {
		snap, err := w.seats.Snapshot(ctx, w.refs[id], seatflow.DetailStates)
		if err != nil {
			all = append(all, fmt.Errorf("show %d: %w", id, err))
			continue
		}
		var states strings.Builder
		for _, s := range snap.States {
			states.WriteByte(byte(s))
		}
		if r.stale || r.rev != snap.Revision || r.store != snap.Identity || string(r.states) != states.String() {
			all = append(all, fmt.Errorf("show %d: replica at %s of %.4s, the view at %s of %.4s", id, r.rev, r.store, snap.Revision, snap.Identity))
		}
	}
	return errors.Join(all...)
}

func (w *watcher) counts() (snapshots, repeats int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snapshots, w.repeats
}

// complete checks that messages hold every revision of every show up to where
// its view stands, in order, and returns how many they hold more than once.
// It is for streams of one generation that nothing was lost from.
func complete(ctx context.Context, seats seatflow.SeatStore, shows []Show, messages []seatflow.Message) (repeats int, err error) {
	last := map[seatflow.ShowID]int64{}
	for _, m := range messages {
		e, err := seatflow.ParseSeatsEvent(m.Payload)
		if err != nil {
			return 0, err
		}
		for i := range e.Changes {
			switch n := e.Changes[i].Revision.Number; {
			case n <= last[e.Show]:
				repeats++
			case n == last[e.Show]+1:
				last[e.Show] = n
			default:
				return repeats, fmt.Errorf("show %d: %d after %d", e.Show, n, last[e.Show])
			}
		}
	}
	for _, s := range shows {
		snap, err := seats.Snapshot(ctx, s.ShowRef, seatflow.DetailStates)
		if err != nil {
			return repeats, err
		}
		if last[s.ID] != snap.Revision.Number {
			return repeats, fmt.Errorf("show %d: published up to %d, the view is at %s", s.ID, last[s.ID], snap.Revision)
		}
	}
	return repeats, nil
}
