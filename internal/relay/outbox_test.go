package relay

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
	"seatflow/internal/ledger"
	"seatflow/internal/memseats"
	"seatflow/internal/testkit"
)

// orderWatcher is a consumer of order events, and the checker of them: each
// (order, version) once, and an order's in the order of their versions.
type orderWatcher struct {
	mu      sync.Mutex
	last    map[seatflow.OrderNo]int64
	seen    map[seatflow.OrderNo][]seatflow.OrderNotice
	repeats int
	faults  []string
	arrived chan struct{}
}

func newOrderWatcher() *orderWatcher {
	return &orderWatcher{last: map[seatflow.OrderNo]int64{}, seen: map[seatflow.OrderNo][]seatflow.OrderNotice{}, arrived: make(chan struct{}, 1)}
}

func (w *orderWatcher) deliver(messages []seatflow.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range messages {
		n, err := seatflow.ParseOrderNotice(m.Payload)
		switch {
		case err != nil:
			w.faults = append(w.faults, err.Error())
		case m.Subject != seatflow.OrdersSubject(n.Show, n.Type):
			w.faults = append(w.faults, fmt.Sprintf("%s under %s", n.Type, m.Subject))
		case n.Version <= w.last[n.Order]:
			w.repeats++
		case n.Version != w.last[n.Order]+1:
			w.faults = append(w.faults, fmt.Sprintf("order %s: version %d after %d", n.Order, n.Version, w.last[n.Order]))
		default:
			w.last[n.Order] = n.Version
			w.seen[n.Order] = append(w.seen[n.Order], n)
		}
	}
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// check holds what arrived against the histories of orders.
func (w *orderWatcher) check(ctx context.Context, l seatflow.Orders, orders []seatflow.OrderNo) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []error
	for _, f := range w.faults {
		all = append(all, errors.New(f))
	}
	for _, no := range orders {
		history, err := l.History(ctx, no)
		if err != nil {
			return err
		}
		have := w.seen[no]
		if len(have) != len(history) {
			all = append(all, fmt.Errorf("order %s: %d of %d events", no, len(have), len(history)))
			continue
		}
		for i, e := range history {
			n := have[i]
			if n.Type != e.Type || n.Version != e.Version || n.From != e.From || n.To != e.To || !slices.Equal(n.Seats, e.Seats) ||
				n.Role != e.Actor.Role || n.TraceID != e.Actor.TraceID || !n.At.Equal(e.At) {
				all = append(all, fmt.Errorf("order %s: %+v, the history has %+v", no, n, e))
			}
		}
	}
	return errors.Join(all...)
}

// facts is a ledger with a show, and a bus that is watched.
type facts struct {
	t      *testing.T
	ledger *testkit.FaultyLedger
	bus    *fakeBus
	locks  *fakeLocks
	show   seatflow.Show
	w      *orderWatcher
	orders []seatflow.OrderNo
}

const factsSeats = 2000

func newFacts(t *testing.T) *facts {
	t.Helper()
	ctx := t.Context()
	inner, err := ledger.OpenSQLite(ctx, filepath.Join(t.TempDir(), "facts.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &facts{t: t, ledger: testkit.NewFaultyLedger(inner), bus: newFakeBus(), locks: newFakeLocks(), w: newOrderWatcher()}
	now := time.Now().UTC()
	hall, err := inner.CreateHall(ctx, seatflow.Hall{Name: "Hall", Zone: "UTC", CreatedAt: now})
	if err != nil {
		t.Fatal(err)
	}
	plan := &seatflow.Plan{Hall: hall.ID, Version: 1, Name: "Plan", Width: 100, Height: 100,
		Categories: []seatflow.Category{{Name: "A", Color: "#336699"}}, Zones: []seatflow.Zone{{Name: "Stalls"}}, Source: []byte("{}")}
	for i := range factsSeats {
		plan.Seats = append(plan.Seats, seatflow.PlanSeat{ID: seatflow.SeatID(i + 1), GUID: fmt.Sprint("g", i+1), Row: "1", Number: fmt.Sprint(i + 1)})
	}
	if err := inner.PublishPlan(ctx, plan); err != nil {
		t.Fatal(err)
	}
	f.show, err = inner.CreateShow(ctx, seatflow.Show{Hall: hall.ID, PlanVersion: 1, Title: "Show", Starts: now.Add(time.Hour), Ends: now.Add(3 * time.Hour),
		SaleFrom: now.Add(-time.Hour), SaleUntil: now.Add(time.Hour), Prices: map[string]int64{"A": 1200}, Currency: "EUR", Status: seatflow.ShowPublished,
		LimitPerUser: 6, HoldFor: time.Minute, HoldCap: 2 * time.Minute, CreatedAt: now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inner.RaiseGeneration(ctx, f.show.ID, f.show.Generation); err != nil {
		t.Fatal(err)
	}
	sub, cancel := context.WithCancel(ctx)
	done := make(chan error)
	ready := make(chan struct{})
	go func() { done <- f.bus.Subscribe(sub, seatflow.OrdersSubjects, func() { close(ready) }, f.w.deliver) }()
	<-ready
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// sell makes n orders and cancels every other one.
func (f *facts) sell(n int) {
	f.t.Helper()
	var all sync.WaitGroup
	base := len(f.orders)
	for i := range n {
		no := orderNo(int64(base + i + 1))
		f.orders = append(f.orders, no)
		all.Go(func() {
			ctx := f.t.Context()
			now := time.Now().UTC()
			actor := seatflow.Actor{User: "u", Role: seatflow.RoleBuyer, Device: seatflow.DeviceWeb,
				TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", SpanID: "00f067aa0ba902b7"}
			_, err := f.ledger.InsertOrder(ctx, seatflow.NewOrder{Generation: f.show.Generation + 1, Actor: actor, Order: seatflow.Order{
				No: no, Attempt: 1, Version: 1, Show: f.show.ID, User: "u", Kind: seatflow.KindSale, State: seatflow.OrderPending,
				Items: []seatflow.OrderItem{{Seat: seatflow.SeatID(base + i + 1), Price: 1200}}, Total: seatflow.Money{Amount: 1200, Currency: "EUR"},
				TakenAt: now, Deadline: now.Add(time.Minute), Cap: now.Add(2 * time.Minute), Device: seatflow.DeviceWeb, CreatedAt: now, UpdatedAt: now}})
			if err != nil {
				f.t.Error(err)
				return
			}
			if i%2 == 0 {
				if _, err := f.ledger.CancelOrder(ctx, seatflow.OrderChange{No: no, Actor: actor}); err != nil {
					f.t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// start runs a relay of the outbox.
func (f *facts) start(change ...func(*Options)) (stop func(), locker *fakeLocker) {
	store := memseats.New(memseats.Options{})
	locker = &fakeLocker{locks: f.locks}
	o := Options{Seats: store, Bus: f.bus, Locker: locker, Outbox: f.ledger, OutboxPoll: 5 * time.Millisecond, Retry: 20 * time.Millisecond,
		Shows: func(context.Context, seatflow.Partition) ([]Show, error) { return nil, nil }}
	for _, c := range change {
		c(&o)
	}
	r := New(o)
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("run: %v", err)
		}
		store.Close()
	})
	f.t.Cleanup(stop)
	return stop, locker
}

// until waits for a condition.
func until(t testing.TB, what string, cond func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// numbered returns the Lamport numbers of what is on the bus, in its order.
func (f *facts) numbered() (numbers []uint64) {
	for _, m := range f.bus.all(seatflow.OrdersSubjects) {
		n, err := strconv.ParseUint(m.Header[seatflow.HeaderLamport], 10, 64)
		if err != nil {
			f.t.Errorf("a message without a number: %v", m.Header)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// drained waits until the outbox is empty and every event has arrived.
func (f *facts) drained() {
	f.t.Helper()
	until(f.t, "the outbox", func() error {
		rows, err := f.ledger.Outbox(f.t.Context(), 10)
		if err == nil && len(rows) > 0 {
			err = errors.New("rows are left")
		}
		return errors.Join(err, f.w.check(f.t.Context(), f.ledger, f.orders))
	})
}

func (f *facts) repeats() int {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.repeats
}

// Every event of every order arrives once, in the order of its versions, and
// its row is gone afterwards.
func TestOutbox(t *testing.T) {
	f := newFacts(t)
	f.sell(100) // before there is a relay
	f.start(func(o *Options) { o.OutboxBatch = 16 })
	f.start()
	f.sell(300)
	f.drained()
	if n := f.repeats(); n != 0 {
		t.Errorf("%d repeats", n)
	}
	// One of the two has the outbox's lease and numbers all of them.
	if numbers := f.numbered(); !slices.IsSorted(numbers) || len(slices.Compact(numbers)) < 600 || numbers[0] == 0 {
		t.Errorf("numbers of %d events: %v", len(numbers), numbers)
	}
}

// A row goes after the acknowledgement only. An end between the two publishes
// the event again, and it is recognised.
func TestOutboxRowsGoAfterTheAcknowledgement(t *testing.T) {
	f := newFacts(t)
	f.sell(20)
	f.bus.with(func() { f.bus.down = true })
	stop, _ := f.start()
	rows, err := f.ledger.Outbox(t.Context(), 100)
	if err != nil || len(rows) != 30 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}

	// Published, and not deleted: the relay ends just then.
	reached := make(chan struct{})
	rule := f.ledger.On("OutboxDone", testkit.Signal(reached, testkit.FailBefore(seatflow.ErrNotCommitted)), testkit.Times(1))
	rest := f.ledger.On("OutboxDone", testkit.FailBefore(seatflow.ErrNotCommitted))
	f.bus.with(func() { f.bus.down = false })
	<-reached
	if rule.Hits() != 1 {
		t.Fatal("the rows were not to be deleted")
	}
	stop()
	if rows, err := f.ledger.Outbox(t.Context(), 100); err != nil || len(rows) != 30 {
		t.Fatalf("%d rows are left, %v", len(rows), err)
	}
	rest.Stop()
	f.bus.with(func() { f.bus.ids = map[string]bool{} }) // a bus that does not remember ids
	f.start()
	f.drained()
	until(t, "the repeats", func() error {
		if n := f.repeats(); n != 30 {
			return fmt.Errorf("%d repeats, want each of 30 once", n)
		}
		return nil
	})
}

// Deletions and reads of the outbox fail for a while: nothing comes twice.
func TestOutboxFailures(t *testing.T) {
	f := newFacts(t)
	f.ledger.On("OutboxDone", testkit.FailAfter(seatflow.ErrUnknownCommit), testkit.Times(2))
	f.ledger.On("Outbox", testkit.FailBefore(errors.New("the ledger is away")), testkit.Times(2))
	f.bus.with(func() {
		n := 0
		f.bus.before = func(m []seatflow.Message) (int, error) {
			if n++; n%2 == 1 {
				return len(m) / 2, errors.New("fake bus: no acknowledgement")
			}
			return len(m), nil
		}
	})
	f.start(func(o *Options) { o.OutboxBatch = 16 })
	f.sell(40)
	f.drained()
	if n := f.repeats(); n != 0 {
		t.Errorf("%d repeats", n)
	}
}

// The lease moves to another node in the middle.
func TestOutboxTakeover(t *testing.T) {
	f := newFacts(t)
	_, a := f.start(func(o *Options) { o.OutboxBatch = 8 })
	f.start(func(o *Options) { o.OutboxBatch = 8 })
	f.sell(50)
	f.locks.lapse(a, true) // both go on for a while
	f.sell(50)
	f.locks.lapse(a, false)
	f.sell(50)
	f.drained()
}

// fakeOutbox is rows that a test makes.
type fakeOutbox struct {
	mu   sync.Mutex
	rows []seatflow.OutboxEvent
}

func (o *fakeOutbox) Outbox(_ context.Context, limit int) ([]seatflow.OutboxEvent, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.rows[:min(limit, len(o.rows))]), nil
}

func (o *fakeOutbox) OutboxDone(_ context.Context, ids []int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	head := o.rows[:min(len(o.rows), 2*len(ids))]
	left := slices.DeleteFunc(slices.Clone(head), func(e seatflow.OutboxEvent) bool { return slices.Contains(ids, e.ID) })
	o.rows = o.rows[len(head)-len(left):]
	copy(o.rows, left)
	return nil
}

// Ids that two nodes gave by clocks which differ do not turn an order's events
// round, neither within a read nor over the end of one; and a backlog does not
// take the whole machine.
func TestOutboxOrderAndPace(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, r *rig) {
		box := &fakeOutbox{}
		row := func(no, version int64) {
			box.rows = append(box.rows, seatflow.OutboxEvent{ID: int64(len(box.rows) + 1), Event: seatflow.OrderEvent{
				Order: orderNo(no), Version: version, Type: seatflow.EventExtended, To: seatflow.OrderPending, At: time.Now()}})
		}
		for no := int64(1); no <= 500; no++ {
			row(no, 2) // the later event of each order has the lower id
			row(no, 1)
		}
		w := newOrderWatcher()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.bus.Subscribe(ctx, seatflow.OrdersSubjects, nil, w.deliver) }()
		synctest.Wait()
		began := time.Now()
		n := r.start(func(o *Options) { o.Outbox, o.OutboxBatch, o.OutboxPerSecond = box, 33, 100 })
		time.Sleep(time.Second)
		if lag, err := n.Lag(t.Context()); err != nil || lag.Outbox < 800 {
			t.Errorf("lag %+v, %v", lag, err)
		}
		for {
			time.Sleep(100 * time.Millisecond)
			if lag, _ := n.Lag(t.Context()); lag.Outbox == 0 {
				break
			}
		}
		if took := time.Since(began); took < 9*time.Second || took > 12*time.Second {
			t.Errorf("1,000 events at 100 a second took %v", took)
		}
		cancel()
		<-done
		if len(w.faults) > 0 || w.repeats > 0 || len(w.seen) != 500 {
			t.Errorf("%d orders, %d repeats, %q", len(w.seen), w.repeats, w.faults)
		}
	})
}

func TestInVersionOrder(t *testing.T) {
	row := func(no, version int64) seatflow.OutboxEvent {
		return seatflow.OutboxEvent{ID: 10*no + version, Event: seatflow.OrderEvent{Order: orderNo(no), Version: version}}
	}
	rows := []seatflow.OutboxEvent{row(1, 3), row(2, 1), row(1, 1), row(3, 2), row(1, 2), row(3, 1)}
	want := []int64{11, 21, 12, 31, 13, 32}
	inVersionOrder(rows)
	var got []int64
	for _, r := range rows {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The checker of order events notices what is wrong.
func TestOrderCheckerFails(t *testing.T) {
	f := newFacts(t)
	f.sell(1)
	rows, err := f.ledger.Outbox(t.Context(), 10)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	message := func(i int, change func(*seatflow.OrderNotice)) seatflow.Message {
		n := rows[i].Notice()
		if change != nil {
			change(&n)
		}
		return n.Message()
	}
	play := func(m ...seatflow.Message) error {
		w := newOrderWatcher()
		w.deliver(m)
		return w.check(t.Context(), f.ledger, f.orders)
	}
	if err := play(message(0, nil), message(0, nil), message(1, nil)); err != nil {
		t.Fatalf("good events: %v", err)
	}
	moved := message(0, nil)
	moved.Subject = "seatflow.orders.9.order.created"
	for name, bad := range map[string][]seatflow.Message{
		"lost":           {message(0, nil)},
		"first lost":     {message(1, nil)},
		"out of order":   {message(1, nil), message(0, nil)},
		"another state":  {message(0, nil), message(1, func(n *seatflow.OrderNotice) { n.To = seatflow.OrderPaid })},
		"another seat":   {message(0, func(n *seatflow.OrderNotice) { n.Seats = []seatflow.SeatID{9} }), message(1, nil)},
		"another place":  {moved, message(1, nil)},
		"not readable":   {{Subject: moved.Subject, Payload: []byte("{")}, message(0, nil), message(1, nil)},
		"a version more": {message(0, nil), message(1, nil), message(1, func(n *seatflow.OrderNotice) { n.Version = 3 })},
	} {
		if play(bad...) == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}
