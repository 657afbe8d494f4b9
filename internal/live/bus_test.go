package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"seatflow"
	"seatflow/internal/relay"
)

// fakeBus is a bus in memory that fails as a test likes.
type fakeBus struct {
	mu     sync.Mutex
	life   int
	stored []seatflow.Message
	subs   map[*fakeSub]bool
	down   bool // nothing can be published, and subscriptions end
	lose   int  // so many messages are stored and not delivered
}

type fakeSub struct {
	subject string
	queue   []seatflow.Message
	wake    chan struct{}
	cut     bool
}

var errBusDown = errors.New("fake bus: down")

func newFakeBus() *fakeBus { return &fakeBus{subs: map[*fakeSub]bool{}} }

func (b *fakeBus) with(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (s *fakeSub) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// wipe loses all that is stored, and what nobody has read.
func (b *fakeBus) wipe() {
	b.with(func() {
		b.life++
		b.stored = nil
		for s := range b.subs {
			s.queue = []seatflow.Message{{Gap: true}}
			s.signal()
		}
	})
}

// away takes the bus away, or gives it back.
func (b *fakeBus) away(down bool) {
	b.with(func() {
		b.down = down
		for s := range b.subs {
			s.cut = s.cut || down
			s.signal()
		}
	})
}

func (b *fakeBus) Publish(ctx context.Context, messages ...seatflow.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errBusDown
	}
	for _, m := range messages {
		m.Stream = fmt.Sprint(b.life)
		b.stored = append(b.stored, m)
		if b.lose > 0 {
			b.lose--
			continue
		}
		for s := range b.subs {
			if strings.HasPrefix(m.Subject, strings.TrimSuffix(s.subject, ">")) {
				s.queue = append(s.queue, m)
				s.signal()
			}
		}
	}
	return ctx.Err()
}

func (b *fakeBus) Subscribe(ctx context.Context, subject string, ready func(), deliver func([]seatflow.Message)) error {
	s := &fakeSub{subject: subject, wake: make(chan struct{}, 1)}
	down := false
	b.with(func() {
		if down = b.down; !down {
			b.subs[s] = true
		}
	})
	if down {
		return errBusDown
	}
	defer b.with(func() { delete(b.subs, s) })
	ready()
	for {
		var run []seatflow.Message
		cut := false
		b.with(func() { run, s.queue, cut = s.queue, nil, s.cut })
		switch {
		case cut:
			return errBusDown
		case len(run) > 0:
			deliver(run)
			continue
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *fakeBus) Last(_ context.Context, subject string) (seatflow.Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return seatflow.Message{}, errBusDown
	}
	for _, m := range slices.Backward(b.stored) {
		if strings.HasPrefix(m.Subject, strings.TrimSuffix(subject, ">")) {
			return m, nil
		}
	}
	return seatflow.Message{}, seatflow.ErrNotFound
}

func (b *fakeBus) Healthy(context.Context) error { return nil }
func (b *fakeBus) Close() error                  { return nil }

// twoLeases gives the leases of the partitions that the fake houses are in.
type twoLeases struct{}

func (twoLeases) TryLock(ctx context.Context, name string, _ time.Duration) (context.Context, seatflow.Lock, error) {
	if name != "relay:p00" && name != "relay:p01" {
		return nil, nil, seatflow.ErrLocked
	}
	ctx, cancel := context.WithCancel(ctx)
	return ctx, noLock(cancel), nil
}

func (t twoLeases) Lock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	return t.TryLock(ctx, name, lease)
}

type noLock func()

func (n noLock) Release(context.Context) error { n(); return nil }

// partitioned shows a fake store's log by partition.
type partitioned struct{ *fakeStore }

func (p partitioned) Changes(ctx context.Context, r seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	b, err := p.fakeStore.Changes(ctx, r)
	b.Changes = slices.DeleteFunc(b.Changes, func(c seatflow.Change) bool { return seatflow.Partition(c.Show%2) != r.Partition })
	return b, err
}

// relaying runs a relay from a store to a bus until the returned function is
// called.
func relaying(s *fakeStore, b *fakeBus) (stop func()) {
	r := relay.New(relay.Options{
		Seats: partitioned{s}, Bus: b, Locker: twoLeases{}, Ensure: s.ensure,
		Shows: func(_ context.Context, p seatflow.Partition) (shows []relay.Show, err error) {
			s.with(func() {
				for id := range s.houses {
					if seatflow.Partition(id%2) == p {
						shows = append(shows, relay.Show{ShowRef: seatflow.ShowRef{ID: id, Partition: p, Until: time.Now().Add(time.Hour)}, Hall: 7})
					}
				}
			})
			return shows, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	return func() { cancel(); <-done }
}
