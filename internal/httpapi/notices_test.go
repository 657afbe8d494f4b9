package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"seatflow"
)

// laterClock is the stopped one, moved on.
type laterClock time.Duration

// Now implements seatflow.Clock.
func (c laterClock) Now() time.Time { return stoppedClock{}.Now().Add(time.Duration(c)) }

func TestNotices(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	defer stop()
	s := newServer(t, func(o *Options) { o.Context = stopping })
	server := httptest.NewServer(s.api)
	defer http.DefaultClient.CloseIdleConnections()
	defer server.Close()
	begin := func(role seatflow.Role) (*watcher, context.CancelFunc) {
		t.Helper()
		ctx, hangUp := context.WithCancel(t.Context())
		w := watch(t, ctx, server.URL+"/api/v1/me/events", "Authorization: Bearer "+s.tokens[role])
		w.want("retry: 2000\n")
		return w, func() { hangUp(); w.res.Body.Close() }
	}
	w, hangUp := begin(seatflow.RoleBuyer)
	if got := w.res.Header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("Content-Type: %s", got)
	}
	other, hangUpOther := begin(seatflow.RoleKiosk)
	at := time.Date(2031, 5, 4, 18, 0, 0, 0, time.UTC)
	s.rooms.Deliver(seatflow.Notice{Kind: seatflow.NoticeOrder, ID: "a.2", User: "the-buyer", Show: 1, Order: "a", Version: 2,
		Event: seatflow.EventPaid, State: seatflow.OrderPaid, Seats: []seatflow.SeatID{3}, Device: seatflow.DeviceKiosk, At: at})
	s.rooms.DeliverAll(seatflow.Notice{Kind: seatflow.NoticeMissed, At: at})
	w.want("id: a.2\nevent: notice\ndata: {\"type\":\"order.changed\",\"id\":\"a.2\",\"showId\":1,\"orderNo\":\"a\",\"version\":2," +
		"\"event\":\"order.paid\",\"state\":\"paid\",\"seats\":[3],\"device\":\"kiosk\",\"at\":\"2031-05-04T18:00:00Z\"}\n")
	missed := "event: notice\ndata: {\"type\":\"missed\",\"at\":\"2031-05-04T18:00:00Z\"}\n"
	w.want(missed)
	other.want(missed) // and nothing of the buyer's

	// It ends when the client goes, and leaves nothing behind.
	hangUp()
	for s.rooms.Here("the-buyer") {
	}
	stop()
	other.want("event: end\ndata: {\"reason\":\"shutdown\"}\n")
	hangUpOther()
	for s.rooms.Users() > 0 {
	}
}

func TestNoticesAreNobodyElses(t *testing.T) {
	s := newServer(t)
	for _, header := range []string{"", "Authorization: Bearer x", "Authorization: Bearer " + s.tokens["buyer"] + "x"} {
		s.do("GET /api/v1/me/events", "", header, "Authorization: ").is(401).problem(seatflow.CodeUnauthorized, "")
	}
	if s.rooms.Users() != 0 {
		t.Error("somebody was let in")
	}
	off := newServer(t, func(o *Options) { o.Notices = nil })
	off.do("GET /api/v1/me/events", "", "buyer").is(404).problem(seatflow.CodeNotFound, "")
	full := newServer(t, func(o *Options) { o.StreamsMost = 1 })
	full.api.streams.enter("somebody", 1, 1)
	full.do("GET /api/v1/me/events", "", "buyer").is(429).problem(seatflow.CodeRateLimited, reasonStreams)
}

// A stream is for as long as its token.
func TestNoticesEndWithTheToken(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Clock = laterClock(time.Hour - 50*time.Millisecond) })
	a := s.do("GET /api/v1/me/events", "", "buyer").is(200)
	if !strings.HasSuffix(a.Body.String(), "event: end\ndata: {\"reason\":\"token\"}\n\n") {
		t.Errorf("%q", a.Body)
	}
	if s.rooms.Users() != 0 {
		t.Error("the user is still here")
	}
}

// Who does not read is cut, and told why.
func TestNoticesCutTheSlow(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/me/events", nil)
	r.Header.Set("Authorization", "Bearer "+s.tokens["buyer"])
	stuck := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), stuck: make(chan struct{}), goOn: make(chan struct{})}
	done := make(chan struct{})
	go func() { defer close(done); s.api.ServeHTTP(stuck, r) }()
	<-stuck.stuck // in the first write
	for s.rooms.Deliver(seatflow.Notice{Kind: seatflow.NoticeOrder, User: "the-buyer"}) {
	}
	close(stuck.goOn)
	<-done
	if !strings.HasSuffix(stuck.Body.String(), "event: end\ndata: {\"reason\":\"slow\"}\n\n") {
		t.Errorf("%q", stuck.Body)
	}
}

// stuckWriter does not get the first write through until it is let go on.
type stuckWriter struct {
	*httptest.ResponseRecorder
	stuck, goOn chan struct{}
	writes      int
}

func (w *stuckWriter) Write(b []byte) (int, error) {
	if w.writes++; w.writes == 1 {
		close(w.stuck)
		<-w.goOn
	}
	return w.ResponseRecorder.Write(b)
}
