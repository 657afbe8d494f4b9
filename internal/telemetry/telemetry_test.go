package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func request(traceparent ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	for _, t := range traceparent {
		r.Header.Add("traceparent", t)
	}
	return r
}

func TestTraceFrom(t *testing.T) {
	const id, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, good := range []string{
		"00-" + id + "-" + span + "-01",
		"00-" + id + "-" + span + "-00",
		"cc-" + id + "-" + span + "-01",
		"cc-" + id + "-" + span + "-01-what-the-future-will-be-like",
		Traceparent(id, span),
	} {
		traceID, spanID := TraceFrom(request(good))
		if traceID != id {
			t.Errorf("%s: trace id %s", good, traceID)
		}
		if len(spanID) != 16 || !isHex(spanID) || spanID == span {
			t.Errorf("%s: span id %q is not a new one", good, spanID)
		}
	}
	zeros := strings.Repeat("0", 32)
	for _, bad := range [][]string{
		nil,
		{""},
		{"00-" + id + "-" + span + "-01-more"},
		{"cc-" + id + "-" + span + "-01.more"},
		{"ff-" + id + "-" + span + "-01"},
		{"0x-" + id + "-" + span + "-01"},
		{"00-" + strings.ToUpper(id) + "-" + span + "-01"},
		{"00-" + zeros + "-" + span + "-01"},
		{"00-" + id + "-" + zeros[:16] + "-01"},
		{"00-" + id + "-" + span + "-0g"},
		{"00_" + id + "-" + span + "-01"},
		{"00-" + id[1:] + "-" + span + "-01"},
		{"00-" + id + "-" + span + "-01", "00-" + id + "-" + span + "-01"},
	} {
		traceID, spanID := TraceFrom(request(bad...))
		if traceID == id || len(traceID) != 32 || !isHex(traceID) || len(spanID) != 16 || !isHex(spanID) {
			t.Errorf("%q: got %s %s, want new ids", bad, traceID, spanID)
		}
	}
}

func FuzzTraceFrom(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("ff--")
	f.Fuzz(func(t *testing.T, header string) {
		traceID, spanID := TraceFrom(request(header))
		if len(traceID) != 32 || !isHex(traceID) || isZero(traceID) || len(spanID) != 16 || !isHex(spanID) || isZero(spanID) {
			t.Errorf("%q: %s %s", header, traceID, spanID)
		}
	})
}

func TestTracesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		a, b := NewTrace()
		if seen[a] || seen[b] {
			t.Fatal("an id was given twice")
		}
		seen[a], seen[b] = true, true
	}
}

func TestLogger(t *testing.T) {
	var b strings.Builder
	log, err := NewLogger(&b, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	ctx := WithTrace(context.Background(), "t1", "s1")
	log.InfoContext(ctx, "quiet")
	log.With("a", 1).WithGroup("g").WarnContext(ctx, "loud", "b", 2)
	log.Warn("bare")
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"trace_id":"t1"`) || !strings.Contains(lines[0], `"a":1`) {
		t.Errorf("log: %s", b.String())
	}
	if strings.Contains(lines[1], "trace_id") {
		t.Errorf("a trace from nowhere: %s", lines[1])
	}
	if _, err := NewLogger(&b, "loud", "json"); err == nil {
		t.Error("level loud was accepted")
	}
	if _, err := NewLogger(&b, "info", "xml"); err == nil {
		t.Error("format xml was accepted")
	}
	b.Reset()
	log, err = NewLogger(&b, "debug", "text")
	if err != nil {
		t.Fatal(err)
	}
	log.DebugContext(ctx, "hello")
	if !strings.Contains(b.String(), "trace_id=t1 span_id=s1") {
		t.Errorf("text: %s", b.String())
	}
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatal(w.Code, err)
	}
	return string(body)
}

func TestMetrics(t *testing.T) {
	m, other := NewMetrics(), NewMetrics()
	m.Version("v1")
	m.Gauge("seatflow_test_queue", "A queue.", func() float64 { return 7 })
	m.Orders.Inc("created")
	m.Orders.Add("created", 2)
	m.Orders.Inc("something a caller made up")
	m.Commit(32, 3*time.Millisecond)
	m.StreamOpened()
	m.StreamOpened()
	m.StreamClosed("slow")
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			r := m.Route("POST /api/v1/orders")
			r.Begin()
			r.End(201, time.Millisecond)
		})
	}
	wait.Wait()
	r := m.Route("GET /events")
	r.Begin()
	r.End(99, 0)
	text := scrape(t, m)
	for _, want := range []string{
		`seatflow_build_info{version="v1"} 1`,
		"seatflow_test_queue 7",
		`seatflow_orders_total{outcome="created"} 3`,
		`seatflow_orders_total{outcome="other"} 1`,
		`seatflow_orders_total{outcome="taken"} 0`,
		"seatflow_ledger_batch_orders_sum 32",
		"seatflow_ledger_commit_seconds_count 1",
		"seatflow_event_subscribers 1",
		`seatflow_event_streams_ended_total{why="slow"} 1`,
		`seatflow_http_requests_total{code="201",route="POST /api/v1/orders"} 8`,
		`seatflow_http_request_seconds_count{route="POST /api/v1/orders"} 8`,
		`seatflow_http_requests_total{code="500",route="GET /events"} 1`,
		`seatflow_http_request_seconds_count{route="GET /events"} 0`,
		"seatflow_http_in_flight 0",
		"go_goroutines",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(scrape(t, other), `outcome="created"} 3`) {
		t.Error("two registries share counters")
	}
}

func TestNilMetrics(t *testing.T) {
	var m *Metrics
	m.Version("v1")
	m.Gauge("x", "y", func() float64 { return 0 })
	m.Commit(1, time.Second)
	m.StreamOpened()
	m.StreamClosed("client")
	r := m.Route("x")
	r.Begin()
	r.End(200, time.Second)
	var o *Outcomes
	o.Inc("x")
}

func TestCountingDoesNotAllocate(t *testing.T) {
	m := NewMetrics()
	r := m.Route("x")
	r.End(200, time.Millisecond)
	if n := testing.AllocsPerRun(100, func() {
		r.Begin()
		r.End(200, time.Millisecond)
		m.Orders.Inc("created")
		m.Commit(3, time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestHealth(t *testing.T) {
	var h Health
	if got := h.Check(context.Background()); len(got) != 0 || !Ready(got) {
		t.Errorf("no checks: %v", got)
	}
	down := errors.New("down")
	h.Register("good", func(context.Context) error { return nil })
	h.Register("bad", func(context.Context) error { return down })
	h.Register("panics", func(context.Context) error { panic("ouch") })
	got := h.Check(context.Background())
	if len(got) != 3 || got["good"] != nil || !errors.Is(got["bad"], down) || got["panics"] == nil || Ready(got) {
		t.Errorf("got %v", got)
	}
	h.Register("bad", func(context.Context) error { return nil })
	h.Register("panics", func(context.Context) error { return nil })
	if got := h.Check(context.Background()); !Ready(got) {
		t.Errorf("after repair: %v", got)
	}
	h.RegisterSoft("soft", func(context.Context) error { return down })
	if got := h.Check(context.Background()); !Ready(got) || !errors.Is(got["soft"], ErrDegraded) || !errors.Is(got["soft"], down) {
		t.Errorf("a soft check that fails: %v", got)
	}
	h.Drain()
	if got := h.Check(context.Background()); !errors.Is(got["draining"], ErrDraining) || Ready(got) {
		t.Errorf("draining: %v", got)
	}
}

func TestHungCheckIsNotStartedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Health
		var started atomic.Int64
		release := make(chan struct{})
		h.Register("hangs", func(context.Context) error {
			started.Add(1)
			<-release
			return nil
		})
		before := time.Now()
		if got := h.Check(context.Background()); !errors.Is(got["hangs"], context.DeadlineExceeded) {
			t.Errorf("first: %v", got)
		}
		if waited := time.Since(before); waited != checkTimeout {
			t.Errorf("waited %v", waited)
		}
		if got := h.Check(context.Background()); got["hangs"] == nil || started.Load() != 1 {
			t.Errorf("second: %v, started %d times", got, started.Load())
		}
		close(release)
		synctest.Wait()
		if got := h.Check(context.Background()); got["hangs"] != nil || started.Load() != 2 {
			t.Errorf("third: %v, started %d times", got, started.Load())
		}
	})
}

func TestProbersShareARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Health
		var started atomic.Int64
		h.Register("slow", func(context.Context) error {
			started.Add(1)
			<-time.After(time.Second) // of the bubble's clock
			return nil
		})
		var wait sync.WaitGroup
		impatient, cancel := context.WithCancel(context.Background())
		wait.Go(func() {
			if got := h.Check(impatient); got["slow"] == nil {
				t.Error("a caller that left was told the check is good")
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		for range 5 {
			wait.Go(func() {
				if got := h.Check(context.Background()); got["slow"] != nil {
					t.Errorf("got %v", got)
				}
			})
		}
		wait.Wait()
		if started.Load() != 1 {
			t.Errorf("started %d times", started.Load())
		}
	})
}

func BenchmarkTraceFrom(b *testing.B) {
	r := request()
	b.ReportAllocs()
	for b.Loop() {
		TraceFrom(r)
	}
}
