package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"seatflow"
)

var ledgerInsertCases = []ledgerCase{
	{"insert/sale", ledgerInsertSale},
	{"insert/block", ledgerInsertBlock},
	{"insert/conflicts", ledgerInsertConflicts},
	{"insert/numbers and keys", ledgerInsertExists},
	{"insert/generations", ledgerInsertGenerations},
	{"insert/malformed", ledgerInsertMalformed},
	{"insert/ended context", ledgerInsertContext},
	{"insert/lists", ledgerOrdersOf},
	{"insert/void", ledgerVoid},
}

func ledgerInsertSale(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(20)
	n := t.sale(show, buyer.User, "a key 'with' \"quotes\"", 7, 3)
	n.Order.State, n.Order.Attempt, n.Order.Version, n.Order.Extended = seatflow.OrderPaid, 9, 9, true // the ledger's to say
	o := t.insert(n)
	if o.State != seatflow.OrderPending || o.Attempt != 1 || o.Version != 1 || o.Extended || o.CreatedAt.IsZero() || !o.UpdatedAt.Equal(o.CreatedAt) {
		t.Errorf("a new order: %+v", o)
	}
	if !slices.Equal(o.Seats(), seats(3, 7)) {
		t.Errorf("items are not sorted: %+v", o.Items)
	}
	if !o.Deadline.Equal(n.Order.Deadline.Truncate(time.Microsecond)) || !o.Cap.Equal(n.Order.Cap.Truncate(time.Microsecond)) {
		t.Errorf("deadline %s, cap %s", o.Deadline, o.Cap)
	}
	if o.Key != n.Order.Key || o.Fingerprint != n.Order.Fingerprint || o.Total != n.Order.Total || o.Device != n.Order.Device {
		t.Errorf("stored %+v of %+v", o, n.Order)
	}
	t.same("by number", t.order(o.No), o)
	got, err := t.l.Order(ctx, o.No, buyer.User)
	t.wantErr("own order", err, nil)
	t.same("own order", got, o)
	_, err = t.l.Order(ctx, o.No, "someone else")
	t.wantErr("another's order", err, seatflow.ErrNotFound)
	_, err = t.l.Order(ctx, t.newNo(), "")
	t.wantErr("no order", err, seatflow.ErrNotFound)
	got, err = t.l.OrderByKey(ctx, buyer.User, n.Order.Key)
	t.wantErr("by key", err, nil)
	t.same("by key", got, o)
	_, err = t.l.OrderByKey(ctx, "someone else", n.Order.Key)
	t.wantErr("another's key", err, seatflow.ErrNotFound)
	_, err = t.l.OrderByKey(ctx, buyer.User, "never used")
	t.wantErr("no such key", err, seatflow.ErrNotFound)
	_, err = t.l.OrderByKey(ctx, buyer.User, "")
	t.wantErr("no key", err, seatflow.ErrNotFound)
	_, err = t.l.History(ctx, t.newNo())
	t.wantErr("history of no order", err, seatflow.ErrNotFound)

	h := t.told(o.No, "order.created:>pending")
	if !slices.Equal(h[0].Seats, seats(3, 7)) || h[0].Actor != n.Actor || !h[0].At.Equal(o.CreatedAt) {
		t.Errorf("the event: %+v", h[0])
	}
	t.same("occupancy", t.occupancy(show.ID), map[seatflow.SeatID]seatflow.Owner{3: o.Owner(), 7: o.Owner()})

	// Without key and fingerprint, and as many as one may ask for.
	many := t.sale(show, buyer.User, "", span(8, 20)...)
	many.Order.Fingerprint = seatflow.Fingerprint{}
	stored := t.insert(many)
	t.same("many seats", t.order(stored.No), stored)
	t.insert(t.sale(show, buyer.User, "", 1)) // no key is not a key
	for _, key := range []string{strings.Repeat("k", 64), "钥匙", " "} {
		n := t.sale(t.show(1), buyer.User, key, 1)
		t.insert(n)
		if got, err := t.l.OrderByKey(ctx, buyer.User, key); err != nil || got.No != n.Order.No {
			t.Errorf("key %q: %v, %v", key, got.No, err)
		}
	}
}

func ledgerInsertBlock(t *ledgerTest) {
	show := t.show(20)
	n := t.block(show, "Kamera", 4, 5)
	n.Order.Key, n.Order.Deadline = "a block has none", noon
	b := t.insert(n)
	if b.State != seatflow.OrderBlocked || b.Kind != seatflow.KindBlock || b.Key != "" || !b.Deadline.IsZero() || b.Reason != "Kamera" {
		t.Errorf("a block: %+v", b)
	}
	t.same("by number", t.order(b.No), b)
	t.told(b.No, "seats.blocked:>blocked")
	var conflict *seatflow.SeatConflictError
	if _, err := t.l.InsertOrder(t.Context(), t.sale(show, buyer.User, "k", 5, 6)); !errors.As(err, &conflict) || !slices.Equal(conflict.Seats, seats(5)) {
		t.Errorf("a sale of a blocked seat: %v", err)
	}
	t.insert(t.block(show, "second", 6)) // blocks have no key, so the second is no repeat
}

func ledgerInsertConflicts(t *ledgerTest) {
	ctx := t.Context()
	show, first := t.pending(3)
	before := t.occupancy(show.ID)
	n := t.sale(show, "rival", "k", 2, 3, 4, 5)
	var conflict *seatflow.SeatConflictError
	_, err := t.l.InsertOrder(ctx, n)
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Seats, seats(2, 3)) {
		t.Errorf("a conflict must name seats 2 and 3: %v", err)
	}
	t.same("occupancy after a conflict", t.occupancy(show.ID), before)
	_, err = t.l.Order(ctx, n.Order.No, "")
	t.wantErr("a failed attempt leaves no order", err, seatflow.ErrNotFound)
	_, err = t.l.OrderByKey(ctx, "rival", "k")
	t.wantErr("and uses no key", err, seatflow.ErrNotFound)
	_, err = t.l.History(ctx, n.Order.No)
	t.wantErr("and has no history", err, seatflow.ErrNotFound)
	n.Order.Items = n.Order.Items[2:]
	t.insert(n) // the same number and key, with seats that are free
	// The same seats of another show are other seats.
	t.insert(t.sale(t.show(5), "rival", "k2", 1, 2, 3))
	// After the end the seats are free.
	if _, err := t.l.CancelOrder(ctx, by(first, buyer)); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	t.insert(t.sale(show, "rival", "k3", 1, 2, 3))
}

func ledgerInsertExists(t *ledgerTest) {
	ctx := t.Context()
	show, first := t.pending(1)
	exists := func(what string, n seatflow.NewOrder, want seatflow.Order) {
		t.Helper()
		var e *seatflow.OrderExistsError
		if _, err := t.l.InsertOrder(ctx, n); !errors.As(err, &e) {
			t.Errorf("%s: %v", what, err)
			return
		}
		t.same(what, e.Order, want)
	}
	exists("the same key", t.sale(show, buyer.User, "key-1", 2), first)
	exists("the same key and seats", t.sale(show, buyer.User, "key-1", 1), first)
	again := t.sale(show, "another", "key-9", 2)
	again.Order.No = first.No
	exists("the same number", again, first)
	stale := t.sale(show, buyer.User, "key-1", 2)
	stale.Generation++
	exists("the same key, stale", stale, first)
	other := t.insert(t.sale(show, "another", "key-1", 2)) // another's key is another key
	cancelled, err := t.l.CancelOrder(ctx, by(first, buyer))
	if err != nil {
		t.Fatalf("cancel: %v", err)
	}
	exists("the key of an order that has ended", t.sale(show, buyer.User, "key-1", 3), cancelled)
	t.same("the other's order", t.order(other.No), other)
}

func ledgerInsertGenerations(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(20)
	gen, err := t.l.RaiseGeneration(ctx, show.ID, show.Generation)
	if err != nil || gen != show.Generation+1 {
		t.Fatalf("raise: %d, %v", gen, err)
	}
	n := t.sale(show, buyer.User, "k", 1)
	_, err = t.l.InsertOrder(ctx, n)
	t.wantErr("of the generation before", err, seatflow.ErrStaleGeneration)
	n.Generation = gen + 1
	_, err = t.l.InsertOrder(ctx, n)
	t.wantErr("of one to come", err, seatflow.ErrStaleGeneration)
	n.Generation = gen
	t.insert(n)
	lost := t.sale(show, buyer.User, "k2", 2)
	lost.Order.Show, lost.Generation = show.ID+100, 1
	_, err = t.l.InsertOrder(ctx, lost)
	t.wantErr("of no show", err, seatflow.ErrNotFound)
	_, err = t.l.RaiseGeneration(ctx, show.ID, show.Generation)
	t.wantErr("raised from one that is not there", err, seatflow.ErrStaleGeneration)
	_, err = t.l.RaiseGeneration(ctx, show.ID+100, 1)
	t.wantErr("raised for no show", err, seatflow.ErrNotFound)
	row, err := t.l.Show(ctx, show.ID)
	if err != nil || row.Generation != gen || row.Version != show.Version {
		t.Errorf("show %+v, %v", row, err)
	}
}

func ledgerInsertMalformed(t *ledgerTest) {
	show := t.show(20)
	for what, spoil := range map[string]func(o *seatflow.Order){
		"no number":      func(o *seatflow.Order) { o.No = "" },
		"a bad number":   func(o *seatflow.Order) { o.No = "order-1" },
		"no user":        func(o *seatflow.Order) { o.User = "" },
		"no seats":       func(o *seatflow.Order) { o.Items = nil },
		"seat 0":         func(o *seatflow.Order) { o.Items[0].Seat = 0 },
		"a seat twice":   func(o *seatflow.Order) { o.Items = append(o.Items, o.Items[0]) },
		"a refunded one": func(o *seatflow.Order) { o.Items[0].Refunded = true },
		"no such kind":   func(o *seatflow.Order) { o.Kind = "gift" },
	} {
		n := t.sale(show, buyer.User, "k", 1)
		spoil(&n.Order)
		if _, err := t.l.InsertOrder(t.Context(), n); err == nil || errors.Is(err, seatflow.ErrUnknownCommit) {
			t.Errorf("%s: %v", what, err)
		}
	}
	t.insert(t.sale(show, buyer.User, "k", 1)) // none of them took anything
}

func ledgerInsertContext(t *ledgerTest) {
	show := t.show(20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := t.sale(show, buyer.User, "k", 1)
	_, err := t.l.InsertOrder(ctx, n)
	t.wantErr("insert after the end", err, seatflow.ErrNotCommitted)
	t.insert(n)
	_, err = t.l.CancelOrder(ctx, by(n.Order, buyer))
	t.wantErr("cancel after the end", err, seatflow.ErrNotCommitted)
	t.told(n.Order.No, "order.created:>pending")
}

func ledgerOrdersOf(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(20)
	var all []seatflow.Order
	for i := range 5 {
		all = append(all, t.insert(t.sale(show, buyer.User, "k"+string(rune('0'+i)), seatflow.SeatID(i+1))))
		t.insert(t.sale(show, "another", "k"+string(rune('0'+i)), seatflow.SeatID(i+11)))
	}
	all = append(all, t.insert(t.sale(show, buyer.User, "", 10)))
	if _, err := t.l.VoidOrder(ctx, t.newNo(), show.ID, staff); err != nil {
		t.Fatalf("void: %v", err)
	}
	slices.Reverse(all)
	list := func(before seatflow.OrderNo, limit int) []seatflow.Order {
		got, err := t.l.OrdersOf(ctx, buyer.User, before, limit)
		if err != nil {
			t.Errorf("orders before %q: %v", before, err)
		}
		return got
	}
	t.same("newest", list("", 4), all[:4])
	t.same("the rest", list(all[3].No, 4), all[4:])
	t.same("none", list(all[5].No, 4), []seatflow.Order(nil))
	if got, err := t.l.OrdersOf(ctx, "nobody", "", 4); err != nil || len(got) != 0 {
		t.Errorf("nobody's orders: %v, %v", got, err)
	}
}

func ledgerVoid(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(20)
	late := t.sale(show, buyer.User, "k", 1)
	v, err := t.l.VoidOrder(ctx, late.Order.No, show.ID, staff)
	if err != nil || v.State != seatflow.OrderVoid || v.No != late.Order.No || v.Show != show.ID || len(v.Items) != 0 {
		t.Fatalf("void: %+v, %v", v, err)
	}
	t.same("what stands", t.order(v.No), v)
	h := t.told(v.No, "order.voided:>void")
	if h[0].Actor != staff || len(h[0].Seats) != 0 {
		t.Errorf("the event: %+v", h[0])
	}
	t.unchanged("a late insert", v.No, nil, func() error {
		var e *seatflow.OrderExistsError
		if _, err := t.l.InsertOrder(ctx, late); !errors.As(err, &e) || e.Order.State != seatflow.OrderVoid {
			t.Errorf("a late insert: %v", err)
		}
		return nil
	})
	_, err = t.l.OrderByKey(ctx, buyer.User, "k")
	t.wantErr("the key was not used", err, seatflow.ErrNotFound)
	t.unchanged("void again", v.No, nil, func() error {
		again, err := t.l.VoidOrder(ctx, v.No, show.ID, staff)
		t.same("void again", again, v)
		return err
	})
	t.unchanged("cancel of a void order", v.No, seatflow.ErrWrongState, func() error {
		_, err := t.l.CancelOrder(ctx, seatflow.OrderChange{No: v.No, Actor: staff})
		return err
	})
	o := t.insert(t.sale(show, buyer.User, "k", 1)) // another number may
	t.unchanged("void of an order", o.No, nil, func() error {
		there, err := t.l.VoidOrder(ctx, o.No, show.ID, staff)
		t.same("the row that stands", there, o)
		return err
	})
	if _, err := t.l.VoidOrder(ctx, "x", show.ID, staff); err == nil {
		t.Errorf("void of no number was accepted")
	}
}
