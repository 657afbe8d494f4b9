// Package guardian ends holds that are due.
//
// It asks the seat store which wake-ups have come and has each decided by
// booking, which asks the ledger: the guardian itself decides nothing. A
// claimed wake-up is pushed on by a lease, so a guardian that dies delays and
// never loses; several may run, because every decision is a compare-and-set
// and every change of the view is fenced by owner.
//
// A partition that fails is tried again in the next round; the others go on.
package guardian

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"seatflow"
)

// Defaults of Options.
const (
	DefaultInterval = 250 * time.Millisecond
	DefaultBatch    = 256
	DefaultLease    = 10 * time.Second
	// settleAtOnce decisions run side by side, so that many expiries share
	// the ledger's commits.
	settleAtOnce = 64
)

// Settler decides about one due hold; *booking.Service does.
type Settler interface {
	Settle(ctx context.Context, due seatflow.DueHold) error
}

// Options are what a Guardian needs; zero values take the defaults.
type Options struct {
	Seats    seatflow.SeatStore
	Booking  Settler
	Interval time.Duration // between rounds
	Batch    int           // due holds claimed at once
	Lease    time.Duration // until a claimed one is due again
	Log      *slog.Logger
}

// Guardian watches every partition of one seat store.
type Guardian struct {
	o       Options
	running atomic.Bool
}

// New returns a Guardian that does nothing until it is run.
func New(o Options) *Guardian {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Batch <= 0 {
		o.Batch = DefaultBatch
	}
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Guardian{o: o}
}

// Run goes over all partitions at a fixed delay until the context ends. A
// second Run while one is under way is refused.
func (g *Guardian) Run(ctx context.Context) error {
	if !g.running.CompareAndSwap(false, true) {
		return errors.New("guardian: runs already")
	}
	defer g.running.Store(false)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if _, err := g.RunOnce(ctx); err != nil && ctx.Err() == nil {
			g.o.Log.WarnContext(ctx, "some due holds could not be settled; they come again", "err", err)
		}
		timer.Reset(g.o.Interval)
	}
}

// RunOnce settles everything that is due now and returns how many holds it
// decided about. An error names what failed; the rest was done.
func (g *Guardian) RunOnce(ctx context.Context) (int, error) {
	var settled atomic.Int64
	var failed []error
	for p := range seatflow.Partitions {
		for {
			due, err := g.o.Seats.ClaimDue(ctx, seatflow.Partition(p), g.o.Batch, g.o.Lease)
			if err != nil {
				failed = append(failed, err)
				break
			}
			if err := g.settle(ctx, due, &settled); err != nil {
				failed = append(failed, err)
			}
			if len(due) < g.o.Batch || ctx.Err() != nil {
				break
			}
		}
	}
	return int(settled.Load()), errors.Join(failed...)
}

// settle decides about a batch side by side. One failure does not stop the
// others; the first is returned.
func (g *Guardian) settle(ctx context.Context, due []seatflow.DueHold, settled *atomic.Int64) error {
	var group errgroup.Group
	group.SetLimit(settleAtOnce)
	for _, d := range due {
		group.Go(func() error {
			if err := g.o.Booking.Settle(ctx, d); err != nil {
				return err
			}
			settled.Add(1)
			return nil
		})
	}
	return group.Wait()
}
