package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
)

// The log of committed transactions has to be copied into the database now and
// then, and begins anew only when all of it was copied while nobody wrote. Were
// that left to the commit that happens to pass a threshold, its callers would
// wait for thousands of pages. So a connection of its own copies beside the
// writer, and the committer only finishes: it copies what came meanwhile,
// between two transactions.
type checkpointer struct {
	db     *sql.DB
	wake   chan struct{}
	finish atomic.Bool // the committer should copy the rest
	since  int         // changes since the last wake; the committer's

	pages, rest, every int // the constants below; fewer in tests
}

const (
	// checkpointPages is how long the log grows before it is copied: long
	// enough that hot pages are copied once for many commits.
	checkpointPages = 4000
	// finishPages is what the committer may be asked to copy itself, a few
	// milliseconds' worth.
	finishPages = 500
	// checkpointRounds bounds the rounds that try to get the rest below
	// finishPages while the writer goes on.
	checkpointRounds = 3
	// checkpointAnyway is where the writer copies after all, should the
	// checkpointer not work.
	checkpointAnyway = 40_000
	// checkpointEvery is how many changes go by between two looks at the log.
	checkpointEvery = 256
)

func newCheckpointer(db *sql.DB) *checkpointer {
	db.SetMaxOpenConns(1)
	return &checkpointer{db: db, wake: make(chan struct{}, 1), pages: checkpointPages, rest: finishPages, every: checkpointEvery}
}

// committed is called by the committer after each transaction.
func (c *checkpointer) committed(w *writer, changes int) {
	if c.finish.CompareAndSwap(true, false) && w.conn != nil {
		// It is only put off if this fails.
		_, _ = walState(context.Background(), w.conn, "PASSIVE")
	}
	if c.since += changes; c.since < c.every {
		return
	}
	c.since = 0
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run copies whenever there is enough, until the context ends.
func (c *checkpointer) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		if c.finish.Load() {
			continue // the last one is not finished yet
		}
		waiting, err := walState(ctx, c.db, "NOOP")
		if err != nil {
			return err
		}
		if waiting < c.pages {
			continue
		}
		for round := 0; round < checkpointRounds && waiting > c.rest; round++ {
			if waiting, err = walState(ctx, c.db, "PASSIVE"); err != nil {
				return err
			}
		}
		c.finish.Store(true)
	}
}

// walState runs a checkpoint of a mode and returns how many pages of the log
// are still to be copied.
func walState(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, mode string) (int, error) {
	var busy, log, copied int
	if err := q.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &log, &copied); err != nil {
		return 0, fmt.Errorf("ledger: checkpoint: %w", err)
	}
	return log - copied, nil
}
