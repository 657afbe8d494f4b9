package plain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Errors of the server that mean "try the whole transaction again", and the
// one for a row that a unique key refuses.
const (
	errDeadlock    = 1213
	errLockTimeout = 1205
	errChanged     = 1020 // with snapshot isolation
	errDuplicate   = 1062
)

// OpenDB opens a pool on mysql://user:password@host:port/database that keeps
// its connections: READ COMMITTED, two seconds at most for a row lock.
func OpenDB(ctx context.Context, address string, conns int) (*sql.DB, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("plain: database URL: %w", err)
	}
	if u.Scheme != "mysql" || u.Host == "" {
		return nil, errors.New("plain: database URL: want mysql://user:password@host:port/database")
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Timeout, c.ReadTimeout, c.WriteTimeout = 5*time.Second, 30*time.Second, 30*time.Second
	c.ParseTime, c.Loc = true, time.UTC
	// The variable has two names, by the kind and age of the server.
	isolation := "transaction_isolation"
	if err := withDB(c, func(db *sql.DB) error {
		var version string
		if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
			return fmt.Errorf("plain: connect to the database: %w", err)
		}
		if strings.Contains(version, "MariaDB") {
			isolation = "tx_isolation"
		}
		return nil
	}); err != nil {
		return nil, err
	}
	c.Params = map[string]string{isolation: "'READ-COMMITTED'", "innodb_lock_wait_timeout": "2", "time_zone": "'+00:00'"}
	db, err := openConfig(c)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func openConfig(c *mysql.Config) (*sql.DB, error) {
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("plain: database: %w", err)
	}
	return sql.OpenDB(connector), nil
}

func withDB(c *mysql.Config, do func(*sql.DB) error) error {
	db, err := openConfig(c)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

// ErrorNumber returns the server's number of an error, or 0.
func ErrorNumber(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// IsDeadlock reports whether the server ended the transaction to break a
// deadlock.
func IsDeadlock(err error) bool { return ErrorNumber(err) == errDeadlock }

// Again reports whether a transaction that failed so should be tried again as
// a whole.
func Again(err error) bool {
	switch ErrorNumber(err) {
	case errDeadlock, errLockTimeout, errChanged:
		return true
	}
	return false
}

// IsDuplicate reports whether a unique key refused a row.
func IsDuplicate(err error) bool { return ErrorNumber(err) == errDuplicate }
