package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"seatflow"
)

// TestGatheredLogIsTheSame does the same to two databases, one of them with
// gathered writes: long transactions under a cache so small that pages go to
// the log and come back before the commit, savepoints undone, a second
// connection reading in between, and checkpoints. Both must hold the same and
// be sound.
func TestGatheredLogIsTheSame(t *testing.T) {
	if gatherLogWrites() == "" {
		t.Fatal("log writes are not gathered here")
	}
	digest := func(gathered bool) string {
		path := filepath.Join(t.TempDir(), "x.db")
		dsn := "file:" + path + "?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=cache_size(8)&_pragma=cache_spill(1)"
		reading := dsn
		if gathered {
			dsn += "&vfs=" + gatheredVFS
		}
		w, err := sql.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		w.SetMaxOpenConns(1)
		r, err := sql.Open("sqlite", reading)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		exec := func(query string, args ...any) {
			if _, err := w.Exec(query, args...); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
		}
		exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
		exec("CREATE INDEX i ON t (b)")
		rng := rand.New(rand.NewPCG(3, 4))
		sum := sha256.New()
		for round := range 20 {
			exec("BEGIN IMMEDIATE")
			for i := range 300 {
				exec("INSERT INTO t (b) VALUES (?)", fmt.Sprintf("%x", rng.Uint64()))
				if i%50 == 0 {
					exec("SAVEPOINT s")
					exec("UPDATE t SET b = b || 'x' WHERE a % 7 = ?", round%7)
					if rng.IntN(2) == 0 {
						exec("ROLLBACK TO s")
					}
					exec("RELEASE s")
				}
			}
			if round%5 == 4 {
				exec("ROLLBACK")
			} else {
				exec("COMMIT")
			}
			if round%6 == 5 {
				exec("PRAGMA wal_checkpoint(TRUNCATE)")
			}
			var all string
			if err := r.QueryRow("SELECT COALESCE(group_concat(b), '') FROM (SELECT b FROM t ORDER BY b)").Scan(&all); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(sum, round, all)
		}
		var check string
		if err := r.QueryRow("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
			t.Errorf("gathered %v: %s, %v", gathered, check, err)
		}
		return fmt.Sprintf("%x", sum.Sum(nil))
	}
	if plain, gathered := digest(false), digest(true); plain != gathered {
		t.Errorf("the databases differ: %s and %s", plain, gathered)
	}
}

// TestGatheredFilesAreForgotten: nothing is kept of a file that was closed.
func TestGatheredFilesAreForgotten(t *testing.T) {
	count := func() int {
		gathering.mu.RLock()
		defer gathering.mu.RUnlock()
		return len(gathering.files)
	}
	gatherLogWrites()
	before := count()
	l, err := OpenSQLite(context.Background(), filepath.Join(t.TempDir(), "x.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	testShow(t, l, 1)
	if count() == before {
		t.Error("no log is gathered while a ledger is open")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != before {
		t.Errorf("%d files are left", n-before)
	}
}

// fullEnv names the database that this test binary, started again, writes
// until the disk is full.
const fullEnv = "LEDGER_FULL_TEST"

// fullWriter inserts orders while files may grow, finds that they may not,
// and goes on when they may again.
func fullWriter(path string) error {
	ctx := context.Background()
	l, err := OpenSQLite(ctx, path, Options{})
	if err != nil {
		return err
	}
	show, err := l.Show(ctx, 1)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := func(bytes uint64) error {
		var r syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &r); err != nil {
			return err
		}
		r.Cur = min(bytes, r.Max)
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &r)
	}
	if err := limit(600 << 10); err != nil {
		return err
	}
	var good []seatflow.OrderNo
	for i := 1; ; i++ {
		o, err := l.InsertOrder(ctx, sale(show, "u", fmt.Sprint("k", i), seatflow.SeatID(i)))
		if err != nil {
			if !errors.Is(err, seatflow.ErrUnknownCommit) && !errors.Is(err, seatflow.ErrNotCommitted) {
				return fmt.Errorf("order %d on a full disk: %w", i, err)
			}
			break
		}
		if good = append(good, o.No); i > 100_000 {
			return errors.New("the disk does not get full")
		}
	}
	if err := l.Healthy(ctx); err == nil {
		return errors.New("healthy on a full disk")
	}
	if err := limit(1 << 40); err != nil {
		return err
	}
	l.commits.down.Load().retry.Store(0)
	if err := l.Healthy(ctx); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	o, err := l.InsertOrder(ctx, sale(show, "u", "after", 1_000_000))
	if err != nil {
		return err
	}
	for _, no := range append(good, o.No) {
		if _, err := l.Order(ctx, no, ""); err != nil {
			return fmt.Errorf("an acknowledged order: %w", err)
		}
	}
	fmt.Println(len(good))
	return l.Close()
}

// TestDiskFull: a write that fails when it is passed on fails its commit, and
// nothing that was acknowledged before or after is lost.
func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := OpenSQLite(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	testShow(t, l, 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fullEnv+"="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if l, err = OpenSQLite(context.Background(), path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := l.Audit(context.Background())
	if err != nil || len(a.OrphanSeats)+len(a.MissingSeats)+len(a.IntegrityFaults)+len(a.DoubleSeats) > 0 {
		t.Errorf("audit: %+v, %v", a, err)
	}
	if n := fmt.Sprint(a.Orders[seatflow.OrderPending]-1, "\n"); !strings.HasSuffix(string(out), n) {
		t.Errorf("%d orders and the one after; acknowledged before: %s", a.Orders[seatflow.OrderPending]-1, out)
	}
}

// testProcess runs what this system's tests start this binary again for.
func testProcess() (code int, ok bool) {
	path := os.Getenv(fullEnv)
	if path == "" {
		return 0, false
	}
	if err := fullWriter(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}
