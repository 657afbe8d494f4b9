package memseats

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
)

func benchRef() seatflow.ShowRef {
	return seatflow.ShowRef{ID: 1000, Partition: 7, Until: time.Now().Add(24 * time.Hour)}
}

// benchStore returns a store with a house of n free seats.
func benchStore(b *testing.B, n int) (*Store, seatflow.ShowRef) {
	b.Helper()
	s, ref := New(Options{}), benchRef()
	base := make([]seatflow.SeatState, n)
	for i := range base {
		base[i] = seatflow.Available
	}
	if err := s.Rebuild(context.Background(), seatflow.View{Show: ref, Generation: 1, Base: base}); err != nil {
		b.Fatal(err)
	}
	return s, ref
}

func benchOrder(n int64) seatflow.Owner {
	return seatflow.Owner{Order: seatflow.OrderNo(fmt.Sprintf("%026d", n)), Attempt: 1}
}

func benchHold(ref seatflow.ShowRef, n int64, seats ...seatflow.SeatID) seatflow.HoldRequest {
	return seatflow.HoldRequest{Show: ref, Owner: benchOrder(n), User: seatflow.UserID(fmt.Sprintf("user-%d", n)),
		Seats: seats, For: 15 * time.Minute, Cap: 30 * time.Minute, Limit: 6}
}

// BenchmarkHold is what a hold costs while a house fills up.
func BenchmarkHold(b *testing.B) {
	for _, n := range []int{500, 60_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ctx := context.Background()
			reqs := make([]seatflow.HoldRequest, n)
			for i := range reqs {
				reqs[i] = benchHold(benchRef(), int64(i), seatflow.SeatID(i+1))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; {
				b.StopTimer()
				s, _ := benchStore(b, n)
				b.StartTimer()
				for i := range reqs {
					if done == b.N {
						break
					}
					if r, err := s.Hold(ctx, reqs[i]); err != nil || r.Outcome != seatflow.OutcomeHeld {
						b.Fatal(r, err)
					}
					done++
				}
			}
		})
	}
}

func BenchmarkHoldReleaseDistinct(b *testing.B) {
	const n = 60_000
	s, ref := benchStore(b, n)
	var worker atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		w := worker.Add(1)
		req := benchHold(ref, w, 0)
		for i := 0; pb.Next(); i++ {
			req.Seats[0] = seatflow.SeatID(1 + (int(w)*997+i*7)%n)
			if _, err := s.Hold(b.Context(), req); err != nil {
				b.Error(err)
				return
			}
			if _, err := s.Release(b.Context(), ref, req.Owner, nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkHotSeatRefused(b *testing.B) {
	s, ref := benchStore(b, 60_000)
	if _, err := s.Hold(b.Context(), benchHold(ref, 1, 4711)); err != nil {
		b.Fatal(err)
	}
	for _, rate := range []int{0, 1 << 30} {
		b.Run(fmt.Sprintf("rate=%t", rate > 0), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				req := benchHold(ref, 2, 4711)
				req.Rate = rate
				req.KeyHash = seatflow.HashKey(req.User, "key")
				for pb.Next() {
					if r, err := s.Hold(b.Context(), req); err != nil || r.Outcome != seatflow.OutcomeTaken {
						b.Error(r, err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkSnapshot reads a house that is written to all the time: every
// snapshot finds a revision that nobody has put in one piece yet.
func BenchmarkSnapshot(b *testing.B) {
	s, ref := benchStore(b, 60_000)
	req := benchHold(ref, 1, 4711)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Hold(b.Context(), req); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Snapshot(b.Context(), ref, seatflow.DetailStates); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Release(b.Context(), ref, req.Owner, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnapshotUnchanged(b *testing.B) {
	s, ref := benchStore(b, 60_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Snapshot(b.Context(), ref, seatflow.DetailStates); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRepair mends one seat of a sold-out house of 60,000 orders: the
// price of counting everything anew.
func BenchmarkRepair(b *testing.B) {
	const n = 60_000
	s, ref := benchStore(b, 1)
	view := seatflow.View{Show: ref, Generation: 2, Base: make([]seatflow.SeatState, n)}
	for i := range view.Base {
		view.Base[i] = seatflow.Available
		view.Orders = append(view.Orders, seatflow.OrderRecord{Owner: benchOrder(int64(i)), User: seatflow.UserID(fmt.Sprint("u", i)),
			Seats: []seatflow.SeatID{seatflow.SeatID(i + 1)}, State: seatflow.Sold})
	}
	if err := s.Rebuild(b.Context(), view); err != nil {
		b.Fatal(err)
	}
	req := seatflow.RepairRequest{Show: ref, Generation: 2, Seats: []seatflow.SeatRepair{
		{Seat: 1, SawState: seatflow.Sold, SawOwner: view.Orders[0].Owner, WantState: seatflow.Sold, Want: view.Orders[0]}}}
	b.ReportAllocs()
	for b.Loop() {
		if r, err := s.Repair(b.Context(), req); err != nil || len(r.Fixed) != 1 {
			b.Fatal(r, err)
		}
	}
}
