package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// TestMySQLPlans lets the server write down every statement of a ledger at
// work and asks it how it carries each out: none may read a table, or an index,
// from end to end, nor lock what is not its own on the way.
func TestMySQLPlans(t *testing.T) {
	m := testkit.SharedMariaDB(t)
	l := openMySQL(t, m.NewDatabase(t), Options{})
	ctx := context.Background()
	show := testShow(t, l, 3000)
	other := testShow(t, l, 10)
	errs := make(chan error, 2000)
	for i := range 2000 {
		go func() {
			_, err := l.InsertOrder(ctx, sale(show, fmt.Sprint("u", i%700), fmt.Sprint("k", i), seatflow.SeatID(i+1)))
			errs <- err
		}()
	}
	for range 2000 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	rawExecMySQL(t, l,
		"INSERT INTO payment (provider, event_id, capture_id, type, order_no, amount, currency, event_at, ending, created_at) "+
			"SELECT 'q', seq, seq, 'payment.captured', CONCAT('x', seq), 1, 'EUR', 0, IF(seq % 10 = 0, 'unknown', 'paid'), 0 FROM seq_1_to_2000",
		"INSERT INTO refund SELECT seq, 'q', seq, CONCAT('x', seq), 1, 'EUR', 'staff', IF(seq % 20 = 0, 0, 1), seq, 0 FROM seq_1_to_2000",
		"INSERT INTO `show` SELECT seq + 100, hall_id, plan_version, title, starts + seq, ends + seq, sale_from, sale_until, currency, prices, limit_per_user, "+
			"hold_for, hold_cap, extend_by, status, partition_no, generation, version, created_at FROM `show`, seq_1_to_1000 WHERE id = 1",
		"INSERT INTO reconcile_repair (round_id, seq, at, drift, show_id, order_no, seats, was, became, cause, counted) "+
			"SELECT 'q', seq, 0, '', seq % 7, '', '', '', '', '', 0 FROM seq_1_to_1000")
	for _, table := range []string{"reconcile_repair", "order_info", "order_seat", "order_event", "outbox", "payment", "refund", "seat", "`show`"} {
		rawExecMySQL(t, l, "ANALYZE TABLE "+table)
	}
	m.SetGlobal(t, "log_output", "TABLE")
	m.SetGlobal(t, "general_log", "ON")
	rawExecMySQL(t, l, "TRUNCATE TABLE mysql.general_log")
	work(t, l, show, other)
	rawExecMySQL(t, l, "SET GLOBAL general_log = OFF")

	verb := regexp.MustCompile(`(?s)^(SELECT|UPDATE|DELETE) .*(order_|outbox|payment|refund|show|seat|hall|reconcile_)`)
	shape := regexp.MustCompile(`'[^']*'|\b\d+\b|(UNION ALL SELECT N?,?)+`)
	seen := map[string]bool{}
	for _, s := range rawTexts(t, l, "SELECT argument FROM mysql.general_log WHERE command_type IN ('Query', 'Execute')") {
		if !verb.MatchString(s) || strings.Contains(s, "information_schema") || strings.Contains(s, "goose") {
			continue
		}
		if kind := shape.ReplaceAllString(s, "?"); seen[kind] {
			continue
		} else {
			seen[kind] = true
		}
		checkPlan(t, l, s)
	}
	if len(seen) < 35 {
		t.Errorf("only %d statements were seen: is this what was to be looked at?", len(seen))
	}
	// The check can fail.
	if scans := planScans(t, l, "SELECT no FROM order_info WHERE device = 'web'"); len(scans) == 0 {
		t.Error("a scan was not noticed")
	}
}

func checkPlan(t *testing.T, l *Ledger, statement string) {
	t.Helper()
	for _, s := range planScans(t, l, statement) {
		table, _, _ := strings.Cut(s, " ")
		switch {
		case strings.HasPrefix(table, "<"), table == "NULL", table == "x" && strings.Contains(s, "ALL"):
			// A list that the statement itself brought.
		case strings.HasPrefix(s, "b index PRIMARY") && strings.Contains(statement, "FROM outbox b"), strings.HasPrefix(s, "show index ix_show_starts"),
			strings.HasPrefix(s, "reconcile_repair index PRIMARY"):
			// In the order of a key, as far as the limit.
			if !strings.Contains(statement, " LIMIT ") {
				t.Errorf("%s\n\twithout a limit: %s", statement, s)
			}
		default:
			t.Errorf("%.300s\n\tscans: %s", statement, s)
		}
	}
}

// planScans returns the tables that a statement reads from end to end.
func planScans(t *testing.T, l *Ledger, statement string) []string {
	t.Helper()
	rows, err := l.readDB.Query("EXPLAIN " + statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	var scans []string
	for rows.Next() {
		var id, kind, table, access, possible, key, length, ref, n, extra *string
		if err := rows.Scan(&id, &kind, &table, &access, &possible, &key, &length, &ref, &n, &extra); err != nil {
			t.Fatal(err)
		}
		text := func(s *string) string {
			if s == nil {
				return "NULL"
			}
			return *s
		}
		if a := text(access); a == "ALL" || a == "index" {
			scans = append(scans, fmt.Sprintf("%s %s %s (%s rows; %s)", text(table), a, text(key), text(n), text(extra)))
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return scans
}

// work calls what a server calls, each thing once at least.
func work(t *testing.T, l *Ledger, show, other seatflow.Show) {
	t.Helper()
	ctx := context.Background()
	check := func(what string, err error, allowed ...error) {
		t.Helper()
		if err != nil && !slices.ContainsFunc(allowed, func(a error) bool { return errors.Is(err, a) }) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	insert := func(user, key string, seats ...seatflow.SeatID) seatflow.Order {
		t.Helper()
		o, err := l.InsertOrder(ctx, sale(show, user, key, seats...))
		check("insert", err)
		return o
	}
	capture := func(o seatflow.Order, id string) {
		t.Helper()
		_, err := l.RecordPayment(ctx, seatflow.PaymentEvent{Provider: "p", EventID: id, CaptureID: id, Type: seatflow.PaymentCaptured, Order: o.No,
			Amount: o.Total}, seatflow.System("t"))
		check("payment", err)
	}
	one, two := insert("u1", "a", 2001, 2002, 2003), insert("u1", "b", 2004, 2005)
	_, err := l.InsertOrder(ctx, sale(show, "u2", "a", 2001, 2006))
	var conflict *seatflow.SeatConflictError
	if !errors.As(err, &conflict) {
		t.Fatal(err)
	}
	for _, o := range []seatflow.Order{one, two} {
		c := seatflow.OrderChange{No: o.No, User: "u1"}
		_, err = l.StartPayment(ctx, c, o.Deadline.Add(time.Minute))
		check("start", err)
		_, err = l.ExtendOrder(ctx, c, o.Deadline, o.Deadline.Add(2*time.Minute))
		check("extend", err, seatflow.ErrWrongState)
	}
	capture(one, "one")
	_, _, err = l.RefundSeats(ctx, seatflow.OrderChange{No: one.No}, []seatflow.SeatID{2001, 2002})
	check("refund", err)
	_, err = l.CancelOrder(ctx, seatflow.OrderChange{No: two.No})
	check("cancel", err)
	capture(two, "two") // seated again
	capture(two, "two")
	capture(seatflow.Order{No: newNo()}, "nobody's")
	three := insert("u3", "c", 2010)
	_, err = l.ExpireOrder(ctx, seatflow.OrderChange{No: three.No}, three.Deadline)
	check("expire", err)
	_, err = l.VoidOrder(ctx, newNo(), show.ID, seatflow.System("t"))
	check("void", err)
	block := sale(show, "staff", "", 2020, 2021, 2022)
	block.Order.Kind = seatflow.KindBlock
	_, err = l.InsertOrder(ctx, block)
	check("block", err)
	_, err = l.Blocks(ctx, show.ID)
	check("blocks", err)
	_, err = l.UnblockSeats(ctx, seatflow.OrderChange{No: block.Order.No}, []seatflow.SeatID{2020})
	check("unblock", err)
	_, err = l.OrderByKey(ctx, "u1", "a")
	check("by key", err)
	_, err = l.OrderByKey(ctx, "u1", "never")
	check("by key", err, seatflow.ErrNotFound)
	_, err = l.Order(ctx, one.No, "u1")
	check("order", err)
	_, err = l.OrdersOf(ctx, "u1", "", 10)
	check("orders", err)
	_, err = l.History(ctx, one.No)
	check("history", err)
	_, err = l.PaymentsOf(ctx, one.No)
	check("payments", err)
	_, err = l.UnknownPayments(ctx, 0, 10)
	check("unknown", err)
	due, err := l.DueRefunds(ctx, 10)
	check("refunds", err)
	for _, r := range due {
		check("refund done", l.RefundDone(ctx, r.ID))
	}
	events, err := l.Outbox(ctx, 100)
	check("outbox", err)
	var ids []int64
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	check("outbox done", l.OutboxDone(ctx, ids))
	_, err = l.Facts(ctx, show.ID)
	check("facts", err)
	_, err = l.RaiseGeneration(ctx, other.ID, other.Generation)
	check("raise", err)
	_, err = l.Show(ctx, other.ID)
	check("show", err)
	other, err = l.UpdateShow(ctx, other)
	check("update", err)
	other.Partition++
	_, err = l.UpdateShow(ctx, other)
	check("move", err)
	_, err = l.Shows(ctx, show.ID, time.Time{}, 10)
	check("shows", err)
	_, err = l.Shows(ctx, 0, time.Now(), 10)
	check("shows", err)
	_, err = l.Hall(ctx, show.Hall)
	check("hall", err)
	_, err = l.Plan(ctx, show.Hall, 0)
	check("plan", err)
	check("repairs", l.RecordRepairs(ctx, []seatflow.RepairRecord{{Round: "r", Seq: 1, At: time.Now(), Show: show.ID, Count: 1}}))
	_, err = l.RepairsOf(ctx, show.ID, 0, 10)
	check("repairs of", err)
}
