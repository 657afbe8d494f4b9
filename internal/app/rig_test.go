package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/app"
	"seatflow/internal/config"
	"seatflow/internal/seatplan"
)

func TestMain(m *testing.M) {
	if point := os.Getenv(crashVariable); point != "" {
		os.Exit(crashServer(point)) // this process is the server that a test kills
	}
	goleak.VerifyTestMain(m)
}

// server is a running server and a client of it.
type server struct {
	t         *testing.T
	app       *app.App // nil for another process
	base      string   // URL
	secretDir string   // of another process: to make tokens
	admin     string
	stop      context.CancelFunc
	done      chan error
	http      *http.Client
}

func testConfig(dir string) config.Config {
	cfg := config.Defaults()
	cfg.Listen, cfg.Data = "127.0.0.1:0", dir
	cfg.Guardian.IntervalMs = 20
	cfg.HTTP.GuestsPerAddressPerMinute = 1_000_000
	cfg.Rates = config.Rates{OrdersPerUserPerMinute: 1_000_000, OrdersPerShowPerSecond: 1_000_000} // else they are what is measured
	return cfg
}

func startServer(t *testing.T, cfg config.Config, o app.Options) *server {
	t.Helper()
	a, err := app.New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, app: a, base: a.URL(), done: make(chan error, 1),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}, Timeout: time.Minute}}
	if s.admin, err = a.Token("admin", seatflow.RoleAdmin, time.Hour); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.done <- a.Run(ctx) }()
	t.Cleanup(func() { s.close() })
	s.waitReady()
	return s
}

// waitReady asks until the server says that it is ready.
func (s *server) waitReady() {
	s.t.Helper()
	s.waitFor("the server to be ready", func() bool {
		a, err := s.try("", "GET", "/readyz", "", nil)
		return err == nil && a.status == 200
	})
}

// waitFor asks until something is so. It is for what happens in another
// process or in real time, where there is no signal to wait for.
func (s *server) waitFor(what string, so func() bool) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-limit.C:
			s.t.Fatalf("waited a minute for %s", what)
		}
	}
}

// close stops the server in order; it may be called twice.
func (s *server) close() {
	s.t.Helper()
	if s.stop == nil {
		return
	}
	s.http.CloseIdleConnections() // a server waits for connections that have not sent anything yet
	s.stop()
	s.stop = nil
	if err := <-s.done; err != nil {
		s.t.Errorf("run: %v", err)
	}
	if err := s.app.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
	s.http.CloseIdleConnections()
}

// answer is a response whose body has been read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// into decodes the body, known members only.
func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("status %d: %v in %.300s", a.status, err, a.body)
	}
}

type problem struct {
	Code      int   `json:"code"`
	Seats     []int `json:"seats"`
	Available []int `json:"available"`
}

func (s *server) call(token, method, path, key string, body any) answer {
	s.t.Helper()
	a, err := s.try(token, method, path, key, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *server) try(token, method, path, key string, body any) (answer, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		r = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return answer{}, err
		}
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, s.base+path, r)
	if err != nil {
		return answer{}, err
	}
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, text}, err
}

// mustJSON calls and expects a status.
func (s *server) must(status int, token, method, path string, body any) answer {
	s.t.Helper()
	a := s.call(token, method, path, "", body)
	if a.status != status {
		s.t.Fatalf("%s %s: status %d, want %d: %.400s", method, path, a.status, status, a.body)
	}
	return a
}

func (s *server) token(user string) string {
	s.t.Helper()
	var token string
	var err error
	if s.app != nil {
		token, err = s.app.Token(seatflow.UserID(user), seatflow.RoleBuyer, time.Hour)
	} else {
		token, err = app.MintToken(s.secretDir, seatflow.UserID(user), seatflow.RoleBuyer, time.Hour)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

type ids struct {
	ID     int `json:"id"`
	HallID int `json:"hallId"`
	Seats  int `json:"seats"`
}

// openShow makes a hall of rows × seats and a show in it through the staff
// API, and returns the show's id. Members of extra replace those of the show.
func (s *server) openShow(rows, seats int, extra map[string]any) int {
	s.t.Helper()
	var hall ids
	s.must(201, s.admin, "POST", "/api/v1/admin/halls", map[string]any{"name": "Hall", "zone": "Europe/Berlin"}).into(s.t, &hall)
	doc, err := seatplan.Generate(seatplan.GenerateOptions{Name: "Plan", Rows: rows, Seats: seats}).JSON()
	if err != nil {
		s.t.Fatal(err)
	}
	s.must(201, s.admin, "POST", fmt.Sprintf("/api/v1/admin/halls/%d/plans", hall.ID), doc)
	var exported struct {
		Categories []struct {
			Name string `json:"name"`
		} `json:"categories"`
	}
	s.must(200, s.admin, "GET", fmt.Sprintf("/api/v1/admin/halls/%d/plans/1", hall.ID), nil).into(s.t, &exported)
	prices := map[string]int{}
	for _, c := range exported.Categories {
		prices[c.Name] = 1500
	}
	now := time.Now().UTC()
	show := map[string]any{"hallId": hall.ID, "title": "Show", "starts": now.Add(24 * time.Hour), "ends": now.Add(26 * time.Hour),
		"saleFrom": now.Add(-time.Minute), "saleUntil": now.Add(24 * time.Hour), "currency": "EUR", "prices": prices}
	for k, v := range extra {
		show[k] = v
	}
	var made ids
	s.must(201, s.admin, "POST", "/api/v1/admin/shows", show).into(s.t, &made)
	return made.ID
}

type order struct {
	No       string    `json:"no"`
	ShowID   int       `json:"showId"`
	State    string    `json:"state"`
	Deadline time.Time `json:"deadline"`
	Seats    []struct {
		SeatID int `json:"seatId"`
	} `json:"seats"`
}

func ask(show int, seats ...int) map[string]any {
	return map[string]any{"showId": show, "seats": seats}
}

// verify runs the server's own verifier and fails on a violation.
func (s *server) verify(acked string) {
	s.t.Helper()
	var report struct {
		Checks []struct {
			Name       string   `json:"name"`
			OK         bool     `json:"ok"`
			Violations []string `json:"violations"`
		} `json:"checks"`
	}
	a := s.must(200, s.admin, "POST", "/api/v1/admin/verify", []byte(acked))
	a.into(s.t, &report)
	if len(report.Checks) == 0 {
		s.t.Fatalf("the verifier checked nothing: %.300s", a.body)
	}
	for _, c := range report.Checks {
		if !c.OK {
			s.t.Errorf("%s: %s", c.Name, strings.Join(c.Violations, "; "))
		}
	}
}

// states returns a show's house in text form.
func (s *server) states(show int) string {
	s.t.Helper()
	var m struct {
		States string `json:"states"`
	}
	s.must(200, "", "GET", fmt.Sprintf("/api/v1/shows/%d/seats?form=compact", show), nil).into(s.t, &m)
	return m.States
}

// tally counts answers to orders.
type tally struct {
	mu     sync.Mutex
	orders []order
	codes  map[int]int
	other  []string
}

func (c *tally) add(t *testing.T, a answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.other = append(c.other, err.Error())
	case a.status == 201:
		var o order
		if err := json.Unmarshal(a.body, &o); err != nil {
			c.other = append(c.other, err.Error())
			return
		}
		c.orders = append(c.orders, o)
	default:
		var p problem
		if err := json.Unmarshal(a.body, &p); err != nil {
			c.other = append(c.other, fmt.Sprintf("status %d: %.200s", a.status, a.body))
			return
		}
		if c.codes == nil {
			c.codes = map[int]int{}
		}
		c.codes[p.Code]++
	}
}

func (c *tally) want(t *testing.T, orders, conflicts int) {
	t.Helper()
	if len(c.orders) != orders || c.codes[3002] != conflicts || len(c.orders)+c.codes[3002] != orders+conflicts ||
		len(c.other) > 0 || len(c.codes) > 1 {
		t.Fatalf("%d orders, codes %v, %d other (%.300v); want exactly %d orders and %d conflicts",
			len(c.orders), c.codes, len(c.other), c.other, orders, conflicts)
	}
	seen := map[int]string{}
	for _, o := range c.orders {
		for _, seat := range o.Seats {
			if seen[seat.SeatID] != "" {
				t.Fatalf("seat %d is in orders %s and %s", seat.SeatID, seen[seat.SeatID], o.No)
			}
			seen[seat.SeatID] = o.No
		}
	}
}

// at runs n callers at once.
func at(n int, call func(i int)) {
	var done sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		done.Go(func() {
			<-gate
			call(i)
		})
	}
	close(gate)
	done.Wait()
}

func asInUse(err error, to **app.InUseError) bool { return errors.As(err, to) }
