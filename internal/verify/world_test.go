package verify

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/ledger"
	"seatflow/internal/memseats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a small house with a ledger, a view, and one order of each kind:
// seats 1 and 2 held by ann, 3 and 4 paid by bob, 5 blocked, 6 to 9 free, and
// 10 in a category that this show does not sell.
type world struct {
	t      *testing.T
	path   string
	ledger *ledger.Ledger
	seats  *memseats.Store
	show   seatflow.Show
	held   seatflow.Order
	paid   seatflow.Order
	block  seatflow.Order
}

func orderNo(n int) seatflow.OrderNo { return seatflow.OrderNo(fmt.Sprintf("01HZX%021d", n)) }

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx := t.Context()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "ledger.db")}
	w.open()
	w.seats = memseats.New(memseats.Options{Clock: seatflow.WallClock{}})
	t.Cleanup(func() { w.seats.Close() })

	hall, err := w.ledger.CreateHall(ctx, seatflow.Hall{Name: "Small", Zone: "UTC"})
	w.must(err)
	plan := &seatflow.Plan{Hall: hall.ID, Version: 1, Name: "Small", Source: []byte("{}"),
		Categories: []seatflow.Category{{Name: "A", Color: "#112233"}, {Name: "Not sold", Color: "#112233"}},
		Zones:      []seatflow.Zone{{Name: "Ground"}}}
	for i := range 10 {
		plan.Seats = append(plan.Seats, seatflow.PlanSeat{ID: seatflow.SeatID(i + 1), GUID: fmt.Sprint(i), Category: i / 9, Row: "1", Number: fmt.Sprint(i + 1)})
	}
	w.must(w.ledger.PublishPlan(ctx, plan))
	now := time.Now().UTC()
	w.show, err = w.ledger.CreateShow(ctx, seatflow.Show{Hall: hall.ID, PlanVersion: 1, Title: "Show",
		Starts: now.Add(time.Hour), Ends: now.Add(2 * time.Hour), SaleFrom: now.Add(-time.Hour), SaleUntil: now.Add(time.Hour),
		Currency: "EUR", Prices: map[string]int64{"A": 100}, HoldFor: time.Minute, HoldCap: time.Hour, Status: seatflow.ShowPublished})
	w.must(err)
	w.show.Generation, err = w.ledger.RaiseGeneration(ctx, w.show.ID, w.show.Generation)
	w.must(err)
	w.rebuild()

	w.held = w.order(1, "ann", 1, 2)
	w.paid = w.pay(w.order(2, "bob", 3, 4))
	w.block, err = w.ledger.InsertOrder(ctx, seatflow.NewOrder{Generation: w.show.Generation, Order: seatflow.Order{No: orderNo(3), Attempt: 1,
		Show: w.show.ID, User: "staff", Kind: seatflow.KindBlock, State: seatflow.OrderBlocked, Items: []seatflow.OrderItem{{Seat: 5}},
		Total: seatflow.Money{Currency: "EUR"}, TakenAt: now, Device: seatflow.DeviceWeb, Reason: "camera"}})
	w.must(err)
	_, err = w.seats.Block(ctx, w.show.Ref(), w.block.Owner(), []seatflow.SeatID{5})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) open() {
	w.t.Helper()
	l, err := ledger.OpenSQLite(context.Background(), w.path, ledger.Options{})
	w.must(err)
	w.ledger = l
	w.t.Cleanup(func() { l.Close() })
}

// rebuild installs the view that follows from the facts as they are.
func (w *world) rebuild() {
	w.t.Helper()
	ctx := w.t.Context()
	house, err := openHouse(ctx, w.ledger, w.show.ID)
	w.must(err)
	facts, err := w.ledger.Facts(ctx, w.show.ID)
	w.must(err)
	v := seatflow.View{Show: w.show.Ref(), Generation: facts.Generation, Base: house.Base()}
	for i := range facts.Orders {
		if r, ok := facts.Orders[i].Record(); ok {
			v.Orders = append(v.Orders, r)
		}
	}
	w.must(w.seats.Rebuild(ctx, v))
}

// order holds seats in the view and inserts the order.
func (w *world) order(n int, user seatflow.UserID, seats ...seatflow.SeatID) seatflow.Order {
	w.t.Helper()
	ctx := w.t.Context()
	o := seatflow.Order{No: orderNo(n), Attempt: 1, Show: w.show.ID, User: user, Kind: seatflow.KindSale, State: seatflow.OrderPending,
		Total: seatflow.Money{Amount: int64(100 * len(seats)), Currency: "EUR"}, Key: fmt.Sprint("key-", n), Device: seatflow.DeviceWeb}
	for _, id := range seats {
		o.Items = append(o.Items, seatflow.OrderItem{Seat: id, Price: 100})
	}
	r, err := w.seats.Hold(ctx, seatflow.HoldRequest{Show: w.show.Ref(), Owner: o.Owner(), User: user, KeyHash: seatflow.HashKey(user, o.Key),
		Seats: seats, For: time.Minute, Cap: time.Hour})
	w.must(err)
	if r.Outcome != seatflow.OutcomeHeld {
		w.t.Fatalf("hold: %v", r.Outcome)
	}
	o.TakenAt, o.Deadline, o.Cap = r.TakenAt, r.Deadline, r.Cap
	o, err = w.ledger.InsertOrder(ctx, seatflow.NewOrder{Order: o, Generation: r.Generation, Actor: seatflow.Actor{User: user, Role: seatflow.RoleBuyer}})
	w.must(err)
	return o
}

func (w *world) pay(o seatflow.Order) seatflow.Order {
	w.t.Helper()
	out, err := w.ledger.RecordPayment(w.t.Context(), seatflow.PaymentEvent{Provider: "sandbox", EventID: "event-" + string(o.No), CaptureID: "capture-" + string(o.No),
		Type: seatflow.PaymentCaptured, Order: o.No, Amount: o.Total, At: time.Now().UTC()}, seatflow.System("test"))
	w.must(err)
	if out.Ending != seatflow.EndingPaid {
		w.t.Fatalf("payment ended as %s", out.Ending)
	}
	_, err = w.seats.Sell(w.t.Context(), w.show.Ref(), out.Order.Owner())
	w.must(err)
	return out.Order
}

// sql changes the ledger's file behind the ledger's back.
func (w *world) sql(statements ...string) {
	w.t.Helper()
	w.must(w.ledger.Close())
	db, err := sql.Open("sqlite", "file:"+w.path)
	w.must(err)
	for _, s := range statements {
		r, err := db.Exec(s)
		if err != nil {
			w.t.Fatalf("%s: %v", s, err)
		}
		if n, err := r.RowsAffected(); err == nil && n == 0 && s[:6] != "CREATE" && s[:4] != "DROP" && s[:5] != "ALTER" {
			w.t.Fatalf("%s changed nothing", s)
		}
	}
	w.must(db.Close())
	w.open()
}
