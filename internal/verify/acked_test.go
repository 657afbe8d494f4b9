package verify

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// line is what a tool writes about an order.
func line(op string, o seatflow.Order, state seatflow.OrderState) string {
	seats := make([]seatflow.SeatID, len(o.Items))
	for i := range o.Items {
		seats[len(seats)-1-i] = o.Items[i].Seat // any order will do
	}
	b, err := json.Marshal(Ack{Op: op, No: o.No, Show: o.Show, User: o.User, Seats: seats, State: state})
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

// gone is an order that was cancelled.
func (w *world) gone() seatflow.Order {
	w.t.Helper()
	no := orderNo(9)
	if o, err := w.ledger.Order(w.t.Context(), no, ""); err == nil {
		return o
	}
	o := w.order(9, "eve", 9)
	c, err := w.ledger.CancelOrder(w.t.Context(), seatflow.OrderChange{No: no, User: "eve"})
	w.must(err)
	_, err = w.seats.Release(w.t.Context(), w.show.Ref(), o.Owner(), nil)
	w.must(err)
	return c
}

func TestAckedHolds(t *testing.T) {
	w := newWorld(t)
	gone := w.gone()
	log := line(OpOrder, w.held, "pending") + line(OpOrder, w.paid, "pending") + "\n" + line(OpPay, w.paid, "paid") +
		line(OpOrder, gone, "pending") + line(OpCancel, gone, "cancelled") + line(OpOrder, w.held, "pending") + `{"at":"2026-`
	r := Acked(t.Context(), w.ledger, strings.NewReader(log))
	holds(t, r)
	c := r.Checks[0].Counts
	if c["orders"] != 3 || c["active seats"] != 4 || c["acknowledged order"] != 4 || c["torn last line"] != 1 || c["now cancelled"] != 1 {
		t.Errorf("counts %v", c)
	}
	holds(t, Acked(t.Context(), w.ledger, strings.NewReader("")))
	w.sql("UPDATE order_info SET state = 'expired' WHERE state = 'cancelled'")
	fails(t, Acked(t.Context(), w.ledger, strings.NewReader(line(OpCancel, gone, "cancelled"))), I3, "acknowledged as cancelled and is expired")
}

func TestAckedFindsWhatIsLost(t *testing.T) {
	w := newWorld(t)
	gone := w.gone()
	never := w.held
	never.No = orderNo(77)
	elsewhere := w.held
	elsewhere.Show = 99
	other := w.held
	other.User = "mallory"
	more := w.held
	more.Items = append(more.Items[:2:2], seatflow.OrderItem{Seat: 8})
	for name, tc := range map[string]struct{ log, text string }{
		"an order":               {line(OpOrder, never, "pending"), "is not in the ledger"},
		"an order of no show":    {line(OpOrder, elsewhere, "pending"), "for show 99"},
		"its user":               {line(OpOrder, other, "pending"), "user mallory"},
		"its seats":              {line(OpOrder, more, "pending"), "seats [1 2 8] and has [1 2]"},
		"a payment":              {line(OpPay, w.held, "paid"), "no payment of it"},
		"a paid state":           {line(OpOrder, w.held, "paid"), "acknowledged as paid and is pending"},
		"a cancellation":         {line(OpCancel, w.held, "cancelled"), "acknowledged as cancelled and is pending"},
		"a state nobody knows":   {line(OpOrder, w.held, "lost"), "acknowledged as lost"},
		"a state left out":       {line(OpCancel, w.paid, ""), ""},
		"two stories":            {line(OpOrder, w.held, "pending") + line(OpOrder, other, "pending"), "on line 1 and"},
		"not JSON":               {"x\n", "line 1"},
		"an unknown member":      {strings.Replace(line(OpOrder, w.held, "pending"), `{"at"`, `{"more":1,"at"`, 1), "line 1"},
		"an unknown operation":   {line("steal", w.held, "pending"), `unknown operation "steal"`},
		"not a number":           {strings.Replace(line(OpOrder, w.held, "pending"), string(w.held.No), "7", 1), "not an order number"},
		"an endless line":        {strings.Repeat("x", maxAckLine+1), "could not be read"},
		"a loss after good ones": {line(OpOrder, gone, "pending") + line(OpOrder, w.paid, "pending") + line(OpOrder, never, "pending"), "(line 3)"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a state left out" { // a cancel of an order that is paid may have come first: money for an ended order pays it
				holds(t, Acked(t.Context(), w.ledger, strings.NewReader(tc.log)))
				return
			}
			fails(t, Acked(t.Context(), w.ledger, strings.NewReader(tc.log)), I3, tc.text)
		})
	}
}

func TestAckedFindsASeatThatTwoHave(t *testing.T) {
	w := newWorld(t)
	rival := w.paid
	rival.No, rival.User = orderNo(8), "carol"
	w.sql("CREATE TABLE loose AS SELECT * FROM order_seat", "DROP TABLE order_seat", "ALTER TABLE loose RENAME TO order_seat",
		fmt.Sprintf("INSERT INTO order_info SELECT '%s', show_id, 'carol', 'k', fingerprint, items, amount, currency, taken_at, deadline, cap_at, created_at, "+
			"updated_at, attempt, version, kind, state, extended, device, reason FROM order_info WHERE no = '%s'", rival.No, w.paid.No),
		fmt.Sprintf("INSERT INTO order_seat SELECT show_id, seat_id, '%s' FROM order_seat WHERE order_no = '%s'", rival.No, w.paid.No))
	log := line(OpOrder, w.paid, "pending") + line(OpOrder, rival, "pending")
	fails(t, Acked(t.Context(), w.ledger, strings.NewReader(log)), I3, "both are active")
}

func TestReaches(t *testing.T) {
	for _, tc := range []struct {
		from, to seatflow.OrderState
		want     bool
	}{
		{"pending", "pending", true}, {"pending", "paid", true}, {"pending", "refunded", true}, {"pending", "expired", true},
		{"pending", "void", false}, {"pending", "blocked", false}, {"paid", "pending", false}, {"paid", "refunded", true},
		{"paid", "cancelled", false}, {"cancelled", "paid", true}, {"cancelled", "expired", false}, {"refunded", "paid", false},
		{"void", "pending", false}, {"blocked", "cancelled", true}, {"lost", "lost", false}, {"", "pending", false},
	} {
		if reaches(tc.from, tc.to) != tc.want {
			t.Errorf("%s to %s is %v", tc.from, tc.to, !tc.want)
		}
	}
}

func TestViolationsAreBounded(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	for i := range 200 {
		never := w.held
		never.No = orderNo(1000 + i)
		log.WriteString(line(OpOrder, never, "pending"))
	}
	r := Acked(t.Context(), w.ledger, &log)
	if c := r.Checks[0]; len(c.Violations) != maxViolations || r.Violations() != 200 {
		t.Errorf("%d listed, %d counted", len(c.Violations), r.Violations())
	}
	var out strings.Builder
	if err := r.Write(&out); err != nil || !strings.Contains(out.String(), "and 150 more") || !strings.Contains(out.String(), "FAILED") {
		t.Errorf("%v: %s", err, out.String())
	}
}
