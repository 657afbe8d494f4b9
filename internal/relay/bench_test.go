package relay

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/bus"
	"seatflow/internal/lock"
	"seatflow/internal/memseats"
)

// processor is the time that this process has spent on processors, the
// embedded bus included.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// relayFor runs a relay until done says so, and reports what it cost.
func relayFor(b *testing.B, o Options, stored []seatflow.Message, done func(*Relay) bool) {
	b.Helper()
	events, err := bus.Open(b.Context(), bus.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer events.Close()
	if err := events.Publish(b.Context(), stored...); err != nil {
		b.Fatal(err)
	}
	locks := lock.NewLocal()
	defer locks.Close()
	o.Bus, o.Locker = events, locks
	if o.Shows == nil {
		o.Shows = func(context.Context, seatflow.Partition) ([]Show, error) { return nil, nil }
	}
	r := New(o)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	used := processor(b)
	b.ResetTimer()
	go func() { ended <- r.Run(ctx) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done(r) {
		<-tick.C
	}
	b.StopTimer()
	b.ReportMetric(float64(processor(b)-used)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(r.count.messages.Load()), "messages")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRelayChanges moves a backlog of changes of two seats each to the
// embedded bus.
func BenchmarkRelayChanges(b *testing.B) {
	for _, shows := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d shows", shows), func(b *testing.B) {
			store := memseats.New(memseats.Options{ChangesKept: 2*b.N + 4096})
			defer store.Close()
			refs := make([]Show, shows)
			for i := range refs {
				refs[i].ShowRef = seatflow.ShowRef{ID: seatflow.ShowID(i + 1), Partition: 5, Until: time.Now().Add(24 * time.Hour)}
				if err := store.Rebuild(b.Context(), freeHouse(refs[i].ShowRef, 1)); err != nil {
					b.Fatal(err)
				}
			}
			now, err := store.Changes(b.Context(), seatflow.ChangesRequest{Partition: 5, After: seatflow.PositionNow})
			if err != nil {
				b.Fatal(err)
			}
			for i := range (b.N + 1) / 2 {
				ref := refs[i%shows].ShowRef
				owner := seatflow.Owner{Order: orderNo(int64(i)), Attempt: 1}
				if _, err := store.Hold(b.Context(), seatflow.HoldRequest{Show: ref, Owner: owner, User: "u", Seats: []seatflow.SeatID{1, 2}, For: time.Hour, Cap: time.Hour}); err != nil {
					b.Fatal(err)
				}
				if _, err := store.Release(b.Context(), ref, owner, nil); err != nil {
					b.Fatal(err)
				}
			}
			// As if a relay had ended before all that.
			last := seatflow.SeatsEvent{Type: seatflow.SeatsPosition, Show: 1, Generation: 1, Store: now.Identity, After: now.Next}
			relayFor(b, Options{Seats: store}, []seatflow.Message{last.Message(5, time.Now())},
				func(r *Relay) bool { return r.count.changes.Load() >= int64(b.N) })
		})
	}
}

// BenchmarkRelayOutbox moves a backlog of order events, the ledger's share
// left out.
func BenchmarkRelayOutbox(b *testing.B) {
	box := &fakeOutbox{}
	for i := range b.N {
		box.rows = append(box.rows, seatflow.OutboxEvent{ID: int64(i + 1), Event: seatflow.OrderEvent{
			Order: orderNo(int64(i + 1)), Version: 1, Type: seatflow.EventCreated, To: seatflow.OrderPending, Seats: []seatflow.SeatID{17, 18}, At: time.Now(),
			Actor: seatflow.Actor{Role: seatflow.RoleBuyer, Device: seatflow.DeviceWeb, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", SpanID: "00f067aa0ba902b7"}},
			Order: seatflow.Order{Show: 42, User: "guest:7f3a", Kind: seatflow.KindSale, Total: seatflow.Money{Amount: 2400, Currency: "EUR"}}})
	}
	store := memseats.New(memseats.Options{})
	defer store.Close()
	relayFor(b, Options{Seats: store, Outbox: box, OutboxPerSecond: 1 << 30}, nil, func(r *Relay) bool { return r.count.events.Load() >= int64(b.N) })
}
