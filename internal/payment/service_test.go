package payment_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/ledger"
	"seatflow/internal/memseats"
	"seatflow/internal/payment"
	"seatflow/internal/testkit"
)

// provider is a provider whose refunds fail as often as told. It stands for
// the faults of a real one; the sandbox stands for the thing.
type provider struct {
	*payment.Sandbox
	failing int
	made    map[string]int // refunds by id
}

func (p *provider) Refund(_ context.Context, r seatflow.Refund) error {
	if p.failing > 0 {
		p.failing--
		return errors.New("provider is down")
	}
	p.made[r.ID]++
	return nil
}

type oneHouse struct{ house *seatflow.House }

func (h oneHouse) House(_ context.Context, id seatflow.ShowID) (*seatflow.House, error) {
	if id != h.house.Show.ID {
		return nil, seatflow.ErrNotFound
	}
	return h.house, nil
}

type till struct {
	*payment.Service
	booking  *booking.Service
	provider *provider
	facts    *ledger.Ledger
	show     seatflow.ShowID
}

func newTill(t *testing.T) *till {
	t.Helper()
	ctx := t.Context()
	clock := testkit.NewFakeClock(start)
	facts, err := ledger.OpenSQLite(ctx, filepath.Join(t.TempDir(), "facts.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := memseats.New(memseats.Options{Clock: clock})
	t.Cleanup(func() { facts.Close(); store.Close() })
	hall, err := facts.CreateHall(ctx, seatflow.Hall{Name: "Hall", Zone: "UTC", CreatedAt: start})
	if err != nil {
		t.Fatal(err)
	}
	plan := &seatflow.Plan{Hall: hall.ID, Version: 1, Name: "Plan", Categories: []seatflow.Category{{Name: "A", Color: "#336699"}},
		Zones: []seatflow.Zone{{Name: "Stalls"}}, Source: []byte("{}")}
	for i := range 10 {
		plan.Seats = append(plan.Seats, seatflow.PlanSeat{ID: seatflow.SeatID(i + 1), GUID: fmt.Sprint(i), Row: "1", Number: fmt.Sprint(i + 1)})
	}
	if err := facts.PublishPlan(ctx, plan); err != nil {
		t.Fatal(err)
	}
	show, err := facts.CreateShow(ctx, seatflow.Show{Hall: hall.ID, PlanVersion: 1, Title: "Show", Starts: start.Add(time.Hour), Ends: start.Add(2 * time.Hour),
		SaleFrom: start, SaleUntil: start.Add(time.Hour), Currency: "EUR", Prices: map[string]int64{"A": 1500}, HoldFor: time.Minute,
		HoldCap: 10 * time.Minute, ExtendBy: time.Minute, Status: seatflow.ShowPublished, CreatedAt: start})
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{Sandbox: newSandbox(t, clock), made: map[string]int{}}
	b := booking.New(booking.Options{Seats: store, Ledger: facts, Houses: oneHouse{seatflow.NewHouse(show, hall, plan)}, Clock: clock})
	return &till{Service: payment.New(payment.Options{Booking: b, Ledger: facts, Providers: []seatflow.PaymentProvider{p}}),
		booking: b, provider: p, facts: facts, show: show.ID}
}

var ann = seatflow.Actor{User: "ann", Role: seatflow.RoleBuyer, Device: seatflow.DeviceWeb}

func (c *till) order(t *testing.T, seat seatflow.SeatID) seatflow.Order {
	t.Helper()
	made, err := c.booking.Create(t.Context(), booking.CreateRequest{Actor: ann, Show: c.show, Seats: []seatflow.SeatID{seat}})
	if err != nil {
		t.Fatal(err)
	}
	return made.Order
}

// callback delivers a signed event as the provider would.
func (c *till) callback(t *testing.T, id string, o seatflow.OrderNo, amount int64) seatflow.PaymentOutcome {
	t.Helper()
	body := []byte(fmt.Sprintf(`{"id":"evt_%s","type":"payment.captured","capture":"cap_%s","order":%q,"amount":%d,"currency":"EUR","created":"2031-05-04T18:00:00Z"}`, id, id, o, amount))
	out, err := c.Callback(t.Context(), payment.SandboxName, func(string) string { return c.provider.Sign(body) }, body)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestStartExtendsOnceAndKnowsItsProviders(t *testing.T) {
	c := newTill(t)
	o := c.order(t, 1)
	for range 2 {
		checkout, got, err := c.Start(t.Context(), ann, o.No, "")
		if err != nil || checkout.Provider != payment.SandboxName || !got.Deadline.Equal(o.Deadline.Add(time.Minute)) {
			t.Fatalf("%+v, deadline %v, %v", checkout, got.Deadline, err)
		}
	}
	_, _, err := c.Start(t.Context(), ann, o.No, "bank-of-nowhere")
	var e *seatflow.Error
	if !errors.As(err, &e) || e.Reason != seatflow.ReasonNoProvider {
		t.Errorf("%v", err)
	}
	_, err = c.Callback(t.Context(), "", func(string) string { return "" }, nil)
	if seatflow.CodeOf(err) != seatflow.CodeInvalid {
		t.Errorf("a callback of nobody: %v", err)
	}
	_, err = c.Callback(t.Context(), payment.SandboxName, func(string) string { return "" }, []byte("{}"))
	if seatflow.CodeOf(err) != seatflow.CodeUnauthorized {
		t.Errorf("an unsigned callback: %v", err)
	}
	body := []byte("{")
	_, err = c.Callback(t.Context(), payment.SandboxName, func(string) string { return c.provider.Sign(body) }, body)
	if seatflow.CodeOf(err) != seatflow.CodeInvalid {
		t.Errorf("a signed callback that says nothing: %v", err)
	}
}

// A refund is asked for until the provider has made it, and then no more.
func TestRefundsAreMadeOnceThoughTheProviderFails(t *testing.T) {
	c := newTill(t)
	o := c.order(t, 1)
	if out := c.callback(t, "1", o.No, 1500); out.Ending != seatflow.EndingPaid {
		t.Fatalf("%+v", out)
	}
	out := c.callback(t, "2", o.No, 1500)
	if out.Ending != seatflow.EndingRefund {
		t.Fatalf("%+v", out)
	}
	c.provider.failing = 2
	for range 2 {
		if n, err := c.RefundOnce(t.Context()); n != 0 || err == nil {
			t.Fatalf("made %d, %v", n, err)
		}
	}
	if n, err := c.RefundOnce(t.Context()); n != 1 || err != nil {
		t.Fatalf("made %d, %v", n, err)
	}
	if n, err := c.RefundOnce(t.Context()); n != 0 || err != nil {
		t.Fatalf("made %d again, %v", n, err)
	}
	if c.provider.made[out.Refund.ID] != 1 || len(c.provider.made) != 1 {
		t.Errorf("refunds made: %v", c.provider.made)
	}
}

// One refund that cannot be made does not hold up the others.
func TestOneRefundFailsTheOthersGoOn(t *testing.T) {
	c := newTill(t)
	for i := range 3 {
		o := c.order(t, seatflow.SeatID(i+1))
		c.callback(t, fmt.Sprint(i), o.No, 1) // the wrong amount goes back
	}
	c.provider.failing = 1
	if n, err := c.RefundOnce(t.Context()); n != 2 || err == nil {
		t.Errorf("made %d, %v", n, err)
	}
}

func TestUnknownPaymentsAreListed(t *testing.T) {
	c := newTill(t)
	if out := c.callback(t, "lost", order, 1500); out.Ending != seatflow.EndingUnknown {
		t.Fatalf("%+v", out)
	}
	list, err := c.Unknown(t.Context(), 0, 10)
	if err != nil || len(list) != 1 || list[0].Event.EventID != "evt_lost" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestRunRefundsAndStops(t *testing.T) {
	c := newTill(t)
	o := c.order(t, 1)
	c.callback(t, "1", o.No, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	for {
		due, err := c.facts.DueRefunds(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(due) == 0 {
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := c.Run(ctx); err != nil {
		t.Errorf("Run after its context ended: %v", err)
	}
}
