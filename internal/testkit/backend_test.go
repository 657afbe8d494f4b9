package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// fakeTB stands for a test that is skipped or failed.
type fakeTB struct {
	testing.TB
	skipped, failed string
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Skipf(format string, args ...any) {
	f.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestMissingBackend is the negative control of every test that needs a
// server: where backends are required, one that is missing is no pass.
func TestMissingBackend(t *testing.T) {
	run := func(programs ...string) *fakeTB {
		f := &fakeTB{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			requireBackend(f, programs...)
		}()
		<-done
		return f
	}
	const none = "seatflow-no-such-program"
	t.Setenv("SEATFLOW_REQUIRE_BACKENDS", "1")
	if f := run("sh", none); f.skipped != "" || !strings.Contains(f.failed, none) || strings.Contains(f.failed, "sh,") {
		t.Errorf("required and missing: skipped %q, failed %q; want a failure that names it", f.skipped, f.failed)
	}
	if f := run("sh"); f.skipped != "" || f.failed != "" {
		t.Errorf("required and there: skipped %q, failed %q", f.skipped, f.failed)
	}
	t.Setenv("SEATFLOW_REQUIRE_BACKENDS", "")
	if f := run(none); f.failed != "" || !strings.Contains(f.skipped, none) {
		t.Errorf("missing: skipped %q, failed %q; want a skip that names it", f.skipped, f.failed)
	}
}

// gone waits for a process to end.
func gone(t *testing.T, pid int) {
	t.Helper()
	must(t, await(fmt.Sprintf("the end of process %d", pid), func() error {
		if state := processState(pid); state != "" && state != "Z" {
			return errors.New("it is in state " + state)
		}
		return nil
	}))
}

// TestServersDieWithTheTests kills a test process that has servers.
func TestServersDieWithTheTests(t *testing.T) {
	t.Parallel()
	requireBackend(t, "mariadbd", "mariadb-install-db", "redis-server")
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), abandonServers+"="+dir, keepBackends+"=")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the test process ended with %v: %s", err, out)
	}
	var folder string
	var maria, redis int
	if _, err := fmt.Sscan(string(out), &folder, &maria, &redis); err != nil || maria == 0 || redis == 0 {
		t.Fatalf("the test process told %q: %v", out, err)
	}
	gone(t, maria)
	gone(t, redis)
	must(t, await("the end of the folder", func() error {
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			return errors.New("it is there")
		}
		return nil
	}))
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the folder of the caller is gone: %v", err)
	}
}

func TestKeptServerOutlivesTheTests(t *testing.T) {
	t.Parallel()
	requireBackend(t, "redis-server")
	cmd := exec.Command(os.Args[0], "-test.run=^TestRedisPause$", "-test.v")
	cmd.Env = append(os.Environ(), keepBackends+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	told := regexp.MustCompile(`is kept: process (\d+), folder (\S+),`).FindStringSubmatch(string(out))
	if told == nil {
		t.Fatalf("nothing tells of the kept server: %s", out)
	}
	pid, err := strconv.Atoi(told[1])
	must(t, err)
	if state := processState(pid); state == "" || state == "Z" {
		t.Errorf("the kept server is in state %q", state)
	}
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	gone(t, pid)
	must(t, os.RemoveAll(filepath.Dir(told[2])))
}
