package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// eventIDs gives numbers to events. They are reserved in blocks, so that no
// transaction writes the counter's row but one in many; numbers of a
// transaction that failed are not given again, since it may have committed
// after all.
type eventIDs struct {
	next     int64
	reserved int64 // numbers below are reserved in the database
}

const eventBlock = 10_000

func (e *eventIDs) load(ctx context.Context, db *sql.DB) error {
	err := db.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'next_event'").Scan(&e.next)
	if errors.Is(err, sql.ErrNoRows) {
		e.next, err = 1, nil
	}
	if err != nil {
		return fmt.Errorf("ledger: event numbers: %w", err)
	}
	e.reserved = e.next
	return nil
}

// failed notes that a reservation may be gone with its transaction.
func (e *eventIDs) failed() { e.reserved = e.next }

// eventIDs returns the first of n consecutive numbers.
func (l *Ledger) eventIDs(t *tx, n int) (int64, error) {
	e := &l.events
	first := e.next
	if first+int64(n) > e.reserved {
		reserved := first + int64(n) + eventBlock
		r, err := t.exec("UPDATE meta SET value = ? WHERE name = 'next_event'", reserved)
		if err != nil {
			return 0, err
		}
		if changed, err := r.RowsAffected(); err != nil {
			return 0, err
		} else if changed == 0 {
			if _, err := t.exec("INSERT INTO meta (name, value) VALUES ('next_event', ?)", reserved); err != nil {
				return 0, err
			}
		}
		e.reserved = reserved
	}
	e.next = first + int64(n)
	return first, nil
}
