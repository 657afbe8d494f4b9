package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/auth"
	"seatflow/internal/booking"
	"seatflow/internal/live"
	"seatflow/internal/notice"
	"seatflow/internal/payment"
	"seatflow/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type stoppedClock struct{}

func (stoppedClock) Now() time.Time { return testNow }

// testNo is a valid order number that ends in a digit of its own.
func testNo(n int) seatflow.OrderNo {
	return seatflow.OrderNo(fmt.Sprintf("01JNZ8Q3W2M4T6V8X0Y2A4%04d", n))
}

func testHouse() *seatflow.House {
	plan := &seatflow.Plan{Hall: 7, Version: 2, Name: "Small \"house\"", Width: 100.00000001, Height: 50,
		Categories: []seatflow.Category{{Name: "A", Color: "#112233"}, {Name: "<b>", Color: "#445566"}, {Name: "unsold", Color: "#000000"}},
		Zones: []seatflow.Zone{{Name: "Floor"}, {Name: "Balcony 楼座", Areas: []seatflow.Area{
			{Shape: "polygon", X: 1, Y: 2, Points: [][2]float64{{0, 0}, {1.5, 0}, {1, 1}}, Text: "Stage", TextSize: 12},
		}}},
	}
	for i := range 12 {
		s := seatflow.PlanSeat{ID: seatflow.SeatID(i + 1), GUID: fmt.Sprint("g", i), Zone: i / 6, Category: i / 6,
			Row: fmt.Sprint(i / 4), Number: fmt.Sprint(i % 4), X: float64(i) * 0.1, Y: 3, Radius: 0}
		if i == 11 {
			s.Category, s.Radius = 2, 4.5
		}
		plan.Seats = append(plan.Seats, s)
	}
	return seatflow.NewHouse(seatflow.Show{
		ID: 1, Hall: 7, PlanVersion: 2, Title: "A show", Starts: testNow.Add(48 * time.Hour), Ends: testNow.Add(50 * time.Hour),
		SaleFrom: testNow.Add(-time.Hour), SaleUntil: testNow.Add(48 * time.Hour), Currency: "EUR",
		Prices: map[string]int64{"A": 2500, "<b>": 1800}, LimitPerUser: 6, HoldFor: 15 * time.Minute,
		HoldCap: 30 * time.Minute, ExtendBy: 5 * time.Minute, Status: seatflow.ShowPublished, Generation: 3, Version: 4,
	}, seatflow.Hall{ID: 7, Name: "Hall seven", Zone: "Europe/Berlin", CreatedAt: testNow}, plan)
}

func testMap(number int64) *live.Map {
	m := &live.Map{Show: 1, Revision: seatflow.Revision{Generation: 3, Number: number}, States: []byte("0012x00000-"),
		Counts: live.Counts{Available: 7, Held: 1, Sold: 1, Blocked: 1}}
	m.ETag = `"` + m.Revision.String() + `"`
	m.Compact = fmt.Appendf(nil, `{"showId":1,"revision":"%v","counts":{"available":7,"held":1,"sold":1,"blocked":1},"states":"%s"}`, m.Revision, m.States)
	return m
}

func testOrder(n int, user seatflow.UserID, seats ...seatflow.SeatID) seatflow.Order {
	o := seatflow.Order{No: testNo(n), Attempt: 1, Version: 1, Show: 1, User: user, Kind: seatflow.KindSale, State: seatflow.OrderPending,
		Total: seatflow.Money{Currency: "EUR"}, Deadline: testNow.Add(15 * time.Minute), Cap: testNow.Add(30 * time.Minute),
		Device: seatflow.DeviceWeb, CreatedAt: testNow.Add(123456789), UpdatedAt: testNow}
	for _, s := range seats {
		o.Items = append(o.Items, seatflow.OrderItem{Seat: s, Price: 2500})
		o.Total.Amount += 2500
	}
	return o
}

// fakes stands for everything behind the transport. It counts the calls that
// would change something, and answers with err when it is set.
type fakes struct {
	rooms notice.Rooms

	mu      sync.Mutex
	house   *seatflow.House
	err     error
	changes int
	made    []booking.CreateRequest
	orders  map[seatflow.OrderNo]seatflow.Order
	replay  bool
	panics  any
	pays    []payment.SandboxPay
	actor   seatflow.Actor
	shown   *live.Map
	shows   []*seatflow.House
	saved   seatflow.Show
	seats   []seatflow.SeatID
	subs    chan *fakeStream
	after   chan string
}

func newFakes() *fakes {
	return &fakes{house: testHouse(), orders: map[seatflow.OrderNo]seatflow.Order{}, shown: testMap(17),
		subs: make(chan *fakeStream, 16), after: make(chan string, 16)}
}

// change notes a call that changes something.
func (f *fakes) change() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics != nil {
		panic(f.panics)
	}
	f.changes++
	return f.err
}

func (f *fakes) changed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

func (f *fakes) Create(_ context.Context, req booking.CreateRequest) (booking.Created, error) {
	if err := f.change(); err != nil {
		return booking.Created{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = append(f.made, req)
	o := testOrder(len(f.made), req.Actor.User, req.Seats...)
	f.orders[o.No] = o
	return booking.Created{Order: o, Replayed: f.replay}, nil
}

func (f *fakes) Order(_ context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.orders[no]
	staff := actor.Role == seatflow.RoleStaff || actor.Role == seatflow.RoleAdmin
	if !ok || !staff && o.User != actor.User {
		return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeNotFound}
	}
	return o, f.err
}

func (f *fakes) Orders(_ context.Context, actor seatflow.Actor, before seatflow.OrderNo, limit int) ([]seatflow.Order, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []seatflow.Order
	for n := 9999; n >= 0 && len(list) < limit; n-- {
		o, ok := f.orders[testNo(n)]
		if ok && o.User == actor.User && (before == "" || o.No < before) {
			list = append(list, o)
		}
	}
	return list, f.err
}

func (f *fakes) History(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) ([]seatflow.OrderEvent, error) {
	if _, err := f.Order(ctx, actor, no); err != nil {
		return nil, err
	}
	return []seatflow.OrderEvent{{ID: 1, Order: no, Version: 1, Type: seatflow.EventCreated, To: seatflow.OrderPending,
		Seats: []seatflow.SeatID{1}, Actor: actor, At: testNow}}, nil
}

func (f *fakes) edit(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error) {
	o, err := f.Order(ctx, actor, no)
	if err == nil {
		err = f.change()
	}
	f.mu.Lock()
	f.actor = actor
	f.mu.Unlock()
	return o, err
}

func (f *fakes) Cancel(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error) {
	o, err := f.edit(ctx, actor, no)
	o.State = seatflow.OrderCancelled
	return o, err
}

func (f *fakes) Extend(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo) (seatflow.Order, error) {
	return f.edit(ctx, actor, no)
}

func (f *fakes) Refund(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo, seats []seatflow.SeatID) (seatflow.Order, *seatflow.Refund, error) {
	o, err := f.edit(ctx, actor, no)
	f.seats = seats
	return o, &seatflow.Refund{ID: "r1", Amount: o.Total, Reason: seatflow.RefundByStaff}, err
}

func (f *fakes) Block(_ context.Context, actor seatflow.Actor, show seatflow.ShowID, seats []seatflow.SeatID, reason string) (seatflow.Order, error) {
	if err := f.change(); err != nil {
		return seatflow.Order{}, err
	}
	o := testOrder(500, actor.User, seats...)
	o.Kind, o.State, o.Reason, o.Deadline, o.Cap = seatflow.KindBlock, seatflow.OrderBlocked, reason, time.Time{}, time.Time{}
	f.orders[o.No] = o
	return o, nil
}

func (f *fakes) Unblock(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo, seats []seatflow.SeatID) (seatflow.Order, error) {
	f.seats = seats
	return f.edit(ctx, actor, no)
}

func (f *fakes) Blocks(context.Context, seatflow.Actor, seatflow.ShowID) ([]seatflow.Order, error) {
	o, ok := f.orders[testNo(500)]
	if !ok {
		return nil, f.err
	}
	return []seatflow.Order{o}, f.err
}

func (f *fakes) Rebuild(context.Context, seatflow.ShowID) error { return f.change() }

type fakeCatalog struct{ *fakes }

func (f fakeCatalog) House(_ context.Context, id seatflow.ShowID) (*seatflow.House, error) {
	if id != 1 {
		return nil, fmt.Errorf("show %d: %w", id, seatflow.ErrNotFound)
	}
	return f.house, nil
}

func (f fakeCatalog) Shows(_ context.Context, after seatflow.ShowID, _ time.Time, limit int) ([]*seatflow.House, error) {
	list := f.shows
	if list == nil {
		list = []*seatflow.House{f.house}
	}
	for i, h := range list {
		if h.Show.ID == after {
			list = list[i+1:]
			break
		}
	}
	return list[:min(limit, len(list))], f.err
}

func (f fakeCatalog) CreateHall(_ context.Context, h seatflow.Hall) (seatflow.Hall, error) {
	if h.Name == "" {
		return seatflow.Hall{}, invalid("name", "is required")
	}
	h.ID, h.CreatedAt = 7, testNow
	return h, f.change()
}

func (f fakeCatalog) Halls(_ context.Context, after seatflow.HallID, limit int) ([]seatflow.Hall, error) {
	list := []seatflow.Hall{}
	for id := after + 1; id <= 3 && len(list) < limit; id++ {
		list = append(list, seatflow.Hall{ID: id, Name: fmt.Sprint("hall ", id), Zone: "UTC", CreatedAt: testNow})
	}
	return list, f.err
}

func (f fakeCatalog) Hall(_ context.Context, id seatflow.HallID) (seatflow.Hall, error) {
	if id != 7 {
		return seatflow.Hall{}, seatflow.ErrNotFound
	}
	return f.house.Hall, nil
}

func (f fakeCatalog) Plan(_ context.Context, hall seatflow.HallID, v seatflow.PlanVersion) (*seatflow.Plan, error) {
	if hall != 7 || v != 2 && v != 0 { // 0: the latest
		return nil, seatflow.ErrNotFound
	}
	return f.house.Plan, nil
}

func (f fakeCatalog) CreateShow(_ context.Context, s seatflow.Show) (seatflow.Show, error) {
	if s.Title == "" {
		return s, invalid("title", "is required")
	}
	s.ID = 1
	f.saved = s
	return s, f.change()
}

func (f fakeCatalog) UpdateShow(_ context.Context, s seatflow.Show) (seatflow.Show, error) {
	f.saved = s
	return s, f.change()
}

type fakePlans struct{ *fakes }

func (f fakePlans) Import(_ context.Context, hall seatflow.HallID, document io.Reader, disambiguate string) (*seatflow.Plan, error) {
	body, err := io.ReadAll(document)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if strings.Contains(string(body), "fault") {
		return nil, &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonPlanFaults, Args: []any{2},
			Faults: []string{"zones[0]: no \"rows\"", "zones[1]: empty"}}
	}
	return f.house.Plan, f.change()
}

func (fakePlans) Export(*seatflow.Plan) ([]byte, error) { return []byte(`{"name":"x"}`), nil }

type fakePayments struct{ *fakes }

func (f fakePayments) Start(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo, provider string) (seatflow.Checkout, seatflow.Order, error) {
	if provider == "gold" {
		return seatflow.Checkout{}, seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonNoProvider, Args: []any{provider}}
	}
	o, err := f.edit(ctx, actor, no)
	return seatflow.Checkout{Provider: "sandbox", Ref: "ref", URL: "/api/v1/sandbox/payments/ref"}, o, err
}

func (f fakePayments) Callback(_ context.Context, provider string, header func(string) string, body []byte) (seatflow.PaymentOutcome, error) {
	if header("Seatflow-Signature") != "good "+provider {
		return seatflow.PaymentOutcome{}, fmt.Errorf("callback: %w", seatflow.ErrBadSignature)
	}
	return seatflow.PaymentOutcome{Ending: seatflow.EndingPaid, Repeat: string(body) == "again"}, f.change()
}

func (f fakePayments) Unknown(_ context.Context, after int64, limit int) ([]seatflow.Payment, error) {
	var list []seatflow.Payment
	for id := after + 1; id <= 3 && len(list) < limit; id++ {
		list = append(list, seatflow.Payment{ID: id, Ending: seatflow.EndingUnknown, At: testNow,
			Event: seatflow.PaymentEvent{Provider: "sandbox", EventID: fmt.Sprint("e", id), CaptureID: "c", Amount: seatflow.Money{Amount: 5, Currency: "EUR"}}})
	}
	return list, nil
}

type fakeSandbox struct{ *fakes }

func (f fakeSandbox) Pay(_ context.Context, ref string, pay payment.SandboxPay) error {
	if ref != "ref" {
		return &seatflow.Error{Code: seatflow.CodeNotFound}
	}
	if pay.Outcome != "succeed" && pay.Outcome != "decline" {
		return invalid("outcome", "must be succeed or decline")
	}
	f.pays = append(f.pays, pay)
	return f.change()
}

type fakeLive struct{ *fakes }

func (f fakeLive) Map(_ context.Context, id seatflow.ShowID) (*live.Map, error) {
	if id != 1 {
		return nil, seatflow.ErrNotFound
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shown, nil
}

func (f fakeLive) Subscribe(_ context.Context, id seatflow.ShowID, after string) (Stream, error) {
	if id != 1 {
		return nil, seatflow.ErrNotFound
	}
	s := &fakeStream{frames: make(chan live.Frame, 16), end: make(chan error, 1), closed: make(chan struct{})}
	f.after <- after
	f.subs <- s
	return s, nil
}

// Since knows two changes after 3.16.
func (f fakeLive) Since(_ context.Context, id seatflow.ShowID, after string) (live.Since, error) {
	if id != 1 {
		return live.Since{}, seatflow.ErrNotFound
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch after {
	case f.shown.Revision.String():
		return live.Since{Show: id, Revision: after}, nil
	case "3.16":
		return live.Since{Show: id, Revision: f.shown.Revision.String(), Changes: []seatflow.SeatChange{
			{Seat: 2, State: seatflow.Held, Delta: 1}, {Seat: 5, State: seatflow.Available, Delta: -1}}}, nil
	}
	return live.Since{Show: id, Revision: f.shown.Revision.String(), Map: f.shown}, nil
}

type fakeStream struct {
	frames chan live.Frame
	end    chan error
	once   sync.Once
	closed chan struct{}
}

func (s *fakeStream) Next(ctx context.Context) (live.Frame, error) {
	select {
	case f := <-s.frames:
		return f, nil
	case err := <-s.end:
		return live.Frame{}, err
	case <-ctx.Done():
		return live.Frame{}, ctx.Err()
	}
}

func (s *fakeStream) Close() { s.once.Do(func() { close(s.closed) }) }

var testSecret = []byte("0123456789abcdef0123456789abcdef")

// server is an API over fakes, with a token for each role.
type server struct {
	*fakes
	t      testing.TB
	api    *API
	tokens map[seatflow.Role]string
	logs   *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newServer(t testing.TB, edit ...func(*Options)) *server {
	t.Helper()
	tokens, err := auth.NewTokens(testSecret, stoppedClock{})
	if err != nil {
		t.Fatal(err)
	}
	f := newFakes()
	s := &server{fakes: f, t: t, tokens: map[seatflow.Role]string{}, logs: &lockedBuffer{}}
	for _, role := range []seatflow.Role{seatflow.RoleBuyer, seatflow.RoleKiosk, seatflow.RoleStaff, seatflow.RoleAdmin} {
		token, _, err := tokens.Mint(seatflow.UserID("the-"+role), role, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		s.tokens[role] = token
	}
	log, err := telemetry.NewLogger(s.logs, "debug", "text")
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Booking: f, Catalog: fakeCatalog{f}, Plans: fakePlans{f}, Payments: fakePayments{f}, Sandbox: fakeSandbox{f},
		Live: fakeLive{f}, Notices: &f.rooms, Tokens: tokens, Log: log, Metrics: telemetry.NewMetrics(), Guests: true, Clock: stoppedClock{}, Version: "v0-test",
		Verify: func(_ context.Context, show seatflow.ShowID, acked io.Reader) (any, error) {
			n, err := io.Copy(io.Discard, acked)
			return map[string]any{"show": show, "read": n}, err
		},
		Pages: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page ", r.URL.Path) })}
	for _, e := range edit {
		e(&opt)
	}
	s.api, err = build(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answer is what a request got.
type answer struct {
	*httptest.ResponseRecorder
	t    testing.TB
	name string
}

// do sends a request: "METHOD path", then headers as "Name: value"; a role
// stands for its token.
func (s *server) do(what, body string, headers ...string) *answer {
	s.t.Helper()
	method, path, _ := strings.Cut(what, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ": ")
		switch {
		case !ok:
			r.Header.Set("Authorization", "Bearer "+s.tokens[seatflow.Role(h)])
		case value == "-":
			r.Header.Del(name)
		default:
			if name == "Content-Type" {
				r.Header.Del(name)
			}
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	return &answer{w, s.t, what}
}

// is checks the status.
func (a *answer) is(status int) *answer {
	a.t.Helper()
	if a.Code != status {
		a.t.Errorf("%s: status %d, want %d: %s", a.name, a.Code, status, a.Body)
	}
	return a
}

// problem checks that the answer is a problem document of that code and
// reason, and returns it.
func (a *answer) problem(code seatflow.Code, reason seatflow.Reason) Problem {
	a.t.Helper()
	var p Problem
	if err := strictly(a.Body.Bytes(), &p); err != nil {
		a.t.Errorf("%s: status %d, not a problem document: %v: %s", a.name, a.Code, err, a.Body)
		return p
	}
	if got := a.Header().Get("Content-Type"); got != problemType {
		a.t.Errorf("%s: content type %q", a.name, got)
	}
	if p.Code != int(code) || p.Reason != string(reason) || p.Status != a.Code || p.Title == "" || p.Detail == "" ||
		p.TraceID != a.Header().Get("X-Trace-Id") || len(p.TraceID) != 32 {
		a.t.Errorf("%s: want %d %q, got status %d and %s", a.name, code, reason, a.Code, a.Body)
	}
	return p
}

// into decodes the answer, strictly.
func (a *answer) into(v any) {
	a.t.Helper()
	if err := strictly(a.Body.Bytes(), v); err != nil {
		a.t.Errorf("%s: %v: %s", a.name, err, a.Body)
	}
}

// strictly decodes with the standard library, so that what we write is read
// by another implementation than ours.
func strictly(body []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("trailing data")
	}
	return nil
}

// send sends a request that do cannot make.
func (s *server) send(r *http.Request) *answer {
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	return &answer{w, s.t, r.Method + " " + r.URL.Path}
}

// hangingBooking answers when the request's time is over.
type hangingBooking struct{ Booking }

func (hangingBooking) Create(ctx context.Context, _ booking.CreateRequest) (booking.Created, error) {
	<-ctx.Done()
	return booking.Created{}, fmt.Errorf("hold: %w", ctx.Err())
}
