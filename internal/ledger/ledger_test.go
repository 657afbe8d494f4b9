package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		fmt.Fprintln(os.Stderr, crashWriter(path)) // ends only if it fails
		os.Exit(1)
	}
	if code, ok := testProcess(); ok {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

func openTest(t testing.TB, opts Options) *Ledger {
	t.Helper()
	l, err := OpenSQLite(context.Background(), filepath.Join(t.TempDir(), "ledger.db"), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

var lastNo atomic.Int64

// newNo returns an order number, later than those before.
func newNo() seatflow.OrderNo { return seatflow.OrderNo(fmt.Sprintf("01%024d", lastNo.Add(1))) }

// testShow makes a hall of n seats and a show in it.
func testShow(t testing.TB, l seatflow.Ledger, n int) seatflow.Show {
	t.Helper()
	ctx := context.Background()
	hall, err := l.CreateHall(ctx, seatflow.Hall{Name: "Hall", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	plan := &seatflow.Plan{Hall: hall.ID, Version: 1, Name: "Plan", Width: 10, Height: 10,
		Categories: []seatflow.Category{{Name: "A", Color: "#112233"}}, Zones: []seatflow.Zone{{Name: "Floor"}}}
	for i := range n {
		plan.Seats = append(plan.Seats, seatflow.PlanSeat{ID: seatflow.SeatID(i + 1), GUID: "g" + time.Duration(i).String(), Row: "1", Number: "1"})
	}
	if err := l.PublishPlan(ctx, plan); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	show, err := l.CreateShow(ctx, seatflow.Show{Hall: hall.ID, PlanVersion: 1, Title: "Show", Starts: now.Add(time.Hour), Ends: now.Add(2 * time.Hour),
		SaleFrom: now, SaleUntil: now.Add(time.Hour), Currency: "EUR", Prices: map[string]int64{"A": 4500}, HoldFor: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return show
}

func sale(show seatflow.Show, user, key string, seats ...seatflow.SeatID) seatflow.NewOrder {
	now := time.Now()
	o := seatflow.Order{No: newNo(), Show: show.ID, User: seatflow.UserID(user), Kind: seatflow.KindSale, Key: key, TakenAt: now,
		Deadline: now.Add(15 * time.Minute), Cap: now.Add(30 * time.Minute), Device: seatflow.DeviceWeb}
	for _, s := range seats {
		o.Items = append(o.Items, seatflow.OrderItem{Seat: s, Price: 4500})
	}
	o.Total = seatflow.Money{Amount: int64(4500 * len(seats)), Currency: "EUR"}
	return seatflow.NewOrder{Order: o, Generation: show.Generation, Actor: seatflow.Actor{User: o.User, Role: seatflow.RoleBuyer, Device: seatflow.DeviceWeb}}
}

func TestSmoke(t *testing.T) {
	l := openTest(t, Options{})
	ctx := context.Background()
	show := testShow(t, l, 10)
	o, err := l.InsertOrder(ctx, sale(show, "u", "k", 2, 1))
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.OrderByKey(ctx, "u", "k")
	if err != nil || got.No != o.No || len(got.Items) != 2 {
		t.Fatal(got, err)
	}
	var conflict *seatflow.SeatConflictError
	if _, err := l.InsertOrder(ctx, sale(show, "v", "k", 2, 3)); !errors.As(err, &conflict) {
		t.Fatal(err)
	}
	out, err := l.RecordPayment(ctx, seatflow.PaymentEvent{Provider: "p", EventID: "1", CaptureID: "c", Type: seatflow.PaymentCaptured, Order: o.No, Amount: o.Total}, seatflow.System("t"))
	if err != nil || out.Ending != seatflow.EndingPaid {
		t.Fatal(out, err)
	}
	h, err := l.History(ctx, o.No)
	if err != nil || len(h) != 2 {
		t.Fatal(h, err)
	}
	f, err := l.Facts(ctx, show.ID)
	if err != nil || len(f.Orders) != 1 {
		t.Fatal(f, err)
	}
	ob, err := l.Outbox(ctx, 10)
	if err != nil || len(ob) != 2 || ob[0].ID != ob[0].Event.ID || ob[1].Order.State != seatflow.OrderPaid {
		t.Fatal(ob, err)
	}
}
