package verify

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// Ack is one line of a log of acknowledgements: what a server's answer
// promised to a buyer. Tools write it after the answer arrived in full.
type Ack struct {
	At    time.Time           `json:"at"`
	Op    string              `json:"op"` // order, pay or cancel
	No    seatflow.OrderNo    `json:"no"`
	Show  seatflow.ShowID     `json:"showId"`
	User  seatflow.UserID     `json:"userId"`
	Seats []seatflow.SeatID   `json:"seats"`
	State seatflow.OrderState `json:"state"`
}

// The operations that a log of acknowledgements knows.
const (
	OpOrder  = "order"
	OpPay    = "pay"
	OpCancel = "cancel"
)

// promised is what all acknowledgements of one order add up to.
type promised struct {
	Ack
	line   int
	states []seatflow.OrderState // acknowledged, each once
	paid   bool
}

// maxAckLine bounds one line of the log; the longest order fits many times.
const maxAckLine = 64 << 10

// Acked checks I3: every order, payment and cancellation in a log of
// acknowledgements is in the ledger, for the same user, show and seats, in a
// state that can follow from what was acknowledged, and no seat was
// acknowledged to two orders that are both active.
func Acked(ctx context.Context, ledger Facts, log io.Reader) Report {
	c := newCheck(I3, "nothing acknowledged is lost")
	orders := readAcks(&c, log)
	checkAcked(ctx, &c, ledger, orders)
	return report(c)
}

// readAcks folds the log by order, in the order of first appearance.
func readAcks(c *Check, log io.Reader) []*promised {
	byNo := map[seatflow.OrderNo]*promised{}
	var orders []*promised
	r := bufio.NewReaderSize(log, maxAckLine)
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			c.violate("line %d: the log could not be read: %v", n, err)
			return orders
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var a Ack
			err := json.Unmarshal(line, &a, json.RejectUnknownMembers(true))
			switch {
			case err != nil && last:
				// The writer was killed within its last line. What it did
				// not write down whole it did not hear of.
				c.Counts["torn last line"] = 1
			case err != nil:
				c.violate("line %d: %v", n, err)
			default:
				orders = fold(c, byNo, orders, a, n)
			}
		}
		if last {
			return orders
		}
	}
}

func fold(c *Check, byNo map[seatflow.OrderNo]*promised, orders []*promised, a Ack, line int) []*promised {
	switch {
	case a.Op != OpOrder && a.Op != OpPay && a.Op != OpCancel:
		c.violate("line %d: unknown operation %q", line, a.Op)
		return orders
	case !a.No.Valid():
		c.violate("line %d: %q is not an order number", line, a.No)
		return orders
	}
	c.Counts["acknowledged "+a.Op]++
	a.Seats = slices.Clone(a.Seats)
	slices.Sort(a.Seats)
	p := byNo[a.No]
	if p == nil {
		p = &promised{Ack: a, line: line}
		byNo[a.No] = p
		orders = append(orders, p)
	} else if p.Show != a.Show || p.User != a.User || !slices.Equal(p.Ack.Seats, a.Seats) {
		c.violate("order %s was acknowledged for user %s, show %d, seats %v on line %d and for user %s, show %d, seats %v on line %d",
			a.No, p.User, p.Show, p.Ack.Seats, p.line, a.User, a.Show, a.Seats, line)
	}
	if a.Op == OpPay {
		p.paid = true
	}
	if a.State == "" {
		a.State = map[string]seatflow.OrderState{OpOrder: seatflow.OrderPending, OpPay: seatflow.OrderPaid,
			OpCancel: seatflow.OrderCancelled}[a.Op]
	}
	if !slices.Contains(p.states, a.State) {
		p.states = append(p.states, a.State)
	}
	return orders
}

// checkAcked looks every promise up. Active orders come in one read a show,
// the others one by one.
func checkAcked(ctx context.Context, c *Check, ledger Facts, orders []*promised) {
	active := map[seatflow.ShowID]map[seatflow.OrderNo]*seatflow.Order{}
	type place struct {
		show seatflow.ShowID
		seat seatflow.SeatID
	}
	sold := map[place]seatflow.OrderNo{}
	for _, p := range orders {
		if _, read := active[p.Show]; read {
			continue
		}
		active[p.Show] = map[seatflow.OrderNo]*seatflow.Order{}
		facts, err := ledger.Facts(ctx, p.Show)
		if errors.Is(err, seatflow.ErrNotFound) {
			continue // its orders are missed one by one below
		}
		if err != nil {
			c.violate("the facts of show %d could not be read: %v", p.Show, err)
			return
		}
		for i := range facts.Orders {
			active[p.Show][facts.Orders[i].No] = &facts.Orders[i]
		}
	}
	for _, p := range orders {
		o := active[p.Show][p.No]
		if o == nil {
			found, err := ledger.Order(ctx, p.No, "")
			if errors.Is(err, seatflow.ErrNotFound) {
				c.violate("order %s of user %s, show %d, seats %v was acknowledged and is not in the ledger (line %d)",
					p.No, p.User, p.Show, p.Ack.Seats, p.line)
				continue
			}
			if err != nil {
				c.violate("order %s could not be read: %v", p.No, err)
				return
			}
			o = &found
		}
		c.Counts["orders"]++
		c.Counts["now "+string(o.State)]++
		checkPromise(c, p, o)
		if p.paid {
			checkPaid(ctx, c, ledger, p)
		}
		if !o.State.Active() {
			continue
		}
		for _, id := range o.Seats() {
			at := place{o.Show, id}
			if other, taken := sold[at]; taken && other != o.No {
				c.violate("show %d seat %d was acknowledged to %s and to %s, and both are active", o.Show, id, other, o.No)
			}
			sold[at] = o.No
		}
	}
	c.Counts["active seats"] = int64(len(sold))
}

func checkPromise(c *Check, p *promised, o *seatflow.Order) {
	if o.Show != p.Show || o.User != p.User {
		c.violate("order %s was acknowledged to user %s for show %d and is of user %s for show %d", p.No, p.User, p.Show, o.User, o.Show)
	}
	ids := make([]seatflow.SeatID, len(o.Items))
	for i := range o.Items {
		ids[i] = o.Items[i].Seat
	}
	slices.Sort(ids)
	if !slices.Equal(ids, p.Ack.Seats) {
		c.violate("order %s was acknowledged with seats %v and has %v", p.No, p.Ack.Seats, ids)
	}
	for _, s := range p.states {
		if !reaches(s, o.State) {
			c.violate("order %s was acknowledged as %s and is %s, which cannot follow", p.No, s, o.State)
		}
	}
}

// checkPaid looks for the money of an acknowledged payment.
func checkPaid(ctx context.Context, c *Check, ledger Facts, p *promised) {
	payments, err := ledger.PaymentsOf(ctx, p.No)
	if err != nil {
		c.violate("the payments of %s could not be read: %v", p.No, err)
		return
	}
	for i := range payments {
		if e := payments[i].Ending; e == seatflow.EndingPaid || e == seatflow.EndingReseated {
			return
		}
	}
	c.violate("order %s was acknowledged as paid and no payment of it is in the ledger", p.No)
}

// reaches reports whether an order that was in state s may be in state t now.
func reaches(s, t seatflow.OrderState) bool {
	states := []seatflow.OrderState{seatflow.OrderPending, seatflow.OrderPaid, seatflow.OrderCancelled,
		seatflow.OrderExpired, seatflow.OrderRefunded, seatflow.OrderVoid, seatflow.OrderBlocked}
	if !slices.Contains(states, s) {
		return false
	}
	done := map[seatflow.OrderState]bool{s: true}
	for todo := []seatflow.OrderState{s}; len(todo) > 0; {
		from := todo[0]
		todo = todo[1:]
		for _, to := range states {
			if from.CanBecome(to) && !done[to] {
				done[to] = true
				todo = append(todo, to)
			}
		}
	}
	return done[t]
}
