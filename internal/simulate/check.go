package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/guardian"
	"seatflow/internal/reconcile"
	"seatflow/internal/verify"
)

// fail notes the first thing that is not as it must be; the world ends.
func (w *world) fail(what, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == "" {
		w.failure, w.detail = what, fmt.Sprintf(format, args...)
	}
}

// observe looks at what the last call did to the view. verb is what was
// called; "" for what the world itself did to it, which is taken as it is.
func (w *world) observe(verb string) {
	ctx := context.Background()
	ref := w.house.Show.Ref()
	identity, rev, err := w.store.Revision(ctx, ref)
	if err != nil {
		w.seen = nil
		return
	}
	if w.seen != nil && w.seen.Revision == rev && w.seen.Identity == identity && verb != "" {
		return
	}
	before := w.seen
	if w.seen, err = w.store.Snapshot(ctx, ref, seatflow.DetailOrders|seatflow.DetailUsers); err != nil {
		w.seen = nil
		return
	}
	if before == nil || verb == "" || verb == "Rebuild" || before.Identity != identity || before.Revision.Generation != rev.Generation {
		return
	}
	for i := range w.seen.States {
		id := seatflow.SeatID(i + 1)
		was, is := before.Owners[id], w.seen.Owners[id]
		if !was.IsZero() && was != is {
			w.taken(ctx, verb, id, was)
		}
		if w.seen.States[i] == seatflow.Sold && (before.States[i] != seatflow.Sold || was != is) {
			w.sold(ctx, verb, id, is)
		}
	}
	if limit := w.house.Show.LimitPerUser; verb == "Hold" {
		for user, n := range w.seen.Users {
			if n > limit && before.Users[user] <= limit && !w.reseated[user] {
				w.fail("limit", "%s has %d seats, %d are allowed", user, n, limit)
			}
		}
	}
}

// taken: a seat is no longer an owner's. Then the facts have ended the order,
// or never had it.
func (w *world) taken(ctx context.Context, verb string, id seatflow.SeatID, was seatflow.Owner) {
	w.freed[was] = true
	o, err := w.ledger.Order(ctx, was.Order, "")
	if err != nil || o.Attempt != was.Attempt || o.State != seatflow.OrderPending && o.State != seatflow.OrderPaid {
		return
	}
	for _, seat := range o.Seats() {
		if seat == id {
			w.fail("taken away", "%s took seat %d from order %s, which is %s", verb, id, was, o.State)
		}
	}
}

// sold: a seat is shown as sold. Then its order was paid.
func (w *world) sold(ctx context.Context, verb string, id seatflow.SeatID, by seatflow.Owner) {
	o, err := w.ledger.Order(ctx, by.Order, "")
	if err != nil || o.State != seatflow.OrderPaid && o.State != seatflow.OrderRefunded {
		w.fail("sold unpaid", "%s shows seat %d as sold to order %s, which is %q (%v)", verb, id, by, o.State, err)
	}
}

// inserted looks at an order that the ledger took, or did not.
func (w *world) inserted(n *seatflow.NewOrder, err error) {
	var conflict *seatflow.SeatConflictError
	switch {
	case err == nil:
		if owner := n.Order.Owner(); w.freed[owner] && !w.corrupted {
			w.fail("late order", "order %s was committed although its hold was given back", owner)
		}
	case errors.As(err, &conflict) && !w.corrupted:
		facts, ferr := w.ledger.Facts(context.Background(), w.house.Show.ID)
		if ferr != nil {
			w.fail("facts", "%v", ferr)
			return
		}
		for i := range facts.Orders {
			o := &facts.Orders[i]
			for _, id := range o.Seats() {
				for _, asked := range conflict.Seats {
					if id == asked && o.Attempt == 1 {
						w.fail("conflict", "order %s was held and then met order %s on seat %d", n.Order.No, o.No, id)
					}
				}
			}
		}
	}
}

// answered looks at what a buyer was told.
func (w *world) answered(what string, q *request, err error) {
	if what != "order" || err == nil || len(q.met_) == 0 || !q.only || w.corrupted {
		return
	}
	snap, serr := w.store.Snapshot(context.Background(), w.house.Show.Ref(), seatflow.DetailOrders)
	if serr != nil {
		return
	}
	for _, owner := range q.holds {
		for id, by := range snap.Owners {
			if by == owner {
				w.fail("not given back", "the request failed (%v) and still holds seat %d as %s", err, id, owner)
			}
		}
	}
}

// published looks at what goes to the bus.
func (w *world) published(m *seatflow.Message) {
	if strings.Contains(m.Subject, ".seats.") && bytes.Contains(m.Payload, []byte("buyer")) {
		w.fail("public", "a public message names a user: %s", m.Payload)
	}
}

// watched holds the maps of the watchers against the view (I6).
func (w *world) watched() {
	snap, err := w.store.Snapshot(context.Background(), w.house.Show.Ref(), seatflow.DetailStates)
	if err != nil {
		w.fail("I6", "no view: %v", err)
		return
	}
	for i, v := range w.watchers {
		if text := v.differs(snap); text != "" {
			w.fail("I6", "watcher %d: %s", i, text)
		}
	}
}

// judge looks at what is left. Nobody is at work any more, and everything is
// older than the grace time.
func (w *world) judge() {
	ctx := context.Background()
	clock := seatClock{w}
	houses := oneHouse{w.house}
	b := booking.New(booking.Options{Seats: w.store, Ledger: w.ledger, Houses: houses, Clock: clock, Grace: grace, NewOrderNo: w.newNo})
	if err := b.EnsureView(ctx, w.house.Show.ID); err != nil {
		w.fail("I4", "no view can be built: %v", err)
		return
	}
	g := guardian.New(guardian.Options{Seats: w.store, Booking: b})
	if _, err := g.RunOnce(ctx); err != nil {
		w.fail("I4", "guardian: %v", err)
		return
	}
	r := reconcile.New(reconcile.Options{Seats: w.store, Ledger: w.ledger, Booking: b, Houses: houses, Clock: clock, Grace: grace})
	// The first round may expire an order whose seat somebody wrote to; who has
	// it by mistake is then seen for the first time, and the second frees it.
	const rounds = 3
	for round := range rounds {
		rep, err := r.Round(ctx, reconcile.RoundOptions{})
		switch {
		case err != nil || len(rep.Alarms) > 0 || len(rep.Skipped) > 0:
			w.fail("I4", "round %d: %v, alarms %v, skipped %v", round+1, err, rep.Alarms, rep.Skipped)
		case round == rounds-1 && rep.Fixed()+rep.Left()+rep.Young() > 0:
			w.fail("I4", "the round after two still repairs %d, leaves %d, waits for %d", rep.Fixed(), rep.Left(), rep.Young())
		}
		time.Sleep(2 * grace)
	}
	if w.faults == 0 {
		rows, err := w.ledger.RepairsOf(ctx, w.house.Show.ID, 0, 10)
		if err != nil || len(rows) > 0 {
			w.fail("false repair", "nothing went wrong, and the reconciler repaired %+v (%v)", rows, err)
		}
	}
	report := verify.All(ctx, w.ledger, w.store, []seatflow.ShowID{w.house.Show.ID}, bytes.NewReader(w.acks.Bytes()))
	if !report.OK() {
		var text strings.Builder
		_ = report.Write(&text)
		w.fail("verify", "%s", text.String())
	}
	w.conserved(ctx)
	w.money(ctx)
}

// conserved: the seats of all states are the house's, and everybody's count is
// the seats they have.
func (w *world) conserved(ctx context.Context) {
	snap, err := w.store.Snapshot(ctx, w.house.Show.Ref(), seatflow.DetailOrders|seatflow.DetailUsers)
	if err != nil {
		w.fail("conservation", "%v", err)
		return
	}
	counts := map[seatflow.SeatState]int{}
	for _, s := range snap.States {
		counts[s]++
	}
	if n := counts[seatflow.Available] + counts[seatflow.Held] + counts[seatflow.Sold] + counts[seatflow.Blocked] + counts[seatflow.NoSeat]; n != houseSeats {
		w.fail("conservation", "%d seats of %d", n, houseSeats)
	}
	users := map[seatflow.UserID]int{}
	for _, rec := range snap.Orders {
		users[rec.User] += len(rec.Seats)
	}
	for user, n := range snap.Users {
		if users[user] != n {
			w.fail("conservation", "%s is counted %d seats and has %d", user, n, users[user])
		}
	}
	if counts[seatflow.Held] > 0 {
		w.fail("stuck", "%d seats are held long after every hold ended", counts[seatflow.Held])
	}
}

// money: what the provider took is what the ledger knows, and nothing was given
// back twice or left undone (I2 from outside).
func (w *world) money(ctx context.Context) {
	a, err := w.ledger.Audit(ctx)
	if err != nil {
		w.fail("money", "%v", err)
		return
	}
	p := w.provider
	if int(a.Captures) != len(p.captured) {
		w.fail("money", "the provider took %d payments, the ledger knows %d", len(p.captured), a.Captures)
	}
	for id, given := range p.given {
		if took := p.captured[id].Amount; given > took {
			w.fail("money", "%d of capture %s were given back, %d were taken", given, id, took)
		}
	}
	if due, err := w.ledger.DueRefunds(ctx, 10); err != nil || len(due) > 0 {
		w.fail("money", "refunds are not done: %v (%v)", due, err)
	}
}
