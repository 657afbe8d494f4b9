package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/guardian"
	"seatflow/internal/ledger"
	"seatflow/internal/memseats"
	"seatflow/internal/reconcile"
	"seatflow/internal/telemetry"
	"seatflow/internal/testkit"
	"seatflow/internal/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2031, 5, 4, 18, 0, 0, 0, time.UTC)

const grace = time.Minute

// rig is a house on the real stores, with points for faults between, a fake
// clock for all of them, and one show to begin with.
type rig struct {
	t       testing.TB
	clock   *testkit.FakeClock
	store   store
	seats   *testkit.FaultySeats
	facts   *ledger.Ledger
	ledger  *testkit.FaultyLedger
	houses  *houses
	svc     *booking.Service
	metrics *telemetry.Metrics
	log     *logs
	rec     *reconcile.Reconciler
	hall    seatflow.Hall
	plan    *seatflow.Plan
	show    seatflow.ShowID
}

type houses struct {
	mu sync.Mutex
	m  map[seatflow.ShowID]*seatflow.House
}

func (h *houses) House(_ context.Context, id seatflow.ShowID) (*seatflow.House, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if house := h.m[id]; house != nil {
		return house, nil
	}
	return nil, seatflow.ErrNotFound
}

func (h *houses) put(house *seatflow.House) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.m[house.Show.ID] = house
}

// logs keeps what is logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newRig(t testing.TB, seats int, change ...func(*seatflow.Show)) *rig {
	t.Helper()
	r := &rig{t: t, clock: testkit.NewFakeClock(start), houses: &houses{m: map[seatflow.ShowID]*seatflow.House{}},
		metrics: telemetry.NewMetrics(), log: &logs{}}
	facts := r.open()
	r.seats, r.ledger = testkit.NewFaultySeats(r.store), testkit.NewFaultyLedger(facts)
	var err error
	if r.hall, err = facts.CreateHall(t.Context(), seatflow.Hall{Name: "Hall", Zone: "UTC", CreatedAt: start}); err != nil {
		t.Fatal(err)
	}
	r.plan = &seatflow.Plan{Hall: r.hall.ID, Version: 1, Name: "Plan", Width: 100, Height: 100,
		Categories: []seatflow.Category{{Name: "A", Color: "#336699"}, {Name: "Unpriced", Color: "#999999"}},
		Zones:      []seatflow.Zone{{Name: "Stalls"}}, Source: []byte("{}")}
	for i := range seats {
		r.plan.Seats = append(r.plan.Seats, seatflow.PlanSeat{ID: seatflow.SeatID(i + 1), GUID: fmt.Sprint("g", i+1),
			Row: fmt.Sprint(i/10 + 1), Number: fmt.Sprint(i%10 + 1), X: float64(i % 10), Y: float64(i / 10)})
	}
	r.plan.Seats = append(r.plan.Seats, seatflow.PlanSeat{ID: seatflow.SeatID(seats + 1), GUID: "unpriced", Category: 1, Row: "Z", Number: "1"})
	if err := facts.PublishPlan(t.Context(), r.plan); err != nil {
		t.Fatal(err)
	}
	r.show = r.addShow(change...)
	r.svc = r.service()
	if err := r.svc.EnsureView(t.Context(), r.show); err != nil {
		t.Fatal(err)
	}
	r.rec = r.reconciler()
	return r
}

// store is a seat store that can be written to behind its back.
type store interface {
	seatflow.SeatStore
	ForceSeat(ref seatflow.ShowRef, id seatflow.SeatID, state seatflow.SeatState, owner seatflow.Owner) bool
	DropView(ref seatflow.ShowRef)
}

// open opens the stores: those of one process, or servers for the tests that
// TestOnServers runs again.
func (r *rig) open() *ledger.Ledger {
	t := r.t
	t.Helper()
	var err error
	if serversFor(t) {
		r.facts, err = ledger.OpenMySQL(t.Context(), testkit.SharedMariaDB(t).NewDatabase(t), ledger.Options{Clock: r.clock})
	} else {
		r.facts, err = ledger.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "facts.db"), ledger.Options{Clock: r.clock})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.facts.Close(); err != nil {
			t.Error(err)
		}
	})
	if serversFor(t) {
		r.store = openRedis(r)
		return r.facts
	}
	s := memseats.New(memseats.Options{Clock: r.clock, ChangesKept: 64})
	t.Cleanup(s.Close)
	r.store = s
	return r.facts
}

func (r *rig) addShow(change ...func(*seatflow.Show)) seatflow.ShowID {
	r.t.Helper()
	show := seatflow.Show{Hall: r.hall.ID, PlanVersion: 1, Title: "Show", Starts: start.Add(24 * time.Hour), Ends: start.Add(26 * time.Hour),
		SaleFrom: start.Add(-time.Hour), SaleUntil: start.Add(24 * time.Hour), Currency: "EUR", Prices: map[string]int64{"A": 1500},
		LimitPerUser: 0, HoldFor: 15 * time.Minute, HoldCap: 30 * time.Minute, ExtendBy: 5 * time.Minute,
		Status: seatflow.ShowPublished, Partition: 7, CreatedAt: start}
	for _, f := range change {
		f(&show)
	}
	show, err := r.facts.CreateShow(r.t.Context(), show)
	if err != nil {
		r.t.Fatal(err)
	}
	r.houses.put(seatflow.NewHouse(show, r.hall, r.plan))
	return show.ID
}

// service returns another node on the same stores.
func (r *rig) service() *booking.Service {
	return booking.New(booking.Options{Seats: r.seats, Ledger: r.ledger, Clock: r.clock, Houses: r.houses, Metrics: r.metrics})
}

// reconciler returns another one, of another node.
func (r *rig) reconciler(change ...func(*reconcile.Options)) *reconcile.Reconciler {
	o := reconcile.Options{Seats: r.seats, Ledger: r.ledger, Booking: r.svc, Houses: r.houses, Clock: r.clock, Grace: grace,
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Metrics: r.metrics}
	for _, f := range change {
		f(&o)
	}
	rec := reconcile.New(o)
	rec.SetPause(time.Microsecond)
	return rec
}

func (r *rig) ref() seatflow.ShowRef { return r.refOf(r.show) }

func (r *rig) refOf(id seatflow.ShowID) seatflow.ShowRef {
	r.t.Helper()
	house, err := r.houses.House(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return house.Show.Ref()
}

func buyer(name string) seatflow.Actor {
	return seatflow.Actor{User: seatflow.UserID(name), Role: seatflow.RoleBuyer, Device: seatflow.DeviceWeb}
}

var staff = seatflow.Actor{User: "staff", Role: seatflow.RoleStaff, Device: seatflow.DeviceWeb}

func (r *rig) hold(user string, seats ...seatflow.SeatID) seatflow.Order {
	r.t.Helper()
	return r.holdIn(r.show, user, seats...)
}

func (r *rig) holdIn(show seatflow.ShowID, user string, seats ...seatflow.SeatID) seatflow.Order {
	r.t.Helper()
	c, err := r.svc.Create(r.t.Context(), booking.CreateRequest{Actor: buyer(user), Show: show, Seats: seats})
	if err != nil {
		r.t.Fatal(err)
	}
	return c.Order
}

// capture is the callback of a payment of an order's total.
func capture(o *seatflow.Order) seatflow.PaymentEvent {
	return seatflow.PaymentEvent{Provider: "test", EventID: "e-" + string(o.No), CaptureID: "c-" + string(o.No),
		Type: seatflow.PaymentCaptured, Order: o.No, Amount: o.Total, At: start}
}

func (r *rig) pay(o seatflow.Order) seatflow.Order {
	r.t.Helper()
	out, err := r.svc.ApplyPayment(r.t.Context(), capture(&o))
	if err != nil || out.Ending != seatflow.EndingPaid {
		r.t.Fatalf("%+v, %v", out, err)
	}
	return out.Order
}

func (r *rig) buy(user string, seats ...seatflow.SeatID) seatflow.Order {
	r.t.Helper()
	return r.pay(r.hold(user, seats...))
}

// sellOut has a buyer take many seats, so that one of them is less than a
// hundredth.
func (r *rig) sellOut(from, to seatflow.SeatID) {
	r.t.Helper()
	for id := from; id <= to; id += seatflow.MaxSeatsPerOrder {
		var seats []seatflow.SeatID
		for s := id; s <= min(to, id+seatflow.MaxSeatsPerOrder-1); s++ {
			seats = append(seats, s)
		}
		r.buy("crowd", seats...)
	}
}

func (r *rig) force(seat seatflow.SeatID, state seatflow.SeatState, owner seatflow.Owner) {
	r.t.Helper()
	if !r.store.ForceSeat(r.ref(), seat, state, owner) {
		r.t.Fatalf("there is no seat %d", seat)
	}
}

func stranger(n int) seatflow.Owner {
	return seatflow.Owner{Order: seatflow.OrderNo(fmt.Sprintf("01ARZ3NDEKTSV4RRFF%08d", n)), Attempt: 1}
}

// round makes a round over everything and fails on an error.
func (r *rig) round(options ...reconcile.RoundOptions) reconcile.Report {
	r.t.Helper()
	o := reconcile.RoundOptions{}
	if len(options) > 0 {
		o = options[0]
	}
	rep, err := r.rec.Round(r.t.Context(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	return rep
}

// want holds what a round did against exact counts; what is not named is 0.
func want(t testing.TB, rep reconcile.Report, fixed map[seatflow.Drift]int) {
	t.Helper()
	for _, c := range rep.Checks {
		if c.Fixed != fixed[c.Check] || c.Left != 0 {
			t.Errorf("%s: %d fixed and %d left, want %d and 0", c.Check, c.Fixed, c.Left, fixed[c.Check])
		}
	}
	if len(rep.Alarms) > 0 || len(rep.Skipped) > 0 {
		t.Errorf("alarms %v, skipped %v", rep.Alarms, rep.Skipped)
	}
}

// settled checks that the view equals the facts and a round finds nothing.
func (r *rig) settled() {
	r.t.Helper()
	r.agree(r.show)
	rep := r.round()
	if !rep.Clean() || rep.Young() > 0 {
		r.t.Errorf("the round after found something: %+v", rep)
	}
}

func (r *rig) agree(show seatflow.ShowID) {
	r.t.Helper()
	rep := verify.View(r.t.Context(), r.facts, r.store, show, verify.WithLooks(1, 0))
	if !rep.OK() {
		r.t.Errorf("show %d: %v", show, rep.Checks[0].Violations)
	}
}

// drifts reports whether the view differs from the facts.
func (r *rig) drifts() bool {
	r.t.Helper()
	return !verify.View(r.t.Context(), r.facts, r.store, r.show, verify.WithLooks(1, 0)).OK()
}

func (r *rig) state(seat seatflow.SeatID) (seatflow.SeatState, seatflow.Owner) {
	r.t.Helper()
	snap, err := r.store.Snapshot(r.t.Context(), r.ref(), seatflow.DetailOrders)
	if err != nil {
		r.t.Fatal(err)
	}
	return snap.States[seat-1], snap.Owners[seat]
}

func (r *rig) order(no seatflow.OrderNo) seatflow.Order {
	r.t.Helper()
	o, err := r.facts.Order(r.t.Context(), no, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// later moves the clock past the grace time.
func (r *rig) later() { r.clock.Advance(grace) }

// ledgerText is every order with its history, to compare facts before and
// after.
func (r *rig) ledgerText() string {
	r.t.Helper()
	var b strings.Builder
	shows, err := r.facts.Shows(r.t.Context(), 0, time.Time{}, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range shows {
		f, err := r.facts.Facts(r.t.Context(), s.ID)
		if err != nil {
			r.t.Fatal(err)
		}
		f.Show.Generation, f.Generation = 0, 0
		fmt.Fprintf(&b, "%+v\n", f.Show)
		for i := range f.Orders {
			events, err := r.facts.History(r.t.Context(), f.Orders[i].No)
			if err != nil {
				r.t.Fatal(err)
			}
			fmt.Fprintf(&b, "%+v\n%+v\n", f.Orders[i], events)
		}
	}
	a, err := r.facts.Audit(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	fmt.Fprintf(&b, "%+v\n", a)
	return b.String()
}

// metric reads a counter with a check's label.
func (r *rig) metric(name string, label, value string) string {
	w := httptest.NewRecorder()
	r.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	prefix := name + " "
	if label != "" {
		prefix = fmt.Sprintf("%s{%s=%q} ", name, label, value)
	}
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		if n, ok := strings.CutPrefix(line, prefix); ok {
			return n
		}
	}
	return ""
}

// guard runs a guardian once.
func (r *rig) guard() {
	r.t.Helper()
	if _, err := guardian.New(guardian.Options{Seats: r.seats, Booking: r.svc}).RunOnce(r.t.Context()); err != nil && !errors.Is(err, seatflow.ErrNotReady) {
		r.t.Fatal(err)
	}
}

func seatsOf(from, to seatflow.SeatID) []seatflow.SeatID {
	var ids []seatflow.SeatID
	for id := from; id <= to; id++ {
		ids = append(ids, id)
	}
	return ids
}

func sameSeats(a, b []seatflow.SeatID) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
