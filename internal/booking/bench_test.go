package booking_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/ledger"
	"seatflow/internal/memseats"
)

// benchHouse opens shows of 60,000 seats without a limit per user, enough
// for n distinct seats.
func benchHouse(b *testing.B, n int) (*booking.Service, []seatflow.ShowID) {
	b.Helper()
	const seats = 60_000
	ctx := b.Context()
	facts, err := ledger.OpenSQLite(ctx, filepath.Join(b.TempDir(), "facts.db"), ledger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	store := memseats.New(memseats.Options{})
	b.Cleanup(func() { facts.Close(); store.Close() })
	now := time.Now().UTC()
	hall, err := facts.CreateHall(ctx, seatflow.Hall{Name: "Hall", Zone: "UTC", CreatedAt: now})
	if err != nil {
		b.Fatal(err)
	}
	plan := &seatflow.Plan{Hall: hall.ID, Version: 1, Name: "Plan", Categories: []seatflow.Category{{Name: "A", Color: "#336699"}},
		Zones: []seatflow.Zone{{Name: "Stalls"}}, Source: []byte("{}")}
	for i := range seats {
		plan.Seats = append(plan.Seats, seatflow.PlanSeat{ID: seatflow.SeatID(i + 1), GUID: fmt.Sprint(i), Row: "1", Number: fmt.Sprint(i + 1)})
	}
	if err := facts.PublishPlan(ctx, plan); err != nil {
		b.Fatal(err)
	}
	all := &houses{m: map[seatflow.ShowID]*seatflow.House{}}
	svc := booking.New(booking.Options{Seats: store, Ledger: facts, Houses: all})
	var ids []seatflow.ShowID
	for range n/seats + 1 {
		show, err := facts.CreateShow(ctx, seatflow.Show{Hall: hall.ID, PlanVersion: 1, Title: "Show", Starts: now.Add(time.Hour), Ends: now.Add(2 * time.Hour),
			SaleFrom: now.Add(-time.Hour), SaleUntil: now.Add(time.Hour), Currency: "EUR", Prices: map[string]int64{"A": 1500},
			HoldFor: time.Minute, HoldCap: 10 * time.Minute, ExtendBy: time.Minute, Status: seatflow.ShowPublished, CreatedAt: now})
		if err != nil {
			b.Fatal(err)
		}
		all.m[show.ID] = seatflow.NewHouse(show, hall, plan)
		if err := svc.EnsureView(ctx, show.ID); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, show.ID)
	}
	return svc, ids
}

// A durable order on the real stores, from 256 callers at once as a sale's
// opening has them.
func BenchmarkCreateDistinct(b *testing.B) {
	svc, shows := benchHouse(b, b.N)
	var next atomic.Int64
	b.SetParallelism(128)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n := next.Add(1) - 1
			user := seatflow.UserID(fmt.Sprint("user-", n%5000))
			_, err := svc.Create(context.Background(), booking.CreateRequest{Actor: seatflow.Actor{User: user, Role: seatflow.RoleBuyer, Device: seatflow.DeviceWeb},
				Show: shows[n/60_000], Seats: []seatflow.SeatID{seatflow.SeatID(n%60_000 + 1)}, Key: fmt.Sprint("key-", n)})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A lone order: one caller, one commit each.
func BenchmarkCreateAlone(b *testing.B) {
	svc, shows := benchHouse(b, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		_, err := svc.Create(context.Background(), booking.CreateRequest{Actor: buyer("ann"), Show: shows[n/60_000],
			Seats: []seatflow.SeatID{seatflow.SeatID(n%60_000 + 1)}, Key: fmt.Sprint("key-", n)})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// A conflict on a hot seat, with a key that was never used.
func BenchmarkCreateConflict(b *testing.B) {
	svc, shows := benchHouse(b, 1)
	if _, err := svc.Create(context.Background(), booking.CreateRequest{Actor: buyer("ann"), Show: shows[0], Seats: []seatflow.SeatID{7}}); err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := svc.Create(context.Background(), booking.CreateRequest{Actor: buyer("bob"), Show: shows[0],
				Seats: []seatflow.SeatID{7}, Key: fmt.Sprint("key-", next.Add(1))})
			if seatflow.CodeOf(err) != seatflow.CodeSeatsTaken {
				b.Fatal(err)
			}
		}
	})
}
