package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// partsName is this measurement's: parts of the server alone, by the Go
// benchmarks that stand beside their code.
const partsName = "parts"

// part is a ratio of two benchmarks of one package, run in turn by one
// process, or the time that one takes where no yardstick is known.
type part struct {
	what     string
	pkg      string
	over     string // benchmark above the line
	under    string // and below; "": over is a time, in seconds
	metric   string
	count    int // calls of each
	target   float64
	most     bool
	measured []partRun
}

type partRun struct{ over, under float64 }

// parts are what is held against a yardstick by itself.
func parts() []*part {
	return []*part{
		{what: "holds of two seats through the store ÷ the same script pipelined by a bare client", pkg: "./internal/redisseats",
			over: "BenchmarkHold/seats=500/rate=1000000", under: "BenchmarkBareHold", metric: "calls/s", count: 60_000, target: 0.7},
		{what: "refused holds through the store ÷ the same script by redis-benchmark, pipelined", pkg: "./internal/redisseats",
			over: "BenchmarkRefused/rate=1000000", under: "BenchmarkBareRefused", metric: "calls/s", count: 200_000, target: 0.7},
		{what: "cost of a hold in a house of 50,000 seats ÷ in one of 500", pkg: "./internal/redisseats",
			over: "BenchmarkHold/seats=50000/rate=1000000", under: "BenchmarkHold/seats=500/rate=1000000", metric: "server-µs/op", count: 60_000, target: 1.1, most: true},
		{what: "orders committed to MariaDB by 1,024 callers ÷ a bare loop of multi-row inserts of the same rows", pkg: "./internal/ledger",
			over: "BenchmarkMySQLInsertOrder/1024", under: "BenchmarkMySQLBareLoop", metric: "orders/s", count: 60_000, target: 0.6},
		{what: "a view of 50,000 sold seats rebuilt from the facts, on Redis and MariaDB, s", pkg: "./internal/reconcile",
			over: "BenchmarkOnServersRebuild/50000_seats", metric: "ns/op", count: 3, target: 1, most: true},
		{what: "a round of the reconciler over 1,000 healthy shows of 200 seats, on Redis and MariaDB, s", pkg: "./internal/reconcile",
			over: "BenchmarkOnServersRound/1000_shows", metric: "ns/op", count: 3, target: 2, most: true},
	}
}

// measureParts runs the parts, each as often as there are rounds.
func (b *bench) measureParts(ctx context.Context) error {
	b.parts = parts()
	for n := range b.settings.rounds {
		b.say("parts, round %d of %d", n+1, b.settings.rounds)
		for _, p := range b.parts {
			if b.smoke {
				p.count = min(p.count, 200)
			}
			got, err := p.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", p.what, err)
			}
			p.measured = append(p.measured, got)
			b.say("  %s: %s = %.2f", p.what, p.numbers(got.over, got.under), ratio(got.over, got.under))
		}
	}
	return nil
}

// run measures a part once.
func (p *part) run(ctx context.Context) (partRun, error) {
	exactly := func(path string) string { return "^" + strings.ReplaceAll(path, "/", "$/^") + "$" }
	which := exactly(p.over)
	if p.under != "" {
		which = exactly(p.under) + "|" + which
	}
	c := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", which, "-benchtime", strconv.Itoa(p.count)+"x", p.pkg)
	c.Env = append(os.Environ(), "SEATFLOW_REQUIRE_BACKENDS=1")
	out, err := c.Output()
	if err != nil {
		return partRun{}, fmt.Errorf("%w\n%s", err, out)
	}
	over1, under1 := benchMetric(out, p.over, p.metric), float64(time.Second)
	if p.under != "" {
		under1 = benchMetric(out, p.under, p.metric)
	}
	if over1 == 0 || under1 == 0 {
		return partRun{}, fmt.Errorf("no %s of %s or %s in\n%s", p.metric, p.over, p.under, out)
	}
	return partRun{over1, under1}, nil
}

// numbers tells what a ratio is of.
func (p *part) numbers(over, under float64) string {
	if p.under == "" {
		return time.Duration(over).Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%.0f of %.0f %s", over, under, p.metric)
}

var cpuSuffix = regexp.MustCompile(`-\d+$`)

// benchMetric finds a benchmark's number in what go test prints; 0 when it is
// not there.
func benchMetric(out []byte, name, metric string) float64 {
	for line := range bytes.Lines(out) {
		fields := strings.Fields(string(line))
		if len(fields) < 4 || cpuSuffix.ReplaceAllString(fields[0], "") != name {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if fields[i+1] == metric {
				v, _ := strconv.ParseFloat(fields[i], 64)
				return v
			}
		}
	}
	return 0
}

// partsTable tells of them.
func (b *bench) partsTable(p func(string, ...any)) {
	p("\n## Parts\n\nThe Go benchmarks that stand beside the code, each beside its yardstick in one process, or its time alone.\n\n")
	p("| measurement | median | rounds | target | | numbers |\n| --- | ---: | --- | ---: | --- | --- |\n")
	for _, part := range b.parts {
		var ratios, overs, unders []float64
		var rounds []string
		for _, m := range part.measured {
			ratios = append(ratios, ratio(m.over, m.under))
			overs, unders = append(overs, m.over), append(unders, m.under)
			rounds = append(rounds, fmt.Sprintf("%.2f", ratio(m.over, m.under)))
		}
		got := medianOf(ratios)
		p("| %s | %.2f | %s | %s | %s | %s |\n", part.what, got, strings.Join(rounds, " "),
			target(part.target, part.most), b.verdict(got, part.target, part.most), part.numbers(medianOf(overs), medianOf(unders)))
	}
}
