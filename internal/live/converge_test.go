package live

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"

	"pgregory.net/rapid"
)

const (
	worldShows = 3 // shows 1 and 3 share a partition
	worldSeats = 9
)

// world is a store, a hub over it and viewers that come and go.
type world struct {
	t       *rapid.T
	store   *fakeStore
	hub     *Hub
	viewers []*watcher

	bus   *fakeBus // nil: the hub follows the store
	relay func()   // ends the relay; nil: none runs
}

// watcher is a viewer and its connection, if it has one.
type watcher struct {
	viewer
	sub *Subscription
}

// connect subscribes with what the viewer has. A hub whose store fails just
// now refuses; the viewer then stays away.
func (w *world) connect(v *watcher, after string) {
	sub, err := w.hub.Subscribe(context.Background(), v.show, after)
	if err != nil {
		if !errors.Is(err, seatflow.ErrNotExecuted) {
			w.t.Fatalf("subscribe: %v", err)
		}
		return
	}
	v.sub = sub
}

func (w *world) read(v *watcher, most int) {
	if v.sub == nil {
		return
	}
	more, err := v.drain(v.sub, most)
	if err != nil {
		w.t.Fatal(err)
	}
	if v.rev != "" && !w.store.was(v.show, v.rev, string(v.states)) {
		w.t.Fatalf("show %d at %s of %s: the view never was that", v.show, v.rev, v.states)
	}
	if !more {
		w.hangUp(v)
	}
}

// sync takes a viewer that does not listen on to where the show is.
func (w *world) sync(v *watcher) {
	got, err := w.hub.Since(context.Background(), v.show, v.rev)
	if err != nil {
		if !errors.Is(err, seatflow.ErrNotExecuted) {
			w.t.Fatalf("since: %v", err)
		}
		return
	}
	if err := v.since(got); err != nil {
		w.t.Fatal(err)
	}
	if !w.store.was(v.show, v.rev, string(v.states)) {
		w.t.Fatalf("show %d at %s of %s: the view never was that", v.show, v.rev, v.states)
	}
}

func (w *world) hangUp(v *watcher) {
	if v.sub != nil {
		v.sub.Close()
		v.sub = nil
	}
}

func (w *world) step() {
	show := seatflow.ShowID(rapid.IntRange(1, worldShows).Draw(w.t, "show"))
	var v *watcher
	if len(w.viewers) > 0 {
		v = rapid.SampledFrom(w.viewers).Draw(w.t, "viewer")
	}
	ops := []string{
		"change", "change", "change", "burst", "attach", "attach", "read", "read", "read", "hang up", "resume",
		"resume", "resume with map", "resume nonsense", "sync", "sync", "sync", "wait", "wait", "rebuild", "lose", "restart", "trim",
		"skip", "fail", "map", "forget reading",
	}
	if w.bus != nil {
		ops = append(ops, "bus goes", "bus comes", "bus is wiped", "bus loses", "bus lies", "relay ends", "relay begins")
	}
	switch op := rapid.SampledFrom(ops).Draw(w.t, "op"); op {
	case "change":
		w.change(show)
	case "burst":
		for range rapid.IntRange(1, 30).Draw(w.t, "burst") {
			w.change(show)
		}
	case "attach":
		if len(w.viewers) < 12 {
			v = &watcher{viewer: viewer{show: show}}
			w.viewers = append(w.viewers, v)
			w.connect(v, "")
		}
	case "read":
		if v != nil {
			w.read(v, rapid.IntRange(1, 5).Draw(w.t, "frames"))
		}
	case "hang up":
		if v != nil {
			w.hangUp(v)
		}
	case "resume":
		if v != nil && v.sub == nil {
			w.connect(v, v.rev)
		}
	case "resume with map":
		// A page that loads the map first and listens from there.
		if v != nil && v.sub == nil {
			if m := w.seatMap(v.show); m != nil {
				v.rev, v.states = m.Revision.String(), append([]byte(nil), m.States...)
				w.connect(v, v.rev)
			}
		}
	case "resume nonsense":
		if v != nil && v.sub == nil {
			w.connect(v, rapid.SampledFrom([]string{"", "x", "1.999999", "99.0", "0.0", "1.-1", "-"}).Draw(w.t, "after"))
		}
	case "sync":
		if v != nil && v.sub == nil {
			w.sync(v)
		}
	case "wait":
		time.Sleep(time.Duration(rapid.IntRange(1, 120).Draw(w.t, "ms")) * time.Millisecond)
	case "rebuild":
		w.store.rebuild(show)
	case "lose":
		w.store.lose(show)
	case "restart":
		w.store.restart()
	case "trim":
		w.store.trim()
	case "skip":
		w.store.skip(show, seatflow.Sold, 1)
	case "fail":
		w.store.with(func() {
			w.store.failChanges = rapid.IntRange(0, 3).Draw(w.t, "reads")
			w.store.failSnapshots = rapid.IntRange(0, 3).Draw(w.t, "snapshots")
		})
	case "map":
		w.seatMap(show)
	case "bus goes":
		w.bus.away(true)
	case "bus comes":
		w.bus.away(false)
	case "bus is wiped":
		w.bus.wipe()
	case "bus loses":
		w.bus.with(func() { w.bus.lose = rapid.IntRange(1, 3).Draw(w.t, "messages") })
	case "bus lies":
		w.lie(show)
	case "relay ends":
		if w.relay != nil {
			w.relay()
			w.relay = nil
		}
	case "relay begins":
		if w.relay == nil {
			w.relay = relaying(w.store, w.bus)
		}
	case "forget reading":
		// Nobody reads for so long that a queue of four overflows.
		for range 6 {
			w.change(show)
			time.Sleep(60 * time.Millisecond)
		}
	}
}

func (w *world) change(show seatflow.ShowID) {
	state := rapid.SampledFrom([]seatflow.SeatState{
		seatflow.Available, seatflow.Held, seatflow.Sold, seatflow.Blocked,
	}).Draw(w.t, "state")
	seats := rapid.SliceOfNDistinct(rapid.IntRange(1, worldSeats), 0, 4, rapid.ID[int]).Draw(w.t, "seats")
	ids := make([]seatflow.SeatID, len(seats))
	for i, s := range seats {
		ids[i] = seatflow.SeatID(s)
	}
	w.store.change(show, state, ids...)
}

// lie publishes what a relay may say that was deposed, or is broken: what was
// said before, a former store's changes, nothing readable.
func (w *world) lie(show seatflow.ShowID) {
	rev, _ := w.store.see(show)
	e := seatflow.SeatsEvent{
		Type: seatflow.SeatsChanged, Show: show, Generation: rev.Generation, Store: w.store.identityNow(), After: "nowhere",
	}
	switch kind := rapid.SampledFrom([]string{"again", "former generation", "former store", "reset", "position", "nonsense"}).Draw(w.t, "lie"); kind {
	case "again":
		var said []seatflow.Message
		w.bus.with(func() { said = w.bus.stored })
		if len(said) > 0 {
			_ = w.bus.Publish(context.Background(), rapid.SampledFrom(said).Draw(w.t, "said"))
		}
		return
	case "former generation":
		// The hub may be there still, if no relay has told it better.
		e.Generation--
		e.Store, e.First = "deposed", rev.Number+1
	case "former store":
		e.Store, e.First = "deposed", rev.Number+1
	case "reset":
		e.Type, e.Generation = seatflow.SeatsReset, 0
	case "position":
		e.Type, e.First = seatflow.SeatsPosition, rev.Number+5
	case "nonsense":
		_ = w.bus.Publish(context.Background(), seatflow.Message{Subject: seatflow.SeatsSubject(seatflow.Partition(show%2), show), Payload: []byte("{}")})
		return
	}
	e.Last = e.First
	if e.Type == seatflow.SeatsChanged {
		// A seat that nobody ever took: whoever applies it has a fork.
		e.Changes = []seatflow.Change{{Revision: seatflow.Revision{Number: e.First}, Verb: seatflow.VerbSell, At: time.Now(),
			Seats: []seatflow.SeatChange{{Seat: worldSeats, State: seatflow.Sold, Delta: 1}}}}
	}
	_ = w.bus.Publish(context.Background(), e.Message(seatflow.Partition(show%2), time.Now()))
}

// seatMap asks for a map; without replicas it must be the house as it is.
func (w *world) seatMap(show seatflow.ShowID) *Map {
	m, err := w.hub.Map(context.Background(), show)
	if err != nil {
		if !errors.Is(err, seatflow.ErrNotExecuted) {
			w.t.Fatalf("map: %v", err)
		}
		return nil
	}
	if rev, states := w.store.see(show); !w.hub.opt.Replicas && (m.Revision != rev || string(m.States) != states) {
		w.t.Fatalf("map is %s %s, the view is %s %s", m.Revision, m.States, rev, states)
	}
	return m
}

// finish lets the world come to rest and compares everyone with the store.
func (w *world) finish() {
	w.store.with(func() { w.store.failChanges, w.store.failSnapshots = 0, 0 })
	if w.bus != nil {
		w.bus.with(func() { w.bus.lose = 0 })
		w.bus.away(false)
	}
	for range 30 { // a queue of four may still overflow while the hub catches up
		for _, v := range w.viewers {
			w.read(v, 1<<20)
			if v.sub == nil {
				w.connect(v, v.rev)
			}
		}
		time.Sleep(time.Second)
	}
	for _, v := range w.viewers {
		w.read(v, 1<<20)
		if v.sub == nil {
			w.t.Fatal("a viewer that reads was cut")
		}
		if err := v.converged(w.store); err != nil {
			w.t.Fatal(err)
		}
		w.hangUp(v)
	}
	if n := w.hub.Subscribers(); n != 0 {
		w.t.Fatalf("%d subscribers are left", n)
	}
}

// TestConverge runs random histories of a store with faults, and of viewers
// who join, resume, dawdle and leave. Every frame must lead on from what its
// viewer has, and at rest every viewer must have the view.
func TestConverge(t *testing.T) {
	for _, name := range []string{"fresh", "replicas", "bus", "bus and replicas"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Hidden in a struct, because rapid asks a *testing.T for its
				// deadline, which a bubble has not.
				rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
					history(rt, strings.Contains(name, "replicas"), strings.Contains(name, "bus"))
				})
			})
		})
	}
}

func history(rt *rapid.T, replicas, bus bool) {
	s := newFakeStore()
	for show := range worldShows {
		s.open(seatflow.ShowID(show+1), worldSeats)
	}
	opt := Options{
		Seats: s, Houses: fakeHouses(worldShows), Ensure: s.ensure, Node: "n1", Replicas: replicas,
		Ring: rapid.SampledFrom([]int{1, 8, 64}).Draw(rt, "ring"), Queue: 4,
	}
	w := &world{t: rt, store: s}
	if bus {
		w.bus = newFakeBus()
		w.relay = relaying(s, w.bus)
		defer func() {
			if w.relay != nil {
				w.relay()
			}
		}()
		opt.Feed = BusFeed(w.bus, nil)
	}
	w.hub = New(opt)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.hub.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for range rapid.IntRange(1, 80).Draw(rt, "steps") {
		w.step()
	}
	w.finish()
}

// TestCheckersFail breaks streams on purpose: the viewer, by which the tests
// above judge, must notice each.
func TestCheckersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.open(1, worldSeats)
		h, stop := running(t, s, nil)
		defer stop()
		sub, err := h.Subscribe(t.Context(), 1, "")
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		frames := make([]Frame, 0, 4)
		for _, state := range []seatflow.SeatState{0, seatflow.Held, seatflow.Sold, seatflow.Available} {
			if state != 0 {
				s.change(1, state, 5)
			}
			f, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, f)
		}
		play := func(frames ...Frame) error {
			v := viewer{show: 1}
			for _, f := range frames {
				if err := v.apply(f); err != nil {
					return err
				}
			}
			return v.converged(s)
		}
		if err := play(frames...); err != nil {
			t.Fatalf("a good stream: %v", err)
		}
		// blind hides the revisions, so that only what the JSON says is left.
		blind := func(f Frame, since string) Frame {
			f.since, _ = seatflow.ParseRevision(since)
			return f
		}
		edit := func(f Frame, old, new string) Frame {
			f.Data = []byte(strings.Replace(string(f.Data), old, new, 1))
			return f
		}
		for name, bad := range map[string][]Frame{
			"skipped":                 {frames[0], frames[1], frames[3]},
			"skipped, by its delta":   {frames[0], blind(frames[3], "1.0")},
			"twice":                   {frames[0], frames[1], frames[1], frames[2], frames[3]},
			"out of order":            {frames[0], frames[2], frames[1], frames[3]},
			"last one lost":           frames[:3],
			"no snapshot":             frames[1:],
			"wrong status at the end": {frames[0], frames[1], frames[2], edit(frames[3], "available", "sold")},
			"wrong seat":              {frames[0], edit(frames[1], `"seatId":5`, `"seatId":6`), frames[2], frames[3]},
			"wrong counts":            {edit(frames[0], `"available":9`, `"available":8`), frames[1], frames[2], frames[3]},
			"another revision":        {frames[0], edit(frames[1], "1.1", "1.2"), frames[2], frames[3]},
		} {
			if play(bad...) == nil {
				t.Errorf("%s: not noticed", name)
			}
		}
	})
}
