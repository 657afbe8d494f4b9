package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"seatflow"
)

// InsertOrder implements [seatflow.Orders].
func (l *Ledger) InsertOrder(ctx context.Context, n seatflow.NewOrder) (seatflow.Order, error) {
	if err := l.prepare(&n); err != nil {
		return seatflow.Order{}, err
	}
	if n.Order.Key != "" && l.byKey == nil {
		l.keys.add(n.Order.User, n.Order.Key) // before its row can be seen
	}
	o := l.ops.get()
	o.insert, o.bytes = &n, 512+16*len(n.Order.Items)+len(n.Order.Reason)
	o.state.Store(opWaiting)
	err, settled := l.commits.submit(ctx, o)
	if settled {
		o.insert = nil
		l.ops.put(o)
	}
	if err != nil {
		return seatflow.Order{}, err
	}
	return n.Order, nil
}

// prepare makes an order what will stand in its row, and refuses one that
// could not be read back.
func (l *Ledger) prepare(n *seatflow.NewOrder) error {
	o := &n.Order
	switch {
	case !o.No.Valid():
		return fmt.Errorf("ledger: %q is no order number", o.No)
	case o.User == "":
		return fmt.Errorf("ledger: order %s has no user", o.No)
	case len(o.Items) == 0:
		return fmt.Errorf("ledger: order %s has no seats", o.No)
	}
	switch o.Kind {
	case seatflow.KindSale, "":
		o.Kind, o.State = seatflow.KindSale, seatflow.OrderPending
	case seatflow.KindBlock:
		o.State, o.Key, o.Deadline, o.Cap = seatflow.OrderBlocked, "", time.Time{}, time.Time{}
	default:
		return fmt.Errorf("ledger: order %s has kind %q", o.No, o.Kind)
	}
	if !slices.IsSortedFunc(o.Items, func(a, b seatflow.OrderItem) int { return int(a.Seat) - int(b.Seat) }) {
		o.Items = slices.Clone(o.Items)
		slices.SortFunc(o.Items, func(a, b seatflow.OrderItem) int { return int(a.Seat) - int(b.Seat) })
	}
	for i := range o.Items {
		if o.Items[i].Seat < 1 || o.Items[i].Refunded || i > 0 && o.Items[i].Seat == o.Items[i-1].Seat {
			return fmt.Errorf("ledger: order %s has a bad seat %d", o.No, o.Items[i].Seat)
		}
	}
	o.Attempt, o.Version, o.Extended = 1, 1, false
	if o.CreatedAt.IsZero() {
		o.CreatedAt = l.opts.Clock.Now()
	}
	o.CreatedAt = stored(o.CreatedAt)
	o.UpdatedAt = o.CreatedAt
	o.TakenAt, o.Deadline, o.Cap = stored(o.TakenAt), stored(o.Deadline), stored(o.Cap)
	return nil
}

// OrderByKey implements [seatflow.Orders]. Where nobody else writes, a key that
// was never used is known without the database; elsewhere look-ups that are
// made at the same time share a statement.
func (l *Ledger) OrderByKey(ctx context.Context, user seatflow.UserID, key string) (_ seatflow.Order, err error) {
	defer l.unread(&err)
	if key == "" {
		return seatflow.Order{}, seatflow.ErrNotFound
	}
	if l.byKey != nil {
		return l.byKey.find(ctx, userKey{user, key})
	}
	if l.keys.never(user, key) {
		return seatflow.Order{}, seatflow.ErrNotFound
	}
	return queryOrder(ctx, &l.reads, "user_id = ? AND okey = ?", string(user), key)
}

// Order implements [seatflow.Orders].
func (l *Ledger) Order(ctx context.Context, no seatflow.OrderNo, user seatflow.UserID) (_ seatflow.Order, err error) {
	defer l.unread(&err)
	var o seatflow.Order
	if l.byNo != nil {
		o, err = l.byNo.find(ctx, no)
	} else {
		o, err = queryOrder(ctx, &l.reads, "no = ?", string(no))
	}
	if err == nil && user != "" && o.User != user {
		return seatflow.Order{}, seatflow.ErrNotFound
	}
	return o, err
}

// OrdersOf implements [seatflow.Orders].
func (l *Ledger) OrdersOf(ctx context.Context, user seatflow.UserID, before seatflow.OrderNo, limit int) (_ []seatflow.Order, err error) {
	defer l.unread(&err)
	if before == "" {
		before = "~" // after every number
	}
	return queryAll(ctx, &l.reads, scanOnlyOrder, l.dialect.ordersOf(), string(user), string(before), bounded(limit))
}

// bounded makes a limit one that every database takes.
func bounded(limit int) int64 {
	if limit <= 0 {
		return math.MaxInt32
	}
	return int64(limit)
}

// History implements [seatflow.Orders].
func (l *Ledger) History(ctx context.Context, no seatflow.OrderNo) (_ []seatflow.OrderEvent, err error) {
	defer l.unread(&err)
	events, err := queryAll(ctx, &l.reads, func(row scanner) (seatflow.OrderEvent, error) {
		var items string
		return scanEvent(row, &items)
	}, "SELECT "+eventColumns+", o.items FROM order_event e JOIN order_info o ON o.no = e.order_no WHERE e.order_no = ? ORDER BY e.version", string(no))
	if err == nil && len(events) == 0 {
		return nil, seatflow.ErrNotFound
	}
	return events, err
}

const eventColumns = "e.id, e.order_no, e.version, e.type, e.from_state, e.to_state, e.seats, " +
	"COALESCE(e.actor_user, o.user_id), e.actor_role, COALESCE(e.trace_id, ''), COALESCE(e.span_id, ''), COALESCE(e.device, o.device), e.at"

// scanEvent reads eventColumns, which need the order beside the event, the order's items (for events that concern
// every seat), and what else was selected after them.
func scanEvent(row scanner, items *string, more ...any) (seatflow.OrderEvent, error) {
	var (
		e     seatflow.OrderEvent
		seats *string
		at    int64
	)
	dest := []any{&e.ID, &e.Order, &e.Version, &e.Type, &e.From, &e.To, &seats, &e.Actor.User, &e.Actor.Role, &e.Actor.TraceID,
		&e.Actor.SpanID, &e.Actor.Device, &at}
	if err := row.Scan(append(append(dest, items), more...)...); err != nil {
		return e, err
	}
	e.At = instant(at)
	var err error
	if seats != nil {
		e.Seats, err = parseSeats(*seats)
		return e, err
	}
	all, err := parseItems(*items)
	for i := range all {
		e.Seats = append(e.Seats, all[i].Seat)
	}
	return e, err
}

// find reads the order that a change is about, within its transaction.
func find(t *tx, c seatflow.OrderChange) (seatflow.Order, error) {
	o, err := queryOrder(t.ctx, t, "no = ?"+t.w.d.forUpdate(), string(c.No))
	if errors.Is(err, seatflow.ErrNotFound) || err == nil && c.User != "" && o.User != c.User {
		return seatflow.Order{}, domainError{seatflow.ErrNotFound}
	}
	return o, err
}

func wrongState(o *seatflow.Order) error {
	return domainError{fmt.Errorf("ledger: order %s is %s: %w", o.No, o.State, seatflow.ErrWrongState)}
}

// move writes an order as it has become, with the event that tells of it and
// the outbox row. seats nil: the event concerns every seat.
func (l *Ledger) move(t *tx, o *seatflow.Order, from seatflow.OrderState, event seatflow.EventType, seats []seatflow.SeatID, actor seatflow.Actor) error {
	seen := o.Version
	o.Version++
	o.UpdatedAt = stored(l.opts.Clock.Now())
	extended := 0
	if o.Extended {
		extended = 1
	}
	if err := t.execOne("UPDATE order_info SET state = ?, version = ?, attempt = ?, items = ?, deadline = ?, extended = ?, updated_at = ? "+
		"WHERE no = ? AND version = ? AND state = ?",
		string(o.State), o.Version, int64(o.Attempt), formatItems(o.Items), micros(o.Deadline), extended, micros(o.UpdatedAt),
		string(o.No), seen, string(from)); err != nil {
		return fmt.Errorf("order %s: %w", o.No, err)
	}
	return l.event(t, o, from, event, seats, actor)
}

// event adds an order's event at its version, and the outbox row.
func (l *Ledger) event(t *tx, o *seatflow.Order, from seatflow.OrderState, event seatflow.EventType, seats []seatflow.SeatID, actor seatflow.Actor) error {
	id, err := l.eventIDs(t, 1)
	if err != nil {
		return err
	}
	var concerned any
	if seats != nil {
		concerned = formatSeats(seats)
	}
	if _, err := t.exec("INSERT INTO order_event (order_no, version, id, type, from_state, to_state, seats, actor_user, actor_role, "+
		"trace_id, span_id, device, at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
		string(o.No), o.Version, id, string(event), string(from), string(o.State), concerned, string(actor.User), string(actor.Role),
		actor.TraceID, actor.SpanID, string(actor.Device), micros(o.UpdatedAt)); err != nil {
		return err
	}
	_, err = t.exec("INSERT INTO outbox (id, order_no, version) VALUES (?,?,?)", id, string(o.No), o.Version)
	return err
}

// vacate deletes the occupancy of seats of an order.
func vacate(t *tx, o *seatflow.Order, seats []seatflow.SeatID) error {
	if t.w.d.texts() && len(seats) > 1 {
		return vacateByList(t, o, seats)
	}
	for _, s := range seats {
		if err := t.execOne("DELETE FROM order_seat WHERE show_id = ? AND seat_id = ? AND order_no = ?",
			int64(o.Show), int64(s), string(o.No)); err != nil {
			return fmt.Errorf("order %s, seat %d: %w", o.No, s, err)
		}
	}
	return nil
}

// VoidOrder implements [seatflow.Orders].
func (l *Ledger) VoidOrder(ctx context.Context, no seatflow.OrderNo, show seatflow.ShowID, actor seatflow.Actor) (seatflow.Order, error) {
	if !no.Valid() {
		return seatflow.Order{}, fmt.Errorf("ledger: %q is no order number", no)
	}
	return change(ctx, l, 0, func(t *tx) (seatflow.Order, error) {
		o, err := queryOrder(t.ctx, t, "no = ?", string(no))
		if !errors.Is(err, seatflow.ErrNotFound) {
			return o, err
		}
		now := stored(l.opts.Clock.Now())
		o = seatflow.Order{No: no, Attempt: 1, Version: 1, Show: show, Kind: seatflow.KindSale, State: seatflow.OrderVoid,
			Device: actor.Device, CreatedAt: now, UpdatedAt: now}
		if _, err := t.exec("INSERT INTO order_info ("+orderColumns+") VALUES (?,?,'',NULL,NULL,'',0,'',0,0,0,?,?,?,?,?,'',1,1,0)",
			string(no), int64(show), micros(now), micros(now), string(o.Kind), string(o.State), string(o.Device)); err != nil {
			return seatflow.Order{}, err
		}
		err = l.event(t, &o, "", seatflow.EventVoided, nil, actor)
		return o, err
	})
}

// StartPayment implements [seatflow.Orders]. An extension is an event of its
// own, after the start's.
func (l *Ledger) StartPayment(ctx context.Context, c seatflow.OrderChange, extendTo time.Time) (seatflow.Order, error) {
	return change(ctx, l, 0, func(t *tx) (seatflow.Order, error) {
		o, err := find(t, c)
		if err != nil {
			return o, err
		}
		if o.State != seatflow.OrderPending {
			return o, wrongState(&o)
		}
		if err := l.move(t, &o, o.State, seatflow.EventPaymentStarted, nil, c.Actor); err != nil {
			return o, err
		}
		to := earlier(stored(extendTo), o.Cap)
		if extendTo.IsZero() || o.Extended || !to.After(o.Deadline) {
			return o, nil
		}
		o.Deadline, o.Extended = to, true
		err = l.move(t, &o, o.State, seatflow.EventExtended, nil, c.Actor)
		return o, err
	})
}

// earlier returns the earlier of a deadline and a cap; a zero cap is none.
func earlier(deadline, limit time.Time) time.Time {
	if !limit.IsZero() && limit.Before(deadline) {
		return limit
	}
	return deadline
}

// ExtendOrder implements [seatflow.Orders]. An extension that would not move
// the deadline on is refused, so that it is not used up for nothing.
func (l *Ledger) ExtendOrder(ctx context.Context, c seatflow.OrderChange, seen, deadline time.Time) (seatflow.Order, error) {
	return change(ctx, l, 0, func(t *tx) (seatflow.Order, error) {
		o, err := find(t, c)
		if err != nil {
			return o, err
		}
		to := earlier(stored(deadline), o.Cap)
		if o.State != seatflow.OrderPending || o.Extended || !o.Deadline.Equal(stored(seen)) || !to.After(o.Deadline) {
			return o, wrongState(&o)
		}
		o.Deadline, o.Extended = to, true
		err = l.move(t, &o, o.State, seatflow.EventExtended, nil, c.Actor)
		return o, err
	})
}

// CancelOrder implements [seatflow.Orders].
func (l *Ledger) CancelOrder(ctx context.Context, c seatflow.OrderChange) (seatflow.Order, error) {
	return change(ctx, l, 0, func(t *tx) (seatflow.Order, error) {
		o, err := find(t, c)
		if err != nil {
			return o, err
		}
		switch {
		case o.Kind == seatflow.KindSale && o.State == seatflow.OrderCancelled:
			err = l.move(t, &o, o.State, seatflow.EventCancelRepeated, nil, c.Actor)
			return o, err
		case o.State != seatflow.OrderPending:
			return o, wrongState(&o)
		}
		err = l.end(t, &o, seatflow.OrderCancelled, seatflow.EventCancelled, c.Actor)
		return o, err
	})
}

// ExpireOrder implements [seatflow.Orders].
func (l *Ledger) ExpireOrder(ctx context.Context, c seatflow.OrderChange, seen time.Time) (seatflow.Order, error) {
	return change(ctx, l, 0, func(t *tx) (seatflow.Order, error) {
		o, err := find(t, c)
		if err != nil {
			return o, err
		}
		if o.State != seatflow.OrderPending || !o.Deadline.Equal(stored(seen)) {
			return o, wrongState(&o)
		}
		err = l.end(t, &o, seatflow.OrderExpired, seatflow.EventExpired, c.Actor)
		return o, err
	})
}

// end moves a pending order to an end that has no seats.
func (l *Ledger) end(t *tx, o *seatflow.Order, to seatflow.OrderState, event seatflow.EventType, actor seatflow.Actor) error {
	from := o.State
	o.State = to
	if err := vacate(t, o, o.Seats()); err != nil {
		return err
	}
	return l.move(t, o, from, event, nil, actor)
}

// UnblockSeats implements [seatflow.Orders]. Seats given back already are
// skipped; a seat that never was the block's is ErrNotFound.
func (l *Ledger) UnblockSeats(ctx context.Context, c seatflow.OrderChange, seats []seatflow.SeatID) (seatflow.Order, error) {
	seats = slices.Clone(seats)
	return change(ctx, l, 8*len(seats), func(t *tx) (seatflow.Order, error) {
		o, err := find(t, c)
		if err != nil {
			return o, err
		}
		if o.Kind != seatflow.KindBlock {
			return o, wrongState(&o)
		}
		given, _, err := giveBack(&o, seats)
		if err != nil || len(given) == 0 {
			return o, err
		}
		if err := vacate(t, &o, given); err != nil {
			return o, err
		}
		from := o.State
		if len(o.Seats()) == 0 {
			o.State = seatflow.OrderCancelled
		}
		err = l.move(t, &o, from, seatflow.EventUnblocked, given, c.Actor)
		return o, err
	})
}

// giveBack marks seats (nil: all) of an order as given back, and returns those
// that were not before and the sum of their prices.
func giveBack(o *seatflow.Order, seats []seatflow.SeatID) (given []seatflow.SeatID, sum int64, err error) {
	if seats == nil {
		seats = o.Seats()
	}
	for _, s := range seats {
		i, ok := slices.BinarySearchFunc(o.Items, s, func(it seatflow.OrderItem, s seatflow.SeatID) int { return int(it.Seat) - int(s) })
		if !ok {
			return nil, 0, domainError{fmt.Errorf("ledger: order %s has no seat %d: %w", o.No, s, seatflow.ErrNotFound)}
		}
		if !o.Items[i].Refunded {
			o.Items[i].Refunded = true
			given = append(given, s)
			sum += o.Items[i].Price
		}
	}
	slices.Sort(given)
	return given, sum, nil
}

// Blocks implements [seatflow.Orders].
func (l *Ledger) Blocks(ctx context.Context, show seatflow.ShowID) (_ []seatflow.Order, err error) {
	defer l.unread(&err)
	return queryAll(ctx, &l.reads, scanOnlyOrder, l.dialect.blocks(), int64(show))
}
