package reconcile_test

import (
	"fmt"
	"testing"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/reconcile"
	"seatflow/internal/testkit"
)

// BenchmarkRound is a round over healthy shows of 200 seats, half of them
// sold.
func BenchmarkRound(b *testing.B) {
	for _, shows := range []int{100, 1000} {
		b.Run(fmt.Sprintf("memory/%d shows", shows), func(b *testing.B) { benchRound(b, shows) })
	}
}

// BenchmarkOnServersRound is the same on Redis and MariaDB.
func BenchmarkOnServersRound(b *testing.B) {
	testkit.SharedRedis(b)
	testkit.SharedMariaDB(b)
	b.Run("1000 shows", func(b *testing.B) { benchRound(b, 1000) })
}

func benchRound(b *testing.B, shows int) {
	r := newRig(b, 200)
	for i := range shows {
		id := r.show
		if i > 0 {
			id = r.addShow()
		}
		for first := seatflow.SeatID(1); first <= 100; first += 50 { // two large orders: the seats are what costs
			r.pay(r.holdIn(id, "ann", seatsOf(first, first+49)...))
		}
	}
	r.later()
	rec := r.reconciler()
	b.ResetTimer()
	for range b.N {
		rep, err := rec.Round(b.Context(), reconcile.RoundOptions{})
		if err != nil || !rep.Clean() || rep.Shows != shows {
			b.Fatalf("%+v, %v", rep, err)
		}
	}
}

// BenchmarkRebuild builds the view of a show of 50,000 seats, all of them sold
// in orders of fifty, from the facts.
func BenchmarkRebuild(b *testing.B) { benchRebuild(b) }

// BenchmarkOnServersRebuild is the same on Redis and MariaDB.
func BenchmarkOnServersRebuild(b *testing.B) {
	testkit.SharedRedis(b)
	testkit.SharedMariaDB(b)
	b.Run("50000 seats", benchRebuild)
}

func benchRebuild(b *testing.B) {
	const seats = 50_000
	r := newRig(b, seats)
	for first := seatflow.SeatID(1); first <= seats; first += seatflow.MaxSeatsPerOrder {
		o, err := r.svc.Create(b.Context(), booking.CreateRequest{Actor: buyer("crowd"), Show: r.show, Seats: seatsOf(first, first+seatflow.MaxSeatsPerOrder-1)})
		if err != nil {
			b.Fatal(err)
		}
		r.pay(o.Order)
	}
	b.ResetTimer()
	for range b.N {
		if err := r.svc.Rebuild(b.Context(), r.show); err != nil {
			b.Fatal(err)
		}
	}
}
