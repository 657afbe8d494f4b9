package bus

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// cpuOf is the processor time of another process; 0 where it cannot be read.
func cpuOf(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// orderEvents are messages such as the relay publishes: 256 bytes and the
// attributes of an event.
func orderEvents(n *int, count int, payload []byte) []seatflow.Message {
	list := make([]seatflow.Message, count)
	for i := range list {
		*n++
		id := fmt.Sprintf("01JZ8Q4G7K3N5P9R2S4T%06d.1", *n)
		list[i] = seatflow.Message{
			Subject: seatflow.OrdersSubject(seatflow.ShowID(*n%10+1), "order.paid"), ID: id, Payload: payload,
			Header: map[string]string{
				"ce-specversion": "1.0", "ce-id": id, "ce-source": "/seatflow/orders", "ce-type": "seatflow.order.paid",
				"ce-time": "2026-05-01T18:00:00.000Z", "content-type": "application/json",
			},
		}
	}
	return list
}

func benchmarkPublish(b *testing.B, bus *Bus, servers func() time.Duration) {
	payload := make([]byte, 256)
	n := 0
	for _, size := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			own, theirs := ownCPU(), servers()
			b.ReportAllocs()
			messages := 0
			for b.Loop() {
				if err := bus.Publish(b.Context(), orderEvents(&n, size, payload)...); err != nil {
					b.Fatal(err)
				}
				messages += size
			}
			per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(messages) }
			b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "messages/s")
			b.ReportMetric(per(ownCPU()-own), "own-cpu-µs/message")
			if d := servers() - theirs; d > 0 {
				b.ReportMetric(per(d), "server-cpu-µs/message")
			}
		})
	}
}

func benchOpen(b *testing.B, o Options) *Bus {
	o.Log = slog.New(slog.DiscardHandler)
	bus, err := Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = bus.Close() })
	return bus
}

// BenchmarkPublish is what a message costs. The embedded server's work is in
// the time of this process.
func BenchmarkPublish(b *testing.B) {
	b.Run("embedded", func(b *testing.B) {
		benchmarkPublish(b, benchOpen(b, Options{Dir: b.TempDir()}), func() time.Duration { return 0 })
	})
	for _, servers := range []int{1, 3} {
		b.Run(fmt.Sprintf("external=%d", servers), func(b *testing.B) {
			s := testkit.StartNATS(b, testkit.NATSOptions{Nodes: servers})
			benchmarkPublish(b, benchOpen(b, Options{URL: s.URL(), Replicas: servers}), func() (d time.Duration) {
				for i := range servers {
					d += cpuOf(s.PID(i))
				}
				return d
			})
		})
	}
}

// BenchmarkDeliver is what a message costs with one subscriber.
func BenchmarkDeliver(b *testing.B) {
	bus := benchOpen(b, Options{Dir: b.TempDir()})
	ctx, cancel := context.WithCancel(b.Context())
	ready, done := make(chan struct{}), make(chan error)
	got := make(chan int, 1024)
	go func() {
		done <- bus.Subscribe(ctx, "seatflow.orders.>", func() { close(ready) }, func(run []seatflow.Message) { got <- len(run) })
	}()
	<-ready
	payload := make([]byte, 256)
	n, messages, own := 0, 0, ownCPU()
	for b.Loop() {
		if err := bus.Publish(b.Context(), orderEvents(&n, 64, payload)...); err != nil {
			b.Fatal(err)
		}
		for left := 64; left > 0; {
			left -= <-got
		}
		messages += 64
	}
	b.ReportMetric(float64(ownCPU()-own)/1000/float64(messages), "own-cpu-µs/message")
	cancel()
	<-done
}
