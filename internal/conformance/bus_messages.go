package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"seatflow"
)

var busMessageCases = []busCase{
	{"a message as it was published", busContent},
	{"order, in runs", busOrder},
	{"an id once", busDuplicates},
	{"wildcards", busWildcards},
	{"from now on", busFromNow},
	{"nothing is missed after ready", busReady},
	{"last", busLast},
	{"subscribers do not know each other", busSubscribers},
	{"many publishers and subscribers", busMany},
	{"what cannot be is refused", busInvalid},
	{"too large is refused whole", busTooLarge},
	{"contexts end", busContexts},
	{"nothing to publish", busNothing},
}

func busContent(t *busTest) {
	l := t.listen(1, "seatflow.orders.>")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	list := []seatflow.Message{
		message("seatflow.orders.42.order.paid", 1),
		{Subject: "seatflow.orders.42.order.paid", ID: "bytes", Payload: all},
		{Subject: "seatflow.orders.1.order.expired"},
		{Subject: "seatflow.orders.1.order.expired", ID: "no payload", Header: map[string]string{"ce-subject": "orders/01"}},
		{Subject: "seatflow.orders.1.x", Header: map[string]string{"ce-title": "Zürich: 座位, 50 % off; a=b", "Content-Type": "application/json", "lower-CASE": "kept"}},
		{Subject: "seatflow.orders.1.x", ID: "large", Payload: bytes.Repeat([]byte("seat"), 50_000)},
	}
	for _, m := range list {
		t.publish(0, m)
	}
	l.want(list...)
	t.publish(1, list[2], list[4])
	l.want(list[2], list[4])
	if t.Failed() {
		return
	}
	l.stop()
}

func busOrder(t *busTest) {
	l := t.listen(1, "seatflow.seats.>")
	subject := seatsSubject(42)
	list := messages(subject, 1, 1500)
	t.publish(0, list...)
	for _, m := range messages(subject, 1501, 1540) {
		t.publish(0, m)
		list = append(list, m)
	}
	more := messages(seatsSubject(43), 1, 700)
	t.publish(1, more...)
	l.want(append(list, more...)...)
	l.stop()
}

func busDuplicates(t *busTest) {
	l := t.listen(0, "seatflow.seats.>")
	one, two, three := message(seatsSubject(1), 1), message(seatsSubject(1), 2), message(seatsSubject(1), 3)
	t.publish(0, one)
	t.publish(0, one, two)
	t.publish(1, one, two, three, three)
	l.want(one, two, three)
	// The id counts, whatever else the message says.
	other := message(seatsSubject(2), 9)
	other.ID = one.ID
	t.publish(0, other)
	// What has no id is never a repetition.
	plain := message(seatsSubject(1), 4)
	plain.ID = ""
	t.publish(0, plain, plain)
	t.publish(1, plain)
	l.want(plain, plain, plain)
	// The streams do not know each other's ids.
	o := t.listen(1, "seatflow.orders.>")
	same := message("seatflow.orders.1.order.paid", 1)
	same.ID = one.ID
	t.publish(0, same)
	o.want(same)
	l.nothing(seatsSubject(1))
}

func busWildcards(t *busTest) {
	subjects := []string{
		"seatflow.seats.p07.42", "seatflow.seats.p07.43", "seatflow.seats.p08.42", "seatflow.seats.p07.42.more",
		"seatflow.orders.42.order.paid", "seatflow.orders.42.order.refunded", "seatflow.orders.43.order.paid", "seatflow.orders.42",
	}
	filters := map[string]string{ // filter → which of the subjects match
		"seatflow.seats.>":                  "0123",
		"seatflow.seats.p07.>":              "013",
		"seatflow.seats.p07.*":              "01",
		"seatflow.seats.*.42":               "02",
		"seatflow.seats.*.*":                "012",
		"seatflow.seats.*.*.more":           "3",
		"seatflow.seats.p07.42":             "0",
		"seatflow.seats.p07.42.>":           "3",
		"seatflow.orders.>":                 "4567",
		"seatflow.orders.42.>":              "45",
		"seatflow.orders.*.order.paid":      "46",
		"seatflow.orders.42.order.refunded": "5",
		"seatflow.orders.*":                 "7",
	}
	listeners := map[string]*listener{}
	for f := range filters {
		listeners[f] = t.start(len(listeners), f, nil)
	}
	for _, l := range listeners {
		l.waitReady()
	}
	var list []seatflow.Message
	for round := range 2 {
		for i, s := range subjects {
			list = append(list, message(s, round*len(subjects)+i))
		}
	}
	t.publish(0, list...)
	for f, l := range listeners {
		var want []seatflow.Message
		for i, m := range list {
			if strings.ContainsRune(filters[f], rune('0'+i%len(subjects))) {
				want = append(want, m)
			}
		}
		l.want(want...)
		l.stop()
		if n := len(l.got); n != len(want) {
			t.Fatalf("%s matched %d messages, want %d", f, n, len(want))
		}
	}
}

func busFromNow(t *busTest) {
	t.publish(0, messages(seatsSubject(1), 1, 20)...)
	l := t.listen(1, "seatflow.seats.>")
	list := messages(seatsSubject(1), 21, 25)
	t.publish(0, list...)
	l.want(list...)
	l.stop()
	if len(l.got) != len(list) {
		t.Fatalf("%d messages, want %d", len(l.got), len(list))
	}
}

func busReady(t *busTest) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	sent, failed := 0, error(nil) // messages whose publication began
	published := make(chan struct{})
	go func() {
		defer close(published)
		pace := time.NewTicker(200 * time.Microsecond)
		defer pace.Stop()
		for ctx.Err() == nil {
			<-pace.C
			mu.Lock()
			sent++
			n := sent
			mu.Unlock()
			if err := t.node(0).Publish(ctx, message(seatsSubject(1), n)); err != nil && ctx.Err() == nil {
				mu.Lock()
				failed = err
				mu.Unlock()
				return
			}
		}
	}()
	for round := range 12 {
		l := t.listen(round, "seatflow.seats.p07.1")
		mu.Lock()
		begun := sent
		mu.Unlock()
		// Whatever is published from here on comes, and nothing between.
		next := 0
		for next < begun+20 {
			m, ok := l.next()
			if !ok {
				mu.Lock()
				t.Errorf("round %d: nothing comes after message %d, of %d sent, error %v", round, next, sent, failed)
				mu.Unlock()
				break
			}
			var n int
			if _, err := fmt.Sscanf(string(m.Payload), `{"n":%d}`, &n); err != nil || next != 0 && n != next || n > begun+1 && next == 0 {
				t.Errorf("round %d: message %s follows message %d, ready when %d were begun", round, m.Payload, next-1, begun)
				break
			}
			next = n + 1
		}
		l.stop()
		if t.Failed() {
			break
		}
	}
	cancel()
	<-published
}

func busLast(t *busTest) {
	for _, s := range []string{seatsSubject(1), "seatflow.seats.p07.*", "seatflow.seats.>", "seatflow.orders.>", "seatflow.orders.1.order.paid"} {
		t.noLast(0, s)
	}
	l := t.listen(0, "seatflow.seats.>")
	one, two, elsewhere := messages(seatsSubject(1), 1, 3), messages(seatsSubject(2), 1, 2), message("seatflow.seats.p08.3", 1)
	t.publish(0, one...)
	t.publish(1, two...)
	t.publish(0, elsewhere)
	delivered := l.want(append(append(append([]seatflow.Message{}, one...), two...), elsewhere)...)
	for s, i := range map[string]int{
		seatsSubject(1): 2, seatsSubject(2): 4, "seatflow.seats.p07.*": 4, "seatflow.seats.p07.>": 4,
		"seatflow.seats.>": 5, "seatflow.seats.*.2": 4, "seatflow.seats.p08.>": 5,
	} {
		m := t.last(1, s, delivered[i])
		if m.Stream != delivered[i].Stream || m.Sequence != delivered[i].Sequence || m.Gap {
			t.Fatalf("the last of %s is %s/%d, delivered as %s/%d", s, m.Stream, m.Sequence, delivered[i].Stream, delivered[i].Sequence)
		}
	}
	t.noLast(0, seatsSubject(3))
	t.noLast(0, "seatflow.seats.p09.>")
	t.noLast(0, "seatflow.orders.>")
	// A message dropped as a repetition is not the last.
	t.publish(1, one[0])
	t.last(0, seatsSubject(1), one[2])
}

func busSubscribers(t *busTest) {
	blocked := make(chan struct{})
	release := sync.OnceFunc(func() { close(blocked) })
	defer release()
	slow := t.start(0, "seatflow.seats.>", func([]seatflow.Message) { <-blocked })
	slow.waitReady()
	fast, far := t.listen(0, "seatflow.seats.>"), t.listen(1, "seatflow.seats.>")
	list := messages(seatsSubject(1), 1, 3000)
	t.publish(0, list...)
	fast.want(list...)
	far.want(list...)
	far.stop()
	release()
	slow.want(list...)
	slow.stop()
	// One that came again begins anew; the others did not notice.
	again := t.listen(1, "seatflow.seats.>")
	more := messages(seatsSubject(1), 3001, 3010)
	t.publish(1, more...)
	fast.want(more...)
	again.want(more...)
}

func busMany(t *busTest) {
	const publishers, calls, subscribers = 8, 40, 12
	var listeners []*listener
	for i := range subscribers {
		listeners = append(listeners, t.start(i, "seatflow.seats.>", nil))
	}
	for _, l := range listeners {
		l.waitReady()
	}
	var wg sync.WaitGroup
	errs := make(chan error, publishers)
	want := map[string]int{}
	for p := range publishers {
		want[seatsSubject(p)] = calls * (calls - 1) / 2
		wg.Go(func() {
			n := 0
			for size := range calls {
				if err := t.node(p).Publish(t.Context(), messages(seatsSubject(p), n+1, n+size)...); err != nil {
					errs <- err
					return
				}
				n += size
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		t.Fatalf("publishing beside others: %v", err)
	default:
	}
	for i, l := range listeners {
		next := map[string]int{}
		for range publishers * calls * (calls - 1) / 2 {
			m, ok := l.next()
			if !ok {
				t.Fatalf("subscriber %d got only %v of %v", i, next, want)
			}
			next[m.Subject]++
			if w := message(m.Subject, next[m.Subject]); m.ID != w.ID {
				t.Fatalf("subscriber %d got %q, want %q", i, m.ID, w.ID)
			}
		}
		l.stop()
	}
}

func busInvalid(t *busTest) {
	l := t.listen(0, "seatflow.seats.>")
	good := message(seatsSubject(1), 1)
	bad := map[string]seatflow.Message{
		"no subject":            {Payload: []byte("x")},
		"a wildcard":            {Subject: "seatflow.seats.p07.*"},
		"the rest":              {Subject: "seatflow.seats.>"},
		"an empty token":        {Subject: "seatflow.seats..1"},
		"a last empty token":    {Subject: "seatflow.seats.p07."},
		"a blank":               {Subject: "seatflow.seats.p07.1 2"},
		"a line":                {Subject: "seatflow.seats.p07.1\r\n"},
		"no stream's":           {Subject: "seatflow.other.1"},
		"a stream's name alone": {Subject: "seatflow.seats"},
		"a header of two lines": {Subject: seatsSubject(1), Header: map[string]string{"ce-type": "a\r\nce-id: b"}},
		"a header with a colon": {Subject: seatsSubject(1), Header: map[string]string{"ce:type": "a"}},
		"a header without name": {Subject: seatsSubject(1), Header: map[string]string{"": "a"}},
		"an id of two lines":    {Subject: seatsSubject(1), ID: "a\nb"},
	}
	for what, m := range bad {
		if err := t.node(0).Publish(t.within(t.Patience), good, m); err == nil {
			t.Fatalf("published: %s", what)
		}
	}
	for _, s := range []string{"", ">", "seatflow.>", "seatflow.*.p07.1", "seatflow.seats.>.1", "seatflow.seats.p*.1", "seatflow.seats", "seatflow.seats.p07 .1", "other"} {
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		go func() {
			done <- t.node(0).Subscribe(ctx, s, nil, func([]seatflow.Message) {})
		}()
		if err := t.ends(fmt.Sprintf("subscribing to %q", s), done); err == nil {
			t.Fatalf("subscribed to %q", s)
		}
		if m, err := t.node(0).Last(t.within(t.Patience), s); err == nil || errors.Is(err, seatflow.ErrNotFound) {
			t.Fatalf("the last message of %q: %+v, %v", s, m, err)
		}
	}
	l.nothing(seatsSubject(1)) // nothing of a call that is refused was stored
}

func busTooLarge(t *busTest) {
	l := t.listen(0, "seatflow.seats.>")
	large := message(seatsSubject(1), 2)
	large.Payload = make([]byte, t.MaxPayload+1)
	if err := t.node(0).Publish(t.within(t.Patience), message(seatsSubject(1), 1), large, message(seatsSubject(1), 3)); err == nil {
		t.Fatalf("a payload of %d bytes was published", len(large.Payload))
	}
	large.Payload, large.Header = nil, map[string]string{"ce-subject": strings.Repeat("x", t.MaxPayload+1)}
	if err := t.node(0).Publish(t.within(t.Patience), large); err == nil {
		t.Fatalf("headers of %d bytes were published", t.MaxPayload)
	}
	l.nothing(seatsSubject(1))
}

func busContexts(t *busTest) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := t.node(0).Publish(over, message(seatsSubject(1), 1)); !errors.Is(err, context.Canceled) {
		t.Fatalf("published under a context that had ended: %v", err)
	}
	if _, err := t.node(0).Last(over, seatsSubject(1)); !errors.Is(err, context.Canceled) {
		t.Fatalf("looked up under a context that had ended: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- t.node(0).Subscribe(over, seatsSubject(1), nil, func([]seatflow.Message) {}) }()
	if err := t.ends("a subscription under a context that had ended", done); err != nil {
		t.Fatalf("a subscription under a context that had ended returns %v", err)
	}
	// In the middle of nothing, and in the middle of a delivery.
	quiet := t.listen(0, seatsSubject(1))
	quiet.stop()
	var once sync.Once
	var l *listener
	began, goOn := make(chan struct{}), make(chan struct{})
	l = t.start(1, seatsSubject(1), func([]seatflow.Message) {
		once.Do(func() { close(began); <-goOn })
	})
	l.waitReady()
	t.publish(0, messages(seatsSubject(1), 1, 2000)...)
	select {
	case <-began:
	case <-time.After(t.Patience):
		close(goOn)
		t.Fatalf("nothing is delivered")
	}
	l.cancel()
	close(goOn)
	l.stop()
}

func busNothing(t *busTest) {
	if err := t.node(0).Publish(t.Context()); err != nil {
		t.Fatalf("publishing nothing: %v", err)
	}
	t.healthy(0, "at rest")
	// A subscription without ready.
	ctx, cancel := context.WithCancel(t.Context())
	got, done := make(chan string, 100), make(chan error, 1)
	go func() {
		done <- t.node(0).Subscribe(ctx, "seatflow.seats.>", nil, func(run []seatflow.Message) {
			for _, m := range run {
				got <- m.ID
			}
		})
	}()
	defer func() {
		cancel()
		<-done
	}()
	limit, tick := time.After(t.Patience), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		t.publish(0, message(seatsSubject(1), n))
		select {
		case <-got:
			return
		case <-tick.C:
		case <-limit:
			t.Errorf("a subscription without ready delivers nothing")
			return
		}
	}
}
