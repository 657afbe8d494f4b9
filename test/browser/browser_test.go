// Package browser_test uses SeatFlow's page the way people do: it builds the
// server, starts it on a free port with a data folder of its own, and runs the
// *.test.mjs scripts beside this file in a real Chromium against it.
package browser_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Limits of things that hang; a run takes about a minute.
const (
	startWithin = 30 * time.Second
	stopWithin  = 20 * time.Second
	testsWithin = 8 * time.Minute
)

// requireBackend returns the path of a program that a test cannot do without.
// On a machine that lacks it the test is skipped, unless nothing may be.
func requireBackend(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("SEATFLOW_REQUIRE_BACKENDS") == "1" {
		t.Fatalf("none of %v is installed, and SEATFLOW_REQUIRE_BACKENDS=1 forbids to skip", names)
	}
	t.Skipf("none of %v is installed; set SEATFLOW_REQUIRE_BACKENDS=1 to make this a failure", names)
	return ""
}

func TestPageInABrowser(t *testing.T) {
	chromium := requireBackend(t, "chromium", "chromium-browser", "google-chrome")
	node := requireBackend(t, "node", "nodejs")
	npm := requireBackend(t, "npm")
	goTool := requireBackend(t, "go")

	install(t, npm)
	server := start(t, build(t, goTool))

	scripts, err := filepath.Glob("*.test.mjs")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts to run: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testsWithin)
	defer cancel()
	// One script after the other: two browsers and a server share few cores.
	args := append([]string{"--test", "--test-concurrency=1", "--test-timeout=180000", "--test-reporter=spec"}, scripts...)
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.Env = append(os.Environ(), "CHROMIUM="+chromium, "SEATFLOW_URL="+server.url, "SEATFLOW_ADMIN_TOKEN="+server.token)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the scripts failed: %v\n\nthe server's log:\n%s", err, server.log())
	}
}

// install fetches the scripts' own dependencies as their lock file names them,
// unless they are there.
func install(t *testing.T, npm string) {
	t.Helper()
	lock, err := os.Stat("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if done, err := os.Stat("node_modules/.package-lock.json"); err == nil && !done.ModTime().Before(lock.ModTime()) {
		return
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund", "--prefer-offline")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}

// build makes the server's binary.
func build(t *testing.T, goTool string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "seatflow")
	cmd := exec.CommandContext(t.Context(), goTool, "build", "-o", binary, "./cmd/seatflow")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// running is a server that a test started.
type running struct {
	url, token string

	mu     sync.Mutex
	output bytes.Buffer
}

func (s *running) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.Write(p)
}

func (s *running) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// start runs the server on a free port and reads where it is, and the first
// administrator's token, from what it prints. The test's end stops it the way
// an operator would, and it must go in peace.
func start(t *testing.T, binary string) *running {
	t.Helper()
	s := &running{}
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	cmd.Stderr = s
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	lines := make(chan string)
	go func() {
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		close(lines)
		exited <- errors.Join(scanner.Err(), cmd.Wait())
	}()
	drain := func() { // whatever else it prints must not block it
		for line := range lines {
			_, _ = fmt.Fprintln(s, line)
		}
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		go drain()
		select {
		case err := <-exited:
			if err != nil {
				t.Errorf("the server ended with %v\n%s", err, s.log())
			}
		case <-time.After(stopWithin):
			_ = cmd.Process.Kill()
			t.Errorf("the server did not stop within %v\n%s", stopWithin, s.log())
		}
	})

	address := regexp.MustCompile(`http://[0-9.:]+`)
	token := regexp.MustCompile(`\beyJ[\w-]+\.[\w-]+\.[\w-]+`)
	deadline := time.After(startWithin)
	for s.url == "" || s.token == "" {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the server ended before it served\n%s", s.log())
			}
			_, _ = fmt.Fprintln(s, line)
			if s.url == "" {
				s.url = strings.TrimSuffix(address.FindString(line), "/")
			}
			if s.token == "" {
				s.token = token.FindString(line)
			}
		case <-deadline:
			t.Fatalf("the server printed no URL and token within %v\n%s", startWithin, s.log())
		}
	}
	go drain()
	return s
}
