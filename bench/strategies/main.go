// Command strategies measures the ways in which people guard a seat from being
// sold twice, each behind the same small interface, and writes the comparison
// docs/strategies.md.
//
// Every design sells the same kind of house to the same crowd in a closed
// loop. Afterwards its own records are read and checked for seats that were
// sold twice: what it answered proves nothing. Then one taker dies and another
// sleeps in the middle, to see what that does to the rest. A naive check
// followed by an act is measured as well, as the control whose overselling the
// checker has to find; the command fails when it does not, and when any other
// design oversells.
//
// It starts the Redis and MariaDB servers that it needs on loopback ports with
// their data in a temporary folder, and stops them at its end.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"seatflow/bench/outside"
)

// bench are the command's settings and what its designs share.
type bench struct {
	report  string
	output  string
	dir     string
	seconds float64
	rounds  int
	only    string
	redlock int
	lease   time.Duration
	conns   int
	smoke   bool
	crowd   crowd

	servers *servers
	log     io.Writer
}

// house is what a design sells: eight halls of two shows, so that one of eight
// is hot.
func (b *bench) house(d Design) House {
	h := House{Halls: 8, PerHall: 2}
	h.Seats = int(float64(d.PerSecond)*b.seconds)/h.Shows() + 2*b.crowd.Workers
	return h
}

func main() {
	b := &bench{log: os.Stderr}
	flag.StringVar(&b.report, "report", "", "write the comparison to this file; empty: print it")
	flag.StringVar(&b.output, "output", "markdown", "what to print: markdown or json")
	flag.StringVar(&b.dir, "dir", "", "folder for the servers' data, on the disk to measure; empty: the system's temporary one")
	flag.Float64Var(&b.seconds, "seconds", 2, "length of one measured run")
	flag.IntVar(&b.rounds, "rounds", 3, "runs of each design, by turns; the one in the middle is reported")
	flag.StringVar(&b.only, "only", "", "designs to measure, by name, with commas between; empty: all")
	flag.IntVar(&b.redlock, "redlock", 5, "servers of Redlock")
	flag.DurationVar(&b.lease, "lease", 2*time.Second, "lease of locks, and length of the holds that the probes interrupt")
	flag.IntVar(&b.conns, "conns", 64, "connections of each design to its database")
	flag.BoolVar(&b.smoke, "smoke", false, "run everything for a moment, to see that it works; the numbers mean nothing")
	flag.IntVar(&b.crowd.Workers, "workers", 64, "buyers at a time")
	flag.IntVar(&b.crowd.Users, "users", 100_000, "users that buyers are taken from")
	flag.Float64Var(&b.crowd.Hot, "hot", 0.5, "share of buyers who want the seats that everybody wants")
	flag.IntVar(&b.crowd.Asks, "asks", 8, "how many ask for the same two seats before the next are in fashion")
	flag.Float64Var(&b.crowd.Pairs, "pairs", 0.25, "share of buyers of two seats")
	flag.Uint64Var(&b.crowd.Seed, "seed", 1, "seed of the buyers' wishes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.main(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "strategies:", err)
		os.Exit(1)
	}
}

func (b *bench) main(ctx context.Context) error {
	if b.smoke {
		b.seconds, b.rounds, b.lease = 0.3, 1, time.Second
	}
	if err := b.valid(); err != nil {
		return err
	}
	chosen, err := choose(b.only)
	if err != nil {
		return err
	}
	if b.dir != "" {
		if err := os.Setenv("TMPDIR", b.dir); err != nil { // where the servers make their folders
			return err
		}
	}
	tb := &outside.TB{}
	defer tb.End()
	b.servers = &servers{tb: tb, startMariaDB: tunedMariaDB}
	began := time.Now()
	all := make([][]measured, len(chosen))
	for round := range b.rounds {
		for i, d := range chosen {
			m, err := b.measure(ctx, d, round == 0)
			if err != nil {
				return fmt.Errorf("%s: %w", d.Name, err)
			}
			all[i] = append(all[i], m)
		}
	}
	rows := make([]measured, len(chosen))
	for i := range all {
		rows[i] = middle(all[i])
	}
	return errors.Join(b.write(rows, time.Since(began)), judge(slices.Concat(all...)))
}

// middle is the run of a design with the median rate, and what its first run
// found out by probing.
func middle(runs []measured) measured {
	probed := runs[0].Probed
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b measured) int { return cmp.Compare(a.Run.rate(), b.Run.rate()) })
	m := runs[len(runs)/2]
	m.Probed = probed
	return m
}

func (b *bench) valid() error {
	switch {
	case b.seconds <= 0 || b.seconds > 60:
		return errors.New("a run lasts up to 60 seconds")
	case b.rounds < 1 || b.rounds > 99:
		return errors.New("1 to 99 rounds")
	case b.redlock < 1 || b.redlock > 15:
		return errors.New("1 to 15 servers of Redlock")
	case b.lease < 100*time.Millisecond || b.lease > 30*time.Second:
		return errors.New("a lease lasts from 100 ms to 30 s")
	case b.conns < 2 || b.conns > 100:
		return errors.New("2 to 100 connections") // times what a server takes
	case b.crowd.Workers < 1 || b.crowd.Workers > 1000 || b.crowd.Users < 1 || b.crowd.Asks < 1:
		return errors.New("at least one worker (at most 1000), one user and one who asks")
	case b.output != "markdown" && b.output != "json":
		return errors.New("output is markdown or json")
	}
	return nil
}

// choose finds designs by name.
func choose(names string) ([]Design, error) {
	if names == "" {
		return designs, nil
	}
	var chosen []Design
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(designs, func(d Design) bool { return strings.EqualFold(slug(d.Name), slug(name)) })
		if i < 0 {
			return nil, fmt.Errorf("no design is called %q", name)
		}
		chosen = append(chosen, designs[i])
	}
	return chosen, nil
}

// slug is a name that needs no quoting in a shell.
func slug(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(name), ",", ""), " ", "-")
}

// measured is one row.
type measured struct {
	Design    Design
	House     House
	Run       run
	Deadlocks int64
	Checked   checked
	Probed    *probed // nil: there is nothing to probe
}

// measure opens a design, drives it, checks what it stored and, if wanted,
// probes it.
func (b *bench) measure(ctx context.Context, d Design, probing bool) (m measured, err error) {
	m = measured{Design: d, House: b.house(d)}
	fmt.Fprintf(b.log, "%s: %d seats", d.Name, m.House.Shows()*m.House.Seats)
	defer fmt.Fprintln(b.log)
	defer b.servers.release()
	s, err := d.Open(ctx, b, m.House)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	runtime.GC() // of the design before
	if m.Run, err = drive(ctx, s, newDemand(m.House, b.crowd), b.seconds, b.servers.spent); err != nil {
		return m, err
	}
	if l, ok := s.(deadlocker); ok {
		m.Deadlocks = l.Deadlocks()
	}
	if m.Checked, err = check(ctx, s, m.House, m.Run.acked); err != nil {
		return m, err
	}
	fmt.Fprintf(b.log, ": %.0f orders/s, p99 %v, oversold %d", m.Run.rate(), m.Run.P99.Round(time.Microsecond), m.Checked.Oversold)
	if d.InProcess || !probing {
		return m, nil
	}
	p, err := probe(ctx, s, d, m.House, b.lease)
	m.Probed = &p
	fmt.Fprintf(b.log, "; a crash leaves stuck: %s; sold twice after a pause: %d", p.stuck(), p.PauseOversold)
	return m, err
}

// judge says what must not be: a design that sold a seat twice in its run or
// lost a sale, or a control that was not caught.
func judge(rows []measured) error {
	var errs []error
	for _, m := range rows {
		switch c := m.Checked; {
		case m.Design.Control && c.Oversold == 0:
			errs = append(errs, fmt.Errorf("%s: oversold nothing, so the checker or the load is too weak", m.Design.Name))
		case !m.Design.Control && c.Oversold > 0:
			errs = append(errs, fmt.Errorf("%s: %d seats were sold beyond their first time", m.Design.Name, c.Oversold))
		}
		if m.Run.Bought == 0 {
			errs = append(errs, fmt.Errorf("%s: nobody bought anything", m.Design.Name))
		}
		if m.Checked.Lost > 0 || m.Checked.Unasked > 0 {
			errs = append(errs, fmt.Errorf("%s: %d acknowledged seats have no order, %d seats are not in the house", m.Design.Name, m.Checked.Lost, m.Checked.Unasked))
		}
	}
	return errors.Join(errs...)
}

func (b *bench) write(rows []measured, took time.Duration) error {
	text := b.markdown(rows, took)
	if b.report != "" {
		if err := os.WriteFile(b.report, []byte(text), 0o644); err != nil {
			return err
		}
	}
	switch {
	case b.output == "json":
		return json.MarshalWrite(os.Stdout, b.json(rows), jsontext.WithIndent("  "))
	case b.report == "":
		_, err := os.Stdout.WriteString(text)
		return err
	}
	return nil
}
