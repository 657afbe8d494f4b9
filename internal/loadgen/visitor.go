package loadgen

import (
	"context"
	"math/rand/v2"
	"time"

	"seatflow"
)

// visitor is one buyer on one visit.
type visitor struct {
	*Crowd
	stage  *stage
	rng    *rand.Rand
	n      uint64
	taste  int
	size   int
	sparse bool // few seats are left: nobody lets a hold run out
	guest  guest
}

// stay is the visit: get seats, then do with them what fate says.
func (v *visitor) stay(ctx context.Context, states string) {
	if err := v.register(ctx); err != nil {
		v.fail(ctx, v.stage, err)
		return
	}
	o, ok := v.hold(ctx, states)
	if !ok {
		return
	}
	fate := v.rng.Float64()
	abandon := v.opt.Abandon
	if v.sparse && v.opt.UntilSoldOut {
		abandon = 0
	}
	v.think(ctx, v.rng, 3)
	switch {
	case fate < abandon:
		v.abandoned.Add(1)
		v.tell(Event{Kind: EventAbandoned, Show: o.Show, User: o.User, Order: o.No, Seats: o.ack("").Seats})
	case fate < abandon+v.opt.Cancel:
		v.giveBack(ctx, o)
	default:
		v.buy(ctx, o)
	}
}

func (v *visitor) register(ctx context.Context) error {
	return v.again(ctx, func() (err error) {
		v.guest, err = v.client.guest(ctx)
		return err
	})
}

// hold picks seats and asks for them until they are had, or the buyer has
// lost the race too often.
func (v *visitor) hold(ctx context.Context, states string) (apiOrder, bool) {
	const patience = 6
	for confirmation := range patience {
		seats := v.stage.pick(v.rng, states, v.size, v.taste)
		if len(seats) == 0 || ctx.Err() != nil {
			return apiOrder{}, false
		}
		v.think(ctx, v.rng, 2)
		key := v.key(v.n, confirmation)
		var o apiOrder
		err := v.again(ctx, func() (err error) {
			o, err = v.client.order(ctx, v.guest.Token, key, v.stage.show, seats)
			return err
		})
		switch code := codeOf(err); {
		case err == nil:
			v.orders.Add(1)
			v.seats.Add(int64(len(o.Seats)))
			v.acknowledge(ctx, o.ack("order"))
			v.tell(Event{Kind: EventHeld, Show: o.Show, User: o.User, Order: o.No, Seats: seats})
			return o, true
		case code == seatflow.CodeSeatsTaken:
			v.collisions.Add(1)
			v.tell(Event{Kind: EventTaken, Show: v.stage.show, User: v.guest.User, Seats: seats})
			if confirmation > 1 {
				v.taste = v.rng.IntN(tastes) // look elsewhere
			}
		case code == seatflow.CodeOverLimit:
			v.limited.Add(1)
			if v.size = max(v.size-1, 1); v.size == 1 || v.opt.UntilSoldOut {
				if err := v.register(ctx); err != nil { // somebody else buys the rest
					v.fail(ctx, v.stage, err)
					return apiOrder{}, false
				}
			}
		case code == seatflow.CodeNotOnSale || code == seatflow.CodeNoShow:
			v.stage.over.Store(true)
			return apiOrder{}, false
		default:
			v.fail(ctx, v.stage, err)
			return apiOrder{}, false
		}
		if states, err = v.look(ctx, v.stage); err != nil {
			v.fail(ctx, v.stage, err)
			return apiOrder{}, false
		}
	}
	return apiOrder{}, false
}

func (v *visitor) giveBack(ctx context.Context, o apiOrder) {
	var ended apiOrder
	err := v.again(ctx, func() (err error) {
		ended, err = v.client.cancel(ctx, v.guest.Token, o.No)
		return err
	})
	switch {
	case err == nil:
		v.cancelled.Add(1)
		v.acknowledge(ctx, ended.ack("cancel"))
		v.tell(Event{Kind: EventCancelled, Show: o.Show, User: o.User, Order: o.No, Seats: o.ack("").Seats})
	case gone(err):
		v.expired.Add(1)
	default:
		v.fail(ctx, v.stage, err)
	}
}

// buy pays, now and then with a card that is declined first.
func (v *visitor) buy(ctx context.Context, o apiOrder) {
	decline := v.rng.Float64() < v.opt.Decline
	late := v.rng.Float64()
	secondCard := v.rng.Float64() < 0.7
	var form string
	err := v.again(ctx, func() (err error) {
		form, err = v.client.checkout(ctx, v.guest.Token, o.No)
		return err
	})
	if err == nil && decline {
		v.think(ctx, v.rng, 1)
		err = v.again(ctx, func() error {
			return v.client.pay(ctx, v.guest.Token, form, card{Outcome: "decline", Copies: 1})
		})
		if err == nil {
			v.declined.Add(1)
			v.tell(Event{Kind: EventDeclined, Show: o.Show, User: o.User, Order: o.No, Seats: o.ack("").Seats})
			if !secondCard {
				v.giveBack(ctx, o)
				return
			}
			err = v.again(ctx, func() (err error) {
				form, err = v.client.checkout(ctx, v.guest.Token, o.No)
				return err
			})
		}
	}
	if err == nil {
		v.think(ctx, v.rng, 2)
		c := card{Outcome: "succeed", Copies: 1, DelayMs: int(late * 400 * v.opt.Pace)}
		if late > 0.9 {
			c.Copies = 2 // a provider that tells twice
		}
		err = v.again(ctx, func() error { return v.client.pay(ctx, v.guest.Token, form, c) })
	}
	switch {
	case err == nil:
		v.awaitPaid(ctx, o)
	case gone(err):
		v.expired.Add(1)
	default:
		v.fail(ctx, v.stage, err)
	}
}

// awaitPaid watches the order until the callback has arrived.
func (v *visitor) awaitPaid(ctx context.Context, o apiOrder) {
	const longest = 30 * time.Second
	start := time.Now()
	for n := 0; ; n++ {
		if v.wait(ctx, min(10*time.Millisecond<<min(n, 6), 500*time.Millisecond)) != nil {
			return
		}
		now := o
		err := v.again(ctx, func() (err error) {
			now, err = v.client.orderNow(ctx, v.guest.Token, o.No)
			return err
		})
		if err != nil {
			v.fail(ctx, v.stage, err)
			return
		}
		switch now.State {
		case seatflow.OrderPaid:
			v.paid.Add(1)
			v.seatsPaid.Add(int64(len(now.Seats)))
			v.acknowledge(ctx, now.ack("pay"))
			v.tell(Event{Kind: EventPaid, Show: o.Show, User: o.User, Order: o.No, Seats: now.ack("").Seats})
			return
		case seatflow.OrderPending:
			if time.Since(start) < longest {
				continue
			}
		}
		v.expired.Add(1)
		return
	}
}

func (v *visitor) acknowledge(ctx context.Context, a Ack) {
	if err := v.opt.Acks.Add(a); err != nil {
		v.fail(ctx, v.stage, err)
	}
}
