package httpapi

import (
	"context"
	"net/http"
	"time"

	"seatflow"
)

// notices streams what happens to the caller's own orders, as server-sent
// events, for as long as the token is valid.
func (a *API) notices(c *call) error {
	if a.opt.Notices == nil {
		return &seatflow.Error{Code: seatflow.CodeNotFound}
	}
	if c.r.Method == http.MethodHead { // which would never end
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

	list, end := a.opt.Notices.Subscribe(c.who.User)
	defer end()
	why := "client"
	a.opt.Metrics.StreamOpened()
	defer func() { a.opt.Metrics.StreamClosed(why) }()
	s := &eventWriter{c: c, rc: http.NewResponseController(c.w)}
	if err := s.start(); err != nil {
		return nil // the client has gone
	}
	beat := time.NewTicker(a.opt.Heartbeat)
	defer beat.Stop()
	expires := time.NewTimer(c.who.Expires.Sub(a.opt.Clock.Now()))
	defer expires.Stop()
	for {
		var err error
		select {
		case n, ok := <-list:
			if !ok {
				why = s.end(a.opt.Context.Err() != nil)
				return nil
			}
			err = s.notice(&n)
			beat.Reset(a.opt.Heartbeat)
		case <-beat.C:
			err = s.send(heartbeatComment)
		case <-expires.C:
			why = "token"
			_ = s.send([]byte("event: end\ndata: {\"reason\":\"token\"}\n\n"))
			return nil
		case <-ctx.Done():
			if a.opt.Context.Err() != nil {
				why = s.end(true)
			}
			return nil
		}
		if err != nil {
			if isTimeout(err) {
				why = "slow"
			}
			return nil
		}
	}
}

// notice sends one notice.
func (s *eventWriter) notice(n *seatflow.Notice) error {
	b := s.buf[:0]
	if n.ID != "" {
		b = append(append(append(b, "id: "...), n.ID...), '\n')
	}
	b = append(b, "event: notice\ndata: "...)
	b = n.AppendJSON(b)
	s.buf = append(b, "\n\n"...)
	return s.send(s.buf)
}

// end tells a client that was cut why, and returns the reason for the
// counters.
func (s *eventWriter) end(stopping bool) string {
	if stopping {
		_ = s.send([]byte("event: end\ndata: {\"reason\":\"shutdown\"}\n\n"))
		return "shutdown"
	}
	_ = s.send([]byte("event: end\ndata: {\"reason\":\"slow\"}\n\n"))
	return "slow"
}
