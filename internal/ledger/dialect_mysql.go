package ledger

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/mysql/*.sql
var mysqlMigrations embed.FS

// mysqlDialect is what MySQL and MariaDB have in common: nothing here or in
// texts.go is understood by one of them alone.
type mysqlDialect struct{}

func (mysqlDialect) gooseDialect() goose.Dialect { return goose.DialectMySQL }

func (mysqlDialect) migrations() fs.FS {
	sub, err := fs.Sub(mysqlMigrations, "migrations/mysql")
	if err != nil {
		return mysqlMigrations // the path is a constant and valid
	}
	return sub
}

func (mysqlDialect) begin() string { return "START TRANSACTION" }

func (mysqlDialect) insertOrRollback() (string, bool) { return "INSERT INTO ", false }

func (mysqlDialect) lockShow() string { return " LOCK IN SHARE MODE" }

func (mysqlDialect) forUpdate() string { return " FOR UPDATE" }

// Each statement at READ COMMITTED sees another state; reads that must agree
// need the level above.
func (mysqlDialect) snapshot() *sql.TxOptions {
	return &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}
}

// The numbers of a page come from the user's key alone; void rows have no user.
func (mysqlDialect) ordersOf() string {
	return "SELECT " + prefixed("o.", orderColumns) + " FROM (SELECT no FROM order_info FORCE INDEX (uk_order_info_user_key) " +
		"WHERE user_id = ? AND no < ? ORDER BY no DESC LIMIT ?) x STRAIGHT_JOIN order_info o ON o.no = x.no " +
		"WHERE o.state <> 'void' ORDER BY o.no DESC"
}

const mysqlOrdersOfShow = "FROM (SELECT DISTINCT order_no FROM order_seat FORCE INDEX (PRIMARY) WHERE show_id = ?) x " +
	"STRAIGHT_JOIN order_info o ON o.no = x.order_no "

func (mysqlDialect) facts() string {
	return "SELECT " + prefixed("o.", orderColumns) + " " + mysqlOrdersOfShow + "ORDER BY o.no"
}

// An index of blocks would have a row for every sale, which costs a sixth of
// one; staff wait a moment for their list instead.
func (mysqlDialect) blocks() string {
	return "SELECT " + prefixed("o.", orderColumns) + " " + mysqlOrdersOfShow + "WHERE o.kind = 'block' AND o.state = 'blocked' ORDER BY o.no"
}

func (mysqlDialect) join() string { return " STRAIGHT_JOIN " }

func (mysqlDialect) shared() bool { return true }

func (mysqlDialect) texts() bool { return true }

// A stadium's plan is larger than the packets that many servers take.
func (mysqlDialect) pack(document []byte) ([]byte, error) {
	if len(document) == 0 {
		return document, nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(document); err != nil {
		return nil, fmt.Errorf("ledger: compress: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("ledger: compress: %w", err)
	}
	return b.Bytes(), nil
}

func (mysqlDialect) unpack(stored []byte) ([]byte, error) {
	if len(stored) == 0 {
		return stored, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Errors of the server, by number.
const (
	erDuplicateKey     = 1022
	erConsCount        = 1040 // too many connections
	erServerShutdown   = 1053
	erDuplicateEntry   = 1062
	erTableFull        = 1114
	erDiskFull         = 1021
	erTooManyUser      = 1203
	erLockWait         = 1205
	erLockTableFull    = 1206
	erDeadlock         = 1213
	erReadOnly         = 1290
	erInterrupted      = 1317
	erDuplicateKeyName = 1586
	erReadOnlyMode     = 1836
	erRecordChanged    = 1020
	erConnectionKilled = 1927
	erNewAbortingConn  = 1184
	erInnoDBReadOnly   = 1874
	erDisconnected     = 4031
)

func mysqlCode(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

func (mysqlDialect) isDuplicate(err error) bool {
	switch mysqlCode(err) {
	case erDuplicateEntry, erDuplicateKeyName, erDuplicateKey:
		return true
	}
	return false
}

// isDown: the connection ended, or the server says that it cannot be written.
func (mysqlDialect) isDown(err error) bool {
	switch mysqlCode(err) {
	case erConsCount, erServerShutdown, erTableFull, erDiskFull, erTooManyUser, erReadOnly, erReadOnlyMode, erConnectionKilled,
		erNewAbortingConn, erInnoDBReadOnly, erDisconnected:
		return true
	}
	var network net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

func (mysqlDialect) isTransient(err error) bool {
	switch mysqlCode(err) {
	case erDeadlock, erLockWait, erRecordChanged, erLockTableFull, erInterrupted:
		return true
	}
	return false
}

func (mysqlDialect) isLockWait(err error) bool { return mysqlCode(err) == erLockWait }

// The server rolled back and said so. After anything else, a connection that
// ended above all, the commit may have happened or may happen yet.
func (mysqlDialect) certainlyNotCommitted(err error) bool {
	code := mysqlCode(err)
	return code == erDeadlock || code == erRecordChanged
}

func (mysqlDialect) missingKeys(ctx context.Context, q querier) ([]string, error) {
	rows, err := q.QueryContext(ctx, "SELECT table_name, GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ',') "+
		"FROM information_schema.statistics WHERE table_schema = DATABASE() AND non_unique = 0 AND sub_part IS NULL GROUP BY table_name, index_name")
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

// integrity looks for what would break the promises of transactions. That
// pages are sound the server checks by itself, at every read.
func (mysqlDialect) integrity(ctx context.Context, q querier, limit int) ([]string, error) {
	tables, err := queryAll(ctx, q, func(row scanner) (s string, err error) {
		var name, engine string
		err = row.Scan(&name, &engine)
		return "table " + name + " is kept by " + engine + ", which has no transactions", err
	}, "SELECT table_name, COALESCE(engine, 'nothing') FROM information_schema.tables WHERE table_schema = DATABASE() "+
		"AND table_type = 'BASE TABLE' AND COALESCE(engine, '') <> 'InnoDB' ORDER BY table_name LIMIT ?", limit)
	if err != nil {
		return nil, err
	}
	columns, err := queryAll(ctx, q, func(row scanner) (s string, err error) {
		var table, column, kind string
		err = row.Scan(&table, &column, &kind)
		return "column " + table + "." + column + " is " + kind + ", which is not compared byte for byte", err
	}, "SELECT k.table_name, k.column_name, c.data_type FROM information_schema.statistics k JOIN information_schema.columns c "+
		"ON c.table_schema = k.table_schema AND c.table_name = k.table_name AND c.column_name = k.column_name "+
		"WHERE k.table_schema = DATABASE() AND k.non_unique = 0 AND k.table_name <> 'goose_db_version' "+
		"AND c.data_type NOT IN ('varbinary', 'bigint', 'int') ORDER BY 1, 2 LIMIT ?", limit)
	return append(tables, columns...), err
}
