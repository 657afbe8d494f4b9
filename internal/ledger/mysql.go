package ledger

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"seatflow"
)

// Connections to a MySQL server. Of [Options.MaxConns], mysqlWriters write: one
// commits new orders, changeLanes every other change, singleLanes what must run
// by itself, and one asks whether the server is there. The rest read.
const (
	DefaultMaxConns = 16
	MinConns        = mysqlWriters + 2

	changeLanes  = 3
	singleLanes  = 2
	mysqlWriters = 1 + changeLanes + singleLanes + 1
	// changeBatchMax bounds the changes of a transaction, each of which costs
	// several round trips under the locks of those before it.
	changeBatchMax = 32
)

const (
	dialTimeout = 2 * time.Second
	// A statement of a transaction that is not answered in this time never
	// is; reads end with their callers' contexts, and anyhow in readTimeout.
	writeTimeout = 5 * time.Second
	readTimeout  = time.Minute
	// sessionIdle is when the server ends a session that asks for nothing,
	// within a transaction too: a node that froze, or was cut off without a
	// word, keeps its locks no longer than this.
	sessionIdle = 30 * time.Second
	// poolIdle must be less, so that the pool never hands out a dead one.
	poolIdle = 15 * time.Second
	// watchEvery is how often the server is asked whether it is there, and
	// watchTimeout how long it may take.
	watchEvery   = time.Second
	watchTimeout = 2 * time.Second
)

// ErrRelaxedDurability: the server may lose commits that it acknowledged.
var ErrRelaxedDurability = errors.New("ledger: the server may lose commits it acknowledged")

// OpenMySQL opens the ledger in a MySQL or MariaDB database, named by a URL:
//
//	mysql://user:password@host:port/database?tls=true
//
// tls is false (the default), preferred, true or skip-verify; tls-ca names a
// file of certificates to trust. The schema is brought up to date first, by
// one process at a time. Any number of processes may have the database open.
//
// A server whose settings let it lose acknowledged commits is refused, now and
// at every later connection, with [ErrRelaxedDurability], unless the options
// allow it; one with a newer schema with [ErrNewerSchema].
func OpenMySQL(ctx context.Context, rawURL string, opts Options) (*Ledger, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	cfg, err := mysqlConfig(rawURL, opts.Log)
	if err != nil {
		return nil, err
	}
	opts.MaxConns = orDefault(opts.MaxConns, DefaultMaxConns)
	if opts.MaxConns < MinConns {
		return nil, fmt.Errorf("ledger: %d connections are too few, at least %d are needed", opts.MaxConns, MinConns)
	}
	opts.Readers = opts.MaxConns - mysqlWriters
	if err := migrateMySQL(ctx, cfg, opts.Log); err != nil {
		return nil, err
	}
	writeDB, err := mysqlPool(cfg, writeTimeout, mysqlWriters, !opts.AllowRelaxedDurability)
	if err != nil {
		return nil, err
	}
	readDB, err := mysqlPool(cfg, readTimeout, opts.Readers, false)
	if err != nil {
		return nil, errors.Join(err, writeDB.Close())
	}
	return openShared(ctx, mysqlDialect{}, writeDB, readDB, opts)
}

// openShared opens a ledger whose database other processes write too.
func openShared(ctx context.Context, d dialect, writeDB, readDB *sql.DB, opts Options) (*Ledger, error) {
	opts.setDefaults()
	l := &Ledger{opts: opts, dialect: d, writeDB: writeDB, readDB: readDB, writer: &writer{db: writeDB, d: d}}
	l.reads.db, l.reads.texts = readDB, true
	if err := l.writer.open(ctx); err != nil {
		return nil, errors.Join(err, l.closeDatabases())
	}
	l.events.clocked, l.events.step = true, eventNodes
	rejects := func(err error) bool { return mysqlCode(err) != 0 && !d.isDown(err) }
	l.byKey = &lookups[userKey]{rejects: rejects, read: func(ctx context.Context, keys []userKey) (map[userKey]seatflow.Order, error) {
		return ordersByKey(ctx, &l.reads, keys)
	}}
	l.byNo = &lookups[seatflow.OrderNo]{rejects: rejects, read: func(ctx context.Context, nos []seatflow.OrderNo) (map[seatflow.OrderNo]seatflow.Order, error) {
		return ordersByNo(ctx, &l.reads, nos)
	}}
	for range changeLanes + singleLanes {
		l.writers = append(l.writers, &writer{db: writeDB, d: d})
	}
	l.singles = newCommitter(l, 1, &l.down)
	l.singles.commit = l.singles.single
	l.commits = newCommitter(l, opts.BatchMax, &l.down)
	l.commits.singles, l.commits.commit = l.singles, l.commits.apart
	l.changes = newCommitter(l, min(opts.BatchMax, changeBatchMax), &l.down)
	l.changes.singles = l.singles
	l.singles.start(l.writers[changeLanes:]...)
	l.commits.start(l.writer)
	l.changes.start(l.writers[:changeLanes]...)
	background, stop := context.WithCancel(context.Background())
	l.stop = stop
	if err := l.events.join(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.background.Go(func() { l.watch(background) })
	return l, nil
}

// watch asks the server now and then whether it is there, so that callers are
// refused before they hold and not after, and served again without anyone's
// failing first.
func (l *Ledger) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.look(ctx)
	}
}

// look asks once.
func (l *Ledger) look(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	down, worked := l.down.Load() != nil, l.worked.Load()
	err := l.writeDB.PingContext(asked)
	switch {
	case err == nil && down:
		_, _ = l.changes.submit(asked, &op{done: make(chan error, 1), do: probe, probe: true}) // says so by itself if it works
	case err != nil && !down && ctx.Err() == nil && l.worked.Load() == worked:
		// A server that commits meanwhile is slow, not gone.
		l.commits.note(fmt.Errorf("%w: %w", errNoTransaction, err))
	}
}

// mysqlConfig reads a URL. Its errors do not repeat the URL, which has the
// password in it.
func mysqlConfig(rawURL string, log *slog.Logger) (*mysql.Config, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("ledger: the URL of the database is none; want mysql://user:password@host:port/database")
	}
	name := strings.TrimPrefix(u.Path, "/")
	if u.Scheme != "mysql" || u.Hostname() == "" || name == "" || strings.Contains(name, "/") || u.Fragment != "" {
		return nil, errors.New("ledger: the URL of the database must be mysql://user:password@host:port/database")
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.DBName = "tcp", name
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	cfg.Addr = net.JoinHostPort(u.Hostname(), port)
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Loc, cfg.ParseTime = time.UTC, true
	cfg.InterpolateParams, cfg.ClientFoundRows = true, true
	cfg.MaxAllowedPacket = 0 // what the server says
	cfg.Timeout = dialTimeout
	cfg.Logger = driverLog{log}
	var ca string
	mode := "false"
	for key, values := range u.Query() {
		value := values[len(values)-1]
		switch key {
		case "tls":
			mode = value
		case "tls-ca":
			ca = value
		default:
			return nil, fmt.Errorf("ledger: the URL of the database has an unknown parameter %q; there are tls and tls-ca", key)
		}
	}
	return cfg, setTLS(cfg, mode, ca, u.Hostname())
}

func setTLS(cfg *mysql.Config, mode, ca, host string) error {
	if ca != "" && mode == "false" {
		return errors.New("ledger: the URL of the database has tls-ca without tls")
	}
	switch mode {
	case "false":
		return nil
	case "true", "preferred", "skip-verify":
	default:
		return fmt.Errorf("ledger: tls=%q in the URL of the database; want true, preferred, skip-verify or false", mode)
	}
	cfg.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: mode == "skip-verify" || mode == "preferred" && ca == ""}
	cfg.AllowFallbackToPlaintext = mode == "preferred"
	if ca == "" {
		return nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return fmt.Errorf("ledger: tls-ca: %w", err)
	}
	cfg.TLS.RootCAs = x509.NewCertPool()
	if !cfg.TLS.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("ledger: tls-ca: no certificate in %s", ca)
	}
	return nil
}

// driverLog takes what the driver has to say beside its errors.
type driverLog struct{ log *slog.Logger }

// Print implements the driver's Logger.
func (d driverLog) Print(v ...any) { d.log.Debug("mysql driver", "says", fmt.Sprint(v...)) }

func mysqlPool(cfg *mysql.Config, timeout time.Duration, most int, durable bool) (*sql.DB, error) {
	cfg = cfg.Clone()
	cfg.ReadTimeout, cfg.WriteTimeout = timeout, writeTimeout
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	db := sql.OpenDB(&mysqlConnector{connector, durable})
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	db.SetConnMaxIdleTime(poolIdle)
	return db, nil
}

// mysqlConnector makes connections whose session is as this package needs it,
// whatever the server's defaults are.
type mysqlConnector struct {
	driver.Connector
	durable bool // refuse a server that may lose commits
}

// session sets what statements rely on. The SQL mode makes values that do not
// fit errors, and keeps the backslash an escape.
var session = []string{
	"SET NAMES utf8mb4",
	"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	fmt.Sprintf("SET autocommit = 1, time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "+
		"innodb_lock_wait_timeout = 1, wait_timeout = %d, group_concat_max_len = 65536", sessionIdle/time.Second),
}

// Connect implements driver.Connector.
func (c *mysqlConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.prepare(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func (c *mysqlConnector) prepare(ctx context.Context, conn driver.Conn) error {
	for _, s := range session {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, s, nil); err != nil {
			return fmt.Errorf("ledger: session: %w", err)
		}
	}
	if !c.durable {
		return nil
	}
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "SELECT CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS CHAR), "+
		"IF(@@GLOBAL.log_bin, '1', '0'), CAST(@@GLOBAL.sync_binlog AS CHAR)", nil)
	if err != nil {
		return fmt.Errorf("ledger: durability: %w", err)
	}
	defer rows.Close()
	values := make([]driver.Value, 3)
	if err := rows.Next(values); err != nil {
		return fmt.Errorf("ledger: durability: %w", err)
	}
	flush, binlog, sync := driverText(values[0]), driverText(values[1]), driverText(values[2])
	if flush != "1" {
		return fmt.Errorf("%w: innodb_flush_log_at_trx_commit is %s, not 1", ErrRelaxedDurability, flush)
	}
	if binlog != "0" && sync != "1" {
		return fmt.Errorf("%w: it writes a binary log and sync_binlog is %s, not 1", ErrRelaxedDurability, sync)
	}
	return nil
}

func driverText(v driver.Value) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}
