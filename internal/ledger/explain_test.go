package ledger

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestPlans: the reads that a crowd makes go by a key, and none sorts or scans
// what grows with the house. It asks about the statements that the methods
// have really prepared.
func TestPlans(t *testing.T) {
	l := openTest(t, Options{})
	ctx := context.Background()
	show := testShow(t, l, 3)
	o, err := l.InsertOrder(ctx, sale(show, "u", "k", 1))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		read func() error
		want []string // parts of the plan
	}{
		"orders of a user": {func() error { _, err := l.OrdersOf(ctx, "u", "", 10); return err },
			[]string{"USING COVERING INDEX uk_order_info_user_key (user_id=?)", "SEARCH order_info USING PRIMARY KEY (no=?)"}},
		"order by key": {func() error { _, err := l.OrderByKey(ctx, "u", "k"); return err },
			[]string{"USING INDEX uk_order_info_user_key (user_id=? AND okey=?)"}},
		"order": {func() error { _, err := l.Order(ctx, o.No, ""); return err },
			[]string{"SEARCH order_info USING PRIMARY KEY (no=?)"}},
		"history": {func() error { _, err := l.History(ctx, o.No); return err },
			[]string{"SEARCH o USING PRIMARY KEY (no=?)", "SEARCH e USING PRIMARY KEY (order_no=?)"}},
		"blocks": {func() error { _, err := l.Blocks(ctx, show.ID); return err },
			[]string{"USING INDEX ix_order_info_block (show_id=?)"}},
		"outbox": {func() error { _, err := l.Outbox(ctx, 10); return err },
			[]string{"SCAN b", "SEARCH e USING PRIMARY KEY (order_no=? AND version=?)", "SEARCH o USING PRIMARY KEY (no=?)"}},
		"payments of an order": {func() error { _, err := l.PaymentsOf(ctx, o.No); return err },
			[]string{"USING INDEX ix_payment_order (order_no=?)"}},
		"due refunds": {func() error { _, err := l.DueRefunds(ctx, 10); return err },
			[]string{"USING INDEX ix_refund_due"}},
		"unknown payments": {func() error { _, err := l.UnknownPayments(ctx, 5, 10); return err },
			[]string{"USING INDEX ix_payment_ending (ending=? AND id>?)"}},
		"shows": {func() error { _, err := l.Shows(ctx, show.ID, time.Time{}, 10); return err },
			[]string{"ix_show_starts"}},
	} {
		prepared := func() map[any]bool {
			m := map[any]bool{}
			l.reads.stmts.Range(func(query, _ any) bool { m[query] = true; return true })
			return m
		}
		before := prepared()
		if err := c.read(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plan string
		for query := range prepared() {
			if text := query.(string); !before[query] {
				plan += explain(t, l, text, strings.Count(text, "?"))
			}
		}
		for _, w := range c.want {
			if !strings.Contains(plan, w) {
				t.Errorf("%s: no %q in the plan:\n%s", name, w, plan)
			}
		}
		if strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s sorts:\n%s", name, plan)
		}
	}
	facts := explain(t, l, l.dialect.facts(), 1)
	for _, w := range []string{"SEARCH order_info USING PRIMARY KEY (no=?)", "SEARCH order_seat USING PRIMARY KEY (show_id=?)"} {
		if !strings.Contains(facts, w) {
			t.Errorf("facts: no %q in the plan:\n%s", w, facts)
		}
	}
}

func explain(t *testing.T, l *Ledger, query string, places int) string {
	t.Helper()
	args := make([]any, places)
	for i := range args {
		args[i] = "1"
	}
	rows, err := l.readDB.Query("EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
