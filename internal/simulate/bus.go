package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"seatflow"
)

// bus keeps messages in memory, forgets them when told to, and hands them out
// twice or in another order where the world knows such faults.
type bus struct {
	w *world

	mu     sync.Mutex
	life   int
	stored []seatflow.Message
	ids    map[string]bool
	subs   []*subscription
}

type subscription struct {
	subject string
	queue   []seatflow.Message
	wake    chan struct{}
}

func newBus(w *world) *bus { return &bus{w: w, ids: map[string]bool{}} }

func (b *bus) name() string { return fmt.Sprint("life-", b.life) }

// forget loses everything stored; subscribers hear of a gap.
func (b *bus) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life++
	b.stored, b.ids = nil, map[string]bool{}
	for _, s := range b.subs {
		s.queue = nil
		s.push(seatflow.Message{Stream: b.name(), Gap: true})
	}
}

func (s *subscription) push(m seatflow.Message) {
	s.queue = append(s.queue, m)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Publish implements [seatflow.Bus].
func (b *bus) Publish(_ context.Context, messages ...seatflow.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range messages {
		if m.ID != "" && b.ids[m.ID] {
			continue
		}
		b.ids[m.ID] = true
		m.Stream, m.Sequence = b.name(), uint64(len(b.stored)+1)
		b.stored = append(b.stored, m)
		b.w.published(&m)
		for _, s := range b.subs {
			if !matches(s.subject, m.Subject) {
				continue
			}
			s.push(m)
			if n := len(s.queue); b.w.chance(faultMessages, 0.1) {
				s.push(s.queue[b.w.rng.IntN(n)])
			}
			if n := len(s.queue); n > 1 && b.w.chance(faultMessages, 0.1) {
				i := b.w.rng.IntN(n - 1)
				s.queue[i], s.queue[n-1] = s.queue[n-1], s.queue[i]
			}
		}
	}
	return nil
}

// Subscribe implements [seatflow.Bus].
func (b *bus) Subscribe(ctx context.Context, subject string, ready func(), deliver func([]seatflow.Message)) error {
	s := &subscription{subject: subject, wake: make(chan struct{}, 1)}
	b.mu.Lock()
	b.subs = append(b.subs, s)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.subs = slices.DeleteFunc(b.subs, func(o *subscription) bool { return o == s })
	}()
	if ready != nil {
		ready()
	}
	for {
		b.mu.Lock()
		run := s.queue
		s.queue = nil
		b.mu.Unlock()
		if len(run) > 0 {
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

// Last implements [seatflow.Bus].
func (b *bus) Last(_ context.Context, subject string) (seatflow.Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range slices.Backward(b.stored) {
		if matches(subject, m.Subject) {
			return m, nil
		}
	}
	return seatflow.Message{}, fmt.Errorf("simulate: %w", seatflow.ErrNotFound)
}

// Healthy implements [seatflow.Bus].
func (b *bus) Healthy(context.Context) error { return nil }

// Close implements [seatflow.Bus].
func (b *bus) Close() error { return nil }

// matches knows the subjects that the core asks for: whole ones, and those
// that end with the rest.
func matches(pattern, subject string) bool {
	head, all := strings.CutSuffix(pattern, ">")
	return all && strings.HasPrefix(subject, head) || pattern == subject
}

// leases are given by one service to all nodes. That of a node that is dead,
// or paused for longer than it lasts, runs out.
type leases struct {
	w    *world
	mu   sync.Mutex
	held map[string]*leaseOf
}

type leaseOf struct {
	all  *leases
	name string
	node *node
	span time.Duration
	end  context.CancelFunc
}

type locker struct {
	all  *leases
	node *node
}

// TryLock implements [seatflow.Locker]. The relay's leases on partitions
// without shows are of no interest here: nobody ever gets one.
func (l locker) TryLock(ctx context.Context, name string, span time.Duration) (context.Context, seatflow.Lock, error) {
	if strings.HasPrefix(name, "relay:p") && name != fmt.Sprintf("relay:p%02d", place) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if old := l.all.held[name]; old != nil {
		if !old.ranOut(time.Now()) {
			return nil, nil, fmt.Errorf("simulate: %w", seatflow.ErrLocked)
		}
		old.end()
	}
	held, end := context.WithCancel(ctx)
	lease := &leaseOf{all: l.all, name: name, node: l.node, span: span, end: end}
	l.all.held[name] = lease
	return held, lease, nil
}

// Lock implements [seatflow.Locker]: waits by asking again.
func (l locker) Lock(ctx context.Context, name string, span time.Duration) (context.Context, seatflow.Lock, error) {
	for {
		held, lock, err := l.TryLock(ctx, name, span)
		if !errors.Is(err, seatflow.ErrLocked) {
			return held, lock, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// ranOut: a lease is renewed until its node dies or sleeps.
func (o *leaseOf) ranOut(now time.Time) bool {
	o.all.w.mu.Lock()
	defer o.all.w.mu.Unlock()
	switch {
	case o.node.dead:
		return now.Sub(o.node.diedAt) >= o.span
	case now.Before(o.node.pausedUntil):
		return now.Sub(o.node.pausedAt) >= o.span
	}
	return false
}

// Release implements [seatflow.Lock].
func (o *leaseOf) Release(context.Context) error {
	o.end()
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	o.all.w.mu.Lock()
	dead := o.node.dead
	o.all.w.mu.Unlock()
	if o.all.held[o.name] == o && !dead {
		delete(o.all.held, o.name)
	}
	return nil
}
