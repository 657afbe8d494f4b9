package notice

import (
	"sync"
	"sync/atomic"

	"seatflow"
)

// Port is where transports get the notices of the users that are connected to
// them.
type Port interface {
	// Subscribe begins to deliver a user's notices. The channel is closed when
	// cancel is called, when the subscriber does not keep up, and when the
	// node stops. cancel may be called twice and from any goroutine.
	Subscribe(user seatflow.UserID) (notices <-chan seatflow.Notice, cancel func())
}

// queueLen is how many notices may wait for a subscriber: a buyer has a
// handful of orders, and who does not read for that many is not there.
const queueLen = 64

// Rooms delivers notices to the subscribers of one node. The zero value is
// ready; methods may be called concurrently.
type Rooms struct {
	// Entered, if set, is called with each user who got the first
	// subscription, and Left with each who lost the last. They are called one
	// at a time for a user, in order, under that user's lock: they must not
	// call back.
	Entered, Left func(user seatflow.UserID)

	mu     sync.RWMutex
	rooms  map[seatflow.UserID]*room
	closed bool
	cuts   atomic.Int64
}

type room struct {
	subs map[*subscription]struct{}
}

type subscription struct {
	ch   chan seatflow.Notice
	gone bool // closed; guarded by Rooms.mu
}

// Subscribe implements [Port].
func (r *Rooms) Subscribe(user seatflow.UserID) (<-chan seatflow.Notice, func()) {
	s := &subscription{ch: make(chan seatflow.Notice, queueLen)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		s.gone = true
		close(s.ch)
		return s.ch, func() {}
	}
	if r.rooms == nil {
		r.rooms = make(map[seatflow.UserID]*room)
	}
	at := r.rooms[user]
	if at == nil {
		at = &room{subs: make(map[*subscription]struct{}, 1)}
		r.rooms[user] = at
		if r.Entered != nil {
			r.Entered(user)
		}
	}
	at.subs[s] = struct{}{}
	return s.ch, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.remove(user, s)
	}
}

// remove takes a subscription off and closes its channel. The caller holds
// the lock.
func (r *Rooms) remove(user seatflow.UserID, s *subscription) {
	if s.gone {
		return
	}
	s.gone = true
	close(s.ch)
	at := r.rooms[user]
	delete(at.subs, s)
	if len(at.subs) == 0 {
		delete(r.rooms, user)
		if r.Left != nil {
			r.Left(user)
		}
	}
}

// Deliver gives a notice to every subscription of its user, and reports
// whether there was one. Who has no room left in the queue is cut.
func (r *Rooms) Deliver(n seatflow.Notice) bool {
	r.mu.RLock()
	_, here := r.rooms[n.User]
	r.mu.RUnlock()
	if !here {
		return false // nearly always: most users are elsewhere
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.rooms[n.User]
	if at == nil {
		return false
	}
	for s := range at.subs {
		r.push(s, n)
	}
	return true
}

// push queues a notice or cuts the subscriber. The caller holds the lock.
func (r *Rooms) push(s *subscription, n seatflow.Notice) {
	select {
	case s.ch <- n:
	default:
		r.cuts.Add(1)
		r.remove(n.User, s)
	}
}

// DeliverAll gives a notice to everyone, whoever it names.
func (r *Rooms) DeliverAll(n seatflow.Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for user, at := range r.rooms {
		n.User = user
		for s := range at.subs {
			r.push(s, n)
		}
	}
}

// Here reports whether a user has a subscription on this node.
func (r *Rooms) Here(user seatflow.UserID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.rooms[user]
	return ok
}

// who lists the users who are here.
func (r *Rooms) who() []seatflow.UserID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]seatflow.UserID, 0, len(r.rooms))
	for user := range r.rooms {
		list = append(list, user)
	}
	return list
}

// Users returns how many users have a subscription here.
func (r *Rooms) Users() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.rooms)
}

// Cuts returns how many subscribers were cut because they did not read.
func (r *Rooms) Cuts() int64 { return r.cuts.Load() }

// Close closes every subscription; later ones are closed from the start.
func (r *Rooms) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for user, at := range r.rooms {
		for s := range at.subs {
			r.remove(user, s)
		}
	}
}
