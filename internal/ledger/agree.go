package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Agree compares something that all who work on these facts must have alike.
// The first to ask under a name sets the value; everyone is told which value
// stands.
func (l *Ledger) Agree(ctx context.Context, name string, value int64) (stands int64, err error) {
	stands, err = change(ctx, l, 0, func(t *tx) (int64, error) {
		var there int64
		err := t.QueryRowContext(t.ctx, "SELECT value FROM meta WHERE name = ?"+t.w.d.forUpdate(), name).Scan(&there)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = t.exec("INSERT INTO meta (name, value) VALUES (?, ?)", name, value)
			return value, err
		}
		return there, err
	})
	if err != nil {
		return 0, fmt.Errorf("ledger: agree on %s: %w", name, err)
	}
	return stands, nil
}

// Disagree forgets what was agreed on under a name.
func (l *Ledger) Disagree(ctx context.Context, name string) error {
	_, err := change(ctx, l, 0, func(t *tx) (struct{}, error) {
		_, err := t.exec("DELETE FROM meta WHERE name = ?", name)
		return struct{}{}, err
	})
	return err
}
