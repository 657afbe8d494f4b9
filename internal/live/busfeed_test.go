package live

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"

	"github.com/go-json-experiment/json"
)

// onBus runs a test in a bubble with a hub that follows a bus on which the
// test alone publishes, and a viewer of show 1 at revision 1.1.
func onBus(t *testing.T, test func(t *testing.T, b *busRig)) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.open(1, worldSeats)
		s.change(1, seatflow.Held, 1)
		b := &busRig{t: t, s: s, bus: newFakeBus(), v: viewer{show: 1}}
		h, stop := running(t, s, func(o *Options) { o.Feed = BusFeed(b.bus, nil) })
		defer stop()
		b.h, b.sub = h, subscribe(t, h, 1, "")
		b.read(EventSnapshot, "1.1")
		time.Sleep(time.Second) // the subscription is ready, and looked into
		synctest.Wait()
		test(t, b)
	})
}

type busRig struct {
	t   *testing.T
	s   *fakeStore
	h   *Hub
	bus *fakeBus
	sub *Subscription
	v   viewer
}

// say publishes events of show 1.
func (b *busRig) say(events ...seatflow.SeatsEvent) {
	b.t.Helper()
	for _, e := range events {
		e.Show = 1
		if e.Store == "" {
			e.Store = b.s.identityNow()
		}
		if err := b.bus.Publish(b.t.Context(), e.Message(1, time.Now())); err != nil {
			b.t.Fatal(err)
		}
	}
}

// run makes a message of the changes that the store's log has of a generation.
func (b *busRig) run(generation seatflow.Generation, first, last int64) seatflow.SeatsEvent {
	e := seatflow.SeatsEvent{Type: seatflow.SeatsChanged, Generation: generation, First: first, Last: last}
	b.s.with(func() {
		for _, c := range b.s.log {
			if c.Revision.Generation == generation && c.Revision.Number >= first && c.Revision.Number <= last {
				e.Changes = append(e.Changes, c)
			}
		}
	})
	return e
}

// false is a message that would make the viewer wrong if it were applied.
func (b *busRig) lie(generation seatflow.Generation, number int64) seatflow.SeatsEvent {
	return seatflow.SeatsEvent{Type: seatflow.SeatsChanged, Generation: generation, First: number, Last: number, Changes: []seatflow.Change{{
		Revision: seatflow.Revision{Generation: generation, Number: number}, Verb: seatflow.VerbSell, At: time.Now(),
		Seats: []seatflow.SeatChange{{Seat: 9, State: seatflow.Sold, Delta: 1}}}}}
}

func at(kind seatflow.SeatsEventType, generation seatflow.Generation, number int64) seatflow.SeatsEvent {
	return seatflow.SeatsEvent{Type: kind, Generation: generation, First: number, Last: number}
}

// read wants a frame soon: long before the hub compares itself with the store.
func (b *busRig) read(event, rev string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
	defer cancel()
	f, err := b.sub.Next(ctx)
	if err != nil {
		b.t.Fatalf("no frame: %v", err)
	}
	if f.Event != event || f.ID != rev {
		b.t.Fatalf("frame %s %s, want %s %s", f.Event, f.ID, event, rev)
	}
	if err := errors.Join(b.v.apply(f), b.v.converged(b.s)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *busRig) quiet() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
	defer cancel()
	if f, err := b.sub.Next(ctx); err == nil {
		b.t.Fatalf("frame %s %s", f.Event, f.ID)
	}
}

// The rules by which messages are applied, dropped, or make the hub look.
func TestBusRules(t *testing.T) {
	for name, c := range map[string]func(b *busRig){
		"next": func(b *busRig) {
			b.s.change(1, seatflow.Held, 2)
			b.say(b.run(1, 2, 2))
			b.read(EventUpdate, "1.2")
		},
		"a run": func(b *busRig) {
			b.s.change(1, seatflow.Held, 2)
			b.s.change(1, seatflow.Sold, 2)
			b.say(b.run(1, 2, 3))
			b.read(EventUpdate, "1.3")
		},
		"a run that was seen in part": func(b *busRig) {
			b.s.change(1, seatflow.Held, 2)
			b.say(b.run(1, 1, 2))
			b.read(EventUpdate, "1.2")
		},
		"seen": func(b *busRig) {
			_, before := b.s.calls()
			b.say(b.run(1, 1, 1), b.lie(1, 1))
			b.quiet()
			if _, after := b.s.calls(); after != before {
				b.t.Error("the store was asked for nothing")
			}
		},
		"a gap": func(b *busRig) {
			b.s.change(1, seatflow.Held, 2)
			b.s.change(1, seatflow.Held, 3)
			b.say(b.run(1, 3, 3))
			b.read(EventSnapshot, "1.3")
		},
		"a higher generation": func(b *busRig) {
			b.s.rebuild(1)
			b.say(b.run(2, 0, 0))
			b.read(EventSnapshot, "2.0")
			b.say(b.lie(1, 2))
			b.quiet()
			b.s.change(1, seatflow.Held, 3)
			b.say(b.run(2, 1, 1))
			b.read(EventUpdate, "2.1")
		},
		"a lower generation": func(b *busRig) {
			b.s.rebuild(1)
			b.say(b.run(2, 0, 0))
			b.read(EventSnapshot, "2.0")
			_, before := b.s.calls()
			deposed := b.lie(1, 2)
			deposed.Store = "deposed"
			reset := at(seatflow.SeatsReset, 1, 9)
			reset.Store = "deposed"
			b.say(b.lie(1, 2), deposed, at(seatflow.SeatsPosition, 1, 9), reset)
			b.quiet()
			if _, after := b.s.calls(); after != before {
				b.t.Error("the store was asked for nothing")
			}
		},
		"another store": func(b *busRig) {
			fork := b.lie(1, 2)
			fork.Store = "fork"
			b.say(fork)
			b.read(EventSnapshot, "1.1") // the same again: who knows what the viewer had
		},
		"a reset": func(b *busRig) {
			b.s.skip(1, seatflow.Sold, 3)
			b.say(at(seatflow.SeatsReset, 0, 0))
			b.read(EventSnapshot, "1.2")
		},
		"a reset to a place not reached": func(b *busRig) {
			b.s.skip(1, seatflow.Sold, 3)
			b.say(at(seatflow.SeatsReset, 1, 2))
			b.read(EventSnapshot, "1.2")
		},
		"a reset of another store": func(b *busRig) {
			e := at(seatflow.SeatsReset, 1, 1)
			e.Store = "other"
			b.say(e)
			b.read(EventSnapshot, "1.1")
		},
		"a reset and a position that were reached": func(b *busRig) {
			_, before := b.s.calls()
			b.say(at(seatflow.SeatsReset, 1, 1), at(seatflow.SeatsPosition, 1, 1), at(seatflow.SeatsPosition, 1, 0))
			b.quiet()
			if _, after := b.s.calls(); after != before {
				b.t.Error("the store was asked for nothing")
			}
		},
		"a position not reached": func(b *busRig) {
			b.s.skip(1, seatflow.Sold, 3)
			b.say(at(seatflow.SeatsPosition, 1, 2))
			b.read(EventSnapshot, "1.2")
		},
		"not readable": func(b *busRig) {
			b.s.skip(1, seatflow.Sold, 3)
			_ = b.bus.Publish(b.t.Context(), seatflow.Message{Subject: seatflow.SeatsSubject(1, 1), Payload: []byte(`{"v":2}`)})
			b.read(EventSnapshot, "1.2")
		},
		"another show under its name": func(b *busRig) {
			b.s.skip(1, seatflow.Sold, 3)
			m := b.run(1, 1, 1)
			m.Show, m.Store = 3, b.s.identityNow()
			wrong := m.Message(1, time.Now())
			wrong.Subject = seatflow.SeatsSubject(1, 1)
			_ = b.bus.Publish(b.t.Context(), wrong)
			b.read(EventSnapshot, "1.2")
		},
		"a show that nobody watches": func(b *busRig) {
			_, before := b.s.calls()
			_ = b.bus.Publish(b.t.Context(), seatflow.Message{Subject: seatflow.SeatsSubject(1, 3), Payload: []byte(`{"v":2}`)},
				seatflow.Message{Subject: "seatflow.seats.p01.x", Payload: []byte(`{"v":2}`)})
			b.quiet()
			if _, after := b.s.calls(); after != before {
				b.t.Error("the store was asked for nothing")
			}
		},
		"a gap that the bus tells of": func(b *busRig) {
			b.s.skip(1, seatflow.Sold, 3)
			b.bus.wipe()
			b.read(EventSnapshot, "1.2")
			b.s.change(1, seatflow.Held, 4)
			b.say(b.run(1, 3, 3))
			b.read(EventUpdate, "1.3")
		},
		"the bus was away": func(b *busRig) {
			b.bus.away(true)
			b.s.skip(1, seatflow.Sold, 3)
			time.Sleep(200 * time.Millisecond)
			b.bus.away(false)
			b.read(EventSnapshot, "1.2")
			b.s.change(1, seatflow.Held, 4)
			b.say(b.run(1, 3, 3))
			b.read(EventUpdate, "1.3")
		},
		"messages were lost, and nobody tells": func(b *busRig) {
			b.s.skip(1, seatflow.Sold, 3)
			time.Sleep(3 * checkEvery)
			b.read(EventSnapshot, "1.2")
		},
	} {
		t.Run(name, func(t *testing.T) { onBus(t, func(_ *testing.T, b *busRig) { c(b) }) })
	}
}

// A store that was deposed, and is asked all the same, has a house of a lower
// generation: nobody gets it.
func TestDeposedStore(t *testing.T) {
	onBus(t, func(t *testing.T, b *busRig) {
		b.s.rebuild(1)
		b.say(b.run(2, 0, 0))
		b.read(EventSnapshot, "2.0")
		ask := func(store string, generation seatflow.Generation) {
			b.s.with(func() {
				b.s.identity = store
				b.s.houses[1].rev = seatflow.Revision{Generation: generation, Number: 7}
			})
		}
		ask("deposed", 1)
		b.bus.wipe() // the hub looks into the store
		b.quiet()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.h.Subscribe(ctx, 1, ""); seatflow.CodeOf(err) != seatflow.CodeNotReady {
			t.Errorf("subscribe: %v, want code %d", err, seatflow.CodeNotReady)
		}
		ask("life0", 3)
		time.Sleep(retryMost)
		b.read(EventSnapshot, "3.7")
	})
}

// What came before the first map counts only if it is of the same store.
func TestEarlyMessages(t *testing.T) {
	for name, c := range map[string]struct {
		store string
		live  bool // the feed can lead on from the map at once
	}{"same store": {"life0", true}, "another store": {"life9", false}} {
		t.Run(name, func(t *testing.T) {
			s := newFakeStore()
			s.open(1, worldSeats)
			h := New(Options{Seats: s, Houses: fakeHouses(8), Node: "n1", Feed: BusFeed(newFakeBus(), nil)})
			house, err := h.house(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			f, err := h.partition(house).feed(t.Context(), house)
			if err != nil {
				t.Fatal(err)
			}
			defer f.release()
			m, err := h.Map(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			e := (&busRig{}).lie(1, 1)
			e.Show, e.Store = 1, c.store
			message := e.Message(1, time.Now())
			f.hear(&message)
			f.adopt(m)
			if f.stale == c.live {
				t.Errorf("stale: %v", f.stale)
			}
			if want := (seatflow.Revision{Generation: 1, Number: 1}); c.live && f.head != want {
				t.Errorf("head %s", f.head)
			}
		})
	}
}

// Another store's messages before the first map: none of them counts.
func TestEarlyMessagesOfTwoStores(t *testing.T) {
	f := &feed{show: 1, hub: New(Options{Seats: newFakeStore(), Houses: fakeHouses(1)}), ring: ring{most: 8}}
	for i, store := range []string{"a", "b"} {
		e := (&busRig{}).lie(1, int64(i+1))
		e.Show, e.Store = 1, store
		m := e.Message(1, time.Now())
		f.hear(&m)
	}
	if !f.stale || len(f.early) != 0 {
		t.Errorf("stale %v, early %v", f.stale, f.early)
	}
}

// A hub that cannot follow takes snapshots; the bus is never held up, and the
// queue is bounded.
func TestBusQueueIsBounded(t *testing.T) {
	s := &busSource{wake: make(chan struct{}, 1)}
	run := make([]seatflow.Message, 100)
	for i := range run {
		run[i].Subject = "seatflow.seats.p01.1"
	}
	for range 20 {
		s.deliver(run)
	}
	if len(s.queue) > busQueueMost {
		t.Errorf("%d messages wait", len(s.queue))
	}
	n, any := s.take(1 << 20)
	if !any || !n.Missed {
		t.Errorf("%+v: the overflow is not told", n)
	}
	for n.More {
		if n, any = s.take(1 << 20); !any || n.Missed || len(n.Messages) > busTakeMost {
			t.Fatalf("%d messages, missed %v", len(n.Messages), n.Missed)
		}
	}
	if _, any := s.take(1); any {
		t.Error("more than there was")
	}
}

// What another node has said has a smaller number than what this one says of
// it.
func TestUpdatesComeAfterWhatTheyAreOf(t *testing.T) {
	onBus(t, func(t *testing.T, b *busRig) {
		var other seatflow.Lamport
		other.Receive(1000)
		b.s.change(1, seatflow.Held, 2)
		e := b.run(1, 2, 2)
		e.Show, e.Store = 1, b.s.identityNow()
		m := e.Message(1, time.Now())
		other.Stamp(&m)
		if err := b.bus.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		f := next(t, b.sub)
		var event wireEvent
		if err := json.Unmarshal(f.Data, &event); err != nil || event.Lamport != 1004 {
			t.Errorf("an update of what was said at 1002 and heard at 1003 has %d, %v", event.Lamport, err)
		}
	})
}
