package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"seatflow"
)

// Buses are an empty bus under test and the strings it hangs on.
type Buses struct {
	// Nodes are views of the same bus, one or more.
	Nodes []seatflow.Bus
	// Drop deletes the stream that a subject belongs to, as an operator might.
	Drop func(subject string)
	// Down takes the bus away from all nodes, Up gives it back as it was, and
	// Empty gives it back with nothing in it. nil where that cannot be.
	Down, Up, Empty func()
	// MaxPayload is more than a message may carry.
	MaxPayload int
	// Patience is how long to wait for what comes at once in a bus that does
	// as it should. Default 30 s.
	Patience time.Duration
}

// BusFactory makes an empty bus. It cleans up after itself by t.Cleanup.
type BusFactory func(t TB) Buses

// Bus checks that a backend is a seatflow.Bus, by every sentence of the
// contract.
func Bus(t *testing.T, factory BusFactory) {
	for _, c := range busCases() {
		t.Run(c.name, func(t *testing.T) { c.check(t, factory) })
	}
}

type busCase struct {
	name string
	run  func(t *busTest)
}

func (c busCase) check(t TB, factory BusFactory) {
	b := factory(t)
	if b.Patience == 0 {
		b.Patience = 30 * time.Second
	}
	c.run(&busTest{TB: t, Buses: b})
}

func busCases() []busCase { return slices.Concat(busMessageCases, busFaultCases) }

// busTest is a running case.
type busTest struct {
	TB
	Buses
}

// node returns a view of the bus; any number will do.
func (t *busTest) node(n int) seatflow.Bus { return t.Nodes[n%len(t.Nodes)] }

// seatsSubject and ordersSubject are subjects of the two streams.
func seatsSubject(show int) string { return seatflow.SeatsSubject(7, seatflow.ShowID(show)) }

func message(subject string, n int) seatflow.Message {
	return seatflow.Message{
		Subject: subject,
		ID:      fmt.Sprintf("%s/%d", subject, n),
		Header:  map[string]string{"ce-id": fmt.Sprint(n), "ce-type": "test"},
		Payload: fmt.Appendf(nil, `{"n":%d}`, n),
	}
}

// messages returns those numbered from a to b.
func messages(subject string, a, b int) []seatflow.Message {
	var list []seatflow.Message
	for n := a; n <= b; n++ {
		list = append(list, message(subject, n))
	}
	return list
}

func (t *busTest) publish(node int, list ...seatflow.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), t.Patience)
	defer cancel()
	if err := t.node(node).Publish(ctx, list...); err != nil {
		t.Fatalf("publishing %d messages: %v", len(list), err)
	}
}

// within returns a context for one call.
func (t *busTest) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// healthy wants a bus to be healthy, at once or soon: each answer is about the
// moment in which it is given, and one stream of a cluster may find its leader
// seconds after another that messages already go through.
func (t *busTest) healthy(node int, when string) {
	t.Helper()
	ctx := t.within(t.Patience)
	for {
		err := t.node(node).Healthy(ctx)
		if err == nil {
			return
		}
		select {
		case <-time.After(t.Patience / 300):
		case <-ctx.Done():
			t.Fatalf("not healthy %s: %v", when, err)
		}
	}
}

// ends waits for a call that must come to its end.
func (t *busTest) ends(what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(t.Patience):
		t.Fatalf("%s does not end", what)
		return nil
	}
}

// listener is a subscription and what came of it.
type listener struct {
	t      *busTest
	cancel context.CancelFunc
	ready  chan struct{}
	done   chan error

	mu      sync.Mutex
	readies int
	runs    [][]seatflow.Message
	got     []seatflow.Message
	read    int
	more    chan struct{} // gets a token when something came
}

// start subscribes without waiting until it is ready.
func (t *busTest) start(node int, subject string, deliver func([]seatflow.Message)) *listener {
	ctx, cancel := context.WithCancel(t.Context())
	l := &listener{t: t, cancel: cancel, ready: make(chan struct{}), done: make(chan error, 1), more: make(chan struct{}, 1)}
	go func() {
		l.done <- t.node(node).Subscribe(ctx, subject, l.onReady, func(run []seatflow.Message) {
			if deliver != nil {
				deliver(run)
			}
			l.take(run)
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-l.done:
		case <-time.After(t.Patience):
			t.Errorf("the subscription to %s does not end", subject)
		}
	})
	return l
}

// listen subscribes and waits until it is ready.
func (t *busTest) listen(node int, subject string) *listener {
	t.Helper()
	l := t.start(node, subject, nil)
	l.waitReady()
	return l
}

func (l *listener) waitReady() {
	l.t.Helper()
	select {
	case <-l.ready:
	case err := <-l.done:
		l.done <- nil
		l.t.Fatalf("the subscription ended before it was ready: %v", err)
	case <-time.After(l.t.Patience):
		l.t.Fatalf("the subscription is never ready")
	}
}

func (l *listener) onReady() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readies++; l.readies == 1 {
		close(l.ready)
	}
}

func (l *listener) take(run []seatflow.Message) {
	l.mu.Lock()
	l.runs = append(l.runs, slices.Clone(run))
	l.got = append(l.got, run...)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// next returns the next message, or a gap, in its turn.
func (l *listener) next() (seatflow.Message, bool) {
	limit := time.After(l.t.Patience)
	for {
		l.mu.Lock()
		if l.read < len(l.got) {
			m := l.got[l.read]
			l.read++
			l.mu.Unlock()
			return m, true
		}
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-limit:
			return seatflow.Message{}, false
		}
	}
}

// want waits for messages and compares them in everything that the publisher
// said.
func (l *listener) want(list ...seatflow.Message) []seatflow.Message {
	l.t.Helper()
	var got []seatflow.Message
	for i, w := range list {
		m, ok := l.next()
		if !ok {
			l.t.Fatalf("message %d of %d, %s %q, does not come", i+1, len(list), w.Subject, w.ID)
		}
		l.t.equal(m, w)
		if n := len(got); n > 0 && (m.Sequence <= got[n-1].Sequence || m.Stream != got[n-1].Stream) {
			l.t.Fatalf("%s/%d follows %s/%d", m.Stream, m.Sequence, got[n-1].Stream, got[n-1].Sequence)
		}
		if m.Gap || m.Stream == "" || m.Sequence == 0 {
			l.t.Fatalf("delivered with gap %t, stream %q, sequence %d", m.Gap, m.Stream, m.Sequence)
		}
		got = append(got, m)
	}
	return got
}

func (t *busTest) equal(got, want seatflow.Message) {
	t.Helper()
	if got.Subject != want.Subject || got.ID != want.ID || string(got.Payload) != string(want.Payload) || !maps.Equal(got.Header, want.Header) {
		t.Fatalf("got  %s %q %q %q\nwant %s %q %q %q", got.Subject, got.ID, got.Header, clip(got.Payload), want.Subject, want.ID, want.Header, clip(want.Payload))
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 80)] }

// wantGap waits for a gap. Messages that were published before it may still
// come first; they are returned.
func (l *listener) wantGap() (before []seatflow.Message, gap seatflow.Message) {
	l.t.Helper()
	for {
		m, ok := l.next()
		if !ok {
			l.t.Fatalf("no gap is announced")
		}
		if m.Gap {
			return before, m
		}
		before = append(before, m)
	}
}

// until reads until a message of an id comes, and returns what came before.
func (l *listener) until(id string) (before []seatflow.Message, m seatflow.Message) {
	l.t.Helper()
	for {
		m, ok := l.next()
		if !ok {
			l.t.Fatalf("message %q does not come", id)
		}
		if m.ID == id {
			return before, m
		}
		before = append(before, m)
	}
}

// nothing publishes a last message and finds that it is the next that comes:
// nothing else was on its way.
func (l *listener) nothing(subject string) {
	l.t.Helper()
	last := message(subject, -1)
	last.ID = ""
	l.t.publish(0, last)
	l.want(last)
}

// stop ends the subscription.
func (l *listener) stop() {
	l.t.Helper()
	l.cancel()
	if err := l.t.ends("a subscription whose context ended", l.done); err != nil {
		l.t.Fatalf("a subscription whose context ended returns %v", err)
	}
	l.done <- nil
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readies > 1 {
		l.t.Fatalf("ready %d times", l.readies)
	}
	for _, run := range l.runs {
		if len(run) == 0 {
			l.t.Fatalf("a run of nothing was delivered")
		}
	}
}

// last wants the newest message under a subject.
func (t *busTest) last(node int, subject string, want seatflow.Message) seatflow.Message {
	t.Helper()
	m, err := t.node(node).Last(t.within(t.Patience), subject)
	if err != nil {
		t.Fatalf("the last message of %s: %v", subject, err)
	}
	t.equal(m, want)
	return m
}

func (t *busTest) noLast(node int, subject string) {
	t.Helper()
	if m, err := t.node(node).Last(t.within(t.Patience), subject); !errors.Is(err, seatflow.ErrNotFound) {
		t.Fatalf("the last message of %s: %+v, %v", subject, m, err)
	}
}
