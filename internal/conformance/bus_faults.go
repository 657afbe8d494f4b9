package conformance

import (
	"context"
	"time"

	"seatflow"
)

var busFaultCases = []busCase{
	{"a stream deleted is made again", busDropped},
	{"a stream deleted while nobody publishes", busDroppedQuietly},
	{"a stream deleted again and again", busDroppedOften},
	{"a stream deleted while many publish", busDroppedBusy},
	{"away and back", busAway},
	{"away and back with nothing", busEmptied},
	{"closed twice", busClosed},
	{"closed while in use", busClosedBusy},
}

// another wants a gap of another incarnation than the one of a message.
func (l *listener) another(than seatflow.Message) seatflow.Message {
	l.t.Helper()
	_, gap := l.wantGap()
	if gap.Stream == "" || gap.Stream == than.Stream {
		l.t.Fatalf("the stream was %q and is %q after it was made again", than.Stream, gap.Stream)
	}
	return gap
}

func busDropped(t *busTest) {
	near, far, other := t.listen(0, "seatflow.seats.>"), t.listen(1, seatsSubject(1)), t.listen(0, "seatflow.orders.>")
	first := messages(seatsSubject(1), 1, 10)
	t.publish(0, first...)
	was := near.want(first...)
	far.want(first...)
	t.Drop(seatsSubject(1))
	// The same ids as before: a stream made again knows none of them.
	t.publish(0, first...)
	for _, l := range []*listener{near, far} {
		gap := l.another(was[9])
		if got := l.want(first...); got[0].Stream != gap.Stream {
			t.Fatalf("stream %q after the gap of %q", got[0].Stream, gap.Stream)
		}
	}
	t.last(1, seatsSubject(1), first[9])
	second := messages(seatsSubject(1), 11, 20)
	t.publish(1, second...)
	near.want(second...)
	far.want(second...)
	other.nothing("seatflow.orders.1.order.paid") // the other stream is none the wiser
}

func busDroppedQuietly(t *busTest) {
	l := t.listen(1, "seatflow.seats.>")
	one := message(seatsSubject(1), 1)
	t.publish(0, one)
	was := l.want(one)[0]
	t.Drop(seatsSubject(1))
	l.another(was)
	t.noLast(0, "seatflow.seats.>")
	t.Drop("seatflow.orders.1.order.paid")
	t.noLast(1, "seatflow.orders.>")
	t.Drop("seatflow.orders.1.order.paid")
	t.healthy(0, "after a stream was deleted")
	t.publish(0, message("seatflow.orders.1.order.paid", 1))
	l.nothing(seatsSubject(1))
}

func busDroppedOften(t *busTest) {
	l := t.listen(1, "seatflow.seats.>")
	for round := range 5 {
		t.Drop(seatsSubject(1))
		list := messages(seatsSubject(1), 10*round, 10*round+9)
		t.publish(round, list...)
		// What is left of the stream's life may be cut into several gaps.
		_, m := l.until(list[9].ID)
		gaps := 0
		l.mu.Lock()
		for _, g := range l.got {
			if g.Gap {
				gaps++
			}
		}
		l.mu.Unlock()
		if gaps < round+1 {
			t.Fatalf("%d gaps after the stream was deleted %d times", gaps, round+1)
		}
		t.equal(m, list[9])
	}
}

// busDroppedBusy: a consumer is told of a gap, or has everything. The message
// that was stored when its stream went, before that could be said, is published
// again, and comes again with the new stream, which cannot know its id.
func busDroppedBusy(t *busTest) {
	l := t.listen(1, "seatflow.seats.>")
	id := func(n int) string { return message(seatsSubject(1), n).ID }
	more := make(chan int) // publish up to here
	total := 0
	failed := make(chan error, 1)
	go func() {
		for limit := range more {
			for total < limit {
				total++
				if err := t.node(0).Publish(t.Context(), message(seatsSubject(1), total)); err != nil {
					failed <- err
					return
				}
			}
		}
		failed <- nil
	}()
	more <- 50
	l.until(id(50))
	go func() {
		defer close(more)
		for limit := 100; limit <= 400; limit += 50 {
			select {
			case more <- limit:
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Drop(seatsSubject(1))
	if err := t.ends("publishing while the stream is deleted", failed); err != nil {
		t.Fatalf("publishing while the stream is deleted: %v", err)
	}
	t.publish(0, message(seatsSubject(1), total+1)) // in the new stream for sure
	total++
	l.until(id(total))
	next, gaps, sure, stream := 1, 0, true, ""
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.got {
		if m.Gap {
			gaps++
			sure = false
			continue
		}
		n := next
		if !sure && m.Stream != stream && m.ID == id(next-1) {
			n--
		}
		for n <= total && m.ID != id(n) {
			n++
		}
		if n > total || sure && n != next {
			t.Fatalf("%q comes after %d messages and %d gaps", m.ID, next-1, gaps)
		}
		next, sure, stream = n+1, true, m.Stream
	}
	if gaps == 0 {
		t.Fatalf("no gap is announced")
	}
}

// fails wants a call to fail, and soon after its context ends.
func (t *busTest) fails(what string, call func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), t.Patience/30)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	if err := t.ends(what, done); err == nil {
		t.Fatalf("%s succeeds", what)
	}
}

func busAway(t *busTest) {
	if t.Down == nil {
		return
	}
	l := t.listen(1, "seatflow.seats.>")
	first := messages(seatsSubject(1), 1, 10)
	t.publish(0, first...)
	l.want(first...)
	t.Down()
	lost := message(seatsSubject(1), 11)
	t.fails("publishing to a bus that is away", func(ctx context.Context) error { return t.node(0).Publish(ctx, lost) })
	t.fails("the health of a bus that is away", t.node(0).Healthy)
	t.fails("the last message of a bus that is away", func(ctx context.Context) error {
		_, err := t.node(0).Last(ctx, seatsSubject(1))
		return err
	})
	// One that comes meanwhile is ready when the bus is back.
	late := t.start(0, "seatflow.seats.>", nil)
	select {
	case <-late.ready:
		t.Fatalf("a subscription to a bus that is away is ready")
	case <-time.After(t.Patience / 100):
	}
	t.Up()
	// By itself, and the caller need not ask twice.
	second := append([]seatflow.Message{lost}, messages(seatsSubject(1), 12, 20)...)
	t.publish(0, second...)
	_, m := l.until(lost.ID)
	t.equal(m, lost)
	l.want(second[1:]...)
	late.waitReady()
	third := messages(seatsSubject(1), 21, 30)
	t.publish(1, third...)
	l.want(third...)
	late.until(third[9].ID)
	t.healthy(1, "once the bus is back")
	t.last(0, seatsSubject(1), third[9])
}

func busEmptied(t *busTest) {
	if t.Empty == nil {
		return
	}
	l := t.listen(1, "seatflow.seats.>")
	first := messages(seatsSubject(1), 1, 10)
	t.publish(0, first...)
	was := l.want(first...)
	t.Down()
	t.Empty()
	t.publish(0, first[:3]...)
	l.another(was[9])
	l.want(first[:3]...)
	t.last(1, "seatflow.seats.>", first[2])
}

func busClosed(t *busTest) {
	l := t.start(0, "seatflow.seats.>", nil)
	l.waitReady()
	b := t.node(0)
	for range 2 {
		done := make(chan error, 1)
		go func() { done <- b.Close() }()
		if err := t.ends("closing", done); err != nil {
			t.Fatalf("closing: %v", err)
		}
	}
	_ = t.ends("a subscription of a bus that is closed", l.done)
	l.done <- nil
	calls := map[string]func(context.Context) error{
		"publishing": func(ctx context.Context) error { return b.Publish(ctx, message(seatsSubject(1), 1)) },
		"health":     b.Healthy,
		"last": func(ctx context.Context) error {
			_, err := b.Last(ctx, seatsSubject(1))
			return err
		},
		"subscribing": func(ctx context.Context) error {
			return b.Subscribe(ctx, "seatflow.seats.>", nil, func([]seatflow.Message) {})
		},
	}
	for what, call := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		if err := t.ends(what+" after closing", done); err == nil {
			t.Fatalf("%s after closing succeeds", what)
		}
	}
	if len(t.Nodes) > 1 { // the others go on
		other := &busTest{t.TB, t.Buses}
		other.Nodes = t.Nodes[1:]
		o := other.listen(0, "seatflow.seats.>")
		o.nothing(seatsSubject(1))
	}
}

func busClosedBusy(t *busTest) {
	var listeners []*listener
	for range 4 {
		listeners = append(listeners, t.listen(0, "seatflow.seats.>"))
	}
	b := t.node(0)
	const publishers = 4
	failed := make(chan error, publishers)
	for p := range publishers {
		go func() {
			for n := 1; ; n += 10 {
				if err := b.Publish(t.Context(), messages(seatsSubject(p), n, n+9)...); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	listeners[0].next()
	done := make(chan error, 1)
	go func() { done <- b.Close() }()
	if err := t.ends("closing a bus in use", done); err != nil {
		t.Fatalf("closing a bus in use: %v", err)
	}
	for range publishers {
		_ = t.ends("publishing on a bus that is closed", failed)
	}
	for _, l := range listeners {
		_ = t.ends("a subscription of a bus that is closed", l.done)
		l.done <- nil
	}
}
