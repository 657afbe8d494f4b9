package live

import (
	"context"
	"sync"
	"time"

	"seatflow"
)

// The events of a subscription.
const (
	EventSnapshot = "snapshot" // Data is the compact map: it replaces what the subscriber has
	EventUpdate   = "update"   // Data is a SeatUpdateEvent: it leads on from the frame before
)

// Frame is one message to a subscriber. Its Data is shared by all
// subscribers: do not write to it.
type Frame struct {
	ID    string // the revision that the subscriber has after it, as text
	Event string // EventSnapshot or EventUpdate
	Data  []byte // JSON without line breaks

	Map     *Map                  // of a snapshot: the house
	Changes []seatflow.SeatChange // of an update: each seat once

	Show seatflow.ShowID
	Hall seatflow.HallID // of an update

	since, to seatflow.Revision // what an update leads from and to
	states    []byte            // of a snapshot
	forms     *forms
}

// Form returns the frame as a transport encodes it beside its JSON. encode is
// called once for each kind and frame, whoever asks; what it returned is shared
// by all subscribers, so nobody may write to it.
func (f *Frame) Form(kind string, encode func(*Frame) []byte) []byte {
	if f.forms == nil { // not of a hub
		return encode(f)
	}
	return f.forms.get(kind, func() []byte { return encode(f) })
}

// forms keeps the encodings of one frame, or of one map, by kind.
type forms struct {
	mu   sync.Mutex
	list []form // a few transports at most
}

type form struct {
	kind string
	data []byte
}

func (f *forms) get(kind string, encode func() []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if f.list[i].kind == kind {
			return f.list[i].data
		}
	}
	data := encode()
	f.list = append(f.list, form{kind, data})
	return data
}

// Subscription is one subscriber's queue of frames. One goroutine reads it;
// Close may be called from any.
type Subscription struct {
	feed *feed
	at   seatflow.Revision // what the subscriber has once the queue is read; guarded by feed.mu

	mu    sync.Mutex
	queue []*Frame
	next  int // index into queue
	err   error
	wake  chan struct{}
}

func newSubscription(f *feed) *Subscription {
	return &Subscription{feed: f, wake: make(chan struct{}, 1)}
}

// Next returns the next frame, waiting for it. It returns [ErrSlow] when the
// subscriber was cut, [ErrClosed] when the subscription was closed or the hub
// has ended, and otherwise the context's error; after any of the first two it
// returns the same again.
func (s *Subscription) Next(ctx context.Context) (Frame, error) {
	for {
		s.mu.Lock()
		if s.err != nil {
			err := s.err
			s.mu.Unlock()
			return Frame{}, err
		}
		if s.next < len(s.queue) {
			f := s.queue[s.next]
			s.queue[s.next] = nil // the queue must not keep what was read
			s.next++
			if s.next == len(s.queue) {
				s.queue, s.next = s.queue[:0], 0
			}
			s.mu.Unlock()
			return *f, nil
		}
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		}
	}
}

// Close ends the subscription and frees what it holds. It may be called
// twice.
func (s *Subscription) Close() {
	s.feed.detach(s)
	s.end(ErrClosed)
}

// push queues a frame. It returns false when the queue is full.
func (s *Subscription) push(f *Frame, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return true
	}
	if f.Event == EventSnapshot {
		clear(s.queue) // a snapshot replaces whatever was not read yet
		s.queue, s.next = s.queue[:0], 0
	}
	if len(s.queue)-s.next >= most {
		return false
	}
	if s.next > 0 && len(s.queue) == cap(s.queue) {
		n := copy(s.queue, s.queue[s.next:])
		clear(s.queue[n:])
		s.queue, s.next = s.queue[:n], 0
	}
	s.queue = append(s.queue, f)
	s.signal()
	return true
}

// end makes Next return err from now on.
func (s *Subscription) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.queue, s.next = nil, 0
	s.signal()
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// attachTries bounds how often a subscriber takes a newer map because the
// feed has run ahead of the last one by more than its ring.
const attachTries = 8

// Subscribe begins to watch a show. after is the revision that the subscriber
// has, as text, or "". If what came since is still known, the first frame is
// one merged update, or none when nothing came; otherwise it is a snapshot. A
// show that is not there is CodeNoShow; after the hub's end it is [ErrClosed].
// The caller must Close the subscription.
func (h *Hub) Subscribe(ctx context.Context, show seatflow.ShowID, after string) (*Subscription, error) {
	house, err := h.house(ctx, show)
	if err != nil {
		return nil, err
	}
	f, err := h.partition(house).feed(ctx, house)
	if err != nil {
		return nil, err
	}
	defer f.release()
	s := newSubscription(f)
	for range attachTries {
		m, err := h.mapOf(ctx, house)
		if err != nil {
			return nil, err
		}
		switch ok, err := f.attach(s, m, after); {
		case err != nil:
			return nil, err
		case ok:
			return s, nil
		}
	}
	return nil, &seatflow.Error{Code: seatflow.CodeNotReady, RetryAfter: time.Second}
}
