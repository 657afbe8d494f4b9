package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// median of a number over the rounds.
func (b *bench) median(of func(*measured) float64) float64 {
	return medianOf(b.values(of))
}

// medianOf is the median of one or more numbers, which it sorts.
func medianOf(v []float64) float64 {
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// target writes a bound; verdict, whether a number keeps it.
func target(bound float64, most bool) string {
	if most {
		return fmt.Sprintf("≤ %g", bound)
	}
	return fmt.Sprintf("≥ %g", bound)
}

func (b *bench) verdict(got, bound float64, most bool) string {
	switch {
	case b.smoke:
		return "not judged"
	case most && got > bound, !most && got < bound:
		return "**missed**"
	}
	return "reached"
}

func (b *bench) values(of func(*measured) float64) []float64 {
	v := make([]float64, len(b.rounds))
	for i, m := range b.rounds {
		v[i] = of(m)
	}
	return v
}

// row is one line of the table of results.
type row struct {
	what   string
	got    func(*measured) float64
	format string
	target float64
	most   bool // the target is the most that is allowed, not the least
	name   string
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (b *bench) rows() []row {
	orders := func(c int) func(*measured) float64 {
		return func(m *measured) float64 { return ratio(m.orders[c].rate(), m.null[c].rate()) }
	}
	return []row{
		{"durable orders, 256 connections ÷ null handler", orders(many), "%.3f", 0.40, false, "orders"},
		{"durable orders, 64 connections ÷ null handler", orders(few), "%.3f", 0.30, false, "orders"},
		{"hot-seat conflicts, 256 connections ÷ null handler", func(m *measured) float64 { return ratio(m.hot.rate(), m.nullHot.rate()) }, "%.3f", 0.50, false, "hot"},
		{"seat-map reads, 256 connections ÷ static handler", func(m *measured) float64 { return ratio(m.read.rate(), m.nullMap.rate()) }, "%.3f", 0.80, false, "map"},
		{"p99 of orders at half the capacity, ms", func(m *measured) float64 { return m.half.Latency["order"].P99 }, "%.2f", 10, true, "half"},
		{"a lone order ÷ one plain SQLite commit", func(m *measured) float64 { return ratio(float64(m.lone), float64(m.commit)) }, "%.2f", 1.3, true, "lone"},
	}
}

// text writes the report.
func (b *bench) text(took time.Duration) (string, error) {
	var w strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&w, format, args...) }
	p("# Benchmarks\n\n")
	p("Made by `make bench` (bench/system); every run rewrites this file.\n\n")
	p("%s\n\n", machine())
	p("%d rounds of %d seconds a run, %s in all. Each round begins with an empty data folder and ends with the verifier.\n", b.settings.rounds, b.seconds, took.Round(time.Second))
	p("Server, null handler and load generator share the cores and take turns; a ratio is of two runs that followed\n")
	p("each other, and each number is the median of the rounds.\n\n")

	if len(b.rounds) > 0 {
		b.embedded(p)
	}
	if len(b.nets) > 0 {
		b.distributed(p)
	}
	if len(b.parts) > 0 {
		b.partsTable(p)
	}
	return w.String(), nil
}

// embedded tells of the rounds of one process with nothing beside it.
func (b *bench) embedded(p func(string, ...any)) {
	p("## Targets\n\n| measurement | median | rounds | target | |\n| --- | ---: | --- | ---: | --- |\n")
	for _, r := range b.rows() {
		if !b.wants(r.name) {
			continue
		}
		got := b.median(r.got)
		rounds := make([]string, 0, len(b.rounds))
		for _, v := range b.values(r.got) {
			rounds = append(rounds, fmt.Sprintf(r.format, v))
		}
		p("| %s | "+r.format+" | %s | %s | %s |\n", r.what, got, strings.Join(rounds, " "), target(r.target, r.most), b.verdict(got, r.target, r.most))
	}

	p("\n## Numbers behind them\n\n| run | a second | p50 ms | p99 ms | server CPU µs each |\n| --- | ---: | ---: | ---: | ---: |\n")
	line := func(name, what string, of func(*measured) wrkRun) {
		if b.wants(name) {
			p("| %s | %.0f | %.2f | %.2f | %.0f |\n", what, b.median(func(m *measured) float64 { return of(m).rate() }),
				b.median(func(m *measured) float64 { return float64(of(m).P50) / 1000 }),
				b.median(func(m *measured) float64 { return float64(of(m).P99) / 1000 }),
				b.median(func(m *measured) float64 { return of(m).cost() }))
		}
	}
	for _, c := range []int{few, many} {
		line("orders", fmt.Sprintf("null handler, %d connections", c), func(m *measured) wrkRun { return m.null[c] })
		line("orders", fmt.Sprintf("durable orders, %d connections", c), func(m *measured) wrkRun { return m.orders[c] })
	}
	line("hot", "null handler, size of a conflict", func(m *measured) wrkRun { return m.nullHot })
	line("hot", "hot-seat conflicts", func(m *measured) wrkRun { return m.hot })
	line("map", "static handler, size of the map", func(m *measured) wrkRun { return m.nullMap })
	line("map", fmt.Sprintf("seat-map reads, %d seats", theatreSeats), func(m *measured) wrkRun { return m.read })
	if b.wants("mixed") { // the processor time is of both together, and cannot be told apart
		clients := func(what string, of func(*measured) wrkRun) {
			p("| %s | %.0f | %.2f | %.2f | |\n", what, b.median(func(m *measured) float64 { return of(m).rate() }),
				b.median(func(m *measured) float64 { return float64(of(m).P50) / 1000 }),
				b.median(func(m *measured) float64 { return float64(of(m).P99) / 1000 }))
		}
		clients(fmt.Sprintf("mixed: %d clients browsing", browseClients), func(m *measured) wrkRun { return m.browse })
		clients(fmt.Sprintf("mixed: %d clients ordering", orderClients), func(m *measured) wrkRun { return m.mixed })
		p("| mixed, together | %.0f | | | |\n", b.median(func(m *measured) float64 { return m.browse.rate() + m.mixed.rate() }))
	}
	p("\n")
	if b.wants("half") {
		lat := func(q func(*measured) float64) float64 { return b.median(q) }
		p("Orders on a fixed schedule of half the capacity (median %.0f a second; `seatflow load`, latency from the intended start): "+
			"p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, p99.9 %.2f ms; sent late: %.0f of %.0f.\n\n",
			lat(func(m *measured) float64 { return m.half.Rate }),
			lat(func(m *measured) float64 { return m.half.Latency["order"].P50 }),
			lat(func(m *measured) float64 { return m.half.Latency["order"].P90 }),
			lat(func(m *measured) float64 { return m.half.Latency["order"].P99 }),
			lat(func(m *measured) float64 { return m.half.Latency["order"].P999 }),
			lat(func(m *measured) float64 { return float64(m.half.Missed) }),
			lat(func(m *measured) float64 { return float64(m.half.Sent) }))
	}
	if b.wants("lone") {
		us := func(f func(*measured) time.Duration) float64 {
			return b.median(func(m *measured) float64 { return float64(f(m).Microseconds()) })
		}
		p("A lone order takes %.0f µs, a plain commit of the same rows %.0f µs (one after the other, by turns, medians).\n\n",
			us(func(m *measured) time.Duration { return m.lone }), us(func(m *measured) time.Duration { return m.commit }))
	}
	last := b.rounds[len(b.rounds)-1]
	p("The verifier found nothing in any round; the last one ended with %d seats in active orders, none twice,\n", last.sold)
	p("and the views equal to the facts.\n\n")

	p("## What is measured\n\n")
	p("- An order is the whole path: HTTP, bearer token, strict JSON, idempotency key, purchase limit, hold in the seat\n")
	p("  state, group commit to SQLite (WAL, synchronous=FULL) with history and outbox, change for the live map, answer.\n")
	p("  Every order asks for a seat of its own, from %d buyers in houses of %d seats.\n", buyers, stadiumSeats)
	p("- The null handler is net/http that reads the body and answers with as many bytes: %d for an order, %d for a\n", last.sizes[0], last.sizes[1])
	p("  conflict, %d for a seat map of %d seats. wrk sends it the same requests, headers and tokens included.\n", last.sizes[2], theatreSeats)
	p("- The hot seat is taken before the run: every answer is a conflict that names the seat.\n")
	p("- A plain commit is one transaction of the same four rows into the same tables on the same disk with the same\n")
	p("  pragmas, through database/sql, without a server.\n")
	p("- The mixed run is closed loop, as fast as the clients go, on three shows of %d seats: browsing asks for the list\n", arenaSeats)
	p("  of shows, a show and its whole map in turn; ordering takes seats of the same shows meanwhile.\n")
	p("- wrk's script costs its share of the cores too; it is the same for both sides of a ratio.\n")
}

// machine describes what the numbers were measured on, without naming it.
func machine() string {
	cpu, kernel := "unknown processor", "unknown kernel"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = strings.TrimSpace(string(b))
	}
	return fmt.Sprintf("%d cores (%s), %s %s, %s.", runtime.NumCPU(), cpu, runtime.GOOS, kernel, runtime.Version())
}
