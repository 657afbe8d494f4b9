package httpapi

import (
	"net/http"
	"strconv"

	"seatflow"
	"seatflow/internal/booking"
)

// createOrder is the hot path: hold seats and make the order that owns them.
func (a *API) createOrder(c *call) error {
	buf := buffers.get()
	defer buffers.put(buf)
	if err := c.readBody(buf); err != nil {
		return err
	}
	if err := c.mediaType("application/json"); err != nil {
		return err
	}
	var in CreateOrder
	if err := decodeOrder(buf.b, &in); err != nil {
		return err
	}
	header, same := headerOne(c.r.Header, "Idempotency-Key")
	key, err := booking.OrderKey(header, same, in.IdempotencyKey)
	if err != nil {
		return err
	}
	if in.ShowID < 1 {
		return invalid("showId", "must be a whole number from 1")
	}
	seats, err := booking.SeatList(in.Seats, seatflow.MaxSeatsPerOrder)
	if err != nil {
		return err
	}
	actor, err := c.actor()
	if err != nil {
		return err
	}
	show := seatflow.ShowID(in.ShowID)
	created, err := a.opt.Booking.Create(c.ctx, booking.CreateRequest{
		Actor: actor, Show: show, Seats: seats, Key: key, Fingerprint: booking.RequestFingerprint(show, seats),
	})
	if err != nil {
		return noShow(err)
	}
	buf.b = c.appendOrder(buf.b[:0], &created.Order)
	if created.Replayed {
		c.w.Header()["Idempotency-Replayed"] = trueValue
	}
	c.json(http.StatusCreated, buf.b)
	return nil
}

// sendOrder answers with an order.
func (c *call) sendOrder(status int, o *seatflow.Order) {
	buf := buffers.get()
	defer buffers.put(buf)
	buf.b = c.appendOrder(buf.b, o)
	c.json(status, buf.b)
}

func (a *API) listOrders(c *call) error {
	cursor, limit, err := c.page()
	if err != nil {
		return err
	}
	before := seatflow.OrderNo(cursor)
	if before != "" && !before.Valid() {
		return badCursor()
	}
	actor, err := c.actor()
	if err != nil {
		return err
	}
	list, err := a.opt.Booking.Orders(c.ctx, actor, before, limit+1) // one more tells whether there is a next page
	if err != nil {
		return err
	}
	next := ""
	if len(list) > limit {
		list = list[:limit]
		next = cursorOf(string(list[limit-1].No))
	}
	buf := buffers.get()
	defer buffers.put(buf)
	buf.b = c.appendOrders(append(buf.b, `{"orders":`...), list)
	if next != "" {
		buf.b = append(buf.b, `,"next":`...)
		buf.b = appendString(buf.b, next)
	}
	buf.b = append(buf.b, '}')
	c.json(http.StatusOK, buf.b)
	return nil
}

func (c *call) appendOrders(b []byte, list []seatflow.Order) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.appendOrder(b, &list[i])
	}
	return append(b, ']')
}

// onOrder runs a handler that needs the caller and the order in the path.
func onOrder(handle func(c *call, actor seatflow.Actor, no seatflow.OrderNo) error) func(*call) error {
	return func(c *call) error {
		no, err := c.pathOrder()
		if err != nil {
			return err
		}
		actor, err := c.actor()
		if err != nil {
			return err
		}
		return handle(c, actor, no)
	}
}

func (a *API) order(c *call, actor seatflow.Actor, no seatflow.OrderNo) error {
	o, err := a.opt.Booking.Order(c.ctx, actor, no)
	if err != nil {
		return err
	}
	c.sendOrder(http.StatusOK, &o)
	return nil
}

func (a *API) history(c *call, actor seatflow.Actor, no seatflow.OrderNo) error {
	events, err := a.opt.Booking.History(c.ctx, actor, no)
	if err != nil {
		return err
	}
	out := OrderHistory{No: string(no), Events: make([]OrderEvent, len(events))}
	for i := range events {
		e := &events[i]
		out.Events[i] = OrderEvent{Type: string(e.Type), Version: e.Version, From: string(e.From), To: string(e.To),
			Seats: seatNumbers(e.Seats), By: string(e.Actor.User), Role: string(e.Actor.Role),
			Device: string(e.Actor.Device), TraceID: e.Actor.TraceID, At: instant(e.At)}
	}
	return c.reply(http.StatusOK, &out)
}

func seatNumbers(seats []seatflow.SeatID) []int64 {
	list := make([]int64, len(seats))
	for i, s := range seats {
		list[i] = int64(s)
	}
	return list
}

func (a *API) cancelOrder(c *call, actor seatflow.Actor, no seatflow.OrderNo) error {
	if err := c.nothing(); err != nil {
		return err
	}
	o, err := a.opt.Booking.Cancel(c.ctx, actor, no)
	if err != nil {
		return err
	}
	c.sendOrder(http.StatusOK, &o)
	return nil
}

func (a *API) extendOrder(c *call, actor seatflow.Actor, no seatflow.OrderNo) error {
	if err := c.nothing(); err != nil {
		return err
	}
	o, err := a.opt.Booking.Extend(c.ctx, actor, no)
	if err != nil {
		return err
	}
	c.sendOrder(http.StatusOK, &o)
	return nil
}

func (a *API) startPayment(c *call, actor seatflow.Actor, no seatflow.OrderNo) error {
	if a.opt.Payments == nil {
		return switchedOff()
	}
	var in StartPayment
	if err := c.decode(&in, true); err != nil {
		return err
	}
	checkout, o, err := a.opt.Payments.Start(c.ctx, actor, no, in.Provider)
	if err != nil {
		return err
	}
	buf := buffers.get()
	defer buffers.put(buf)
	b := append(buf.b, `{"provider":`...)
	b = appendString(b, checkout.Provider)
	b = append(b, `,"ref":`...)
	b = appendString(b, checkout.Ref)
	b = append(b, `,"url":`...)
	b = appendString(b, checkout.URL)
	b = append(b, `,"order":`...)
	b = c.appendOrder(b, &o)
	buf.b = append(b, '}')
	c.json(http.StatusCreated, buf.b)
	return nil
}

// switchedOff is the failure of an endpoint that this server does not offer.
func switchedOff() error {
	return &seatflow.Error{Code: seatflow.CodeNotFound, Reason: reasonOff}
}

// itoa is strconv.Itoa for ids.
func itoa[T ~int64 | ~int32](n T) string { return strconv.FormatInt(int64(n), 10) }
