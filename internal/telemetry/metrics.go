package telemetry

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is everything that the server counts. Its methods may be called
// concurrently, and on nil.
type Metrics struct {
	// Orders counts requests to create an order by what became of them.
	Orders *Outcomes
	// Holds counts holds at the seat store by the tag of the reply.
	Holds *Outcomes
	// Transitions counts the edges that orders took, by the state reached.
	Transitions *Outcomes
	// Payments counts callbacks by ending; a repeat counts as "repeat".
	Payments *Outcomes
	// Settled counts what the guardian did with due holds.
	Settled *Outcomes
	// Compensations counts holds given back because a later step failed, by
	// what failed.
	Compensations *Outcomes
	// Admissions counts requests that met a user's rate window, by what it
	// said; "unasked" ones were let through because it could not be asked.
	Admissions *Outcomes
	// Rebuilds counts views rebuilt from the facts.
	Rebuilds *Outcomes
	// StreamsEnded counts event streams by why they ended.
	StreamsEnded *Outcomes
	// Reconciled counts what the reconciler repaired, and Drift what it found
	// and was old enough to be repaired, by check.
	Reconciled *Outcomes
	Drift      *Outcomes
	// ReconcileShows counts shows that the reconciler came to, by what came of
	// it; an alarm is one that needs a person.
	ReconcileShows *Outcomes

	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	inFlight   prometheus.Gauge
	commit     prometheus.Histogram
	batch      prometheus.Histogram
	streams    prometheus.Gauge
	round      prometheus.Histogram
	unchecked  atomic.Int64 // since when, in ms since 1970; 0: nothing to tell
	routesLock sync.Mutex
	routes     map[string]*Route
}

// NewMetrics returns metrics with a registry of their own, the Go runtime's
// and the process's included.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), routes: map[string]*Route{}}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	outcomes := func(name, label, help string, known ...string) *Outcomes {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		m.registry.MustRegister(vec)
		o := &Outcomes{known: make(map[string]prometheus.Counter, len(known)), other: vec.WithLabelValues("other")}
		for _, k := range known {
			o.known[k] = vec.WithLabelValues(k)
		}
		return o
	}
	m.Orders = outcomes("seatflow_orders_total", "outcome", "Requests to create an order, by outcome.",
		"created", "replayed", "taken", "over_limit", "not_on_sale", "no_show", "no_seat", "key_reused",
		"in_flight", "busy", "not_ready", "invalid", "error")
	m.Holds = outcomes("seatflow_holds_total", "outcome", "Holds at the seat store, by reply.",
		"held", "yours", "busy", "taken", "over_limit", "not_ready", "unknown")
	m.Transitions = outcomes("seatflow_order_transitions_total", "to", "Edges that orders took, by the state reached.",
		"pending", "paid", "cancelled", "expired", "refunded", "void", "blocked")
	m.Payments = outcomes("seatflow_payments_total", "ending", "Payment callbacks, by ending.",
		"paid", "reseated", "refund", "unknown", "none", "repeat")
	m.Settled = outcomes("seatflow_guardian_settled_total", "as", "Due holds, by what the guardian did.",
		"expired", "postponed", "released", "sold", "voided", "raced", "left")
	m.Compensations = outcomes("seatflow_compensations_total", "after", "Holds given back because a later step failed.",
		"conflict", "not_committed", "unknown", "stale", "void", "voided", "key_used", "no_show", "error")
	m.Admissions = outcomes("seatflow_admissions_total", "outcome", "Requests that met a user's rate window, by what it said.",
		"admitted", "refused", "unasked")
	m.Rebuilds = outcomes("seatflow_view_rebuilds_total", "outcome", "Views rebuilt from the facts.",
		"installed", "stale")
	m.StreamsEnded = outcomes("seatflow_event_streams_ended_total", "why", "Event streams that ended, by reason.",
		"client", "slow", "shutdown", "error")

	drifts := []string{"expired_cancelled", "paid_seats_fixed", "hashes_rebuilt", "orphan_locks_released",
		"sold_orphans_released", "pending_seats_fixed", "derived_fixed"}
	m.Reconciled = outcomes("seatflow_reconcile_fixed_total", "check", "Repairs of the view, by check.", drifts...)
	m.Drift = outcomes("seatflow_reconcile_drift_total", "check", "Drift that was found old enough to repair, by check; what is left over counts again.", drifts...)
	m.ReconcileShows = outcomes("seatflow_reconcile_shows_total", "outcome", "Shows that the reconciler came to, by outcome.",
		"clean", "repaired", "left", "locked", "failed", "alarm")
	m.round = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "seatflow_reconcile_round_seconds", Help: "Time of one round of the reconciler.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}})
	m.registry.MustRegister(m.round)
	m.Gauge("seatflow_reconcile_oldest_unchecked_seconds", "Longest time that any show may have gone unchecked by the reconciler; 0 before the first round.",
		func() float64 {
			since := m.unchecked.Load()
			if since == 0 {
				return 0
			}
			return max(0, time.Since(time.UnixMilli(since)).Seconds())
		})

	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seatflow_http_requests_total", Help: "HTTP requests, by route and status.",
	}, []string{"route", "code"})
	m.latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "seatflow_http_request_seconds", Help: "Time to answer a request, by route; event streams excluded.",
		Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}, []string{"route"})
	m.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seatflow_http_in_flight", Help: "Requests being answered now."})
	m.commit = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "seatflow_ledger_commit_seconds", Help: "Time of one group commit.",
		Buckets: []float64{.0005, .001, .002, .004, .008, .016, .032, .064, .128, .256, .512, 1, 2, 5}})
	m.batch = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "seatflow_ledger_batch_orders", Help: "Orders in one group commit.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 12)})
	m.streams = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seatflow_event_subscribers", Help: "Event streams open now."})
	m.registry.MustRegister(m.requests, m.latency, m.inFlight, m.commit, m.batch, m.streams)
	return m
}

// Handler serves the metrics in Prometheus' text form.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Version shows which build runs.
func (m *Metrics) Version(version string) {
	if m == nil {
		return
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seatflow_build_info", Help: "Always 1; the label tells the version.",
		ConstLabels: prometheus.Labels{"version": version}})
	g.Set(1)
	m.registry.MustRegister(g)
}

// Gauge adds a value that is read when the metrics are asked for, such as the
// length of a queue. The name must be new.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	if m == nil {
		return
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// Commit counts one group commit of n orders.
func (m *Metrics) Commit(n int, took time.Duration) {
	if m == nil {
		return
	}
	m.commit.Observe(took.Seconds())
	m.batch.Observe(float64(n))
}

// ReconcileRound counts one round of the reconciler.
func (m *Metrics) ReconcileRound(took time.Duration) {
	if m != nil {
		m.round.Observe(took.Seconds())
	}
}

// UncheckedSince tells since when some show may have gone unchecked by the
// reconciler. The age grows from then on, also when no round runs any more.
func (m *Metrics) UncheckedSince(at time.Time) {
	if m != nil {
		m.unchecked.Store(at.UnixMilli())
	}
}

// StreamOpened and StreamClosed count the event streams that are open.
func (m *Metrics) StreamOpened() {
	if m != nil {
		m.streams.Inc()
	}
}

// StreamClosed counts a stream out, and why it ended.
func (m *Metrics) StreamClosed(why string) {
	if m != nil {
		m.streams.Dec()
		m.StreamsEnded.Inc(why)
	}
}

// Route returns the counters of a route. Call it once per route when the
// server is built, with the route's pattern and never with a path.
func (m *Metrics) Route(pattern string) *Route {
	if m == nil {
		return nil
	}
	m.routesLock.Lock()
	defer m.routesLock.Unlock()
	r := m.routes[pattern]
	if r == nil {
		r = &Route{pattern: pattern, metrics: m, latency: m.latency.WithLabelValues(pattern)}
		m.routes[pattern] = r
	}
	return r
}

// Route counts the requests of one route.
type Route struct {
	pattern string
	metrics *Metrics
	latency prometheus.Observer
	byCode  [500]atomic.Pointer[prometheus.Counter] // by status − 100
}

// Begin counts a request in.
func (r *Route) Begin() {
	if r != nil {
		r.metrics.inFlight.Inc()
	}
}

// End counts a request out: its status and the time it took. A time of zero
// or less is not observed, for streams.
func (r *Route) End(status int, took time.Duration) {
	if r == nil {
		return
	}
	r.metrics.inFlight.Dec()
	r.counter(status).Inc()
	if took > 0 {
		r.latency.Observe(took.Seconds())
	}
}

func (r *Route) counter(status int) prometheus.Counter {
	if status < 100 || status > 599 {
		status = 500
	}
	slot := &r.byCode[status-100]
	if c := slot.Load(); c != nil {
		return *c
	}
	c := r.metrics.requests.WithLabelValues(r.pattern, codeText(status))
	slot.Store(&c)
	return c
}

func codeText(status int) string {
	return string([]byte{byte('0' + status/100), byte('0' + status/10%10), byte('0' + status%10)})
}

// Outcomes counts events by a label from a fixed list.
type Outcomes struct {
	known map[string]prometheus.Counter
	other prometheus.Counter
}

// Inc counts one event; a label that is not on the list counts as "other".
func (o *Outcomes) Inc(label string) { o.Add(label, 1) }

// Add counts n events.
func (o *Outcomes) Add(label string, n int) {
	if o == nil || n <= 0 {
		return
	}
	c, ok := o.known[label]
	if !ok {
		c = o.other
	}
	c.Add(float64(n))
}
