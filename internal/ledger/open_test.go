package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"seatflow"
)

func TestPragmas(t *testing.T) {
	l := openTest(t, Options{})
	ctx := context.Background()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000", "query_only": "0"} {
		got, err := change(ctx, l, 0, func(t *tx) (s string, err error) {
			err = t.QueryRowContext(t.ctx, "PRAGMA "+pragma).Scan(&s)
			return s, err
		})
		if err != nil || got != want {
			t.Errorf("the writer's %s is %s, want %s: %v", pragma, got, want, err)
		}
	}
	wantRows(t, l, "PRAGMA query_only", "1")
	if _, err := l.readDB.Exec("DELETE FROM hall"); err == nil {
		t.Error("a reader wrote")
	}
}

func TestFileIsPrivate(t *testing.T) {
	l := openTest(t, Options{})
	testShow(t, l, 1)
	var path string
	if err := l.readDB.QueryRow("SELECT file FROM pragma_database_list").Scan(&path); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, path + "-wal"} {
		info, err := os.Stat(p)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", filepath.Base(p), info.Mode(), err)
		}
	}
}

func TestOpenRefusals(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	if _, err := OpenSQLite(ctx, filepath.Join(dir, "no", "such", "folder.db"), Options{}); err == nil {
		t.Error("opened in a folder that is not there")
	}
	junk := filepath.Join(dir, "junk.db")
	if err := os.WriteFile(junk, []byte(strings.Repeat("this is no database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSQLite(ctx, junk, Options{}); err == nil {
		t.Error("opened something else")
	}
	// A path may hold what a URI must not.
	odd := filepath.Join(dir, "50% & more?#1.db")
	l, err := OpenSQLite(ctx, odd, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(odd); err != nil {
		t.Error(err)
	}
}

// TestNewerSchema: a database of a later release is left alone.
func TestNewerSchema(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := OpenSQLite(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rawExec(t, l, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSQLite(ctx, path, Options{}); !errors.Is(err, ErrNewerSchema) || !strings.Contains(err.Error(), "9999") {
		t.Errorf("a newer schema: %v", err)
	}
}

// TestMigrationsGoBothWays: down to nothing and up again.
func TestMigrationsGoBothWays(t *testing.T) {
	l := openTest(t, Options{})
	ctx := context.Background()
	if err := l.writer.close(); err != nil { // goose takes the one connection
		t.Fatal(err)
	}
	p, err := goose.NewProvider(l.dialect.gooseDialect(), l.writeDB, l.dialect.migrations())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.DownTo(ctx, 0); err != nil {
		t.Fatal(err)
	}
	wantRows(t, l, "SELECT name FROM sqlite_master WHERE type IN ('table', 'index') AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%'")
	if _, err := p.Up(ctx); err != nil {
		t.Fatal(err)
	}
	testShow(t, l, 5)
}

// TestStadium publishes a plan of 60,000 seats and reads it back.
func TestStadium(t *testing.T) {
	l := openTest(t, Options{})
	start := time.Now()
	show := testShow(t, l, 60_000)
	t.Logf("hall, plan and show in %v", time.Since(start))
	start = time.Now()
	plan, err := l.Plan(context.Background(), show.Hall, 0)
	if err != nil || len(plan.Seats) != 60_000 || plan.Seats[59_999].ID != 60_000 {
		t.Fatalf("%v", err)
	}
	t.Logf("read in %v", time.Since(start))
	h, err := l.HallSeats(context.Background(), show.Hall)
	if err != nil || h.NextID != 60_001 || len(h.ByGUID) != 60_000 {
		t.Errorf("hall seats: %d, next %d, %v", len(h.ByGUID), h.NextID, err)
	}
}

// TestLogIsCopied: under load the log is copied beside the writer and begins
// anew, so it does not grow for ever.
func TestLogIsCopied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := OpenSQLite(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.checkpoints.pages, l.checkpoints.rest, l.checkpoints.every = 200, 50, 16
	show := testShow(t, l, 10)
	begun := 0 // how often the log began anew: its header's salt changes
	var last string
	for i := range 3000 {
		if _, err := l.InsertOrder(context.Background(), sale(show, fmt.Sprint("user-", i*7919%3000), "k", seatflow.SeatID(i+1))); err != nil {
			t.Fatal(err)
		}
		header, err := os.ReadFile(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if salt := string(header[16:24]); salt != last {
			begun++
			last = salt
		}
		if len(header) > 2000*4096 {
			t.Fatalf("the log has %d bytes", len(header))
		}
		if begun > 5 {
			return
		}
	}
	t.Errorf("the log began anew %d times in 3000 commits", begun)
}
