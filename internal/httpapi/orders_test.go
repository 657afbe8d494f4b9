package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/wording"
)

func TestCreateOrder(t *testing.T) {
	s := newServer(t)
	a := s.do("POST /api/v1/orders", `{"showId":1,"seats":[8,1],"idempotencyKey":"k-1"}`, "buyer",
		"X-Origin-Device: mobile", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").is(201)
	var got Order
	a.into(&got)
	want := Order{No: string(testNo(1)), ShowID: 1, UserID: "the-buyer", State: "pending", Total: Money{5000, "EUR"},
		Seats: []OrderSeat{{SeatID: 1, Price: 2500, Zone: "Floor", Row: "0", Number: "0", Category: "A"},
			{SeatID: 8, Price: 2500, Zone: "Balcony 楼座", Row: "1", Number: "3", Category: "<b>"}},
		Version: 1, CreatedAt: testNow.Add(123 * time.Millisecond), UpdatedAt: testNow}
	deadline, limit := testNow.Add(15*time.Minute), testNow.Add(30*time.Minute)
	want.Deadline, want.Cap = &deadline, &limit
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	req := s.made[0]
	if req.Show != 1 || !slices.Equal(req.Seats, []seatflow.SeatID{1, 8}) || req.Key != "k-1" {
		t.Errorf("booking was asked for %+v", req)
	}
	if want := (seatflow.Actor{User: "the-buyer", Role: seatflow.RoleBuyer, TraceID: "0af7651916cd43dd8448eb211c80319c",
		SpanID: req.Actor.SpanID, Device: seatflow.DeviceMobile}); req.Actor != want || len(req.Actor.SpanID) != 16 {
		t.Errorf("actor %+v", req.Actor)
	}
	if a.Header().Get("Idempotency-Replayed") != "" || a.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", a.Header())
	}
	s.replay = true
	if got := s.do("POST /api/v1/orders", `{"showId":1,"seats":[8,1]}`, "buyer", "Idempotency-Key: k-1").is(201).Header().Get("Idempotency-Replayed"); got != "true" {
		t.Errorf("a replay says %q", got)
	}
}

func TestFingerprint(t *testing.T) {
	base := booking.RequestFingerprint(1, []seatflow.SeatID{1, 2})
	if base == (seatflow.Fingerprint{}) || base != booking.RequestFingerprint(1, []seatflow.SeatID{1, 2}) {
		t.Error("a fingerprint is zero or not stable")
	}
	for _, other := range []seatflow.Fingerprint{booking.RequestFingerprint(2, []seatflow.SeatID{1, 2}), booking.RequestFingerprint(1, []seatflow.SeatID{1}),
		booking.RequestFingerprint(1, []seatflow.SeatID{1, 3}), booking.RequestFingerprint(1, []seatflow.SeatID{1, 2, 3})} {
		if other == base {
			t.Error("two requests have one fingerprint")
		}
	}
	// The order in which seats are named means nothing.
	s := newServer(t)
	s.do("POST /api/v1/orders", `{"showId":1,"seats":[2,1]}`, "buyer").is(201)
	s.do("POST /api/v1/orders", ` { "seats" : [1,2] , "showId" : 1 } `, "buyer").is(201)
	if s.made[0].Fingerprint != s.made[1].Fingerprint || s.made[0].Fingerprint != base {
		t.Error("the same request has two fingerprints")
	}
}

func TestIdempotencyKey(t *testing.T) {
	long := strings.Repeat("k", 64)
	for _, tc := range []struct {
		name, body string
		headers    []string
		want       string
		reason     seatflow.Reason
	}{
		{name: "none"},
		{name: "header", headers: []string{"a"}, want: "a"},
		{name: "body", body: `"b"`, want: "b"},
		{name: "both equal", headers: []string{"a"}, body: `"a"`, want: "a"},
		{name: "both different", headers: []string{"a"}, body: `"b"`, reason: seatflow.ReasonKeyMismatch},
		{name: "null", body: `null`},
		{name: "empty", body: `""`},
		{name: "blank in body", body: `"   "`},
		{name: "blank header", headers: []string{"  "}},
		{name: "blank header, body", headers: []string{" "}, body: `"b"`, want: "b"},
		{name: "header, blank body", headers: []string{"a"}, body: `"  "`, want: "a"},
		{name: "escaped", body: `"\u0062"`, want: "b"},
		{name: "inner space", body: `"a b"`, want: "a b"},
		{name: "longest", headers: []string{long}, want: long},
		{name: "too long", headers: []string{long + "k"}, reason: seatflow.ReasonKeyInvalid},
		{name: "too long in body", body: `"` + long + `k"`, reason: seatflow.ReasonKeyInvalid},
		{name: "10 KB", headers: []string{strings.Repeat("k", 10<<10)}, reason: seatflow.ReasonKeyInvalid},
		{name: "10 KB in body", body: `"` + strings.Repeat("k", 10<<10) + `"`, reason: seatflow.ReasonKeyInvalid},
		{name: "control character", body: `"a\u0007"`, reason: seatflow.ReasonKeyInvalid},
		{name: "tab only", body: `"\t"`, reason: seatflow.ReasonKeyInvalid},
		{name: "latin-1 header", headers: []string{"caf\xe9"}, reason: seatflow.ReasonKeyInvalid},
		{name: "two headers", headers: []string{"a", "b"}, reason: seatflow.ReasonKeyMismatch},
		{name: "one header twice", headers: []string{"a", "a"}, want: "a"},
	} {
		s := newServer(t)
		body := `{"showId":1,"seats":[1]}`
		if tc.body != "" {
			body = `{"showId":1,"seats":[1],"idempotencyKey":` + tc.body + `}`
		}
		headers := []string{"buyer"}
		for _, h := range tc.headers {
			headers = append(headers, "Idempotency-Key: "+h)
		}
		a := s.do("POST /api/v1/orders", body, headers...)
		a.name = tc.name
		if tc.reason != "" {
			a.is(400).problem(seatflow.CodeInvalid, tc.reason)
			if s.changed() != 0 {
				t.Errorf("%s: booking was asked", tc.name)
			}
			continue
		}
		if a.is(201); s.made[0].Key != tc.want {
			t.Errorf("%s: key %q, want %q", tc.name, s.made[0].Key, tc.want)
		}
	}
}

func TestOrderEndpoints(t *testing.T) {
	s := newServer(t)
	mine, theirs := testOrder(1, "the-buyer", 1, 2), testOrder(2, "somebody", 3)
	s.orders[mine.No], s.orders[theirs.No] = mine, theirs
	path := "/api/v1/orders/" + string(mine.No)

	var o Order
	s.do("GET "+path, "", "buyer").is(200).into(&o)
	if o.No != string(mine.No) || len(o.Seats) != 2 {
		t.Errorf("order %+v", o)
	}
	// Another's order is not there, except for staff.
	for _, what := range []string{"GET %s", "GET %s/history", "POST %s/cancel", "POST %s/extend", "POST %s/payments"} {
		s.do(fmt.Sprintf(what, "/api/v1/orders/"+string(theirs.No)), "", "buyer").is(404).problem(seatflow.CodeNotFound, "")
	}
	if s.changed() != 0 {
		t.Error("another's order was changed")
	}
	s.do("GET /api/v1/orders/"+string(theirs.No), "", "staff").is(200)

	var h OrderHistory
	s.do("GET "+path+"/history", "", "buyer").is(200).into(&h)
	if len(h.Events) != 1 || h.Events[0].Type != "order.created" || h.Events[0].By != "the-buyer" || !reflect.DeepEqual(h.Events[0].Seats, []int64{1}) {
		t.Errorf("history %+v", h)
	}
	s.do("POST "+path+"/cancel", "", "buyer").is(200).into(&o)
	if o.State != "cancelled" {
		t.Errorf("cancelled order is %q", o.State)
	}
	s.do("POST "+path+"/cancel", "{}", "buyer").is(200)
	s.do("POST "+path+"/extend", "", "kiosk").is(404)
	s.do("POST "+path+"/extend", "", "buyer", "X-Origin-Device: kiosk").is(200)
	if s.actor.Device != seatflow.DeviceKiosk {
		t.Errorf("device %q", s.actor.Device)
	}
	var checkout Checkout
	s.do("POST "+path+"/payments", `{"provider":"sandbox"}`, "buyer").is(201).into(&checkout)
	if checkout.URL != "/api/v1/sandbox/payments/ref" || checkout.Order.No != string(mine.No) {
		t.Errorf("checkout %+v", checkout)
	}
	s.do("POST "+path+"/payments", "", "buyer").is(201)
	s.do("POST "+path+"/payments", `{"provider":"gold"}`, "buyer").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonNoProvider)
}

func TestOrderPages(t *testing.T) {
	s := newServer(t)
	for n := range 7 {
		o := testOrder(n, "the-buyer", 1)
		s.orders[o.No] = o
	}
	var seen []string
	query, pages := "?limit=3", 0
	for query != "" {
		var list OrderList
		s.do("GET /api/v1/orders"+query, "", "buyer").is(200).into(&list)
		for _, o := range list.Orders {
			seen = append(seen, o.No)
		}
		query = ""
		if list.Next != "" {
			query = "?limit=3&cursor=" + list.Next
		}
		if pages++; pages > 5 {
			t.Fatal("pages do not end")
		}
	}
	if pages != 3 || len(seen) != 7 || !slices.IsSortedFunc(seen, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("%d pages: %v", pages, seen)
	}
	var empty OrderList
	s.do("GET /api/v1/orders", "", "staff").is(200).into(&empty)
	if empty.Orders == nil {
		t.Error("no orders are not an empty list")
	}
}

func TestConflictListsSeats(t *testing.T) {
	s := newServer(t)
	s.err = fmt.Errorf("booking: %w", &seatflow.Error{Code: seatflow.CodeSeatsTaken, Seats: []seatflow.SeatID{2, 4}, Available: []seatflow.SeatID{1}})
	p := s.do("POST /api/v1/orders", `{"showId":1,"seats":[1,2,4]}`, "buyer").is(409).problem(seatflow.CodeSeatsTaken, "")
	if !reflect.DeepEqual(p.Seats, []int64{2, 4}) || !reflect.DeepEqual(p.Available, []int64{1}) {
		t.Errorf("problem %+v", p)
	}
	order := testOrder(3, "the-buyer", 1)
	order.State = seatflow.OrderExpired
	s.orders[order.No] = order
	s.err = nil
	s.do("GET /api/v1/orders/"+string(order.No), "", "buyer").is(200)
}

func TestWrongStateShowsOrder(t *testing.T) {
	s := newServer(t)
	o := testOrder(1, "the-buyer", 1)
	s.orders[o.No] = o
	s.panics = nil
	expired := o
	expired.State = seatflow.OrderExpired
	s.api.opt.Booking = refusing{s.fakes, &seatflow.Error{Code: seatflow.CodeWrongState, Reason: seatflow.ReasonOrderState,
		Args: []any{seatflow.OrderExpired}, Order: &expired}}
	p := s.do("POST /api/v1/orders/"+string(o.No)+"/cancel", "", "buyer", "Accept-Language: zh-CN,zh;q=0.9").is(409).
		problem(seatflow.CodeWrongState, seatflow.ReasonOrderState)
	if p.Order == nil || p.Order.State != "expired" || p.Order.Seats[0].Zone != "Floor" || p.Detail != "订单当前状态：已过期。" {
		t.Errorf("problem %+v", p)
	}
}

// refusing answers every change with an error.
type refusing struct {
	*fakes
	err error
}

func (r refusing) Cancel(context.Context, seatflow.Actor, seatflow.OrderNo) (seatflow.Order, error) {
	return seatflow.Order{}, r.err
}

func TestQuickOrderAgrees(t *testing.T) {
	plain := []string{
		`{"showId":1,"seats":[1]}`,
		` { "seats" : [ 1 , 2 ] ,"idempotencyKey":"a b~!" , "showId" : 123456789012345678 } `,
		"{\"showId\":0,\"seats\":[0,2147483647]}\n",
	}
	for _, body := range plain {
		var quick, strict CreateOrder
		if !quickOrder([]byte(body), &quick) {
			t.Errorf("%s: not read quickly", body)
		}
		if err := decodeStrict([]byte(body), &strict); err != nil || !reflect.DeepEqual(quick, strict) {
			t.Errorf("%s: quick %+v, strict %+v, %v", body, quick, strict, err)
		}
	}
	for _, body := range malformedOrders {
		var in CreateOrder
		if quickOrder([]byte(body), &in) {
			t.Errorf("%s: read quickly", body)
		}
	}
}

// malformedOrders are bodies that are not a request for seats at all.
var malformedOrders = []string{
	``, ` `, `{`, `}`, `[]`, `null x`, `"x"`, `1`, `{}x`, `{"showId":1,"seats":[1]}{}`, `{"showId":1,"seats":[1]} x`,
	`{"showId":1,"seats":[1],}`, `{"showId":1,"seats":[1,]}`, `{"showId":1 "seats":[1]}`, `{showId:1,"seats":[1]}`,
	`{'showId':1}`, `{"showId":1,"showId":1,"seats":[1]}`, `{"showId":1,"seats":[1],"seats":[2]}`,
	`{"showId":1,"seats":[1],"idempotencyKey":"a","idempotencyKey":"a"}`, `{"showId":1,"show\u0049d":1,"seats":[1]}`,
	`{"showId":1,"seats":[1],"more":1}`, `{"ShowId":1,"seats":[1]}`, `{"showId":"1","seats":[1]}`, `{"showId":1.0,"seats":[1]}`,
	`{"showId":1e0,"seats":[1]}`, `{"showId":01,"seats":[1]}`, `{"showId":+1,"seats":[1]}`, `{"showId":9223372036854775808,"seats":[1]}`,
	`{"showId":-9223372036854775809,"seats":[1]}`, `{"showId":1,"seats":[2147483648]}`, `{"showId":1,"seats":[1.5]}`,
	`{"showId":1,"seats":[1e3]}`, `{"showId":1,"seats":["1"]}`, `{"showId":1,"seats":[[1]]}`, `{"showId":1,"seats":{"0":1}}`,
	`{"showId":1,"seats":1}`, `{"showId":true,"seats":[1]}`, `{"showId":1,"seats":[1],"idempotencyKey":7}`,
	"{\"showId\":1,\"seats\":[1],\"idempotencyKey\":\"\xff\"}", "{\"showId\":1,\"seats\":[1],\"idempotencyKey\":\"\xed\xa0\x80\"}",
	`{"showId":1,"seats":[1],"idempotencyKey":"\ud800"}`, "{\"showId\":1,\"seats\":[1],\"idempotencyKey\":\"a\nb\"}",
	"\xef\xbb\xbf{\"showId\":1,\"seats\":[1]}", "{\"showId\":1,\"seats\":[1]}\x00", `{"showId":NaN,"seats":[1]}`,
	strings.Repeat("[", 100_000/4), `{"showId":1,"seats":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`,
	`{"a":` + strings.Repeat(`{"a":`, 2000) + `1` + strings.Repeat(`}`, 2001),
	`{"__proto__":{"showId":1}}`, `/* c */{"showId":1,"seats":[1]}`,
}

func TestMalformedOrders(t *testing.T) {
	s := newServer(t)
	for _, body := range malformedOrders {
		a := s.do("POST /api/v1/orders", body, "buyer", "Content-Type: application/json")
		a.name = wording.Clip(body)
		if a.Code != 400 {
			t.Errorf("%s: status %d: %s", a.name, a.Code, a.Body)
		}
		var p Problem
		a.into(&p)
		if p.Code != 1000 {
			t.Errorf("%s: %+v", a.name, p)
		}
	}
	if s.changed() != 0 {
		t.Errorf("%d malformed orders reached booking", s.changed())
	}
}

func TestInvalidOrders(t *testing.T) {
	many := func(n int, id func(i int) int) string {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprint(id(i))
		}
		return `{"showId":1,"seats":[` + strings.Join(ids, ",") + `]}`
	}
	count := func(i int) int { return i + 1 }
	one := func(int) int { return 1 }
	for _, tc := range []struct {
		body, field string
		reason      seatflow.Reason
	}{
		{`{}`, "showId", seatflow.ReasonField},
		{`null`, "showId", seatflow.ReasonField},
		{`{"seats":[1]}`, "showId", seatflow.ReasonField},
		{`{"showId":0,"seats":[1]}`, "showId", seatflow.ReasonField},
		{`{"showId":-1,"seats":[1]}`, "showId", seatflow.ReasonField},
		{`{"showId":null,"seats":[1]}`, "showId", seatflow.ReasonField},
		{`{"showId":1.5,"seats":[1]}`, "showId", seatflow.ReasonField},
		{`{"showId":1}`, "seats", seatflow.ReasonNoSeats},
		{`{"showId":1,"seats":[]}`, "seats", seatflow.ReasonNoSeats},
		{`{"showId":1,"seats":null}`, "seats", seatflow.ReasonNoSeats},
		{`{"showId":1,"seats":[0]}`, "seats[0]", seatflow.ReasonField},
		{`{"showId":1,"seats":[4,-2]}`, "seats[1]", seatflow.ReasonField},
		{`{"showId":1,"seats":[4,null]}`, "seats[1]", seatflow.ReasonField},
		{`{"showId":1,"seats":[4,5,3000000000]}`, "seats[2]", seatflow.ReasonField},
		{`{"showId":1,"seats":[4,5,99999999999999999999999]}`, "seats[2]", seatflow.ReasonField},
		{`{"showId":1,"seats":[4,5.5]}`, "seats[1]", seatflow.ReasonField},
		{`{"showId":1,"seats":[4,2,4]}`, "seats[2]", seatflow.ReasonRepeatedSeat},
		{`{"showId":1,"seats":[4],"extra":1}`, "extra", seatflow.ReasonField},
		{`{"showId":1,"seats":[4],"seats":[4]}`, "seats", seatflow.ReasonField},
		{many(51, count), "seats", seatflow.ReasonTooManySeats},
		{many(10_000, count), "seats", seatflow.ReasonTooManySeats},
		{many(10_000, one), "seats", seatflow.ReasonTooManySeats},
		{many(50, one), "seats[1]", seatflow.ReasonRepeatedSeat},
	} {
		s := newServer(t)
		a := s.do("POST /api/v1/orders", tc.body, "buyer")
		a.name = wording.Clip(tc.body)
		if p := a.is(400).problem(seatflow.CodeInvalid, tc.reason); p.Field != tc.field {
			t.Errorf("%s: field %q, want %q", a.name, p.Field, tc.field)
		}
		if s.changed() != 0 {
			t.Errorf("%s: booking was asked", a.name)
		}
	}
	// The control: as many as are allowed go through.
	s := newServer(t)
	s.do("POST /api/v1/orders", many(50, count), "buyer").is(201)
	if len(s.made[0].Seats) != 50 {
		t.Errorf("%d seats", len(s.made[0].Seats))
	}
}

func TestBodyLimits(t *testing.T) {
	s := newServer(t)
	big := `{"showId":1,"seats":[1]` + strings.Repeat(" ", 64<<10) + `}`
	a := s.do("POST /api/v1/orders", big, "buyer").is(413)
	a.problem(seatflow.CodeInvalid, reasonTooLarge)
	if a.Header().Get("Connection") != "close" {
		t.Error("the connection of an oversized body is kept")
	}
	for _, contentType := range []string{"-", "text/plain", "application/xml", "application/json; charset=latin1", "application/jsonx", ";;"} {
		s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer", "Content-Type: "+contentType).is(415).
			problem(seatflow.CodeInvalid, reasonMediaType)
	}
	if s.changed() != 0 {
		t.Error("booking was asked")
	}
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer", "Content-Type: "+contentType).is(201)
	}
}

// brokenBody fails in the middle.
type brokenBody struct{ n int }

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.n++; b.n > 1 {
		return 0, errors.New("connection reset")
	}
	return copy(p, `{"showId":1,`), nil
}
func (*brokenBody) Close() error { return nil }

func TestBodyThatBreaksOff(t *testing.T) {
	s := newServer(t)
	r, err := http.NewRequest("POST", "/api/v1/orders", &brokenBody{})
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.tokens["buyer"])
	r.Header.Set("Content-Type", "application/json")
	a := s.send(r)
	a.is(400).problem(seatflow.CodeInvalid, reasonIncomplete)
}
