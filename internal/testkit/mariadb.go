package testkit

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// Who logs in to every test server.
const (
	mariaUser     = "root"
	mariaPassword = "seatflow"
)

// MariaDBOptions is how a MariaDB server differs from its defaults.
type MariaDBOptions struct {
	// SnapshotIsolation sets innodb_snapshot_isolation; nil leaves the
	// server's default, which differs from release to release.
	SnapshotIsolation *bool
	// Args are more arguments of mariadbd.
	Args []string
}

// MariaDB is one mariadbd.
type MariaDB struct {
	port  int
	proc  *process
	first string // the database of URL
}

// StartMariaDB starts a server with one empty database that ends with the
// test.
func StartMariaDB(t testing.TB, o MariaDBOptions) *MariaDB {
	t.Helper()
	requireBackend(t, "mariadbd", "mariadb-install-db")
	m, err := launch(func() (*MariaDB, error) { return newMariaDB(o) })
	must(t, err)
	m.proc.endWith(t)
	m.proc.showOnFailure(t)
	return m
}

var oneMariaDB shared[*MariaDB]

// SharedMariaDB returns the server that the tests of a process share. Each
// takes a database of its own by [MariaDB.NewDatabase]; tests that kill, pause
// or set something do not run in parallel.
func SharedMariaDB(t testing.TB) *MariaDB {
	t.Helper()
	requireBackend(t, "mariadbd", "mariadb-install-db")
	m, err := oneMariaDB.get(func() (*MariaDB, error) {
		return launch(func() (*MariaDB, error) { return newMariaDB(MariaDBOptions{}) })
	})
	must(t, err)
	if m.proc.running() {
		m.Resume()
	} else {
		must(t, m.proc.restart(m.ready))
	}
	m.proc.showOnFailure(t)
	return m
}

func newMariaDB(o MariaDBOptions) (*MariaDB, error) {
	path, err := program("mariadbd")
	if err != nil {
		return nil, err
	}
	template, err := mariaTemplate()
	if err != nil {
		return nil, fmt.Errorf("an empty MariaDB: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("mariadb")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if out, err := exec.Command("cp", "-a", "--sparse=always", "--reflink=auto", template, data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy an empty MariaDB: %w: %s", err, out)
	}
	// The server listens before it has run this file, but answers after.
	init := filepath.Join(dir, "init.sql")
	sql := fmt.Sprintf("CREATE USER IF NOT EXISTS '%[1]s'@'127.0.0.1';\n"+
		"ALTER USER '%[1]s'@'127.0.0.1' IDENTIFIED BY '%[2]s';\n"+
		"GRANT ALL PRIVILEGES ON *.* TO '%[1]s'@'127.0.0.1' WITH GRANT OPTION;\n", mariaUser, mariaPassword)
	if err := os.WriteFile(init, []byte(sql), 0o600); err != nil {
		return nil, err
	}
	// The path of a socket has room for about a hundred bytes; a folder of
	// ours below a long TMPDIR may need more.
	socket := filepath.Join(dir, "socket")
	if len(socket) > 100 {
		socket = filepath.Join("/tmp", fmt.Sprintf("seatflow-%d.sock", port))
	}
	args := append(mariaArgs(data), []string{
		"--port", strconv.Itoa(port), "--bind-address", "127.0.0.1", "--socket", socket,
		"--pid-file", filepath.Join(dir, "pid"), "--init-file", init,
		"--skip-name-resolve", "--performance-schema=OFF", "--skip-log-bin",
		"--character-set-server=utf8mb4",
		"--innodb-flush-log-at-trx-commit=1",
		"--innodb-buffer-pool-size=64M",
		"--key-buffer-size=1M", "--aria-pagecache-buffer-size=8M", "--max-connections=500",
		// Writes nothing back at the end and reads nothing at the start.
		"--innodb-buffer-pool-dump-at-shutdown=OFF", "--innodb-buffer-pool-load-at-startup=OFF",
	}...)
	if o.SnapshotIsolation != nil {
		args = append(args, "--innodb-snapshot-isolation="+onOff(*o.SnapshotIsolation))
	}
	m := &MariaDB{port: port, proc: &process{
		name: "mariadb " + hostPort(port), path: path, args: append(args, o.Args...), dir: dir,
		log: filepath.Join(dir, "log"),
	}}
	if err := watch(data, false); err != nil {
		return nil, err
	}
	if err := m.proc.start(m.ready); err != nil {
		return nil, err
	}
	if m.first, err = m.create(); err != nil {
		m.proc.kill()
		return nil, err
	}
	return m, nil
}

func onOff(on bool) string {
	if on {
		return "ON"
	}
	return "OFF"
}

// mariaArgs are the arguments that the template and its copies share.
func mariaArgs(data string) []string {
	args := []string{"--no-defaults", "--datadir=" + data, "--innodb-log-file-size=32M"}
	// Run by root, the server wants to hear that it may stay root.
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		args = append(args, "--user="+u.Username)
	}
	return args
}

// mariaTemplate returns the folder of an installed server that nobody has
// used. Installing takes seconds, so that is done once for each version and
// user of the machine.
var mariaTemplate = sync.OnceValues(func() (string, error) {
	path, err := program("mariadbd")
	if err != nil {
		return "", err
	}
	install, err := program("mariadb-install-db")
	if err != nil {
		return "", err
	}
	version, err := exec.Command(path, "--no-defaults", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("the version of mariadbd: %w", err)
	}
	return cached("mariadb", string(version), func(dir string) error {
		args := append(mariaArgs(dir), "--auth-root-authentication-method=normal", "--skip-test-db")
		if out, err := exec.Command(install, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
		}
		return nil
	})
})

// cached returns a folder below the machine's temporary one that fill fills
// once for each kind, version and user. Processes that ask together wait for
// the first; a folder that is there is whole.
func cached(kind, version string, fill func(dir string) error) (string, error) {
	sum := sha256.Sum256([]byte(version))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("seatflow-cache-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	final := filepath.Join(dir, kind+"-"+hex.EncodeToString(sum[:8]))
	lock, err := os.OpenFile(final+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	tmp, err := os.MkdirTemp(dir, "new-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := fill(tmp); err != nil {
		return "", err
	}
	return final, os.Rename(tmp, final)
}

// open returns a pool for one database; empty is none.
func (m *MariaDB) open(database string) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = mariaUser, mariaPassword, "tcp", hostPort(m.port), database
	// A server that does not answer yet is no news.
	cfg.Logger = log.New(io.Discard, "", 0)
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// exec runs one statement as root.
func (m *MariaDB) exec(query string, args ...any) error {
	db, err := m.open("")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = db.ExecContext(ctx, query, args...)
	return err
}

func (m *MariaDB) ready() error { return m.exec("DO 1") }

// databases counts, so that each has a name of its own.
var databases atomic.Int64

func (m *MariaDB) create() (string, error) {
	name := fmt.Sprintf("seatflow_%d", databases.Add(1))
	return name, m.exec("CREATE DATABASE " + name)
}

func (m *MariaDB) url(database string) string {
	return fmt.Sprintf("mysql://%s:%s@%s/%s", mariaUser, mariaPassword, hostPort(m.port), database)
}

// URL is mysql://user:password@host:port/database, the database being the one
// that the server started with.
func (m *MariaDB) URL() string { return m.url(m.first) }

// Addr is host:port.
func (m *MariaDB) Addr() string { return hostPort(m.port) }

// NewDatabase creates an empty database that goes with the test, and returns
// its URL.
func (m *MariaDB) NewDatabase(t testing.TB) string {
	t.Helper()
	name, err := m.create()
	must(t, err)
	t.Cleanup(func() {
		if !keep() && m.proc.running() {
			m.Resume()
			_ = m.exec("DROP DATABASE " + name) // the server goes with the process
		}
	})
	return m.url(name)
}

// PID is the number of the process, 0 when it does not run.
func (m *MariaDB) PID() int { return m.proc.id() }

// Kill ends the server as kill -9 does; it returns when the server is gone.
func (m *MariaDB) Kill() { m.proc.kill() }

// Stop ends the server in order.
func (m *MariaDB) Stop() { m.proc.stop() }

// Pause stops the server's process: connections stay open, nothing answers.
func (m *MariaDB) Pause() { m.proc.pause() }

// Resume undoes Pause.
func (m *MariaDB) Resume() { m.proc.resume() }

// Restart kills the server if it runs, and starts it on the same port and
// folder.
func (m *MariaDB) Restart(t testing.TB) {
	t.Helper()
	m.proc.kill()
	must(t, m.proc.restart(m.ready))
}

var variable = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// SetGlobal sets a variable of the running server until the test ends. It
// holds for connections that are opened afterwards.
func (m *MariaDB) SetGlobal(t testing.TB, name, value string) {
	t.Helper()
	if !variable.MatchString(name) {
		t.Fatalf("%q is no variable", name)
	}
	old, err := m.global(name)
	must(t, err)
	must(t, m.setGlobal(name, value))
	t.Cleanup(func() {
		if m.proc.running() {
			m.Resume()
			if err := m.setGlobal(name, old); err != nil {
				t.Errorf("set %s back to %s: %v", name, old, err)
			}
		}
	})
}

func (m *MariaDB) global(name string) (string, error) {
	db, err := m.open("")
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	var v string
	err = db.QueryRow("SELECT @@GLOBAL." + name).Scan(&v)
	return v, err
}

func (m *MariaDB) setGlobal(name, value string) error {
	// A number in quotes is of the wrong type to the server.
	if _, err := strconv.ParseFloat(value, 64); err != nil {
		value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return m.exec("SET GLOBAL " + name + " = " + value)
}
