package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/oklog/ulid/v2"

	"seatflow/bench/strategies/plain"
)

// transactionTries is how often a transaction is begun that the server ended
// for a deadlock or a lock that could not be had, or that lost a race.
const transactionTries = 4

// tables are a row a seat and a row an order, without a unique key that would
// keep a seat from being sold twice: only the guard in front of them does.
type tables struct {
	db                   *sql.DB
	read, lock           *sql.Stmt // a seat's taken and version
	mark, markIf, insert *sql.Stmt
	deadlocks            atomic.Int64
}

func openTables(ctx context.Context, b *bench, house House) (_ *tables, err error) {
	url, err := b.servers.mysql(ctx)
	if err != nil {
		return nil, err
	}
	t := &tables{}
	if t.db, err = plain.OpenDB(ctx, url, b.conns); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	for _, statement := range []string{
		`CREATE TABLE seat (show_id INT NOT NULL, seat_id INT NOT NULL, taken TINYINT NOT NULL, version INT NOT NULL,
			PRIMARY KEY (show_id, seat_id)) ENGINE=InnoDB`,
		`CREATE TABLE sale (no CHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, show_id INT NOT NULL,
			seats VARCHAR(200) NOT NULL, user_id VARCHAR(64) CHARACTER SET ascii NOT NULL) ENGINE=InnoDB`,
	} {
		if _, err = t.db.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("make the tables: %w", err)
		}
	}
	if err = t.fill(ctx, house); err != nil {
		return nil, fmt.Errorf("fill the tables: %w", err)
	}
	for to, text := range map[**sql.Stmt]string{
		&t.read:   "SELECT taken, version FROM seat WHERE show_id = ? AND seat_id = ?",
		&t.lock:   "SELECT taken, version FROM seat WHERE show_id = ? AND seat_id = ? FOR UPDATE",
		&t.mark:   "UPDATE seat SET taken = 1 WHERE show_id = ? AND seat_id = ?",
		&t.markIf: "UPDATE seat SET taken = 1, version = version + 1 WHERE show_id = ? AND seat_id = ? AND version = ?",
		&t.insert: "INSERT INTO sale (no, show_id, seats, user_id) VALUES (?,?,?,?)",
	} {
		if *to, err = t.db.PrepareContext(ctx, text); err != nil {
			return nil, fmt.Errorf("prepare: %w", err)
		}
	}
	return t, nil
}

// fill puts every seat into its table, a few thousand rows a statement.
func (t *tables) fill(ctx context.Context, house House) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	const head, most = "INSERT INTO seat (show_id, seat_id, taken, version) VALUES ", 4000
	var rows []string
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		_, err := tx.ExecContext(ctx, head+strings.Join(rows, ","))
		rows = rows[:0]
		return err
	}
	for show := 1; show <= house.All(); show++ {
		for seat := 1; seat <= house.SeatsOf(show); seat++ {
			rows = append(rows, "("+strconv.Itoa(show)+","+strconv.Itoa(seat)+",0,0)")
			if len(rows) == most {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return tx.Commit()
}

// free reports whether all seats of a request are, and their versions, by
// plain reads.
func (t *tables) free(ctx context.Context, r Request) (bool, []int, error) {
	versions := make([]int, len(r.Seats))
	for i, seat := range r.Seats {
		var taken bool
		if err := t.read.QueryRowContext(ctx, r.Show, seat).Scan(&taken, &versions[i]); err != nil {
			return false, nil, fmt.Errorf("read a seat: %w", err)
		}
		if taken {
			return false, nil, nil
		}
	}
	return true, versions, nil
}

// sell writes a sale and marks its seats, whatever they are.
func (t *tables) sell(ctx context.Context, tx *sql.Tx, r Request) error {
	for _, seat := range r.Seats {
		if _, err := tx.StmtContext(ctx, t.mark).ExecContext(ctx, r.Show, seat); err != nil {
			return err
		}
	}
	return t.record(ctx, tx, r)
}

func (t *tables) record(ctx context.Context, tx *sql.Tx, r Request) error {
	id, err := ulid.New(ulid.Now(), rand.Reader)
	if err != nil {
		return err
	}
	_, err = tx.StmtContext(ctx, t.insert).ExecContext(ctx, id.String(), r.Show, joinSeats(r.Seats), r.User)
	return err
}

// transact runs do in a transaction, which is committed when do says Bought
// and rolled back otherwise. A transaction that the server ended for its locks
// is begun again; after some tries the answer is Busy.
func (t *tables) transact(ctx context.Context, do func(tx *sql.Tx) (Result, error)) (Result, error) {
	for range transactionTries {
		result, err := t.once(ctx, do)
		if err == nil {
			return result, nil
		}
		if plain.IsDeadlock(err) {
			t.deadlocks.Add(1)
		}
		if !plain.Again(err) {
			return 0, err
		}
	}
	return Busy, nil
}

func (t *tables) once(ctx context.Context, do func(tx *sql.Tx) (Result, error)) (Result, error) {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	result, err := do(tx)
	if err != nil || result != Bought {
		return result, err
	}
	return result, tx.Commit()
}

// Sales implements [Strategy].
func (t *tables) Sales(ctx context.Context, each func(Sale)) error {
	rows, err := t.db.QueryContext(ctx, "SELECT show_id, seats, user_id FROM sale")
	if err != nil {
		return fmt.Errorf("read sales: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var s Sale
		var seats string
		if err := rows.Scan(&s.Show, &seats, &s.User); err != nil {
			return fmt.Errorf("read sales: %w", err)
		}
		for part := range strings.SplitSeq(seats, ",") {
			seat, err := strconv.Atoi(part)
			if err != nil {
				return fmt.Errorf("read sales: seats %q: %w", seats, err)
			}
			s.Seats = append(s.Seats, seat)
		}
		each(s)
	}
	return rows.Err()
}

// Deadlocks is how many transactions the server ended to break a deadlock.
func (t *tables) Deadlocks() int64 { return t.deadlocks.Load() }

// Close implements [Strategy].
func (t *tables) Close() error {
	if t.db == nil {
		return nil
	}
	return t.db.Close()
}

func joinSeats(seats []int) string {
	parts := make([]string, len(seats))
	for i, seat := range seats {
		parts[i] = strconv.Itoa(seat)
	}
	return strings.Join(parts, ",")
}

// naive looks whether the seats are free and then sells them: two steps, with
// room for somebody else between them. It is here to be caught.
type naive struct{ *tables }

func openNaive(ctx context.Context, b *bench, house House) (Strategy, error) {
	t, err := openTables(ctx, b, house)
	return naive{t}, err
}

// Take implements [Strategy].
func (s naive) Take(ctx context.Context, r Request) (Result, error) {
	return s.checkThenAct(ctx, r)
}

// checkThenAct is safe only behind a guard.
func (t *tables) checkThenAct(ctx context.Context, r Request) (Result, error) {
	free, _, err := t.free(ctx, r)
	if err != nil {
		return 0, err
	}
	if !free {
		return Taken, nil
	}
	if err := between(ctx); err != nil {
		return 0, err
	}
	return t.transact(ctx, func(tx *sql.Tx) (Result, error) { return Bought, t.sell(ctx, tx, r) })
}

// rowLock locks each seat's row, as the buyer clicked them, and holds the
// locks until the commit.
type rowLock struct{ *tables }

func openRowLock(ctx context.Context, b *bench, house House) (Strategy, error) {
	t, err := openTables(ctx, b, house)
	return rowLock{t}, err
}

// Take implements [Strategy].
func (s rowLock) Take(ctx context.Context, r Request) (Result, error) {
	return s.transact(ctx, func(tx *sql.Tx) (Result, error) {
		for _, seat := range r.Seats {
			var taken bool
			var version int
			if err := tx.StmtContext(ctx, s.lock).QueryRowContext(ctx, r.Show, seat).Scan(&taken, &version); err != nil {
				return 0, err
			}
			if taken {
				return Taken, nil
			}
		}
		if err := between(ctx); err != nil {
			return 0, err
		}
		return Bought, s.sell(ctx, tx, r)
	})
}

// versionColumn reads without a lock and writes only over the version that it
// has read.
type versionColumn struct{ *tables }

func openVersionColumn(ctx context.Context, b *bench, house House) (Strategy, error) {
	t, err := openTables(ctx, b, house)
	return versionColumn{t}, err
}

// Take implements [Strategy].
func (s versionColumn) Take(ctx context.Context, r Request) (Result, error) {
	for range transactionTries {
		free, versions, err := s.free(ctx, r)
		if err != nil {
			return 0, err
		}
		if !free {
			return Taken, nil
		}
		if err := between(ctx); err != nil {
			return 0, err
		}
		result, err := s.transact(ctx, func(tx *sql.Tx) (Result, error) {
			for i, seat := range r.Seats {
				done, err := tx.StmtContext(ctx, s.markIf).ExecContext(ctx, r.Show, seat, versions[i])
				if err != nil {
					return 0, err
				}
				if n, err := done.RowsAffected(); err != nil || n == 0 {
					return Taken, err // somebody was faster: look again
				}
			}
			return Bought, s.record(ctx, tx, r)
		})
		if err != nil || result != Taken {
			return result, err
		}
	}
	return Busy, nil
}
