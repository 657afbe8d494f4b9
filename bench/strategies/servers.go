package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

// servers are the stores that designs run on: processes on loopback ports with
// their data in one folder, started when they are first asked for. They are
// made anew for each run of the command and stopped at its end.
type servers struct {
	dir     string
	started []*daemon

	redisAddr string
	locks     []string // of the Redlock servers
	mariadb   string   // address
	databases int
}

// daemon is one server process.
type daemon struct {
	name string
	cmd  *exec.Cmd
	out  *output
	done chan struct{} // closed when it has ended
}

// output keeps the end of what a process says.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.b.Len() > 64<<10 {
		o.b.Reset()
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (s *servers) start(name, program string, args ...string) (*daemon, error) {
	d := &daemon{name: name, cmd: exec.Command(program, args...), out: &output{}, done: make(chan struct{})}
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.out
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = d.cmd.Wait() // it ends when it is told to
		close(d.done)
	}()
	s.started = append(s.started, d)
	return d, nil
}

// ready polls a server until ask succeeds.
func (d *daemon) ready(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-d.done:
			return fmt.Errorf("%s did not start: %s", d.name, d.out)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %s", d.name, err, d.out)
		case <-tick.C:
		}
	}
}

// stop ends every server and waits for it.
func (s *servers) stop() {
	for _, d := range s.started {
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, d := range s.started {
		select {
		case <-d.done:
		case <-time.After(20 * time.Second):
			_ = d.cmd.Process.Kill()
			<-d.done
		}
	}
	s.started = nil
}

// freePort finds a port that nobody listens on now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// startRedis starts a server that keeps nothing on disk, and never evicts.
func (s *servers) startRedis(ctx context.Context) (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	d, err := s.start("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--maxmemory-policy", "noeviction", "--dir", s.dir, "--daemonize", "no")
	if err != nil {
		return "", err
	}
	addr := net.JoinHostPort("127.0.0.1", port)
	return addr, d.ready(ctx, func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err := c.Write([]byte("PING\r\n")); err != nil {
			return err
		}
		var reply [5]byte
		if _, err := c.Read(reply[:]); err != nil {
			return err
		}
		if string(reply[:]) != "+PONG" {
			return fmt.Errorf("redis-server says %q", reply)
		}
		return nil
	})
}

// redis gives the address of the one Redis that designs share, with nothing
// in it.
func (s *servers) redis(ctx context.Context) (_ string, err error) {
	if s.redisAddr == "" {
		s.redisAddr, err = s.startRedis(ctx)
	}
	if err == nil {
		err = flush(ctx, s.redisAddr)
	}
	return s.redisAddr, err
}

// redlock gives the addresses of n Redis servers that know nothing of each
// other.
func (s *servers) redlock(ctx context.Context, n int) ([]string, error) {
	for len(s.locks) < n {
		addr, err := s.startRedis(ctx)
		if err != nil {
			return nil, err
		}
		s.locks = append(s.locks, addr)
	}
	for _, addr := range s.locks[:n] {
		if err := flush(ctx, addr); err != nil {
			return nil, err
		}
	}
	return s.locks[:n], nil
}

func flush(ctx context.Context, addr string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte("FLUSHALL\r\n")); err != nil {
		return err
	}
	var reply [3]byte
	if _, err := c.Read(reply[:]); err != nil || string(reply[:]) != "+OK" {
		return fmt.Errorf("empty %s: %q: %w", addr, reply, err)
	}
	return nil
}

// mysql gives the URL of a new database on the one MariaDB that designs share.
// Each commit is on disk before it is acknowledged.
func (s *servers) mysql(ctx context.Context) (string, error) {
	if s.mariadb == "" {
		addr, err := s.startMariaDB(ctx)
		if err != nil {
			return "", err
		}
		s.mariadb = addr
	}
	s.databases++
	name := fmt.Sprintf("strategy%d", s.databases)
	if err := administer(ctx, s.mariadb, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		return "", fmt.Errorf("make a database: %w", err)
	}
	return (&url.URL{Scheme: "mysql", User: url.UserPassword(adminUser, adminPassword), Host: s.mariadb, Path: "/" + name}).String(), nil
}

// The account of a server that only this process reaches.
const (
	adminUser     = "bench"
	adminPassword = "bench"
)

func administer(ctx context.Context, addr string, statement string) error {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.Timeout = "tcp", addr, adminUser, adminPassword, time.Second
	c.Logger = silent{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

// silent keeps the driver from writing about a server that is not up yet.
type silent struct{}

func (silent) Print(...any) {}

func (s *servers) startMariaDB(ctx context.Context) (string, error) {
	data := filepath.Join(s.dir, "mariadb")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return "", err
	}
	who, err := user.Current()
	if err != nil {
		return "", err
	}
	install := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--user="+who.Username)
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	account := filepath.Join(s.dir, "account.sql")
	if err := os.WriteFile(account, []byte(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO '%s'@'%%';\n",
		adminUser, adminPassword, adminUser)), 0o600); err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	d, err := s.start("mariadbd", "mariadbd", "--no-defaults", "--datadir="+data, "--user="+who.Username, "--bind-address=127.0.0.1", "--port="+port,
		"--socket="+filepath.Join(s.dir, "mariadb.sock"), "--pid-file="+filepath.Join(s.dir, "mariadb.pid"), "--init-file="+account,
		"--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M", "--skip-log-bin",
		"--skip-name-resolve", "--max-connections=400", "--performance-schema=OFF")
	if err != nil {
		return "", err
	}
	addr := net.JoinHostPort("127.0.0.1", port)
	return addr, d.ready(ctx, func(ctx context.Context) error { return administer(ctx, addr, "DO 1") })
}
