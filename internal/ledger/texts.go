package ledger

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"seatflow"
)

// Over a network what counts is the number of statements, so a batch is
// written in a few long ones, each a text with its values in it. This file
// holds what is only done so. Row locks are taken by key, never by a scan that
// would wait for the rows of others: where a list of keys alone would leave
// that to the optimizer, the list is a table that is joined to.

const (
	// textBytes is about how long a statement gets; servers take at least a
	// megabyte, and more gains nothing.
	textBytes = 512 << 10
	// listMax is how many keys one list holds.
	listMax = 500
)

// manySteps are the numbers of rows that inserts are prepared for, which spares
// the server the parsing of most of a large batch; the rest is a text.
var manySteps = [...]int{256, 128, 64, 32}

// insertMany writes rows of several tables.
func (t *tx) insertMany(all []rowsOf) error {
	for _, rows := range all {
		values := rows.values
		if len(values)/rows.table.columns >= manySteps[len(manySteps)-1] {
			if err := t.w.conn.Raw(func(dc any) (err error) {
				values, err = t.w.insertSteps(t.ctx, dc, rows.table, values)
				return err
			}); err != nil {
				return err
			}
		}
		if err := t.w.insertText(t.ctx, rows.table, values); err != nil {
			return err
		}
	}
	return nil
}

// insertSteps writes as many rows as prepared statements are for, and returns
// the values of the others.
func (w *writer) insertSteps(ctx context.Context, dc any, table *insertTable, values []driver.NamedValue) ([]driver.NamedValue, error) {
	c, ok := dc.(driver.ConnPrepareContext)
	if !ok {
		return nil, fmt.Errorf("ledger: %T cannot prepare statements", dc)
	}
	for _, n := range manySteps {
		for len(values)/table.columns >= n {
			key := rawKey{table, n}
			s := w.raw[key]
			if s == nil {
				var err error
				if s, err = w.prepare(ctx, c, key, "INSERT INTO "+table.shortInto, table.shortRow); err != nil {
					if mysqlCode(err) != 0 {
						return values, nil // a server that keeps no more of them takes a text
					}
					return nil, err
				}
			}
			if err := execRows(ctx, s, values[:n*table.columns]); err != nil {
				return nil, err
			}
			values = values[n*table.columns:]
		}
	}
	return values, nil
}

// insertText writes rows by statements with their values in them.
func (w *writer) insertText(ctx context.Context, table *insertTable, values []driver.NamedValue) error {
	parts := strings.Split(table.shortRow, "?")
	for len(values) > 0 {
		b := append(append(w.text[:0], "INSERT INTO "...), table.shortInto...)
		for first := true; len(values) > 0 && len(b) < textBytes; first = false {
			if !first {
				b = append(b, ',')
			}
			b = append(b, parts[0]...)
			for i, part := range parts[1:] {
				var err error
				if b, err = appendLiteral(b, values[i].Value); err != nil {
					return err
				}
				b = append(b, part...)
			}
			values = values[table.columns:]
		}
		w.text = b
		if _, err := w.conn.ExecContext(ctx, string(b)); err != nil {
			return err
		}
	}
	if cap(w.text) > 4*textBytes {
		w.text = nil // one giant row need not be kept
	}
	return nil
}

// appendLiteral appends a value as the session's SQL mode and character set
// have it: quotes with backslashes, in UTF-8.
func appendLiteral(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(b, "NULL"...), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case string:
		return appendQuoted(b, v), nil
	case []byte:
		b = append(b, "x'"...)
		b = hex.AppendEncode(b, v)
		return append(b, '\''), nil
	}
	return nil, fmt.Errorf("ledger: no literal for %T", value)
}

// appendQuoted quotes a text. What is not UTF-8 goes as bytes, which columns of
// bytes take as they are.
func appendQuoted(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		return append(hex.AppendEncode(append(b, "x'"...), []byte(s)), '\'')
	}
	b = append(b, '\'')
	for i := range len(s) {
		switch c := s[i]; c {
		case 0:
			b = append(b, '\\', '0')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case 0x1a:
			b = append(b, '\\', 'Z')
		case '\'', '"', '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '\'')
}

// errShowLocked: the row of the one show that was asked about stayed locked.
var errShowLocked = errors.New("ledger: the show is locked by another transaction")

// read reads and locks the generations of every show that a batch sells, in
// one statement and in the order of their ids.
func (g generations) read(t *tx, batch []*op) error {
	var ids []int64
	for _, o := range batch {
		if o.insert == nil {
			continue
		}
		if _, ok := g[o.insert.Order.Show]; !ok {
			g[o.insert.Order.Show] = -1
			ids = append(ids, int64(o.insert.Order.Show))
		}
	}
	for list := range chunks(ids) {
		type row struct {
			id  seatflow.ShowID
			gen seatflow.Generation
		}
		rows, err := queryAll(t.ctx, t, func(s scanner) (r row, err error) {
			err = s.Scan(&r.id, &r.gen)
			return r, err
		}, "SELECT id, generation FROM "+showTable+" FORCE INDEX (PRIMARY) WHERE id IN ("+joinInts(list)+") ORDER BY id"+t.w.d.lockShow())
		if err != nil {
			if len(ids) == 1 && t.w.d.isLockWait(err) {
				err = fmt.Errorf("%w: %w", errShowLocked, err)
			}
			return err
		}
		for _, r := range rows {
			g[r.id] = r.gen
		}
	}
	return nil
}

// chunks cuts a list into pieces of listMax.
func chunks[T any](list []T) func(yield func([]T) bool) {
	return func(yield func([]T) bool) {
		for len(list) > 0 {
			n := min(len(list), listMax)
			if !yield(list[:n]) {
				return
			}
			list = list[n:]
		}
	}
}

func joinInts(ids []int64) string {
	b := make([]byte, 0, 12*len(ids))
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(b)
}

// table makes a list of numbers a table of one column, id.
func table(ids []int64) string {
	b := append(make([]byte, 0, 32*len(ids)), "(SELECT "...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, " UNION ALL SELECT "...)
		}
		b = strconv.AppendInt(b, id, 10)
		if i == 0 {
			b = append(b, " AS id"...)
		}
	}
	return string(append(b, ')'))
}

// userKey is a user's idempotency key.
type userKey struct {
	user seatflow.UserID
	key  string
}

func ordersByNo(ctx context.Context, q querier, nos []seatflow.OrderNo) (map[seatflow.OrderNo]seatflow.Order, error) {
	return ordersBy(ctx, q, "FORCE INDEX (PRIMARY) WHERE no IN ", nos,
		func(b []byte, no seatflow.OrderNo) []byte { return appendQuoted(b, string(no)) },
		func(o *seatflow.Order) seatflow.OrderNo { return o.No })
}

func ordersByKey(ctx context.Context, q querier, keys []userKey) (map[userKey]seatflow.Order, error) {
	return ordersBy(ctx, q, "FORCE INDEX (uk_order_info_user_key) WHERE (user_id, okey) IN ", keys,
		func(b []byte, k userKey) []byte {
			b = appendQuoted(append(b, '('), string(k.user))
			return append(appendQuoted(append(b, ','), k.key), ')')
		},
		func(o *seatflow.Order) userKey { return userKey{o.User, o.Key} })
}

// ordersBy reads the orders that a list of keys names.
func ordersBy[K comparable](ctx context.Context, q querier, where string, keys []K, literal func([]byte, K) []byte, key func(*seatflow.Order) K) (map[K]seatflow.Order, error) {
	found := map[K]seatflow.Order{}
	for list := range chunks(keys) {
		b := append(append(make([]byte, 0, 512+64*len(list)), "SELECT "+orderColumns+" FROM order_info "...), where...)
		for i, k := range list {
			sep := byte(',')
			if i == 0 {
				sep = '('
			}
			b = literal(append(b, sep), k)
		}
		orders, err := queryAll(ctx, q, scanOnlyOrder, string(append(b, ')')))
		if err != nil {
			return nil, err
		}
		for i := range orders {
			found[key(&orders[i])] = orders[i]
		}
	}
	return found, nil
}

// standing is what already stands in the way of a batch's new orders: rows,
// and the orders before them in the batch.
type standing struct {
	byNo  map[seatflow.OrderNo]seatflow.Order
	byKey map[userKey]seatflow.Order
	taken map[showSeat]bool
}

// standingRows reads, in a few statements, every row that could refuse one of
// a batch's orders.
func standingRows(t *tx, batch []*op) (*standing, error) {
	var (
		nos   []seatflow.OrderNo
		keys  []userKey
		seats []showSeat
		err   error
	)
	for _, o := range batch {
		if o.insert == nil {
			continue
		}
		n := &o.insert.Order
		nos = append(nos, n.No)
		if n.Key != "" {
			keys = append(keys, userKey{n.User, n.Key})
		}
		for i := range n.Items {
			seats = append(seats, showSeat{n.Show, n.Items[i].Seat})
		}
	}
	s := &standing{taken: map[showSeat]bool{}}
	if s.byNo, err = ordersByNo(t.ctx, t, nos); err != nil {
		return nil, err
	}
	if s.byKey, err = ordersByKey(t.ctx, t, keys); err != nil {
		return nil, err
	}
	return s, readTaken(t, seats, s.taken)
}

// readTaken reads which of some seats are occupied.
func readTaken(t *tx, seats []showSeat, taken map[showSeat]bool) error {
	for list := range chunks(seats) {
		b := append(make([]byte, 0, 128+16*len(list)), "SELECT show_id, seat_id FROM order_seat FORCE INDEX (PRIMARY) WHERE (show_id, seat_id) IN ("...)
		for i, s := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(b, '('), int64(s.show), 10)
			b = append(strconv.AppendInt(append(b, ','), int64(s.seat), 10), ')')
		}
		rows, err := queryAll(t.ctx, t, func(row scanner) (s showSeat, err error) {
			err = row.Scan(&s.show, &s.seat)
			return s, err
		}, string(append(b, ')')))
		if err != nil {
			return err
		}
		for _, s := range rows {
			taken[s] = true
		}
	}
	return nil
}

// refuse says exactly why an order cannot be inserted; an order that can be
// stands in the way of those after it.
func (s *standing) refuse(n *seatflow.NewOrder, gens generations) error {
	o := &n.Order
	key := userKey{o.User, o.Key}
	if there, ok := s.byNo[o.No]; ok {
		return &seatflow.OrderExistsError{Order: there}
	}
	if there, ok := s.byKey[key]; ok && o.Key != "" {
		return &seatflow.OrderExistsError{Order: there}
	}
	switch gen := gens[o.Show]; {
	case gen < 0:
		return fmt.Errorf("ledger: show %d: %w", o.Show, seatflow.ErrNotFound)
	case gen != n.Generation:
		return fmt.Errorf("ledger: show %d has generation %d, not %d: %w", o.Show, gen, n.Generation, seatflow.ErrStaleGeneration)
	}
	var taken []seatflow.SeatID
	for i := range o.Items {
		if s.taken[showSeat{o.Show, o.Items[i].Seat}] {
			taken = append(taken, o.Items[i].Seat)
		}
	}
	if len(taken) > 0 {
		return &seatflow.SeatConflictError{Seats: taken}
	}
	s.byNo[o.No] = *o
	if o.Key != "" {
		s.byKey[key] = *o
	}
	for i := range o.Items {
		s.taken[showSeat{o.Show, o.Items[i].Seat}] = true
	}
	return nil
}

// takenByList is takenSeats in few statements.
func takenByList(t *tx, show seatflow.ShowID, items []seatflow.OrderItem) ([]seatflow.SeatID, error) {
	seats := make([]showSeat, len(items))
	for i := range items {
		seats[i] = showSeat{show, items[i].Seat}
	}
	there := map[showSeat]bool{}
	if err := readTaken(t, seats, there); err != nil {
		return nil, err
	}
	var taken []seatflow.SeatID
	for _, s := range seats {
		if there[s] {
			taken = append(taken, s.seat)
		}
	}
	return taken, nil
}

// vacateByList is vacate in few statements.
func vacateByList(t *tx, o *seatflow.Order, seats []seatflow.SeatID) error {
	ids := make([]int64, len(seats))
	for i, s := range seats {
		ids[i] = int64(s)
	}
	for list := range chunks(ids) {
		r, err := t.exec("DELETE s FROM "+table(list)+" x STRAIGHT_JOIN order_seat s ON s.show_id = ? AND s.seat_id = x.id WHERE s.order_no = ?",
			int64(o.Show), string(o.No))
		if err != nil {
			return fmt.Errorf("order %s: %w", o.No, err)
		}
		n, err := r.RowsAffected()
		if err != nil {
			return err
		}
		if n != int64(len(list)) {
			return fmt.Errorf("order %s: %w: %d of %d seats were there", o.No, errLostRace, n, len(list))
		}
	}
	return nil
}

// deleteOutbox deletes rows of the outbox.
func deleteOutbox(t *tx, ids []int64) error {
	for list := range chunks(ids) {
		if _, err := t.exec("DELETE b FROM " + table(list) + " x STRAIGHT_JOIN outbox b ON b.id = x.id"); err != nil {
			return err
		}
	}
	return nil
}
