package live

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/memseats"
)

// oneHouse is a Houses with a single show, answering from memory.
type oneHouse struct{ house *seatflow.House }

func (o oneHouse) House(_ context.Context, show seatflow.ShowID) (*seatflow.House, error) {
	if show != o.house.Show.ID {
		return nil, seatflow.ErrNotFound
	}
	return o.house, nil
}

// memory returns the real store with one show of so many free seats.
func memory(t testing.TB, seats int) (*memseats.Store, oneHouse) {
	t.Helper()
	store := memseats.New(memseats.Options{})
	t.Cleanup(store.Close)
	house := &seatflow.House{Show: seatflow.Show{ID: 1, Hall: 7, Ends: time.Now().Add(time.Hour)}}
	base := make([]seatflow.SeatState, seats)
	for i := range base {
		base[i] = seatflow.Available
	}
	err := store.Rebuild(t.Context(), seatflow.View{Show: house.Show.Ref(), Generation: 1, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	return store, oneHouse{house}
}

// take holds or frees one seat.
func take(ctx context.Context, store *memseats.Store, show seatflow.ShowRef, n int, seat seatflow.SeatID) error {
	owner := seatflow.Owner{Order: seatflow.OrderNo(fmt.Sprintf("%026d", n)), Attempt: 1}
	reply, err := store.Hold(ctx, seatflow.HoldRequest{
		Show: show, Owner: owner, User: "u", Seats: []seatflow.SeatID{seat}, For: time.Hour, Cap: time.Hour,
	})
	if err != nil || reply.Outcome != seatflow.OutcomeHeld {
		return fmt.Errorf("hold seat %d: %s, %w", seat, reply.Outcome, err)
	}
	return nil
}

func free(ctx context.Context, store *memseats.Store, show seatflow.ShowRef, n int) error {
	owner := seatflow.Owner{Order: seatflow.OrderNo(fmt.Sprintf("%026d", n)), Attempt: 1}
	_, err := store.Release(ctx, show, owner, nil)
	return err
}

// BenchmarkMapCached reads a map that has not changed.
func BenchmarkMapCached(b *testing.B) {
	for _, seats := range []int{1057, 60_000} {
		b.Run(fmt.Sprint(seats), func(b *testing.B) {
			store, houses := memory(b, seats)
			h := New(Options{Seats: store, Houses: houses})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Map(b.Context(), 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMapMoving reads a map that has always just changed.
func BenchmarkMapMoving(b *testing.B) {
	for _, seats := range []int{1057, 60_000} {
		b.Run(fmt.Sprint(seats), func(b *testing.B) {
			store, houses := memory(b, seats)
			ref := houses.house.Show.Ref()
			h := New(Options{Seats: store, Houses: houses})
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if err := take(b.Context(), store, ref, n, 1); err != nil {
					b.Fatal(err)
				}
				if _, err := h.Map(b.Context(), 1); err != nil {
					b.Fatal(err)
				}
				if err := free(b.Context(), store, ref, n); err != nil {
					b.Fatal(err)
				}
				n++
			}
		})
	}
}

// BenchmarkMapBusy reads maps from all cores while a writer changes the house
// as fast as it can.
func BenchmarkMapBusy(b *testing.B) {
	store, houses := memory(b, 60_000)
	ref := houses.house.Show.Ref()
	h := New(Options{Seats: store, Houses: houses})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	var writes atomic.Int64
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			if take(ctx, store, ref, n, seatflow.SeatID(1+n%60_000)) == nil {
				writes.Add(2)
			}
			_ = free(context.WithoutCancel(ctx), store, ref, n)
		}
	}()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := h.Map(b.Context(), 1); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	cancel()
	<-done
	b.ReportMetric(float64(writes.Load())/b.Elapsed().Seconds(), "changes/s")
}

// BenchmarkFanOut sends one change to 10,000 subscribers who read nothing.
func BenchmarkFanOut(b *testing.B) {
	s := newFakeStore()
	s.open(1, 1057)
	h := New(Options{Seats: s, Houses: fakeHouses(1), Queue: 1 << 30})
	house, _ := fakeHouses(1).House(b.Context(), 1)
	for range 10_000 {
		sub, err := h.Subscribe(b.Context(), 1, "")
		if err != nil {
			b.Fatal(err)
		}
		defer sub.Close()
	}
	p := h.partition(house)
	for b.Loop() {
		s.change(1, seatflow.Sold, 1)
		if _, _, err := p.step(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/subscriber")
}
