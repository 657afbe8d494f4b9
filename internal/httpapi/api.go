package httpapi

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"seatflow/internal/auth"
	"seatflow/internal/wording"
)

// API is the HTTP transport. It is safe for concurrent use.
type API struct {
	opt     Options
	mux     *http.ServeMux
	routes  []*route // documented ones, in the document's order
	create  *route   // POST /api/v1/orders; it and seatMap are found without the mux
	seatMap *route   // GET /api/v1/shows/{id}/seats

	langs    wording.Matcher
	fullMaps fullMaps
	plans    plans
	streams  streams
	mints    mintLimits
	spec     entity
}

// The paths of the hot routes.
const (
	createPath = "/api/v1/orders"
	seatsPath  = showsPrefix + "{id}" + seatsSuffix

	showsPrefix = "/api/v1/shows/"
	seatsSuffix = "/seats"
)

// New returns the handler of everything that the server answers.
func New(opt Options) (http.Handler, error) {
	a, err := build(opt)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func build(opt Options) (*API, error) {
	if opt.Booking == nil || opt.Catalog == nil || opt.Live == nil || opt.Tokens == nil {
		return nil, errors.New("httpapi: Booking, Catalog, Live and Tokens are required")
	}
	// A nil pointer of a concrete type means "off" as well.
	if isNil(opt.Sandbox) {
		opt.Sandbox = nil
	}
	if isNil(opt.Payments) {
		opt.Payments = nil
	}
	opt.fill()
	a := &API{opt: opt, mux: http.NewServeMux(), mints: mintLimits{perMinute: opt.GuestsPerMinute}}
	a.routes = a.list()
	methods := map[string][]string{}
	for _, rt := range a.routes {
		a.register(rt)
		methods[rt.path] = append(methods[rt.path], rt.method)
		if rt.method == http.MethodGet {
			methods[rt.path] = append(methods[rt.path], http.MethodHead)
		}
		switch {
		case rt.method == http.MethodPost && rt.path == createPath:
			a.create = rt
		case rt.method == http.MethodGet && rt.path == seatsPath:
			a.seatMap = rt
		}
	}
	if a.create == nil || a.seatMap == nil {
		return nil, errors.New("httpapi: a hot route is not in the list")
	}
	for path, allowed := range methods {
		slices.Sort(allowed)
		a.register(&route{path: path, handle: otherMethod(strings.Join(allowed, ", "))})
	}
	a.register(&route{path: "/api/", handle: unknown})
	a.register(&route{path: "/docs/", handle: unknown})
	a.register(&route{path: "/", during: opt.Timeout, handle: func(c *call) error { return c.pass(opt.Pages) }})

	spec, err := a.document()
	if err != nil {
		return nil, err
	}
	a.spec = taggedEntity(spec)
	return a, nil
}

// register gives a route its place in the mux and its counters.
func (a *API) register(rt *route) {
	rt.api = a
	rt.meter = a.opt.Metrics.Route(rt.name())
	a.mux.Handle(rt.name(), rt)
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The two hot routes need no search. Whatever is not exactly theirs is the
	// mux's.
	switch path := r.URL.Path; r.Method {
	case http.MethodPost:
		if path == createPath {
			a.create.ServeHTTP(w, r)
			return
		}
	case http.MethodGet:
		if id, ok := between(path, showsPrefix, seatsSuffix); ok {
			a.seatMap.serve(w, r, id)
			return
		}
	}
	a.mux.ServeHTTP(w, r)
}

// between returns the id that stands between two parts of a path.
func between(path, prefix, suffix string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return "", false
	}
	if id, ok = strings.CutSuffix(rest, suffix); !ok {
		return "", false
	}
	_, ok = parseID(id)
	return id, ok
}

func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// Endpoint is one line of what the transport offers, for people and tests.
type Endpoint struct {
	Method string
	Path   string
	Action auth.Action
}

// Endpoints lists the documented endpoints.
func (a *API) Endpoints() []Endpoint {
	list := make([]Endpoint, len(a.routes))
	for i, rt := range a.routes {
		list[i] = Endpoint{rt.method, rt.path, rt.action}
	}
	return list
}
