package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"seatflow"
)

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
	if t.w.d.texts() && len(items) > 1 {
		return takenByList(t, show, items)
	}
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
func (l *Ledger) write(w *writer, batch []*op, errs []error, look bool) error {
	t, err := w.begin(context.Background()) // a batch belongs to no caller
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
	l.worked.Add(1)
	return nil
}

func (l *Ledger) writeOps(t *tx, batch []*op, errs []error, look bool) error {
	gens := generations{}
	orders := t.w.buffers.orders[:0]
	defer func() { clear(orders); t.w.buffers.orders = orders }()
	var found *standing
	if t.w.d.texts() {
		if err := gens.read(t, batch); err != nil {
			return err
		}
		if look {
			var err error
			if found, err = standingRows(t, batch); err != nil {
				return err
			}
		}
	}
	for i, o := range batch {
		if o.insert == nil {
			continue
		}
		if found != nil {
			if errs[i] = found.refuse(o.insert, gens); errs[i] == nil {
				orders = append(orders, o.insert)
			}
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
