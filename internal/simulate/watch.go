package simulate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"seatflow"
)

// watcher follows the show's map on the bus as a client's node does: the next
// change is applied, what it has is dropped, and anything else wants a
// snapshot.
type watcher struct {
	w *world
	n *node // its own; it never dies

	mu     sync.Mutex
	store  string
	rev    seatflow.Revision
	states []seatflow.SeatState
	stale  chan struct{}
	broken string
}

func (w *world) watch(i int) {
	n := &node{w: w, name: fmt.Sprintf("watcher%d", i)}
	n.ctx, n.end = context.WithCancel(w.ctx)
	v := &watcher{w: w, n: n, stale: make(chan struct{}, 1)}
	w.watchers = append(w.watchers, v)
	v.doubt()
	w.wg.Go(func() { _ = w.bus.Subscribe(n.ctx, seatflow.PartitionSubjects(place), nil, v.deliver) })
	w.wg.Go(v.refresh)
}

func (v *watcher) doubt() {
	select {
	case v.stale <- struct{}{}:
	default:
	}
}

// refresh takes snapshots when they are wanted.
func (v *watcher) refresh() {
	ctx := as(v.n.ctx, v.n.name)
	for {
		select {
		case <-v.stale:
		case <-ctx.Done():
			return
		}
		snap, err := seatsPort{v.n}.Snapshot(ctx, v.w.house.Show.Ref(), seatflow.DetailStates)
		if err != nil {
			if !rest(ctx, 300*time.Millisecond) {
				return
			}
			v.doubt()
			continue
		}
		v.mu.Lock()
		if snap.Identity != v.store || v.rev.Before(snap.Revision) {
			v.store, v.rev, v.states = snap.Identity, snap.Revision, append([]seatflow.SeatState(nil), snap.States...)
		}
		v.mu.Unlock()
	}
}

func (v *watcher) deliver(messages []seatflow.Message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	// Once for all of them, or how often would depend on who is quicker.
	doubt := false
	for _, m := range messages {
		if m.Gap {
			doubt = true
		}
		if m.Subject == "" {
			continue
		}
		e, err := seatflow.ParseSeatsEvent(m.Payload)
		if err != nil {
			v.broken = err.Error()
			continue
		}
		switch {
		case e.Generation < v.rev.Generation && e.Type != seatflow.SeatsReset:
		case e.Generation > v.rev.Generation, e.Store != v.store:
			doubt = true
		case e.Type != seatflow.SeatsChanged:
			if v.rev.Before(e.Revision()) || e.Generation == 0 {
				doubt = true
			}
		case e.First > v.rev.Number+1:
			doubt = true
		default:
			for _, c := range e.Changes {
				if c.Revision.Number != v.rev.Number+1 {
					continue
				}
				for _, s := range c.Seats {
					v.states[s.Seat-1] = s.State
				}
				v.rev = c.Revision
			}
		}
	}
	if doubt {
		v.doubt()
	}
}

// differs tells how the watcher's map is not the view, "" when it is.
func (v *watcher) differs(snap *seatflow.Snapshot) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.broken != "":
		return v.broken
	case v.rev != snap.Revision || v.store != snap.Identity:
		return fmt.Sprintf("it stands at %s, the view at %s", v.rev, snap.Revision)
	// What is written by hand has no revision, so a watcher may have read it in
	// a snapshot, and cannot hear of it when it is undone by hand.
	case !v.w.corrupted && string(bytesOf(v.states)) != string(bytesOf(snap.States)):
		return fmt.Sprintf("at %s it shows %s, the view is %s", v.rev, bytesOf(v.states), bytesOf(snap.States))
	}
	return ""
}

func bytesOf(states []seatflow.SeatState) []byte {
	b := make([]byte, len(states))
	for i, s := range states {
		b[i] = byte(s)
	}
	return b
}
