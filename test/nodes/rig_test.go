package nodes_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/app"
	"seatflow/internal/seatplan"
	"seatflow/internal/testkit"
	"seatflow/internal/verify"
)

// Limits that only a hang reaches.
const (
	startLimit    = time.Minute
	callLimit     = 30 * time.Second // of one try; the server ends it before
	convergeLimit = 45 * time.Second // grace, leases and rounds of this rig take a few seconds each
	finalLimit    = 2 * time.Minute  // until a caller has its final answer
)

// deployment is the servers that nodes stand on. A test may put proxies in
// between by changing the addresses before it starts nodes.
type deployment struct {
	t      testing.TB
	redis  *testkit.Redis
	maria  *testkit.MariaDB
	nats   *testkit.NATS
	secret string // file

	seats, ledger, bus, locks string // what nodes are told
	factsURL, viewURL         string // without proxies, for the verifier
	nodes                     []*node
	client                    *http.Client
	acked                     ackLog
}

// deploy starts servers of this test's own.
func deploy(t testing.TB, redis testkit.RedisOptions) *deployment {
	t.Helper()
	d := &deployment{t: t,
		redis: testkit.StartRedis(t, redis), maria: testkit.SharedMariaDB(t), nats: testkit.StartNATS(t, testkit.NATSOptions{Nodes: 1})}
	d.factsURL, d.viewURL = d.maria.NewDatabase(t), d.redis.URL()
	d.seats, d.ledger, d.bus, d.locks = d.viewURL, d.factsURL, d.nats.URL(), d.viewURL
	d.secret = filepath.Join(t.TempDir(), "secret.key")
	if err := os.WriteFile(d.secret, []byte(strings.Repeat("5ea7f10e", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	d.client = &http.Client{Transport: transport, Timeout: callLimit}
	t.Cleanup(transport.CloseIdleConnections)
	return d
}

// node is one process of the binary. It keeps its address when it is started
// again.
type node struct {
	d    *deployment
	name string
	dir  string
	args []string

	mu  sync.Mutex
	cmd *exec.Cmd
	url string
	log bytes.Buffer
}

// start starts nodes and waits until each is ready.
func (d *deployment) start(n int, args ...string) {
	d.t.Helper()
	for range n {
		nd := &node{d: d, name: fmt.Sprintf("node-%d", len(d.nodes)), dir: filepath.Join(d.t.TempDir(), "data"), args: args}
		d.nodes = append(d.nodes, nd)
		d.t.Cleanup(nd.stop)
		nd.start()
	}
	for _, nd := range d.nodes {
		nd.ready()
	}
}

func (n *node) start() {
	n.d.t.Helper()
	listen := "127.0.0.1:0"
	if n.url != "" {
		listen = strings.TrimPrefix(n.url, "http://")
	}
	cmd := exec.Command(binary, append([]string{"serve", "--listen", listen, "--data", n.dir, "--node", n.name,
		"--guardian-interval-ms", "100", "--grace-seconds", "2", "--reconcile-interval-seconds", "1", "--http-guests-per-address-per-minute", "1000000",
		"--rates-orders-per-user-per-minute", "1000000", "--rates-orders-per-show-per-second", "1000000"}, n.args...)...)
	cmd.Env = append(os.Environ(), "SEATFLOW_SEATS="+n.d.seats, "SEATFLOW_LEDGER="+n.d.ledger, "SEATFLOW_BUS="+n.d.bus,
		"SEATFLOW_LOCKS="+n.d.locks, "SEATFLOW_SECRET_FILE="+n.d.secret)
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.d.t.Fatal(err)
	}
	n.log.Reset()
	cmd.Stderr = &n.log
	if err := cmd.Start(); err != nil {
		n.d.t.Fatal(err)
	}
	n.mu.Lock()
	n.cmd = cmd
	n.mu.Unlock()
	lines, url := bufio.NewScanner(out), ""
	for url == "" && lines.Scan() {
		if word, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), " "); word == "shows" {
			url = strings.TrimSuffix(strings.TrimSpace(value), "/")
		}
	}
	if n.url == "" { // started again it listens where it did, and callers read this
		n.url = url
	}
	if url == "" {
		_ = cmd.Wait()
		n.d.t.Fatalf("%s did not start: %s", n.name, n.log.String())
	}
	go io.Copy(io.Discard, out)
}

// ready waits until the node takes requests.
func (n *node) ready() {
	n.d.t.Helper()
	waitFor(n.d.t, n.name+" to be ready", startLimit, func() bool {
		resp, err := n.d.client.Get(n.url + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (n *node) signal(s syscall.Signal) *exec.Cmd {
	n.mu.Lock()
	defer n.mu.Unlock()
	cmd := n.cmd
	if cmd != nil && cmd.Process != nil {
		_ = cmd.Process.Signal(s)
	}
	return cmd
}

// kill is kill -9.
func (n *node) kill() {
	if cmd := n.signal(syscall.SIGKILL); cmd != nil {
		_ = cmd.Wait()
	}
	n.mu.Lock()
	n.cmd = nil
	n.mu.Unlock()
}

// stop is SIGTERM; a node that does not end by itself fails the test.
func (n *node) stop() {
	cmd := n.signal(syscall.SIGTERM)
	if cmd == nil {
		return
	}
	hung := time.AfterFunc(startLimit, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	hung.Stop()
	n.mu.Lock()
	n.cmd = nil
	n.mu.Unlock()
	if err != nil || n.d.t.Failed() {
		log := n.log.String()
		n.d.t.Logf("%s ended: %v\n%s", n.name, err, log[max(0, len(log)-4000):])
	}
	if err != nil {
		n.d.t.Errorf("%s did not stop in order: %v", n.name, err)
	}
}

// waitFor asks until something is so: it happens in other processes, where
// there is no signal to wait for.
func waitFor(t testing.TB, what string, limit time.Duration, so func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(limit)
	defer end.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("waited %v for %s", limit, what)
		}
	}
}

// pause waits in real time: for load to run while nothing else happens.
func pause(d time.Duration) { <-time.After(d) }

func (d *deployment) token(user string, role seatflow.Role) string {
	d.t.Helper()
	token, err := app.MintToken(d.nodes[0].dir, seatflow.UserID(user), role, time.Hour)
	if err != nil {
		d.t.Fatal(err)
	}
	return token
}

type answer struct {
	status   int
	code     int
	replayed bool
	retry    string
	body     []byte
}

// try sends one request to a node.
func (d *deployment) try(ctx context.Context, base, token, method, path, key string, body any) (answer, error) {
	var r io.Reader
	if b, ok := body.([]byte); ok {
		r = bytes.NewReader(b)
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, r)
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, replayed: resp.Header.Get("Idempotency-Replayed") == "true", retry: resp.Header.Get("Retry-After")}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return answer{}, err
	}
	if a.status >= 400 {
		var p struct {
			Code int `json:"code"`
		}
		_ = json.Unmarshal(a.body, &p)
		a.code = p.Code
	}
	return a, nil
}

// must sends a request as an administrator to the first node.
func (d *deployment) must(status int, method, path string, body, into any) {
	d.t.Helper()
	a, err := d.try(context.Background(), d.nodes[0].url, d.token("admin", seatflow.RoleAdmin), method, path, "", body)
	if err != nil || a.status != status {
		d.t.Fatalf("%s %s: %d %s %v", method, path, a.status, a.body, err)
	}
	if into != nil {
		if err := json.Unmarshal(a.body, into); err != nil {
			d.t.Fatal(err)
		}
	}
}

// openShow opens a show of rows × seats without a limit per user.
func (d *deployment) openShow(rows, seats int, extra map[string]any) int {
	d.t.Helper()
	var hall struct {
		ID int `json:"id"`
	}
	d.must(201, "POST", "/api/v1/admin/halls", map[string]any{"name": "Hall", "zone": "Europe/Berlin"}, &hall)
	doc, err := seatplan.Generate(seatplan.GenerateOptions{Name: "Plan", Rows: rows, Seats: seats}).JSON()
	if err != nil {
		d.t.Fatal(err)
	}
	d.must(201, "POST", fmt.Sprintf("/api/v1/admin/halls/%d/plans", hall.ID), doc, nil)
	var plan struct {
		Categories []struct {
			Name string `json:"name"`
		} `json:"categories"`
	}
	d.must(200, "GET", fmt.Sprintf("/api/v1/admin/halls/%d/plans/1", hall.ID), nil, &plan)
	prices := map[string]int{}
	for _, c := range plan.Categories {
		prices[c.Name] = 1000
	}
	return d.addShow(hall.ID, prices, extra)
}

// addShow opens a show in a hall that has a plan.
func (d *deployment) addShow(hall int, prices map[string]int, extra map[string]any) int {
	d.t.Helper()
	now := time.Now().UTC()
	show := map[string]any{"hallId": hall, "planVersion": 1, "title": "Show", "starts": now.Add(24 * time.Hour).Format(time.RFC3339),
		"ends": now.Add(26 * time.Hour).Format(time.RFC3339), "saleFrom": now.Add(-time.Hour).Format(time.RFC3339),
		"saleUntil": now.Add(24 * time.Hour).Format(time.RFC3339), "currency": "EUR", "prices": prices}
	for k, v := range extra {
		show[k] = v
	}
	var made struct {
		ID int `json:"id"`
	}
	d.must(201, "POST", "/api/v1/admin/shows", show, &made)
	return made.ID
}

// ackLog is what was acknowledged, as verify reads it.
type ackLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
	n   int
}

func (l *ackLog) add(op string, order order) {
	line, err := json.Marshal(map[string]any{"at": time.Now().UTC().Format(time.RFC3339Nano), "op": op, "no": order.No,
		"showId": order.ShowID, "userId": order.UserID, "seats": order.ids(), "state": order.State})
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(append(line, '\n'))
	l.n++
}

type order struct {
	No     string `json:"no"`
	ShowID int    `json:"showId"`
	UserID string `json:"userId"`
	State  string `json:"state"`
	Seats  []struct {
		SeatID int `json:"seatId"`
	} `json:"seats"`
}

func (o order) ids() []int {
	ids := []int{}
	for _, s := range o.Seats {
		ids = append(ids, s.SeatID)
	}
	return ids
}

// final sends an order with a key to one node after another until an answer
// is final: anything but a lost connection, a server's fault, "in flight" or a
// rate. tries counts what was sent.
func (d *deployment) final(ctx context.Context, token, key string, show int, seats []int, tries *atomic.Int64) (answer, error) {
	body, err := json.Marshal(map[string]any{"showId": show, "seats": seats})
	if err != nil {
		return answer{}, err
	}
	end := time.Now().Add(finalLimit)
	for {
		if tries != nil {
			tries.Add(1)
		}
		a, err := d.try(ctx, d.nodes[rand.IntN(len(d.nodes))].url, token, "POST", "/api/v1/orders", key, body)
		if err == nil && a.status < 500 && a.code != int(seatflow.CodeInFlight) && a.code != int(seatflow.CodeRateLimited) {
			if a.status == 201 {
				var o order
				if err := json.Unmarshal(a.body, &o); err != nil {
					return a, err
				}
				d.acked.add("order", o)
			}
			return a, nil
		}
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		if time.Now().After(end) {
			return a, fmt.Errorf("no final answer within %v: %d %s %w", finalLimit, a.status, a.body, errors.Join(err))
		}
		pause(time.Duration(20+rand.IntN(80)) * time.Millisecond)
	}
}

// tally counts final answers.
type tally struct {
	mu     sync.Mutex
	orders map[string]int // orders by number: how many callers were given each
	codes  map[int]int
	other  []string
}

func newTally() *tally { return &tally{orders: map[string]int{}, codes: map[int]int{}} }

func (y *tally) add(a answer, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	switch {
	case err != nil:
		y.other = append(y.other, err.Error())
	case a.status == 201:
		var o order
		_ = json.Unmarshal(a.body, &o)
		y.orders[o.No]++
	case a.code != 0:
		y.codes[a.code]++
	default:
		y.other = append(y.other, fmt.Sprintf("%d %.200s", a.status, a.body))
	}
}

// callers has n callers, each with a user and key of its own, want seats at
// once, and returns their final answers. during runs meanwhile.
func (d *deployment) callers(n, show int, seats func(i int) []int, during func()) *tally {
	d.t.Helper()
	y := newTally()
	tokens := make([]string, n)
	for i := range tokens {
		tokens[i] = d.token(fmt.Sprintf("user-%d-%d", show, i), seatflow.RoleBuyer)
	}
	var group sync.WaitGroup
	go_ := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-go_
			y.add(d.final(context.Background(), tokens[i], fmt.Sprintf("key-%d", i), show, seats(i), nil))
		})
	}
	close(go_)
	if during != nil {
		during()
	}
	group.Wait()
	return y
}

func (y *tally) want(t testing.TB, orders, conflicts int) {
	t.Helper()
	for no, n := range y.orders {
		if n != 1 {
			t.Errorf("order %s was given to %d callers", no, n)
		}
	}
	if len(y.orders) != orders || y.codes[int(seatflow.CodeSeatsTaken)] != conflicts || len(y.codes) > 1 || len(y.other) > 0 {
		t.Fatalf("%d orders, codes %v, other %.600v; want exactly %d orders and %d conflicts", len(y.orders), y.codes, y.other, orders, conflicts)
	}
}

// check holds the facts, the view and everything that was acknowledged against
// each other, directly on the stores. Traffic has stopped.
func (d *deployment) check(shows ...int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dep, err := app.OpenDeployment(ctx, d.factsURL, d.viewURL)
	if err != nil {
		d.t.Fatal(err)
	}
	defer dep.Close()
	ids := make([]seatflow.ShowID, len(shows))
	for i, s := range shows {
		ids[i] = seatflow.ShowID(s)
	}
	d.acked.mu.Lock()
	acked := bytes.Clone(d.acked.buf.Bytes())
	d.acked.mu.Unlock()
	var report verify.Report
	converge := time.Now().Add(convergeLimit)
	for {
		report = verify.All(ctx, dep.Ledger, dep.Seats, ids, bytes.NewReader(acked), verify.WithEnsure(d.ensure))
		if report.OK() || time.Now().After(converge) {
			break
		}
		pause(time.Second) // what was interrupted is settled once it is older than the grace time
	}
	if !report.OK() {
		var text strings.Builder
		_ = report.Write(&text)
		d.t.Errorf("violations:\n%s", text.String())
	}
}

// ensure has a node build a view that is missing, as its next buyer would.
func (d *deployment) ensure(_ context.Context, show seatflow.ShowID) error {
	d.must(200, "GET", fmt.Sprintf("/api/v1/shows/%d/seats?form=compact", show), nil, nil)
	return nil
}
