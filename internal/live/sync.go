package live

import (
	"context"
	"time"

	"seatflow"
)

// Since is what a client that was away needs to be up to date.
type Since struct {
	Show seatflow.ShowID
	// Revision is where the client stands afterwards, as text.
	Revision string
	// Changes lead there from where it stood: each seat once, deltas summed;
	// none when nothing moved.
	Changes []seatflow.SeatChange
	// Map replaces whatever the client has; nil when Changes lead on.
	Map *Map
}

// Since returns what came after a revision, as text, or the whole map where
// that is not known any more, would be longer, or after is no revision. It is
// as fresh as a subscription: what a client was told by the answer to its own
// order may be a moment ahead, and then it gets no changes and stays there.
//
// A show that is not there is CodeNoShow; after the hub's end it is
// [ErrClosed].
func (h *Hub) Since(ctx context.Context, show seatflow.ShowID, after string) (Since, error) {
	house, err := h.house(ctx, show)
	if err != nil {
		return Since{}, err
	}
	f, err := h.partition(house).feed(ctx, house)
	if err != nil {
		return Since{}, err
	}
	defer f.release()
	for range attachTries {
		m, err := h.mapOf(ctx, house)
		if err != nil {
			return Since{}, err
		}
		out, ok, err := f.since(m, after)
		switch {
		case err != nil:
			return Since{}, err
		case ok:
			return out, nil
		}
	}
	return Since{}, &seatflow.Error{Code: seatflow.CodeNotReady, RetryAfter: time.Second}
}

// changeSize is about what a change takes in an answer.
const changeSize = 48

// since is [Hub.Since] with a map. It returns false when the map is older than
// what the client may have seen, and a fresher one is needed.
func (f *feed) since(m *Map, after string) (out Since, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return out, false, ErrClosed
	}
	f.adopt(m)
	if m.Revision.Generation < f.head.Generation {
		return out, false, nil
	}
	out.Show = f.show
	rev, bad := seatflow.ParseRevision(after)
	if bad == nil && !f.stale {
		switch {
		case f.has(rev):
			changes := f.ring.merge(rev.Number, f.head.Number)
			if len(changes)*changeSize <= max(len(m.Compact), resumeAlways) {
				out.Revision, out.Changes = f.head.String(), changes
				return out, true, nil
			}
			if m.Revision.Before(rev) {
				return out, false, nil
			}
		case rev.Generation == f.head.Generation && f.head.Before(rev) && !m.Revision.Before(rev):
			out.Revision = rev.String()
			return out, true, nil
		}
	}
	out.Revision, out.Map = m.Revision.String(), m
	return out, true, nil
}
