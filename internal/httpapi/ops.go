package httpapi

import (
	"embed"
	"errors"
	"fmt"
	"net/http"

	"seatflow"
	"seatflow/internal/telemetry"
)

//go:embed assets
var assets embed.FS

// alive answers as long as the process serves at all.
func (a *API) alive(c *call) error {
	return c.reply(http.StatusOK, Alive{Status: "ok", Version: a.opt.Version})
}

// ready answers whether requests should come here. What is wrong with a check
// is for the log; the page is public.
func (a *API) ready(c *call) error {
	out := Ready{Status: "ok", Checks: map[string]string{}}
	status := http.StatusOK
	if a.opt.Health != nil {
		for name, err := range a.opt.Health(c.ctx) {
			if err == nil {
				out.Checks[name] = "ok"
				continue
			}
			if errors.Is(err, telemetry.ErrDegraded) {
				out.Checks[name] = "degraded" // and the rest goes on
			} else {
				out.Checks[name], out.Status, status = "failing", "unavailable", http.StatusServiceUnavailable
			}
			a.opt.Log.WarnContext(c.ctx, "health check fails", "check", name, "error", err)
		}
	}
	if status != http.StatusOK {
		c.w.Header()["Retry-After"] = oneSecond
	}
	return c.reply(status, &out)
}

// pass gives a request to a handler of another make.
func (c *call) pass(h http.Handler) error {
	if h == nil {
		return &seatflow.Error{Code: seatflow.CodeNotFound}
	}
	c.w.Header()["Referrer-Policy"] = referrerValue
	h.ServeHTTP(recorder{c}, c.r)
	return nil
}

// asset answers with an embedded file.
func asset(name, contentType string) func(*call) error {
	value := []string{contentType}
	return func(c *call) error {
		body, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return fmt.Errorf("httpapi: %s is not embedded: %w", name, err)
		}
		h := c.w.Header()
		h["Content-Type"] = value
		h["Referrer-Policy"] = referrerValue
		h["Cache-Control"] = revalidate
		c.write(http.StatusOK, body)
		return nil
	}
}

// specification answers with the OpenAPI document.
func (a *API) specification(c *call) error {
	c.cached(a.spec.etag, a.spec.body)
	return nil
}

// unknown answers to a path that is nobody's.
func unknown(*call) error { return &seatflow.Error{Code: seatflow.CodeNotFound} }

// otherMethod answers to a path that is there, asked with a method that it
// does not have.
func otherMethod(allowed string) func(*call) error {
	return func(*call) error {
		return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: reasonMethod, Args: []any{allowed}}
	}
}
