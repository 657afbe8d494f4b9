package live

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"seatflow"
)

const (
	// busQueueMost is how many messages of a partition may wait for the hub;
	// when there are more, snapshots are cheaper.
	busQueueMost = 1024
	// busTakeMost is how many are taken at once: each may hold many changes,
	// and all of them have to fit into the ring.
	busTakeMost = 32
)

var errEnded = errors.New("the subscription ended by itself")

// busFeed follows what the relays publish.
type busFeed struct {
	bus seatflow.Bus
	log *slog.Logger
}

// BusFeed returns a feed that subscribes to the partitions being watched, so
// that any number of nodes cost the seat store one reader.
func BusFeed(bus seatflow.Bus, log *slog.Logger) Feed {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return busFeed{bus, log}
}

// Follow implements [Feed]. The subscription begins with the first Next; when
// it is ready the source says that something may have been missed, so that
// nobody needs to wait for it.
func (f busFeed) Follow(_ context.Context, partition seatflow.Partition) (Source, error) {
	return &busSource{busFeed: f, partition: partition, wake: make(chan struct{}, 1)}, nil
}

type busSource struct {
	busFeed
	partition seatflow.Partition
	cancel    context.CancelFunc // nil before the first Next
	done      chan struct{}
	wake      chan struct{}

	mu     sync.Mutex
	queue  []seatflow.Message
	missed bool
}

// Next implements [Source].
func (s *busSource) Next(ctx context.Context, limit int, wait time.Duration) (News, error) {
	if s.cancel == nil {
		var subscribed context.Context
		subscribed, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
		s.done = make(chan struct{})
		go s.subscribe(subscribed)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if n, any := s.take(limit); any {
			return n, nil
		}
		select {
		case <-s.wake:
		case <-timer.C:
			return News{}, nil
		case <-ctx.Done():
			return News{}, ctx.Err()
		}
	}
}

// take takes what waits.
func (s *busSource) take(limit int) (n News, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 && !s.missed {
		return News{}, false
	}
	most := min(limit, busTakeMost, len(s.queue))
	n = News{Messages: s.queue[:most:most], Missed: s.missed, More: most < len(s.queue)}
	s.queue, s.missed = s.queue[most:], false
	return n, true
}

// deliver queues messages. It never waits: a hub that cannot follow takes
// snapshots.
func (s *busSource) deliver(messages []seatflow.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		if m.Gap {
			s.miss()
		}
		if m.Subject != "" {
			s.queue = append(s.queue, m)
		}
	}
	if len(s.queue) > busQueueMost {
		s.miss()
	}
	s.signal()
}

// miss notes that snapshots are due; they cover what waits.
func (s *busSource) miss() { s.queue, s.missed = nil, true }

func (s *busSource) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// subscribe keeps the partition subscribed until the source is closed. From
// the moment that a subscription is ready nothing more is missed; before,
// something may have been.
func (s *busSource) subscribe(ctx context.Context) {
	defer close(s.done)
	ready := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.miss()
		s.signal()
	}
	retry := time.Duration(0)
	for ctx.Err() == nil {
		err := s.bus.Subscribe(ctx, seatflow.PartitionSubjects(s.partition), ready, s.deliver)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errEnded
		}
		if retry == 0 {
			s.log.Error("cannot follow seat changes on the bus: trying again", "partition", s.partition, "err", err)
		}
		retry = later(retry)
		pause(ctx, retry)
	}
}

// Close implements [Source].
func (s *busSource) Close() {
	if s.cancel != nil {
		s.cancel()
		<-s.done
	}
}

// showOf reads the show that a message is about from its subject.
func showOf(subject string) (seatflow.ShowID, bool) {
	id, err := strconv.ParseInt(subject[strings.LastIndexByte(subject, '.')+1:], 10, 64)
	return seatflow.ShowID(id), err == nil
}

// hear takes in a message that is about this show, by store, generation and
// revision.
func (f *feed) hear(m *seatflow.Message) {
	f.hub.opt.Lamport.ReceiveMessage(m)
	e, err := seatflow.ParseSeatsEvent(m.Payload)
	if err != nil {
		f.hub.opt.Log.Warn("a message that cannot be read: taking a snapshot", "show", f.show, "err", err)
		f.doubt(false)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := e.Type == seatflow.SeatsChanged
	switch {
	case e.Show != f.show:
		f.stale = true
	case !f.live && changed && (f.identity == "" || f.identity == e.Store):
		f.identity = e.Store // that the first map must be of
		f.addAll(e.Changes)
	case !f.live:
		f.early, f.stale = nil, true
	case f.stale:
	case e.Generation < f.head.Generation && (changed || e.Generation != 0):
	case e.Store != f.identity:
		f.stale, f.forked = true, true
	case changed:
		f.addAll(e.Changes)
	case e.Generation == 0, f.head.Before(e.Revision()):
		f.stale = true
	}
}

func (f *feed) addAll(changes []seatflow.Change) {
	for i := range changes {
		f.add(&changes[i])
	}
}
