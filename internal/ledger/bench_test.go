package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"seatflow"
)

// cpuTime is what this process has used so far, in user and kernel.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkInsertOrder: one-seat orders of distinct users, from as many
// callers as its name says. Making the order itself is part of the loop, and
// costs about two microseconds.
func BenchmarkInsertOrder(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			var commits []time.Duration // the committer's until it is closed
			l := openTest(b, Options{OnCommit: func(_ int, took time.Duration) { commits = append(commits, took) }})
			show := testShow(b, l, 10)
			var next atomic.Int64
			var failed atomic.Int64
			before := l.Stats()
			b.ReportAllocs()
			b.ResetTimer()
			cpu := cpuTime(b)
			done := make(chan struct{})
			for range callers {
				go func() {
					defer func() { done <- struct{}{} }()
					for {
						i := next.Add(1)
						if i > int64(b.N) {
							return
						}
						n := sale(show, fmt.Sprintf("guest-%016x", uint64(i)*0x9E3779B97F4A7C15), "key-"+fmt.Sprint(i), seatflow.SeatID(i))
						if _, err := l.InsertOrder(context.Background(), n); err != nil {
							failed.Add(1)
						}
					}
				}()
			}
			for range callers {
				<-done
			}
			b.StopTimer()
			if failed.Load() > 0 {
				b.Fatalf("%d failed", failed.Load())
			}
			s := l.Stats()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/order")
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
			slices.Sort(commits)
			b.ReportMetric(float64(commits[len(commits)*99/100].Microseconds())/1000, "p99-commit-ms")
			b.ReportMetric(float64(commits[len(commits)-1].Microseconds())/1000, "max-commit-ms")
			b.ReportMetric(float64(s.Changes-before.Changes)/float64(s.Batches-before.Batches), "orders/commit")
		})
	}
}

// BenchmarkPlainCommit is the yardstick of a lone order: one row, one commit,
// through database/sql with the same pragmas.
func BenchmarkPlainCommit(b *testing.B) {
	dsn, err := sqliteDSN(filepath.Join(b.TempDir(), "plain.db"), false)
	if err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		if _, err := db.Exec("INSERT INTO t (v) VALUES ('one row of a plain commit')"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUnusedKey asks for keys that were never used.
func BenchmarkUnusedKey(b *testing.B) {
	l := openTest(b, Options{})
	<-l.keys.tried // loaded
	b.ReportAllocs()
	for range b.N {
		if _, err := l.OrderByKey(context.Background(), "guest-0123456789", "0123456789abcdef"); !errors.Is(err, seatflow.ErrNotFound) {
			b.Fatal(err)
		}
	}
}

// BenchmarkPacedOrders inserts orders on a fixed schedule, as many a second as
// its name says, and tells how long they took from when they were due.
func BenchmarkPacedOrders(b *testing.B) {
	for _, rate := range []int{2000, 7500} {
		b.Run(fmt.Sprint(rate), func(b *testing.B) {
			l := openTest(b, Options{})
			show := testShow(b, l, 10)
			took := make([]time.Duration, b.N)
			var failed atomic.Int64
			var all sync.WaitGroup
			start := time.Now()
			for i := range b.N {
				due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
				if wait := time.Until(due); wait > 0 {
					<-time.After(wait)
				}
				all.Go(func() {
					n := sale(show, fmt.Sprintf("buyer-%03d", i*7919%1000), "key-"+fmt.Sprint(i), seatflow.SeatID(i+1))
					if _, err := l.InsertOrder(context.Background(), n); err != nil {
						failed.Add(1)
					}
					took[i] = time.Since(due)
				})
			}
			all.Wait()
			if failed.Load() > 0 {
				b.Fatalf("%d failed", failed.Load())
			}
			slices.Sort(took)
			for _, p := range []int{50, 99} {
				b.ReportMetric(float64(took[b.N*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
			}
			b.ReportMetric(float64(took[b.N-1].Microseconds())/1000, "max-ms")
		})
	}
}
