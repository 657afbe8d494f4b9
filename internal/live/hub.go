package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"seatflow"
)

// Errors of a [Hub] and its subscriptions.
var (
	// ErrSlow: the subscriber did not read fast enough and was cut. It may
	// subscribe again with the last revision it read.
	ErrSlow = errors.New("live: subscriber too slow")
	// ErrClosed: the subscription was closed, or the hub has ended.
	ErrClosed = errors.New("live: closed")
	// ErrRunning: Run was called a second time.
	ErrRunning = errors.New("live: hub was run already")
)

// Houses finds a show with its plan. The catalog implements it from memory.
type Houses interface {
	House(ctx context.Context, show seatflow.ShowID) (*seatflow.House, error)
}

// Options are what a [Hub] works with. Zero values of the tuning fields stand
// for the defaults beside them.
type Options struct {
	Seats  seatflow.SeatStore
	Houses Houses
	// Ensure rebuilds a show's view if it is missing. Nil: a missing view is
	// an error that lasts until someone else rebuilds it.
	Ensure func(ctx context.Context, show seatflow.ShowID) error
	Feed   Feed // nil: StoreFeed(Seats)
	Log    *slog.Logger
	Node   string // this process's name in events
	// Lamport is this node's clock, which numbers updates and takes over the
	// numbers of the bus; nil: one of the hub's own.
	Lamport *seatflow.Lamport

	// Replicas serves maps from replicas that follow the store's changes, up
	// to a window late, instead of asking the store. For stores behind a
	// network.
	Replicas bool

	Window time.Duration // bursts are coalesced this long: 50 ms
	Ring   int           // changes kept per watched show, for those who resume: 4,096
	Queue  int           // frames that may wait for a subscriber: 128, over 6 s at full rate
	Idle   time.Duration // how long what nobody uses is kept: 5 min
}

func (o *Options) fill() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Lamport == nil {
		o.Lamport = new(seatflow.Lamport)
	}
	if o.Feed == nil {
		o.Feed = StoreFeed(o.Seats)
	}
	if o.Window <= 0 {
		o.Window = 50 * time.Millisecond
	}
	if o.Ring <= 0 {
		o.Ring = 4096
	}
	if o.Queue <= 0 {
		o.Queue = 128
	}
	o.Queue = max(o.Queue, 2) // a first frame may be a snapshot and what came since
	if o.Idle <= 0 {
		o.Idle = 5 * time.Minute
	}
}

// Hub gives maps and subscriptions. Maps need nothing running; subscriptions
// hear of changes while [Hub.Run] runs.
type Hub struct {
	opt  Options
	node []byte // as a JSON string

	revisions revisioner // the store, if it is one

	cells sync.Map // seatflow.ShowID → *cell
	parts [seatflow.Partitions]partition

	subscribers atomic.Int64
	cuts        atomic.Int64

	mu        sync.Mutex
	phase     phase
	ctx       context.Context // of Run
	followers sync.WaitGroup
}

type phase uint8

const (
	phaseNew phase = iota
	phaseRunning
	phaseEnded
)

// New returns a hub.
func New(opt Options) *Hub {
	opt.fill()
	h := &Hub{opt: opt, node: quote(opt.Node)}
	h.revisions, _ = opt.Seats.(revisioner)
	for i := range h.parts {
		h.parts[i].hub = h
		h.parts[i].id = seatflow.Partition(i)
	}
	return h
}

// Run follows the changes of watched shows until the context ends, then ends
// every subscription with [ErrClosed] and returns nil once its goroutines are
// gone. A hub runs once.
func (h *Hub) Run(ctx context.Context) error {
	h.mu.Lock()
	if h.phase != phaseNew {
		h.mu.Unlock()
		return ErrRunning
	}
	h.phase, h.ctx = phaseRunning, ctx
	h.mu.Unlock()

	// Those who subscribed before have their partitions positioned already.
	for i := range h.parts {
		h.parts[i].startIfWatched()
	}

	sweep := time.NewTicker(h.opt.Idle)
	defer sweep.Stop()
	for ctx.Err() == nil {
		select {
		case <-sweep.C:
			h.sweep()
		case <-ctx.Done():
		}
	}

	h.mu.Lock()
	h.phase = phaseEnded
	h.mu.Unlock()
	for i := range h.parts {
		h.parts[i].close()
	}
	h.followers.Wait()
	return nil
}

// start begins a partition's follower if the hub runs. The caller holds the
// partition's lock.
func (h *Hub) start(p *partition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != phaseRunning || p.following {
		return
	}
	p.following = true
	h.followers.Add(1)
	go func() {
		defer h.followers.Done()
		p.follow(h.ctx)
	}()
}

func (h *Hub) partition(house *seatflow.House) *partition {
	return &h.parts[house.Show.Partition%seatflow.Partitions]
}

func (h *Hub) currentPhase() phase {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phase
}

// Subscribers returns how many subscriptions are open.
func (h *Hub) Subscribers() int { return int(h.subscribers.Load()) }

// Cut returns how many subscribers were cut with [ErrSlow] so far.
func (h *Hub) Cut() int64 { return h.cuts.Load() }

// house finds a show in the form that callers may be told of.
func (h *Hub) house(ctx context.Context, show seatflow.ShowID) (*seatflow.House, error) {
	house, err := h.opt.Houses.House(ctx, show)
	if err == nil {
		return house, nil
	}
	if errors.Is(err, seatflow.ErrNotFound) {
		return nil, &seatflow.Error{Code: seatflow.CodeNoShow, Err: err}
	}
	return nil, fmt.Errorf("live: show %d: %w", show, err)
}

// sweep drops the maps that nobody has asked for since the last sweep.
func (h *Hub) sweep() {
	h.cells.Range(func(show, c any) bool {
		if !c.(*cell).used.Swap(false) {
			h.cells.Delete(show)
		}
		return true
	})
}
