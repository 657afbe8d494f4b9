package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"seatflow"
)

// RaiseGeneration implements [seatflow.FactsReader].
func (l *Ledger) RaiseGeneration(ctx context.Context, show seatflow.ShowID, seen seatflow.Generation) (seatflow.Generation, error) {
	return change(ctx, l, 0, func(t *tx) (seatflow.Generation, error) {
		var gen seatflow.Generation
		err := t.QueryRowContext(t.ctx, "SELECT generation FROM "+showTable+" WHERE id = ?"+l.dialect.forUpdate(), int64(show)).Scan(&gen)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, domainError{fmt.Errorf("ledger: show %d: %w", show, seatflow.ErrNotFound)}
		}
		if err != nil {
			return 0, err
		}
		if gen != seen {
			return gen, domainError{fmt.Errorf("ledger: show %d has generation %d, not %d: %w", show, gen, seen, seatflow.ErrStaleGeneration)}
		}
		return gen + 1, t.execOne("UPDATE "+showTable+" SET generation = generation + 1 WHERE id = ? AND generation = ?", int64(show), int64(gen))
	})
}

// Facts implements [seatflow.FactsReader].
func (l *Ledger) Facts(ctx context.Context, show seatflow.ShowID) (_ seatflow.Facts, err error) {
	defer l.unread(&err)
	var f seatflow.Facts
	err = l.consistently(ctx, func(q querier) (err error) {
		if f.Show, err = scanShow(q.QueryRowContext(ctx, "SELECT "+showColumns+" FROM "+showTable+" WHERE id = ?", int64(show))); err != nil {
			return err
		}
		f.Generation = f.Show.Generation
		f.Orders, err = queryAll(ctx, q, scanOnlyOrder, l.dialect.facts(), int64(show))
		return err
	})
	return f, err
}

// consistently runs reads on one snapshot of the database.
func (l *Ledger) consistently(ctx context.Context, read func(q querier) error) error {
	t, err := l.readDB.BeginTx(ctx, l.dialect.snapshot())
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }() // it only read
	return read(t)
}
