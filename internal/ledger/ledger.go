package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"seatflow"
)

// Defaults of [Options].
const (
	DefaultQueueMax   = 16_384  // about a second's work: more would only wait longer
	DefaultBatchMax   = 512     // orders in a transaction; more gains nothing and delays the first
	DefaultBatchBytes = 1 << 20 // of them, roughly
	DefaultReaders    = 4
)

// Options tune a ledger. The zero value is fit for use.
type Options struct {
	Log        *slog.Logger   // nil: discarded
	Clock      seatflow.Clock // for created and updated times; nil: the wall clock
	QueueMax   int            // changes that may wait; more are refused
	BatchMax   int            // changes in one transaction
	BatchBytes int            // rough size of a transaction's rows
	Readers    int            // connections that read; with MySQL, MaxConns less those that write
	// OnCommit is called after every transaction with its number of changes
	// and how long it took, by a committer itself: it must not block. With
	// MySQL there are several.
	OnCommit func(size int, took time.Duration)
	// NewRefundID makes the ids by which a provider knows a refund again; nil:
	// from crypto/rand. Calls do not overlap on SQLite, on MySQL they may.
	NewRefundID func() string

	// With MySQL only.

	MaxConns int // connections of this process, at least MinConns
	// AllowRelaxedDurability opens a server that may lose commits which it
	// acknowledged when its machine fails.
	AllowRelaxedDurability bool
}

// Stats are totals since the ledger was opened.
type Stats struct {
	Batches   int64         // transactions, failed ones included
	Changes   int64         // in them
	Committed time.Duration // spent on them
	Queued    int64         // waiting now

	// How full the pools are and what was waited for a connection. The first
	// are those that write.
	Writers, Readers sql.DBStats
}

// Ledger keeps the facts in SQL. See the package comment.
type Ledger struct {
	opts        Options
	dialect     dialect
	writeDB     *sql.DB
	readDB      *sql.DB
	writer      *writer   // of new orders
	writers     []*writer // the others
	reads       stmtCache
	commits     *committer // of new orders
	changes     *committer // of every other change; the same one where one process writes alone
	singles     *committer // of what must run by itself; nil likewise
	ops         opPool
	down        atomic.Pointer[downState]
	worked      atomic.Int64 // transactions that committed, counted where others share the database
	busy        busyShows
	byKey       *lookups[userKey]          // nil: each look-up is a statement
	byNo        *lookups[seatflow.OrderNo] // nil: likewise
	checkpoints *checkpointer
	events      eventIDs
	keys        keyFilter

	closeOnce  sync.Once
	closeErr   error
	background sync.WaitGroup
	stop       context.CancelFunc
}

var _ seatflow.Ledger = (*Ledger)(nil)

// ErrNewerSchema: the database was written by a newer release.
var ErrNewerSchema = errors.New("ledger: the database has a newer schema than this release knows; use the release that wrote it, or a newer one")

var fdatasyncOnce sync.Once

// OpenSQLite opens the ledger in a file, which is made if it is not there,
// and brings its schema up to date. The caller sees to it that no other
// process has the file open.
func OpenSQLite(ctx context.Context, path string, opts Options) (*Ledger, error) {
	// SQLite's own builds use fdatasync where there is one; the driver leaves
	// it to its user. Where it is not to be had, fsync does the same slower.
	fdatasyncOnce.Do(func() { _, _ = sqlite.Fdatasync(true) })
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // orders are nobody else's business
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	w, err := sqliteDSN(path, false)
	if err != nil {
		return nil, err
	}
	r, err := sqliteDSN(path, true)
	if err != nil {
		return nil, err
	}
	writeDB, err := sql.Open("sqlite", w)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	readDB, err := sql.Open("sqlite", r)
	if err != nil {
		_ = writeDB.Close()
		return nil, fmt.Errorf("ledger: %w", err)
	}
	checkpointDB, err := sql.Open("sqlite", w)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: %w", err), writeDB.Close(), readDB.Close())
	}
	return open(ctx, sqliteDialect{}, writeDB, readDB, newCheckpointer(checkpointDB), opts)
}

// open opens a ledger over a database; checkpoints is nil for one that looks
// after its log itself.
func open(ctx context.Context, d dialect, writeDB, readDB *sql.DB, checkpoints *checkpointer, opts Options) (*Ledger, error) {
	opts.setDefaults()
	writeDB.SetMaxOpenConns(1)
	writeDB.SetMaxIdleConns(1)
	readDB.SetMaxOpenConns(opts.Readers)
	readDB.SetMaxIdleConns(opts.Readers)
	l := &Ledger{opts: opts, dialect: d, writeDB: writeDB, readDB: readDB, writer: &writer{db: writeDB, d: d}, checkpoints: checkpoints}
	l.reads.db, l.events.step = readDB, 1
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.closeDatabases())
	}
	return l, nil
}

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = seatflow.WallClock{}
	}
	if o.NewRefundID == nil {
		o.NewRefundID = func() string { return "refund-" + rand.Text() }
	}
	o.QueueMax = orDefault(o.QueueMax, DefaultQueueMax)
	o.BatchMax = orDefault(o.BatchMax, DefaultBatchMax)
	o.BatchBytes = orDefault(o.BatchBytes, DefaultBatchBytes)
	o.Readers = orDefault(o.Readers, max(DefaultReaders, runtime.GOMAXPROCS(0)))
}

func (l *Ledger) start(ctx context.Context) error {
	if err := l.migrate(ctx); err != nil {
		return err
	}
	if err := l.writer.open(ctx); err != nil {
		return err
	}
	if err := l.events.load(ctx, l.readDB); err != nil {
		return err
	}
	l.commits = newCommitter(l, l.opts.BatchMax, &l.down).start(l.writer)
	l.changes = l.commits
	background, stop := context.WithCancel(context.Background())
	l.stop = stop
	if l.checkpoints != nil {
		l.background.Go(func() {
			if err := l.checkpoints.run(background); err != nil && background.Err() == nil {
				l.opts.Log.Error("checkpoints stopped; commits do them and take longer", "error", err)
			}
		})
	}
	l.keys.init()
	l.background.Go(func() {
		defer close(l.keys.tried)
		if err := l.keys.load(background, l.readDB); err != nil && background.Err() == nil {
			l.opts.Log.Warn("idempotency keys not loaded; each is looked up", "error", err)
		}
	})
	return nil
}

func (l *Ledger) migrate(ctx context.Context) error {
	p, err := goose.NewProvider(l.dialect.gooseDialect(), l.writeDB, l.dialect.migrations())
	if err != nil {
		return fmt.Errorf("ledger: migrations: %w", err)
	}
	current, known, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("ledger: schema version: %w", err)
	}
	if current > known {
		return fmt.Errorf("%w (schema %d, known %d)", ErrNewerSchema, current, known)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("ledger: migrate: %w", err)
	}
	return nil
}

// Healthy implements [seatflow.Ledger]. While the ledger is down it tries an
// empty transaction now and then, so that it is noticed when it works again.
func (l *Ledger) Healthy(ctx context.Context) error {
	if l.down.Load() == nil {
		return nil
	}
	_, err := change(ctx, l, 0, func(t *tx) (struct{}, error) { return struct{}{}, probe(t) })
	return err
}

// probe is a change that changes nothing.
func probe(t *tx) error {
	_, err := t.exec("UPDATE meta SET value = value + 1 WHERE name = 'probe'")
	return err
}

// Stats returns totals since the ledger was opened.
func (l *Ledger) Stats() Stats {
	s := Stats{Writers: l.writeDB.Stats(), Readers: l.readDB.Stats()}
	for _, c := range l.committers() {
		s.Batches += c.batches.Load()
		s.Changes += c.committed.Load()
		s.Committed += time.Duration(c.nanos.Load())
		s.Queued += c.queued.Load()
	}
	return s
}

// committers returns each committer, in the order in which they may be closed.
func (l *Ledger) committers() []*committer {
	all := []*committer{l.commits}
	if l.singles != nil {
		all = append(all, l.changes, l.singles)
	}
	return all
}

// Close implements [seatflow.Ledger]: it accepts nothing more, commits what it
// accepted, and closes the database. It may be called twice.
func (l *Ledger) Close() error {
	l.closeOnce.Do(func() {
		l.stop()
		for _, c := range l.committers() {
			c.close()
		}
		if l.byKey != nil {
			l.byKey.close()
			l.byNo.close()
		}
		l.background.Wait()
		l.closeErr = l.closeDatabases()
	})
	return l.closeErr
}

func (l *Ledger) closeDatabases() error {
	l.reads.close()
	err := l.readDB.Close()
	if l.checkpoints != nil {
		err = errors.Join(err, l.checkpoints.db.Close())
	}
	for _, w := range l.writers {
		err = errors.Join(err, w.close())
	}
	return errors.Join(err, l.writer.close(), l.writeDB.Close())
}

func orDefault(n, d int) int {
	if n <= 0 {
		return d
	}
	return n
}

// change queues a change and waits for it. do runs within a transaction,
// possibly more than once; see op for what it must keep to.
func change[T any](ctx context.Context, l *Ledger, bytes int, do func(t *tx) (T, error)) (T, error) {
	var value T // read only after the committer is done with it
	o := &op{done: make(chan error, 1), bytes: bytes + 256}
	o.do = func(t *tx) (err error) {
		value, err = do(t)
		return err
	}
	err, settled := l.changes.submit(ctx, o)
	if !settled {
		var none T
		return none, err
	}
	return value, err
}

// stmtCache keeps the statements of the readers, where they are prepared.
type stmtCache struct {
	db    *sql.DB
	texts bool
	stmts sync.Map // string -> *sql.Stmt
}

func (c *stmtCache) get(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.stmts.Load(query); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := c.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if other, loaded := c.stmts.LoadOrStore(query, s); loaded {
		_ = s.Close() // the other one does the same
		return other.(*sql.Stmt), nil
	}
	return s, nil
}

func (c *stmtCache) close() {
	c.stmts.Range(func(_, s any) bool {
		_ = s.(*sql.Stmt).Close() // its connections are closed next
		return true
	})
}

// QueryContext implements querier.
func (c *stmtCache) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if c.texts {
		return c.db.QueryContext(ctx, query, args...)
	}
	s, err := c.get(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// QueryRowContext implements querier.
func (c *stmtCache) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if c.texts {
		return c.db.QueryRowContext(ctx, query, args...)
	}
	s, err := c.get(ctx, query)
	if err != nil {
		return c.db.QueryRowContext(ctx, query, args...) // meets the same error
	}
	return s.QueryRowContext(ctx, args...)
}
