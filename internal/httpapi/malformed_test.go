package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/wording"
)

// filled is a path of a route with parameters that exist.
func filled(path string) string {
	return strings.NewReplacer("{id}", "1", "{no}", string(testNo(1)), "{version}", "2", "{ref}", "ref", "{provider}", "sandbox").Replace(path)
}

// TestMalformedBodies sends what is wrong everywhere to everyone who reads
// JSON.
func TestMalformedBodies(t *testing.T) {
	s := newServer(t)
	o := testOrder(1, "the-admin", 1)
	s.orders[o.No] = o
	bodies := []string{`{`, `[]`, `"x"`, `7`, `{"unknown":1}`, `{}{}`, `{} x`, "{\"a\":\"\xff\"}", "\x00", `{"a":1,"a":2}`, `nul`,
		strings.Repeat(`[`, 5000), strings.Repeat(`{"seats":`, 100) + `1` + strings.Repeat(`}`, 100)}
	reads := 0
	for _, rt := range s.api.routes {
		if rt.limit == 0 || rt.doc.bodyType != "" || strings.HasSuffix(rt.path, "/plans") {
			continue // takes no JSON of ours
		}
		reads++
		what := rt.method + " " + filled(rt.path)
		for _, body := range bodies {
			a := s.do(what, body, "admin")
			a.name = what + " " + wording.Clip(body)
			if a.Code != 400 {
				a.is(400)
			}
			var p Problem
			if a.into(&p); p.Code != 1000 || p.Reason != string(reasonMalformed) && p.Reason != string(seatflow.ReasonField) {
				t.Errorf("%s: %s", a.name, a.Body)
			}
		}
		s.do(what, `{"a":1}`, "admin", "Content-Type: text/html").is(415).problem(seatflow.CodeInvalid, reasonMediaType)
		a := s.do(what, strings.Repeat(" ", int(min(rt.limit, 5<<20))+1), "admin")
		if rt.limit <= 5<<20 {
			a.is(413).problem(seatflow.CodeInvalid, reasonTooLarge)
		}
	}
	if s.changed() != 0 {
		t.Errorf("%d malformed requests changed something", s.changed())
	}
	if reads < 13 {
		t.Errorf("only %d endpoints read JSON", reads)
	}
}

// TestInvalidMembers has the faults of single members.
func TestInvalidMembers(t *testing.T) {
	s := newServer(t)
	o := testOrder(1, "the-admin", 1)
	s.orders[o.No] = o
	no := string(o.No)
	for _, tc := range []struct{ what, body, field string }{
		{"POST /api/v1/orders/" + no + "/payments", `{"provider":7}`, "provider"},
		{"POST /api/v1/sandbox/payments/ref", `{"outcome":true}`, "outcome"},
		{"POST /api/v1/sandbox/payments/ref", `{"outcome":"succeed","copies":1.5}`, "copies"},
		{"POST /api/v1/sandbox/payments/ref", `{"outcome":"succeed","amount":{"amount":"5","currency":"EUR"}}`, "amount.amount"},
		{"POST /api/v1/admin/halls", `{"zone":"UTC"}`, "name"},
		{"POST /api/v1/admin/shows", `{"hallId":"7"}`, "hallId"},
		{"POST /api/v1/admin/shows", `{"starts":"yesterday"}`, "starts"},
		{"POST /api/v1/admin/shows", `{"starts":"2026-04-01T20:00:00"}`, "starts"},
		{"POST /api/v1/admin/shows", `{"prices":{"A":"1"}}`, "prices.A"},
		{"POST /api/v1/admin/shows", `{"prices":{"A":1,"A":2}}`, "prices.A"},
		{"POST /api/v1/admin/shows", `{"planVersion":4294967296}`, "planVersion"},
		{"POST /api/v1/admin/shows", `{"holdSeconds":-1}`, "holdSeconds"},
		{"POST /api/v1/admin/shows", `{"holdCapSeconds":9223372036854775807}`, "holdCapSeconds"},
		{"POST /api/v1/admin/shows", `{"extendSeconds":1e3}`, "extendSeconds"},
		{"PATCH /api/v1/admin/shows/1", `{"holdSeconds":99999999999}`, "holdSeconds"},
		{"PATCH /api/v1/admin/shows/1", `{"currency":"USD"}`, "currency"},
		{"PATCH /api/v1/admin/shows/1", `{"version":1.5}`, "version"},
		{"POST /api/v1/admin/shows/1/blocks", `{"seats":[0]}`, "seats[0]"},
		{"POST /api/v1/admin/shows/1/blocks", `{"seats":[1,1]}`, "seats[1]"},
		{"POST /api/v1/admin/shows/1/blocks", `{"seats":[1],"reason":"` + strings.Repeat("x", 201) + `"}`, "reason"},
		{"POST /api/v1/admin/shows/1/blocks", `{}`, "seats"},
		{"POST /api/v1/admin/blocks/" + no + "/release", `{"seats":[-1]}`, "seats[0]"},
		{"POST /api/v1/admin/orders/" + no + "/refund", `{"seats":["1"]}`, "seats[0]"},
	} {
		a := s.do(tc.what, tc.body, "admin")
		a.name = tc.what + " " + wording.Clip(tc.body)
		var p Problem
		if a.is(400).into(&p); p.Code != 1000 || p.Field != tc.field {
			t.Errorf("%s: %s", a.name, a.Body)
		}
	}
	if s.changed() != 0 {
		t.Errorf("%d invalid requests changed something", s.changed())
	}
}

// TestMalformedPaths puts what is no id where ids stand, and what is no page
// where pages are asked for.
func TestMalformedPaths(t *testing.T) {
	s := newServer(t)
	bad := []string{"0", "-1", "+1", "01", "1.0", "1e3", "x", "9223372036854775808", "99999999999999999999999", "%00", "%ff", "１", "1%20", "%2e%2e"}
	for _, rt := range s.api.routes {
		what := rt.method + " " + rt.path
		for _, name := range []string{"{id}", "{version}", "{no}"} {
			if !strings.Contains(rt.path, name) {
				continue
			}
			for _, value := range bad {
				if name == "{version}" && value == "0" {
					continue // the latest
				}
				path := filled(strings.Replace(rt.path, name, value, 1))
				r, err := http.NewRequest(rt.method, path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer "+s.tokens["admin"])
				r.Header.Set("Content-Type", "application/json")
				a := s.send(r)
				a.name = what + " with " + value
				if a.is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField).Field == "" {
					t.Errorf("%s: no field", a.name)
				}
			}
		}
		if len(rt.doc.query) == 2 && rt.doc.query[0].name == "cursor" {
			for _, query := range []string{"limit=0", "limit=-1", "limit=101", "limit=x", "limit=1.5", "cursor=!!", "cursor=" + url.QueryEscape("MQ=="),
				"cursor=" + cursorOf("x"), "cursor=" + cursorOf("-1"), "cursor=" + cursorOf("0"), "cursor=" + strings.Repeat("A", 5000)} {
				a := s.do(rt.method+" "+filled(rt.path)+"?"+query, "", "admin")
				a.name = what + "?" + wording.Clip(query)
				a.is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField)
			}
		}
	}
	if s.changed() != 0 {
		t.Errorf("%d malformed requests changed something", s.changed())
	}
}

func TestUnknownDevice(t *testing.T) {
	s := newServer(t)
	p := s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer", "X-Origin-Device: system").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField)
	if p.Field != "X-Origin-Device" || s.changed() != 0 {
		t.Errorf("%+v", p)
	}
	s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "kiosk").is(201)
	if s.made[0].Actor.Device != seatflow.DeviceKiosk {
		t.Errorf("a kiosk's device is %q", s.made[0].Actor.Device)
	}
}

// FuzzCreateOrderBody: no body makes the server fail, what is refused reaches
// nobody, and the quick decoder never differs from the strict one.
func FuzzCreateOrderBody(f *testing.F) {
	for _, body := range malformedOrders {
		f.Add([]byte(body))
	}
	for _, body := range []string{`{"showId":1,"seats":[1,2],"idempotencyKey":"k"}`, `{"seats":[3],"showId":1}`,
		`{"showId":1,"seats":[1,1]}`, `{"showId":1,"seats":[-1]}`, `{"showId":1,"seats":[1],"idempotencyKey":null}`} {
		f.Add([]byte(body))
	}
	s := newServer(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		s.t = t
		before := s.changed()
		r := httptest.NewRequest("POST", createPath, strings.NewReader(string(body)))
		r.Header.Set("Authorization", "Bearer "+s.tokens["buyer"])
		r.Header.Set("Content-Type", "application/json")
		a := s.send(r)
		switch {
		case a.Code == http.StatusCreated:
			var o Order
			if a.into(&o); s.changed() != before+1 {
				t.Errorf("%d changes for one order", s.changed()-before)
			}
		case a.Code >= 400 && a.Code < 500:
			var p Problem
			if a.into(&p); p.Code != 1000 || s.changed() != before {
				t.Errorf("%s: %d changes", a.Body, s.changed()-before)
			}
		default:
			t.Errorf("status %d: %s", a.Code, a.Body)
		}
		s.made, s.orders = nil, map[seatflow.OrderNo]seatflow.Order{}

		var quick, strict CreateOrder
		if !quickOrder(body, &quick) {
			return
		}
		if err := decodeStrict(body, &strict); err != nil || !sameOrder(&quick, &strict) {
			t.Errorf("quick %+v, strict %+v, %v", quick, strict, err)
		}
	})
}

func sameOrder(a, b *CreateOrder) bool {
	if a.ShowID != b.ShowID || len(a.Seats) != len(b.Seats) || (a.IdempotencyKey == nil) != (b.IdempotencyKey == nil) {
		return false
	}
	for i := range a.Seats {
		if a.Seats[i] != b.Seats[i] {
			return false
		}
	}
	return a.IdempotencyKey == nil || *a.IdempotencyKey == *b.IdempotencyKey
}

// FuzzIdempotencyKey: whatever stands in header and body, the key that
// booking gets is a valid one or none, and both never differ unnoticed.
func FuzzIdempotencyKey(f *testing.F) {
	f.Add("", "", false)
	f.Add("a", "a", true)
	f.Add("a", "b", true)
	f.Add("  ", "b", true)
	f.Add("caf\xe9", "", false)
	f.Add(strings.Repeat("k", 64), strings.Repeat("k", 65), true)
	f.Add("a\tb", "\x00", true)
	f.Fuzz(func(t *testing.T, header, body string, inBody bool) {
		var given *string
		if inBody {
			given = &body
		}
		key, err := booking.OrderKey(header, true, given)
		if err != nil {
			var p Problem
			e, internal := shown(err)
			if internal || e.Code != seatflow.CodeInvalid || key != "" {
				t.Errorf("key %q, error %v", key, err)
			}
			if err := strictly(appendProblem(nil, english, e, "", nil), &p); err != nil {
				t.Errorf("problem: %v", err)
			}
			return
		}
		blank := func(s string) bool { return strings.Trim(s, " ") == "" }
		switch {
		case key == "":
			if !blank(header) || inBody && !blank(body) {
				t.Errorf("a key was lost: %q, %q", header, body)
			}
		case len(key) > seatflow.MaxKeyLen || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }):
			t.Errorf("key %q", key)
		case !blank(header) && key != header, inBody && !blank(body) && key != body:
			t.Errorf("key %q from header %q and body %q", key, header, body)
		}
	})
}
