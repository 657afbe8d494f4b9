package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// busyTries is how often a buyer asks again who was told to come back.
	busyTries = 3
	// warmUp is how many requests each worker makes before anything counts:
	// connections, scripts and statements are there afterwards.
	warmUp = 20
	// hang is how long after its end a run may take to come to rest.
	hang = 30 * time.Second
)

// run is what was measured of one strategy.
type run struct {
	Elapsed  time.Duration `json:"-"`
	Requests int64         `json:"requests"`
	Bought   int64         `json:"bought"` // orders
	Taken    int64         `json:"taken"`
	Busy     int64         `json:"busy"`
	Mean     time.Duration `json:"-"`
	P50      time.Duration `json:"-"`
	P99      time.Duration `json:"-"`
	SoldOut  bool          `json:"soldOut"` // the run ended before its time
	CPU      cpu           `json:"-"`
	acked    []seatKey     // warm-up included
}

// rate is orders a second.
func (r run) rate() float64 { return float64(r.Bought) / r.Elapsed.Seconds() }

// success is the share of requests that ended with an order.
func (r run) success() float64 { return float64(r.Bought) / float64(max(r.Requests, 1)) }

// worker is one buyer after the other.
type worker struct {
	buyer   *buyer
	hist    *hdrhistogram.Histogram
	sum     time.Duration
	count   [Busy + 1]int64
	acked   []seatKey
	soldOut bool
}

// drive has the workers buy for a time, or until the house is sold out. spent
// reads the processor time taken so far.
func drive(ctx context.Context, s Strategy, d *demand, seconds float64, spent func() cpu) (run, error) {
	workers := make([]*worker, d.crowd.Workers)
	for i := range workers {
		workers[i] = &worker{buyer: d.buyer(i)}
	}
	if _, err := phase(ctx, s, workers, func(w *worker) func() bool {
		left := warmUp
		return func() bool { left--; return left >= 0 }
	}, hang); err != nil {
		return run{}, fmt.Errorf("warm up: %w", err)
	}
	for _, w := range workers {
		w.count, w.sum, w.hist = [Busy + 1]int64{}, 0, hdrhistogram.New(1, int64(time.Minute), 3)
	}
	length := time.Duration(seconds * float64(time.Second))
	var over atomic.Bool
	timer := time.AfterFunc(length, func() { over.Store(true) })
	defer timer.Stop()
	before := spent()
	elapsed, err := phase(ctx, s, workers, func(*worker) func() bool { return func() bool { return !over.Load() } }, length+hang)
	if err != nil {
		return run{}, err
	}
	r := sum(workers, elapsed)
	r.CPU = spent().since(before)
	return r, nil
}

// phase runs every worker while its condition holds, and returns how long that
// took. The first failure ends all of them.
func phase(ctx context.Context, s Strategy, workers []*worker, while func(*worker) func() bool, most time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var wg sync.WaitGroup
	start := time.Now()
	for _, w := range workers {
		wg.Go(func() {
			if err := w.run(ctx, s, while(w)); err != nil {
				fail(err)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	if cause := context.Cause(ctx); cause != nil {
		return elapsed, cause
	}
	return elapsed, nil
}

func (w *worker) run(ctx context.Context, s Strategy, more func() bool) error {
	for more() {
		if ctx.Err() != nil {
			return nil // somebody else has said why
		}
		r, ok := w.buyer.wish()
		if !ok {
			w.soldOut = true
			return nil
		}
		if err := w.buy(ctx, s, r, more); err != nil {
			return err
		}
	}
	return nil
}

// buy is one buyer's errand: refused, they ask for something else; told that
// it is busy, they ask again and give up in the end.
func (w *worker) buy(ctx context.Context, s Strategy, r Request, more func() bool) error {
	for busy := 0; ; {
		start := time.Now()
		result, err := s.Take(ctx, r)
		took := time.Since(start)
		if err != nil {
			return fmt.Errorf("show %d, seats %v: %w", r.Show, r.Seats, err)
		}
		if result < Bought || result > Busy {
			return errors.New("a strategy answered nothing")
		}
		w.count[result]++
		w.sum += took
		if w.hist != nil {
			_ = w.hist.RecordValue(max(1, min(int64(took), int64(time.Minute))))
		}
		switch result {
		case Bought:
			for _, seat := range r.Seats {
				w.acked = append(w.acked, seatKey{int32(r.Show), int32(seat)})
			}
			return nil
		case Busy:
			if busy++; busy >= busyTries {
				return nil
			}
		case Taken:
			var ok bool
			if r, ok = w.buyer.instead(r); !ok {
				return nil
			}
		}
		if !more() {
			return nil
		}
	}
}

func sum(workers []*worker, elapsed time.Duration) run {
	r := run{Elapsed: elapsed}
	hist := hdrhistogram.New(1, int64(time.Minute), 3)
	var total time.Duration
	for _, w := range workers {
		r.Bought += w.count[Bought]
		r.Taken += w.count[Taken]
		r.Busy += w.count[Busy]
		total += w.sum
		hist.Merge(w.hist)
		r.acked = append(r.acked, w.acked...)
		r.SoldOut = r.SoldOut || w.soldOut
	}
	r.Requests = r.Bought + r.Taken + r.Busy
	if r.Requests > 0 {
		r.Mean = total / time.Duration(r.Requests)
	}
	r.P50, r.P99 = time.Duration(hist.ValueAtQuantile(50)), time.Duration(hist.ValueAtQuantile(99))
	return r
}
