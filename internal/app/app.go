// Package app wires the parts of a server and knows them all; nobody else
// does.
//
// # State model
//
// New opens everything in order (data folder and its lock, ledger, seat
// state, services, listener) and serves nothing yet. Run builds the views of
// the shows that are given, starts the background services, serves, and stops
// in order when its context ends: no new work, open streams ended, accepted
// requests finished, services stopped, what is owed to the view told once
// more. Close frees what New opened and may be called twice, after Run or
// instead of it.
//
// # Failure
//
// Every step returns its error and undoes the steps before it. A background
// service that ends by itself ends the server. A process that is killed
// leaves a data folder that the next one opens as it is: the lock dies with
// the process, the views are rebuilt from the facts, holds keep their
// deadlines.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"seatflow"
	"seatflow/internal/admission"
	"seatflow/internal/auth"
	"seatflow/internal/booking"
	"seatflow/internal/catalog"
	"seatflow/internal/config"
	"seatflow/internal/guardian"
	"seatflow/internal/httpapi"
	"seatflow/internal/ledger"
	"seatflow/internal/live"
	"seatflow/internal/notice"
	"seatflow/internal/payment"
	"seatflow/internal/reconcile"
	"seatflow/internal/relay"
	"seatflow/internal/telemetry"
	"seatflow/internal/verify"
	"seatflow/internal/web"
)

// adminTokenTTL is how long the token lasts that the first start prints;
// "seatflow token" makes others.
const adminTokenTTL = 365 * 24 * time.Hour

// outboxKept is how long order events wait for a bus that is away;
// housekeeping is how often older ones are dropped.
const (
	outboxKept   = 7 * 24 * time.Hour
	housekeeping = 10 * time.Minute
	outboxBatch  = 1000
)

// Options are what is not configuration.
type Options struct {
	Log     *slog.Logger
	Version string
	// WrapSeats and WrapLedger, if set, stand between the services and the
	// stores: fault tests break things there.
	WrapSeats  func(seatflow.SeatStore) seatflow.SeatStore
	WrapLedger func(seatflow.Ledger) seatflow.Ledger
}

// App is a server.
type App struct {
	cfg     config.Config
	log     *slog.Logger
	metrics *telemetry.Metrics
	health  *telemetry.Health

	node      string
	stores    *stores
	seats     seatflow.SeatStore // as the services see it
	ledger    seatflow.Ledger    // as the services see it
	tokens    *auth.Tokens
	catalog   *catalog.Service
	admits    booking.Admission // nil: no window
	booking   *booking.Service
	sandbox   *payment.Sandbox
	payments  *payment.Service
	guardian  *guardian.Guardian
	relay     *relay.Relay
	reconcile *reconcile.Reconciler
	hub       *live.Hub
	notices   *notice.Watch
	rooms     *notice.Rooms

	listener net.Listener
	profiler net.Listener
	server   *http.Server
	url      string
	streams  context.CancelFunc // ends open streams

	closeOnce sync.Once
	closeErr  error
}

// New opens a server. The error is *InUseError when another process has the
// data folder.
func New(ctx context.Context, cfg config.Config, o Options) (*App, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = logNothing
	}
	a := &App{cfg: cfg, log: o.Log, metrics: telemetry.NewMetrics(), health: &telemetry.Health{}, streams: func() {}}
	a.metrics.Version(o.Version)
	if err := a.open(ctx, o); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *App) open(ctx context.Context, o Options) (err error) {
	cfg := a.cfg
	a.node = cfg.Node
	if a.node == "" {
		a.node = nodeName()
	}
	if a.stores, err = openStores(ctx, cfg, a.ledgerOptions(), a.log); err != nil {
		return err
	}
	if a.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	a.url = "http://" + reachable(a.listener.Addr())
	public := strings.TrimSuffix(cfg.PublicURL, "/")
	if public == "" {
		public = a.url
	}
	if cfg.Pprof != "" {
		if a.profiler, err = net.Listen("tcp", cfg.Pprof); err != nil {
			return fmt.Errorf("pprof on %s: %w", cfg.Pprof, err)
		}
	}
	if a.tokens, err = auth.NewTokens(derive(a.stores.folder.secret, "tokens"), seatflow.WallClock{}); err != nil {
		return err
	}

	a.seats, a.ledger = a.stores.seats, a.stores.ledger
	if o.WrapSeats != nil {
		a.seats = o.WrapSeats(a.seats)
	}
	if o.WrapLedger != nil {
		a.ledger = o.WrapLedger(a.ledger)
	}
	a.catalog = catalog.New(a.ledger, seatflow.WallClock{}, a.log)
	a.catalog.SetDefaults(catalog.Defaults{
		LimitPerUser: cfg.Limits.SeatsPerUser, HoldFor: config.Seconds(cfg.Hold.Seconds),
		HoldCap: config.Seconds(cfg.Hold.CapSeconds), ExtendBy: config.Seconds(cfg.Hold.ExtendSeconds),
	})
	a.admits = a.admission()
	a.booking = booking.New(booking.Options{
		Seats: a.seats, Ledger: a.ledger, Houses: a.catalog, Log: a.log, Metrics: a.metrics,
		Grace: config.Seconds(cfg.GraceSeconds), LedgerDeadline: config.Ms(cfg.LedgerDeadlineMs),
		Admission: a.admits, ShowRate: cfg.Rates.OrdersPerShowPerSecond, Locker: a.stores.locks,
	})
	var providers []seatflow.PaymentProvider
	if cfg.Sandbox.Enabled {
		if a.sandbox, err = payment.NewSandbox(payment.SandboxOptions{Secret: derive(a.stores.folder.secret, "sandbox"), Log: a.log}); err != nil {
			return err
		}
		a.sandbox.SetCallback(a.url + "/api/v1/payments/" + payment.SandboxName + "/callback")
		providers = append(providers, a.sandbox)
	}
	a.payments = payment.New(payment.Options{Booking: a.booking, Ledger: a.ledger, Providers: providers, Log: a.log})
	a.guardian = guardian.New(guardian.Options{
		Seats: a.seats, Booking: a.booking, Interval: config.Ms(cfg.Guardian.IntervalMs), Batch: cfg.Guardian.Batch, Log: a.log,
	})
	lamport := new(seatflow.Lamport)
	a.hub = live.New(live.Options{Seats: a.seats, Houses: a.catalog, Ensure: a.booking.EnsureView, Log: a.log, Node: a.node,
		Lamport: lamport, Feed: a.feed(), Replicas: !cfg.Embedded()})
	a.notices, a.rooms = notice.NewWatch(notice.Options{Bus: a.stores.bus, Orders: a.ledger, Log: a.log, Lamport: lamport})
	a.relay = relay.New(relay.Options{
		Seats: a.seats, Bus: a.stores.bus, Locker: a.stores.locks, Outbox: a.ledger,
		Shows: a.viewsOf, Ensure: a.booking.EnsureView, Hall: a.hallOf, Log: a.log, Metrics: a.metrics,
		Lamport: lamport,
	})
	a.reconcile = reconcile.New(reconcile.Options{
		Seats: a.seats, Ledger: a.ledger, Booking: a.booking, Houses: a.catalog, Locker: a.stores.locks,
		Interval: config.Seconds(cfg.Reconcile.IntervalSeconds), Grace: config.Seconds(cfg.GraceSeconds), Log: a.log, Metrics: a.metrics,
	})

	a.health.Register("ledger", a.ledger.Healthy)
	a.health.Register("seats", a.seatsHealthy)
	for name, probe := range a.soft() {
		a.health.RegisterSoft(name, probe)
	}
	a.gauges()

	streams, cancel := context.WithCancel(context.Background())
	a.streams = cancel
	handler, err := a.handler(streams, o.Version, strings.HasPrefix(public, "https://"))
	if err != nil {
		return err
	}
	a.server = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: config.Ms(cfg.HTTP.ReadHeaderMs),
		ReadTimeout:       config.Ms(cfg.HTTP.ReadMs),
		WriteTimeout:      config.Ms(cfg.HTTP.WriteMs),
		IdleTimeout:       config.Ms(cfg.HTTP.IdleMs),
		MaxHeaderBytes:    32 << 10, // a token is below 4 KB
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	a.server.RegisterOnShutdown(a.streams)
	return nil
}

// admission is the window on a user's orders, or nil when it is off.
func (a *App) admission() booking.Admission {
	cfg := a.cfg
	if cfg.Rates.OrdersPerUserPerMinute == 0 {
		return nil
	}
	return admission.New(admission.Options{Windows: a.stores.windows, OrdersPerMinute: cfg.Rates.OrdersPerUserPerMinute, Log: a.log, Metrics: a.metrics})
}

// feed is where the maps hear of changes: the store itself while no other node
// can change it, or while there is no bus that all nodes share.
func (a *App) feed() live.Feed {
	cfg := a.cfg
	if cfg.Bus == "embedded" {
		return live.StoreFeed(a.seats)
	}
	return live.BusFeed(a.stores.bus, a.log)
}

// viewsOf lists the shows of a partition that have a view now.
func (a *App) viewsOf(ctx context.Context, partition seatflow.Partition) ([]relay.Show, error) {
	var list []relay.Show
	err := a.eachView(ctx, func(h *seatflow.House) error {
		if h.Show.Partition == partition {
			list = append(list, relay.Show{ShowRef: h.Show.Ref(), Hall: h.Show.Hall})
		}
		return nil
	})
	return list, err
}

// hallOf returns a show's hall, 0 if it cannot be told.
func (a *App) hallOf(ctx context.Context, show seatflow.ShowID) seatflow.HallID {
	house, err := a.catalog.House(ctx, show)
	if err != nil {
		return 0
	}
	return house.Show.Hall
}

// nodeName tells this process from others.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

func (a *App) ledgerOptions() ledger.Options {
	return ledger.Options{
		Log: a.log, BatchMax: a.cfg.Commit.BatchOrders, BatchBytes: a.cfg.Commit.BatchBytes,
		QueueMax: a.cfg.Commit.QueueOrders, OnCommit: a.metrics.Commit,
	}
}

func (a *App) handler(streams context.Context, version string, https bool) (http.Handler, error) {
	cfg := a.cfg
	o := httpapi.Options{
		Booking: a.booking, Catalog: a.catalog, Plans: httpapi.SeatPlans(a.catalog.ImportPlan), Payments: a.payments,
		Live: httpapi.Hub(a.hub), Notices: a.rooms, Tokens: a.tokens,
		Log: a.log, Metrics: a.metrics, Health: a.health.Check, Verify: a.verify, Reconcile: a.reconcileNow, Pages: web.Handler(),
		Context: streams, Version: version, HTTPS: https,
		Guests: cfg.Guest.Enabled, GuestTTL: time.Duration(cfg.Guest.TokenHours) * time.Hour,
		GuestsPerMinute: cfg.HTTP.GuestsPerAddressPerMinute,
		BodyMaxBytes:    int64(cfg.HTTP.BodyMaxBytes), PlanMaxBytes: int64(cfg.HTTP.PlanMaxBytes),
		StreamsPerAddress: cfg.HTTP.EventsPerAddress,
	}
	if a.sandbox != nil {
		o.Sandbox = a.sandbox
	}
	return httpapi.New(o)
}

// reachable turns a listener's address into one that a client on this machine
// can dial.
func reachable(addr net.Addr) string {
	t, ok := addr.(*net.TCPAddr)
	if ok && t.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", fmt.Sprint(t.Port))
	}
	return addr.String()
}

// URL is where the server is reached from this machine.
func (a *App) URL() string { return a.url }

// Profiler is the profiler's base URL, or "".
func (a *App) Profiler() string {
	if a.profiler == nil {
		return ""
	}
	return "http://" + a.profiler.Addr().String() + "/debug/pprof/"
}

// AdminToken returns the first administrator's token on the first start on a
// data folder, and "" on every later one.
func (a *App) AdminToken() (string, error) {
	if !a.stores.folder.First {
		return "", nil
	}
	return a.Token("admin", seatflow.RoleAdmin, adminTokenTTL)
}

// Token makes a token.
func (a *App) Token(user seatflow.UserID, role seatflow.Role, ttl time.Duration) (string, error) {
	token, _, err := a.tokens.Mint(user, role, ttl)
	return token, err
}

// verify is what POST /api/v1/admin/verify runs.
func (a *App) verify(ctx context.Context, show seatflow.ShowID, acked io.Reader) (any, error) {
	var shows []seatflow.ShowID
	if show != 0 {
		shows = []seatflow.ShowID{show}
	}
	return verify.All(ctx, a.ledger, a.seats, shows, acked, verify.WithEnsure(a.booking.EnsureView)), nil
}

// ReconcileReport is what a round of the reconciler found and did.
type ReconcileReport = reconcile.Report

// reconcileNow is what POST /api/v1/admin/reconcile runs.
func (a *App) reconcileNow(ctx context.Context, show seatflow.ShowID, dryRun bool) (any, error) {
	return a.reconcile.Round(ctx, reconcile.RoundOptions{Show: show, DryRun: dryRun})
}

// Run serves until the context ends, then stops in order. A server runs once.
func (a *App) Run(ctx context.Context) error {
	if cfg := a.cfg; cfg.Embedded() {
		// Memory has forgotten them. Views that nodes share are there, or are
		// built on first use.
		if err := a.buildViews(ctx); err != nil {
			return err
		}
	}
	if err := a.stores.folder.announce(a.url); err != nil {
		return err
	}

	// Services outlive the context until accepted requests have ended.
	services, stopServices := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServices()
	group, failed := errgroup.WithContext(services)
	group.Go(func() error { return a.booking.Run(failed) })
	group.Go(func() error { return a.guardian.Run(failed) })
	group.Go(func() error { return a.payments.Run(failed) })
	group.Go(func() error { return a.hub.Run(failed) })
	group.Go(func() error { return a.notices.Run(failed) })
	group.Go(func() error { return a.relay.Run(failed) })
	group.Go(func() error { return a.reconcile.Run(failed) })
	group.Go(func() error { return a.housekeep(failed) })

	served := make(chan error, 1)
	go func() { served <- a.server.Serve(a.listener) }()
	if a.profiler != nil {
		go a.serveProfiler()
	}

	var err error
	select {
	case <-ctx.Done():
	case <-failed.Done():
		err = errors.New("a background service ended")
	case err = <-served:
		err = fmt.Errorf("serve: %w", err)
	}
	a.health.Drain()
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.Ms(a.cfg.HTTP.ShutdownMs))
	defer cancel()
	if serr := a.server.Shutdown(stopCtx); serr != nil {
		err = errors.Join(err, fmt.Errorf("stop: requests were still running after %d ms: %w", a.cfg.HTTP.ShutdownMs, serr), a.server.Close())
	}
	if a.sandbox != nil {
		a.sandbox.Close()
	}
	stopServices()
	err = errors.Join(err, group.Wait())
	if left := a.booking.SettleOwed(stopCtx); left > 0 {
		a.log.Warn("the view was not told everything; it is rebuilt at the next start", "left", left)
	}
	return err
}

// buildViews makes the views of the shows that are still given, so that the
// holds that a predecessor left keep their deadlines.
func (a *App) buildViews(ctx context.Context) error {
	built := 0
	err := a.eachView(ctx, func(h *seatflow.House) error {
		if err := a.booking.EnsureView(ctx, h.Show.ID); err != nil {
			return fmt.Errorf("build the view of show %d: %w", h.Show.ID, err)
		}
		built++
		return nil
	})
	if built > 0 {
		a.log.InfoContext(ctx, "views built from the ledger", "shows", built)
	}
	return err
}

// eachView calls f with every show whose view is expected now.
func (a *App) eachView(ctx context.Context, f func(*seatflow.House) error) error {
	since := time.Now().Add(-seatflow.ViewAfterEnd)
	for after := seatflow.ShowID(0); ; {
		shows, err := a.catalog.Shows(ctx, after, since, 100)
		if err != nil {
			return fmt.Errorf("list shows: %w", err)
		}
		if len(shows) == 0 {
			return nil
		}
		for _, h := range shows {
			if err := f(h); err != nil {
				return err
			}
			after = h.Show.ID
		}
	}
}

// housekeep drops order events that have waited too long for a bus.
func (a *App) housekeep(ctx context.Context) error {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		if err := a.trimOutbox(ctx, time.Now().Add(-outboxKept)); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "old order events could not be dropped; tried again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// trimOutbox drops the order events that are older than a time.
func (a *App) trimOutbox(ctx context.Context, before time.Time) error {
	for {
		events, err := a.ledger.Outbox(ctx, outboxBatch)
		if err != nil {
			return err
		}
		var old []int64
		for i := range events {
			if events[i].Event.At.Before(before) {
				old = append(old, events[i].ID)
			}
		}
		if len(old) == 0 {
			return nil
		}
		if err := a.ledger.OutboxDone(ctx, old); err != nil {
			return err
		}
	}
}

func (a *App) serveProfiler() {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	if err := s.Serve(a.profiler); err != nil && !errors.Is(err, net.ErrClosed) {
		a.log.Warn("profiler", "err", err)
	}
}

// Close frees everything that New opened, in reverse order.
func (a *App) Close() error {
	a.closeOnce.Do(func() {
		var errs []error
		a.streams()
		if a.server != nil {
			errs = append(errs, a.server.Close())
		}
		for _, l := range []net.Listener{a.listener, a.profiler} {
			if l == nil {
				continue
			}
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		if a.sandbox != nil {
			errs = append(errs, a.sandbox.Close())
		}
		if a.stores != nil {
			errs = append(errs, a.stores.close())
		}
		a.closeErr = errors.Join(errs...)
	})
	return a.closeErr
}
