package seatflow

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The whole table, written out once more by hand: what is not in it is no
// edge, whoever asks.
func TestNext(t *testing.T) {
	type ask struct {
		verb  Verb
		from  SeatState
		owned bool
	}
	edges := map[ask]SeatState{
		{VerbHold, Available, false}: Held, {VerbHold, Available, true}: Held,
		{VerbExtend, Held, true}: Held,
		{VerbSell, Held, true}:   Sold, {VerbSell, Sold, true}: Sold,
		{VerbRelease, Held, true}: Available,
		{VerbUnsell, Held, true}:  Available, {VerbUnsell, Sold, true}: Available,
		{VerbBlock, Available, false}: Blocked, {VerbBlock, Available, true}: Blocked, {VerbBlock, Blocked, true}: Blocked,
		{VerbUnblock, Blocked, true}: Available,
	}
	for verb := Verb(0); verb <= VerbRepair+1; verb++ {
		for _, from := range append(States[:], 'q') {
			for _, owned := range []bool{false, true} {
				want, is := edges[ask{verb, from, owned}]
				got, ok := Next(verb, from, owned)
				if ok != is || ok && got != want || !ok && got != from {
					t.Errorf("%v from %v (owned %v): got %v, %v; want %v, %v", verb, from, owned, got, ok, want, is)
				}
			}
		}
	}
}

func TestOrderEdges(t *testing.T) {
	all := []OrderState{OrderPending, OrderPaid, OrderCancelled, OrderExpired, OrderRefunded, OrderVoid, OrderBlocked}
	edges := map[[2]OrderState]bool{
		{OrderPending, OrderPaid}: true, {OrderPending, OrderCancelled}: true, {OrderPending, OrderExpired}: true,
		{OrderCancelled, OrderPaid}: true, {OrderExpired, OrderPaid}: true,
		{OrderPaid, OrderRefunded}: true, {OrderBlocked, OrderCancelled}: true,
	}
	for _, from := range all {
		for _, to := range all {
			if got := from.CanBecome(to); got != edges[[2]OrderState{from, to}] {
				t.Errorf("%s → %s: %v", from, to, got)
			}
		}
		if want := from == OrderPending || from == OrderPaid || from == OrderBlocked; from.Active() != want {
			t.Errorf("%s active: %v", from, from.Active())
		}
	}
}

func TestOwnersAndRevisionsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		no := OrderNo(rapid.StringMatching(`[0-7][0-9A-HJKMNP-TV-Z]{25}`).Draw(t, "no"))
		o := Owner{no, rapid.Int32Min(1).Draw(t, "attempt")}
		if got, err := ParseOwner(o.String()); err != nil || got != o {
			t.Fatalf("%v, %v", got, err)
		}
		r := Revision{Generation(rapid.Int64Min(0).Draw(t, "generation")), rapid.Int64Min(0).Draw(t, "number")}
		if got, err := ParseRevision(r.String()); err != nil || got != r {
			t.Fatalf("%v, %v", got, err)
		}
		q := Revision{Generation(rapid.Int64Min(0).Draw(t, "generation")), rapid.Int64Min(0).Draw(t, "number")}
		if n := b2i(r.Before(q)) + b2i(q.Before(r)) + b2i(r == q); n != 1 {
			t.Fatalf("%v and %v are in %d orders", r, q, n)
		}
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestMalformedWordsAreRefused(t *testing.T) {
	const no = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for _, s := range []string{"", ".", no, no + ".", no + ".0", no + ".-1", no + ".1.1", no + ".2147483648", no + ". 1",
		"8" + no[1:] + ".1", no[1:] + ".1", no[:25] + "U.1", no[:25] + "a.1"} {
		if o, err := ParseOwner(s); err == nil {
			t.Errorf("owner %q: %v", s, o)
		}
	}
	for _, s := range []string{"", ".", "1", "1.", ".1", "-1.0", "1.-1", "1.2.3", "a.b", "9223372036854775808.0", "1. 2"} {
		if r, err := ParseRevision(s); err == nil {
			t.Errorf("revision %q: %v", s, r)
		}
	}
	for _, u := range []UserID{"", "a b", "a\n", "ключ", UserID(make([]byte, 65))} {
		if u.Valid() {
			t.Errorf("user %q is valid", u)
		}
	}
	if !UserID("guest-17_x@y").Valid() {
		t.Error("a usual user is not valid")
	}
}

func TestHashKeyIsScopedToTheUser(t *testing.T) {
	if !HashKey("ann", "").IsZero() {
		t.Error("no key has a hash")
	}
	hashes := []KeyHash{HashKey("ann", "k"), HashKey("bob", "k"), HashKey("ann", "l"), HashKey("an", "nk"), HashKey("annk", "")}
	for i, h := range hashes[:4] {
		if h.IsZero() || slices.Contains(hashes[:i], h) {
			t.Errorf("hash %d: %x", i, h)
		}
	}
	// Nodes of different versions must agree on it.
	if got := fmt.Sprintf("%x", hashes[0]); got != "ebbeb2e6d796ee8877f99376966726b0" {
		t.Errorf("the hash has become %s", got)
	}
}

func TestHouse(t *testing.T) {
	plan := &Plan{Categories: []Category{{Name: "A"}, {Name: "B"}},
		Seats: []PlanSeat{{ID: 2, Category: 0}, {ID: 5, Category: 1}, {ID: 3, Category: 0}}}
	h := NewHouse(Show{Prices: map[string]int64{"A": 100}}, Hall{}, plan)
	if got := fmt.Sprintf("%c", h.Base()); got != "[- 0 0 - -]" {
		t.Errorf("base %s", got)
	}
	for id, there := range map[SeatID]bool{-1: false, 0: false, 1: false, 2: true, 3: true, 4: false, 5: true, 6: false, 1 << 30: false} {
		if s := h.Seat(id); (s != nil) != there || s != nil && s.ID != id {
			t.Errorf("seat %d: %v", id, s)
		}
	}
	if p, ok := h.Price(h.Seat(2)); !ok || p != 100 {
		t.Errorf("price %d, %v", p, ok)
	}
	if _, ok := h.Price(h.Seat(5)); ok {
		t.Error("a category without a price is for sale")
	}
	if empty := NewHouse(Show{}, Hall{}, &Plan{}); len(empty.Base()) != 0 || empty.Seat(1) != nil {
		t.Error("an empty plan has seats")
	}
}

func TestRecordOfAnOrder(t *testing.T) {
	o := Order{No: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Attempt: 2, User: "ann", Key: "k", State: OrderPending,
		Deadline: time.Unix(9, 0), Items: []OrderItem{{Seat: 1}, {Seat: 2, Refunded: true}, {Seat: 3}}}
	r, ok := o.Record()
	if !ok || r.State != Held || !slices.Equal(r.Seats, []SeatID{1, 3}) || r.Owner != (Owner{o.No, 2}) || r.Deadline != o.Deadline ||
		r.KeyHash != HashKey("ann", "k") {
		t.Errorf("%+v, %v", r, ok)
	}
	for state, want := range map[OrderState]SeatState{OrderPaid: Sold, OrderBlocked: Blocked} {
		o.State = state
		if r, ok := o.Record(); !ok || r.State != want || !r.Deadline.IsZero() {
			t.Errorf("%s: %+v, %v", state, r, ok)
		}
	}
	for _, state := range []OrderState{OrderCancelled, OrderExpired, OrderRefunded, OrderVoid} {
		o.State = state
		if _, ok := o.Record(); ok {
			t.Errorf("an order that is %s has seats", state)
		}
	}
}

// Every code has the status that the contract gives it, and numbers are used
// once.
func TestCodes(t *testing.T) {
	want := map[Code]int{1000: 400, 1001: 401, 1002: 403, 1003: 404, 1004: 422, 1005: 409, 1029: 429, 2000: 500, 2003: 503,
		3001: 404, 3002: 409, 3003: 409, 3004: 409, 3005: 409, 3006: 409, 3007: 404, 3008: 409, 3009: 409, 3010: 404, 3011: 409}
	seen := map[Code]bool{}
	for _, c := range Codes {
		if seen[c] || want[c] != c.Status() {
			t.Errorf("code %d: status %d, want %d", c, c.Status(), want[c])
		}
		seen[c] = true
	}
	if len(seen) != len(want) {
		t.Errorf("%d codes, want %d", len(seen), len(want))
	}
	cause := errors.New("cause")
	err := fmt.Errorf("around: %w", &Error{Code: CodeSeatsTaken, Reason: ReasonHoldLost, Field: "seats", Err: cause})
	if CodeOf(err) != CodeSeatsTaken || !errors.Is(err, cause) || CodeOf(cause) != CodeSystem {
		t.Errorf("%v", err)
	}
}
