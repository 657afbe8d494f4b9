package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"seatflow"
)

// CrowdOptions say who comes and how they behave.
type CrowdOptions struct {
	URL    string            // of the server
	Shows  []seatflow.ShowID // empty: every show that is on sale
	Buyers int               // how many are in the house at once; default 20
	Rate   float64           // arrivals a second over all; 0: a new buyer comes as soon as one has left
	Pace   float64           // how long people think: 1 as people do (seconds), 0 not at all
	Seed   uint64            // of every decision
	Acks   *AckLog           // what was acknowledged; may be nil

	// UntilSoldOut: Run returns when no show has a seat left that is
	// available or held. Otherwise it runs until its context ends.
	UntilSoldOut bool

	// Shares of the orders, 0 to 1. Negative means none, zero the default.
	Abandon float64 // let the hold run out; default 0.08
	Cancel  float64 // give the seats back; default 0.06
	Decline float64 // first card declined; default 0.08

	Report func(Counters) // called every Every and once at the end; may be nil
	Every  time.Duration  // default one second
	Event  func(Event)    // called for each thing that happens, from many goroutines; may be nil
}

// Counters tell what a crowd has done.
type Counters struct {
	Visitors   int64 `json:"visitors"`
	Orders     int64 `json:"orders"`     // acknowledged
	Seats      int64 `json:"seats"`      // in them
	Paid       int64 `json:"paid"`       // orders seen paid
	SeatsPaid  int64 `json:"seatsPaid"`  // in them
	Cancelled  int64 `json:"cancelled"`  // by their buyers
	Abandoned  int64 `json:"abandoned"`  // left to run out
	Expired    int64 `json:"expired"`    // ran out while their buyers were still trying to pay
	Declined   int64 `json:"declined"`   // cards
	Collisions int64 `json:"collisions"` // somebody else was faster
	Limited    int64 `json:"limited"`    // over the purchase limit
	Retries    int64 `json:"retries"`    // requests repeated with the same key
	Errors     int64 `json:"errors"`     // given up on
	SoldOut    int64 `json:"soldOut"`    // shows without a seat left
}

// The kinds of [Event].
const (
	EventHeld      = "held"
	EventTaken     = "taken" // somebody else was faster
	EventPaid      = "paid"
	EventDeclined  = "declined"
	EventCancelled = "cancelled"
	EventAbandoned = "abandoned"
	EventSoldOut   = "sold out"
	EventError     = "error"
)

// Event is one thing that a buyer did or met.
type Event struct {
	Kind  string
	Show  seatflow.ShowID
	User  seatflow.UserID
	Order seatflow.OrderNo
	Seats []seatflow.SeatID
	Err   error // EventError
}

// Crowd is a number of simulated buyers. They look at the map, pick seats
// next to each other where they like to sit, hold and pay them, abandon or
// cancel, meet declined cards, and run into each other on the best seats.
// Every decision follows from the seed; the order in which a server answers
// does not.
type Crowd struct {
	opt    CrowdOptions
	client *Client
	stage  []*stage
	wait   func(context.Context, time.Duration) error

	visitors, orders, seats, paid, seatsPaid, cancelled, abandoned, expired atomic.Int64
	declined, collisions, limited, retries, errors, soldOut                 atomic.Int64
}

// stage is a show as the crowd knows it.
type stage struct {
	*house
	over atomic.Bool // sold out or closed
}

// NewCrowd checks the options.
func NewCrowd(opt CrowdOptions) (*Crowd, error) {
	if opt.Buyers == 0 {
		opt.Buyers = 20
	}
	if opt.Buyers < 1 || opt.Buyers > 10_000 || opt.Rate < 0 || opt.Pace < 0 {
		return nil, errors.New("loadgen: a crowd has 1 to 10000 buyers, and no negative rate or pace")
	}
	for share, usual := range map[*float64]float64{&opt.Abandon: 0.08, &opt.Cancel: 0.06, &opt.Decline: 0.08} {
		switch {
		case *share == 0:
			*share = usual
		case *share < 0:
			*share = 0
		case *share > 1:
			return nil, fmt.Errorf("loadgen: a share of %g is more than all", *share)
		}
	}
	if opt.Every <= 0 {
		opt.Every = time.Second
	}
	client, err := NewClient(opt.URL, opt.Buyers)
	if err != nil {
		return nil, err
	}
	return &Crowd{opt: opt, client: client, wait: sleep}, nil
}

// Counters returns what the crowd has done so far.
func (c *Crowd) Counters() Counters {
	return Counters{
		Visitors: c.visitors.Load(), Orders: c.orders.Load(), Seats: c.seats.Load(), Paid: c.paid.Load(),
		SeatsPaid: c.seatsPaid.Load(), Cancelled: c.cancelled.Load(), Abandoned: c.abandoned.Load(),
		Expired: c.expired.Load(), Declined: c.declined.Load(), Collisions: c.collisions.Load(),
		Limited: c.limited.Load(), Retries: c.retries.Load(), Errors: c.errors.Load(), SoldOut: c.soldOut.Load(),
	}
}

// Run lets the crowd in. It returns nil when everything is sold out (if asked
// to stop then) or the context has ended.
func (c *Crowd) Run(ctx context.Context) (Counters, error) {
	defer c.client.Close()
	if err := c.open(ctx); err != nil {
		return c.Counters(), err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var arrivals chan struct{}
	var helpers, buyers sync.WaitGroup
	if c.opt.Rate > 0 {
		arrivals = make(chan struct{})
		helpers.Go(func() { c.arrive(ctx, arrivals) })
	}
	if c.opt.Report != nil {
		helpers.Go(func() {
			for c.wait(ctx, c.opt.Every) == nil {
				c.opt.Report(c.Counters())
			}
		})
	}
	var visit atomic.Uint64
	for range c.opt.Buyers {
		buyers.Go(func() {
			for ctx.Err() == nil {
				if arrivals != nil {
					select {
					case <-arrivals:
					case <-ctx.Done():
						return
					}
				}
				n := visit.Add(1)
				rng := rand.New(rand.NewPCG(c.opt.Seed, n))
				if !c.visit(ctx, rng, n) {
					return
				}
			}
		})
	}
	buyers.Wait()
	cancel()
	helpers.Wait()
	counters := c.Counters()
	if c.opt.Report != nil {
		c.opt.Report(counters)
	}
	return counters, nil
}

// open reads the shows and their plans.
func (c *Crowd) open(ctx context.Context) error {
	ids := c.opt.Shows
	if len(ids) == 0 {
		shows, err := c.client.shows(ctx)
		if err != nil {
			return err
		}
		for i := range shows {
			if shows[i].OnSale {
				ids = append(ids, shows[i].ID)
			}
		}
	}
	if len(ids) == 0 {
		return errors.New("loadgen: no show is on sale")
	}
	for _, id := range ids {
		plan, err := c.client.plan(ctx, id)
		if err != nil {
			return fmt.Errorf("loadgen: the plan of show %d: %w", id, err)
		}
		c.stage = append(c.stage, &stage{house: newHouse(id, plan)})
	}
	return nil
}

func (c *Crowd) arrive(ctx context.Context, arrivals chan<- struct{}) {
	every := time.Duration(float64(time.Second) / c.opt.Rate)
	for c.wait(ctx, every) == nil {
		select {
		case arrivals <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// think waits as a person of the given slowness would, by the crowd's pace.
func (c *Crowd) think(ctx context.Context, rng *rand.Rand, seconds float64) {
	d := seconds * (0.5 + rng.Float64()) * c.opt.Pace
	_ = c.wait(ctx, time.Duration(d*float64(time.Second)))
}

// choose takes the next show that still has seats; the first shows are the
// more popular ones.
func (c *Crowd) choose(rng *rand.Rand) *stage {
	var open []*stage
	for _, s := range c.stage {
		if !s.over.Load() {
			open = append(open, s)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return open[min(rng.IntN(len(open)), rng.IntN(len(open)))]
}

// idle is how long somebody waits who found nothing to do.
const idle = 250 * time.Millisecond

// visit is one buyer's visit from door to door. It returns false when there
// is nothing left to come for.
func (c *Crowd) visit(ctx context.Context, rng *rand.Rand, n uint64) bool {
	s := c.choose(rng)
	if s == nil {
		if c.opt.UntilSoldOut {
			return false
		}
		_ = c.wait(ctx, idle)
		for _, s := range c.stage { // a cancelled or refunded seat may be back
			s.over.Store(false)
		}
		return ctx.Err() == nil
	}
	states, err := c.look(ctx, s)
	if err != nil {
		c.fail(ctx, s, err)
		return true
	}
	available, held := free(states)
	if available == 0 {
		if held == 0 {
			c.close(s)
		} else {
			_ = c.wait(ctx, idle)
		}
		return true
	}
	c.visitors.Add(1)
	v := &visitor{Crowd: c, stage: s, rng: rng, n: n, taste: rng.IntN(tastes), size: groupSize(rng)}
	v.sparse = available*5 < s.seats
	v.stay(ctx, states)
	return true
}

func (c *Crowd) close(s *stage) {
	if !s.over.Swap(true) && c.opt.UntilSoldOut {
		c.soldOut.Add(1)
		c.tell(Event{Kind: EventSoldOut, Show: s.show})
	}
}

// groupSize is mostly two, up to six.
func groupSize(rng *rand.Rand) int {
	sizes := [...]int{1, 1, 2, 2, 2, 2, 2, 3, 3, 4, 4, 5, 6}
	return sizes[rng.IntN(len(sizes))]
}

func (c *Crowd) look(ctx context.Context, s *stage) (string, error) {
	var states string
	err := c.again(ctx, func() (err error) {
		states, err = c.client.seatMap(ctx, s.show)
		return err
	})
	return states, err
}

// tries is how often a request is sent before its buyer gives up.
const tries = 10

func (c *Crowd) again(ctx context.Context, request func() error) error {
	return again(ctx, tries, c.wait, func() { c.retries.Add(1) }, request)
}

func (c *Crowd) tell(e Event) {
	if c.opt.Event != nil {
		c.opt.Event(e)
	}
}

// fail counts what a buyer gave up on and lets some time pass, so that a
// crowd does not hammer a server that is in trouble.
func (c *Crowd) fail(ctx context.Context, s *stage, err error) {
	if ctx.Err() != nil {
		return
	}
	c.errors.Add(1)
	c.tell(Event{Kind: EventError, Show: s.show, Err: err})
	_ = c.wait(ctx, idle)
}

// key names one confirmation of one visit.
func (c *Crowd) key(n uint64, confirmation int) string {
	return "crowd-" + strconv.FormatUint(c.opt.Seed, 36) + "-" + strconv.FormatUint(n, 36) + "-" + strconv.Itoa(confirmation)
}

func isStatus(err error, status int) bool {
	var e *APIError
	return errors.As(err, &e) && e.Status == status
}

// gone reports whether an order's own end is why a request was refused.
func gone(err error) bool {
	return codeOf(err) == seatflow.CodeWrongState || isStatus(err, http.StatusNotFound)
}
