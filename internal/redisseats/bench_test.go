package redisseats

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// callers is how many ask at once on each processor.
const callers = 128

// benchShows installs as many houses of n seats as hold so many pairs.
func benchShows(b *testing.B, s *Store, n, pairs int) []seatflow.ShowRef {
	b.Helper()
	shows := make([]seatflow.ShowRef, 1+2*pairs/n)
	for i := range shows {
		shows[i] = seatflow.ShowRef{ID: seatflow.ShowID(i + 1), Partition: 7, Until: time.Now().Add(24 * time.Hour)}
		install(b, s, shows[i], 1, n)
	}
	return shows
}

// parallel calls do from many callers, b.N times altogether, with another
// number each time.
//
// Beside the rate it reports how much processor time a call takes here and in
// the server, which is what remains comparable on a busy machine.
func parallel(b *testing.B, s *Store, do func(n int) error) {
	b.Helper()
	here, there := processTime(), serverTime(b, s)
	var next atomic.Int64
	b.SetParallelism(callers)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := do(int(next.Add(1)) - 1); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(1e6*(processTime()-here)/float64(b.N), "client-µs/op")
	b.ReportMetric(1e6*(serverTime(b, s)-there)/float64(b.N), "server-µs/op")
}

// processTime is the processor time of this process, in seconds.
func processTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// serverTime is the processor time of the server, in seconds.
func serverTime(b *testing.B, s *Store) (sum float64) {
	b.Helper()
	info, err := s.client.Do(b.Context(), s.client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += seconds
		}
	}
	return sum
}

// benchAsk is a hold by a buyer of its own.
func benchAsk(ref seatflow.ShowRef, n, rate int, ids ...seatflow.SeatID) seatflow.HoldRequest {
	req := seatflow.HoldRequest{Show: ref, Owner: order(n), User: seatflow.UserID(fmt.Sprint("user-", n)), Seats: ids,
		For: 15 * time.Minute, Cap: 30 * time.Minute, Limit: 6, Rate: rate}
	req.KeyHash = seatflow.KeyHash{1, byte(n), byte(n >> 8), byte(n >> 16)}
	return req
}

func benchHold(s *Store, ref seatflow.ShowRef, n, rate int, want seatflow.HoldOutcome, ids ...seatflow.SeatID) error {
	r, err := s.Hold(context.Background(), benchAsk(ref, n, rate, ids...))
	if err == nil && r.Outcome != want {
		err = fmt.Errorf("%+v, want %v", r, want)
	}
	return err
}

// BenchmarkHold is what a hold of two seats side by side costs in a small and
// in a large house, while they fill: when one is full, the next show begins.
func BenchmarkHold(b *testing.B) {
	for _, n := range []int{500, 50_000} {
		for _, rate := range []int{0, 1_000_000} {
			b.Run(fmt.Sprintf("seats=%d/rate=%d", n, rate), func(b *testing.B) {
				s := open(b, Options{URL: testkit.SharedRedis(b).URL()})
				shows := benchShows(b, s, n, b.N)
				parallel(b, s, func(i int) error {
					ref, seat := shows[2*i/n], seatflow.SeatID(2*i%n+1)
					return benchHold(s, ref, i, rate, seatflow.OutcomeHeld, seat, seat+1)
				})
			})
		}
	}
}

// BenchmarkRefused is what the losers of two hot seats cost.
func BenchmarkRefused(b *testing.B) {
	s := open(b, Options{URL: testkit.SharedRedis(b).URL()})
	ref := benchShows(b, s, 500, 1)[0]
	if err := benchHold(s, ref, 0, 0, seatflow.OutcomeHeld, 7, 8); err != nil {
		b.Fatal(err)
	}
	for _, rate := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			parallel(b, s, func(i int) error { return benchHold(s, ref, i+1, rate, seatflow.OutcomeTaken, 7, 8) })
		})
	}
}

// BenchmarkMixed is the life of seats: held, and then sold and refunded, or
// released.
func BenchmarkMixed(b *testing.B) {
	s := open(b, Options{URL: testkit.SharedRedis(b).URL()})
	ref := benchShows(b, s, 50_000, 1)[0]
	parallel(b, s, func(i int) error {
		seat := seatflow.SeatID(2*i%50_000 + 1)
		if err := benchHold(s, ref, i, 0, seatflow.OutcomeHeld, seat, seat+1); err != nil {
			return err
		}
		if i%2 == 0 {
			_, err := s.Release(context.Background(), ref, order(i), nil)
			return err
		}
		if _, err := s.Sell(context.Background(), ref, order(i)); err != nil {
			return err
		}
		_, err := s.Unsell(context.Background(), ref, order(i), nil)
		return err
	})
}

func BenchmarkSnapshot(b *testing.B) {
	s := open(b, Options{URL: testkit.SharedRedis(b).URL()})
	ref := benchShows(b, s, 60_000, 1)[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Snapshot(b.Context(), ref, seatflow.DetailStates); err != nil {
			b.Fatal(err)
		}
	}
}
