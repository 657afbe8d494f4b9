package catalog

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"seatflow"
)

// Bounds of the cache, and how long an entry is believed.
const (
	TTL       = 2 * time.Second // a change made elsewhere is seen within it
	maxHouses = 2048            // shows; beyond it the least asked for are dropped
	maxWeight = 4_000_000       // seats of all cached plans together, about 100 bytes each
	loadTime  = 5 * time.Second // of one load, whoever waits for it
)

// entry is a cached house. Staleness is set by a timer and not computed from
// a clock, which would cost the hot path more than the rest of it.
type entry struct {
	house atomic.Pointer[seatflow.House]
	stale atomic.Bool
	used  atomic.Bool // since eviction last looked
}

// set believes a house for a while from now.
func (e *entry) set(house *seatflow.House) {
	e.house.Store(house)
	e.stale.Store(false)
	time.AfterFunc(TTL, func() { e.stale.Store(true) })
}

type planKey struct {
	hall    seatflow.HallID
	version seatflow.PlanVersion
}

// cache holds houses in an immutable map that is replaced by a changed copy:
// reading it takes no lock and no allocation. Shows enter and leave it rarely and
// pay for that; one that is read again keeps its entry.
type cache struct {
	houses  atomic.Pointer[map[seatflow.ShowID]*entry]
	flights singleflight.Group

	mu    sync.Mutex
	epoch uint64 // grows with every local change; a load that began before one is not kept
	plans map[planKey]*seatflow.Plan
	// weight is that of plans together.
	weight int
}

func (c *cache) init() {
	c.houses.Store(&map[seatflow.ShowID]*entry{})
	c.plans = map[planKey]*seatflow.Plan{}
}

// get returns a show's entry, or nil.
func (c *cache) get(id seatflow.ShowID) *entry {
	e := (*c.houses.Load())[id]
	if e != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

// House returns a show with its plan, indexed; seatflow.ErrNotFound when there
// is none. It is the hot path: a house that is cached and fresh costs a map
// look-up.
func (s *Service) House(ctx context.Context, id seatflow.ShowID) (*seatflow.House, error) {
	e := s.cache.get(id)
	if e != nil && !e.stale.Load() {
		return e.house.Load(), nil
	}
	return s.load(ctx, id, e)
}

// load reads a show once for everyone who waits for it. The load runs on when
// a waiter gives up.
func (s *Service) load(ctx context.Context, id seatflow.ShowID, old *entry) (*seatflow.House, error) {
	result := s.cache.flights.DoChan(strconv.FormatInt(int64(id), 10), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTime)
		defer cancel()
		epoch := s.cache.now()
		show, err := s.ledger.Show(ctx, id)
		if err != nil {
			return nil, err
		}
		house, err := s.assemble(ctx, show)
		if err != nil {
			return nil, err
		}
		s.cache.put(house, epoch)
		return house, nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-result:
		switch {
		case r.Err == nil:
			return r.Val.(*seatflow.House), nil
		case errors.Is(r.Err, seatflow.ErrNotFound):
			s.cache.forget(id)
			return nil, seatflow.ErrNotFound
		case old != nil:
			s.log.Warn("catalog: show served from memory", "show", id, "err", r.Err)
			s.cache.renew(id, old)
			return old.house.Load(), nil
		}
		return nil, public(r.Err, "show", id)
	}
}

// assemble makes a house of a show's row, with as much of what is cached as
// still holds.
func (s *Service) assemble(ctx context.Context, show seatflow.Show) (*seatflow.House, error) {
	if e := (*s.cache.houses.Load())[show.ID]; e != nil {
		cached := e.house.Load()
		old := &cached.Show
		switch {
		case old.PlanVersion != show.PlanVersion || old.Hall != show.Hall:
		case old.Version == show.Version && old.Generation == show.Generation && old.Partition == show.Partition:
			return cached, nil
		default:
			house := *cached // the same index, over the same plan
			house.Show = show
			return &house, nil
		}
	}
	hall, err := s.ledger.Hall(ctx, show.Hall)
	if err != nil {
		return nil, err
	}
	plan, err := s.cache.plan(ctx, s.ledger, show.Hall, show.PlanVersion)
	if err != nil {
		return nil, err
	}
	return seatflow.NewHouse(show, hall, plan), nil
}

// Shows lists shows by start, after a show's place in that order, those that
// end after a time. It reads the rows afresh; plans come from the cache.
func (s *Service) Shows(ctx context.Context, after seatflow.ShowID, endAfter time.Time, limit int) ([]*seatflow.House, error) {
	epoch := s.cache.now()
	shows, err := s.ledger.Shows(ctx, after, endAfter, limit)
	if err != nil {
		return nil, public(err, "shows after", after)
	}
	houses := make([]*seatflow.House, len(shows))
	for i, show := range shows {
		if houses[i], err = s.assemble(ctx, show); err != nil {
			return nil, public(err, "show", show.ID)
		}
		s.cache.put(houses[i], epoch)
	}
	return houses, nil
}

// now returns the epoch; a load asks before it reads.
func (c *cache) now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// put keeps a house that was read since an epoch, unless something changed
// here meanwhile.
func (c *cache) put(house *seatflow.House, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch {
		return
	}
	c.replace(house)
}

// renew believes an old entry for another while, if it is still the one.
func (c *cache) renew(id seatflow.ShowID, old *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if (*c.houses.Load())[id] == old {
		old.set(old.house.Load())
	}
}

func (c *cache) replace(house *seatflow.House) {
	if e := (*c.houses.Load())[house.Show.ID]; e != nil {
		if e.stale.Load() || e.house.Load() != house {
			e.set(house)
		}
		return
	}
	e := new(entry)
	e.used.Store(true)
	e.set(house)
	next := maps.Clone(*c.houses.Load())
	next[house.Show.ID] = e
	c.evict(next, house.Show.ID)
	c.houses.Store(&next)
}

// forget drops a show and makes loads that have begun worthless.
func (c *cache) forget(id seatflow.ShowID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.flights.Forget(strconv.FormatInt(int64(id), 10))
	if _, ok := (*c.houses.Load())[id]; ok {
		next := maps.Clone(*c.houses.Load())
		delete(next, id)
		c.houses.Store(&next)
	}
}

// evict makes room when a bound is passed, an eighth more than needed, so that
// it is not needed again at once: first shows that nobody asked for since the
// last time, then any.
func (c *cache) evict(houses map[seatflow.ShowID]*entry, keep seatflow.ShowID) {
	if !c.over(houses, maxHouses, maxWeight) {
		return
	}
	for _, sparing := range []bool{true, false} {
		for id, e := range houses {
			if id == keep || sparing && e.used.Swap(false) {
				continue
			}
			delete(houses, id)
			if !c.over(houses, maxHouses/8*7, maxWeight/8*7) {
				return
			}
		}
	}
}

// over reports whether bounds are passed, after plans that no show uses have
// been dropped if that may help.
func (c *cache) over(houses map[seatflow.ShowID]*entry, most, mostWeight int) bool {
	if c.weight > mostWeight {
		held := make(map[planKey]bool, len(houses))
		for _, e := range houses {
			show := &e.house.Load().Show
			held[planKey{show.Hall, show.PlanVersion}] = true
		}
		for k, p := range c.plans {
			if !held[k] {
				delete(c.plans, k)
				c.weight -= weight(p)
			}
		}
	}
	return len(houses) > most || c.weight > mostWeight
}

// weight is how many things of a plan take memory.
func weight(p *seatflow.Plan) int {
	n := len(p.Seats)
	for i := range p.Zones {
		for j := range p.Zones[i].Areas {
			n += 2 + len(p.Zones[i].Areas[j].Points)/4
		}
	}
	return n
}

// plan returns a published plan without its source, which only an export
// needs and which is as large again.
func (c *cache) plan(ctx context.Context, ledger seatflow.Catalog, hall seatflow.HallID, version seatflow.PlanVersion) (*seatflow.Plan, error) {
	key := planKey{hall, version}
	c.mu.Lock()
	p := c.plans[key]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	read, err := ledger.Plan(ctx, hall, version)
	if err != nil {
		return nil, err
	}
	lean := *read
	lean.Source = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.plans[key]; p != nil {
		return p, nil
	}
	c.plans[key] = &lean
	c.weight += weight(&lean)
	return &lean, nil
}
