package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/verify"
)

// request is one call of a buyer, and what it met on its way.
type request struct {
	holds []seatflow.Owner // that the store said it has
	met_  []string
	only  bool // every fault so far was a refused insert
}

func (q *request) met(c *call, f fate) {
	q.only = (len(q.met_) == 0 || q.only) && c.verb == "InsertOrder" && f == refused
	q.met_ = append(q.met_, c.verb+" "+fateNames[f])
}

// errNoAnswer: the node died before it answered.
var errNoAnswer = errors.New("simulate: no answer")

// buyer is one user with one device.
type buyer struct {
	w    *world
	name seatflow.UserID
	rng  *rand.Rand
	keys int
}

// buy orders again and again until the world closes its doors.
func (b *buyer) buy() {
	for rest(b.w.ctx, b.span(50*time.Millisecond, 2*time.Second)) && b.w.open() {
		b.order()
	}
}

func (b *buyer) span(from, to time.Duration) time.Duration {
	return from + time.Duration(b.rng.Int64N(int64(to-from)))
}

// on runs a request on a node that lives; what a node says that dies
// meanwhile never arrives.
func (b *buyer) on(what string, do func(ctx context.Context, n *node) error) error {
	n := b.w.anyNode(b.rng)
	if n == nil {
		return errNoAnswer
	}
	q := &request{}
	ctx, cancel := context.WithTimeout(context.WithValue(as(n.ctx, n.name+"/"+string(b.name)), requestKey{}, q), requestFor)
	defer cancel()
	err := do(ctx, n)
	if b.w.isDead(n) {
		return errNoAnswer
	}
	b.w.answered(what, q, err)
	return err
}

func (b *buyer) actor() seatflow.Actor {
	return seatflow.Actor{User: b.name, Role: seatflow.RoleBuyer, Device: seatflow.DeviceWeb}
}

// again reports whether an answer says nothing for certain, so that the buyer
// asks once more.
func again(err error) bool {
	code := seatflow.CodeOf(err)
	return err != nil && (errors.Is(err, errNoAnswer) || code == seatflow.CodeNotReady || code == seatflow.CodeInFlight || code == seatflow.CodeSystem)
}

func (b *buyer) order() {
	b.keys++
	key := fmt.Sprintf("%s-%d", b.name, b.keys)
	seats := b.w.someSeats(b.rng)
	var o seatflow.Order
	for try := 0; ; try++ {
		err := b.on("order", func(ctx context.Context, n *node) error {
			created, err := n.booking.Create(ctx, booking.CreateRequest{Actor: b.actor(), Show: b.w.house.Show.ID, Seats: seats, Key: key})
			o = created.Order
			return err
		})
		if err == nil {
			break
		}
		if !again(err) || try >= 5 || !rest(b.w.ctx, b.span(10*time.Millisecond, time.Second)) {
			return
		}
	}
	b.w.ack(verify.OpOrder, &o)
	switch n := b.rng.IntN(20); {
	case n < 11:
		b.pay(&o)
	case n < 14:
		b.cancel(&o)
	case n < 16:
		_ = b.on("extend", func(ctx context.Context, n *node) error { _, err := n.booking.Extend(ctx, b.actor(), o.No); return err })
	default: // goes away
	}
}

func (b *buyer) cancel(o *seatflow.Order) {
	if !rest(b.w.ctx, b.span(0, 3*time.Second)) {
		return
	}
	for range 3 {
		err := b.on("cancel", func(ctx context.Context, n *node) error {
			ended, err := n.booking.Cancel(ctx, b.actor(), o.No)
			if err == nil {
				*o = ended
			}
			return err
		})
		if err == nil {
			b.w.ack(verify.OpCancel, o)
		}
		if !again(err) {
			return
		}
	}
}

func (b *buyer) pay(o *seatflow.Order) {
	if !rest(b.w.ctx, b.span(0, 5*time.Second)) {
		return
	}
	var started seatflow.Order
	err := b.on("pay", func(ctx context.Context, n *node) (err error) {
		_, started, err = n.payment.Start(ctx, b.actor(), o.No, "")
		return err
	})
	if err != nil {
		return
	}
	b.w.provider.capture(&started, b.rng)
	if b.rng.IntN(2) == 0 {
		b.refund(o)
	}
}

// refund has staff take back some seats of an order, or all. It may be unpaid
// as yet, or by now belong to the same buyer's money for the second time.
func (b *buyer) refund(o *seatflow.Order) {
	if !rest(b.w.ctx, b.span(time.Second, 15*time.Second)) {
		return
	}
	staff := seatflow.Actor{User: "clerk", Role: seatflow.RoleStaff, Device: seatflow.DeviceKiosk}
	var seats []seatflow.SeatID
	if all := o.Seats(); b.rng.IntN(2) == 0 {
		seats = all[:1+b.rng.IntN(len(all))]
	}
	for range 3 {
		err := b.on("refund", func(ctx context.Context, n *node) error {
			_, _, err := n.booking.Refund(ctx, staff, o.No, seats)
			return err
		})
		if !again(err) || !rest(b.w.ctx, b.span(10*time.Millisecond, time.Second)) {
			return
		}
	}
}

// provider takes money and tells of it when it likes.
type provider struct {
	w *world

	mu       sync.Mutex
	captured map[string]seatflow.Money
	refunded map[string]seatflow.Money // by refund
	given    map[string]int64          // by capture
	owed     int                       // callbacks that nobody has accepted yet
}

// Name implements [seatflow.PaymentProvider].
func (p *provider) Name() string { return "bank" }

// Start implements [seatflow.PaymentProvider].
func (p *provider) Start(_ context.Context, r seatflow.PaymentRequest) (seatflow.Checkout, error) {
	return seatflow.Checkout{Provider: p.Name(), Ref: string(r.Order), URL: "/"}, nil
}

// Verify implements [seatflow.PaymentProvider].
func (p *provider) Verify(_ func(string) string, body []byte) (seatflow.PaymentEvent, error) {
	var e seatflow.PaymentEvent
	err := json.Unmarshal(body, &e)
	return e, err
}

// Refund implements [seatflow.PaymentProvider].
func (p *provider) Refund(_ context.Context, r seatflow.Refund) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, done := p.refunded[r.ID]; !done {
		p.refunded[r.ID] = r.Amount
		p.given[r.CaptureID] += r.Amount.Amount
	}
	return nil
}

// capture takes the money of an order, now and then twice, and has the
// callbacks on their way: soon, or about when the hold ends, or late; more
// than one of each.
func (p *provider) capture(o *seatflow.Order, rng *rand.Rand) {
	times := 1
	if rng.IntN(10) == 0 {
		times = 2
	}
	for range times {
		p.mu.Lock()
		id := fmt.Sprintf("cap-%d", len(p.captured)+1)
		p.captured[id] = o.Total
		p.mu.Unlock()
		body, err := json.Marshal(seatflow.PaymentEvent{Provider: p.Name(), EventID: "evt-" + id, CaptureID: id,
			Type: seatflow.PaymentCaptured, Order: o.No, Amount: o.Total, At: time.Now().UTC()})
		if err != nil {
			panic(err)
		}
		delay := time.Duration(rng.Int64N(int64(2 * time.Second)))
		switch rng.IntN(4) {
		case 0: // in the moment in which the hold ends
			delay = max(0, time.Until(o.Deadline.Add(-time.Duration(p.w.seatOffset.Load())))+time.Duration(rng.Int64N(int64(guardianEvery))))
		case 1:
			delay = time.Duration(rng.Int64N(int64(30 * time.Second)))
		}
		copies := 1
		if p.w.has(faultCallbacks) {
			copies += rng.IntN(3)
		}
		for i := range copies {
			wait := delay + time.Duration(i)*time.Duration(rng.Int64N(int64(3*time.Second)))
			seed := rng.Uint64()
			p.mu.Lock()
			p.owed++
			p.mu.Unlock()
			p.w.wg.Go(func() { p.deliver(fmt.Sprintf("%s/%d", id, i), body, wait, rand.New(rand.NewPCG(seed, 5))) })
		}
	}
}

// deliver calls back until somebody accepts.
func (p *provider) deliver(name string, body []byte, wait time.Duration, rng *rand.Rand) {
	for rest(p.w.ctx, wait) {
		wait = 100*time.Millisecond + time.Duration(rng.Int64N(int64(time.Second)))
		n := p.w.anyNode(rng)
		if n == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(as(n.ctx, n.name+"/callback "+name), requestFor)
		out, err := n.payment.Callback(ctx, p.Name(), func(string) string { return "" }, bytes.Clone(body))
		cancel()
		if err != nil || p.w.isDead(n) {
			continue
		}
		if out.Ending == seatflow.EndingPaid || out.Ending == seatflow.EndingReseated {
			p.w.ack(verify.OpPay, &out.Order)
		}
		p.mu.Lock()
		p.owed--
		p.mu.Unlock()
		return
	}
}

// someSeats is what a buyer asks for: one to three seats, most of them near
// the first.
func (w *world) someSeats(rng *rand.Rand) []seatflow.SeatID {
	var seats []seatflow.SeatID
	for range 1 + rng.IntN(3) {
		id := seatflow.SeatID(1 + min(rng.IntN(houseSeats), rng.IntN(houseSeats)))
		if !slices.Contains(seats, id) {
			seats = append(seats, id)
		}
	}
	return seats
}

// anyNode returns a node that lives, nil if there is none.
func (w *world) anyNode(rng *rand.Rand) *node {
	i := rng.IntN(len(w.nodes))
	w.mu.Lock()
	defer w.mu.Unlock()
	for j := range w.nodes {
		if n := w.nodes[(i+j)%len(w.nodes)]; n != nil && !n.dead {
			return n
		}
	}
	return nil
}

func (w *world) isDead(n *node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return n.dead
}

// ack writes what a buyer was told for certain.
func (w *world) ack(op string, o *seatflow.Order) {
	seats := make([]seatflow.SeatID, len(o.Items)) // also those given back
	for i := range o.Items {
		seats[i] = o.Items[i].Seat
	}
	line, err := json.Marshal(verify.Ack{At: time.Now().UTC(), Op: op, No: o.No, Show: o.Show, User: o.User, Seats: seats, State: o.State})
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks.Write(append(line, '\n'))
}
