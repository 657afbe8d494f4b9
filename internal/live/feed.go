package live

import (
	"sync"
	"time"

	"seatflow"
)

// feed is a watched show. Its partition's follower alone adds changes to it
// and sends; subscribers attach and detach under its lock.
type feed struct {
	hub  *Hub
	show seatflow.ShowID
	hall seatflow.HallID

	retry   time.Duration // the follower's: the last pause, while no snapshot can be had
	retryAt time.Time

	mu     sync.Mutex
	users  int       // subscriptions, and callers that are about to use the feed
	idle   time.Time // since when users is 0
	subs   map[*Subscription]struct{}
	closed bool

	live     bool               // a map was installed; before, changes go to early
	early    []seatflow.Change  // read before the first map was
	stale    bool               // nothing is sent until a snapshot has been read
	forked   bool               // the snapshot counts as news even at the same revision
	identity string             // of the store that head belongs to
	head     seatflow.Revision  // read
	sent     seatflow.Revision  // sent; same generation, not after head
	at       time.Time          // of the newest change
	seen     *seatflow.Revision // where the store was at the last check, if not at head
	ring     ring               // the changes up to head
	states   []byte             // the house at head; only with Options.Replicas
	current  *Map               // encoding of states, lazily
}

// ring keeps the seats of the newest changes. Revisions have no gaps, so a
// change is found by its number.
type ring struct {
	seats [][]seatflow.SeatChange // grows to most, then wraps around
	most  int
	start int   // index of the oldest
	after int64 // number of the revision before the oldest
}

func (r *ring) reset(head int64) {
	clear(r.seats)
	r.seats, r.start, r.after = r.seats[:0], 0, head
}

func (r *ring) add(seats []seatflow.SeatChange) {
	if len(r.seats) < r.most {
		r.seats = append(r.seats, seats)
		return
	}
	r.seats[r.start] = seats
	r.start = (r.start + 1) % r.most
	r.after++
}

// get returns the change that led to a number; the caller knows that it is
// kept.
func (r *ring) get(number int64) []seatflow.SeatChange {
	i := int(number - r.after - 1)
	return r.seats[(r.start+i)%len(r.seats)]
}

// add takes in one change by its revision: next, seen, gap or higher
// generation.
func (f *feed) add(c *seatflow.Change) {
	switch {
	case !f.live:
		if len(f.early) < f.ring.most {
			f.early = append(f.early, *c)
		} else {
			f.early, f.stale = nil, true
		}
	case f.stale, c.Revision.Generation < f.head.Generation:
	case c.Revision.Generation > f.head.Generation:
		f.stale = true
	case c.Revision.Number <= f.head.Number:
	case c.Revision.Number > f.head.Number+1:
		f.stale = true
		f.hub.opt.Log.Warn("gap in a show's changes: taking a snapshot",
			"show", f.show, "have", f.head.String(), "got", c.Revision.String())
	case f.hub.opt.Replicas && !f.advance(c.Seats):
		f.stale = true // not the house that was read
	default:
		f.ring.add(c.Seats)
		f.head, f.at = c.Revision, c.At
	}
}

// advance applies one change to the replica.
func (f *feed) advance(seats []seatflow.SeatChange) bool {
	for _, c := range seats {
		if c.Seat < 1 || int(c.Seat) > len(f.states) {
			return false
		}
		f.states[c.Seat-1] = byte(c.State)
	}
	return true
}

// adopt begins a new feed with a map that was read after the feed was
// registered with its follower: what happened since is in early. A feed that
// has begun learns here that the store has become another one.
func (f *feed) adopt(m *Map) {
	if f.live {
		if m.identity != f.identity {
			f.stale, f.forked = true, true
		}
		return
	}
	if f.identity != "" && f.identity != m.identity { // what came early is of another store
		f.early, f.stale = nil, true
	}
	f.reset(m)
	f.live = true
	early := f.early
	f.early = nil
	for i := range early {
		f.add(&early[i])
	}
}

// reset places the feed at a map. The changes before it are forgotten.
func (f *feed) reset(m *Map) {
	f.identity, f.head, f.sent, f.seen = m.identity, m.Revision, m.Revision, nil
	f.ring.reset(m.Revision.Number)
	f.at = time.Now()
	if f.hub.opt.Replicas {
		f.states, f.current = append(f.states[:0], m.States...), m
	}
}

// has reports whether every change after rev, up to head, is in the ring.
func (f *feed) has(rev seatflow.Revision) bool {
	return rev.Generation == f.head.Generation && rev.Number >= f.ring.after && rev.Number <= f.head.Number
}

// attach adds a subscriber. It returns false when m is older than what the
// feed can lead on from, and a fresher map is needed.
func (f *feed) attach(s *Subscription, m *Map, after string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false, ErrClosed
	}
	f.adopt(m)
	if m.Revision.Generation < f.head.Generation || !f.begin(s, m, after) {
		return false, nil
	}
	f.users++
	f.subs[s] = struct{}{}
	f.hub.subscribers.Add(1)
	return true, nil
}

// begin queues a subscriber's first frames and sets where they lead. The
// place may lie ahead of sent, in the future of the feed even: flush takes
// each subscriber on from where it stands.
func (f *feed) begin(s *Subscription, m *Map, after string) bool {
	most := f.hub.opt.Queue
	if f.stale { // the snapshot that is due goes to everyone
		s.at = m.Revision
		return s.push(m.snapshotFrame(), most)
	}
	if rev, err := seatflow.ParseRevision(after); err == nil {
		switch {
		case f.has(rev) && !f.sent.Before(rev):
			s.at = f.sent
			if rev == f.sent {
				return true // nothing was missed
			}
			frame := f.update(rev, f.sent)
			if len(frame.Data) <= max(len(m.Compact), resumeAlways) {
				return s.push(frame, most)
			}
			// The whole house is shorter than what the subscriber missed.
		case rev.Generation == f.head.Generation && f.sent.Before(rev) && !m.Revision.Before(rev):
			s.at = rev
			return true
		}
	}
	switch {
	case f.sent.Before(m.Revision):
		s.at = m.Revision
		return s.push(m.snapshotFrame(), most)
	case f.has(m.Revision):
		s.at = f.sent
		s.push(m.snapshotFrame(), most)
		if m.Revision != f.sent {
			s.push(f.update(m.Revision, f.sent), most)
		}
		return true
	}
	return false
}

// resumeAlways is the size up to which what was missed is sent as an update
// even to a house whose map is shorter.
const resumeAlways = 16 << 10

// flush sends what was read since the last flush. It returns false when the
// feed is stale.
func (f *feed) flush() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale {
		return false
	}
	if !f.live || f.sent == f.head || f.closed {
		return true
	}
	if !f.has(f.sent) {
		f.stale = true
		return false
	}
	// Those who stand alike share a frame; nearly all stand at sent.
	var frame *Frame
	frames := make(map[int64]*Frame, 1)
	for s := range f.subs {
		if s.at.Generation != f.head.Generation || !s.at.Before(f.head) {
			continue // ahead already
		}
		if frame == nil || frame.since != s.at {
			if frame = frames[s.at.Number]; frame == nil {
				frame = f.update(s.at, f.head)
				frames[s.at.Number] = frame
			}
		}
		f.send(s, frame)
	}
	f.sent = f.head
	return true
}

// settle gives a stale feed a fresh map, which all subscribers get who do not
// have it already.
//
// A generation is a fact that only grows: a map of a lower one is what a store
// says that was deposed, and nobody gets it. settle then returns false.
func (f *feed) settle(m *Map) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return true
	}
	if f.live && m.Revision.Generation < f.head.Generation {
		return false
	}
	if f.live && !f.forked && m.is(f.identity, f.head) && f.sent == f.head {
		f.stale = false
		return true
	}
	forked := f.forked || m.identity != f.identity
	f.reset(m)
	f.live, f.early, f.stale, f.forked = true, nil, false, false
	frame := m.snapshotFrame()
	for s := range f.subs {
		if forked || s.at != m.Revision {
			f.send(s, frame)
		}
	}
	return true
}

// send queues a frame for a subscriber, or cuts it.
func (f *feed) send(s *Subscription, frame *Frame) {
	if s.push(frame, f.hub.opt.Queue) {
		s.at = frame.to
		return
	}
	f.hub.cuts.Add(1)
	f.remove(s)
	s.end(ErrSlow)
}

// detach takes a subscriber off.
func (f *feed) detach(s *Subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(s)
}

func (f *feed) remove(s *Subscription) {
	if _, ok := f.subs[s]; !ok {
		return
	}
	delete(f.subs, s)
	f.hub.subscribers.Add(-1)
	f.unuse()
}

// unuse gives up one use. The caller holds the lock.
func (f *feed) unuse() {
	if f.users--; f.users == 0 {
		f.idle = time.Now()
	}
}

// release gives up the use that partition.feed counted.
func (f *feed) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unuse()
}

// close ends the feed and its subscriptions.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for s := range f.subs {
		f.remove(s)
		s.end(ErrClosed)
	}
}

// replica returns the map of the house at head, encoding it if nobody has
// since it moved; nil when there is none to trust.
func (f *feed) replica() *Map {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.live || f.stale || f.closed {
		return nil
	}
	if !f.current.is(f.identity, f.head) {
		f.current = encodeMap(f.show, f.head, f.identity, f.states)
	}
	return f.current
}
