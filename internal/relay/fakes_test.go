package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"seatflow"
	"seatflow/internal/memseats"
)

// fakeBus is a bus in memory with faults at will.
type fakeBus struct {
	mu     sync.Mutex
	life   int // of the stream
	seq    uint64
	stored []seatflow.Message
	ids    map[string]bool
	subs   map[*fakeSub]bool
	down   bool
	// before decides about a publication: how many of its messages are stored
	// and what the publisher is told. Nil: all, and nothing.
	before func(messages []seatflow.Message) (stored int, err error)
	// lose: a message for which it is true is stored and never delivered.
	lose func(seatflow.Message) bool
}

type fakeSub struct {
	subject string
	queue   []seatflow.Message
	wake    chan struct{}
}

var errDown = errors.New("fake bus: down")

func newFakeBus() *fakeBus { return &fakeBus{ids: map[string]bool{}, subs: map[*fakeSub]bool{}} }

func (b *fakeBus) with(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *fakeBus) name() string { return fmt.Sprint("life", b.life) }

// wipe loses everything stored. Subscribers hear of a gap.
func (b *fakeBus) wipe() {
	b.with(func() {
		b.life++
		b.seq, b.stored, b.ids = 0, nil, map[string]bool{}
		for s := range b.subs {
			s.queue = nil // what nobody has read yet is gone as well
			s.push(seatflow.Message{Stream: b.name(), Gap: true})
		}
	})
}

func (s *fakeSub) push(m seatflow.Message) {
	s.queue = append(s.queue, m)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (b *fakeBus) Publish(ctx context.Context, messages ...seatflow.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errDown
	}
	n, err := len(messages), error(nil)
	if b.before != nil {
		n, err = b.before(messages)
	}
	for _, m := range messages[:n] {
		if m.ID != "" && b.ids[m.ID] {
			continue
		}
		b.ids[m.ID] = true
		b.seq++
		m.Stream, m.Sequence = b.name(), b.seq
		b.stored = append(b.stored, m)
		for s := range b.subs {
			if matches(s.subject, m.Subject) && (b.lose == nil || !b.lose(m)) {
				s.push(m)
			}
		}
	}
	return err
}

func (b *fakeBus) Subscribe(ctx context.Context, subject string, ready func(), deliver func([]seatflow.Message)) error {
	s := &fakeSub{subject: subject, wake: make(chan struct{}, 1)}
	b.with(func() { b.subs[s] = true })
	defer b.with(func() { delete(b.subs, s) })
	if ready != nil {
		ready()
	}
	for {
		var run []seatflow.Message
		b.with(func() { run, s.queue = s.queue, nil })
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

func (b *fakeBus) Last(ctx context.Context, subject string) (seatflow.Message, error) {
	if err := ctx.Err(); err != nil {
		return seatflow.Message{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return seatflow.Message{}, errDown
	}
	for _, m := range slices.Backward(b.stored) {
		if matches(subject, m.Subject) {
			return m, nil
		}
	}
	return seatflow.Message{}, fmt.Errorf("fake bus: %w", seatflow.ErrNotFound)
}

func (b *fakeBus) Healthy(context.Context) error { return nil }
func (b *fakeBus) Close() error                  { return nil }

// all returns what is stored under a subject.
func (b *fakeBus) all(subject string) (found []seatflow.Message) {
	b.with(func() {
		for _, m := range b.stored {
			if matches(subject, m.Subject) {
				found = append(found, m)
			}
		}
	})
	return found
}

func matches(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case token == ">":
			return len(have) > i
		case i >= len(have) || token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}

// fakeLocks is a lock service that several nodes use.
type fakeLocks struct {
	mu   sync.Mutex
	held map[string]*fakeLease
}

type fakeLease struct {
	locks  *fakeLocks
	name   string
	node   *fakeLocker
	cancel context.CancelFunc
}

// fakeLocker is one node's access to it.
type fakeLocker struct {
	locks *fakeLocks
	dead  atomic.Bool // releases nothing any more: its leases run out
}

func newFakeLocks() *fakeLocks { return &fakeLocks{held: map[string]*fakeLease{}} }

func (l *fakeLocker) TryLock(ctx context.Context, name string, _ time.Duration) (context.Context, seatflow.Lock, error) {
	l.locks.mu.Lock()
	defer l.locks.mu.Unlock()
	if l.locks.held[name] != nil {
		return nil, nil, fmt.Errorf("fake: %w", seatflow.ErrLocked)
	}
	ctx, cancel := context.WithCancel(ctx)
	lease := &fakeLease{locks: l.locks, name: name, node: l, cancel: cancel}
	l.locks.held[name] = lease
	return ctx, lease, nil
}

func (l *fakeLocker) Lock(context.Context, string, time.Duration) (context.Context, seatflow.Lock, error) {
	return nil, nil, errors.New("fake: the relay does not wait for leases")
}

func (l *fakeLease) Release(context.Context) error {
	l.cancel()
	l.locks.mu.Lock()
	defer l.locks.mu.Unlock()
	if l.locks.held[l.name] == l && !l.node.dead.Load() {
		delete(l.locks.held, l.name)
	}
	return nil
}

// lapse ends the leases of a node; silent: its holder does not notice, as one
// that was paused.
func (l *fakeLocks) lapse(node *fakeLocker, silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, lease := range l.held {
		if lease.node == node {
			delete(l.held, name)
			if !silent {
				lease.cancel()
			}
		}
	}
}

// owned counts the leases of a node.
func (l *fakeLocks) owned(node *fakeLocker) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range l.held {
		if lease.node == node {
			n++
		}
	}
	return n
}

// failover is a seat store that can become another one.
type failover struct {
	seatflow.SeatStore // nil: a verb that is not forwarded below panics
	now                atomic.Pointer[memseats.Store]
}

func (f *failover) to(s *memseats.Store) {
	if old := f.now.Swap(s); old != nil {
		old.Close()
	}
}

func (f *failover) Hold(ctx context.Context, r seatflow.HoldRequest) (seatflow.HoldReply, error) {
	return f.now.Load().Hold(ctx, r)
}

func (f *failover) Release(ctx context.Context, s seatflow.ShowRef, o seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	return f.now.Load().Release(ctx, s, o, seats)
}

func (f *failover) Block(ctx context.Context, s seatflow.ShowRef, o seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	return f.now.Load().Block(ctx, s, o, seats)
}

func (f *failover) Changes(ctx context.Context, r seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	return f.now.Load().Changes(ctx, r)
}

func (f *failover) Snapshot(ctx context.Context, s seatflow.ShowRef, d seatflow.Detail) (*seatflow.Snapshot, error) {
	return f.now.Load().Snapshot(ctx, s, d)
}

func (f *failover) Rebuild(ctx context.Context, v seatflow.View) error {
	return f.now.Load().Rebuild(ctx, v)
}
