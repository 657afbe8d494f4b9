// Command system measures the whole server on the machine it runs on, beside
// a null net/http handler that answers bodies of the same sizes, and writes
// the report docs/benchmarks.md.
//
// Server and null handler run as processes of their own on the same cores,
// one idle while the other is measured, by turns, in several rounds; each
// round begins with an empty data folder and ends with the verifier. Every
// number of the report is the median of the rounds. Capacity is driven by wrk
// (closed loop, costs little itself), latency at a fixed rate by seatflow
// load (open loop).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// settings are the command's flags.
type settings struct {
	report  string
	dir     string // of data folders; the disk that is measured
	rounds  int
	seconds int // of one wrk run
	smoke   bool
	only    string // "" or one measurement, for work on it
	profile string // folder for CPU profiles of the server
}

func main() {
	var s settings
	flag.StringVar(&s.report, "report", "", "write the report to this file; empty: print it")
	flag.StringVar(&s.dir, "dir", os.TempDir(), "folder for data, on the disk to measure")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds to take the median of")
	flag.IntVar(&s.seconds, "seconds", 4, "length of one wrk run")
	flag.BoolVar(&s.smoke, "smoke", false, "run everything for a moment, to see that it works; judge no number")
	flag.StringVar(&s.only, "only", "", "one measurement: orders, hot, map, half, lone, mixed, distributed or parts")
	flag.StringVar(&s.profile, "profile", "", "write CPU profiles of the server to this folder")
	flag.Parse()
	if s.smoke {
		s.rounds, s.seconds = 1, 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if _, err := exec.LookPath("wrk"); err != nil {
		return errors.New("wrk is not installed (make setup)")
	}
	if s.rounds < 1 || s.seconds < 1 || s.seconds > 60 {
		return errors.New("at least one round, of 1 to 60 seconds")
	}
	work, err := os.MkdirTemp(s.dir, "seatflow-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := &bench{settings: s, work: work}
	for name, pkg := range map[string]string{"seatflow": "./cmd/seatflow", "null": "./bench/null", "plain": "./bench/plain"} {
		c := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(work, name), pkg)
		c.Stderr = os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("build %s (run me from the repository's root): %w", pkg, err)
		}
	}
	began := time.Now()
	if s.only != netName && s.only != partsName {
		for n := range s.rounds {
			if err := b.round(ctx, n); err != nil {
				return fmt.Errorf("round %d: %w", n+1, err)
			}
		}
	}
	if b.wants(netName) {
		if err := b.net(ctx); err != nil {
			return err
		}
	}
	if b.wants(partsName) {
		if err := b.measureParts(ctx); err != nil {
			return err
		}
	}
	text, err := b.text(time.Since(began))
	if err != nil {
		return err
	}
	if s.report == "" {
		_, err = os.Stdout.WriteString(text)
		return err
	}
	return os.WriteFile(s.report, []byte(text), 0o644)
}
