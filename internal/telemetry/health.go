package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// checkTimeout bounds one health check: a probe that waits longer is no use
// to whoever asks every few seconds.
const checkTimeout = 2 * time.Second

// ErrDraining: the server is stopping and wants no new work.
var ErrDraining = errors.New("telemetry: the server is stopping")

// ErrDegraded marks what fails without making the server useless: it is shown,
// and requests still come.
var ErrDegraded = errors.New("telemetry: degraded")

// Health is the named checks that make a server ready. The zero value has
// none and is ready.
type Health struct {
	mu       sync.Mutex
	checks   map[string]*check
	draining bool
}

type check struct {
	probe func(context.Context) error
	soft  bool
	now   *run // the run in progress, or nil
}

// run is one run of a check, shared by all who ask while it lasts.
type run struct {
	started time.Time
	done    chan struct{}
	err     error // set before done is closed
}

// Register adds a check; a name that is taken replaces the earlier check. A
// check must honour its context.
func (h *Health) Register(name string, probe func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checks == nil {
		h.checks = map[string]*check{}
	}
	h.checks[name] = &check{probe: probe}
}

// RegisterSoft adds a check whose failure is shown as [ErrDegraded] and leaves
// the server ready.
func (h *Health) RegisterSoft(name string, probe func(context.Context) error) {
	h.Register(name, probe)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks[name].soft = true
}

// Drain makes every later answer not ready, so that a load balancer looks
// elsewhere before the listener closes.
func (h *Health) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// Check runs every check at once, each for at most two seconds, and returns
// what each said; nil values are good. Callers that come while a check runs
// share its answer; a check that hangs counts as failed and is not started
// again until it has ended.
func (h *Health) Check(ctx context.Context) map[string]error {
	limit := time.NewTimer(checkTimeout)
	defer limit.Stop()

	h.mu.Lock()
	results := make(map[string]error, len(h.checks)+1)
	soft := map[string]bool{}
	runs := make(map[string]*run, len(h.checks))
	for name, c := range h.checks {
		soft[name] = c.soft
		if c.now == nil {
			c.now = &run{started: time.Now(), done: make(chan struct{})}
			go h.run(context.WithoutCancel(ctx), c, c.now)
		} else if time.Since(c.now.started) >= checkTimeout {
			results[name] = fmt.Errorf("telemetry: check %s has hung since %s", name, c.now.started.UTC().Format(time.RFC3339))
			continue
		}
		runs[name] = c.now
	}
	if h.draining {
		results["draining"] = ErrDraining
	}
	h.mu.Unlock()

	expired := false
	for name, r := range runs {
		if !expired {
			select {
			case <-r.done:
			case <-limit.C:
				expired = true
			case <-ctx.Done():
				expired = true
			}
		}
		select {
		case <-r.done:
			results[name] = r.err
		default:
			results[name] = fmt.Errorf("telemetry: check %s: %w", name, context.DeadlineExceeded)
		}
	}
	for name, err := range results {
		if err != nil && soft[name] {
			results[name] = fmt.Errorf("%w: %w", ErrDegraded, err)
		}
	}
	return results
}

// run outlives the caller that started it: others may be waiting for it.
func (h *Health) run(ctx context.Context, c *check, r *run) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			r.err = fmt.Errorf("telemetry: check panicked: %v", p)
		}
		h.mu.Lock()
		c.now = nil
		h.mu.Unlock()
		close(r.done)
	}()
	r.err = c.probe(ctx)
}

// Ready reports whether requests should come: whether all checks of a result
// are good or merely degraded.
func Ready(results map[string]error) bool {
	for _, err := range results {
		if err != nil && !errors.Is(err, ErrDegraded) {
			return false
		}
	}
	return true
}
