package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// erNoSuchTable: a database that was never migrated.
const erNoSuchTable = 1146

// Migrate brings the schema of a MySQL or MariaDB database up to date. Of
// several processes that do so at once one works and the others wait; log may
// be nil. A schema newer than this release is [ErrNewerSchema].
//
// DDL commits by itself, so every migration is one statement that may be run
// again: one that was interrupted before it was noted does no harm.
func Migrate(ctx context.Context, url string, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg, err := mysqlConfig(url, log)
	if err != nil {
		return err
	}
	return migrateMySQL(ctx, cfg, log)
}

func migrateMySQL(ctx context.Context, cfg *mysql.Config, log *slog.Logger) (err error) {
	db, err := mysqlPool(cfg, 0, 1, false) // a large table may take long to change
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := goose.NewProvider(goose.DialectMySQL, db, mysqlDialect{}.migrations(), goose.WithSessionLocker(migrationLock{}))
	if err != nil {
		return fmt.Errorf("ledger: migrations: %w", err)
	}
	sources := p.ListSources()
	known := sources[len(sources)-1].Version
	current, err := schemaVersion(ctx, db)
	if err != nil {
		return err
	}
	if current < known {
		applied, err := p.Up(ctx)
		if err != nil && !newerSchema(ctx, db, known) {
			return fmt.Errorf("ledger: migrate: %w", err)
		}
		for _, m := range applied {
			log.Info("schema changed", "migration", m.Source.Path, "took", m.Duration)
		}
		if current, err = schemaVersion(ctx, db); err != nil { // another may have gone further
			return err
		}
	}
	if current > known {
		return fmt.Errorf("%w (schema %d, known %d)", ErrNewerSchema, current, known)
	}
	return nil
}

func newerSchema(ctx context.Context, db *sql.DB, known int64) bool {
	current, err := schemaVersion(ctx, db)
	return err == nil && current > known
}

// schemaVersion returns the last migration that was run, 0 for none.
func schemaVersion(ctx context.Context, db *sql.DB) (int64, error) {
	var version sql.NullInt64
	err := db.QueryRowContext(ctx, "SELECT MAX(version_id) FROM goose_db_version").Scan(&version)
	if mysqlCode(err) == erNoSuchTable {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("ledger: schema version: %w", err)
	}
	return version.Int64, nil
}

// migrationLock is a lock of the server's that goes with the session which has
// it. It is the database's own, though such locks are one server's.
type migrationLock struct{}

var _ lock.SessionLocker = migrationLock{}

const (
	migrationLockName = "CONCAT('seatflow-migrate-', SHA1(DATABASE()))" // within the 64 characters of a name
	migrationLockWait = 5                                               // seconds a try; the context ends the tries
)

// SessionLock implements lock.SessionLocker.
func (migrationLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	for {
		var got sql.NullInt64
		err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+migrationLockName+", ?)", migrationLockWait).Scan(&got)
		if err != nil {
			return fmt.Errorf("ledger: lock of the schema: %w", err)
		}
		if got.Int64 == 1 {
			return nil
		}
	}
}

// SessionUnlock implements lock.SessionLocker.
func (migrationLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var freed sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK("+migrationLockName+")").Scan(&freed); err != nil {
		return fmt.Errorf("ledger: lock of the schema: %w", err)
	}
	return nil
}
