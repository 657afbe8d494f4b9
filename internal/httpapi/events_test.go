package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
	"seatflow/internal/live"
)

func frame(id, event, data string) live.Frame {
	return live.Frame{ID: id, Event: event, Data: []byte(data)}
}

// watcher is a client of one stream.
type watcher struct {
	t   *testing.T
	res *http.Response
	in  *bufio.Reader
}

func watch(t *testing.T, ctx context.Context, url string, headers ...string) *watcher {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return &watcher{t, res, bufio.NewReader(res.Body)}
}

// next reads up to the next blank line.
func (w *watcher) next() string {
	w.t.Helper()
	var b strings.Builder
	for {
		line, err := w.in.ReadString('\n')
		if err != nil {
			return b.String() + "(" + err.Error() + ")"
		}
		if line == "\n" {
			return b.String()
		}
		b.WriteString(line)
	}
}

func (w *watcher) want(text string) {
	w.t.Helper()
	if got := w.next(); got != text {
		w.t.Errorf("got %q, want %q", got, text)
	}
}

func TestEvents(t *testing.T) {
	s := newServer(t)
	server := httptest.NewServer(s.api)
	defer http.DefaultClient.CloseIdleConnections()
	defer server.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()

	w := watch(t, ctx, server.URL+"/api/v1/shows/1/events")
	for name, want := range map[string]string{"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no", "Cache-Control": "no-store"} {
		if got := w.res.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	w.want("retry: 2000\n")
	if after := <-s.after; after != "" {
		t.Errorf("subscribed after %q", after)
	}
	sub := <-s.subs
	sub.frames <- frame("3.17", "snapshot", `{"showId":1}`)
	w.want("id: 3.17\nevent: snapshot\ndata: {\"showId\":1}\n")
	sub.frames <- frame("3.18", "update", "{\n}")
	w.want("id: 3.18\nevent: update\ndata: {\ndata: }\n")

	// It ends when the client goes, and leaves nothing behind.
	hangUp()
	<-sub.closed
	w.res.Body.Close()

	for header, want := range map[string]string{"3.18": "3.18", "x": "", "-1.2": "", "3.18\t": "3.18"} {
		ctx, hangUp := context.WithCancel(t.Context())
		w := watch(t, ctx, server.URL+"/api/v1/shows/1/events", "Last-Event-ID: "+header)
		if after := <-s.after; after != want {
			t.Errorf("Last-Event-ID %q: subscribed after %q", header, after)
		}
		hangUp()
		<-(<-s.subs).closed
		w.res.Body.Close()
	}
	ctx, hangUp = context.WithCancel(t.Context())
	w = watch(t, ctx, server.URL+"/api/v1/shows/1/events?lastEventId=3.9")
	if after := <-s.after; after != "3.9" {
		t.Errorf("subscribed after %q", after)
	}
	hangUp()
	<-(<-s.subs).closed
	w.res.Body.Close()
}

func TestEventsEnd(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	defer stop()
	s := newServer(t, func(o *Options) { o.Context = stopping })
	server := httptest.NewServer(s.api)
	defer http.DefaultClient.CloseIdleConnections()
	defer server.Close()
	begin := func() (*watcher, *fakeStream) {
		w := watch(t, t.Context(), server.URL+"/api/v1/shows/1/events")
		w.want("retry: 2000\n")
		return w, <-s.subs
	}

	w, sub := begin()
	sub.end <- fmt.Errorf("cut: %w", live.ErrSlow)
	w.want("event: end\ndata: {\"reason\":\"slow\"}\n")
	w.want("(EOF)")
	<-sub.closed

	w, sub = begin()
	sub.end <- live.ErrClosed
	w.want("event: end\ndata: {\"reason\":\"shutdown\"}\n")
	w.want("(EOF)")
	<-sub.closed

	w, sub = begin()
	sub.end <- errors.New("broken")
	w.want("(EOF)")
	<-sub.closed

	w, sub = begin()
	stop()
	w.want("event: end\ndata: {\"reason\":\"shutdown\"}\n")
	w.want("(EOF)")
	<-sub.closed

	metrics := s.do("GET /metrics", "").Body.String()
	for _, line := range []string{"seatflow_event_subscribers 0", `seatflow_event_streams_ended_total{why="slow"} 1`,
		`seatflow_event_streams_ended_total{why="shutdown"} 2`, `seatflow_event_streams_ended_total{why="error"} 1`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
}

func TestEventsRefused(t *testing.T) {
	s := newServer(t, func(o *Options) { o.StreamsPerAddress, o.StreamsMost = 2, 3 })
	s.do("GET /api/v1/shows/9/events", "").is(404).problem(seatflow.CodeNoShow, "")
	if s.api.streams.open != 0 {
		t.Error("a refused stream is counted")
	}
	for _, tc := range []struct {
		address string
		want    bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", false}} {
		if got := s.api.streams.enter(tc.address, 2, 3); got != tc.want {
			t.Errorf("address %s: %v", tc.address, got)
		}
	}
	a := s.do("GET /api/v1/shows/1/events", "").is(429)
	a.problem(seatflow.CodeRateLimited, reasonStreams)
	if a.Header().Get("Retry-After") != "5" {
		t.Errorf("Retry-After %q", a.Header().Get("Retry-After"))
	}
	for _, address := range []string{"a", "a", "b"} {
		s.api.streams.leave(address)
	}
	if s.api.streams.open != 0 || len(s.api.streams.byAddress) != 0 {
		t.Errorf("left behind: %+v", s.api.streams.byAddress)
	}
	s.do("HEAD /api/v1/shows/1/events", "").is(200)
}

// scriptedWriter is a connection whose writes the test sees, in fake time.
type scriptedWriter struct {
	mu        sync.Mutex
	header    http.Header
	out       strings.Builder
	deadlines []time.Time
	fail      error
}

func (w *scriptedWriter) Header() http.Header { return w.header }
func (w *scriptedWriter) WriteHeader(int)     {}
func (w *scriptedWriter) Flush()              {}
func (w *scriptedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return 0, w.fail
	}
	return w.out.Write(b)
}

func (w *scriptedWriter) SetReadDeadline(time.Time) error { return nil }
func (w *scriptedWriter) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadlines = append(w.deadlines, t)
	return nil
}

func (w *scriptedWriter) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

func TestHeartbeatsAndDeadPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		w := &scriptedWriter{header: http.Header{}}
		r := httptest.NewRequest("GET", "/api/v1/shows/1/events", nil)
		ended := make(chan struct{})
		go func() { defer close(ended); s.api.ServeHTTP(w, r) }()
		sub := <-s.subs
		synctest.Wait()
		<-time.After(DefaultHeartbeat - time.Millisecond) // the bubble's time, not the machine's
		synctest.Wait()
		if got := w.text(); got != "retry: 2000\n\n" {
			t.Errorf("before the first heartbeat: %q", got)
		}
		<-time.After(time.Millisecond)
		synctest.Wait()
		if got := w.text(); got != "retry: 2000\n\n: \n\n" {
			t.Errorf("first heartbeat: %q", got)
		}
		sub.frames <- frame("3.1", "update", "{}")
		synctest.Wait()
		<-time.After(2 * DefaultHeartbeat)
		synctest.Wait()
		if got := strings.Count(w.text(), ": \n\n"); got != 3 {
			t.Errorf("%d heartbeats, want 3: %q", got, w.text())
		}
		w.mu.Lock()
		if last := w.deadlines[len(w.deadlines)-1]; !last.Equal(time.Now().Add(DefaultStreamWrite)) || len(w.deadlines) != 5 {
			t.Errorf("write deadlines %v", w.deadlines)
		}
		// The peer stops reading: the write meets its deadline.
		w.fail = &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}
		w.mu.Unlock()
		sub.frames <- frame("3.2", "update", "{}")
		<-ended
		<-sub.closed
		if s.api.streams.open != 0 {
			t.Error("the stream is still counted")
		}
		if !strings.Contains(s.do("GET /metrics", "").Body.String(), `seatflow_event_streams_ended_total{why="slow"} 1`) {
			t.Error("a peer that does not read is not counted as slow")
		}
	})
}

// TestDeadlineOfRequests: a request that takes too long is told so.
func TestDeadlineOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.api.opt.Booking = &hangingBooking{Booking: s.fakes}
		start := time.Now()
		s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer").is(503).problem(seatflow.CodeNotReady, reasonUnfinished)
		if took := time.Since(start); took != DefaultTimeout {
			t.Errorf("took %v, want %v", took, DefaultTimeout)
		}
	})
}

func TestSync(t *testing.T) {
	s := newServer(t)
	ask := func(query string) (out Sync) {
		t.Helper()
		a := s.do("GET /api/v1/shows/1/sync"+query, "").is(200)
		if a.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("cached: %v", a.Header())
		}
		a.into(&out)
		if out.ShowID != 1 || out.LastAppliedRevision != "3.17" {
			t.Errorf("%q: %+v", query, out)
		}
		return out
	}
	if out := ask(""); out.Map == nil || out.Map.Revision != "3.17" || len(out.Updates) != 0 || out.Map.States == "" {
		t.Errorf("from nothing: %+v", out)
	}
	if out := ask("?since=3.17"); out.Map != nil || out.Updates == nil || len(out.Updates) != 0 {
		t.Errorf("up to date: %+v", out)
	}
	want := []SeatChange{{SeatID: 2, Status: "held", Delta: 1}, {SeatID: 5, Status: "available", Delta: -1}}
	if out := ask("?since=3.16"); out.Map != nil || !slices.Equal(out.Updates, want) {
		t.Errorf("since 3.16: %+v", out)
	}
	for _, bad := range []string{"x", "3", "3.-1", "-1.2", "3.16%20"} {
		s.do("GET /api/v1/shows/1/sync?since="+bad, "").is(400).problem(seatflow.CodeInvalid, seatflow.ReasonField)
	}
	s.do("GET /api/v1/shows/9/sync", "").is(404).problem(seatflow.CodeNoShow, "")
	s.do("GET /api/v1/shows/x/sync", "").is(400)
	s.do("HEAD /api/v1/shows/1/sync", "").is(200)
}
