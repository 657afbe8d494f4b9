package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// RedisOptions is how a Redis server differs from an empty one in memory.
type RedisOptions struct {
	// AppendOnly keeps data over a restart: what was answered before a
	// kill -9 is there afterwards.
	AppendOnly bool
	// Args are more arguments of redis-server.
	Args []string
	// Dir is a folder with data to start from; it is not removed. Empty is a
	// folder of its own.
	Dir string
}

// Redis is one redis-server.
type Redis struct {
	port int
	proc *process
	data string // the folder it works in
	// kept names the files that RestartEmpty does not remove.
	kept []string
	// settled is what Restart waits for after the first reply, beside that.
	settled func() error
}

// StartRedis starts a server that ends with the test.
func StartRedis(t testing.TB, o RedisOptions) *Redis {
	t.Helper()
	requireBackend(t, "redis-server", "redis-cli")
	r, err := launch(func() (*Redis, error) { return newRedis("redis", o) })
	must(t, err)
	r.proc.endWith(t)
	r.proc.showOnFailure(t)
	return r
}

var oneRedis shared[*Redis]

// SharedRedis returns the server that the tests of a process share, empty.
// Tests that use it do not run in parallel.
func SharedRedis(t testing.TB) *Redis {
	t.Helper()
	requireBackend(t, "redis-server", "redis-cli")
	r, err := oneRedis.get(func() (*Redis, error) {
		return launch(func() (*Redis, error) { return newRedis("redis", RedisOptions{}) })
	})
	must(t, err)
	must(t, r.revive())
	must(t, r.empty())
	r.proc.showOnFailure(t)
	return r
}

// newRedis starts a server on a free port.
func newRedis(name string, o RedisOptions) (*Redis, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	r, err := prepareRedis(name, port, o)
	if err != nil {
		return nil, err
	}
	return r, r.proc.start(r.ping)
}

func prepareRedis(name string, port int, o RedisOptions) (*Redis, error) {
	path, err := program("redis-server")
	if err != nil {
		return nil, err
	}
	own, err := newDir(name)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(own, "data")
	if o.Dir == "" {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	} else {
		if dir, err = filepath.EvalSymlinks(o.Dir); err != nil {
			return nil, err
		}
		// The server works in its data folder.
		if err := watch(dir, false); err != nil {
			return nil, err
		}
	}
	appendOnly := "no"
	if o.AppendOnly {
		appendOnly = "yes"
	}
	args := append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--save", "", "--appendonly", appendOnly, "--daemonize", "no",
		// Without these a full sync and a rewrite wait for a better moment.
		"--repl-diskless-sync-delay", "0",
	}, o.Args...)
	return &Redis{port: port, data: dir, proc: &process{
		name: name + " " + hostPort(port), path: path, args: args, dir: own, log: filepath.Join(own, "log"),
	}}, nil
}

// ping asks for a sign of life: a server that wants a password lives too.
func (r *Redis) ping() error {
	_, err := redisDo(r.Addr(), "PING")
	if e := redisError(""); errors.As(err, &e) && strings.HasPrefix(string(e), "NOAUTH") {
		return nil
	}
	return err
}

func (r *Redis) ready() error {
	if err := r.ping(); err != nil || r.settled == nil {
		return err
	}
	return r.settled()
}

// revive makes a shared server serve again after a test that left it killed or
// paused.
func (r *Redis) revive() error {
	if r.proc.running() {
		r.Resume()
		return nil
	}
	return r.proc.restart(r.ready)
}

func (r *Redis) empty() error {
	for _, cmd := range [][]string{{"FLUSHALL", "SYNC"}, {"SCRIPT", "FLUSH", "SYNC"}} {
		if _, err := redisDo(r.Addr(), cmd...); err != nil {
			return err
		}
	}
	return nil
}

// Addr is host:port.
func (r *Redis) Addr() string { return hostPort(r.port) }

// URL is redis://host:port.
func (r *Redis) URL() string { return "redis://" + r.Addr() }

// PID is the number of the process, 0 when it does not run.
func (r *Redis) PID() int { return r.proc.id() }

// Kill ends the server as kill -9 does; it returns when the server is gone.
func (r *Redis) Kill() { r.proc.kill() }

// Stop ends the server in order.
func (r *Redis) Stop() { r.proc.stop() }

// Pause stops the server's process: connections stay open, nothing answers.
func (r *Redis) Pause() { r.proc.pause() }

// Resume undoes Pause.
func (r *Redis) Resume() { r.proc.resume() }

// Restart kills the server if it runs, and starts it on the same port and
// folder.
func (r *Redis) Restart(t testing.TB) {
	t.Helper()
	r.proc.kill()
	must(t, r.proc.restart(r.ready))
}

// RestartEmpty is Restart after a loss of the disk. A node of a Cluster still
// knows who it is and which slots it has.
func (r *Redis) RestartEmpty(t testing.TB) {
	t.Helper()
	r.proc.kill()
	must(t, clearDir(r.data, r.kept...))
	must(t, r.proc.restart(r.ready))
}

// CLI runs redis-cli and returns what it prints, without the last line break.
func (r *Redis) CLI(t testing.TB, args ...string) string {
	t.Helper()
	path, err := program("redis-cli")
	must(t, err)
	out, err := exec.Command(path, append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(r.port)}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// clearDir removes what is in a folder, but for some names.
func clearDir(dir string, but ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
next:
	for _, e := range entries {
		for _, b := range but {
			if e.Name() == b {
				continue next
			}
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("empty a folder: %w", err)
		}
	}
	return nil
}
