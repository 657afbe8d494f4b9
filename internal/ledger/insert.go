package ledger

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"seatflow"
)

// errDuplicate: a key refused a row of a batch that was written without
// looking first.
var errDuplicate = errors.New("ledger: duplicate row")

// errNoTransaction: one could not even begin.
var errNoTransaction = errors.New("ledger: no transaction")

// insertTable is a table that batches of rows are inserted into by multi-row
// statements.
type insertTable struct {
	into    string // table and columns
	row     string // one row's values
	columns int    // placeholders in row

	// Where statements go over a network, what is the same in every row is
	// left to the column's default: a value that is not sent is not parsed.
	shortInto, shortRow string
}

// A new order's rows. What is the same for every sale, or every block, stands
// in the statement: a value that need not be bound is a tenth of a microsecond.
var (
	saleTable    = newInsertTable("order_info", orderBound, 15, "kind, state, attempt, version, extended", "'sale','pending',1,1,0", true)
	blockTable   = newInsertTable("order_info", orderBound, 15, "kind, state, attempt, version, extended", "'block','blocked',1,1,0", false)
	createdTable = newInsertTable("order_event", eventBound, 8, "type, to_state, from_state, version", "'order.created','pending','',1", true)
	blockedTable = newInsertTable("order_event", eventBound, 8, "type, to_state, from_state, version", "'seats.blocked','blocked','',1", false)
	seatTable    = newInsertTable("order_seat", "show_id, seat_id, order_no", 3, "", "", false)
	outboxTable  = newInsertTable("outbox", "id, order_no", 2, "version", "1", true)
)

const (
	orderBound = "no, show_id, user_id, okey, fingerprint, items, amount, currency, taken_at, deadline, cap_at, created_at, updated_at, device, reason"
	eventBound = "order_no, id, actor_user, actor_role, trace_id, span_id, device, at"
)

// newInsertTable describes rows of n bound columns and some with the same
// values in every row; defaults says that short statements need not have those.
func newInsertTable(name, bound string, n int, fixed, values string, defaults bool) *insertTable {
	places := strings.TrimSuffix(strings.Repeat("?,", n), ",")
	t := &insertTable{columns: n, shortInto: name + " (" + bound + ") VALUES ", shortRow: "(" + places + ")"}
	t.into, t.row = t.shortInto, t.shortRow
	if fixed != "" {
		t.into, t.row = name+" ("+bound+", "+fixed+") VALUES ", "("+places+","+values+")"
	}
	if !defaults {
		t.shortInto, t.shortRow = t.into, t.row
	}
	return t
}

// rowSteps are the numbers of rows that statements are prepared for; a batch
// is cut into these.
var rowSteps = [...]int{32, 16, 8, 4, 2, 1}

// rowsOf is rows of a table, their values one after another.
type rowsOf struct {
	table  *insertTable
	values []driver.NamedValue
}

// insertRows writes rows of several tables.
func (t *tx) insertRows(all ...rowsOf) error {
	if t.w.d.texts() {
		return t.insertMany(all)
	}
	return t.w.conn.Raw(func(dc any) error {
		c, ok := dc.(driver.ConnPrepareContext)
		if !ok {
			return fmt.Errorf("ledger: %T cannot prepare statements", dc)
		}
		for _, rows := range all {
			if err := t.w.insertRows(t.ctx, c, rows.table, rows.values); err != nil {
				return err
			}
		}
		return nil
	})
}

// insertRows writes rows (their values one after another) through statements
// on the driver's connection itself: database/sql costs as much a row as
// SQLite.
func (w *writer) insertRows(ctx context.Context, dc driver.ConnPrepareContext, table *insertTable, values []driver.NamedValue) error {
	for len(values) > 0 {
		left := len(values) / table.columns
		n := 1
		for _, step := range rowSteps {
			if step <= left {
				n = step
				break
			}
		}
		key := rawKey{table, n}
		s := w.raw[key]
		if s == nil {
			verb, _ := w.d.insertOrRollback()
			var err error
			if s, err = w.prepare(ctx, dc, key, verb+table.into, table.row); err != nil {
				return err
			}
		}
		if err := execRows(ctx, s, values[:n*table.columns]); err != nil {
			return err
		}
		values = values[n*table.columns:]
	}
	return nil
}

// prepare prepares an insert of several rows, and keeps it.
func (w *writer) prepare(ctx context.Context, dc driver.ConnPrepareContext, key rawKey, into, row string) (rawStmt, error) {
	prepared, err := dc.PrepareContext(ctx, into+strings.TrimSuffix(strings.Repeat(row+",", key.rows), ","))
	if err != nil {
		return nil, err
	}
	s, ok := prepared.(rawStmt)
	if !ok {
		return nil, fmt.Errorf("ledger: %T cannot be executed", prepared)
	}
	w.raw[key] = s
	return s, nil
}

func execRows(ctx context.Context, s rawStmt, values []driver.NamedValue) error {
	for i := range values {
		values[i].Ordinal = i + 1
	}
	_, err := s.ExecContext(ctx, values)
	return err
}

// rawStmt is a statement of a driver.
type rawStmt interface {
	driver.Stmt
	driver.StmtExecContext
}

func appendValues(to []driver.NamedValue, values ...driver.Value) []driver.NamedValue {
	for _, v := range values {
		to = append(to, driver.NamedValue{Value: v})
	}
	return to
}

// insertBuffers are reused from batch to batch.
type insertBuffers struct {
	orders                          []*seatflow.NewOrder
	seats                           []seatRow
	sales, blocks, created, blocked []driver.NamedValue
	seat, outbox                    []driver.NamedValue
}

type seatRow struct {
	show seatflow.ShowID
	seat seatflow.SeatID
	no   driver.Value
}

// unless returns nil, which is NULL, or a text.
func unless(same bool, s string) driver.Value {
	if same {
		return nil
	}
	return s
}

// insertOrders writes the rows of orders that were checked as far as the
// caller wants. errDuplicate: the transaction has ended.
func (l *Ledger) insertOrders(t *tx, orders []*seatflow.NewOrder) error {
	if len(orders) == 0 {
		return nil
	}
	b := &t.w.buffers
	b.sales, b.blocks, b.created, b.blocked = b.sales[:0], b.blocks[:0], b.created[:0], b.blocked[:0]
	b.seat, b.outbox, b.seats = b.seat[:0], b.outbox[:0], b.seats[:0]
	id, err := l.eventIDs(t, len(orders))
	if err != nil {
		return err
	}
	for _, n := range orders {
		o := &n.Order
		no := driver.Value(string(o.No)) // boxed once for its four rows
		info, event := &b.sales, &b.created
		if o.Kind == seatflow.KindBlock {
			info, event = &b.blocks, &b.blocked
		}
		created := driver.Value(micros(o.CreatedAt))
		*info = appendValues(*info, no, int64(o.Show), string(o.User), nullText(o.Key), nullDigest(o.Fingerprint),
			formatItems(o.Items), o.Total.Amount, o.Total.Currency, micros(o.TakenAt), micros(o.Deadline), micros(o.Cap),
			created, created, string(o.Device), o.Reason)
		for i := range o.Items {
			b.seats = append(b.seats, seatRow{o.Show, o.Items[i].Seat, no})
		}
		*event = appendValues(*event, no, id, unless(n.Actor.User == o.User, string(n.Actor.User)), string(n.Actor.Role),
			nullText(n.Actor.TraceID), nullText(n.Actor.SpanID), unless(n.Actor.Device == o.Device, string(n.Actor.Device)), created)
		b.outbox = appendValues(b.outbox, id, no)
		id += l.events.step
	}
	// In seat order, so that writers of other nodes lock in the same order.
	slices.SortFunc(b.seats, func(x, y seatRow) int {
		if x.show != y.show {
			return int(min(max(x.show-y.show, -1), 1))
		}
		return int(x.seat) - int(y.seat)
	})
	for _, s := range b.seats {
		b.seat = appendValues(b.seat, int64(s.show), int64(s.seat), s.no)
	}
	err = t.insertRows(rowsOf{saleTable, b.sales}, rowsOf{blockTable, b.blocks}, rowsOf{seatTable, b.seat},
		rowsOf{createdTable, b.created}, rowsOf{blockedTable, b.blocked}, rowsOf{outboxTable, b.outbox})
	if err != nil && l.dialect.isDuplicate(err) {
		return fmt.Errorf("%w: %w", errDuplicate, err)
	}
	return err
}
