package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	"seatflow"
	"seatflow/internal/memseats"
)

// pages measures the store in memory, which does far more than the scripts
// above: owners, records, limits, revisions, the due index and the log of
// changes are part of every step.
func pages(ctx context.Context, w io.Writer, rounds, writes int) error {
	fmt.Fprintln(w, "| seats | memseats: bytes a seat, empty | all held by twos | snapshot (ns) | hold two + release (µs) |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- |")
	for _, n := range sizes {
		before := heap()
		store := memseats.New(memseats.Options{})
		ref := seatflow.ShowRef{ID: 1, Partition: 1, Until: time.Now().Add(24 * time.Hour)}
		base := make([]seatflow.SeatState, n)
		for i := range base {
			base[i] = seatflow.Available
		}
		if err := store.Rebuild(ctx, seatflow.View{Show: ref, Generation: 1, Base: base}); err != nil {
			return err
		}
		empty := heap() - before

		rng := rand.New(rand.NewPCG(2, uint64(n)))
		var snapshot, change []float64
		for range rounds {
			began := time.Now()
			for range 1000 {
				if _, err := store.Snapshot(ctx, ref, seatflow.DetailStates); err != nil {
					return err
				}
			}
			snapshot = append(snapshot, float64(time.Since(began).Nanoseconds())/1000)
			began = time.Now()
			for i := range writes {
				owner := owner(i)
				if err := hold(ctx, store, ref, owner, rng.IntN(n/2)*2+1); err != nil {
					return err
				}
				if _, err := store.Release(ctx, ref, owner, nil); err != nil {
					return err
				}
			}
			change = append(change, float64(time.Since(began).Microseconds())/float64(writes))
		}
		before = heap()
		for i := range n / 2 {
			if err := hold(ctx, store, ref, owner(i), 2*i+1); err != nil {
				return err
			}
		}
		held := heap() - before + empty
		fmt.Fprintf(w, "| %d | %.1f | %.0f | %.0f | %.1f |\n", n, float64(empty)/float64(n), float64(held)/float64(n), median(snapshot), median(change))
		runtime.KeepAlive(base)
		store.Close()
	}
	return nil
}

func owner(i int) seatflow.Owner {
	return seatflow.Owner{Order: seatflow.OrderNo(fmt.Sprintf("01J%023d", i)), Attempt: 1}
}

func hold(ctx context.Context, store *memseats.Store, ref seatflow.ShowRef, owner seatflow.Owner, seat int) error {
	reply, err := store.Hold(ctx, seatflow.HoldRequest{Show: ref, Owner: owner, User: seatflow.UserID("u" + owner.Order[20:]),
		Seats: []seatflow.SeatID{seatflow.SeatID(seat), seatflow.SeatID(seat + 1)}, For: time.Hour, Cap: time.Hour})
	if err == nil && reply.Outcome != seatflow.OutcomeHeld {
		err = fmt.Errorf("hold of seat %d: %s", seat, reply.Outcome)
	}
	return err
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
