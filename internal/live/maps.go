package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"seatflow"
)

// Counts tells how many seats of a show are in each state.
type Counts struct {
	Available int `json:"available"`
	Held      int `json:"held"`
	Sold      int `json:"sold"`
	Blocked   int `json:"blocked"`
}

// Map is a show's seat map at one revision. It is immutable and shared: do
// not write to its slices.
type Map struct {
	Show     seatflow.ShowID
	Revision seatflow.Revision
	States   []byte // one [seatflow.SeatState] a seat, by seat id − 1
	Counts   Counts
	Compact  []byte // the JSON body of the compact form
	ETag     string // the revision and the store's identity, quoted: another store may reach the same revision

	identity string // of the store it was read from
	forms    forms  // of its snapshot frames
}

// is reports whether m shows exactly that snapshot.
func (m *Map) is(identity string, rev seatflow.Revision) bool {
	return m != nil && m.Revision == rev && m.identity == identity
}

// covers reports whether m is at least as fresh as that snapshot.
func (m *Map) covers(identity string, rev seatflow.Revision) bool {
	return m != nil && m.identity == identity && !m.Revision.Before(rev)
}

// snapshotFrame returns the frame that gives the whole map.
func (m *Map) snapshotFrame() *Frame {
	return &Frame{ID: m.Revision.String(), Event: EventSnapshot, Data: m.Compact, Map: m, Show: m.Show, to: m.Revision, states: m.States, forms: &m.forms}
}

// encodeMap makes a map. It copies states once: the map's States are the part
// of its Compact body that lists them.
func encodeMap(show seatflow.ShowID, rev seatflow.Revision, identity string, states []byte) *Map {
	c := Counts{
		Available: bytes.Count(states, []byte{byte(seatflow.Available)}),
		Held:      bytes.Count(states, []byte{byte(seatflow.Held)}),
		Sold:      bytes.Count(states, []byte{byte(seatflow.Sold)}),
		Blocked:   bytes.Count(states, []byte{byte(seatflow.Blocked)}),
	}
	text := rev.String()
	b := make([]byte, 0, len(states)+160+len(text))
	b = append(b, `{"showId":`...)
	b = strconv.AppendInt(b, int64(show), 10)
	b = append(b, `,"revision":"`...)
	b = append(b, text...)
	b = append(b, `","counts":{"available":`...)
	b = strconv.AppendInt(b, int64(c.Available), 10)
	b = append(b, `,"held":`...)
	b = strconv.AppendInt(b, int64(c.Held), 10)
	b = append(b, `,"sold":`...)
	b = strconv.AppendInt(b, int64(c.Sold), 10)
	b = append(b, `,"blocked":`...)
	b = strconv.AppendInt(b, int64(c.Blocked), 10)
	b = append(b, `},"states":"`...)
	from := len(b)
	b = append(b, states...)
	to := len(b)
	b = append(b, `"}`...)
	return &Map{
		Show: show, Revision: rev, States: b[from:to:to], Counts: c, Compact: b,
		ETag: `"` + text + "-" + identity[:min(len(identity), 8)] + `"`, identity: identity,
	}
}

// stateBytes views states as bytes. A loop that converts 60,000 of them costs
// ten times what the copy of them does.
func stateBytes(states []seatflow.SeatState) []byte {
	return unsafe.Slice((*byte)(unsafe.SliceData(states)), len(states))
}

// cell caches the newest map of a show.
type cell struct {
	current atomic.Pointer[Map]
	turn    chan struct{} // held by the one caller who encodes
	used    atomic.Bool   // since the last sweep
}

func (h *Hub) cell(show seatflow.ShowID) *cell {
	v, ok := h.cells.Load(show)
	if !ok {
		v, _ = h.cells.LoadOrStore(show, &cell{turn: make(chan struct{}, 1)})
	}
	c := v.(*cell)
	if !c.used.Load() { // mostly read, so that callers on many cores share the line
		c.used.Store(true)
	}
	return c
}

// Map returns a show's seat map. It rebuilds a view that is missing; errors
// that a caller may be told are *[seatflow.Error].
//
// Without [Options.Replicas] the map shows every change that was acknowledged
// before the call.
func (h *Hub) Map(ctx context.Context, show seatflow.ShowID) (*Map, error) {
	house, err := h.house(ctx, show)
	if err != nil {
		return nil, err
	}
	return h.mapOf(ctx, house)
}

func (h *Hub) mapOf(ctx context.Context, house *seatflow.House) (*Map, error) {
	if h.opt.Replicas {
		return h.replicaMap(ctx, house)
	}
	return h.freshMap(ctx, house)
}

// Counts returns how many seats of a show are in each state, as fresh as
// [Hub.Map].
func (h *Hub) Counts(ctx context.Context, show seatflow.ShowID) (Counts, error) {
	m, err := h.Map(ctx, show)
	if err != nil {
		return Counts{}, err
	}
	return m.Counts, nil
}

// freshMap returns a map no older than the store was at the call. Callers
// that find another revision than the cached one take turns, and whoever
// waited shares what was encoded meanwhile: under load one encoding at a time
// serves all who came before it began.
func (h *Hub) freshMap(ctx context.Context, house *seatflow.House) (*Map, error) {
	ref := house.Show.Ref()
	c := h.cell(ref.ID)
	identity, rev, err := h.revision(ctx, ref)
	if err == nil {
		if m := c.current.Load(); m.is(identity, rev) {
			return m, nil
		}
	}

	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("live: map of show %d: %w", ref.ID, ctx.Err())
	}
	if err == nil {
		if m := c.current.Load(); m.covers(identity, rev) {
			return m, nil
		}
	}
	snap, err := h.snapshot(ctx, ref)
	if err != nil {
		return nil, err
	}
	if m := c.current.Load(); m.is(snap.Identity, snap.Revision) {
		return m, nil
	}
	m := encodeMap(ref.ID, snap.Revision, snap.Identity, stateBytes(snap.States))
	c.current.Store(m)
	return m, nil
}

// revisioner is a seat store that tells where a view stands without putting
// the house together. Its errors are those of Snapshot; past a view's lifetime
// the revision is zero.
type revisioner interface {
	Revision(ctx context.Context, show seatflow.ShowRef) (identity string, rev seatflow.Revision, err error)
}

// revision reads where a view stands now.
func (h *Hub) revision(ctx context.Context, ref seatflow.ShowRef) (string, seatflow.Revision, error) {
	if h.revisions != nil {
		identity, rev, err := h.revisions.Revision(ctx, ref)
		if err == nil && rev == (seatflow.Revision{}) {
			err = errGone
		}
		return identity, rev, err
	}
	snap, err := h.opt.Seats.Snapshot(ctx, ref, seatflow.DetailStates)
	if err != nil {
		return "", seatflow.Revision{}, err
	}
	if len(snap.States) == 0 {
		return "", seatflow.Revision{}, errGone
	}
	return snap.Identity, snap.Revision, nil
}

// errGone: past its lifetime a view is gone for good, and nothing rebuilds it.
var errGone = &seatflow.Error{Code: seatflow.CodeNoShow, Err: errors.New("live: the view is past its lifetime")}

// snapshot reads a view, and has it rebuilt when it is missing.
func (h *Hub) snapshot(ctx context.Context, ref seatflow.ShowRef) (*seatflow.Snapshot, error) {
	snap, err := h.opt.Seats.Snapshot(ctx, ref, seatflow.DetailStates)
	if errors.Is(err, seatflow.ErrNotReady) && h.opt.Ensure != nil {
		if err := h.opt.Ensure(ctx, ref.ID); err != nil {
			return nil, fmt.Errorf("live: rebuild show %d: %w", ref.ID, err)
		}
		snap, err = h.opt.Seats.Snapshot(ctx, ref, seatflow.DetailStates)
	}
	switch {
	case errors.Is(err, seatflow.ErrNotReady):
		return nil, &seatflow.Error{
			Code: seatflow.CodeNotReady, Reason: seatflow.ReasonRebuilding, RetryAfter: time.Second, Err: err,
		}
	case err != nil:
		return nil, fmt.Errorf("live: snapshot of show %d: %w", ref.ID, err)
	case len(snap.States) == 0:
		return nil, errGone
	}
	return snap, nil
}

// replicaMap returns the map of a show's replica. A show that is asked for is
// followed from then on, like one that is watched.
func (h *Hub) replicaMap(ctx context.Context, house *seatflow.House) (*Map, error) {
	if h.currentPhase() != phaseRunning { // nobody would move it on
		return h.freshMap(ctx, house)
	}
	f, err := h.partition(house).feed(ctx, house)
	if err != nil {
		return h.freshMap(ctx, house)
	}
	defer f.release()
	if m := f.replica(); m != nil {
		return m, nil
	}
	m, err := h.freshMap(ctx, house)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.adopt(m)
	f.mu.Unlock()
	return m, nil
}
