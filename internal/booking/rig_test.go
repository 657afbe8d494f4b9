package booking_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/ledger"
	"seatflow/internal/memseats"
	"seatflow/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2031, 5, 4, 18, 0, 0, 0, time.UTC)

// rig is a booking service on the real stores, with a point for faults
// between, and one show of rows × 10 seats.
type rig struct {
	t      *testing.T
	clock  *testkit.FakeClock
	store  *memseats.Store
	seats  *testkit.FaultySeats
	facts  *ledger.Ledger
	ledger *testkit.FaultyLedger
	svc    *booking.Service
	house  *seatflow.House
	show   seatflow.ShowID
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

func newRig(t *testing.T, seats int, change ...func(*seatflow.Show)) *rig {
	t.Helper()
	ctx := t.Context()
	r := &rig{t: t, clock: testkit.NewFakeClock(start)}
	r.store = memseats.New(memseats.Options{Clock: r.clock})
	facts, err := ledger.OpenSQLite(ctx, filepath.Join(t.TempDir(), "facts.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.facts = facts
	t.Cleanup(func() {
		if err := facts.Close(); err != nil {
			t.Error(err)
		}
		r.store.Close()
	})
	r.seats, r.ledger = testkit.NewFaultySeats(r.store), testkit.NewFaultyLedger(facts)

	hall, err := facts.CreateHall(ctx, seatflow.Hall{Name: "Hall", Zone: "UTC", CreatedAt: start})
	if err != nil {
		t.Fatal(err)
	}
	plan := &seatflow.Plan{Hall: hall.ID, Version: 1, Name: "Plan", Width: 100, Height: 100,
		Categories: []seatflow.Category{{Name: "A", Color: "#336699"}, {Name: "Unpriced", Color: "#999999"}},
		Zones:      []seatflow.Zone{{Name: "Stalls"}}, Source: []byte("{}")}
	for i := range seats {
		plan.Seats = append(plan.Seats, seatflow.PlanSeat{ID: seatflow.SeatID(i + 1), GUID: fmt.Sprint("g", i+1),
			Row: fmt.Sprint(i/10 + 1), Number: fmt.Sprint(i%10 + 1), X: float64(i % 10), Y: float64(i / 10)})
	}
	plan.Seats = append(plan.Seats, seatflow.PlanSeat{ID: seatflow.SeatID(seats + 1), GUID: "unpriced", Category: 1, Row: "Z", Number: "1"})
	if err := facts.PublishPlan(ctx, plan); err != nil {
		t.Fatal(err)
	}
	show := seatflow.Show{Hall: hall.ID, PlanVersion: 1, Title: "Show", Starts: start.Add(24 * time.Hour), Ends: start.Add(26 * time.Hour),
		SaleFrom: start.Add(-time.Hour), SaleUntil: start.Add(24 * time.Hour), Currency: "EUR", Prices: map[string]int64{"A": 1500},
		LimitPerUser: 6, HoldFor: 15 * time.Minute, HoldCap: 30 * time.Minute, ExtendBy: 5 * time.Minute,
		Status: seatflow.ShowPublished, Partition: 7, CreatedAt: start}
	for _, f := range change {
		f(&show)
	}
	show, err = facts.CreateShow(ctx, show)
	if err != nil {
		t.Fatal(err)
	}
	r.house, r.show = seatflow.NewHouse(show, hall, plan), show.ID
	r.svc = r.service()
	return r
}

// service returns another node on the same stores.
func (r *rig) service() *booking.Service {
	return booking.New(booking.Options{Seats: r.seats, Ledger: r.ledger, Clock: r.clock,
		Houses: &houses{m: map[seatflow.ShowID]*seatflow.House{r.show: r.house}}})
}

func buyer(name string) seatflow.Actor {
	return seatflow.Actor{User: seatflow.UserID(name), Role: seatflow.RoleBuyer, Device: seatflow.DeviceWeb}
}

var staff = seatflow.Actor{User: "staff", Role: seatflow.RoleStaff, Device: seatflow.DeviceWeb}

// fingerprint stands for the transport's digest of a request.
func fingerprint(seats []seatflow.SeatID) (fp seatflow.Fingerprint) {
	copy(fp[:], fmt.Sprint(seats))
	return fp
}

func (r *rig) request(user, key string, seats ...seatflow.SeatID) booking.CreateRequest {
	return booking.CreateRequest{Actor: buyer(user), Show: r.show, Seats: seats, Key: key, Fingerprint: fingerprint(seats)}
}

func (r *rig) create(user, key string, seats ...seatflow.SeatID) (booking.Created, error) {
	return r.svc.Create(r.t.Context(), r.request(user, key, seats...))
}

func (r *rig) mustCreate(user, key string, seats ...seatflow.SeatID) seatflow.Order {
	r.t.Helper()
	c, err := r.create(user, key, seats...)
	if err != nil {
		r.t.Fatal(err)
	}
	return c.Order
}

func (r *rig) snapshot() *seatflow.Snapshot {
	r.t.Helper()
	snap, err := r.store.Snapshot(r.t.Context(), r.house.Show.Ref(), seatflow.DetailOrders|seatflow.DetailUsers)
	if err != nil {
		r.t.Fatal(err)
	}
	return snap
}

// state returns a seat's state in the view.
func (r *rig) state(seat seatflow.SeatID) seatflow.SeatState {
	r.t.Helper()
	return r.snapshot().States[seat-1]
}

// agree fails the test unless the view is exactly what the facts call for.
func (r *rig) agree() {
	r.t.Helper()
	if d := r.drift(); d != "" {
		r.t.Error(d)
	}
}

// drift returns the first difference between view and facts, or "".
func (r *rig) drift() string {
	r.t.Helper()
	facts, err := r.facts.Facts(context.WithoutCancel(r.t.Context()), r.show)
	if err != nil {
		r.t.Fatal(err)
	}
	fresh := memseats.New(memseats.Options{Clock: r.clock})
	defer fresh.Close()
	if err := fresh.Rebuild(context.WithoutCancel(r.t.Context()), booking.ViewOf(r.house, facts)); err != nil {
		r.t.Fatal(err)
	}
	want, err := fresh.Snapshot(r.t.Context(), r.house.Show.Ref(), seatflow.DetailOrders|seatflow.DetailUsers)
	if err != nil {
		r.t.Fatal(err)
	}
	got := r.snapshot()
	if got.Revision.Generation != facts.Generation {
		return fmt.Sprintf("view has generation %d, facts %d", got.Revision.Generation, facts.Generation)
	}
	for i := range want.States {
		id := seatflow.SeatID(i + 1)
		if got.States[i] != want.States[i] || got.Owners[id] != want.Owners[id] {
			return fmt.Sprintf("seat %d: view %v of %v, facts %v of %v", id, got.States[i], got.Owners[id], want.States[i], want.Owners[id])
		}
	}
	for user, n := range want.Users {
		if got.Users[user] != n {
			return fmt.Sprintf("user %s: view counts %d seats, facts %d", user, got.Users[user], n)
		}
	}
	for user, n := range got.Users {
		if n != 0 && want.Users[user] == 0 {
			return fmt.Sprintf("user %s: view counts %d seats, facts none", user, n)
		}
	}
	return ""
}

// due claims what is due now and settles it, as the guardian does.
func (r *rig) settleDue() int {
	r.t.Helper()
	due, err := r.store.ClaimDue(r.t.Context(), r.house.Show.Partition, 1000, 10*time.Second)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range due {
		if err := r.svc.Settle(r.t.Context(), d); err != nil {
			r.t.Fatal(err)
		}
	}
	return len(due)
}

// wantCode fails the test unless err is shown as that code.
func wantCode(t *testing.T, err error, code seatflow.Code) *seatflow.Error {
	t.Helper()
	var e *seatflow.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got error %v, want code %d", err, code)
	}
	return e
}

// tally counts what concurrent callers got.
type tally struct {
	mu     sync.Mutex
	orders []seatflow.Order
	codes  map[seatflow.Code]int
	other  []error
}

func (c *tally) add(got booking.Created, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var e *seatflow.Error
	switch {
	case err == nil:
		c.orders = append(c.orders, got.Order)
	case errors.As(err, &e):
		if c.codes == nil {
			c.codes = map[seatflow.Code]int{}
		}
		c.codes[e.Code]++
	default:
		c.other = append(c.other, err)
	}
}

// want fails unless exactly these many got an order and a conflict, and
// nobody anything else.
func (c *tally) want(t *testing.T, orders, conflicts int) {
	t.Helper()
	if len(c.orders) != orders || c.codes[seatflow.CodeSeatsTaken] != conflicts || len(c.codes) > 1 || len(c.other) > 0 {
		t.Fatalf("%d orders, %d conflicts, codes %v, other errors %v; want exactly %d orders and %d conflicts",
			len(c.orders), c.codes[seatflow.CodeSeatsTaken], c.codes, c.other, orders, conflicts)
	}
}

// distinct fails unless no seat stands in two orders, and returns how many
// seats there are.
func distinct(t *testing.T, orders []seatflow.Order) int {
	t.Helper()
	owner := map[seatflow.SeatID]seatflow.OrderNo{}
	for _, o := range orders {
		for _, s := range o.Seats() {
			if other, twice := owner[s]; twice {
				t.Fatalf("seat %d is in orders %s and %s", s, other, o.No)
			}
			owner[s] = o.No
		}
	}
	return len(owner)
}

// at runs n callers at once.
func at(n int, call func(i int)) {
	var ready, done sync.WaitGroup
	gate := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-gate
			call(i)
		})
	}
	ready.Wait()
	close(gate)
	done.Wait()
}

func sorted(ids []seatflow.SeatID) []seatflow.SeatID {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}
