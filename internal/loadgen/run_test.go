package loadgen

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seatflow"
)

func options(f *fakeServer, s Scenario) Options {
	return Options{URL: f.URL, Shows: []seatflow.ShowID{1}, Scenario: s, Rate: 400, Duration: 90 * time.Millisecond, Connections: 4}
}

func TestDistinctAsksForEachSeatOnce(t *testing.T) {
	f := newFake(t)
	f.limit = 2 // enough buyers are minted
	path := filepath.Join(t.TempDir(), "acked")
	log, err := OpenAckLog(path)
	if err != nil {
		t.Fatal(err)
	}
	opt := options(f, Distinct)
	opt.Acks = log
	var mu sync.Mutex
	var done, total int64
	opt.Progress = func(d, n int64) { mu.Lock(); done, total = d, n; mu.Unlock() }
	res, err := Run(testContext(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	if res.Sent != 36 || res.OK != 36 || res.Conflicts+res.Refused+res.Errors+res.RateLimited+res.Unsent != 0 || res.RanOut {
		t.Errorf("%+v", res)
	}
	if done != 36 || total != 36 {
		t.Errorf("progress %d of %d", done, total)
	}
	if l := res.Latency["order"]; l.Count != 36 || l.P50 <= 0 || l.P99 < l.P50 || l.Max < l.P99 {
		t.Errorf("latency %+v", l)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	seats := map[seatflow.SeatID]bool{}
	for _, a := range readLog(t, path) {
		if a.Op != "order" || a.State != "pending" || len(a.Seats) != 1 {
			t.Errorf("%+v", a)
		}
		seats[a.Seats[0]] = true
	}
	if len(seats) != 36 || res.Orders != 36 {
		t.Errorf("%d seats in the log", len(seats))
	}
}

func TestDistinctEndsWhenNoSeatIsLeft(t *testing.T) {
	f := newFake(t)
	f.limit = 0
	opt := options(f, Distinct)
	opt.Rate = 1000
	res, err := Run(testContext(t), opt)
	if err != nil || !res.RanOut || res.OK != fakeRows*fakeCols || res.Sent != res.OK {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := Run(testContext(t), opt); err == nil {
		t.Error("a full house was loaded")
	}
}

func TestHotHasOneWinner(t *testing.T) {
	f := newFake(t)
	res, err := Run(testContext(t), options(f, Hot))
	if err != nil || res.OK != 1 || res.Conflicts != 35 || res.Errors != 0 || res.Codes["3002"] != 35 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestMixedIsOneOrderInTen(t *testing.T) {
	f := newFake(t)
	opt := options(f, Mixed)
	opt.Rate, opt.Warmup = 1000, 20*time.Millisecond
	opt.Duration = 80 * time.Millisecond
	res, err := Run(testContext(t), opt)
	if err != nil || res.Orders != 10 || res.Warmup+res.Sent != 100 || res.Warmup < 15 || res.Warmup > 25 {
		t.Errorf("%+v, %v", res, err)
	}
	if res.Latency["browse"].Count != 72 || res.Latency["order"].Count != 8 {
		t.Errorf("%+v", res.Latency)
	}
}

func TestClosedLoop(t *testing.T) {
	f := newFake(t)
	opt := options(f, Hot)
	opt.Rate = 0
	opt.Duration = 50 * time.Millisecond
	opt.Connections = 1
	res, err := Run(testContext(t), opt)
	if err != nil || res.OK != 1 || res.Conflicts < 1 || res.Missed != 0 || res.Unsent != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestRetriesKeepTheKey(t *testing.T) {
	f := newFake(t)
	f.fault = func(n int, after bool) int {
		switch {
		case n == 5 && after:
			return 503
		case n == 9 && after:
			return -1
		case n == 12 && !after:
			return -1
		}
		return 0
	}
	res, err := Run(testContext(t), options(f, Distinct))
	if err != nil || res.OK != 36 || res.Retries != 3 || res.Errors != 0 || len(f.orders) != 36 {
		t.Errorf("%+v, %v: %d orders", res, err, len(f.orders))
	}
}

func TestErrorsAreToldApart(t *testing.T) {
	for _, tc := range []struct {
		status, code int
		got          func(Result) int64
	}{
		{500, 2000, func(r Result) int64 { return r.Errors }},
		{400, 1000, func(r Result) int64 { return r.Errors }},
		{401, 1001, func(r Result) int64 { return r.Errors }},
		{503, 2003, func(r Result) int64 { return r.Errors }},
		{429, 1029, func(r Result) int64 { return r.RateLimited }},
		{409, 3002, func(r Result) int64 { return r.Conflicts }},
		{409, 3004, func(r Result) int64 { return r.Refused }},
		{404, 3010, func(r Result) int64 { return r.Refused }},
	} {
		var ta tally
		ta.Codes = map[string]int64{}
		ta.count(&APIError{Status: tc.status, Code: seatflow.Code(tc.code)})
		sum := ta.Errors + ta.RateLimited + ta.Conflicts + ta.Refused + ta.OK
		if tc.got(ta.Result) != 1 || sum != 1 {
			t.Errorf("%d: %+v", tc.code, ta.Result)
		}
	}
}

// A server that answers nothing for a while must not slow its own
// measurement down: every request that should have been sent meanwhile
// counts with its wait.
func TestStallIsNotOmitted(t *testing.T) {
	f := newFake(t)
	f.limit = 0
	var once sync.Once
	stalled, release := make(chan struct{}), make(chan struct{})
	f.fault = func(n int, after bool) int {
		if !after {
			once.Do(func() { close(stalled); <-release })
		}
		return 0
	}
	opt := options(f, Distinct)
	opt.Rate, opt.Duration, opt.Connections = 1000, 36*time.Millisecond, 2
	go func() {
		<-stalled
		timer := time.NewTimer(150 * time.Millisecond)
		defer timer.Stop()
		<-timer.C
		close(release)
	}()
	res, err := Run(testContext(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	if l := res.Latency["order"]; l.Count != 36 || l.P50 < 100 {
		t.Errorf("half of the requests are said to have taken %.1f ms through a stall of 150", l.P50)
	}
	if res.Missed < 30 {
		t.Errorf("%d missed schedules", res.Missed)
	}
}

func TestUnsentAfterTheDrain(t *testing.T) {
	f := newFake(t)
	f.limit = 0
	release := make(chan struct{})
	var once sync.Once
	f.fault = func(int, bool) int {
		once.Do(func() { <-release })
		return 0
	}
	opt := options(f, Distinct)
	opt.Connections, opt.Drain = 1, time.Nanosecond
	timer := time.AfterFunc(200*time.Millisecond, func() { close(release) })
	defer timer.Stop()
	res, err := Run(testContext(t), opt)
	if err != nil || res.Sent != 1 || res.Unsent != 35 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestCancelEndsALoad(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(testContext(t))
	block := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/", f.Config.Handler)
	mux.HandleFunc("POST /api/v1/orders", func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		select {
		case <-block:
		case <-r.Context().Done():
		}
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	defer close(block)
	opt := options(f, Distinct)
	opt.URL = s.URL
	opt.Duration = time.Hour
	opt.Timeout = time.Hour
	res, err := Run(ctx, opt)
	if !errors.Is(err, context.Canceled) || res.OK != 0 || res.Errors != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestOptions(t *testing.T) {
	f := newFake(t)
	for name, change := range map[string]func(*Options){
		"url":         func(o *Options) { o.URL = "localhost:1" },
		"scenario":    func(o *Options) { o.Scenario = "cold" },
		"shows":       func(o *Options) { o.Shows = nil },
		"no show":     func(o *Options) { o.Shows = []seatflow.ShowID{2} },
		"rate":        func(o *Options) { o.Rate = -1 },
		"too slow":    func(o *Options) { o.Rate = 0.001 },
		"duration":    func(o *Options) { o.Duration = 0 },
		"warm-up":     func(o *Options) { o.Warmup = -1 },
		"connections": func(o *Options) { o.Connections = 0 },
	} {
		opt := options(f, Distinct)
		change(&opt)
		if _, err := Run(testContext(t), opt); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestConnReadsWhatServersSend(t *testing.T) {
	big := strings.Repeat("seat ", 20_000)
	mux := http.NewServeMux()
	mux.HandleFunc("/chunked", func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = w.Write([]byte(big))
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/length", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"7"`)
		w.Header().Set("Content-Length", "3")
		_, _ = w.Write([]byte("abc"))
	})
	mux.HandleFunc("/unchanged", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == `"7"` && r.Header.Get("Authorization") == "Bearer t" {
			w.WriteHeader(304)
		}
	})
	mux.HandleFunc("/close", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(503)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	c, err := newConn(s.URL, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for range 2 {
		for _, tc := range []struct {
			q      request
			status int
			body   string
			etag   string
			retry  string
		}{
			{request{method: "GET", path: "/chunked"}, 200, big + big + big, "", ""},
			{request{method: "POST", path: "/length", body: []byte("{}")}, 200, "abc", `"7"`, ""},
			{request{method: "GET", path: "/unchanged", token: "t", etag: `"7"`}, 304, "", "", ""},
			{request{method: "GET", path: "/close"}, 503, "", "", "2"},
		} {
			a, err := c.send(t.Context(), &tc.q)
			if err != nil || a.status != tc.status || string(a.body) != tc.body || a.etag != tc.etag || a.retryAfter != tc.retry {
				t.Errorf("%s: %d, %d bytes, %q, %q, %v", tc.q.path, a.status, len(a.body), a.etag, a.retryAfter, err)
			}
		}
		if c.c != nil {
			t.Error("a closed connection was kept")
		}
	}
}
