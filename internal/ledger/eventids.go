package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// eventIDs gives numbers to events. They are reserved in blocks, so that no
// transaction writes the counter's row but one in many; numbers of a
// transaction that failed are not given again, since it may have committed
// after all.
//
// Where several processes write, nobody counts: a number is the microsecond at
// which it was given, shifted by a number of the process, so that no process
// waits for another and numbers still come in about the order of time.
type eventIDs struct {
	next     int64
	reserved int64 // numbers below are reserved in the database
	step     int64 // from one number to the next

	clocked bool
	node    int64        // of this process
	last    atomic.Int64 // microsecond last given
}

const (
	eventBlock = 10_000
	// eventNodes is how many processes can be told apart. A number of a
	// process is given again after so many were started; should both be at
	// work still and give the same microsecond, a key refuses the second and
	// its transaction runs again.
	eventNodes = 1 << 12
)

// eventEpoch is the instant from which microseconds count, so that numbers
// last until 2095.
var eventEpoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// take returns the first of n consecutive microseconds that were not given yet.
func (e *eventIDs) take(n int) int64 {
	for {
		last := e.last.Load()
		first := max(last+1, time.Now().UnixMicro()-eventEpoch)
		if e.last.CompareAndSwap(last, first+int64(n)-1) {
			return first*eventNodes + e.node
		}
	}
}

// join gives this process its number.
func (e *eventIDs) join(ctx context.Context, l *Ledger) error {
	node, err := change(ctx, l, 0, func(t *tx) (int64, error) {
		var n int64
		err := t.QueryRowContext(t.ctx, "SELECT value FROM meta WHERE name = 'nodes'"+t.w.d.forUpdate()).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = t.exec("INSERT INTO meta (name, value) VALUES ('nodes', 0)")
			return 0, err
		}
		if err != nil {
			return 0, err
		}
		return n + 1, t.execOne("UPDATE meta SET value = value + 1 WHERE name = 'nodes'")
	})
	if err != nil {
		return fmt.Errorf("ledger: number of this process: %w", err)
	}
	e.node = node % eventNodes
	return nil
}

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
func (e *eventIDs) failed() {
	if !e.clocked {
		e.reserved = e.next
	}
}

// eventIDs returns the first of n consecutive numbers.
func (l *Ledger) eventIDs(t *tx, n int) (int64, error) {
	e := &l.events
	if e.clocked {
		return e.take(n), nil
	}
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
