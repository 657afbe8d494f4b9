package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/loadgen"
	"seatflow/internal/verify"
)

// Connections of the capacity runs, and of the mixed one.
const (
	few           = 64
	many          = 256
	browseClients = 450
	orderClients  = 50
)

// measured is one round.
type measured struct {
	null, orders  map[int]wrkRun // by connections
	nullHot, hot  wrkRun
	nullMap, read wrkRun
	half          loadgen.Result
	lone, commit  time.Duration
	browse, mixed wrkRun
	sizes         [3]int // bytes of the answers: order, conflict, map
	sold          int64  // seats in active orders when verified
	dropped       int    // seats by which wrk's count may differ: requests in flight at its ends
}

type bench struct {
	settings
	work   string
	rounds []*measured
	nets   []*netMeasured
	parts  []*part
}

func (b *bench) wants(name string) bool { return b.only == "" || b.only == name }

// most is how many orders a second there are seats for.
const most = 40_000

// round measures everything once on an empty data folder and ends with the
// verifier.
func (b *bench) round(ctx context.Context, n int) (err error) {
	data := filepath.Join(b.work, fmt.Sprintf("round-%d", n))
	defer os.RemoveAll(data)
	server, err := b.startServer(ctx, data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	h, err := b.build(ctx, server)
	if err != nil {
		return fmt.Errorf("build the houses: %w", err)
	}
	m := &measured{null: map[int]wrkRun{}, orders: map[int]wrkRun{}}
	if m.sizes, err = b.sizes(server, h); err != nil {
		return err
	}
	null, err := b.startNull(ctx, m.sizes[0], m.sizes[1], m.sizes[2])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, null.stop()) }()

	b.say("round %d of %d", n+1, b.settings.rounds)
	steps := []struct {
		name string
		run  func(context.Context, *process, *process, *house, *measured) error
	}{
		{"orders", b.capacity}, {"hot", b.hot}, {"map", b.maps}, {"half", b.half}, {"lone", b.loneStep}, {"mixed", b.mixed},
	}
	for _, s := range steps {
		if !b.wants(s.name) {
			continue
		}
		if err := s.run(ctx, server, null, h, m); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if err := b.verify(ctx, server, h, m); err != nil {
		return err
	}
	b.rounds = append(b.rounds, m)
	return nil
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// sizes asks the server for one of each answer: what the null handler sends.
func (b *bench) sizes(p *process, h *house) (sizes [3]int, err error) {
	tokens, err := os.ReadFile(h.tokens)
	if err != nil {
		return sizes, err
	}
	token, _, _ := strings.Cut(string(tokens), "\n")
	ask := func(method, path, key, body string, status int) (int, error) {
		req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != status {
			err = fmt.Errorf("%s %s: %s instead of %d", method, path, resp.Status, status)
		}
		return int(n), err
	}
	// The very seat that the hot run asks for, so that all of its are conflicts.
	body := fmt.Sprintf(`{"showId":%d,"seats":[1]}`, h.theatre)
	var errs [3]error
	sizes[0], errs[0] = ask("POST", "/api/v1/orders", "bench-first", body, http.StatusCreated)
	sizes[1], errs[1] = ask("POST", "/api/v1/orders", "bench-second", body, http.StatusConflict)
	sizes[2], errs[2] = ask("GET", mapPath(h.theatre), "", "", http.StatusOK)
	return sizes, errors.Join(errs[:]...)
}

func mapPath(show seatflow.ShowID) string {
	return fmt.Sprintf("/api/v1/shows/%d/seats?form=compact", show)
}

// capacity measures durable orders a second, each for another seat.
func (b *bench) capacity(ctx context.Context, server, null *process, h *house, m *measured) (err error) {
	for _, c := range []int{few, many} {
		r := orderRun{path: "/order", connections: c, seconds: b.seconds, shows: h.stadiums, per: stadiumSeats, name: fmt.Sprint("null-", c)}
		if m.null[c], err = b.orders(ctx, null, h, r); err != nil {
			return err
		}
		r.path, r.name, r.first = "/api/v1/orders", fmt.Sprint("orders-", c), h.take(b.seconds*most)
		profiled := b.profileCPU(server, fmt.Sprint("orders-", c))
		m.orders[c], err = b.orders(ctx, server, h, r)
		profiled()
		if err != nil {
			return err
		}
		if refused := m.orders[c].Refused; refused > 0 {
			return fmt.Errorf("%d of %d orders for distinct seats were refused", refused, m.orders[c].Requests)
		}
		m.sold += m.orders[c].Requests
		m.dropped += c
		b.say("  orders, %d connections: %.0f/s of the null handler's %.0f/s = %.3f", c, m.orders[c].rate(), m.null[c].rate(), m.orders[c].rate()/m.null[c].rate())
	}
	return nil
}

// hot measures conflicts a second: everybody wants the seat that is taken.
func (b *bench) hot(ctx context.Context, server, null *process, h *house, m *measured) (err error) {
	r := orderRun{path: "/conflict", connections: many, seconds: b.seconds, shows: []seatflow.ShowID{h.theatre}, per: 1, one: true, name: "hot"}
	if m.nullHot, err = b.orders(ctx, null, h, r); err != nil {
		return err
	}
	r.path = "/api/v1/orders"
	profiled := b.profileCPU(server, "hot")
	m.hot, err = b.orders(ctx, server, h, r)
	profiled()
	if err != nil {
		return err
	}
	if m.hot.Refused != m.hot.Requests {
		return fmt.Errorf("%d of %d orders for a taken seat were not refused", m.hot.Requests-m.hot.Refused, m.hot.Requests)
	}
	b.say("  hot seat: %.0f/s of %.0f/s = %.3f", m.hot.rate(), m.nullHot.rate(), m.hot.rate()/m.nullHot.rate())
	return nil
}

// maps measures reads of a seat map.
func (b *bench) maps(ctx context.Context, server, null *process, h *house, m *measured) (err error) {
	if m.nullMap, err = wrk(ctx, "reads.lua", null, threads, many, b.seconds, "paths=/map"); err != nil {
		return err
	}
	profiled := b.profileCPU(server, "map")
	m.read, err = wrk(ctx, "reads.lua", server, threads, many, b.seconds, "paths="+mapPath(h.theatre))
	profiled()
	if err == nil && m.nullMap.Refused+m.read.Refused > 0 {
		err = fmt.Errorf("%d reads were refused", m.nullMap.Refused+m.read.Refused)
	}
	b.say("  seat map: %.0f/s of %.0f/s = %.3f", m.read.rate(), m.nullMap.rate(), m.read.rate()/m.nullMap.rate())
	return err
}

// half measures the latency of orders at half of the capacity.
func (b *bench) half(ctx context.Context, server, _ *process, h *house, m *measured) error {
	rate := m.orders[many].rate() / 2
	if b.only == "half" {
		rate = 6000
	}
	shows := make([]string, len(h.steady))
	for i, id := range h.steady {
		shows[i] = fmt.Sprint(id)
	}
	out, err := exec.CommandContext(ctx, filepath.Join(b.work, "seatflow"), "load", "--data", server.data, "--show", strings.Join(shows, ","),
		"--rate", fmt.Sprint(int(rate)), "--duration", fmt.Sprintf("%ds", b.seconds), "--warmup", "1s", "--connections", fmt.Sprint(many),
		"--output", "json").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("seatflow load: %w: %s%s", err, out, exit.Stderr)
	}
	if err != nil {
		return err
	}
	var r struct {
		Load   loadgen.Result `json:"load"`
		Verify verify.Report  `json:"verify"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return fmt.Errorf("seatflow load: %w", err)
	}
	if r.Load.OK != r.Load.Sent || !r.Verify.OK() {
		return fmt.Errorf("seatflow load: %d of %d orders went well: %s", r.Load.OK, r.Load.Sent, out)
	}
	m.half = r.Load
	m.sold += r.Load.Orders
	l := r.Load.Latency["order"]
	b.say("  orders at %.0f/s: p50 %.2f ms, p99 %.2f ms, %d late", r.Load.Rate, l.P50, l.P99, r.Load.Missed)
	return nil
}

func (b *bench) loneStep(ctx context.Context, server, _ *process, h *house, m *measured) (err error) {
	n := 500
	if b.smoke {
		n = 50
	}
	m.lone, m.commit, err = b.lone(ctx, server, h, server.data, n)
	m.sold += int64(n)
	if err == nil {
		b.say("  a lone order: %v, a plain commit %v = %.2f", m.lone, m.commit, float64(m.lone)/float64(m.commit))
	}
	return err
}

// mixed measures browsing and ordering side by side on the same shows.
func (b *bench) mixed(ctx context.Context, server, _ *process, h *house, m *measured) error {
	paths := []string{"/api/v1/shows"}
	for _, id := range h.arenas {
		paths = append(paths, mapPath(id), fmt.Sprintf("/api/v1/shows/%d", id))
	}
	profiled := b.profileCPU(server, "mixed")
	browsed := make(chan error, 1)
	go func() {
		var err error
		m.browse, err = wrk(ctx, "reads.lua", server, 1, browseClients, b.seconds, "paths="+strings.Join(paths, ","))
		browsed <- err
	}()
	r := orderRun{path: "/api/v1/orders", connections: orderClients, threads: 1, seconds: b.seconds, shows: h.arenas, per: arenaSeats, across: true, name: "mixed"}
	var err error
	m.mixed, err = b.orders(ctx, server, h, r)
	err = errors.Join(err, <-browsed)
	profiled()
	if err != nil {
		return err
	}
	if m.browse.Refused+m.mixed.Refused > 0 {
		return fmt.Errorf("%d reads and %d orders were refused", m.browse.Refused, m.mixed.Refused)
	}
	m.sold += m.mixed.Requests
	m.dropped += orderClients
	b.say("  mixed: %.0f reads/s, %.0f orders/s, p99 of orders %.1f ms", m.browse.rate(), m.mixed.rate(), float64(m.mixed.P99)/1000)
	return nil
}

// verify has the server verify itself and counts its seats against wrk's: wrk
// hangs up on what is in flight when its time is over, so the server may have
// some orders more, and never one less.
func (b *bench) verify(ctx context.Context, server *process, h *house, m *measured) error {
	report, err := verify.Remote(ctx, &http.Client{Timeout: 10 * time.Minute}, server.url, h.admin, 0, nil)
	if err != nil {
		return err
	}
	if !report.OK() {
		_ = report.Write(os.Stderr)
		return fmt.Errorf("%d violations", report.Violations())
	}
	m.sold++ // the one that the answers' sizes were measured by
	got := report.Checks[0].Counts["active seats"]
	if got < m.sold || got > m.sold+int64(m.dropped) {
		return fmt.Errorf("%d seats are in active orders, %d were acknowledged and %d cut off", got, m.sold, m.dropped)
	}
	m.sold = got
	b.say("  verified: %d seats in active orders", got)
	return nil
}
