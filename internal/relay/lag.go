package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"seatflow"
)

// LagMost is how many changes of a partition, and how many rows of the outbox,
// [Relay.Lag] counts at most.
const LagMost = 1000

// lagForgets: where nothing is stored of a partition any more, the changes that
// the store still keeps and that are older than this were published once, and
// have gone from the bus by their age.
const lagForgets = time.Hour

// Lag is what has happened and is not on the bus yet.
type Lag struct {
	Changes    int           // of seats; up to LagMost of each partition
	Partitions int           // that have any
	Outbox     int           // order events, up to LagMost
	Oldest     time.Duration // age of the oldest of all these, by this node's clock
}

// Zero reports whether nothing waits.
func (l Lag) Zero() bool { return l.Changes == 0 && l.Outbox == 0 }

// Lag looks at the stores and the bus for what waits, whichever node has the
// leases.
func (r *Relay) Lag(ctx context.Context) (Lag, error) {
	var (
		mu     sync.Mutex
		lag    Lag
		oldest time.Time
		group  errgroup.Group
	)
	older := func(at time.Time) {
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	group.SetLimit(8)
	for p := range seatflow.Partitions {
		group.Go(func() error {
			changes, err := r.behind(ctx, seatflow.Partition(p))
			if err != nil || len(changes) == 0 {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			lag.Changes += len(changes)
			lag.Partitions++
			older(changes[0].At)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Lag{}, err
	}
	if r.o.Outbox != nil {
		rows, err := r.o.Outbox.Outbox(ctx, LagMost)
		if err != nil {
			return Lag{}, fmt.Errorf("relay: outbox: %w", err)
		}
		lag.Outbox = len(rows)
		for i := range rows {
			older(rows[i].Event.At)
		}
	}
	if !oldest.IsZero() {
		lag.Oldest = max(time.Since(oldest), 0)
	}
	return lag, nil
}

// behind reads the changes of a partition that are not published.
func (r *Relay) behind(ctx context.Context, p seatflow.Partition) ([]seatflow.Change, error) {
	after, known := r.places[p].position()
	var since time.Time
	if !known {
		last, err := r.o.Bus.Last(ctx, seatflow.PartitionSubjects(p))
		switch {
		case errors.Is(err, seatflow.ErrNotFound):
			since = time.Now().Add(-lagForgets)
		case err != nil:
			return nil, fmt.Errorf("relay: newest message of partition %d: %w", p, err)
		default:
			if event, err := seatflow.ParseSeatsEvent(last.Payload); err == nil {
				after = event.After
			}
		}
	}
	b, err := r.o.Seats.Changes(ctx, seatflow.ChangesRequest{Partition: p, After: after, Limit: LagMost})
	if err != nil {
		return nil, fmt.Errorf("relay: changes of partition %d: %w", p, err)
	}
	return slices.DeleteFunc(b.Changes, func(c seatflow.Change) bool { return c.At.Before(since) }), nil
}

func (p *place) own(owned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned, p.known, p.pending = owned, false, 0
}

// stand notes that everything up to a position is published.
func (p *place) stand(store string, after seatflow.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known, p.store, p.after, p.pending = true, store, after, 0
}

// pend notes that changes were read and are to be published.
func (p *place) pend(changes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending, p.since = changes, time.Now()
}

func (p *place) position() (seatflow.Position, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.after, p.owned && p.known
}

// gauges shows what this node relays. None of it asks a store.
func (r *Relay) gauges() {
	gauge := r.o.Metrics.Gauge
	counter := func(name, help string, read func() int64) {
		gauge(name, help, func() float64 { return float64(read()) })
	}
	over := func(sum func(*place) float64) func() float64 {
		return func() float64 {
			total := 0.0
			for i := range r.places {
				p := &r.places[i]
				p.mu.Lock()
				total += sum(p)
				p.mu.Unlock()
			}
			return total
		}
	}
	gauge("seatflow_relay_partitions", "Partitions that this node relays.", over(func(p *place) float64 {
		if p.owned {
			return 1
		}
		return 0
	}))
	gauge("seatflow_relay_pending_changes", "Seat changes read and not acknowledged by the bus yet.", over(func(p *place) float64 {
		return float64(p.pending)
	}))
	gauge("seatflow_relay_pending_seconds", "How long the oldest of them has waited for the bus.", func() float64 {
		oldest := 0.0
		for i := range r.places {
			p := &r.places[i]
			p.mu.Lock()
			if p.pending > 0 {
				oldest = max(oldest, time.Since(p.since).Seconds())
			}
			p.mu.Unlock()
		}
		return oldest
	})
	counter("seatflow_relay_outbox_rows", "Order events read and not acknowledged by the bus yet.", r.count.outboxRows.Load)
	gauge("seatflow_relay_outbox_seconds", "Age of the oldest of them.", func() float64 {
		since := r.count.outboxSince.Load()
		if since == 0 {
			return 0
		}
		return max(time.Since(time.Unix(0, since)).Seconds(), 0)
	})
	counter("seatflow_relay_changes", "Seat changes published since the start.", r.count.changes.Load)
	counter("seatflow_relay_events", "Order events published since the start.", r.count.events.Load)
	counter("seatflow_relay_messages", "Messages published since the start.", r.count.messages.Load)
	counter("seatflow_relay_resets", "Resets among them: consumers had to take snapshots.", r.count.resets.Load)
	counter("seatflow_relay_failures", "Attempts that failed and were made again.", r.count.failures.Load)
}
