package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// writer is a connection that writes, with its prepared statements. It belongs
// to one goroutine of a committer: nothing else may use it while that runs.
type writer struct {
	db      *sql.DB
	d       dialect
	conn    *sql.Conn
	stmts   map[string]*sql.Stmt
	raw     map[rawKey]rawStmt
	buffers insertBuffers
	text    []byte    // of a statement, reused
	used    time.Time // when a transaction last ended; kept where others share the database
}

// A connection over the network that was idle for so long may be gone without
// anybody having said so; a new one is sooner had than that is found out.
const (
	writerIdleMax = 10 * time.Second
	beginTimeout  = 3 * time.Second
)

type rawKey struct {
	table *insertTable
	rows  int
}

func (w *writer) open(ctx context.Context) error {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("ledger: writer: %w", err)
	}
	w.conn, w.stmts, w.raw = conn, map[string]*sql.Stmt{}, map[rawKey]rawStmt{}
	return nil
}

// close gives up the connection; its statements go with it.
func (w *writer) close() error {
	if w.conn == nil {
		return nil
	}
	conn := w.conn
	w.conn = nil
	var first error
	for _, s := range w.stmts {
		if err := s.Close(); err != nil && first == nil {
			first = err
		}
	}
	err := conn.Raw(func(any) error {
		for _, s := range w.raw {
			// Those on a server go with the connection, which may be gone.
			if err := s.Close(); err != nil && first == nil && !w.d.shared() {
				first = err
			}
		}
		return driver.ErrBadConn // makes the pool close it rather than keep it
	})
	if !errors.Is(err, driver.ErrBadConn) && !errors.Is(err, sql.ErrConnDone) && first == nil {
		first = err
	}
	if err := conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) && !errors.Is(err, driver.ErrBadConn) && first == nil {
		first = err
	}
	return first
}

// tx is a transaction on the writer.
type tx struct {
	w   *writer
	ctx context.Context
}

// begin begins a transaction. On a server that may be far away it does not wait
// for longer than beginTimeout; later statements and the commit are bounded by
// the connection, which costs less than a context each.
func (w *writer) begin(ctx context.Context) (*tx, error) {
	after := ctx
	if w.d.shared() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, beginTimeout)
		defer cancel()
	}
	fresh := w.conn == nil
	if !fresh && w.d.shared() && time.Since(w.used) > writerIdleMax {
		_ = w.close() // at worst it was gone before
		fresh = true
	}
	for {
		if w.conn == nil {
			if err := w.open(ctx); err != nil {
				return nil, err
			}
		}
		t := &tx{w, ctx}
		_, err := t.exec(w.d.begin())
		if err == nil {
			t.ctx = after
			return t, nil
		}
		if !w.d.shared() {
			return nil, err
		}
		// Nothing was asked of the server yet, so that a connection which
		// died since the last transaction costs nobody anything.
		_ = w.close()
		if fresh || ctx.Err() != nil {
			return nil, err
		}
		fresh = true
	}
}

func (t *tx) commit() error {
	_, err := t.exec("COMMIT")
	t.w.used = time.Now()
	return err
}

// rollback ends the transaction if it is still open. A connection that cannot
// is given up, which rolls back as well.
func (t *tx) rollback(ended bool) {
	if ended || t.w.conn == nil {
		return
	}
	if _, err := t.exec("ROLLBACK"); err != nil {
		_ = t.w.close() // nothing more can be done with it
	}
}

func (t *tx) stmt(query string) (*sql.Stmt, error) {
	s := t.w.stmts[query]
	if s == nil {
		var err error
		if s, err = t.w.conn.PrepareContext(t.ctx, query); err != nil {
			return nil, err
		}
		t.w.stmts[query] = s
	}
	return s, nil
}

func (t *tx) exec(query string, args ...any) (sql.Result, error) {
	if t.w.d.texts() {
		return t.w.conn.ExecContext(t.ctx, query, args...)
	}
	s, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(t.ctx, args...)
}

// errLostRace: what was read in this transaction has changed since. Where one
// process writes alone it cannot happen; elsewhere the transaction runs again.
var errLostRace = errors.New("ledger: the row was changed meanwhile")

// execOne changes exactly one row.
func (t *tx) execOne(query string, args ...any) error {
	r, err := t.exec(query, args...)
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("%w: %d rows changed, not one", errLostRace, n)
	}
	return err
}

// QueryContext implements querier.
func (t *tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if t.w.d.texts() {
		return t.w.conn.QueryContext(ctx, query, args...)
	}
	s, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// QueryRowContext implements querier.
func (t *tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if t.w.d.texts() {
		return t.w.conn.QueryRowContext(ctx, query, args...)
	}
	s, err := t.stmt(query)
	if err != nil {
		return t.w.conn.QueryRowContext(ctx, query, args...) // meets the same error
	}
	return s.QueryRowContext(ctx, args...)
}
