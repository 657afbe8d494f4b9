package httpapi

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"context"

	"github.com/google/go-cmp/cmp"

	"seatflow"
	"seatflow/internal/auth"
	"seatflow/internal/catalog"
	"seatflow/internal/payment"
	"seatflow/internal/telemetry"
)

func TestShows(t *testing.T) {
	s := newServer(t)
	var show Show
	s.do("GET /api/v1/shows/1", "").is(200).into(&show)
	want := Show{ID: 1, Title: "A show", Hall: HallRef{7, "Hall seven", "Europe/Berlin"}, PlanVersion: 2,
		Starts: testNow.Add(48 * time.Hour), Ends: testNow.Add(50 * time.Hour), SaleFrom: testNow.Add(-time.Hour),
		SaleUntil: testNow.Add(48 * time.Hour), Currency: "EUR", Prices: map[string]int64{"A": 2500, "<b>": 1800},
		LimitPerUser: 6, HoldSeconds: 900, HoldCapSeconds: 1800, ExtendSeconds: 300, Status: "published", OnSale: true,
		Version: 4, Counts: &Counts{7, 1, 1, 1}}
	if diff := cmp.Diff(want, show); diff != "" {
		t.Errorf("show (-want +got):\n%s", diff)
	}
	var list ShowList
	s.do("GET /api/v1/shows", "").is(200).into(&list)
	if len(list.Shows) != 1 || list.Next != "" {
		t.Errorf("list %+v", list)
	}
	s.do("GET /api/v1/shows/2", "").is(404).problem(seatflow.CodeNoShow, "")
	for id := range 5 {
		h := testHouse()
		h.Show.ID = seatflow.ShowID(id + 1)
		s.shows = append(s.shows, h)
	}
	var ids []int64
	for query := "?limit=2"; query != ""; {
		var page ShowList
		s.do("GET /api/v1/shows"+query, "").is(200).into(&page)
		for _, show := range page.Shows {
			ids = append(ids, show.ID)
			if (show.Counts == nil) != (show.ID != 1) {
				t.Errorf("show %d: counts %v", show.ID, show.Counts)
			}
		}
		query = ""
		if page.Next != "" {
			query = "?limit=2&cursor=" + page.Next
		}
	}
	if !slices.Equal(ids, []int64{1, 2, 3, 4, 5}) {
		t.Errorf("pages gave %v", ids)
	}
	s.house.Show.Status = seatflow.ShowCancelled
	s.do("GET /api/v1/shows/1", "").into(&show)
	if show.OnSale {
		t.Error("a cancelled show is on sale")
	}
}

func TestSeatMap(t *testing.T) {
	s := newServer(t)
	a := s.do("GET /api/v1/shows/1/seats?form=compact", "").is(200)
	var compact CompactMap
	a.into(&compact)
	if compact != (CompactMap{1, "3.17", Counts{7, 1, 1, 1}, "0012x00000-"}) || a.Header().Get("Etag") != `"3.17"` {
		t.Errorf("compact %+v, ETag %q", compact, a.Header().Get("Etag"))
	}
	full := s.do("GET /api/v1/shows/1/seats", "").is(200)
	var m SeatMap
	full.into(&m)
	if len(m.Seats) != 10 || m.Revision != "3.17" || m.Counts != (Counts{7, 1, 1, 1}) {
		t.Errorf("map %+v", m)
	}
	if want := (Seat{3, "held", "Floor", "0", "2", "A", 2500}); m.Seats[2] != want {
		t.Errorf("seat %+v", m.Seats[2])
	}
	if want := (Seat{5, "blocked", "Floor", "1", "0", "A", 2500}); m.Seats[4] != want {
		t.Errorf("seat %+v", m.Seats[4])
	}
	tag := full.Header().Get("Etag")
	if tag == a.Header().Get("Etag") {
		t.Error("two forms have one tag")
	}
	for _, given := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		r := s.do("GET /api/v1/shows/1/seats?form=full", "", "If-None-Match: "+given).is(304)
		if r.Body.Len() != 0 || r.Header().Get("Etag") != tag || r.Header().Get("Content-Length") != "" {
			t.Errorf("%s: %d bytes, headers %v", given, r.Body.Len(), r.Header())
		}
	}
	// What moved is seen at once, whatever was encoded before.
	s.shown = testMap(18)
	s.do("GET /api/v1/shows/1/seats", "", "If-None-Match: "+tag).is(200).into(&m)
	if m.Revision != "3.18" {
		t.Errorf("revision %s", m.Revision)
	}
	if head := s.do("HEAD /api/v1/shows/1/seats", "").is(200); head.Body.Len() != 0 || head.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d bytes, %v", head.Body.Len(), head.Header())
	}
	s.do("GET /api/v1/shows/1/seats?form=tiny", "").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField)
	s.do("GET /api/v1/shows/1/seats?x=1&form=compact", "").is(200).into(&compact)
	s.do("GET /api/v1/shows/9/seats", "").is(404).problem(seatflow.CodeNoShow, "")
}

func TestFullMapsAreBounded(t *testing.T) {
	var f fullMaps
	for id := range 100 {
		h := testHouse()
		h.Show.ID = seatflow.ShowID(id + 1)
		f.of(h, testMap(1))
	}
	if len(f.shows) > fullMapsMost {
		t.Errorf("%d maps are kept", len(f.shows))
	}
	// An older map than the one kept is answered and not kept.
	h := testHouse()
	f.of(h, testMap(9))
	if e := f.of(h, testMap(8)); !strings.Contains(string(e.body), `"3.8"`) {
		t.Errorf("asked for 3.8, got %.60s", e.body)
	}
	if slot := f.shows[1]; slot.revision.Number != 9 {
		t.Errorf("kept revision %v", slot.revision)
	}
}

func TestPlan(t *testing.T) {
	s := newServer(t)
	a := s.do("GET /api/v1/shows/1/plan", "").is(200)
	var p Plan
	a.into(&p)
	if p.Name != `Small "house"` || p.Width != 100 || len(p.Seats.ID) != 12 || p.Seats.X[3] != 0.3 || p.Seats.Zone[7] != 1 ||
		p.Seats.Row[5] != "1" || len(p.Seats.Radius) != 12 || p.Seats.Radius[11] != 4.5 {
		t.Errorf("plan %+v", p)
	}
	price := int64(2500)
	if !reflect.DeepEqual(p.Categories[0], PlanCategory{"A", "#112233", &price}) || p.Categories[2].Price != nil {
		t.Errorf("categories %+v", p.Categories)
	}
	if !bytes.Contains(a.Body.Bytes(), []byte(`"price":null`)) || len(p.Zones[0].Areas) != 0 || p.Zones[1].Areas[0].Points[1] != [2]float64{1.5, 0} {
		t.Errorf("zones %+v", p.Zones)
	}
	zipped := s.do("GET /api/v1/shows/1/plan", "", "Accept-Encoding: br, gzip;q=0.8").is(200)
	if zipped.Header().Get("Content-Encoding") != "gzip" || zipped.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("headers %v", zipped.Header())
	}
	r, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(r); err != nil || !bytes.Equal(plain, a.Body.Bytes()) {
		t.Errorf("unzipped differs: %v", err)
	}
	if zipped.Header().Get("Etag") == a.Header().Get("Etag") {
		t.Error("two encodings have one tag")
	}
	s.do("GET /api/v1/shows/1/plan", "", "If-None-Match: "+a.Header().Get("Etag")).is(304)
	// New prices, another document.
	s.house = testHouse()
	s.house.Show.Version, s.house.Show.Prices = 5, map[string]int64{"A": 1}
	s.do("GET /api/v1/shows/1/plan", "", "If-None-Match: "+a.Header().Get("Etag")).is(200).into(&p)
	if *p.Categories[0].Price != 1 {
		t.Errorf("old prices: %+v", p.Categories)
	}
	s.do("GET /api/v1/shows/9/plan", "").is(404).problem(seatflow.CodeNoShow, "")
	for header, want := range map[string]bool{"": false, "br": false, "gzip": true, "gzip;q=0": false, "gzip; q=0.0": false,
		"GZIP;q=1": true, "gzip;q=0.01": true, "x-gzip": false, "identity, gzip ;q=0.5": true} {
		if got := acceptsGzip(header); got != want {
			t.Errorf("Accept-Encoding %q: %v, want %v", header, got, want)
		}
	}
}

func TestGuests(t *testing.T) {
	s := newServer(t, func(o *Options) { o.GuestsPerMinute = 3 })
	var g Guest
	for range 3 {
		s.do("POST /api/v1/guests", "").is(201).into(&g)
	}
	if !strings.HasPrefix(g.UserID, "guest-") || g.Role != "buyer" || !g.ExpiresAt.After(testNow) {
		t.Errorf("guest %+v", g)
	}
	s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "Authorization: Bearer "+g.Token).is(201)
	if got := s.made[0].Actor.User; string(got) != g.UserID {
		t.Errorf("order by %s", got)
	}
	if got := s.do("POST /api/v1/guests", "").is(429).Header().Get("Retry-After"); got != "20" {
		t.Errorf("Retry-After %q, want 20", got)
	}
	off := newServer(t, func(o *Options) { o.Guests = false })
	off.do("POST /api/v1/guests", "").is(404).problem(seatflow.CodeNotFound, reasonOff)
	free := newServer(t)
	for range 50 {
		free.do("POST /api/v1/guests", "{}").is(201)
	}
}

func TestMintLimitsAreBounded(t *testing.T) {
	l := &mintLimits{perMinute: 1}
	for i := range addressesMost {
		if _, ok := l.allow(fmt.Sprint("a", i), testNow); !ok {
			t.Fatalf("address %d is refused at once", i)
		}
	}
	if wait, ok := l.allow("a7", testNow); ok || wait != time.Minute {
		t.Errorf("second token at once: %v, %v", wait, ok)
	}
	// A minute later they are forgotten when room is needed.
	l.allow("one more", testNow.Add(time.Minute))
	if len(l.addresses) != 1 {
		t.Errorf("%d addresses are kept", len(l.addresses))
	}
	if _, ok := l.allow("a7", testNow.Add(time.Minute)); !ok {
		t.Error("a7 is refused after a minute")
	}
}

func TestPayments(t *testing.T) {
	s := newServer(t)
	s.do("POST /api/v1/sandbox/payments/ref", `{"outcome":"succeed","delayMs":1500,"copies":2,"amount":{"amount":5,"currency":"EUR"}}`).is(202)
	want := payment.SandboxPay{Outcome: "succeed", Delay: 1500 * time.Millisecond, Copies: 2, Amount: &seatflow.Money{Amount: 5, Currency: "EUR"}}
	if diff := cmp.Diff(want, s.pays[0]); diff != "" {
		t.Error(diff)
	}
	s.do("POST /api/v1/sandbox/payments/other", `{"outcome":"succeed"}`).is(404).problem(seatflow.CodeNotFound, "")
	for _, body := range []string{`{"outcome":"maybe"}`, `{"outcome":"succeed","delayMs":-1}`, `{"outcome":"succeed","delayMs":9223372036854775807}`} {
		s.do("POST /api/v1/sandbox/payments/ref", body).is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField)
	}
	before := s.changed()
	s.do("POST /api/v1/payments/sandbox/callback", "raw \xff bytes", "Content-Type: text/plain").is(401).
		problem(seatflow.CodeUnauthorized, seatflow.ReasonBadSignature)
	s.do("POST /api/v1/payments/sandbox/callback", strings.Repeat("x", 64<<10+1), "Seatflow-Signature: good sandbox").is(413)
	if s.changed() != before {
		t.Error("an unsigned callback changed something")
	}
	var result CallbackResult
	s.do("POST /api/v1/payments/sandbox/callback", "again", "Seatflow-Signature: good sandbox", "Content-Type: -").is(200).into(&result)
	if result != (CallbackResult{"paid", true}) {
		t.Errorf("result %+v", result)
	}
	var ids []int64
	for query := "?limit=2"; query != ""; {
		var page UnknownPayments
		s.do("GET /api/v1/admin/payments/unknown"+query, "", "staff").is(200).into(&page)
		for _, p := range page.Payments {
			ids = append(ids, p.ID)
		}
		query = ""
		if page.Next != "" {
			query = "?limit=2&cursor=" + page.Next
		}
	}
	if !slices.Equal(ids, []int64{1, 2, 3}) {
		t.Errorf("unknown payments %v", ids)
	}
	off := newServer(t, func(o *Options) { o.Payments, o.Sandbox = nil, (*payment.Sandbox)(nil) })
	off.do("POST /api/v1/sandbox/payments/ref", `{"outcome":"succeed"}`).is(404).problem(seatflow.CodeNotFound, reasonOff)
	off.do("POST /api/v1/payments/sandbox/callback", "x").is(404)
}

func TestAdmin(t *testing.T) {
	s := newServer(t)
	var hall Hall
	s.do("POST /api/v1/admin/halls", `{"name":"Hall","zone":"Europe/Berlin"}`, "staff").is(201).into(&hall)
	if hall.ID != 7 || hall.Zone != "Europe/Berlin" {
		t.Errorf("hall %+v", hall)
	}
	var halls HallList
	s.do("GET /api/v1/admin/halls?limit=2", "", "admin").is(200).into(&halls)
	if len(halls.Halls) != 2 || halls.Next == "" {
		t.Errorf("halls %+v", halls)
	}
	s.do("GET /api/v1/admin/halls?limit=2&cursor="+halls.Next, "", "admin").is(200).into(&halls)
	if len(halls.Halls) != 1 || halls.Halls[0].ID != 3 {
		t.Errorf("halls %+v", halls)
	}
	var published PlanPublished
	s.do("POST /api/v1/admin/halls/7/plans?disambiguate=zone", `{"zones":[]}`, "staff").is(201).into(&published)
	if published != (PlanPublished{7, 2, 12}) {
		t.Errorf("published %+v", published)
	}
	p := s.do("POST /api/v1/admin/halls/7/plans", `{"fault":1}`, "staff", "Accept-Language: zh").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonPlanFaults)
	if len(p.Faults) != 2 || p.Faults[0] != `zones[0]: no "rows"` || !strings.Contains(p.Detail, "2") {
		t.Errorf("faults %+v", p)
	}
	s.do("POST /api/v1/admin/halls/8/plans", `{}`, "staff").is(404).problem(seatflow.CodeNotFound, "")
	s.do("POST /api/v1/admin/halls/7/plans?disambiguate=row", `{}`, "staff").is(400)
	if got := s.do("GET /api/v1/admin/halls/7/plans/2", "", "staff").is(200).Body.String(); got != `{"name":"x"}` {
		t.Errorf("export %s", got)
	}
	s.do("GET /api/v1/admin/halls/7/plans/0", "", "staff").is(200)
	s.do("GET /api/v1/admin/halls/7/plans/3", "", "staff").is(404)
	s.do("GET /api/v1/admin/halls/7/plans/99999999999", "", "staff").is(404)

	s.do("POST /api/v1/admin/shows", `{"hallId":7,"title":"New","starts":"2026-04-01T20:00:00+02:00","ends":"2026-04-01T22:00:00+02:00",
		"currency":"EUR","prices":{"A":100}}`, "staff").is(201).into(&Show{})
	if f := s.saved; f.Title != "New" || !f.Starts.Equal(time.Date(2026, 4, 1, 18, 0, 0, 0, time.UTC)) || f.Starts.Location() != time.UTC ||
		!f.SaleFrom.Equal(testNow) || !f.SaleUntil.Equal(f.Starts) || f.LimitPerUser != catalog.Inherit || f.HoldFor != 0 || f.ExtendBy != catalog.Inherit || f.Status != "published" {
		t.Errorf("saved %+v", f)
	}
	s.do("POST /api/v1/admin/shows", `{"hallId":7,"title":"New","starts":"2026-04-01T20:00:00Z","ends":"2026-04-01T22:00:00Z","saleUntil":"2026-04-01T21:00:00Z",
		"currency":"EUR","prices":{},"limitPerUser":0,"holdSeconds":120,"holdCapSeconds":240,"extendSeconds":0}`, "staff").is(201)
	if f := s.saved; f.LimitPerUser != 0 || f.HoldFor != 2*time.Minute || f.HoldCap != 4*time.Minute || f.ExtendBy != 0 || f.SaleUntil.Hour() != 21 {
		t.Errorf("saved %+v", f)
	}
	s.do("PATCH /api/v1/admin/shows/1", `{"version":3,"title":"Other","status":"cancelled","holdSeconds":60,"prices":{"A":7}}`, "staff").is(200)
	if f := s.saved; f.Version != 3 || f.Title != "Other" || f.Status != "cancelled" || f.HoldFor != time.Minute || f.Prices["A"] != 7 || f.Currency != "EUR" || f.LimitPerUser != 6 {
		t.Errorf("saved %+v", f)
	}
	s.do("PATCH /api/v1/admin/shows/1", `{"partition":63}`, "staff").is(200)
	if s.saved.Partition != 63 || s.saved.Title != "A show" {
		t.Errorf("saved %+v", s.saved)
	}
	s.do("PATCH /api/v1/admin/shows/1", `{"partition":64}`, "staff").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField)
	s.do("PATCH /api/v1/admin/shows/1", `{"partition":-1}`, "staff").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField)
	s.do("PATCH /api/v1/admin/shows/1", `{}`, "staff").is(200)
	if s.saved.Version != 4 || s.saved.Title != "A show" {
		t.Errorf("saved %+v", s.saved)
	}

	var block Order
	s.do("POST /api/v1/admin/shows/1/blocks", `{"seats":[5,4],"reason":"camera"}`, "staff").is(201).into(&block)
	if block.Kind != "block" || block.Reason != "camera" || block.State != "blocked" || block.Deadline != nil || len(block.Seats) != 2 {
		t.Errorf("block %+v", block)
	}
	var blocks BlockList
	s.do("GET /api/v1/admin/shows/1/blocks", "", "staff").is(200).into(&blocks)
	if len(blocks.Blocks) != 1 {
		t.Errorf("blocks %+v", blocks)
	}
	s.do("POST /api/v1/admin/blocks/"+block.No+"/release", `{"seats":[5]}`, "staff").is(200)
	if !slices.Equal(s.seats, []seatflow.SeatID{5}) {
		t.Errorf("released %v", s.seats)
	}
	s.do("POST /api/v1/admin/blocks/"+block.No+"/release", "", "staff").is(200)
	if s.seats != nil {
		t.Errorf("released %v", s.seats)
	}
	s.do("POST /api/v1/admin/blocks/"+block.No+"/release", `{"seats":[]}`, "staff").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonNoSeats)
	var refunded Refunded
	s.do("POST /api/v1/admin/orders/"+block.No+"/refund", `{"seats":[4]}`, "staff").is(200).into(&refunded)
	if refunded.Refund == nil || refunded.Refund.ID != "r1" || refunded.Order.No != block.No {
		t.Errorf("refunded %+v", refunded)
	}
	var rebuilt Rebuilt
	s.do("POST /api/v1/admin/shows/1/rebuild", "", "admin").is(200).into(&rebuilt)
	if rebuilt != (Rebuilt{1, Counts{7, 1, 1, 1}}) {
		t.Errorf("rebuilt %+v", rebuilt)
	}
}

func TestVerify(t *testing.T) {
	s := newServer(t, func(o *Options) { o.VerifyMaxBytes = 1000 })
	var report struct{ Show, Read int }
	s.do("POST /api/v1/admin/verify", "", "admin").is(200).into(&report)
	s.do("POST /api/v1/admin/verify?show=3", "{}\n{}\n", "admin", "Content-Type: application/x-ndjson").is(200).into(&report)
	if report.Show != 3 || report.Read != 6 {
		t.Errorf("report %+v", report)
	}
	for _, query := range []string{"?show=x", "?show=-1", "?show=1.5"} {
		s.do("POST /api/v1/admin/verify"+query, "", "admin").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField)
	}
	s.do("POST /api/v1/admin/verify", "x", "admin", "Content-Type: image/png").is(415)
	s.do("POST /api/v1/admin/verify", strings.Repeat("x", 1001), "admin").is(413).problem(seatflow.CodeInvalid, reasonTooLarge)
	// The same for a body that does not say how long it is.
	r := httptest.NewRequest("POST", "/api/v1/admin/verify", io.MultiReader(strings.NewReader(strings.Repeat("x", 1001))))
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer "+s.tokens["admin"])
	s.send(r).is(413).problem(seatflow.CodeInvalid, reasonTooLarge)
}

func TestOps(t *testing.T) {
	health := map[string]error{"ledger": nil, "seats": nil}
	s := newServer(t, func(o *Options) { o.Health = func(context.Context) map[string]error { return health } })
	var alive Alive
	s.do("GET /livez", "").is(200).into(&alive)
	if alive != (Alive{"ok", "v0-test"}) {
		t.Errorf("alive %+v", alive)
	}
	var ready Ready
	s.do("GET /readyz", "").is(200).into(&ready)
	health["bus"] = fmt.Errorf("%w: secret", telemetry.ErrDegraded)
	s.do("GET /readyz", "").is(200).into(&ready)
	if ready.Status != "ok" || ready.Checks["bus"] != "degraded" {
		t.Errorf("without its bus: %+v", ready)
	}
	health["ledger"] = errors.New("secret")
	a := s.do("GET /readyz", "").is(503)
	a.into(&ready)
	if ready.Status != "unavailable" || ready.Checks["ledger"] != "failing" || ready.Checks["seats"] != "ok" || a.Header().Get("Retry-After") == "" ||
		strings.Contains(a.Body.String(), "secret") || !strings.Contains(s.logs.String(), "secret") {
		t.Errorf("ready %+v, headers %v", ready, a.Header())
	}
	s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer").is(201)
	s.do("POST /api/v1/orders", `{"showId":1,"seats":[]}`, "buyer").is(400)
	s.do("GET /api/v1/orders/"+string(testNo(1)), "", "buyer").is(200)
	metrics := s.do("GET /metrics", "").is(200).Body.String()
	for _, line := range []string{
		`seatflow_http_requests_total{code="201",route="POST /api/v1/orders"} 1`,
		`seatflow_http_requests_total{code="400",route="POST /api/v1/orders"} 1`,
		`seatflow_http_requests_total{code="200",route="GET /api/v1/orders/{no}"} 1`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	if strings.Contains(metrics, string(testNo(1))) || strings.Contains(metrics, "the-buyer") {
		t.Error("metrics name an order or a user")
	}
	newServer(t, func(o *Options) { o.Metrics = nil }).do("GET /metrics", "").is(404)
}

func TestHeaders(t *testing.T) {
	s := newServer(t)
	for _, what := range []string{"GET /api/v1/shows", "GET /api/v1/nothing", "GET /livez", "GET /docs", "GET /", "POST /api/v1/orders", "DELETE /docs"} {
		h := s.do(what, "").Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff", "Strict-Transport-Security": "", "Traceparent": "",
			"Referrer-Policy": map[bool]string{true: "no-referrer"}[what == "GET /" || what == "GET /docs"],
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", what, name, got, want)
			}
		}
		if id := h.Get("X-Trace-Id"); len(id) != 32 {
			t.Errorf("%s: trace %q", what, id)
		}
	}
	given := "0af7651916cd43dd8448eb211c80319c"
	traced := s.do("GET /livez", "", "Traceparent: 00-"+given+"-b7ad6b7169203331-01").Header()
	span, ok := strings.CutPrefix(traced.Get("Traceparent"), "00-"+given+"-")
	if traced.Get("X-Trace-Id") != given || !ok || len(span) != len("b7ad6b7169203331-01") || strings.HasPrefix(span, "b7ad6b7169203331") {
		t.Errorf("traced: %v", traced)
	}
	if got := s.do("GET /livez", "", "Traceparent: rubbish").Header().Get("X-Trace-Id"); len(got) != 32 {
		t.Errorf("trace %q", got)
	}
	secure := newServer(t, func(o *Options) { o.HTTPS = true })
	if secure.do("GET /livez", "").Header().Get("Strict-Transport-Security") == "" {
		t.Error("no HSTS with https")
	}
	if !strings.Contains(s.logs.String(), "level=DEBUG msg=request route=\"GET /livez\" status=200") || !strings.Contains(s.logs.String(), "trace_id="+given) {
		t.Errorf("access log:\n%s", s.logs)
	}
}

// TestAccess tries every endpoint as everybody and compares with the table.
func TestAccess(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Notices = nil }) // whose stream would not end either
	for _, e := range s.api.Endpoints() {
		what := e.Method + " " + strings.NewReplacer("{id}", "1", "{no}", string(testNo(1)), "{version}", "2", "{ref}", "ref", "{provider}", "sandbox").Replace(e.Path)
		if strings.HasSuffix(e.Path, "/events") { // a stream would not end
			what = strings.Replace(what, "/1/", "/9/", 1)
		}
		for _, role := range []seatflow.Role{"", "buyer", "kiosk", "staff", "admin"} {
			headers := []string{"Authorization: "}
			if role != "" {
				headers = []string{string(role)}
			}
			a := s.do(what, "", headers...)
			refused := a.Code == 401 || a.Code == 403
			switch {
			case e.Action == auth.ActionPublic:
				refused = refused && !strings.HasSuffix(e.Path, "/callback") // whose signature is missing here
				if refused {
					t.Errorf("%s as %q: %d", what, role, a.Code)
				}
			case role == "":
				a.is(401).problem(seatflow.CodeUnauthorized, "")
			case !auth.Allowed(role, e.Action):
				a.is(403).problem(seatflow.CodeForbidden, reasonRole)
			case refused:
				t.Errorf("%s as %s: %d, want to be let in", what, role, a.Code)
			}
		}
		if e.Action != auth.ActionPublic {
			for _, header := range []string{"Bearer x", "Basic abc", "Bearer " + strings.Repeat("x", 5000), "Bearer " + s.tokens["admin"] + "x"} {
				s.do(what, "", "Authorization: "+header).is(401)
			}
		}
	}
}

func TestBuildRefusesMissingParts(t *testing.T) {
	if h, err := New(Options{}); err == nil || h != nil {
		t.Errorf("New of nothing: %v, %v", h, err)
	}
	f := newFakes()
	tokens, err := auth.NewTokens(testSecret, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Options{Booking: f, Catalog: fakeCatalog{f}, Live: fakeLive{f}, Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/livez", nil))
	if w.Code != 200 {
		t.Errorf("livez of the least: %d", w.Code)
	}
}

func TestRemoteAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:99": "192.0.2.1", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[::ffff:192.0.2.1]:5": "192.0.2.1",
		"[fe80::1%eth0]:5": "fe80::/64", "@": "@", "name:1": "name",
	} {
		if got := remoteAddress(&http.Request{RemoteAddr: addr}); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

func TestReconcile(t *testing.T) {
	var asked []string
	s := newServer(t, func(o *Options) {
		o.Reconcile = func(_ context.Context, show seatflow.ShowID, dryRun bool) (any, error) {
			asked = append(asked, fmt.Sprint(show, " ", dryRun))
			if show == 9 {
				return nil, seatflow.ErrNotFound
			}
			return map[string]int{"shows": 2}, nil
		}
	})
	s.do("POST /api/v1/admin/reconcile", "", "staff").is(200)
	s.do("POST /api/v1/admin/reconcile?show=3&dryRun=true", "", "admin").is(200)
	s.do("POST /api/v1/admin/reconcile?show=9&dryRun=false", "", "admin").is(404).problem(seatflow.CodeNoShow, "")
	s.do("POST /api/v1/admin/reconcile?show=x", "", "admin").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField)
	s.do("POST /api/v1/admin/reconcile?dryRun=1", "", "admin").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField)
	s.do("POST /api/v1/admin/reconcile", "", "buyer").is(403)
	if got := fmt.Sprint(asked); got != "[0 false 3 true 9 false]" {
		t.Errorf("asked %v", got)
	}
	newServer(t).do("POST /api/v1/admin/reconcile", "", "admin").is(404)
}
