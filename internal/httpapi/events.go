package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"seatflow"
	"seatflow/internal/live"
)

// streams counts the open streams, altogether and by client address.
type streams struct {
	mu        sync.Mutex
	open      int
	byAddress map[string]int
}

// enter counts a stream in unless there are too many.
func (s *streams) enter(address string, perAddress, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= most || s.byAddress[address] >= perAddress {
		return false
	}
	if s.byAddress == nil {
		s.byAddress = make(map[string]int)
	}
	s.open++
	s.byAddress[address]++
	return true
}

func (s *streams) leave(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.byAddress[address]--; s.byAddress[address] <= 0 {
		delete(s.byAddress, address)
	}
}

var (
	eventStreamValue = []string{"text/event-stream; charset=utf-8"}
	noBuffering      = []string{"no"}
	heartbeatComment = []byte(": \n\n")
)

// events streams a show's map and what changes of it, as server-sent events.
// The first frame is the whole map, unless the caller resumes at a revision
// whose changes are still kept.
//
// A stream is one goroutine, the request's own. It ends when the client goes
// or takes too long for one write, when the hub cuts it as too slow, and when
// the server begins to stop; a client resumes by the id of its last event.
func (a *API) events(c *call) error {
	show, err := c.pathShow()
	if err != nil {
		return err
	}
	if c.r.Method == http.MethodHead { // which would never end
		if _, err := a.opt.Catalog.House(c.ctx, show); err != nil {
			return noShow(err)
		}
		c.w.Header()["Content-Type"] = eventStreamValue
		c.status = http.StatusOK
		return nil
	}
	leave, err := c.enterStream()
	if err != nil {
		return err
	}
	defer leave()

	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(a.opt.Context, cancel)()

	sub, err := a.opt.Live.Subscribe(ctx, show, c.lastEventID())
	if err != nil {
		return noShow(err)
	}
	defer sub.Close()
	why := "client"
	a.opt.Metrics.StreamOpened()
	defer func() { a.opt.Metrics.StreamClosed(why) }()

	s := &eventWriter{c: c, rc: http.NewResponseController(c.w)}
	if err := s.start(); err != nil {
		return nil // the client has gone
	}
	for {
		frame, err := a.nextFrame(ctx, sub)
		switch {
		case err == nil:
			err = s.frame(&frame)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			err = s.send(heartbeatComment)
		default:
			why = s.finish(err, a.opt.Context.Err() != nil)
			return nil
		}
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
				why = "slow"
			}
			return nil
		}
	}
}

// enterStream counts a stream in, unless there are too many.
func (c *call) enterStream() (leave func(), err error) {
	a := c.api
	address := a.opt.Address(c.r)
	if !a.streams.enter(address, a.opt.StreamsPerAddress, a.opt.StreamsMost) {
		return nil, &seatflow.Error{Code: seatflow.CodeRateLimited, Reason: reasonStreams, RetryAfter: 5 * time.Second}
	}
	return func() { a.streams.leave(address) }, nil
}

// nextFrame waits for a frame until it is time for a heartbeat.
func (a *API) nextFrame(ctx context.Context, sub Stream) (live.Frame, error) {
	ctx, cancel := context.WithTimeout(ctx, a.opt.Heartbeat)
	defer cancel()
	return sub.Next(ctx)
}

// sync answers with what came since a revision.
func (a *API) sync(c *call) error {
	show, err := c.pathShow()
	if err != nil {
		return err
	}
	since := c.r.URL.Query().Get("since")
	if _, err := seatflow.ParseRevision(since); err != nil && since != "" {
		return invalid("since", "must be a revision such as 3.17")
	}
	got, err := a.opt.Live.Since(c.ctx, show, since)
	if err != nil {
		return noShow(err)
	}
	size := 128 + 48*len(got.Changes)
	if got.Map != nil {
		size += len(got.Map.Compact)
	}
	b := make([]byte, 0, size)
	b = append(b, `{"showId":`...)
	b = strconv.AppendInt(b, int64(got.Show), 10)
	b = append(b, `,"lastAppliedRevision":"`...)
	b = append(b, got.Revision...)
	b = append(b, `","updates":[`...)
	for i, change := range got.Changes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"seatId":`...)
		b = strconv.AppendInt(b, int64(change.Seat), 10)
		b = append(b, `,"status":"`...)
		b = append(b, change.State.String()...)
		b = append(b, `","delta":`...)
		b = strconv.AppendInt(b, int64(change.Delta), 10)
		b = append(b, '}')
	}
	b = append(b, ']')
	if got.Map != nil {
		b = append(b, `,"map":`...)
		b = append(b, got.Map.Compact...)
	}
	c.json(http.StatusOK, append(b, '}'))
	return nil
}

// lastEventID is where the caller wants to resume; "" unless it is a revision.
func (c *call) lastEventID() string {
	id := c.r.Header.Get("Last-Event-ID")
	if id == "" && c.r.URL.RawQuery != "" {
		id = c.r.URL.Query().Get("lastEventId")
	}
	if _, err := seatflow.ParseRevision(id); err != nil {
		return ""
	}
	return id
}

// eventWriter writes server-sent events to one client.
type eventWriter struct {
	c   *call
	rc  *http.ResponseController
	buf []byte
}

// start sends the head of the answer at once, so that the client knows that
// it is connected. The server's time limits are for requests that end.
func (s *eventWriter) start() error {
	h := s.c.w.Header()
	h["Content-Type"] = eventStreamValue
	h["Cache-Control"] = noStoreValue
	h["X-Accel-Buffering"] = noBuffering
	if err := s.rc.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	s.c.status = http.StatusOK
	s.c.w.WriteHeader(http.StatusOK)
	return s.send([]byte("retry: 2000\n\n"))
}

// frame sends one frame.
func (s *eventWriter) frame(f *live.Frame) error {
	b := append(s.buf[:0], "id: "...)
	b = append(b, f.ID...)
	b = append(b, "\nevent: "...)
	b = append(b, f.Event...)
	for line := range bytes.SplitSeq(f.Data, []byte{'\n'}) {
		b = append(b, "\ndata: "...)
		b = append(b, line...)
	}
	s.buf = append(b, "\n\n"...)
	err := s.send(s.buf)
	if cap(s.buf) > bufferKeep {
		s.buf = nil // a snapshot; what follows is small
	}
	return err
}

// send writes and flushes, within a time limit that cuts dead peers.
func (s *eventWriter) send(b []byte) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.c.api.opt.StreamWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.c.w.Write(b); err != nil {
		return err
	}
	return s.rc.Flush()
}

// finish tells the client why its stream ends, if there is anything to tell,
// and returns the reason for the counters.
func (s *eventWriter) finish(err error, stopping bool) string {
	switch {
	case errors.Is(err, live.ErrSlow):
		_ = s.send([]byte("event: end\ndata: {\"reason\":\"slow\"}\n\n"))
		return "slow"
	case stopping, errors.Is(err, live.ErrClosed):
		_ = s.send([]byte("event: end\ndata: {\"reason\":\"shutdown\"}\n\n"))
		return "shutdown"
	case errors.Is(err, context.Canceled):
		return "client"
	}
	s.c.api.opt.Log.WarnContext(s.c.ctx, "event stream failed", "error", err)
	return "error"
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
