package testkit

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
)

// onDatabase runs statements in a database given by its URL; the last may
// return one value.
func onDatabase(t *testing.T, m *MariaDB, address string, statements ...string) (value string) {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	db, err := m.open(strings.TrimPrefix(u.Path, "/"))
	must(t, err)
	defer func() { _ = db.Close() }()
	for _, s := range statements {
		if strings.HasPrefix(s, "SELECT") {
			must(t, db.QueryRow(s).Scan(&value))
		} else if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return value
}

func TestMariaDBKeepsData(t *testing.T) {
	t.Parallel()
	on := true
	m := StartMariaDB(t, MariaDBOptions{SnapshotIsolation: &on, Args: []string{"--max-connections=77"}})
	if got := onDatabase(t, m, m.URL(), "SELECT CONCAT(@@innodb_snapshot_isolation, '/', @@max_connections)"); got != "ON/77" {
		t.Errorf("snapshot isolation and connections are %s, want ON/77", got)
	}
	onDatabase(t, m, m.URL(), "CREATE TABLE k (v INT) ENGINE=InnoDB", "INSERT INTO k VALUES (7)")
	pid := m.PID()
	m.Kill()
	if m.ready() == nil || m.PID() != 0 {
		t.Fatal("a killed server answers")
	}
	m.Restart(t)
	if got := onDatabase(t, m, m.URL(), "SELECT v FROM k"); got != "7" || m.PID() == pid {
		t.Errorf("after kill -9 and restart: %s in process %d, want 7 in another than %d", got, m.PID(), pid)
	}
	m.Pause()
	if state := processState(m.PID()); state != "T" {
		t.Errorf("a paused server is in state %s, want T", state)
	}
	m.Resume()
	must(t, m.ready())
	m.Stop()
	if m.PID() != 0 {
		t.Error("a stopped server runs")
	}
}

func TestSharedMariaDB(t *testing.T) {
	m := SharedMariaDB(t)
	var dropped, before string
	t.Run("one", func(t *testing.T) {
		a, b := m.NewDatabase(t), m.NewDatabase(t)
		if a == b || a == m.URL() {
			t.Fatalf("two databases at %s", a)
		}
		onDatabase(t, m, a, "CREATE TABLE k (v INT)")
		onDatabase(t, m, b, "CREATE TABLE k (v INT)")
		dropped = a

		before = onDatabase(t, m, m.URL(), "SELECT @@innodb_lock_wait_timeout")
		m.SetGlobal(t, "innodb_lock_wait_timeout", "3")
		if got := onDatabase(t, m, m.URL(), "SELECT @@innodb_lock_wait_timeout"); got != "3" {
			t.Errorf("the variable is %s, want 3", got)
		}
		m.SetGlobal(t, "tx_isolation", "SERIALIZABLE")
	})
	if got := onDatabase(t, m, m.URL(), "SELECT @@innodb_lock_wait_timeout"); got != before {
		t.Errorf("after the test the variable is %s, was %s", got, before)
	}
	name := dropped[strings.LastIndex(dropped, "/")+1:]
	if got := onDatabase(t, m, m.URL(), "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '"+name+"'"); got != "0" {
		t.Error("the database outlived its test")
	}
	m.Kill()
	if SharedMariaDB(t) != m {
		t.Error("another shared server")
	}
	onDatabase(t, m, m.NewDatabase(t), "CREATE TABLE k (v INT)")
}

func TestCachedFillsOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	broken := errors.New("broken")
	if _, err := cached("k", "1", func(string) error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v, want the error of filling", err)
	}
	filled := 0
	fill := func(string) error { filled++; return context.Cause(t.Context()) }
	a, err := cached("k", "1", fill)
	must(t, err)
	b, err := cached("k", "1", fill)
	must(t, err)
	c, err := cached("k", "2", fill)
	must(t, err)
	if a != b || a == c || filled != 2 {
		t.Errorf("folders %s, %s, %s filled %d times; want two folders filled once each", a, b, c, filled)
	}
}
