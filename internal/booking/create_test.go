package booking_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/booking"
)

func TestCreateHoldsAndInserts(t *testing.T) {
	r := newRig(t, 20)
	o := r.mustCreate("ann", "key-1", 3, 1, 2)
	if o.State != seatflow.OrderPending || o.Total != (seatflow.Money{Amount: 4500, Currency: "EUR"}) ||
		!slices.Equal(o.Seats(), []seatflow.SeatID{1, 2, 3}) || !o.Deadline.Equal(start.Add(15*time.Minute)) ||
		!o.Cap.Equal(start.Add(30*time.Minute)) || o.Attempt != 1 || !o.No.Valid() {
		t.Errorf("got order %+v", o)
	}
	if s := r.state(2); s != seatflow.Held {
		t.Errorf("seat 2 is %v", s)
	}
	r.agree()
}

func TestCreateRefuses(t *testing.T) {
	r := newRig(t, 20)
	many := make([]seatflow.SeatID, seatflow.MaxSeatsPerOrder+1)
	for i := range many {
		many[i] = seatflow.SeatID(i + 1)
	}
	for name, c := range map[string]struct {
		req  booking.CreateRequest
		code seatflow.Code
	}{
		"no seats":         {r.request("ann", ""), seatflow.CodeInvalid},
		"too many":         {r.request("ann", "", many...), seatflow.CodeInvalid},
		"repeated":         {r.request("ann", "", 1, 2, 1), seatflow.CodeInvalid},
		"no such seat":     {r.request("ann", "", 1, 999), seatflow.CodeNoSeat},
		"seat zero":        {r.request("ann", "", 0), seatflow.CodeNoSeat},
		"negative":         {r.request("ann", "", -4), seatflow.CodeNoSeat},
		"not for sale":     {r.request("ann", "", 21), seatflow.CodeNoSeat},
		"long key":         {r.request("ann", string(make([]byte, 65)), 1), seatflow.CodeInvalid},
		"control key":      {r.request("ann", "a\nb", 1), seatflow.CodeInvalid},
		"non-ASCII key":    {r.request("ann", "ключ", 1), seatflow.CodeInvalid},
		"over the limit":   {r.request("ann", "", 1, 2, 3, 4, 5, 6, 7), seatflow.CodeOverLimit},
		"unknown show":     {booking.CreateRequest{Actor: buyer("ann"), Show: 99, Seats: []seatflow.SeatID{1}}, seatflow.CodeNoShow},
		"unknown show key": {booking.CreateRequest{Actor: buyer("ann"), Show: 99, Seats: []seatflow.SeatID{1}, Key: "k"}, seatflow.CodeNoShow},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.svc.Create(t.Context(), c.req)
			wantCode(t, err, c.code)
		})
	}
	if err := r.svc.EnsureView(t.Context(), r.show); err != nil {
		t.Fatal(err)
	}
	r.agree()
	if n := len(r.snapshot().Orders); n != 0 {
		t.Errorf("refused requests left %d orders", n)
	}
}

func TestSaleWindowIsHalfOpen(t *testing.T) {
	r := newRig(t, 20, func(s *seatflow.Show) { s.SaleFrom, s.SaleUntil = start.Add(time.Minute), start.Add(2*time.Minute) })
	_, err := r.create("ann", "", 1)
	wantCode(t, err, seatflow.CodeNotOnSale)
	r.clock.Set(start.Add(time.Minute))
	o := r.mustCreate("ann", "early", 1)
	r.clock.Set(start.Add(2 * time.Minute))
	_, err = r.create("ann", "", 2)
	wantCode(t, err, seatflow.CodeNotOnSale)
	again, err := r.create("ann", "early", 1)
	if err != nil || again.Order.No != o.No || !again.Replayed {
		t.Errorf("a replay after the sale got %+v, %v", again, err)
	}
}

func TestConflictListsEverySeatAndTheFreeOnes(t *testing.T) {
	r := newRig(t, 20)
	r.mustCreate("ann", "", 2, 4)
	_, err := r.create("bob", "", 1, 2, 3, 4, 5)
	e := wantCode(t, err, seatflow.CodeSeatsTaken)
	if !slices.Equal(sorted(e.Seats), []seatflow.SeatID{2, 4}) || !slices.Equal(e.Available, []seatflow.SeatID{1, 3, 5}) {
		t.Errorf("taken %v, available %v", e.Seats, e.Available)
	}
	if e.Order != nil {
		t.Error("the loser was shown the winner's order")
	}
	r.agree()
}

func TestLimitCountsOverOrders(t *testing.T) {
	r := newRig(t, 20)
	r.mustCreate("ann", "", 1, 2, 3, 4)
	_, err := r.create("ann", "", 5, 6, 7)
	e := wantCode(t, err, seatflow.CodeOverLimit)
	if len(e.Args) != 2 || fmt.Sprint(e.Args...) != "6 2" {
		t.Errorf("args %v", e.Args)
	}
	r.mustCreate("ann", "", 5, 6)
	r.mustCreate("bob", "", 7)
	r.agree()
}

func TestKioskHoldIsShort(t *testing.T) {
	r := newRig(t, 20)
	req := r.request("kiosk-1", "", 1)
	req.Actor.Role, req.Actor.Device = seatflow.RoleKiosk, seatflow.DeviceKiosk
	c, err := r.svc.Create(t.Context(), req)
	if err != nil || !c.Order.Deadline.Equal(start.Add(seatflow.KioskHoldFor)) {
		t.Errorf("deadline %v, %v", c.Order.Deadline, err)
	}
}

// A thousand callers want one chair: one order, 999 conflicts, nothing else.
func TestThousandCallersOneSeat(t *testing.T) {
	r := newRig(t, 20)
	var got tally
	at(1000, func(i int) { got.add(r.create(fmt.Sprint("u", i), fmt.Sprint("k", i), 7)) })
	got.want(t, 1, 999)
	r.agree()
}

// A thousand callers over a house of a hundred: every chair sold once.
func TestThousandCallersHundredSeats(t *testing.T) {
	r := newRig(t, 100)
	var got tally
	at(1000, func(i int) {
		got.add(r.create(fmt.Sprint("u", i), fmt.Sprint("k", i), seatflow.SeatID(i%100+1)))
	})
	got.want(t, 100, 900)
	if n := distinct(t, got.orders); n != 100 {
		t.Errorf("%d distinct seats", n)
	}
	r.agree()
}

// Overlapping groups: all seats of an order or none.
func TestOverlappingGroupsAreNeverPartial(t *testing.T) {
	r := newRig(t, 100)
	rng := rand.New(rand.NewPCG(1, 2))
	groups := make([][]seatflow.SeatID, 1000)
	for i := range groups {
		for _, s := range rng.Perm(100)[:1+rng.IntN(6)] {
			groups[i] = append(groups[i], seatflow.SeatID(s+1))
		}
	}
	var got tally
	at(len(groups), func(i int) {
		c, err := r.create(fmt.Sprint("u", i), fmt.Sprint("k", i), groups[i]...)
		if err == nil && !slices.Equal(c.Order.Seats(), sorted(groups[i])) {
			t.Errorf("asked for %v, got %v", groups[i], c.Order.Seats())
		}
		got.add(c, err)
	})
	got.want(t, len(got.orders), len(groups)-len(got.orders))
	sold := distinct(t, got.orders)
	taken := 0
	for _, s := range r.snapshot().States {
		if s == seatflow.Held {
			taken++
		}
	}
	if taken != sold {
		t.Errorf("orders have %d seats, the view holds %d", sold, taken)
	}
	r.agree()
}

func TestSameKeyHundredTimesAtOnce(t *testing.T) {
	r := newRig(t, 20)
	var got tally
	var replayed atomic.Int32
	at(100, func(int) {
		c, err := r.create("ann", "one-key", 1, 2)
		if c.Replayed {
			replayed.Add(1)
		}
		got.add(c, err)
	})
	got.want(t, 100, 0)
	for _, o := range got.orders {
		if o.No != got.orders[0].No || o.Version != got.orders[0].Version {
			t.Fatalf("answers differ: %+v and %+v", o, got.orders[0])
		}
	}
	if replayed.Load() != 99 {
		t.Errorf("%d answers were marked as replayed, want 99", replayed.Load())
	}
	r.agree()
}

// The same over two nodes, which do not see each other's requests in flight.
func TestSameKeyOnTwoNodes(t *testing.T) {
	r := newRig(t, 20)
	nodes := []*booking.Service{r.svc, r.service()}
	var got tally
	at(100, func(i int) { got.add(nodes[i%2].Create(t.Context(), r.request("ann", "one-key", 1, 2))) })
	for _, o := range got.orders {
		if o.No != got.orders[0].No {
			t.Fatalf("two orders of one key: %s and %s", o.No, got.orders[0].No)
		}
	}
	// A node that meets the other's attempt before its insert may void it and
	// begin again; whoever lost is told to ask again, never "taken".
	if got.codes[seatflow.CodeSeatsTaken] > 0 || len(got.other) > 0 {
		t.Fatalf("codes %v, errors %v", got.codes, got.other)
	}
	c, err := r.create("ann", "one-key", 1, 2)
	if err != nil || !c.Replayed {
		t.Fatalf("%+v, %v", c, err)
	}
	r.agree()
}

func TestKeyRules(t *testing.T) {
	r := newRig(t, 20)
	first := r.mustCreate("ann", "k", 1)
	_, err := r.create("ann", "k", 2)
	wantCode(t, err, seatflow.CodeKeyReused)
	other := r.mustCreate("bob", "k", 2)
	if other.No == first.No {
		t.Error("another user's key reached the same order")
	}
	_, err = r.create("bob", "later", 1)
	wantCode(t, err, seatflow.CodeSeatsTaken)
	if _, err := r.svc.Cancel(t.Context(), buyer("ann"), first.No); err != nil {
		t.Fatal(err)
	}
	r.mustCreate("bob", "later", 1) // the refusal was not remembered
	again, err := r.create("ann", "k", 1)
	if err != nil || again.Order.State != seatflow.OrderCancelled || !again.Replayed {
		t.Errorf("a replay shows the order as it is: got %+v, %v", again, err)
	}
	blank := r.mustCreate("eve", "   ", 9)
	if blank.Key != "" {
		t.Errorf("a blank key was stored as %q", blank.Key)
	}
	r.agree()
}

// Rebuilds in a tight loop beside a thousand buyers: no order is missed by
// one, no seat is sold twice, nobody hears anything but an order or a
// conflict or "ask again".
func TestRebuildLoopBesideBuyers(t *testing.T) {
	r := newRig(t, 200)
	if err := r.svc.EnsureView(t.Context(), r.show); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var loop sync.WaitGroup
	var rebuilds int
	loop.Go(func() {
		node := r.service()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := node.Rebuild(t.Context(), r.show); err != nil {
				t.Error(err)
				return
			}
			rebuilds++
		}
	})
	var got tally
	at(1000, func(i int) {
		for try := 0; ; try++ {
			c, err := r.create(fmt.Sprint("u", i), fmt.Sprint("k", i), seatflow.SeatID(i%200+1))
			if seatflow.CodeOf(err) == seatflow.CodeNotReady && err != nil && try < 1000 {
				continue // as a client does, with the same key
			}
			got.add(c, err)
			return
		}
	})
	close(stop)
	loop.Wait()
	got.want(t, 200, 800)
	if n := distinct(t, got.orders); n != 200 {
		t.Errorf("%d distinct seats", n)
	}
	t.Logf("%d rebuilds", rebuilds)
	r.agree()
}
