package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"seatflow"
	"seatflow/internal/auth"
	"seatflow/internal/booking"
	"seatflow/internal/telemetry"
	"seatflow/internal/wording"
)

// route is one endpoint: everything that is known of it, in one place.
type route struct {
	method string // "" for a fallback that answers to every method
	path   string // a pattern of the standard mux
	action auth.Action
	handle func(*call) error
	limit  int64         // most bytes of a body; 0: it takes none
	during time.Duration // the time for a request; 0: until the client goes
	stream bool          // its time is not measured
	doc    doc

	api   *API
	meter *telemetry.Route
}

// call is one request on its way through a route. It is used again after the
// request, so nothing may keep it.
type call struct {
	api    *API
	route  *route
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context
	who    auth.Principal
	trace  string
	span   string
	param  string // the id in the path, if it was not the mux that found the route
	status int    // 0 until something was written
}

var calls = sync.Pool{New: func() any { return new(call) }}

// Header values that never change, so that setting them costs nothing. Nobody
// appends to these.
var (
	jsonValue      = []string{"application/json"}
	problemValue   = []string{problemType}
	noStoreValue   = []string{"no-store"}
	revalidate     = []string{"no-cache"}
	policyValue    = []string{"default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; frame-ancestors 'none'"}
	nosniffValue   = []string{"nosniff"}
	referrerValue  = []string{"no-referrer"}
	transportValue = []string{"max-age=31536000; includeSubDomains"}
	langValues     = [languages][]string{{wording.Tags[english]}, {wording.Tags[chinese]}}
	varyLanguage   = []string{"Accept-Language"}
	bearerValue    = []string{`Bearer realm="seatflow"`}
	trueValue      = []string{"true"}
	oneSecond      = []string{"1"}
)

// ServeHTTP runs a request: trace, headers, deadline, access, handler; then
// the error, if there is one, the log line and the counters.
func (rt *route) ServeHTTP(w http.ResponseWriter, r *http.Request) { rt.serve(w, r, "") }

// serve is ServeHTTP for a request whose parameter in the path was found
// without the mux; "" when there is none.
func (rt *route) serve(w http.ResponseWriter, r *http.Request, param string) {
	start := time.Now()
	rt.meter.Begin()
	c := calls.Get().(*call)
	c.api, c.route, c.w, c.r, c.ctx, c.param, c.status = rt.api, rt, w, r, r.Context(), param, 0
	if rt.during > 0 {
		d := withDeadline(c.ctx, start.Add(rt.during))
		defer d.end()
		c.ctx = d
	}
	c.trace, c.span = telemetry.TraceFrom(r)
	c.ctx = telemetry.WithTrace(c.ctx, c.trace, c.span) // from here on log lines name the request
	c.headers()
	if rt.during > rt.api.opt.Timeout {
		// The server's own time limits are for usual requests.
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(start.Add(rt.during))
		_ = rc.SetWriteDeadline(start.Add(rt.during + rt.api.opt.Timeout))
	}
	defer c.end(start)
	if err := c.run(); err != nil {
		c.fail(err)
	}
}

// headers sets what every answer carries. A caller that traces gets the span
// that served it; everybody gets the trace id. The policy on referrers is for
// what has links, so only pages have it (see pass and asset).
func (c *call) headers() {
	h := c.w.Header()
	h["Content-Security-Policy"] = policyValue
	h["X-Content-Type-Options"] = nosniffValue
	h["X-Trace-Id"] = []string{c.trace}
	if c.api.opt.HTTPS || c.r.TLS != nil {
		h["Strict-Transport-Security"] = transportValue
	}
	if len(c.r.Header["Traceparent"]) > 0 {
		h["Traceparent"] = []string{telemetry.Traceparent(c.trace, c.span)}
	}
}

func (c *call) run() error {
	if c.route.action != auth.ActionPublic {
		who, err := c.api.opt.Tokens.Verify(auth.Bearer(c.r.Header.Get("Authorization")))
		if err != nil {
			return err
		}
		if !auth.Allowed(who.Role, c.route.action) {
			return &seatflow.Error{Code: seatflow.CodeForbidden, Reason: reasonRole, Args: []any{who.Role}}
		}
		c.who = who
	}
	return c.route.handle(c)
}

// end runs when the handler has returned or panicked.
func (c *call) end(start time.Time) {
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler {
			c.route.meter.End(http.StatusInternalServerError, 0)
			panic(p)
		}
		written := c.status != 0
		c.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		if written {
			// Half an answer is out; only a cut connection says so.
			c.route.meter.End(http.StatusInternalServerError, 0)
			panic(http.ErrAbortHandler)
		}
	}
	took := time.Since(start)
	if c.status == 0 {
		c.status = http.StatusOK
	}
	c.log(took)
	if c.route.stream {
		took = 0
	}
	c.route.meter.End(c.status, took)
	*c = call{}
	calls.Put(c)
}

func (c *call) log(took time.Duration) {
	level := slog.LevelDebug
	if c.status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	if !c.api.opt.Log.Enabled(c.ctx, level) {
		return
	}
	c.api.opt.Log.LogAttrs(context.WithoutCancel(c.ctx), level, "request",
		slog.String("route", c.route.name()), slog.Int("status", c.status), slog.Duration("took", took))
}

// name is the route as metrics and logs call it.
func (rt *route) name() string {
	if rt.method == "" {
		return rt.path
	}
	return rt.method + " " + rt.path
}

// fail answers with a problem document. It is the only place that does, and
// the only one that logs an internal error.
func (c *call) fail(err error) {
	e, internal := shown(err)
	if internal {
		c.api.opt.Log.LogAttrs(context.WithoutCancel(c.ctx), slog.LevelError, "request failed",
			slog.String("route", c.route.name()), slog.Int("code", int(e.Code)), slog.Any("error", err))
	}
	if c.status != 0 {
		return // an answer is on its way already
	}
	if internal && e.Code == seatflow.CodeSystem {
		e = &seatflow.Error{Code: seatflow.CodeSystem} // no details
	}
	status := statusOf(e)
	l := c.api.langs.Of(c.r.Header.Get("Accept-Language"))
	h := c.w.Header()
	delete(h, "Etag")
	h["Content-Type"] = problemValue
	h["Content-Language"] = langValues[l]
	h["Vary"] = varyLanguage
	h["Cache-Control"] = noStoreValue
	switch status {
	case http.StatusUnauthorized:
		h["Www-Authenticate"] = bearerValue
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		if e.RetryAfter <= time.Second {
			h["Retry-After"] = oneSecond
		} else {
			h.Set("Retry-After", retryAfter(e.RetryAfter))
		}
	case http.StatusRequestEntityTooLarge:
		h.Set("Connection", "close") // the rest of the body is not read
	case http.StatusMethodNotAllowed:
		if len(e.Args) > 0 {
			h.Set("Allow", fmt.Sprint(e.Args[0]))
		}
	}
	buf := buffers.get()
	defer buffers.put(buf)
	buf.b = appendProblem(buf.b, l, e, c.trace, c.appendOrder)
	c.write(status, buf.b)
}

// write sends a whole answer whose headers but for its length are set.
func (c *call) write(status int, body []byte) {
	c.w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.status = status
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(body) // a peer that has gone is not an error of ours
	}
}

// json sends an encoded JSON answer that nobody may store.
func (c *call) json(status int, body []byte) {
	h := c.w.Header()
	h["Content-Type"] = jsonValue
	h["Cache-Control"] = noStoreValue
	c.write(status, body)
}

// actor is the caller as orders and their history know it.
func (c *call) actor() (seatflow.Actor, error) {
	device, err := c.device()
	return seatflow.Actor{User: c.who.User, Role: c.who.Role, TraceID: c.trace, SpanID: c.span, Device: device}, err
}

// device is the terminal that the caller says it uses, or its role's usual.
func (c *call) device() (seatflow.Device, error) {
	return booking.OriginDevice("X-Origin-Device", c.r.Header.Get("X-Origin-Device"), c.who.Device)
}

// noShow turns "not found" into "no such show", for routes about a show.
func noShow(err error) error {
	var e *seatflow.Error
	if err == nil || errors.As(err, &e) || !errors.Is(err, seatflow.ErrNotFound) {
		return err
	}
	return &seatflow.Error{Code: seatflow.CodeNoShow, Err: err}
}

// recorder lets a handler of another make answer a call, and sees its status.
type recorder struct{ c *call }

func (w recorder) Header() http.Header { return w.c.w.Header() }

func (w recorder) WriteHeader(status int) {
	if w.c.status == 0 && status >= 200 {
		w.c.status = status
	}
	w.c.w.WriteHeader(status)
}

func (w recorder) Write(b []byte) (int, error) {
	if w.c.status == 0 {
		w.c.status = http.StatusOK
	}
	return w.c.w.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w recorder) Unwrap() http.ResponseWriter { return w.c.w }
