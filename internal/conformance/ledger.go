package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"seatflow"
)

// LedgerFactory makes an empty ledger. It cleans up after itself by
// t.Cleanup.
type LedgerFactory func(t TB) seatflow.Ledger

// Ledger checks that a backend is a seatflow.Ledger, by every sentence of the
// contract. Each case ends with the ledger's own audit, which must find
// nothing.
func Ledger(t *testing.T, factory LedgerFactory) {
	for _, c := range ledgerCases() {
		t.Run(c.name, func(t *testing.T) { c.check(t, factory) })
	}
}

// ledgerCase is one part of the contract.
type ledgerCase struct {
	name string
	run  func(t *ledgerTest)
}

func (c ledgerCase) check(t TB, factory LedgerFactory) {
	lt := &ledgerTest{TB: t, l: factory(t)}
	c.run(lt)
	if !t.Failed() && lt.l != nil {
		lt.audit()
	}
}

func ledgerCases() []ledgerCase {
	return slices.Concat(ledgerCatalogCases, ledgerInsertCases, ledgerChangeCases, ledgerGiveBackCases, ledgerMoneyCases,
		ledgerFactsCases, ledgerRepairCases, ledgerRaceCases)
}

// ledgerTest is a running case.
type ledgerTest struct {
	TB
	l    seatflow.Ledger // nil: closed
	keys int             // idempotency keys given by pending: key-1 is the first
	nos  int             // order numbers given
	mu   sync.Mutex
}

// Instants and people of the cases. Times have a nanosecond part, so that a
// ledger which keeps less must be consistent about it.
var (
	noon  = time.Date(2026, 5, 1, 12, 0, 0, 123_456_789, time.UTC)
	buyer = seatflow.Actor{User: "buyer-1", Role: seatflow.RoleBuyer, TraceID: "0af7651916cd43dd8448eb211c80319c",
		SpanID: "b7ad6b7169203331", Device: seatflow.DeviceMobile}
	staff = seatflow.Actor{User: "staff-1", Role: seatflow.RoleStaff, Device: seatflow.DeviceWeb}
)

const seatPrice = 4500

// audit asks the ledger about itself and holds its lists empty.
func (t *ledgerTest) audit() seatflow.LedgerAudit {
	t.Helper()
	a, err := t.l.Audit(t.Context())
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	for name, list := range map[string][]string{"double seats": a.DoubleSeats, "orphan seats": a.OrphanSeats, "missing seats": a.MissingSeats,
		"missing indexes": a.MissingIndexes, "bad endings": a.BadEndings, "paid without cash": a.PaidWithoutCash, "integrity": a.IntegrityFaults} {
		if len(list) > 0 {
			t.Errorf("audit: %s: %v", name, list)
		}
	}
	if a.ActiveSeats != a.DistinctSeats {
		t.Errorf("audit: %d rows of occupancy for %d seats", a.ActiveSeats, a.DistinctSeats)
	}
	if a.EndingPaid+a.EndingRefund+a.EndingUnknown != a.Captures {
		t.Errorf("audit: %d captures, endings %d + %d + %d", a.Captures, a.EndingPaid, a.EndingRefund, a.EndingUnknown)
	}
	return a
}

// newNo returns an order number, later than the ones before.
func (t *ledgerTest) newNo() seatflow.OrderNo {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nos++
	return seatflow.OrderNo(fmt.Sprintf("%026d", t.nos))
}

func (t *ledgerTest) plan(hall seatflow.HallID, version seatflow.PlanVersion, first, last seatflow.SeatID) *seatflow.Plan {
	p := &seatflow.Plan{Hall: hall, Version: version, Name: "Main plan", Width: 120.5, Height: 80,
		Categories: []seatflow.Category{{Name: "Stalls", Color: "#aa3300"}, {Name: "Balcony", Color: "#0033aa"}},
		Zones: []seatflow.Zone{{Name: "Ground"}, {Name: "Upper", Areas: []seatflow.Area{{Shape: "polygon", X: 1, Y: 2, Rotation: 45,
			Color: "#ffffff", BorderColor: "#000000", Points: [][2]float64{{0, 0}, {1, 0}, {1, 1.5}}, Text: "Bühne", TextX: 1, TextY: 2,
			TextSize: 12, TextColor: "#111111"}}}},
		Source: []byte(`{"name":"Main plan"}`)}
	for id := first; id <= last; id++ {
		p.Seats = append(p.Seats, seatflow.PlanSeat{ID: id, GUID: fmt.Sprintf("guid-%d", id), Zone: int(id) % 2, Category: int(id) % 2,
			Row: fmt.Sprint((id-1)/10 + 1), Number: fmt.Sprint((id-1)%10 + 1), X: float64(id) * 1.5, Y: 3, Radius: float64(id%3) * 0.5})
	}
	return p
}

// show makes a hall of n seats and a show in it.
func (t *ledgerTest) show(n int) seatflow.Show {
	t.Helper()
	hall, err := t.l.CreateHall(t.Context(), seatflow.Hall{Name: "Hall", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatalf("hall: %v", err)
	}
	if err := t.l.PublishPlan(t.Context(), t.plan(hall.ID, 1, 1, seatflow.SeatID(n))); err != nil {
		t.Fatalf("plan: %v", err)
	}
	show, err := t.l.CreateShow(t.Context(), newShow(hall.ID))
	if err != nil {
		t.Fatalf("show: %v", err)
	}
	return show
}

func newShow(hall seatflow.HallID) seatflow.Show {
	return seatflow.Show{Hall: hall, PlanVersion: 1, Title: "Première", Starts: noon.Add(48 * time.Hour), Ends: noon.Add(50 * time.Hour),
		SaleFrom: noon, SaleUntil: noon.Add(48 * time.Hour), Currency: "EUR", Prices: map[string]int64{"Stalls": seatPrice, "Balcony": 3000},
		LimitPerUser: 6, HoldFor: 15 * time.Minute, HoldCap: 30 * time.Minute, ExtendBy: 5 * time.Minute, Status: seatflow.ShowPublished,
		Partition: 7}
}

// sale makes an order of seats; key "" for none.
func (t *ledgerTest) sale(show seatflow.Show, user seatflow.UserID, key string, ids ...seatflow.SeatID) seatflow.NewOrder {
	o := seatflow.Order{No: t.newNo(), Show: show.ID, User: user, Kind: seatflow.KindSale, Key: key, Fingerprint: seatflow.Fingerprint{1, 2, 3},
		TakenAt: noon, Deadline: noon.Add(15 * time.Minute), Cap: noon.Add(30 * time.Minute), Device: seatflow.DeviceMobile,
		Total: seatflow.Money{Amount: int64(len(ids)) * seatPrice, Currency: "EUR"}}
	for _, id := range ids {
		o.Items = append(o.Items, seatflow.OrderItem{Seat: id, Price: seatPrice})
	}
	actor := buyer
	actor.User = user
	return seatflow.NewOrder{Order: o, Generation: show.Generation, Actor: actor}
}

func (t *ledgerTest) block(show seatflow.Show, reason string, ids ...seatflow.SeatID) seatflow.NewOrder {
	n := t.sale(show, staff.User, "", ids...)
	n.Actor = staff
	n.Order.Kind, n.Order.Reason, n.Order.Deadline, n.Order.Cap, n.Order.Total.Amount = seatflow.KindBlock, reason, time.Time{}, time.Time{}, 0
	for i := range n.Order.Items {
		n.Order.Items[i].Price = 0
	}
	return n
}

func (t *ledgerTest) insert(n seatflow.NewOrder) seatflow.Order {
	t.Helper()
	o, err := t.l.InsertOrder(t.Context(), n)
	if err != nil {
		t.Fatalf("insert %s: %v", n.Order.No, err)
	}
	return o
}

// pending makes an order of seats 1 to n of a show of its own.
func (t *ledgerTest) pending(n int) (seatflow.Show, seatflow.Order) {
	t.Helper()
	show := t.show(20)
	t.keys++
	return show, t.insert(t.sale(show, buyer.User, fmt.Sprint("key-", t.keys), span(1, seatflow.SeatID(n))...))
}

func by(o seatflow.Order, actor seatflow.Actor) seatflow.OrderChange {
	return seatflow.OrderChange{No: o.No, User: o.User, Actor: actor}
}

func (t *ledgerTest) order(no seatflow.OrderNo) seatflow.Order {
	t.Helper()
	o, err := t.l.Order(t.Context(), no, "")
	if err != nil {
		t.Fatalf("order %s: %v", no, err)
	}
	return o
}

// sameOrder compares an answer with what stands, member by member.
func (t *ledgerTest) same(what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func (t *ledgerTest) wantErr(what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// unchanged runs a refused change and checks that it left an order, its
// history and the outbox as they were.
func (t *ledgerTest) unchanged(what string, no seatflow.OrderNo, want error, change func() error) {
	t.Helper()
	before := t.state(no)
	t.wantErr(what, change(), want)
	t.same(what+": what stands", t.state(no), before)
}

func (t *ledgerTest) state(no seatflow.OrderNo) string {
	t.Helper()
	out, err := t.l.Outbox(t.Context(), 1000)
	if err != nil {
		t.Fatalf("outbox: %v", err)
	}
	payments, err := t.l.PaymentsOf(t.Context(), no)
	if err != nil {
		t.Fatalf("payments: %v", err)
	}
	return fmt.Sprintf("%+v %+v %+v %d", t.order(no), t.history(no), payments, len(out))
}

func (t *ledgerTest) history(no seatflow.OrderNo) []seatflow.OrderEvent {
	t.Helper()
	h, err := t.l.History(t.Context(), no)
	if err != nil {
		t.Fatalf("history of %s: %v", no, err)
	}
	return h
}

// told checks an order's history, given as "type:from>to" in order, that its
// versions have no gaps and end at the order's, and that each stands in the
// outbox.
func (t *ledgerTest) told(no seatflow.OrderNo, want ...string) []seatflow.OrderEvent {
	t.Helper()
	h := t.history(no)
	var got []string
	for i, e := range h {
		got = append(got, fmt.Sprintf("%s:%s>%s", e.Type, e.From, e.To))
		if e.Version != int64(i+1) || e.Order != no || e.At.IsZero() || e.At.Location() != time.UTC {
			t.Errorf("event %d of %s: %+v", i, no, e)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("history of %s:\n got %q\nwant %q", no, got, want)
	}
	if o := t.order(no); o.Version != int64(len(want)) {
		t.Errorf("order %s has version %d after %d events", no, o.Version, len(want))
	}
	out, err := t.l.Outbox(t.Context(), 1000)
	if err != nil {
		t.Fatalf("outbox: %v", err)
	}
	var published []seatflow.OrderEvent
	for _, e := range out {
		if e.Event.Order == no {
			published = append(published, e.Event)
		}
	}
	t.same("outbox of "+string(no), published, h)
	return h
}

// occupancy returns who has which seat, by the facts.
func (t *ledgerTest) occupancy(show seatflow.ShowID) map[seatflow.SeatID]seatflow.Owner {
	t.Helper()
	f, err := t.l.Facts(t.Context(), show)
	if err != nil {
		t.Fatalf("facts: %v", err)
	}
	m := map[seatflow.SeatID]seatflow.Owner{}
	for i := range f.Orders {
		for _, s := range f.Orders[i].Seats() {
			if other, ok := m[s]; ok {
				t.Errorf("seat %d of show %d: %s and %s", s, show, other, f.Orders[i].Owner())
			}
			m[s] = f.Orders[i].Owner()
		}
	}
	return m
}

// parallel runs n calls at once and returns their errors.
func parallel(n int, call func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { <-start; errs[i] = call(i) })
	}
	close(start)
	all.Wait()
	return errs
}
