package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
)

// bareBatch is how many orders the bare loop writes in a transaction.
const bareBatch = 256

func benchUser(i int64) string { return fmt.Sprintf("guest-%016x", uint64(i)*0x9E3779B97F4A7C15) }

// BenchmarkMySQLBareLoop is the yardstick of group commit: one connection that
// does nothing but write the same rows into the same tables, by multi-row
// statements of ready text, many orders a transaction.
func BenchmarkMySQLBareLoop(b *testing.B) {
	l := openMySQL(b, newDatabase(b), Options{})
	show := testShow(b, l, 10)
	ctx := context.Background()
	conn, err := l.writeDB.Conn(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	var (
		info, event, seat, outbox strings.Builder
		done                      int
	)
	b.ResetTimer()
	for done < b.N {
		n := min(bareBatch, b.N-done)
		for _, s := range []struct {
			to   *strings.Builder
			into string
		}{{&info, saleTable.into}, {&event, createdTable.into}, {&seat, seatTable.into}, {&outbox, outboxTable.into}} {
			s.to.Reset()
			s.to.WriteString("INSERT INTO " + s.into)
		}
		now := time.Now().UnixMicro()
		for i := range n {
			comma := ","
			if i == 0 {
				comma = ""
			}
			id := int64(done + i + 1)
			no, user := newNo(), benchUser(id)
			fmt.Fprintf(&info, "%s('%s',%d,'%s','key-%d',NULL,'%d:4500',4500,'EUR',%d,%d,%d,%d,%d,'web','','sale','pending',1,1,0)", comma, no, show.ID, user, id, id, now, now, now, now, now)
			fmt.Fprintf(&event, "%s('%s',%d,NULL,'buyer',NULL,NULL,NULL,%d,'order.created','pending','',1)", comma, no, now*4096+int64(i), now)
			fmt.Fprintf(&seat, "%s(%d,%d,'%s')", comma, show.ID, id, no)
			fmt.Fprintf(&outbox, "%s(%d,'%s',1)", comma, now*4096+int64(i), no)
		}
		for _, s := range []string{"START TRANSACTION", info.String(), seat.String(), event.String(), outbox.String(), "COMMIT"} {
			if _, err := conn.ExecContext(ctx, s); err != nil {
				b.Fatal(err)
			}
		}
		done += n
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
}

// BenchmarkMySQLInsertOrder: one-seat orders of distinct users, from as many
// callers as its name says.
func BenchmarkMySQLInsertOrder(b *testing.B) {
	for _, callers := range []int{1, 64, 256, 1024} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			var commits []time.Duration
			var mu sync.Mutex
			l := openMySQL(b, newDatabase(b), Options{OnCommit: func(_ int, took time.Duration) {
				mu.Lock()
				commits = append(commits, took)
				mu.Unlock()
			}})
			show := testShow(b, l, 10)
			before := l.Stats()
			cpu := cpuTime(b)
			benchCallers(b, callers, func(i int64) error {
				_, err := l.InsertOrder(context.Background(), sale(show, benchUser(i), fmt.Sprint("key-", i), seatflow.SeatID(i)))
				return err
			})
			s := l.Stats()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/order")
			b.ReportMetric(float64(s.Changes-before.Changes)/float64(s.Batches-before.Batches), "orders/commit")
			mu.Lock()
			slices.Sort(commits)
			b.ReportMetric(float64(commits[len(commits)*99/100].Microseconds())/1000, "p99-commit-ms")
			mu.Unlock()
		})
	}
}

// BenchmarkMySQLKeyAndInsert looks the key up before each order, as a request
// does.
func BenchmarkMySQLKeyAndInsert(b *testing.B) {
	for _, callers := range []int{64, 256, 1024} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			l := openMySQL(b, newDatabase(b), Options{})
			show := testShow(b, l, 10)
			benchCallers(b, callers, func(i int64) error {
				user, key := benchUser(i), fmt.Sprint("key-", i)
				if _, err := l.OrderByKey(context.Background(), seatflow.UserID(user), key); !errors.Is(err, seatflow.ErrNotFound) {
					return fmt.Errorf("a key that was not used: %w", err)
				}
				_, err := l.InsertOrder(context.Background(), sale(show, user, key, seatflow.SeatID(i)))
				return err
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
		})
	}
}

// BenchmarkMySQLUnusedKey asks for keys that were never used.
func BenchmarkMySQLUnusedKey(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			l := openMySQL(b, newDatabase(b), Options{})
			benchCallers(b, callers, func(i int64) error {
				if _, err := l.OrderByKey(context.Background(), seatflow.UserID(benchUser(i)), "key"); !errors.Is(err, seatflow.ErrNotFound) {
					return fmt.Errorf("a key that was not used: %w", err)
				}
				return nil
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "look-ups/s")
		})
	}
}

// BenchmarkMySQLPlainCommit is the yardstick of a lone order: one row, one
// commit.
func BenchmarkMySQLPlainCommit(b *testing.B) {
	l := openMySQL(b, newDatabase(b), Options{})
	if _, err := l.writeDB.Exec("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v TEXT)"); err != nil {
		b.Fatal(err)
	}
	var db *sql.DB = l.writeDB
	b.ResetTimer()
	for range b.N {
		if _, err := db.Exec("INSERT INTO t (v) VALUES ('one row of a plain commit')"); err != nil {
			b.Fatal(err)
		}
	}
}

// benchCallers runs b.N numbered calls from a number of goroutines.
func benchCallers(b *testing.B, callers int, call func(i int64) error) {
	var next atomic.Int64
	var first atomic.Pointer[error]
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := call(i); err != nil {
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	if err := first.Load(); err != nil {
		b.Fatal(*err)
	}
}
