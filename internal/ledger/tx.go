package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// writer is the one connection that writes, with its prepared statements. It
// belongs to the committer: nothing else may use it while that runs.
type writer struct {
	db    *sql.DB
	d     dialect
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	raw   map[rawKey]rawStmt
}

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
			if err := s.Close(); err != nil && first == nil {
				first = err
			}
		}
		return driver.ErrBadConn // makes the pool close it rather than keep it
	})
	if !errors.Is(err, driver.ErrBadConn) && first == nil {
		first = err
	}
	if err := conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) && first == nil {
		first = err
	}
	return first
}

// tx is a transaction on the writer.
type tx struct {
	w   *writer
	ctx context.Context
}

func (w *writer) begin(ctx context.Context) (*tx, error) {
	if w.conn == nil {
		if err := w.open(ctx); err != nil {
			return nil, err
		}
	}
	t := &tx{w, ctx}
	if _, err := t.exec(w.d.begin()); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *tx) commit() error {
	_, err := t.exec("COMMIT")
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
	s, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(t.ctx, args...)
}

// execOne changes exactly one row.
func (t *tx) execOne(query string, args ...any) error {
	r, err := t.exec(query, args...)
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("ledger: %d rows changed, not one", n)
	}
	return err
}

// QueryContext implements querier.
func (t *tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// QueryRowContext implements querier.
func (t *tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := t.stmt(query)
	if err != nil {
		return t.w.conn.QueryRowContext(ctx, query, args...) // meets the same error
	}
	return s.QueryRowContext(ctx, args...)
}
