package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"

	"seatflow"
)

// keyPrefix comes before a lease's name in its key, which holds the token of
// its holder.
const keyPrefix = "seatflow:lock:"

// Options are what a Redlock needs.
type Options struct {
	// Addrs are the independent servers that vote, an odd number of them;
	// HOST:PORT or a URL of redis, rediss, redis-sentinel or rediss-sentinel.
	// One alone may be a Cluster, its nodes separated by commas.
	Addrs []string
	Log   *slog.Logger // nil: none
}

// Redlock gives leases that a majority of Redis servers agree on. It may be
// used concurrently.
type Redlock struct {
	servers []*server
	quorum  int
	least   time.Duration
	log     *slog.Logger
	counts  counts

	closing  chan struct{}
	attempts sync.WaitGroup // under way, including those whose caller left

	mu     sync.Mutex
	closed bool
	held   map[*held]struct{}
}

var _ seatflow.Locker = (*Redlock)(nil)

// OpenRedlock returns a Redlock. Servers that cannot be reached now are found
// when they can; those that never could do (a wrong password, a policy that
// evicts, one server under two addresses) are refused.
func OpenRedlock(ctx context.Context, o Options) (*Redlock, error) {
	if len(o.Addrs) == 0 {
		return nil, errors.New("lock: no servers")
	}
	var (
		mu     sync.Mutex
		owners = map[string]string{}
		list   []*server
	)
	for _, addr := range o.Addrs {
		option, err := parseServer(addr)
		if err != nil {
			return nil, err
		}
		s := &server{name: hidden(addr)}
		if slices.ContainsFunc(list, func(other *server) bool { return other.name == s.name }) {
			return nil, fmt.Errorf("lock: %s is named twice", s.name)
		}
		s.link = &connection{option: option, voters: len(o.Addrs), claim: func(runID string) error {
			mu.Lock()
			defer mu.Unlock()
			if owner, known := owners[runID]; known && owner != s.name && runID != "" {
				return &refusedError{"the same server as " + owner}
			}
			owners[runID] = s.name
			return nil
		}}
		list = append(list, s)
	}
	r := newRedlock(list, o.Log)
	if err := r.greet(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func newRedlock(servers []*server, log *slog.Logger) *Redlock {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Redlock{servers: servers, quorum: len(servers)/2 + 1, least: MinLease, log: log,
		closing: make(chan struct{}), held: make(map[*held]struct{})}
}

// greet connects to every server at once.
func (r *Redlock) greet(ctx context.Context) error {
	if len(r.servers)%2 == 0 {
		r.log.Warn("an even number of lock servers bears no more failures than one fewer", "servers", len(r.servers))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*dialFor)
	defer cancel()
	errs := r.ask(ctx)
	if ctx.Err() != nil && context.Cause(ctx) != context.DeadlineExceeded {
		return fmt.Errorf("lock: %w", context.Cause(ctx))
	}
	var refused error
	away := 0
	for i, err := range errs {
		switch {
		case err == nil:
		case hopeless(err):
			refused = errors.Join(refused, fmt.Errorf("lock: server %s: %w", r.servers[i].name, err))
		default:
			away++
			r.log.Warn("a lock server cannot be reached; it is tried again when it is needed", "server", r.servers[i].name, "err", err)
		}
	}
	if len(r.servers)-away < r.quorum {
		r.log.Warn("no leases can be had until a majority of the lock servers is there", "servers", len(r.servers), "away", away)
	}
	return refused
}

// ask pings every server at once; the errors are in their order.
func (r *Redlock) ask(ctx context.Context) []error {
	errs := make([]error, len(r.servers))
	var wg sync.WaitGroup
	for i, s := range r.servers {
		wg.Go(func() { errs[i] = s.ping(ctx) })
	}
	wg.Wait()
	return errs
}

// Healthy returns nil while a majority of the servers answers.
func (r *Redlock) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialFor)
	defer cancel()
	errs := r.ask(ctx)
	n := 0
	for i, err := range errs {
		if err == nil {
			n++
		} else {
			errs[i] = fmt.Errorf("%s: %w", r.servers[i].name, err)
		}
	}
	if n < r.quorum {
		return fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(errs...))
	}
	return nil
}

// Stats returns the counts.
func (r *Redlock) Stats() Stats { return r.counts.stats() }

// TryLock implements seatflow.Locker.
func (r *Redlock) TryLock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	if err := check(name, lease, r.least); err != nil {
		return nil, nil, err
	}
	h, err := r.try(ctx, name, lease)
	if err != nil {
		return nil, nil, err
	}
	return h.ctx, h, nil
}

// Lock implements seatflow.Locker. It waits while servers are away, too.
func (r *Redlock) Lock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	if err := check(name, lease, r.least); err != nil {
		return nil, nil, err
	}
	pause, longest := 25*time.Millisecond, min(lease/10, time.Second)
	for {
		h, err := r.try(ctx, name, lease)
		switch {
		case err == nil:
			return h.ctx, h, nil
		case ctx.Err() != nil:
			return nil, nil, waited(ctx, name, err)
		case errors.Is(err, ErrClosed):
			return nil, nil, err
		}
		// The jitter keeps those who wait from coming back together and
		// splitting the votes.
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, waited(ctx, name, err)
		case <-r.closing:
			timer.Stop()
			return nil, nil, ErrClosed
		}
		pause = min(pause*3/2, longest)
	}
}

// try makes one attempt. When ctx ends meanwhile it returns at once, and what
// the attempt still gets is given back behind its back.
func (r *Redlock) try(ctx context.Context, name string, lease time.Duration) (*held, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("lock: %q: %w", name, context.Cause(ctx))
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	r.attempts.Add(1)
	r.mu.Unlock()

	type result struct {
		h   *held
		err error
	}
	got, left := make(chan result), make(chan struct{})
	go func() {
		defer r.attempts.Done()
		h, err := r.attempt(ctx, name, lease)
		select {
		case got <- result{h, err}:
		case <-left:
			if err == nil {
				_ = h.Release(context.Background()) // counted; it ends by itself at the latest
			}
		}
	}()
	select {
	case res := <-got:
		return res.h, res.err
	case <-ctx.Done():
		close(left)
		return nil, fmt.Errorf("lock: %q: %w", name, context.Cause(ctx))
	}
}

// patience is how long one server may take to answer: little of the lease,
// and not much in any case.
func patience(lease time.Duration) time.Duration {
	return min(max(lease/20, 50*time.Millisecond), time.Second)
}

// drift is what clocks that run unevenly may be apart at a lease's end.
func drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// attempt asks the servers once and starts keeping the lease if most agree.
func (r *Redlock) attempt(ctx context.Context, name string, lease time.Duration) (*held, error) {
	votes := r.votes()
	pools := make([]redsyncPool, len(votes))
	for i, v := range votes {
		pools[i] = v
	}
	mutex := redsync.New(pools...).NewMutex(keyPrefix+name, redsync.WithExpiry(lease),
		redsync.WithTimeoutFactor(float64(patience(lease))/float64(lease)),
		redsync.WithDriftFactor(float64(drift(lease))/float64(lease)))
	start := time.Now()
	// Not cut short when the caller leaves: what was asked for must be given
	// back, or the key stands for its whole lease.
	if err := mutex.TryLockContext(context.WithoutCancel(ctx)); err != nil {
		return nil, r.refused(name, votes)
	}
	return r.keep(ctx, name, lease, mutex, votes, start)
}

// votes returns a vote of every server.
func (r *Redlock) votes() []*vote {
	votes := make([]*vote, len(r.servers))
	for i, s := range r.servers {
		votes[i] = &vote{server: s}
	}
	abstain(votes, r.quorum)
	return votes
}

// abstain leaves out servers that are set aside, as long as the others are
// enough.
func abstain(votes []*vote, quorum int) {
	asked := 0
	for _, v := range votes {
		if v.skip = v.server.isAside(); !v.skip {
			asked++
		}
	}
	if asked < quorum {
		for _, v := range votes {
			v.skip = false
		}
	}
}

// refused tells a name that is taken, or fought for, from servers that are
// away.
func (r *Redlock) refused(name string, votes []*vote) error {
	var errs []error
	for _, v := range votes {
		if v.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.server.name, v.err))
		}
	}
	if len(votes)-len(errs) >= r.quorum && slices.ContainsFunc(votes, func(v *vote) bool { return v.err == nil && !v.granted }) {
		r.counts.locked.Add(1)
		return locked(name)
	}
	r.counts.unavailable.Add(1)
	if len(errs) == 0 {
		errs = append(errs, errors.New("the answers took too long"))
	}
	return fmt.Errorf("lock: %q: %w: %w", name, ErrUnavailable, errors.Join(errs...))
}

// Close gives back every lease, ends every wait and closes the connections.
// Its errors are leases that may stand until they end by themselves.
func (r *Redlock) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	close(r.closing)
	all := make([]*held, 0, len(r.held))
	for h := range r.held {
		all = append(all, h)
	}
	r.mu.Unlock()

	r.attempts.Wait()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, h := range all {
		wg.Go(func() { errs[i] = h.free(ErrClosed) })
	}
	wg.Wait()
	for _, s := range r.servers {
		wg.Go(s.link.close)
	}
	wg.Wait()
	return errors.Join(errs...)
}

// String names the servers, for logs.
func (r *Redlock) String() string {
	names := make([]string, len(r.servers))
	for i, s := range r.servers {
		names[i] = s.name
	}
	return "redlock(" + strings.Join(names, ", ") + ")"
}
