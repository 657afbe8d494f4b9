package ledger

import (
	"context"
	"slices"

	"seatflow"
)

// Outbox implements [seatflow.Outbox].
func (l *Ledger) Outbox(ctx context.Context, limit int) (_ []seatflow.OutboxEvent, err error) {
	defer l.unread(&err)
	return queryAll(ctx, &l.reads, func(row scanner) (seatflow.OutboxEvent, error) {
		var (
			e     seatflow.OutboxEvent
			items string
			err   error
		)
		// The row is scanned once, into the event and the order together.
		e.Order, err = scanOrder(scanFunc(func(dest ...any) error {
			e.Event, err = scanEvent(row, &items, append([]any{&e.ID}, dest...)...)
			return err
		}))
		return e, err
	}, "SELECT "+eventColumns+", o.items, b.id, "+prefixed("o.", orderColumns)+
		" FROM outbox b"+l.dialect.join()+"order_event e ON e.order_no = b.order_no AND e.version = b.version"+
		l.dialect.join()+"order_info o ON o.no = b.order_no ORDER BY b.id LIMIT ?",
		bounded(limit))
}

// scanFunc is a row that is scanned by a function.
type scanFunc func(dest ...any) error

// Scan implements scanner.
func (f scanFunc) Scan(dest ...any) error { return f(dest...) }

// OutboxDone implements [seatflow.Outbox].
func (l *Ledger) OutboxDone(ctx context.Context, ids []int64) error {
	ids = slices.Clone(ids)
	_, err := change(ctx, l, 8*len(ids), func(t *tx) (struct{}, error) {
		if t.w.d.texts() {
			return struct{}{}, deleteOutbox(t, ids)
		}
		for _, id := range ids {
			if _, err := t.exec("DELETE FROM outbox WHERE id = ?", id); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}
