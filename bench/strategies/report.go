package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// row is a measured design as JSON gives it.
type row struct {
	Design       string   `json:"design"`
	Control      bool     `json:"control,omitzero"`
	Seats        int      `json:"seats"`
	Seconds      float64  `json:"seconds"`
	OrdersPerSec float64  `json:"ordersPerSecond"`
	MeanMs       float64  `json:"meanMs"`
	P50Ms        float64  `json:"p50Ms"`
	P99Ms        float64  `json:"p99Ms"`
	SuccessRate  float64  `json:"successRate"`
	Deadlocks    int64    `json:"deadlocks"`
	CPUMicros    [3]int64 `json:"cpuMicrosPerOrder"` // this process with its buyers, Redis, MariaDB
	Run          run      `json:"run"`
	Stored       checked  `json:"stored"`
	Probed       *probed  `json:"probed,omitzero"`
	FreedAfterMs *float64 `json:"freedAfterMs,omitzero"` // −1: not within the probe
}

// document is the whole report as JSON.
type document struct {
	Machine string  `json:"machine"`
	Crowd   crowd   `json:"crowd"`
	LeaseMs int64   `json:"leaseMs"`
	Redlock int     `json:"redlockServers"`
	Rows    []row   `json:"rows"`
	SyncMs  float64 `json:"syncMs"` // one small write and fsync on the disk of the data
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (b *bench) json(rows []measured) document {
	d := document{Machine: machine(), Crowd: b.crowd, LeaseMs: b.lease.Milliseconds(), Redlock: b.redlock, SyncMs: ms(syncTime())}
	for _, m := range rows {
		r := row{Design: m.Design.Name, Control: m.Design.Control, Seats: m.House.Shows() * m.House.Seats, Seconds: m.Run.Elapsed.Seconds(),
			OrdersPerSec: m.Run.rate(), MeanMs: ms(m.Run.Mean), P50Ms: ms(m.Run.P50), P99Ms: ms(m.Run.P99), SuccessRate: m.Run.success(),
			Deadlocks: m.Deadlocks, Run: m.Run, Stored: m.Checked, Probed: m.Probed}
		for i, v := range m.Run.CPU.each(m.Run.Bought) {
			r.CPUMicros[i] = int64(v)
		}
		if m.Probed != nil && m.Probed.Freed != 0 {
			freed := max(ms(m.Probed.Freed), -1)
			r.FreedAfterMs = &freed
		}
		d.Rows = append(d.Rows, r)
	}
	return d
}

// syncTime is the median time of a small write that is forced to disk.
func syncTime() time.Duration {
	f, err := os.CreateTemp("", "seatflow-sync-")
	if err != nil {
		return 0
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	var took []time.Duration
	for range 50 {
		start := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			return 0
		}
		if err := f.Sync(); err != nil {
			return 0
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// milliseconds writes a duration with three digits.
func milliseconds(d time.Duration) string {
	switch v := ms(d); {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.4f", v)
	}
}

// markdown writes docs/strategies.md.
func (b *bench) markdown(rows []measured, took time.Duration) string {
	var w strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&w, format, args...) }
	p("# Ways to guard a seat, measured\n\nMade by `make strategies` (bench/strategies); every run rewrites this file.\n\n")
	p("%s\n%s A small write forced to this disk takes %s ms.\n", machine(), versions(), milliseconds(syncTime()))
	p("Buyers, designs and servers share the cores. The designs took turns in %d rounds of %g seconds a run, %s in all;\n",
		b.rounds, b.seconds, took.Round(time.Second))
	p("each row is the run with the median rate of its rounds.\n\n")
	if b.smoke {
		p("**A smoke run: the numbers mean nothing.**\n\n")
	}
	p("| design | orders/s | mean ms | p99 ms | success | CPU µs an order | deadlocks | stuck after a crash | sold twice after a pause | oversold |\n")
	p("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |\n")
	for _, m := range rows {
		oversold := fmt.Sprint(m.Checked.Oversold)
		if m.Checked.Oversold > 0 {
			oversold = "**" + oversold + "**"
		}
		stuck, twice := "–", "–"
		if m.Probed != nil {
			stuck, twice = m.Probed.stuck(), "no"
			if m.Probed.PauseOversold > 0 {
				twice = "**yes**"
			}
		}
		cost := m.Run.CPU.each(m.Run.Bought)
		spent := fmt.Sprintf("%.0f + %.0f + %.0f", cost[0], cost[1], cost[2])
		if m.Design.InProcess {
			spent = fmt.Sprintf("%.1f", cost[0])
		}
		p("| %s | %.0f | %s | %s | %.1f %% | %s | %d | %s | %s | %s |\n", m.Design.Name, m.Run.rate(), milliseconds(m.Run.Mean), milliseconds(m.Run.P99),
			100*m.Run.success(), spent, m.Deadlocks, stuck, twice, oversold)
	}
	p("\n| design | guard | what is durable | what it promises |\n| --- | --- | --- | --- |\n")
	for _, m := range rows {
		p("| %s | %s | %s | %s |\n", m.Design.Name, m.Design.Guard, m.Design.Durable, m.Design.Promise)
	}
	p("\n## What is measured\n\n")
	p("- %d buyers at a time, taken from %d users, ask again as soon as they are answered. The house has eight halls of two\n", b.crowd.Workers, b.crowd.Users)
	p("  shows, and more seats than most designs can sell in the time.\n")
	p("- Hot part: %.0f %% of the buyers want the same two neighbouring seats in the first hall, until %d have asked; then the\n", 100*b.crowd.Hot, b.crowd.Asks)
	p("  next two are in fashion. Cold part: the others want seats that nobody else asks for. %.0f %% want two seats, all or none,\n", 100*b.crowd.Pairs)
	p("  clicked in either order. Who is refused asks for a cold seat instead; who is told that it is busy asks up to %d times.\n", busyTries)
	p("- Success is orders by requests, repeated ones included. Most hot requests must be refused by any design that sells\n")
	p("  a seat once, so no honest row reaches 100 %%; what a row lacks beside its neighbours, it lost to waiting for locks.\n")
	p("- Mean and p99 are of every answer, refusals included.\n")
	p("- CPU is processor time by orders: of the process with the buyers in it, of Redis, of MariaDB. Refusals are in it.\n")
	p("- Oversold counts sales of a seat beyond its first, read from what each design stored, not from what it answered. The\n")
	p("  tables behind the locks have no unique key, so that a guard which fails is seen. Every acknowledged sale was found.\n")
	p("- Deadlocks are transactions that MariaDB ended with error 1213; they were tried again.\n")
	p("- Stuck after a crash: one taker dies between its check and its act. Its seat, another in that show, one in that hall and one\n")
	p("  in another hall are asked for at once. Leases and interrupted holds last %v here; ten seconds and more, or a quarter\n", b.lease)
	p("  of an hour for a hold, are usual.\n")
	p("- Sold twice after a pause: one taker sleeps there past its lease (a long collection, a stopped machine), somebody else buys the\n")
	p("  seat, the sleeper wakes up and goes on.\n")
	p("- Designs in memory alone have no row in these two: with the process goes the whole sale.\n")
	p("- All SQL designs use one MariaDB that forces each commit to disk (READ COMMITTED, %d connections that stay open, prepared\n", b.conns)
	p("  statements); Redis keeps nothing on disk, %d of them for Redlock. The plain design's Redis client is rueidis, which\n", b.redlock)
	p("  sends the commands of all callers over few connections. No row includes HTTP.\n\n")
	p("%s", why)
	return w.String()
}

// why is the part of the report that no run changes.
const why = `## Why the numbers differ

- In memory an order is a few cache lines. The two designs show what the arithmetic costs, not what a sale costs: nothing
  is stored. The histograms of the load generator are a good part of what is measured there.
- The SQL designs pay one forced write and four or more round trips for each order by itself. The server gathers the
  writes of commits that happen to meet, which is why many buyers together get more than one disk alone would give.
- With servers, buyers and load on the same cores, most rows are bounded by processor time and not by the disk: cores by
  CPU µs an order comes near to the orders a second. What is more than that was spent waiting.
- A row lock makes the crowd around a hot seat queue inside the database, each with a connection and an open
  transaction, to be told no. A version column refuses most of them by a plain read and makes the rest undo their work.
- A lock in Redis adds round trips and, for a hall or a show, makes buyers of different seats wait for each other while
  one of them talks to the database: the wider the lock, the fewer orders, the longer the tail, the more who give up.
- A lease is a promise about time that a sleeping holder cannot keep: behind it the check and the act are two steps
  again. Redlock takes its lock from a majority and loses it in the same way. Such locks say who should do a job; the
  seat itself needs a key or an owner that is checked in the step that writes.
- The plain design decides in one script, so its losers are cheap. Each order then pays a transaction of its own.
- SeatFlow decides in one step as well, and its winners share their commits: one transaction carries as many orders as
  queued while the one before was on its way to the disk. It also writes more for each order than any other row: its
  history, its outbox entry, its idempotency key, the change for the live map, and it counts limits and rate windows.
- A taker of SeatFlow or of the plain design that dies after it took seats leaves a hold without an order. It ends at
  its deadline; SeatFlow first makes the absence of the order a fact, so a taker that was only asleep cannot buy late.
`

// versions names the servers.
func versions() string {
	first := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).Output()
		line, _, _ := strings.Cut(string(out), "\n")
		if err != nil || line == "" {
			return name + " of an unknown version"
		}
		return line
	}
	redis := first("redis-server", "--version")
	if _, v, ok := strings.Cut(redis, "v="); ok {
		redis, _, _ = strings.Cut("Redis "+v, " sha")
	}
	maria := first("mariadbd", "--version")
	if _, v, ok := strings.Cut(maria, "Ver "); ok {
		v, _, _ = strings.Cut(v, "-MariaDB")
		maria = "MariaDB " + v
	}
	return redis + ", " + maria + "."
}

// machine names what everything ran on.
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
