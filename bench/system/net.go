package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"seatflow"
	"seatflow/bench/outside"
	"seatflow/internal/app"
	"seatflow/internal/loadgen"
	"seatflow/internal/seatplan"
	"seatflow/internal/testkit"
	"seatflow/internal/verify"
)

// netMeasured is one round of the distributed mode: a node, Redis, MariaDB,
// NATS and the load generator share the cores.
type netMeasured struct {
	null          wrkRun
	plain, orders wrkRun
	plainHot, hot wrkRun
	plainHalf     wrkRun // few connections, for the latency below saturation
	half          wrkRun
	caughtUp      time.Duration // from the end of the load until nothing waited for the bus
	sold          int64
}

// netName is this measurement's.
const netName = "distributed"

// netMost is how many orders a second there are seats for.
const netMost = 20_000

// stage is the servers of the distributed mode.
type stage struct {
	tb    *outside.TB
	maria *testkit.MariaDB
}

// net measures the distributed mode beside the plain design.
func (b *bench) net(ctx context.Context) (err error) {
	s := &stage{tb: &outside.TB{}}
	defer s.tb.End()
	if err := outside.Attempt(func() {
		s.maria = testkit.StartMariaDB(s.tb, testkit.MariaDBOptions{Args: []string{"--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M"}})
	}); err != nil {
		return err
	}
	for n := range b.settings.rounds {
		b.say("distributed, round %d of %d", n+1, b.settings.rounds)
		m := &netMeasured{}
		if err := b.netPlain(ctx, s, n, m); err != nil {
			return fmt.Errorf("plain design: %w", err)
		}
		if err := b.netOurs(ctx, s, n, m); err != nil {
			return fmt.Errorf("distributed mode: %w", err)
		}
		b.say("  orders %.0f/s of the plain design's %.0f/s = %.2f, p99 %.1f of %.1f ms; hot seat %.0f/s of %.0f/s = %.2f; caught up after %v",
			m.orders.rate(), m.plain.rate(), ratio(m.orders.rate(), m.plain.rate()), float64(m.orders.P99)/1e3, float64(m.plain.P99)/1e3,
			m.hot.rate(), m.plainHot.rate(), ratio(m.hot.rate(), m.plainHot.rate()), m.caughtUp.Round(time.Millisecond))
		b.nets = append(b.nets, m)
	}
	return nil
}

func (s *stage) fresh() (redis *testkit.Redis, database string, err error) {
	err = outside.Attempt(func() {
		redis = testkit.StartRedis(s.tb, testkit.RedisOptions{Args: []string{"--maxmemory-policy", "noeviction"}})
		database = s.maria.NewDatabase(s.tb)
	})
	return redis, database, err
}

// netRun is one run of wrk over seats of which nobody has asked for any yet.
func (b *bench) netRun(ctx context.Context, p *process, h *house, name string, connections int, shows []seatflow.ShowID) (wrkRun, error) {
	r, err := b.orders(ctx, p, h, orderRun{path: "/api/v1/orders", connections: connections, seconds: b.seconds, shows: shows,
		per: stadiumSeats, first: h.take(b.seconds * netMost), name: name})
	if err == nil && r.Refused > 0 {
		err = fmt.Errorf("%s: %d of %d orders for distinct seats were refused", name, r.Refused, r.Requests)
	}
	return r, err
}

func (b *bench) netHot(ctx context.Context, p *process, h *house, show seatflow.ShowID) (wrkRun, error) {
	r, err := b.orders(ctx, p, h, orderRun{path: "/api/v1/orders", connections: many, seconds: b.seconds,
		shows: []seatflow.ShowID{show}, per: 1, one: true, name: "hot"})
	if err == nil && r.Requests-r.Refused > 1 {
		err = fmt.Errorf("%d orders for one seat were not refused", r.Requests-r.Refused)
	}
	return r, err
}

// netShows is how many stadiums two runs at full speed may fill.
func (b *bench) netShows() int { return 2*b.seconds*netMost/stadiumSeats + 2 }

func (b *bench) netPlain(ctx context.Context, s *stage, n int, m *netMeasured) (err error) {
	redis, database, err := s.fresh()
	if err != nil {
		return err
	}
	defer redis.Stop()
	h := &house{tokens: filepath.Join(b.work, fmt.Sprintf("plain-%d.txt", n))}
	p, err := spawn(ctx, func(p *process, line string) bool {
		p.url = strings.TrimSpace(line)
		return strings.HasPrefix(p.url, "http://")
	}, filepath.Join(b.work, "plain"), "--redis", redis.Addr(), "--mysql", database, "--rate", "100000000",
		"--shows", strconv.Itoa(b.netShows()+1), "--seats", strconv.Itoa(stadiumSeats), "--tokens", h.tokens, "--buyers", strconv.Itoa(buyers))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	shows := make([]seatflow.ShowID, b.netShows())
	for i := range shows {
		shows[i] = seatflow.ShowID(i + 1)
	}
	if m.plain, err = b.netRun(ctx, p, h, "plain", many, shows); err != nil {
		return err
	}
	if m.plainHalf, err = b.netRun(ctx, p, h, "plain-few", 16, shows); err != nil {
		return err
	}
	m.plainHot, err = b.netHot(ctx, p, h, seatflow.ShowID(b.netShows()+1))
	return err
}

func (b *bench) netOurs(ctx context.Context, s *stage, n int, m *netMeasured) (err error) {
	redis, database, err := s.fresh()
	if err != nil {
		return err
	}
	defer redis.Stop()
	var bus *testkit.NATS
	if err := outside.Attempt(func() { bus = testkit.StartNATS(s.tb, testkit.NATSOptions{Nodes: 1}) }); err != nil {
		return err
	}
	defer bus.Kill(0)
	data := filepath.Join(b.work, fmt.Sprintf("net-%d", n))
	defer os.RemoveAll(data)
	p, err := b.startServer(ctx, data, "--seats", redis.URL(), "--ledger", database, "--bus", bus.URL(), "--locks", redis.URL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	h, hot, err := b.netBuild(ctx, p)
	if err != nil {
		return fmt.Errorf("build the houses: %w", err)
	}
	sizes, err := b.sizes(p, &house{tokens: h.tokens, theatre: hot})
	if err != nil {
		return err
	}
	null, err := b.startNull(ctx, sizes[0], sizes[1], sizes[2])
	if err != nil {
		return err
	}
	m.null, err = b.orders(ctx, null, h, orderRun{path: "/order", connections: many, seconds: b.seconds, shows: h.stadiums, per: stadiumSeats, name: "null"})
	if err := errors.Join(err, null.stop()); err != nil {
		return err
	}
	profiled := b.profileCPU(p, "net-orders")
	m.orders, err = b.netRun(ctx, p, h, "orders", many, h.stadiums)
	profiled()
	if err != nil {
		return err
	}
	ended := time.Now()
	d, err := app.OpenDeployment(ctx, database, redis.URL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := caughtUp(ctx, p, d); err != nil {
		return err
	}
	m.caughtUp = time.Since(ended)
	if m.half, err = b.netRun(ctx, p, h, "orders-few", 16, h.stadiums); err != nil {
		return err
	}
	if m.hot, err = b.netHot(ctx, p, h, hot); err != nil {
		return err
	}
	if err := caughtUp(ctx, p, d); err != nil {
		return err
	}
	report := verify.All(ctx, d.Ledger, d.Seats, nil, nil)
	if !report.OK() {
		_ = report.Write(os.Stderr)
		return errors.New("the verifier found violations")
	}
	m.sold = m.orders.Requests + m.half.Requests
	return nil
}

// netBuild opens stadiums to order from and one show for the hot seat.
func (b *bench) netBuild(ctx context.Context, p *process) (*house, seatflow.ShowID, error) {
	h := &house{tokens: filepath.Join(p.data, "tokens.txt")}
	var err error
	if h.admin, err = app.MintToken(p.data, "bench", seatflow.RoleAdmin, 4*time.Hour); err != nil {
		return nil, 0, err
	}
	var tokens strings.Builder
	for i := range buyers {
		t, err := app.MintToken(p.data, seatflow.UserID(fmt.Sprintf("buyer-%03d", i)), seatflow.RoleBuyer, 4*time.Hour)
		if err != nil {
			return nil, 0, err
		}
		tokens.WriteString(t + "\n")
	}
	if err := os.WriteFile(h.tokens, []byte(tokens.String()), 0o600); err != nil {
		return nil, 0, err
	}
	c, err := loadgen.NewClient(p.url, 2)
	if err != nil {
		return nil, 0, err
	}
	defer c.Close()
	plan, err := seatplan.Generate(seatplan.GenerateOptions{Stadium: true, Capacity: stadiumSeats}).JSON()
	if err != nil {
		return nil, 0, err
	}
	all, err := loadgen.OpenShows(ctx, c, h.admin, "Stadium", plan, b.netShows()+1)
	if err != nil {
		return nil, 0, err
	}
	for _, id := range all {
		resp, err := c.HTTP().Get(p.url + mapPath(id))
		if err != nil {
			return nil, 0, err
		}
		resp.Body.Close()
	}
	h.stadiums = all[:b.netShows()]
	return h, all[b.netShows()], nil
}

var pendingChanges = regexp.MustCompile(`(?m)^seatflow_relay_pending_changes (\S+)$`)

// caughtUp waits until nothing waits for the bus: no change that the relay
// has read, and no event in the outbox.
func caughtUp(ctx context.Context, p *process, d *app.Deployment) error {
	for range 3000 {
		rows, err := d.Ledger.Outbox(ctx, 1)
		if err != nil {
			return err
		}
		resp, err := http.Get(p.url + "/metrics")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return err
		}
		if found := pendingChanges.FindStringSubmatch(string(text)); len(rows) == 0 && found != nil && found[1] == "0" {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("the relay does not catch up within a minute")
}
