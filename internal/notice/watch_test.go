package notice

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
)

// fakeBus gives what a test says to whoever listens; the nil port inside
// panics at the rest.
type fakeBus struct {
	seatflow.Bus
	mu      sync.Mutex
	deliver func([]seatflow.Message) // nil: nobody listens
	cut     context.CancelCauseFunc
	times   int
}

func (b *fakeBus) listeners() (now bool, times int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deliver != nil, b.times
}

// Subscribe implements seatflow.Bus.
func (b *fakeBus) Subscribe(ctx context.Context, subject string, ready func(), deliver func([]seatflow.Message)) error {
	if subject != seatflow.OrdersSubjects {
		return errors.New("not the orders")
	}
	ctx, cut := context.WithCancelCause(ctx)
	b.mu.Lock()
	b.deliver, b.cut = deliver, cut
	b.times++
	b.mu.Unlock()
	ready()
	<-ctx.Done()
	b.mu.Lock()
	b.deliver = nil
	b.mu.Unlock()
	return context.Cause(ctx)
}

// world is a ledger, a bus and a watch in a bubble.
type world struct {
	t     *testing.T
	bus   *fakeBus
	watch *Watch
	rooms *Rooms

	mu     sync.Mutex
	orders map[seatflow.OrderNo]seatflow.Order
	reads  int
	fail   int // so many reads
}

func (w *world) read() error {
	w.reads++
	if w.fail > 0 {
		w.fail--
		return errors.New("the ledger is away")
	}
	return nil
}

// Order implements Orders.
func (w *world) Order(_ context.Context, no seatflow.OrderNo, user seatflow.UserID) (seatflow.Order, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.orders[no]
	if o.User != user {
		return o, seatflow.ErrNotFound
	}
	return o, w.read()
}

// OrdersOf implements Orders.
func (w *world) OrdersOf(_ context.Context, user seatflow.UserID, before seatflow.OrderNo, limit int) (list []seatflow.Order, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.orders {
		if o.User == user {
			list = append(list, o)
		}
	}
	return list, w.read()
}

// order changes an order in the ledger and tells of it on the bus, unless
// silently.
func (w *world) order(no seatflow.OrderNo, user seatflow.UserID, state seatflow.OrderState, left time.Duration, silently ...bool) {
	w.t.Helper()
	w.mu.Lock()
	o := w.orders[no]
	from := o.State
	o = seatflow.Order{No: no, User: user, State: state, Show: 1, Version: o.Version + 1, Deadline: time.Now().Add(left)}
	w.orders[no] = o
	w.mu.Unlock()
	if len(silently) > 0 {
		return
	}
	n := seatflow.OrderNotice{Order: no, Version: o.Version, Type: seatflow.EventCreated, From: from, To: state, Kind: seatflow.KindSale, Show: 1, User: user,
		Seats: []seatflow.SeatID{4}, Count: 1, Total: seatflow.Money{Amount: 100, Currency: "EUR"}, Role: seatflow.RoleBuyer, Device: seatflow.DeviceMobile, At: time.Now().UTC()}
	w.bus.deliver([]seatflow.Message{n.Message()})
	synctest.Wait()
}

// hears returns what has come in a channel, in words.
func hears(ch <-chan seatflow.Notice) (said []string) {
	synctest.Wait()
	for {
		select {
		case n, ok := <-ch:
			if !ok {
				return append(said, "closed")
			}
			text := fmt.Sprintf("%s %s", n.Kind, n.Order)
			switch n.Kind {
			case seatflow.NoticeOrder:
				text += fmt.Sprintf(".%d %s %v", n.Version, n.State, n.Seats)
			case seatflow.NoticeHoldEnding:
				text += fmt.Sprintf(" in %v", n.Deadline.Sub(n.At))
			}
			said = append(said, text)
		default:
			return said
		}
	}
}

func (w *world) want(ch <-chan seatflow.Notice, want ...string) {
	w.t.Helper()
	if got := hears(ch); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("heard %q, want %q", got, want)
	}
}

// bubble runs a test with ann and bob here.
func bubble(t *testing.T, test func(w *world, ann, bob <-chan seatflow.Notice)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, bus: &fakeBus{}, orders: map[seatflow.OrderNo]seatflow.Order{}}
		w.watch, w.rooms = NewWatch(Options{Bus: w.bus, Orders: w, Lamport: new(seatflow.Lamport)})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.watch.Run(ctx) }()
		ann, _ := w.rooms.Subscribe("ann")
		bob, _ := w.rooms.Subscribe("bob")
		w.want(ann, "missed ") // whatever came before the bus was listened to
		w.want(bob, "missed ")
		test(w, ann, bob)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for ch := range 2 {
			if said := hears([]<-chan seatflow.Notice{ann, bob}[ch]); len(said) == 0 || said[len(said)-1] != "closed" {
				t.Errorf("after the end: %q", said)
			}
		}
	})
}

const (
	one = seatflow.OrderNo("00000000000000000000000001")
	two = seatflow.OrderNo("00000000000000000000000002")
)

func TestOwnOrdersAreHeardOf(t *testing.T) {
	bubble(t, func(w *world, ann, bob <-chan seatflow.Notice) {
		w.order(one, "ann", seatflow.OrderPending, 15*time.Minute)
		w.want(ann, "order.changed "+string(one)+".1 pending [4]")
		w.order(one, "ann", seatflow.OrderPaid, 0)
		w.want(ann, "order.changed "+string(one)+".2 paid [4]")
		w.order(two, "cid", seatflow.OrderPending, 15*time.Minute) // who is not here
		w.want(ann)
		w.want(bob)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.reads > 5 { // two who came, again since they may have missed something, and one hold
			t.Errorf("%d reads", w.reads)
		}
	})
}

func TestHoldsThatAreAboutToEnd(t *testing.T) {
	ending := func(no seatflow.OrderNo, in string) string { return "hold.ending " + string(no) + " in " + in }
	bubble(t, func(w *world, ann, bob <-chan seatflow.Notice) {
		w.order(one, "ann", seatflow.OrderPending, 15*time.Minute)
		w.order(two, "bob", seatflow.OrderPending, 20*time.Second) // short from the start
		hears(ann)
		w.want(bob, "order.changed "+string(two)+".1 pending [4]", ending(two, "20s"))
		time.Sleep(13*time.Minute + 59*time.Second)
		w.want(ann)
		time.Sleep(time.Second)
		w.want(ann, ending(one, "1m0s"))
		time.Sleep(time.Hour)
		w.want(ann) // once
		w.want(bob)

		// An extension moves it, and it is told again.
		w.order(one, "ann", seatflow.OrderPending, 10*time.Minute)
		time.Sleep(9 * time.Minute)
		w.order(one, "ann", seatflow.OrderPending, 6*time.Minute)
		hears(ann)
		time.Sleep(4*time.Minute + 59*time.Second)
		w.want(ann)
		time.Sleep(time.Second)
		w.want(ann, ending(one, "1m0s"))

		// Not when it was paid, also when the bus has not said so.
		w.order(two, "bob", seatflow.OrderPending, 5*time.Minute)
		w.order(two, "bob", seatflow.OrderPaid, 0, true)
		hears(bob)
		time.Sleep(time.Hour)
		w.want(bob)
		w.order(two, "bob", seatflow.OrderPending, 5*time.Minute)
		w.order(two, "bob", seatflow.OrderPending, 15*time.Minute, true) // extended, and nobody said so
		hears(bob)
		time.Sleep(13 * time.Minute)
		w.want(bob)
		time.Sleep(time.Minute)
		w.want(bob, ending(two, "1m0s"))
	})
}

// A node that nobody is connected to does not listen.
func TestListensOnlyForSomebody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, bus: &fakeBus{}, orders: map[seatflow.OrderNo]seatflow.Order{}}
		w.watch, w.rooms = NewWatch(Options{Bus: w.bus, Orders: w})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.watch.Run(ctx) }()
		check := func(when string, listens bool, times int) {
			t.Helper()
			synctest.Wait()
			if now, n := w.bus.listeners(); now != listens || n != times {
				t.Errorf("%s: listens %v, begun %d times", when, now, n)
			}
		}
		check("nobody", false, 0)
		ann, hangUp := w.rooms.Subscribe("ann")
		check("somebody", true, 1)
		hangUp()
		w.want(ann, "missed ", "closed")
		time.Sleep(29 * time.Second)
		_, hangUp = w.rooms.Subscribe("ann")
		time.Sleep(time.Hour)
		check("back at once", true, 1)
		hangUp()
		time.Sleep(2 * time.Minute)
		check("long gone", false, 1)
		ann, _ = w.rooms.Subscribe("ann")
		check("back again", true, 2)
		w.order(one, "ann", seatflow.OrderPaid, 0)
		w.want(ann, "missed ", "order.changed "+string(one)+".1 paid [4]")
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Who comes is told of holds from before, and nothing is kept for who has
// gone.
func TestHoldsOfWhoComesAndGoes(t *testing.T) {
	bubble(t, func(w *world, _, _ <-chan seatflow.Notice) {
		w.order(one, "cid", seatflow.OrderPending, 3*time.Minute)
		phone, hangUp := w.rooms.Subscribe("cid")
		synctest.Wait()
		hangUp()
		w.want(phone, "closed")
		w.watch.mu.Lock()
		if len(w.watch.holds) != 0 {
			t.Errorf("kept: %v", w.watch.holds)
		}
		w.watch.mu.Unlock()
		time.Sleep(time.Minute)
		desk, _ := w.rooms.Subscribe("cid")
		time.Sleep(time.Minute)
		w.want(desk, "hold.ending "+string(one)+" in 1m0s")
	})
}

// A bus that lost something, or was away, has everybody told so, and holds
// read again.
func TestMissed(t *testing.T) {
	bubble(t, func(w *world, ann, bob <-chan seatflow.Notice) {
		w.order(one, "ann", seatflow.OrderPending, 3*time.Minute, true)
		w.bus.deliver([]seatflow.Message{{Gap: true}})
		w.want(ann, "missed ")
		w.want(bob, "missed ")
		w.bus.cut(errors.New("cut"))
		time.Sleep(time.Second)
		w.want(bob, "missed ")
		w.want(ann, "missed ")
		time.Sleep(2 * time.Minute)
		w.want(ann, "hold.ending "+string(one)+" in 1m0s")
		w.bus.deliver([]seatflow.Message{{Subject: "seatflow.orders.1.order.paid", Payload: []byte("nonsense")}})
		w.want(ann)
	})
}

// What cannot be read is read later; who is here does not wait for that.
func TestLedgerAway(t *testing.T) {
	bubble(t, func(w *world, ann, bob <-chan seatflow.Notice) {
		w.mu.Lock()
		w.fail = 4
		w.mu.Unlock()
		w.order(one, "ann", seatflow.OrderPending, 3*time.Minute)
		w.order(two, "bob", seatflow.OrderPending, 3*time.Minute)
		w.want(ann, "order.changed "+string(one)+".1 pending [4]")
		w.want(bob, "order.changed "+string(two)+".1 pending [4]")
		time.Sleep(110 * time.Second)
		w.mu.Lock()
		if w.fail != 0 || w.reads > 10 {
			t.Errorf("%d reads, %d failures left", w.reads, w.fail)
		}
		w.fail = 1 // of the look before it is told
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		w.want(ann, "hold.ending "+string(one)+" in 1m0s")
		w.want(bob, "hold.ending "+string(two)+" in 1m0s")
	})
}

// Comings and goings beside events, for the race detector and the locks.
func TestManyComeAndGo(t *testing.T) {
	bubble(t, func(w *world, ann, _ <-chan seatflow.Notice) {
		var all sync.WaitGroup
		for i := range 20 {
			user := seatflow.UserID(fmt.Sprint("user", i%5))
			all.Go(func() {
				for range 50 {
					ch, hangUp := w.rooms.Subscribe(user)
					w.watch.deliver([]seatflow.Message{(&seatflow.OrderNotice{Order: one, Version: 1, Type: seatflow.EventCreated, To: seatflow.OrderPending,
						Kind: seatflow.KindSale, Show: 1, User: user, Role: seatflow.RoleBuyer, Device: seatflow.DeviceWeb, Total: seatflow.Money{Currency: "EUR"}, At: time.Now()}).Message()})
					hangUp()
					for range ch {
					}
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if n := w.rooms.Users(); n != 2 {
			t.Errorf("%d users are left", n)
		}
		hears(ann)
	})
}
