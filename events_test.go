package seatflow

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var eventTime = time.Date(2031, 5, 4, 18, 0, 0, 125_000_000, time.UTC)

func seatsExample() SeatsEvent {
	return SeatsEvent{
		Type: SeatsChanged, Show: 42, Hall: 7, Generation: 3, First: 120, Last: 121, Store: "a1b2", After: "a1b2-5120",
		Changes: []Change{
			{Show: 42, Revision: Revision{3, 120}, Verb: VerbHold, At: eventTime,
				Seats: []SeatChange{{Seat: 17, State: Held, Delta: 1}, {Seat: 18, State: Held, Delta: 1}}},
			{Show: 42, Revision: Revision{3, 121}, Verb: VerbExtend, At: eventTime.Add(time.Second)},
		},
	}
}

const seatsExampleText = `{"type":"changed","showId":42,"hallId":7,"generation":3,"first":120,"last":121,"store":"a1b2","after":"a1b2-5120",` +
	`"changes":[{"revision":120,"verb":"hold","at":"2031-05-04T18:00:00.125Z","seats":[{"id":17,"state":"held","delta":1},{"id":18,"state":"held","delta":1}]},` +
	`{"revision":121,"verb":"extend","at":"2031-05-04T18:00:01.125Z","seats":[]}]}`

func noticeExample() OrderNotice {
	return OrderNotice{
		Order: "01JZ8Q4G7K3N5P9R2S4T6V8W0X", Version: 2, Type: EventPaid, From: OrderPending, To: OrderPaid, Kind: KindSale,
		Show: 42, User: "guest:7f3a", Seats: []SeatID{17, 18}, Count: 2, Total: Money{2400, "EUR"}, Role: RoleBuyer,
		Device: DeviceMobile, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", SpanID: "00f067aa0ba902b7", At: eventTime,
	}
}

const noticeExampleText = `{"orderNo":"01JZ8Q4G7K3N5P9R2S4T6V8W0X","version":2,"type":"order.paid","from":"pending","to":"paid","kind":"sale",` +
	`"showId":42,"userId":"guest:7f3a","seats":[17,18],"seatCount":2,"amount":2400,"currency":"EUR","actorRole":"buyer","device":"mobile",` +
	`"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7","occurredAt":"2031-05-04T18:00:00.125Z"}`

func TestSubjects(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{SeatsSubject(7, 42), "seatflow.seats.p07.42"},
		{SeatsSubject(63, 1), "seatflow.seats.p63.1"},
		{PartitionSubjects(7), "seatflow.seats.p07.>"},
		{OrdersSubject(42, EventPaid), "seatflow.orders.42.order.paid"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// The words on the wire, written out: other programs read them.
func TestWireForms(t *testing.T) {
	seats, notice := seatsExample(), noticeExample()
	if got := string(seats.AppendJSON(nil)); got != seatsExampleText {
		t.Errorf("seats:\n%s\nwant\n%s", got, seatsExampleText)
	}
	if got := string(notice.AppendJSON(nil)); got != noticeExampleText {
		t.Errorf("notice:\n%s\nwant\n%s", got, noticeExampleText)
	}
	if strings.Contains(seatsExampleText, "user") {
		t.Error("the public stream names a user")
	}
	m := seats.Message(7, eventTime.Add(time.Hour))
	want := Message{Subject: "seatflow.seats.p07.42", ID: "42.3.120-121", Payload: []byte(seatsExampleText), Header: map[string]string{
		"ce-specversion": "1.0", "ce-id": "42.3.120-121", "ce-type": "seatflow.seats.changed", "ce-source": "/seatflow/seats",
		"ce-subject": "42", "ce-time": "2031-05-04T18:00:01.125Z", "ce-datacontenttype": "application/json",
	}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	o := notice.Message()
	want = Message{Subject: "seatflow.orders.42.order.paid", ID: "01JZ8Q4G7K3N5P9R2S4T6V8W0X.2", Payload: []byte(noticeExampleText), Header: map[string]string{
		"ce-specversion": "1.0", "ce-id": "01JZ8Q4G7K3N5P9R2S4T6V8W0X.2", "ce-type": "seatflow.order.paid", "ce-source": "/seatflow/orders",
		"ce-subject": "01JZ8Q4G7K3N5P9R2S4T6V8W0X", "ce-time": "2031-05-04T18:00:00.125Z", "ce-datacontenttype": "application/json",
		"ce-traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
	// A position may be said again and must not be taken for a repeat.
	p := SeatsEvent{Type: SeatsPosition, Show: 42, Generation: 3, First: 121, Last: 121}
	if a, b := p.Message(7, eventTime), p.Message(7, eventTime.Add(5*time.Second)); a.ID == b.ID || !strings.HasPrefix(a.ID, "42.3.position.") {
		t.Errorf("ids %s and %s", a.ID, b.ID)
	}
}

func TestSeatsEventRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~é界\t]{0,12}`)
		e := SeatsEvent{
			Type:       rapid.SampledFrom([]SeatsEventType{SeatsChanged, SeatsPosition, SeatsReset}).Draw(t, "type"),
			Show:       ShowID(rapid.Int64Range(1, 1<<62).Draw(t, "show")),
			Hall:       HallID(rapid.Int64Range(0, 9).Draw(t, "hall")),
			Generation: Generation(rapid.Int64Range(0, 1<<62).Draw(t, "generation")),
			First:      rapid.Int64Range(0, 1<<40).Draw(t, "first"),
			Store:      text.Draw(t, "store"),
			After:      Position(text.Draw(t, "after")),
		}
		e.Last = e.First
		if e.Type == SeatsChanged {
			for i := range rapid.IntRange(1, 4).Draw(t, "changes") {
				c := Change{Show: e.Show, Revision: Revision{e.Generation, e.First + int64(i)},
					Verb: Verb(rapid.IntRange(1, int(VerbRepair)).Draw(t, "verb")),
					At:   time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()}
				for range rapid.IntRange(0, 3).Draw(t, "seats") {
					c.Seats = append(c.Seats, SeatChange{
						Seat:  SeatID(rapid.Int32Range(1, MaxSeatsPerHall).Draw(t, "seat")),
						State: rapid.SampledFrom(States[:]).Draw(t, "state"), Delta: rapid.IntRange(-1, 1).Draw(t, "delta")})
				}
				e.Changes = append(e.Changes, c)
				e.Last = c.Revision.Number
			}
		}
		payload := e.AppendJSON(nil)
		got, err := ParseSeatsEvent(payload)
		if err != nil {
			t.Fatalf("%s: %v", payload, err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatal(diff)
		}
		if !json.Valid(payload) {
			t.Fatalf("not JSON: %s", payload)
		}
	})
}

func TestOrderNoticeRoundTrip(t *testing.T) {
	n := noticeExample()
	for name, change := range map[string]func(*OrderNotice){
		"as it is": func(*OrderNotice) {},
		"created by the system, without a trace": func(n *OrderNotice) {
			n.Type, n.From, n.To = EventCreated, "", OrderPending
			n.TraceID, n.SpanID, n.Device = "", "", DeviceSystem
		},
		"a whole stand": func(n *OrderNotice) { n.Seats, n.Count = nil, MaxNoticeSeats+1 },
		"no seats":      func(n *OrderNotice) { n.Seats, n.Count = nil, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			want := n
			change(&want)
			payload := want.AppendJSON(nil)
			got, err := ParseOrderNotice(payload)
			if err != nil {
				t.Fatalf("%s: %v", payload, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	e := OutboxEvent{
		Event: OrderEvent{Order: n.Order, Version: 2, Type: EventPaid, From: n.From, To: n.To, Seats: n.Seats, At: n.At,
			Actor: Actor{User: "someone else", Role: n.Role, Device: n.Device, TraceID: n.TraceID, SpanID: n.SpanID}},
		Order: Order{No: n.Order, Version: 5, Show: n.Show, User: n.User, Kind: n.Kind, Total: n.Total},
	}
	if diff := cmp.Diff(n, e.Notice()); diff != "" {
		t.Error(diff)
	}
	e.Event.Seats = make([]SeatID, MaxNoticeSeats+1)
	if big := e.Notice(); big.Seats != nil || big.Count != MaxNoticeSeats+1 {
		t.Errorf("%d seats listed of %d", len(big.Seats), big.Count)
	}
}

func TestEventsAreReadStrictly(t *testing.T) {
	edit := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	for name, c := range map[string]struct {
		edit func(string) string
		ok   bool
	}{
		"as it is":         {func(s string) string { return s }, true},
		"spaced out":       {func(s string) string { return " " + strings.ReplaceAll(s, ",", " ,\n\t") + " " }, true},
		"escaped":          {edit(`"held"`, `"h\u0065ld"`), true},
		"no hall":          {edit(`"hallId":7,`, ``), true},
		"empty":            {func(string) string { return "" }, false},
		"cut":              {func(s string) string { return s[:len(s)-1] }, false},
		"trailing":         {func(s string) string { return s + "{}" }, false},
		"trailing NUL":     {func(s string) string { return s + "\x00" }, false},
		"unknown member":   {edit(`"hallId"`, `"hallID"`), false},
		"twice":            {edit(`"hallId":7`, `"showId":7`), false},
		"missing":          {edit(`"store":"a1b2",`, ``), false},
		"unknown type":     {edit(`"changed"`, `"moved"`), false},
		"fraction":         {edit(`:42`, `:42.5`), false},
		"leading zero":     {edit(`:42`, `:042`), false},
		"too large":        {edit(`:42`, `:99999999999999999999`), false},
		"no show":          {edit(`:42`, `:0`), false},
		"number as text":   {edit(`:42`, `:"42"`), false},
		"text as number":   {edit(`"a1b2"`, `12`), false},
		"unknown verb":     {edit(`"hold"`, `"grab"`), false},
		"unknown state":    {edit(`"held"`, `"gone"`), false},
		"seat 0":           {edit(`"id":17`, `"id":0`), false},
		"seat out of hall": {edit(`"id":17`, `"id":200001`), false},
		"no delta":         {edit(`,"delta":1`, ``), false},
		"bad time":         {edit(`18:00:00.125Z`, `yesterday`), false},
		"gap":              {edit(`"revision":121`, `"revision":122`), false},
		"fewer than said":  {edit(`"last":121`, `"last":122`), false},
		"wrong order":      {edit(`"first":120`, `"first":121`), false},
		"bad UTF-8":        {edit(`a1b2-`, "a1b2\xff"), false},
		"control":          {edit(`a1b2-`, "a1b2\n"), false},
		"bad escape":       {edit(`a1b2-`, `a1b2\q`), false},
		"position with changes": {
			func(s string) string { return edit(`"last":121`, `"last":120`)(edit("changed", "position")(s)) }, false},
		"null":     {func(string) string { return "null" }, false},
		"an array": {func(string) string { return "[]" }, false},
		"comma":    {edit(`"seats":[]`, `"seats":[,]`), false},
	} {
		t.Run(name, func(t *testing.T) {
			text := c.edit(seatsExampleText)
			if _, err := ParseSeatsEvent([]byte(text)); (err == nil) != c.ok {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
	for name, old := range map[string][2]string{
		"order number": {"01JZ8Q4G7K3N5P9R2S4T6V8W0X", "1"}, "count": {`"seatCount":2`, `"seatCount":3`},
		"missing": {`"version":2,`, ``}, "version 0": {`"version":2`, `"version":0`}, "unknown": {"userId", "user"},
		"time": {"2031-05-04T", "2031-05-04 "}, "seat": {"[17,", `["17",`},
	} {
		text := strings.Replace(noticeExampleText, old[0], old[1], 1)
		if _, err := ParseOrderNotice([]byte(text)); err == nil {
			t.Errorf("%s: accepted %s", name, text)
		}
	}
}

// The examples of docs/events.md are read as a consumer would.
func TestDocumentedEvents(t *testing.T) {
	text, err := os.ReadFile("docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	seats, orders, found := strings.Cut(string(text), "## Orders")
	if !found {
		t.Fatal("no chapter about orders")
	}
	read := func(chapter string, parse func([]byte) error) (n int) {
		for _, block := range strings.Split(chapter, "```json\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			if err := parse([]byte(block)); err != nil {
				t.Errorf("%s%v", block, err)
			}
			n++
		}
		return n
	}
	types := map[SeatsEventType]bool{}
	read(seats, func(b []byte) error {
		e, err := ParseSeatsEvent(b)
		types[e.Type] = true
		return err
	})
	if len(types) != 3 {
		t.Errorf("examples of %v", types)
	}
	if n := read(orders, func(b []byte) error { _, err := ParseOrderNotice(b); return err }); n != 1 {
		t.Errorf("%d examples of order events", n)
	}
	for _, e := range []EventType{EventCreated, EventPaymentStarted, EventExtended, EventPaid, EventReseated, EventCancelled,
		EventCancelRepeated, EventExpired, EventRefundDue, EventRefunded, EventBlocked, EventUnblocked, EventVoided} {
		if !strings.Contains(orders, "`"+string(e)+"`") {
			t.Errorf("%s is not told of", e)
		}
	}
	for v := VerbHold; v <= VerbRepair; v++ {
		if !strings.Contains(seats, "`"+v.String()+"`") {
			t.Errorf("%s is not told of", v)
		}
	}
}

func FuzzParseEvents(f *testing.F) {
	f.Add([]byte(seatsExampleText))
	f.Add([]byte(noticeExampleText))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if e, err := ParseSeatsEvent(payload); err == nil {
			if !json.Valid(payload) {
				t.Fatalf("accepted what is not JSON: %q", payload)
			}
			again, err := ParseSeatsEvent(e.AppendJSON(nil))
			if diff := cmp.Diff(e, again); err != nil || diff != "" {
				t.Fatalf("%v\n%s", err, diff)
			}
		}
		if n, err := ParseOrderNotice(payload); err == nil {
			if !json.Valid(payload) {
				t.Fatalf("accepted what is not JSON: %q", payload)
			}
			again, err := ParseOrderNotice(n.AppendJSON(nil))
			if errors.Join(err) != nil || !slices.Equal(n.Seats, again.Seats) {
				t.Fatalf("%v: %v and %v", err, n, again)
			}
		}
	})
}

func BenchmarkSeatsEvent(b *testing.B) {
	e := seatsExample()
	e.Changes = nil
	for i := range 100 {
		e.Changes = append(e.Changes, Change{Show: 42, Revision: Revision{3, int64(i)}, Verb: VerbHold, At: eventTime,
			Seats: []SeatChange{{Seat: 17, State: Held, Delta: 1}, {Seat: 18, State: Held, Delta: 1}}})
	}
	e.First, e.Last = 0, 99
	payload := e.AppendJSON(nil)
	b.Run("message", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = e.Message(7, eventTime)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(payload)))
		for b.Loop() {
			if _, err := ParseSeatsEvent(payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}
