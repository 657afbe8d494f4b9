package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

//go:embed migrations/sqlite/*.sql
var sqliteMigrations embed.FS

type sqliteDialect struct{}

func (sqliteDialect) gooseDialect() goose.Dialect { return goose.DialectSQLite3 }

func (sqliteDialect) migrations() fs.FS {
	sub, err := fs.Sub(sqliteMigrations, "migrations/sqlite")
	if err != nil {
		return sqliteMigrations // the path is a constant and valid
	}
	return sub
}

func (sqliteDialect) begin() string { return "BEGIN IMMEDIATE" }

// A plain multi-row INSERT that may fail keeps a journal of every page it
// touches, so that the statement alone can be undone; OR ROLLBACK needs none,
// which is a third of an order's cost.
func (sqliteDialect) insertOrRollback() (string, bool) { return "INSERT OR ROLLBACK INTO ", true }

func (sqliteDialect) lockShow() string { return "" } // there is one writer

func (sqliteDialect) forUpdate() string { return "" }

func (sqliteDialect) snapshot() *sql.TxOptions { return &sql.TxOptions{ReadOnly: true} }

func (sqliteDialect) ordersOf() string {
	return "SELECT " + orderColumns + " FROM order_info WHERE no IN (SELECT no FROM order_info INDEXED BY uk_order_info_user_key " +
		"WHERE user_id = ? AND no < ?) AND state <> 'void' ORDER BY no DESC LIMIT ?"
}

func (sqliteDialect) facts() string {
	return "SELECT " + orderColumns + " FROM order_info WHERE no IN (SELECT order_no FROM order_seat WHERE show_id = ?) ORDER BY no"
}

func (sqliteDialect) blocks() string {
	return "SELECT " + orderColumns + " FROM order_info WHERE show_id = ? AND kind = 'block' AND state = 'blocked' ORDER BY no"
}

func (sqliteDialect) join() string { return " JOIN " }

func (sqliteDialect) shared() bool { return false }

func (sqliteDialect) texts() bool { return false }

func (sqliteDialect) pack(document []byte) ([]byte, error) { return document, nil }

func (sqliteDialect) unpack(stored []byte) ([]byte, error) { return stored, nil }

func sqliteCode(err error) (int, bool) {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code(), true
	}
	return 0, false
}

func (sqliteDialect) isDuplicate(err error) bool {
	code, ok := sqliteCode(err)
	return ok && (code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY || code == sqlite3.SQLITE_CONSTRAINT_UNIQUE ||
		code == sqlite3.SQLITE_CONSTRAINT_ROWID)
}

func (sqliteDialect) isDown(err error) bool {
	code, _ := sqliteCode(err)
	switch code & 0xff {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PERM:
		return true
	}
	return false
}

func (sqliteDialect) isTransient(error) bool { return false } // there is one writer

func (sqliteDialect) isLockWait(error) bool { return false }

// A busy database refused to begin committing. After any other error a
// recovery may still find the whole transaction in the log.
func (sqliteDialect) certainlyNotCommitted(err error) bool {
	code, ok := sqliteCode(err)
	return ok && code&0xff == sqlite3.SQLITE_BUSY
}

func (sqliteDialect) missingKeys(ctx context.Context, q querier) ([]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT m.name,
		(SELECT group_concat(name, ',') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
		FROM sqlite_master m JOIN pragma_index_list(m.name) i
		WHERE m.type = 'table' AND i."unique" = 1 AND i.partial = 0`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	there := map[string]bool{}
	for rows.Next() {
		var table, columns string
		if err := rows.Scan(&table, &columns); err != nil {
			return nil, err
		}
		there[table+"("+columns+")"] = true
	}
	var missing []string
	for _, k := range uniqueKeys {
		if !there[k.table+"("+k.columns+")"] {
			missing = append(missing, k.name)
		}
	}
	return missing, rows.Err()
}

func (sqliteDialect) integrity(ctx context.Context, q querier, limit int) ([]string, error) {
	rows, err := q.QueryContext(ctx, fmt.Sprintf("PRAGMA quick_check(%d)", limit))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var faults []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		if s != "ok" {
			faults = append(faults, s)
		}
	}
	return faults, rows.Err()
}

// sqliteDSN names a database file with the pragmas of a writer or a reader.
func sqliteDSN(path string, reader bool) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("ledger: %w", err)
	}
	q := url.Values{}
	q.Add("_pragma", "busy_timeout(5000)")
	if reader {
		q.Add("_pragma", "query_only(1)")
	} else {
		q.Add("_pragma", "journal_mode(wal)")
		q.Add("_pragma", "synchronous(full)")
		q.Add("_pragma", "foreign_keys(1)")
		q.Add("_pragma", "temp_store(memory)")
		q.Add("_pragma", "cache_size(-16384)")
		q.Add("_pragma", fmt.Sprintf("wal_autocheckpoint(%d)", checkpointAnyway))
		q.Add("_txlock", "immediate")
		if vfs := gatherLogWrites(); vfs != "" { // only where synchronous is full
			q.Add("vfs", vfs)
		}
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(abs), RawQuery: strings.ReplaceAll(q.Encode(), "+", "%20")}
	return u.String(), nil
}
