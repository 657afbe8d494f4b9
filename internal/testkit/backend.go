package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// keepBackends names the environment variable that leaves every server and its
// folder behind, to be looked at after the tests.
const keepBackends = "SEATFLOW_KEEP_BACKENDS"

// patience is how long a server may take to start, to stop or to agree with
// its peers: a guard against hanging, far above what it takes.
const patience = 60 * time.Second

// requireBackend is the one place where a test is skipped: when a program that
// it needs is not installed. Where nothing may be skipped it fails instead.
func requireBackend(t testing.TB, programs ...string) {
	t.Helper()
	var missing []string
	for _, p := range programs {
		if _, err := program(p); err != nil {
			missing = append(missing, p)
		}
	}
	// Elsewhere nothing would end the servers of a killed test process.
	if runtime.GOOS != "linux" {
		missing = append(missing, "Linux")
	}
	if len(missing) == 0 {
		return
	}
	const setup = "missing: %s; make setup installs programs"
	if os.Getenv("SEATFLOW_REQUIRE_BACKENDS") == "1" {
		t.Fatalf(setup, strings.Join(missing, ", "))
	}
	t.Skipf(setup, strings.Join(missing, ", "))
}

// program finds an executable, also where an ordinary user's PATH does not
// look for servers.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// base is the folder of everything that this test process starts. It is
// removed by the watchdog when the process has ended.
var base = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "seatflow-testkit-")
	if err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	return dir, watch(dir, true)
})

// newDir makes a folder of its own for one server.
func newDir(name string) (string, error) {
	b, err := base()
	if err != nil {
		return "", fmt.Errorf("a folder for the servers: %w", err)
	}
	return os.MkdirTemp(b, name+"-")
}

// taken holds the ports handed out by this process.
var taken sync.Map

// freePort finds a port on 127.0.0.1 that nobody listens on. It stays below
// the range from which the kernel picks ports of outgoing connections, so that
// a killed server finds its port free when it comes back.
func freePort() (int, error) {
	for range 1000 {
		port := 10000 + rand.IntN(20000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		_ = l.Close()
		if _, again := taken.LoadOrStore(port, true); !again {
			return port, nil
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

func hostPort(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// launchAttempts is how often a server is started on new ports when somebody
// else took one between the search and the start.
const launchAttempts = 5

// launch runs start until it does not end in a taken port.
func launch[T any](start func() (T, error)) (T, error) {
	var out T
	var err error
	for range launchAttempts {
		if out, err = start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	return out, err
}

// await polls check until it returns nil, and returns its last error when that
// takes too long. Servers of their own process have no signal to wait for.
func await(what string, check func() error) error {
	const interval = 20 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		err := check()
		if err == nil || errors.Is(err, errGaveUp) {
			return err
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}

// errGaveUp ends await early.
var errGaveUp = errors.New("no use in waiting")

// must ends the test when err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shared is a server that lives as long as the test process.
type shared[T any] struct {
	mu    sync.Mutex
	value T
	up    bool
}

func (s *shared[T]) get(start func() (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up {
		return s.value, nil
	}
	v, err := start()
	if err == nil {
		s.value, s.up = v, true
	}
	return v, err
}
