package ledger

import (
	"context"
	"database/sql"
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
}

// A new order's rows. What is the same for every sale, or every block, stands
// in the statement: a value that need not be bound is a tenth of a microsecond.
var (
	saleTable    = newOrderTable("'sale','pending'")
	blockTable   = newOrderTable("'block','blocked'")
	createdTable = newEventTable("'order.created','pending'")
	blockedTable = newEventTable("'seats.blocked','blocked'")
	seatTable    = &insertTable{into: "order_seat (show_id, seat_id, order_no) VALUES ", row: "(?,?,?)", columns: 3}
	outboxTable  = &insertTable{into: "outbox (id, order_no, version) VALUES ", row: "(?,?,1)", columns: 2}
)

func newOrderTable(kindAndState string) *insertTable {
	return &insertTable{
		into: "order_info (no, show_id, user_id, okey, fingerprint, items, amount, currency, taken_at, deadline, cap_at, " +
			"created_at, updated_at, device, reason, kind, state, attempt, version, extended) VALUES ",
		row: "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?," + kindAndState + ",1,1,0)", columns: 15,
	}
}

func newEventTable(typeAndState string) *insertTable {
	return &insertTable{
		into: "order_event (order_no, id, actor_user, actor_role, trace_id, span_id, device, at, type, to_state, from_state, version) VALUES ",
		row:  "(?,?,?,?,?,?,?,?," + typeAndState + ",'',1)", columns: 8,
	}
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
			prepared, err := dc.PrepareContext(ctx, verb+table.into+strings.TrimSuffix(strings.Repeat(table.row+",", n), ","))
			if err != nil {
				return err
			}
			var ok bool
			if s, ok = prepared.(rawStmt); !ok {
				return fmt.Errorf("ledger: %T cannot be executed", prepared)
			}
			w.raw[key] = s
		}
		chunk := values[:n*table.columns]
		for i := range chunk {
			chunk[i].Ordinal = i + 1
		}
		if _, err := s.ExecContext(ctx, chunk); err != nil {
			return err
		}
		values = values[n*table.columns:]
	}
	return nil
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
	b := &l.buffers
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
		id++
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

// generations remembers each show's generation within a transaction: it is
// read, and locked, once a show a batch.
type generations map[seatflow.ShowID]seatflow.Generation

// of returns a show's generation, or -1 when there is no such show.
func (g generations) of(t *tx, show seatflow.ShowID) (seatflow.Generation, error) {
	if gen, ok := g[show]; ok {
		return gen, nil
	}
	var gen seatflow.Generation
	err := t.QueryRowContext(t.ctx, "SELECT generation FROM "+showTable+" WHERE id = ?"+t.w.d.lockShow(), int64(show)).Scan(&gen)
	if errors.Is(err, sql.ErrNoRows) {
		gen, err = -1, nil
	}
	if err == nil {
		g[show] = gen
	}
	return gen, err
}

// refuse says exactly why an order cannot be inserted, or nil.
func (l *Ledger) refuse(t *tx, n *seatflow.NewOrder, gens generations) error {
	o := &n.Order
	there, err := queryOrder(t.ctx, t, "no = ?", string(o.No))
	if errors.Is(err, seatflow.ErrNotFound) && o.Key != "" {
		there, err = queryOrder(t.ctx, t, "user_id = ? AND okey = ?", string(o.User), o.Key)
	}
	if err == nil {
		return domainError{&seatflow.OrderExistsError{Order: there}}
	}
	if !errors.Is(err, seatflow.ErrNotFound) {
		return err
	}
	gen, err := gens.of(t, o.Show)
	if err != nil {
		return err
	}
	if gen < 0 {
		return domainError{fmt.Errorf("ledger: show %d: %w", o.Show, seatflow.ErrNotFound)}
	}
	if gen != n.Generation {
		return domainError{fmt.Errorf("ledger: show %d has generation %d, not %d: %w", o.Show, gen, n.Generation, seatflow.ErrStaleGeneration)}
	}
	taken, err := takenSeats(t, o.Show, o.Items)
	if err != nil {
		return err
	}
	if len(taken) > 0 {
		return domainError{&seatflow.SeatConflictError{Seats: taken}}
	}
	return nil
}

// takenSeats returns which of the items' seats have a row.
func takenSeats(t *tx, show seatflow.ShowID, items []seatflow.OrderItem) ([]seatflow.SeatID, error) {
	var taken []seatflow.SeatID
	for i := range items {
		var one int
		err := t.QueryRowContext(t.ctx, "SELECT 1 FROM order_seat WHERE show_id = ? AND seat_id = ?", int64(show), int64(items[i].Seat)).Scan(&one)
		switch {
		case err == nil:
			taken = append(taken, items[i].Seat)
		case !errors.Is(err, sql.ErrNoRows):
			return nil, err
		}
	}
	return taken, nil
}

// write runs a batch as one transaction. Answers that concern one op go into
// errs; the returned error concerns all. look: check every insert before it
// is written; otherwise errDuplicate may be returned.
func (l *Ledger) write(batch []*op, errs []error, look bool) error {
	ctx := context.Background() // a batch belongs to no caller
	t, err := l.writer.begin(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w: %w", seatflow.ErrNotCommitted, errNoTransaction, err)
	}
	if err := l.writeOps(t, batch, errs, look); err != nil {
		_, ends := l.dialect.insertOrRollback()
		t.rollback(ends && errors.Is(err, errDuplicate))
		l.events.failed()
		return fmt.Errorf("%w: %w", seatflow.ErrNotCommitted, err)
	}
	if err := t.commit(); err != nil {
		sure := l.dialect.certainlyNotCommitted(err)
		t.rollback(false)
		l.events.failed()
		if sure {
			return fmt.Errorf("%w: commit: %w", seatflow.ErrNotCommitted, err)
		}
		return fmt.Errorf("%w: commit: %w", seatflow.ErrUnknownCommit, err)
	}
	return nil
}

func (l *Ledger) writeOps(t *tx, batch []*op, errs []error, look bool) error {
	gens := generations{}
	orders := l.buffers.orders[:0]
	defer func() { clear(orders); l.buffers.orders = orders }()
	for i, o := range batch {
		if o.insert == nil {
			continue
		}
		bad := look
		if !bad {
			gen, err := gens.of(t, o.insert.Order.Show)
			if err != nil {
				return err
			}
			bad = gen < 0 || gen != o.insert.Generation
		}
		if bad {
			err := l.refuse(t, o.insert, gens)
			if err != nil {
				var own domainError
				if !errors.As(err, &own) {
					return err
				}
				errs[i] = own.error
				continue
			}
		}
		orders = append(orders, o.insert)
		if look {
			if err := l.insertOrders(t, orders); err != nil {
				return err
			}
			orders = orders[:0]
		}
	}
	if err := l.insertOrders(t, orders); err != nil {
		return err
	}
	for i, o := range batch {
		if o.do == nil {
			continue
		}
		if err := o.do(t); err != nil {
			var own domainError
			if !errors.As(err, &own) {
				return err
			}
			errs[i] = own.error
		}
	}
	return nil
}
