package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"seatflow"
)

// showTable is quoted because SHOW is a word of some databases.
const showTable = "`show`"

// micros is an instant as it is stored: microseconds since 1970 UTC, 0 for
// the zero time. Callers see times rounded down to that.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func stored(t time.Time) time.Time { return instant(micros(t)) }

func nullText(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

func nullDigest(f seatflow.Fingerprint) driver.Value {
	if f == (seatflow.Fingerprint{}) {
		return nil
	}
	return f[:]
}

func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return seatflow.ErrNotFound
	}
	return err
}

const orderColumns = "no, show_id, user_id, okey, fingerprint, items, amount, currency, taken_at, deadline, cap_at, " +
	"created_at, updated_at, kind, state, device, reason, attempt, version, extended"

// scanner is a row, or the present one of several.
type scanner interface{ Scan(dest ...any) error }

// scanOrder reads orderColumns and what else the query selected after them.
func scanOrder(row scanner, more ...any) (seatflow.Order, error) {
	var (
		o                                           seatflow.Order
		key                                         sql.NullString
		fingerprint                                 []byte
		items                                       string
		taken, deadline, limit, created, updated, x int64
	)
	dest := [32]any{&o.No, &o.Show, &o.User, &key, &fingerprint, &items, &o.Total.Amount, &o.Total.Currency, &taken, &deadline,
		&limit, &created, &updated, &o.Kind, &o.State, &o.Device, &o.Reason, &o.Attempt, &o.Version, &x}
	n := 20 + copy(dest[20:], more)
	if err := row.Scan(dest[:n]...); err != nil {
		return seatflow.Order{}, notFound(err)
	}
	o.Key = key.String
	copy(o.Fingerprint[:], fingerprint)
	o.TakenAt, o.Deadline, o.Cap = instant(taken), instant(deadline), instant(limit)
	o.CreatedAt, o.UpdatedAt, o.Extended = instant(created), instant(updated), x != 0
	var err error
	if o.Items, err = parseItems(items); err != nil {
		return seatflow.Order{}, fmt.Errorf("order %s: %w", o.No, err)
	}
	return o, nil
}

// queryOrder reads the one order that a condition names; ErrNotFound.
func queryOrder(ctx context.Context, q querier, where string, args ...any) (seatflow.Order, error) {
	return scanOrder(q.QueryRowContext(ctx, "SELECT "+orderColumns+" FROM order_info WHERE "+where, args...))
}

// unread marks the error of a read that the database as a whole could not do:
// nothing was changed, and it may be asked again.
func (l *Ledger) unread(err *error) {
	if *err != nil && l.dialect.isDown(*err) && !errors.Is(*err, seatflow.ErrNotCommitted) {
		*err = fmt.Errorf("%w: %w", seatflow.ErrNotCommitted, *err)
	}
}

// queryAll reads every row of a query through scan.
func queryAll[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

func scanOnlyOrder(row scanner) (seatflow.Order, error) { return scanOrder(row) }

// prefixed puts a table's alias before each of a list of columns.
func prefixed(alias, columns string) string {
	return alias + strings.ReplaceAll(columns, ", ", ", "+alias)
}
