package admission

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"seatflow"
	"seatflow/internal/telemetry"
)

const (
	// userSpan is the span of a user's window; the setting counts by it.
	userSpan = time.Minute
	// askFor is how long windows on another machine may take to answer. They
	// guard fairness only, so nobody waits long for them.
	askFor = 500 * time.Millisecond
	// logEvery is how often, at most, a failing store is logged.
	logEvery = 10 * time.Second
)

// Options are what a Service needs.
type Options struct {
	// Windows count; nil: a Memory.
	Windows seatflow.RateWindows
	// OrdersPerMinute is how many requests to create an order one user may
	// make in a minute; 0 or less: any number.
	OrdersPerMinute int
	Log             *slog.Logger // nil: none
	Metrics         *telemetry.Metrics
}

// Service decides whether a user may ask for seats now. It may be used
// concurrently.
type Service struct {
	windows seatflow.RateWindows
	remote  bool
	most    int
	log     *slog.Logger
	metrics *telemetry.Metrics

	admitted, refused, unasked atomic.Uint64
	began                      time.Time
	logAt                      atomic.Int64 // when the next failure may be logged, since began
	quiet                      atomic.Uint64
}

// New returns a Service.
func New(o Options) *Service {
	if o.Windows == nil {
		o.Windows = NewMemory(nil)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = new(telemetry.Metrics)
	}
	_, local := o.Windows.(*Memory)
	return &Service{windows: o.Windows, remote: !local && o.OrdersPerMinute > 0, most: o.OrdersPerMinute,
		log: o.Log, metrics: o.Metrics, began: time.Now()}
}

// Remote reports whether Admit asks another process. Then it is worth asking
// while something else is waited for.
func (s *Service) Remote() bool { return s.remote }

// Admit counts a request of a user to create an order and returns nil, or a
// *seatflow.Error of code 1029 that says when to come back. A refused request
// counts as well. When the windows cannot be asked the user is let through.
func (s *Service) Admit(ctx context.Context, user seatflow.UserID) error {
	if s.most <= 0 {
		return nil
	}
	asking := ctx
	if s.remote {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, askFor)
		defer cancel()
	}
	wait, err := s.windows.Attempt(asking, "orders:"+string(user), s.most, userSpan)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // the caller went away; whoever asks further will notice
	case err != nil:
		s.unasked.Add(1)
		s.metrics.Admissions.Inc("unasked")
		s.complain(err)
		return nil
	case wait > 0:
		s.refused.Add(1)
		s.metrics.Admissions.Inc("refused")
		return &seatflow.Error{Code: seatflow.CodeRateLimited, RetryAfter: wait}
	}
	s.admitted.Add(1)
	s.metrics.Admissions.Inc("admitted")
	return nil
}

// complain logs that the windows could not be asked, at most once in a while:
// under load every request would say the same.
func (s *Service) complain(err error) {
	now := int64(time.Since(s.began))
	at := s.logAt.Load()
	if now < at || !s.logAt.CompareAndSwap(at, now+int64(logEvery)) {
		s.quiet.Add(1)
		return
	}
	s.log.Warn("rate windows cannot be asked; users are let through", "err", err, "notLogged", s.quiet.Swap(0))
}

// Stats are counts since the Service was made.
type Stats struct {
	Admitted uint64 // below their rate
	Refused  uint64 // over it
	Unasked  uint64 // let through because the windows could not be asked
}

// Stats returns the counts.
func (s *Service) Stats() Stats {
	return Stats{Admitted: s.admitted.Load(), Refused: s.refused.Load(), Unasked: s.unasked.Load()}
}
