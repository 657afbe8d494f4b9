package seatflow

import (
	"fmt"
	"strconv"
	"time"
)

// Subjects of the two streams on the bus.
const (
	SeatsSubjects  = "seatflow.seats.>"
	OrdersSubjects = "seatflow.orders.>"
)

// SeatsSubject is where the changes of a show are published:
// seatflow.seats.p07.42.
func SeatsSubject(partition Partition, show ShowID) string {
	b := appendPartition(make([]byte, 0, 40), partition)
	b = append(b, '.')
	return string(strconv.AppendInt(b, int64(show), 10))
}

// PartitionSubjects matches the subjects of every show of a partition:
// seatflow.seats.p07.>.
func PartitionSubjects(partition Partition) string {
	return string(append(appendPartition(make([]byte, 0, 24), partition), ".>"...))
}

func appendPartition(b []byte, p Partition) []byte {
	b = append(b, "seatflow.seats.p"...)
	if p < 10 {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, uint64(p), 10)
}

// OrdersSubject is where the events of a show's orders are published, the
// dots of the type included: seatflow.orders.42.order.paid.
func OrdersSubject(show ShowID, event EventType) string {
	return "seatflow.orders." + strconv.FormatInt(int64(show), 10) + "." + string(event)
}

// SeatsEventType tells what a message about a show's seats says.
type SeatsEventType string

// The types of message about seats.
const (
	// SeatsChanged carries a run of consecutive changes. A rebuild is a run
	// of its own with revision 0 and no seats: take a snapshot.
	SeatsChanged SeatsEventType = "changed"
	// SeatsPosition repeats the newest revision that was published, so that a
	// lost last message is noticed.
	SeatsPosition SeatsEventType = "position"
	// SeatsReset: changes may be missing before this; take a snapshot, unless
	// Last is known (Generation above 0) and reached already.
	SeatsReset SeatsEventType = "reset"
)

// SeatsEvent is a message about one show's seats. Consumers go by (Store,
// Generation, revision): next is applied, seen is dropped, a gap, a higher
// generation, another store or a reset wants a snapshot, and a lower
// generation is dropped.
type SeatsEvent struct {
	Type       SeatsEventType
	Show       ShowID
	Hall       HallID // 0: unknown
	Generation Generation
	First      int64    // number of the first revision; Last unless Type is SeatsChanged
	Last       int64    // number of the newest revision
	Store      string   // identity of the seat store
	After      Position // resume here: everything before it is in this message or an earlier one
	Changes    []Change // of this show, with consecutive revisions
}

// Revision returns where a consumer stands after the message.
func (e *SeatsEvent) Revision() Revision { return Revision{e.Generation, e.Last} }

// AppendJSON appends the payload.
func (e *SeatsEvent) AppendJSON(b []byte) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, e.Type...)
	b = append(b, `","showId":`...)
	b = strconv.AppendInt(b, int64(e.Show), 10)
	if e.Hall != 0 {
		b = append(b, `,"hallId":`...)
		b = strconv.AppendInt(b, int64(e.Hall), 10)
	}
	b = append(b, `,"generation":`...)
	b = strconv.AppendInt(b, int64(e.Generation), 10)
	b = append(b, `,"first":`...)
	b = strconv.AppendInt(b, e.First, 10)
	b = append(b, `,"last":`...)
	b = strconv.AppendInt(b, e.Last, 10)
	b = append(b, `,"store":`...)
	b = appendJSONString(b, e.Store)
	b = append(b, `,"after":`...)
	b = appendJSONString(b, string(e.After))
	if len(e.Changes) > 0 {
		b = append(b, `,"changes":[`...)
		for i := range e.Changes {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.Changes[i].appendJSON(b)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func (c *Change) appendJSON(b []byte) []byte {
	b = append(b, `{"revision":`...)
	b = strconv.AppendInt(b, c.Revision.Number, 10)
	b = append(b, `,"verb":"`...)
	b = append(b, c.Verb.String()...)
	b = append(b, `","at":"`...)
	b = c.At.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","seats":[`...)
	for i, s := range c.Seats {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = strconv.AppendInt(b, int64(s.Seat), 10)
		b = append(b, `,"state":"`...)
		b = append(b, s.State.String()...)
		b = append(b, `","delta":`...)
		b = strconv.AppendInt(b, int64(s.Delta), 10)
		b = append(b, '}')
	}
	return append(b, ']', '}')
}

// Message returns the event as it goes to the bus. A run of changes has the
// same id whoever publishes it; positions and resets may be said again, and
// are told apart by the time.
func (e *SeatsEvent) Message(partition Partition, now time.Time) Message {
	show := strconv.FormatInt(int64(e.Show), 10)
	id := append(make([]byte, 0, 64), show...)
	id = append(id, '.')
	id = strconv.AppendInt(id, int64(e.Generation), 10)
	id = append(id, '.')
	if e.Type == SeatsChanged {
		id = strconv.AppendInt(id, e.First, 10)
		id = append(id, '-')
		id = strconv.AppendInt(id, e.Last, 10)
		if n := len(e.Changes); n > 0 {
			now = e.Changes[n-1].At
		}
	} else {
		id = append(id, e.Type...)
		id = append(id, '.')
		id = strconv.AppendInt(id, now.UnixNano(), 36)
	}
	size := 200 + len(e.Store) + len(e.After)
	for i := range e.Changes {
		size += 80 + 44*len(e.Changes[i].Seats)
	}
	return Message{
		Subject: SeatsSubject(partition, e.Show),
		ID:      string(id),
		Header:  cloudEvent(string(id), "seatflow.seats."+string(e.Type), "/seatflow/seats", show, now),
		Payload: e.AppendJSON(make([]byte, 0, size)),
	}
}

// cloudEvent returns the attributes of a CloudEvent in binary mode as headers
// of the bus. The values need no escaping.
func cloudEvent(id, kind, source, subject string, at time.Time) map[string]string {
	return map[string]string{
		"ce-specversion": "1.0", "ce-id": id, "ce-type": kind, "ce-source": source, "ce-subject": subject,
		"ce-time": at.UTC().Format(time.RFC3339Nano), "ce-datacontenttype": "application/json",
	}
}

// ParseSeatsEvent reads a payload, strictly: every member known and at most
// once, revisions consecutive, nothing after the end.
func ParseSeatsEvent(payload []byte) (SeatsEvent, error) {
	var e SeatsEvent
	r := jsonReader{b: payload}
	need := r.object(seatsMembers, func(member int) {
		switch seatsMembers[member] {
		case "type":
			e.Type = SeatsEventType(r.text())
		case "showId":
			e.Show = ShowID(r.integer(1))
		case "hallId":
			e.Hall = HallID(r.integer(1))
		case "generation":
			e.Generation = Generation(r.integer(0))
		case "first":
			e.First = r.integer(0)
		case "last":
			e.Last = r.integer(0)
		case "store":
			e.Store = r.text()
		case "after":
			e.After = Position(r.text())
		case "changes":
			r.array(func() { e.Changes = append(e.Changes, r.change()) })
		}
	})
	r.end()
	if r.err == nil && need&seatsNeeded != seatsNeeded {
		r.fail("a member is missing")
	}
	if r.err == nil {
		r.err = e.check()
	}
	if r.err != nil {
		return SeatsEvent{}, fmt.Errorf("seatflow: seats event: %w", r.err)
	}
	for i := range e.Changes {
		e.Changes[i].Show, e.Changes[i].Revision.Generation = e.Show, e.Generation
	}
	return e, nil
}

var (
	seatsMembers  = []string{"type", "showId", "generation", "first", "last", "store", "after", "hallId", "changes"}
	changeMembers = []string{"revision", "verb", "at", "seats"}
	seatMembers   = []string{"id", "state", "delta"}
)

const seatsNeeded = 1<<7 - 1 // all but hallId and changes

// check holds together what the members say.
func (e *SeatsEvent) check() error {
	switch e.Type {
	case SeatsPosition, SeatsReset:
		if e.First != e.Last || len(e.Changes) > 0 {
			return fmt.Errorf("a %s of %d-%d with %d changes", e.Type, e.First, e.Last, len(e.Changes))
		}
		return nil
	case SeatsChanged:
	default:
		return fmt.Errorf("type %q", e.Type)
	}
	if len(e.Changes) == 0 || int64(len(e.Changes)) != e.Last-e.First+1 {
		return fmt.Errorf("%d changes from %d to %d", len(e.Changes), e.First, e.Last)
	}
	for i := range e.Changes {
		if n := e.Changes[i].Revision.Number; n != e.First+int64(i) {
			return fmt.Errorf("revision %d at place %d after %d", n, i, e.First)
		}
	}
	return nil
}

func (r *jsonReader) change() Change {
	var c Change
	got := r.object(changeMembers, func(member int) {
		switch changeMembers[member] {
		case "revision":
			c.Revision.Number = r.integer(0)
		case "verb":
			c.Verb = verbOf(r.raw())
			if c.Verb == 0 {
				r.fail("an unknown verb")
			}
		case "at":
			if err := c.At.UnmarshalText(r.raw()); err != nil {
				r.fail("a time that is none")
			}
		case "seats":
			r.array(func() { c.Seats = append(c.Seats, r.seat()) })
		}
	})
	if got != 1<<4-1 {
		r.fail("a change without one of its members")
	}
	return c
}

func (r *jsonReader) seat() SeatChange {
	var s SeatChange
	got := r.object(seatMembers, func(member int) {
		switch seatMembers[member] {
		case "id":
			if s.Seat = SeatID(r.integer(1)); s.Seat > MaxSeatsPerHall {
				r.fail("a seat that no hall has")
			}
		case "state":
			if s.State = stateOf(r.raw()); s.State == 0 {
				r.fail("an unknown state")
			}
		case "delta":
			s.Delta = int(r.integer(-MaxSeatsPerHall))
		}
	})
	if got != 1<<3-1 {
		r.fail("a seat without one of its members")
	}
	return s
}

func verbOf(name []byte) Verb {
	for v := VerbHold; v <= VerbRepair; v++ {
		if verbNames[v] == string(name) {
			return v
		}
	}
	return 0
}

func stateOf(name []byte) SeatState {
	for _, s := range States {
		if s.String() == string(name) {
			return s
		}
	}
	return 0
}

// OrderNotice is an order event as it goes to the bus: what happened to which
// order. It names the buyer, so its stream is not for the public. Consumers
// recognise repeats by (Order, Version); an order's notices come in the order
// of their versions.
type OrderNotice struct {
	Order   OrderNo
	Version int64
	Type    EventType
	From    OrderState // "" when the order was made
	To      OrderState
	Kind    OrderKind
	Show    ShowID
	User    UserID   // whose order it is
	Seats   []SeatID // concerned; left out when they are more than MaxNoticeSeats
	Count   int      // of the seats concerned
	Total   Money    // of the order when it was made
	Role    Role     // of who asked for it
	Device  Device
	TraceID string
	SpanID  string
	At      time.Time
}

// MaxNoticeSeats is how many seats a notice lists: more are a block of a whole
// stand, and would not fit into a message.
const MaxNoticeSeats = 10_000

// Notice returns what is published of an event.
func (e *OutboxEvent) Notice() OrderNotice {
	n := OrderNotice{
		Order: e.Event.Order, Version: e.Event.Version, Type: e.Event.Type, From: e.Event.From, To: e.Event.To,
		Kind: e.Order.Kind, Show: e.Order.Show, User: e.Order.User, Seats: e.Event.Seats, Count: len(e.Event.Seats),
		Total: e.Order.Total, Role: e.Event.Actor.Role, Device: e.Event.Actor.Device,
		TraceID: e.Event.Actor.TraceID, SpanID: e.Event.Actor.SpanID, At: e.Event.At,
	}
	if n.Count > MaxNoticeSeats {
		n.Seats = nil
	}
	return n
}

// AppendJSON appends the payload.
func (n *OrderNotice) AppendJSON(b []byte) []byte {
	text := func(name, value string) {
		if value != "" {
			b = append(b, `,"`...)
			b = append(b, name...)
			b = append(b, `":`...)
			b = appendJSONString(b, value)
		}
	}
	b = append(b, `{"orderNo":`...)
	b = appendJSONString(b, string(n.Order))
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, n.Version, 10)
	text("type", string(n.Type))
	text("from", string(n.From))
	text("to", string(n.To))
	text("kind", string(n.Kind))
	b = append(b, `,"showId":`...)
	b = strconv.AppendInt(b, int64(n.Show), 10)
	text("userId", string(n.User))
	if len(n.Seats) > 0 {
		b = append(b, `,"seats":[`...)
		for i, s := range n.Seats {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(s), 10)
		}
		b = append(b, ']')
	}
	b = append(b, `,"seatCount":`...)
	b = strconv.AppendInt(b, int64(n.Count), 10)
	b = append(b, `,"amount":`...)
	b = strconv.AppendInt(b, n.Total.Amount, 10)
	text("currency", n.Total.Currency)
	text("actorRole", string(n.Role))
	text("device", string(n.Device))
	text("traceId", n.TraceID)
	text("spanId", n.SpanID)
	b = append(b, `,"occurredAt":"`...)
	b = n.At.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"', '}')
}

// Message returns the notice as it goes to the bus. Its id is the order's
// number and version.
func (n *OrderNotice) Message() Message {
	id := string(n.Order) + "." + strconv.FormatInt(n.Version, 10)
	m := Message{
		Subject: OrdersSubject(n.Show, n.Type),
		ID:      id,
		Header:  cloudEvent(id, "seatflow."+string(n.Type), "/seatflow/orders", string(n.Order), n.At),
		Payload: n.AppendJSON(make([]byte, 0, 400+8*len(n.Seats))),
	}
	if n.TraceID != "" && n.SpanID != "" {
		m.Header["ce-traceparent"] = "00-" + n.TraceID + "-" + n.SpanID + "-01"
	}
	return m
}

// ParseOrderNotice reads a payload, strictly.
func ParseOrderNotice(payload []byte) (OrderNotice, error) {
	var n OrderNotice
	r := jsonReader{b: payload}
	got := r.object(noticeMembers, func(member int) {
		switch noticeMembers[member] {
		case "orderNo":
			if n.Order = OrderNo(r.text()); !n.Order.Valid() {
				r.fail("an order number that is none")
			}
		case "version":
			n.Version = r.integer(1)
		case "type":
			n.Type = EventType(r.text())
		case "from":
			n.From = OrderState(r.text())
		case "to":
			n.To = OrderState(r.text())
		case "kind":
			n.Kind = OrderKind(r.text())
		case "showId":
			n.Show = ShowID(r.integer(0))
		case "userId":
			n.User = UserID(r.text())
		case "seats":
			r.array(func() { n.Seats = append(n.Seats, SeatID(r.integer(1))) })
		case "seatCount":
			n.Count = int(r.integer(0))
		case "amount":
			n.Total.Amount = r.integer(-1 << 62)
		case "currency":
			n.Total.Currency = r.text()
		case "actorRole":
			n.Role = Role(r.text())
		case "device":
			n.Device = Device(r.text())
		case "traceId":
			n.TraceID = r.text()
		case "spanId":
			n.SpanID = r.text()
		case "occurredAt":
			if err := n.At.UnmarshalText(r.raw()); err != nil {
				r.fail("a time that is none")
			}
		}
	})
	r.end()
	if r.err == nil && got&noticeNeeded != noticeNeeded {
		r.fail("a member is missing")
	}
	if r.err == nil && n.Count != len(n.Seats) && (len(n.Seats) > 0 || n.Count <= MaxNoticeSeats) {
		r.fail("another number of seats than it says")
	}
	if r.err != nil {
		return OrderNotice{}, fmt.Errorf("seatflow: order notice: %w", r.err)
	}
	return n, nil
}

var noticeMembers = []string{"orderNo", "version", "type", "to", "showId", "seatCount", "amount", "occurredAt",
	"from", "kind", "userId", "seats", "currency", "actorRole", "device", "traceId", "spanId"}

const noticeNeeded = 1<<8 - 1
