package notice

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"seatflow"
)

// Orders is what a [Watch] reads of the facts; seatflow.Ledger has it.
type Orders interface {
	Order(ctx context.Context, no seatflow.OrderNo, user seatflow.UserID) (seatflow.Order, error)
	OrdersOf(ctx context.Context, user seatflow.UserID, before seatflow.OrderNo, limit int) ([]seatflow.Order, error)
}

// The times of a watch, and its bounds.
const (
	// DefaultBefore is how long before the end of a hold its buyer hears of it.
	DefaultBefore = time.Minute
	// ordersRead is how many of a user's newest orders are looked at for holds
	// when the user comes: a purchase limit allows far fewer to be pending.
	ordersRead  = 50
	readFor     = 5 * time.Second
	firstPause  = 100 * time.Millisecond // before something that failed is tried again, doubled each time
	longestRest = 5 * time.Second
	emptyFor    = 30 * time.Second // twice, and the bus is not listened to any more
)

// Options are what a Watch needs.
type Options struct {
	Bus    seatflow.Bus
	Orders Orders
	Clock  seatflow.Clock // nil: the wall clock
	Before time.Duration  // 0: DefaultBefore
	Log    *slog.Logger
	// Lamport is this node's clock; nil: none.
	Lamport *seatflow.Lamport
}

// Watch gives the users who are connected to this node the notices of their
// own orders: each event of an order, from whatever device and node, as the
// bus brings it; and, some time before a hold ends, that it will. For the
// latter it knows the deadlines of the pending orders of those who are here,
// and of nobody else; it reads them in the ledger when a user comes and when
// an event of an order may have moved one.
//
// A deadline is by the seat store's clock and is compared with this process's
// here: it is a hint, and decides nothing.
type Watch struct {
	o     Options
	rooms *Rooms
	wake  chan struct{}
	came  chan struct{} // somebody did

	// mu is never held when a method of rooms is called, which calls entered
	// and left under its own lock.
	mu    sync.Mutex
	todo  []task
	holds map[seatflow.UserID]map[seatflow.OrderNo]*hold
	next  time.Time // nothing is to be told of holds before; zero: look
	again time.Time // what could not be read is not tried before
	pause time.Duration
}

// task is something to read: a user's pending orders, or one order of theirs.
type task struct {
	user  seatflow.UserID
	order seatflow.OrderNo // "": all
}

type hold struct {
	show     seatflow.ShowID
	deadline time.Time
	told     time.Time // the deadline that the user was told of
}

// NewWatch returns a Watch that does nothing until it is run, and the rooms
// that it feeds.
func NewWatch(o Options) (*Watch, *Rooms) {
	if o.Clock == nil {
		o.Clock = seatflow.WallClock{}
	}
	if o.Before <= 0 {
		o.Before = DefaultBefore
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watch{o: o, wake: make(chan struct{}, 1), came: make(chan struct{}, 1), holds: make(map[seatflow.UserID]map[seatflow.OrderNo]*hold)}
	w.rooms = &Rooms{Entered: w.entered, Left: w.left}
	return w, w.rooms
}

// Run watches until the context ends, then closes the rooms and returns nil.
func (w *Watch) Run(ctx context.Context) error {
	defer w.rooms.Close()
	var listening sync.WaitGroup
	listening.Go(func() { w.listen(ctx) })
	defer listening.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-timer.C:
		}
		wait := min(w.read(ctx), w.tell(ctx))
		timer.Reset(wait)
	}
}

func (w *Watch) entered(user seatflow.UserID) {
	w.add(task{user: user})
	select {
	case w.came <- struct{}{}:
	default:
	}
}

func (w *Watch) left(user seatflow.UserID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.holds, user)
}

func (w *Watch) ended(user seatflow.UserID, no seatflow.OrderNo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.holds[user], no)
}

func (w *Watch) add(t task) {
	w.mu.Lock()
	w.todo = append(w.todo, t)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// listen keeps the orders' events subscribed while there is somebody to hear of
// them: they are many, and most nodes of a rush have better things to do.
func (w *Watch) listen(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		if w.rooms.Users() == 0 {
			select {
			case <-w.came:
				continue
			case <-ctx.Done():
				return
			}
		}
		some, leave := w.whileSomebody(ctx)
		// Whoever is here already may have missed what came before.
		err := w.o.Bus.Subscribe(some, seatflow.OrdersSubjects, w.missed, w.deliver)
		alone := some.Err() != nil
		leave()
		if alone || ctx.Err() != nil {
			pause = firstPause
			continue
		}
		w.o.Log.Error("cannot follow order events on the bus: trying again", "err", err)
		rest(ctx, pause)
		pause = min(2*pause, longestRest)
	}
}

// whileSomebody returns a context that ends once nobody has been here for a
// while.
func (w *Watch) whileSomebody(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		look := time.NewTicker(emptyFor)
		defer look.Stop()
		empty := false
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			was := empty
			if empty = w.rooms.Users() == 0; empty && was {
				cancel()
				return
			}
		}
	}()
	return ctx, cancel
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// missed tells everybody that notices may be missing, and reads all holds
// again.
func (w *Watch) missed() {
	w.rooms.DeliverAll(seatflow.Notice{Kind: seatflow.NoticeMissed, At: w.o.Clock.Now()})
	for _, user := range w.rooms.who() {
		w.add(task{user: user})
	}
}

// deliver takes messages from the bus.
func (w *Watch) deliver(messages []seatflow.Message) {
	for i := range messages {
		m := &messages[i]
		if m.Gap {
			w.missed()
		}
		if m.Subject == "" {
			continue
		}
		if w.o.Lamport != nil {
			w.o.Lamport.ReceiveMessage(m)
		}
		n, err := seatflow.ParseOrderNotice(m.Payload)
		if err != nil {
			w.o.Log.Warn("an order event that cannot be read", "id", m.ID, "err", err)
			continue
		}
		if !w.rooms.Here(n.User) {
			continue // nearly always
		}
		w.rooms.Deliver(seatflow.Notice{Kind: seatflow.NoticeOrder, ID: string(n.Order) + "." + strconv.FormatInt(n.Version, 10),
			User: n.User, Show: n.Show, Order: n.Order, Version: n.Version, Event: n.Type, State: n.To, Seats: n.Seats,
			Device: n.Device, TraceID: n.TraceID, At: n.At})
		if n.To == seatflow.OrderPending {
			w.add(task{n.User, n.Order})
		} else {
			w.ended(n.User, n.Order)
		}
	}
}

// longest is how long nothing is looked at when nothing happens.
const longest = time.Hour

// read looks into the ledger for what has to be known of holds, and returns
// how long until something that could not be read is tried again.
func (w *Watch) read(ctx context.Context) time.Duration {
	if left := time.Until(w.again); left > 0 {
		return left
	}
	w.mu.Lock()
	todo := w.todo
	w.todo = nil
	w.mu.Unlock()
	done := make(map[task]bool, len(todo))
	for i, t := range todo {
		if done[t] || done[task{user: t.user}] || !w.rooms.Here(t.user) {
			continue
		}
		if err := w.readOne(ctx, t); err != nil {
			if ctx.Err() == nil {
				w.o.Log.Warn("cannot read whose holds end when: trying again", "err", err)
			}
			w.mu.Lock()
			w.todo = append(todo[i:], w.todo...)
			w.mu.Unlock()
			w.pause = min(max(2*w.pause, firstPause), longestRest)
			w.again = time.Now().Add(w.pause)
			return w.pause
		}
		done[t] = true
	}
	w.pause = 0
	return longest
}

func (w *Watch) readOne(ctx context.Context, t task) error {
	ctx, cancel := context.WithTimeout(ctx, readFor)
	defer cancel()
	var list []seatflow.Order
	if t.order == "" {
		var err error
		if list, err = w.o.Orders.OrdersOf(ctx, t.user, "", ordersRead); err != nil {
			return err
		}
	} else {
		o, err := w.o.Orders.Order(ctx, t.order, t.user)
		if err != nil {
			return err
		}
		list = []seatflow.Order{o}
	}
	w.mu.Lock()
	mine := w.holds[t.user]
	for i := range list {
		o := &list[i]
		switch known := mine[o.No]; {
		case o.State != seatflow.OrderPending:
			delete(mine, o.No)
			continue
		case known != nil:
			known.deadline = o.Deadline
		default:
			if mine == nil {
				mine = make(map[seatflow.OrderNo]*hold)
				w.holds[t.user] = mine
			}
			mine[o.No] = &hold{show: o.Show, deadline: o.Deadline}
		}
		if at := o.Deadline.Add(-w.o.Before); at.Before(w.next) {
			w.next = at
		}
	}
	w.mu.Unlock()
	if !w.rooms.Here(t.user) { // they left meanwhile, and nobody else would forget this
		w.left(t.user)
	}
	return nil
}

// tell gives the notices of holds that are about to end, once they are read
// again, and returns how long until the next may be due.
func (w *Watch) tell(ctx context.Context) time.Duration {
	now := w.o.Clock.Now()
	var due []seatflow.Notice
	w.mu.Lock()
	if left := w.next.Sub(now); left > 0 {
		w.mu.Unlock()
		return left
	}
	next := longest
	for user, mine := range w.holds {
		for no, h := range mine {
			switch left := h.deadline.Sub(now); {
			case left <= 0:
				delete(mine, no)
			case h.told.Equal(h.deadline):
				next = min(next, left)
			case left <= w.o.Before:
				h.told = h.deadline
				due = append(due, seatflow.Notice{Kind: seatflow.NoticeHoldEnding, ID: string(no) + "." + strconv.FormatInt(h.deadline.Unix(), 10),
					User: user, Show: h.show, Order: no, State: seatflow.OrderPending, Deadline: h.deadline, At: now})
				next = min(next, left)
			default:
				next = min(next, left-w.o.Before)
			}
		}
		if len(mine) == 0 {
			delete(w.holds, user)
		}
	}
	w.next = now.Add(next)
	w.mu.Unlock()
	for i := range due {
		n := &due[i]
		if err := w.readOne(ctx, task{n.User, n.Order}); err != nil && ctx.Err() == nil {
			w.o.Log.Warn("cannot read an order whose hold seems about to end: saying so all the same", "order", n.Order, "err", err)
		}
		if w.holding(n) {
			w.rooms.Deliver(*n)
		}
	}
	return next
}

// holding reports whether the hold of a notice is still known to end then.
func (w *Watch) holding(n *seatflow.Notice) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.holds[n.User][n.Order]
	return h != nil && h.deadline.Equal(n.Deadline)
}
