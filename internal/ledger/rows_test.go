package ledger

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// rawRows reads a query's rows as text, past everything that this package
// makes of them.
func rawRows(t *testing.T, l *Ledger, query string) []string {
	t.Helper()
	rows, err := l.readDB.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for rows.Next() {
		values, dest := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		text := make([]string, len(values))
		for i, v := range values {
			switch v := v.(type) {
			case nil:
				text[i] = "NULL"
			case []byte:
				text[i] = fmt.Sprintf("x%x", v)
			default:
				text[i] = fmt.Sprint(v)
			}
		}
		all = append(all, strings.Join(text, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func wantRows(t *testing.T, l *Ledger, query string, want ...string) {
	t.Helper()
	if got := rawRows(t, l, query); !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		t.Errorf("%s:\n got %q\nwant %q", query, got, want)
	}
}

// TestRows follows two orders and a block through their rows, so that writing
// and reading cannot be wrong together.
func TestRows(t *testing.T) {
	clock := testkit.NewFakeClock(time.UnixMicro(1_000_000))
	l := openTest(t, Options{Clock: clock})
	ctx := context.Background()
	show := testShow(t, l, 20)
	actor := seatflow.Actor{User: "ann", Role: seatflow.RoleBuyer, TraceID: "tttt", SpanID: "ss", Device: seatflow.DeviceWeb}
	at := func(us int64) time.Time { return time.UnixMicro(us).Add(999 * time.Nanosecond) }
	n := seatflow.NewOrder{Generation: show.Generation, Actor: actor, Order: seatflow.Order{No: "01AAAAAAAAAAAAAAAAAAAAAAAA", Show: show.ID, User: "ann",
		Kind: seatflow.KindSale, Key: "k'1", Fingerprint: seatflow.Fingerprint{0xab, 15: 0xcd}, Items: []seatflow.OrderItem{{Seat: 5, Price: 1200}, {Seat: 4, Price: 800}},
		Total: seatflow.Money{Amount: 2000, Currency: "EUR"}, TakenAt: at(10), Deadline: at(20), Cap: at(40), Device: seatflow.DeviceWeb}}
	o, err := l.InsertOrder(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	const orders = "SELECT no, attempt, version, show_id, user_id, okey, fingerprint, items, amount, currency, taken_at, deadline, cap_at, " +
		"created_at, updated_at, kind, state, extended, device, reason FROM order_info ORDER BY no"
	wantRows(t, l, orders, "01AAAAAAAAAAAAAAAAAAAAAAAA|1|1|1|ann|k'1|xab0000000000000000000000000000cd|4:800,5:1200|2000|EUR|10|20|40|1000000|1000000|sale|pending|0|web|")
	wantRows(t, l, "SELECT * FROM order_seat", "1|4|01AAAAAAAAAAAAAAAAAAAAAAAA", "1|5|01AAAAAAAAAAAAAAAAAAAAAAAA")
	const events = "SELECT id, order_no, version, type, from_state, to_state, seats, actor_user, actor_role, trace_id, span_id, device, at FROM order_event ORDER BY id"
	first := "1|01AAAAAAAAAAAAAAAAAAAAAAAA|1|order.created||pending|NULL|NULL|buyer|tttt|ss|NULL|1000000"
	wantRows(t, l, events, first)
	wantRows(t, l, "SELECT * FROM outbox", "1|01AAAAAAAAAAAAAAAAAAAAAAAA|1")

	// An order by somebody else from elsewhere, and a block.
	second := n
	second.Order.No, second.Order.Key, second.Order.Fingerprint, second.Order.Items = "01BBBBBBBBBBBBBBBBBBBBBBBB", "", seatflow.Fingerprint{}, []seatflow.OrderItem{{Seat: 6, Price: 2000}}
	second.Actor = seatflow.Actor{User: "kiosk-7", Role: seatflow.RoleKiosk, Device: seatflow.DeviceKiosk}
	if _, err := l.InsertOrder(ctx, second); err != nil {
		t.Fatal(err)
	}
	block := seatflow.NewOrder{Generation: show.Generation, Actor: actor, Order: seatflow.Order{No: "01CCCCCCCCCCCCCCCCCCCCCCCC", Show: show.ID, User: "ann",
		Kind: seatflow.KindBlock, Reason: "camera", Items: []seatflow.OrderItem{{Seat: 9}}, Device: seatflow.DeviceWeb}}
	if _, err := l.InsertOrder(ctx, block); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	change := seatflow.OrderChange{No: o.No, User: "ann", Actor: actor}
	if o, err = l.ExtendOrder(ctx, change, o.Deadline, at(30)); err != nil {
		t.Fatal(err)
	}
	if _, err = l.ExpireOrder(ctx, seatflow.OrderChange{No: o.No, Actor: seatflow.System("guardian")}, o.Deadline); err != nil {
		t.Fatal(err)
	}
	if _, err := l.RecordPayment(ctx, seatflow.PaymentEvent{Provider: "p", EventID: "e1", Type: seatflow.PaymentFailed, Order: o.No, At: at(5)}, actor); err != nil {
		t.Fatal(err)
	}
	out, err := l.RecordPayment(ctx, seatflow.PaymentEvent{Provider: "p", EventID: "e2", CaptureID: "c2", Type: seatflow.PaymentCaptured, Order: o.No,
		Amount: o.Total, At: at(6)}, actor)
	if err != nil || out.Ending != seatflow.EndingReseated {
		t.Fatal(out, err)
	}
	_, refund, err := l.RefundSeats(ctx, change, []seatflow.SeatID{4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.UnblockSeats(ctx, seatflow.OrderChange{No: block.Order.No, Actor: actor}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := l.VoidOrder(ctx, "01DDDDDDDDDDDDDDDDDDDDDDDD", show.ID, actor); err != nil {
		t.Fatal(err)
	}
	wantRows(t, l, orders,
		"01AAAAAAAAAAAAAAAAAAAAAAAA|2|5|1|ann|k'1|xab0000000000000000000000000000cd|4:800r,5:1200|2000|EUR|10|30|40|1000000|2000000|sale|paid|1|web|",
		"01BBBBBBBBBBBBBBBBBBBBBBBB|1|1|1|ann|NULL|NULL|6:2000|2000|EUR|10|20|40|1000000|1000000|sale|pending|0|web|",
		"01CCCCCCCCCCCCCCCCCCCCCCCC|1|2|1|ann|NULL|NULL|9:0r|0||0|0|0|1000000|2000000|block|cancelled|0|web|camera",
		"01DDDDDDDDDDDDDDDDDDDDDDDD|1|1|1||NULL|NULL||0||0|0|0|2000000|2000000|sale|void|0|web|")
	wantRows(t, l, "SELECT * FROM order_seat", "1|5|01AAAAAAAAAAAAAAAAAAAAAAAA", "1|6|01BBBBBBBBBBBBBBBBBBBBBBBB")
	wantRows(t, l, events, first,
		"2|01BBBBBBBBBBBBBBBBBBBBBBBB|1|order.created||pending|NULL|kiosk-7|kiosk|NULL|NULL|kiosk|1000000",
		"3|01CCCCCCCCCCCCCCCCCCCCCCCC|1|seats.blocked||blocked|NULL|NULL|buyer|tttt|ss|NULL|1000000",
		"4|01AAAAAAAAAAAAAAAAAAAAAAAA|2|order.extended|pending|pending|NULL|ann|buyer|tttt|ss|web|2000000",
		"5|01AAAAAAAAAAAAAAAAAAAAAAAA|3|order.expired|pending|expired|NULL|system:guardian|admin|||system|2000000",
		"6|01AAAAAAAAAAAAAAAAAAAAAAAA|4|order.reseated|expired|paid|NULL|ann|buyer|tttt|ss|web|2000000",
		"7|01AAAAAAAAAAAAAAAAAAAAAAAA|5|order.refunded|paid|paid|4|ann|buyer|tttt|ss|web|2000000",
		"8|01CCCCCCCCCCCCCCCCCCCCCCCC|2|seats.unblocked|blocked|cancelled|9|ann|buyer|tttt|ss|web|2000000",
		"9|01DDDDDDDDDDDDDDDDDDDDDDDD|1|order.voided||void|NULL|ann|buyer|tttt|ss|web|2000000")
	if n := len(rawRows(t, l, "SELECT * FROM outbox")); n != 9 {
		t.Errorf("%d rows in the outbox", n)
	}
	wantRows(t, l, "SELECT * FROM payment",
		"1|p|e1|NULL|payment.failed|01AAAAAAAAAAAAAAAAAAAAAAAA|0||5|none|NULL|2000000",
		"2|p|e2|c2|payment.captured|01AAAAAAAAAAAAAAAAAAAAAAAA|2000|EUR|6|reseated|NULL|2000000")
	if err := l.RefundDone(ctx, refund.ID); err != nil {
		t.Fatal(err)
	}
	wantRows(t, l, "SELECT * FROM refund", refund.ID+"|p|c2|01AAAAAAAAAAAAAAAAAAAAAAAA|800|EUR|staff|1|2000000|2000000")
}

// TestAuditSeesWhatIsBroken breaks each thing that the audit promises to see.
func TestAuditSeesWhatIsBroken(t *testing.T) {
	type finding = func(a seatflow.LedgerAudit) []string
	double := func(a seatflow.LedgerAudit) []string { return a.DoubleSeats }
	orphan := func(a seatflow.LedgerAudit) []string { return a.OrphanSeats }
	missing := func(a seatflow.LedgerAudit) []string { return a.MissingSeats }
	keys := func(a seatflow.LedgerAudit) []string { return a.MissingIndexes }
	ending := func(a seatflow.LedgerAudit) []string { return a.BadEndings }
	cash := func(a seatflow.LedgerAudit) []string { return a.PaidWithoutCash }
	integrity := func(a seatflow.LedgerAudit) []string { return a.IntegrityFaults }
	loose := "CREATE TABLE loose AS SELECT * FROM order_seat; DROP TABLE order_seat; ALTER TABLE loose RENAME TO order_seat; "
	for _, c := range []struct {
		name, sql string
		find      finding
		want      string
	}{
		{"nothing", "SELECT 1", nil, ""},
		{"the key on seats is gone", loose, keys, "uk_order_seat_show_seat"},
		{"a key on payments is gone", "DROP INDEX uk_payment_provider_capture", keys, "uk_payment_provider_capture"},
		{"the key on keys is of other columns", "DROP INDEX uk_order_info_user_key; CREATE UNIQUE INDEX uk_order_info_user_key ON order_info (okey, user_id)", keys, "uk_order_info_user_key"},
		{"the key on guids is not unique", "DROP INDEX uk_seat_hall_guid; CREATE INDEX uk_seat_hall_guid ON seat (hall_id, guid)", keys, "uk_seat_hall_guid"},
		{"the key on event ids is partial", "DROP INDEX uk_payment_provider_event; CREATE UNIQUE INDEX uk_payment_provider_event ON payment (provider, event_id) WHERE ending = 'paid'", keys, "uk_payment_provider_event"},
		{"a seat twice", loose + "INSERT INTO order_seat VALUES (1, 1, 'PAID')", double, "show 1 seat 1: PAID, PENDING"},
		{"occupancy is gone", "DELETE FROM order_seat WHERE seat_id = 2", missing, "show 1 seat 2: PAID (paid)"},
		{"occupancy is another's", "UPDATE order_seat SET order_no = 'PENDING' WHERE seat_id = 2", missing, "show 1 seat 2: PAID (paid)"},
		{"an active order has no seats", "UPDATE order_info SET items = '1:100r' WHERE no = 'PENDING'", missing, "show 1: PENDING is pending and has no seat"},
		{"occupancy of an order that has ended", "INSERT INTO order_seat VALUES (1, 5, 'CANCELLED')", orphan, "show 1 seat 5: CANCELLED"},
		{"occupancy of no order", "INSERT INTO order_seat VALUES (1, 5, 'NOBODY')", orphan, "show 1 seat 5: NOBODY"},
		{"occupancy that the order does not list", "INSERT INTO order_seat VALUES (1, 5, 'PAID')", orphan, "show 1 seat 5: PAID"},
		{"occupancy of another show", "UPDATE order_seat SET show_id = 2 WHERE seat_id = 2", orphan, "show 2 seat 2: PAID"},
		{"an order that cannot be read", "UPDATE order_info SET items = '2:x' WHERE no = 'PAID'", integrity, "order PAID"},
		{"no ending", "UPDATE payment SET ending = 'none' WHERE capture_id = 'c-paid'", ending, "no ending"},
		{"an ending that is none of the endings", "UPDATE payment SET ending = 'lost' WHERE capture_id = 'c-paid'", ending, "no ending"},
		{"paid, and the order is not", "UPDATE order_info SET state = 'expired' WHERE no = 'PAID'", ending, "the order is not paid"},
		{"paid, and there is no order", "DELETE FROM order_info WHERE no = 'PAID'", ending, "the order is not paid"},
		{"paid and refunded", "UPDATE payment SET refund_id = 'x' WHERE capture_id = 'c-paid'", ending, "names a refund as well"},
		{"refunded without a refund", "DELETE FROM refund", ending, "no refund that gives it back"},
		{"refunded too little", "UPDATE refund SET amount = amount - 1", ending, "no refund that gives it back"},
		{"refunded more than taken", "UPDATE refund SET amount = amount + 1", ending, "101 refunded of 100"},
		{"refunded in another currency", "UPDATE refund SET currency = 'CHF'", ending, "no refund that gives it back"},
		{"refunded twice", "INSERT INTO refund SELECT 'again', provider, capture_id, order_no, 0, currency, reason, done, created_at, done_at FROM refund", ending, "2 refunds"},
		{"a refund of no capture", "INSERT INTO refund SELECT 'stray', provider, 'none', order_no, amount, currency, reason, done, created_at, done_at FROM refund", ending, "refund stray of 100: no such capture"},
		{"unknown, and the order is there", "UPDATE payment SET order_no = 'PENDING' WHERE capture_id = 'c-unknown'", ending, "the order is there"},
		{"a capture without its id", "UPDATE payment SET capture_id = NULL WHERE capture_id = 'c-paid'", ending, "no capture id"},
		{"a capture twice", "DROP INDEX uk_payment_provider_capture; INSERT INTO payment SELECT 99, provider, 'other', capture_id, type, order_no, amount, currency, event_at, 'unknown', NULL, created_at FROM payment WHERE capture_id = 'c-unknown'", ending, "stands 2 times"},
		{"a paid order without a capture", "DELETE FROM payment WHERE capture_id = 'c-paid'", cash, "order PAID: 0 captures paid it"},
		{"an order paid twice", "INSERT INTO payment SELECT 99, provider, 'other', 'other', type, order_no, amount, currency, event_at, ending, NULL, created_at FROM payment WHERE capture_id = 'c-paid'", cash, "order PAID: 2 captures paid it"},
		{"a row that the schema forbids", "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'zone       TEXT NOT NULL', 'zone       TEXT'); " +
			"PRAGMA writable_schema = RESET; UPDATE hall SET zone = NULL; PRAGMA writable_schema = ON; " +
			"UPDATE sqlite_master SET sql = replace(sql, 'zone       TEXT', 'zone       TEXT NOT NULL'); PRAGMA writable_schema = RESET", integrity, "hall.zone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := openTest(t, Options{})
			ctx := context.Background()
			show := testShow(t, l, 20)
			no := func(name string, o seatflow.Order) { // so that the findings can be named
				for _, table := range []string{"order_info SET no", "order_seat SET order_no", "order_event SET order_no", "outbox SET order_no", "payment SET order_no", "refund SET order_no"} {
					column := table[strings.LastIndex(table, " ")+1:]
					rawExec(t, l, fmt.Sprintf("UPDATE %s = '%s' WHERE %s = '%s'", table, name, column, o.No))
				}
			}
			insert := func(seat seatflow.SeatID) seatflow.Order {
				n := sale(show, "u", fmt.Sprint(seat), seat)
				n.Order.Total.Amount = 100
				o, err := l.InsertOrder(ctx, n)
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
			capture := func(o seatflow.Order, id string) {
				if _, err := l.RecordPayment(ctx, seatflow.PaymentEvent{Provider: "p", EventID: "e-" + id, CaptureID: "c-" + id, Type: seatflow.PaymentCaptured,
					Order: o.No, Amount: seatflow.Money{Amount: 100, Currency: "EUR"}}, seatflow.System("test")); err != nil {
					t.Fatal(err)
				}
			}
			pending, paid, cancelled := insert(1), insert(2), insert(3)
			capture(paid, "paid")
			capture(paid, "second")
			capture(seatflow.Order{No: newNo()}, "unknown")
			if _, err := l.CancelOrder(ctx, seatflow.OrderChange{No: cancelled.No}); err != nil {
				t.Fatal(err)
			}
			no("PENDING", pending)
			no("PAID", paid)
			no("CANCELLED", cancelled)
			rawExec(t, l, c.sql)
			a, err := l.Audit(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if c.find == nil {
				for _, find := range []finding{double, orphan, missing, keys, ending, cash, integrity} {
					if got := find(a); len(got) > 0 {
						t.Errorf("a sound ledger: %q", got)
					}
				}
				return
			}
			if got := c.find(a); !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("got %q, want %q in it\n%+v", got, c.want, a)
			}
		})
	}
}

// rawExec runs statements as the writer, in the committer.
func rawExec(t *testing.T, l *Ledger, statements string) {
	t.Helper()
	for s := range strings.SplitSeq(statements, "; ") {
		if strings.HasPrefix(s, "PRAGMA") {
			// The committer is idle: nobody else is here.
			if _, err := l.writer.conn.ExecContext(context.Background(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
			continue
		}
		if _, err := change(context.Background(), l, 0, func(t *tx) (struct{}, error) {
			_, err := t.w.conn.ExecContext(t.ctx, s)
			return struct{}{}, err
		}); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// TestAuditListsAreBounded: lists end, counts do not.
func TestAuditListsAreBounded(t *testing.T) {
	l := openTest(t, Options{})
	show := testShow(t, l, 300)
	for i := range 300 {
		if _, err := l.InsertOrder(context.Background(), sale(show, fmt.Sprint("u", i), "k", seatflow.SeatID(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	rawExec(t, l, "UPDATE order_info SET state = 'cancelled'")
	a, err := l.Audit(context.Background())
	if err != nil || len(a.OrphanSeats) != auditList || a.ActiveSeats != 300 || a.Orders[seatflow.OrderCancelled] != 300 {
		t.Errorf("%d orphans listed, %d rows, %v", len(a.OrphanSeats), a.ActiveSeats, err)
	}
}
