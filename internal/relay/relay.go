package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"seatflow"
	"seatflow/internal/telemetry"
)

// Defaults of Options.
const (
	DefaultLease           = 10 * time.Second
	DefaultRetry           = time.Second
	DefaultCoalesce        = 20 * time.Millisecond
	DefaultBatch           = 1024
	DefaultWait            = 5 * time.Second
	DefaultHeartbeat       = 5 * time.Second
	DefaultRecent          = 2 * time.Minute
	DefaultOutboxBatch     = 512
	DefaultOutboxPoll      = 200 * time.Millisecond
	DefaultOutboxPerSecond = 5_000 // a fifth of a processor, most of it the bus's
)

// Show is a show as the relay must know it.
type Show struct {
	seatflow.ShowRef
	Hall seatflow.HallID
}

// Options are what a Relay works with; zero values of the tuning fields take
// the defaults.
type Options struct {
	Seats  seatflow.SeatStore
	Bus    seatflow.Bus
	Locker seatflow.Locker
	Outbox seatflow.Outbox // nil: order events are not published

	// Shows lists the shows of a partition that have a view now.
	Shows func(ctx context.Context, partition seatflow.Partition) ([]Show, error)
	// Ensure rebuilds a show's view if it is missing or suspect. Nil: views
	// are somebody else's care.
	Ensure func(ctx context.Context, show seatflow.ShowID) error
	// Hall tells a show's hall, 0 if unknown; asked once per show. May be nil.
	Hall func(ctx context.Context, show seatflow.ShowID) seatflow.HallID

	Log     *slog.Logger
	Metrics *telemetry.Metrics

	// Lamport is this node's clock, which numbers what is published; nil: one
	// of the relay's own.
	Lamport *seatflow.Lamport

	// Jitter draws a part of a pause, so that nodes do not all ask at once;
	// nil: any part, by chance.
	Jitter func(most time.Duration) time.Duration

	Lease           time.Duration // of a partition, renewed while it is held
	Retry           time.Duration // between attempts to get a lease that another node has
	Coalesce        time.Duration // between two reads while changes keep coming
	Batch           int           // changes per read
	Wait            time.Duration // for changes, per read
	Heartbeat       time.Duration // between positions of a show that has gone quiet
	Recent          time.Duration // so long after its last change a show's position is told
	OutboxBatch     int           // rows per read
	OutboxPoll      time.Duration // between reads of an outbox that had less than a batch
	OutboxPerSecond int           // rows, at most
}

func (o *Options) fill() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Lamport == nil {
		o.Lamport = new(seatflow.Lamport)
	}
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	or(&o.Lease, DefaultLease)
	or(&o.Retry, DefaultRetry)
	or(&o.Coalesce, DefaultCoalesce)
	or(&o.Batch, DefaultBatch)
	or(&o.Wait, DefaultWait)
	or(&o.Heartbeat, DefaultHeartbeat)
	or(&o.Recent, DefaultRecent)
	or(&o.OutboxBatch, DefaultOutboxBatch)
	or(&o.OutboxPoll, DefaultOutboxPoll)
	or(&o.OutboxPerSecond, DefaultOutboxPerSecond)
}

func or[T int | time.Duration](v *T, byDefault T) {
	if *v <= 0 {
		*v = byDefault
	}
}

// Relay moves what happens to the bus, as far as this node has the leases.
type Relay struct {
	o       Options
	running atomic.Bool
	places  [seatflow.Partitions]place
	count   counters
}

// counters is what the metrics show.
type counters struct {
	changes, messages, resets, events, failures atomic.Int64
	outboxRows                                  atomic.Int64 // in the read under way
	outboxSince                                 atomic.Int64 // oldest of them, as UnixNano; 0: none
}

// place is where a partition's relay stands, for Lag and the metrics.
type place struct {
	mu      sync.Mutex
	owned   bool
	known   bool // store and after are set
	store   string
	after   seatflow.Position
	pending int       // changes read and not published yet
	since   time.Time // they were read
}

// New returns a Relay that does nothing until it is run.
func New(o Options) *Relay {
	o.fill()
	r := &Relay{o: o}
	r.gauges()
	return r
}

// Run competes for the leases and relays under those it gets until the
// context ends; then it gives them back and returns nil. A second Run while
// one is under way is refused.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("relay: runs already")
	}
	defer r.running.Store(false)
	var all sync.WaitGroup
	for p := range seatflow.Partitions {
		all.Go(func() {
			r.own(ctx, fmt.Sprintf("relay:p%02d", p), func(ctx context.Context) { r.relayPartition(ctx, seatflow.Partition(p)) })
		})
	}
	if r.o.Outbox != nil {
		all.Go(func() { r.own(ctx, "relay:outbox", r.relayOutbox) })
	}
	all.Wait()
	return nil
}

// releaseWithin bounds how long giving a lease back may take.
const releaseWithin = 2 * time.Second

// own works under a lease whenever it can be had.
func (r *Relay) own(ctx context.Context, name string, work func(context.Context)) {
	failed := false
	for ctx.Err() == nil {
		held, lock, err := r.o.Locker.TryLock(ctx, name, r.o.Lease)
		switch {
		case err == nil:
			failed = false
			r.o.Log.DebugContext(ctx, "lease taken", "lease", name)
			work(held)
			if ctx.Err() == nil {
				r.o.Log.WarnContext(ctx, "lease lost", "lease", name)
			}
			r.release(ctx, name, lock)
		case errors.Is(err, seatflow.ErrLocked), ctx.Err() != nil:
		case !failed:
			failed = true
			r.o.Log.ErrorContext(ctx, "no lease can be had: trying again", "lease", name, "err", err)
		}
		// Not all nodes at the same moment.
		pause(ctx, r.o.Retry/2+r.o.Jitter(r.o.Retry))
	}
}

// release gives a lease back, though the context may have ended.
func (r *Relay) release(ctx context.Context, name string, lock seatflow.Lock) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	if err := lock.Release(ctx); err != nil {
		r.o.Log.WarnContext(ctx, "a lease could not be given back; it ends by itself", "lease", name, "err", err)
	}
}

// Pauses between attempts at what failed.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 5 * time.Second
)

// insist tries until it succeeds or the context ends, and reports which. It
// tells of the first failure and of the success after it.
func (r *Relay) insist(ctx context.Context, what string, try func(context.Context) error) bool {
	for wait := time.Duration(0); ctx.Err() == nil; {
		err := try(ctx)
		if err == nil {
			if wait > 0 {
				r.o.Log.InfoContext(ctx, "the relay goes on", "after", what)
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		r.count.failures.Add(1)
		if wait == 0 {
			r.o.Log.ErrorContext(ctx, "the relay cannot go on: trying again", "what", what, "err", err)
		}
		wait = min(max(2*wait, retryFirst), retryMost)
		pause(ctx, wait)
	}
	return false
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// publish stores messages, however long it takes. It reports whether it
// succeeded before the context ended, and whether it failed meanwhile.
func (r *Relay) publish(ctx context.Context, messages []seatflow.Message) (ok, failed bool) {
	for i := range messages {
		r.o.Lamport.Stamp(&messages[i])
	}
	ok = r.insist(ctx, "publish", func(ctx context.Context) error {
		err := r.o.Bus.Publish(ctx, messages...)
		failed = failed || err != nil
		return err
	})
	if ok {
		r.count.messages.Add(int64(len(messages)))
	}
	return ok, failed
}
