package main

import (
	"fmt"
	"strings"
	"time"
)

func (b *bench) netValues(of func(*netMeasured) float64) []float64 {
	v := make([]float64, len(b.nets))
	for i, m := range b.nets {
		v[i] = of(m)
	}
	return v
}

func (b *bench) netMedian(of func(*netMeasured) float64) float64 {
	return medianOf(b.netValues(of))
}

// distributed tells of the rounds on Redis, MariaDB and NATS.
func (b *bench) distributed(p func(string, ...any)) {
	p("\n## Distributed\n\n")
	p("One node, Redis, MariaDB (a commit is on disk before it is answered) and NATS share the cores with the load\n")
	p("generator. The plain design is one script for the rate window, one for the seat lock, one transaction an order\n")
	p("(bench/strategies/plain), under the same requests on the same servers. Rate windows are on and set high.\n\n")
	p("| measurement | median | rounds | target | |\n| --- | ---: | --- | ---: | --- |\n")
	for _, r := range []struct {
		what   string
		of     func(*netMeasured) float64
		target float64
		most   bool
	}{
		{"durable orders, 256 connections ÷ plain design", func(m *netMeasured) float64 { return ratio(m.orders.rate(), m.plain.rate()) }, 4, false},
		{"their p99 ÷ the plain design's", func(m *netMeasured) float64 { return ratio(float64(m.orders.P99), float64(m.plain.P99)) }, 1, true},
		{"hot-seat losers ÷ plain design", func(m *netMeasured) float64 { return ratio(m.hot.rate(), m.plainHot.rate()) }, 2, false},
	} {
		got := b.netMedian(r.of)
		var rounds []string
		for _, v := range b.netValues(r.of) {
			rounds = append(rounds, fmt.Sprintf("%.2f", v))
		}
		p("| %s | %.2f | %s | %s | %s |\n", r.what, got, strings.Join(rounds, " "), target(r.target, r.most), b.verdict(got, r.target, r.most))
	}
	p("\n| run | a second | p50 ms | p99 ms | server CPU µs each |\n| --- | ---: | ---: | ---: | ---: |\n")
	line := func(what string, of func(*netMeasured) wrkRun) {
		p("| %s | %.0f | %.2f | %.2f | %.0f |\n", what, b.netMedian(func(m *netMeasured) float64 { return of(m).rate() }),
			b.netMedian(func(m *netMeasured) float64 { return float64(of(m).P50) / 1000 }),
			b.netMedian(func(m *netMeasured) float64 { return float64(of(m).P99) / 1000 }),
			b.netMedian(func(m *netMeasured) float64 { return of(m).cost() }))
	}
	line("null handler, 256 connections", func(m *netMeasured) wrkRun { return m.null })
	line("plain design, 256 connections", func(m *netMeasured) wrkRun { return m.plain })
	line("durable orders, 256 connections", func(m *netMeasured) wrkRun { return m.orders })
	line("plain design, 16 connections", func(m *netMeasured) wrkRun { return m.plainHalf })
	line("durable orders, 16 connections", func(m *netMeasured) wrkRun { return m.half })
	line("plain design, hot seat", func(m *netMeasured) wrkRun { return m.plainHot })
	line("hot-seat conflicts", func(m *netMeasured) wrkRun { return m.hot })
	p("\nWhen the load at 256 connections ended, nothing waited for the bus any more after %v (median). The verifier\n",
		time.Duration(b.netMedian(func(m *netMeasured) float64 { return float64(m.caughtUp) })).Round(time.Millisecond))
	p("found nothing in any round, on the stores themselves.\n")
}
