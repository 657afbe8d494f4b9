package app_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"seatflow"
	"seatflow/internal/app"
	"seatflow/internal/config"
	"seatflow/internal/testkit"
	"strconv"
)

// A thousand callers through the whole path on one seat: one order, 999
// conflicts, nothing else.
func TestThousandCallersOneSeat(t *testing.T) {
	s := startServer(t, testConfig(t.TempDir()), app.Options{})
	show := s.openShow(10, 10, nil)
	tokens := s.tokens(1000)
	var got tally
	at(1000, func(i int) {
		a, err := s.try(tokens[i], "POST", "/api/v1/orders", fmt.Sprint("k", i), ask(show, 42))
		got.add(t, a, err)
	})
	got.want(t, 1, 999)
	s.verify("")
}

// Caller i asks once for seat i mod 100 of a 10×10 house.
func TestThousandCallersHundredSeats(t *testing.T) {
	s := startServer(t, testConfig(t.TempDir()), app.Options{})
	show := s.openShow(10, 10, nil)
	tokens := s.tokens(1000)
	var got tally
	at(1000, func(i int) {
		a, err := s.try(tokens[i], "POST", "/api/v1/orders", fmt.Sprint("k", i), ask(show, i%100+1))
		got.add(t, a, err)
	})
	got.want(t, 100, 900)
	if states := s.states(show); strings.Count(states, "1") != 100 {
		t.Errorf("the map shows %s", states)
	}
	s.verify("")
}

// Overlapping random groups of 1–6 seats: no partial order, ever.
func TestOverlappingGroups(t *testing.T) {
	s := startServer(t, testConfig(t.TempDir()), app.Options{})
	show := s.openShow(10, 10, nil)
	tokens := s.tokens(1000)
	rng := rand.New(rand.NewPCG(3, 4))
	groups := make([][]int, len(tokens))
	for i := range groups {
		for _, seat := range rng.Perm(100)[:1+rng.IntN(6)] {
			groups[i] = append(groups[i], seat+1)
		}
	}
	var got tally
	var mu sync.Mutex
	held := 0
	at(len(groups), func(i int) {
		a, err := s.try(tokens[i], "POST", "/api/v1/orders", fmt.Sprint("k", i), ask(show, groups[i]...))
		got.add(t, a, err)
		if err != nil {
			return
		}
		switch a.status {
		case 201:
			var o order
			a.into(t, &o)
			if len(o.Seats) != len(groups[i]) {
				t.Errorf("asked for %v, got %+v", groups[i], o.Seats)
			}
			mu.Lock()
			held += len(o.Seats)
			mu.Unlock()
		case 409:
			var p problem
			a.into(t, &p)
			if len(p.Seats) == 0 || len(p.Seats)+len(p.Available) != len(groups[i]) {
				t.Errorf("asked for %v; taken %v and available %v do not add up", groups[i], p.Seats, p.Available)
			}
		}
	})
	got.want(t, len(got.orders), len(groups)-len(got.orders))
	if n := strings.Count(s.states(show), "1"); n != held {
		t.Errorf("orders have %d seats, the map shows %d", held, n)
	}
	s.verify("")
}

func TestIdempotencyOverHTTP(t *testing.T) {
	s := startServer(t, testConfig(t.TempDir()), app.Options{})
	show := s.openShow(10, 10, nil)
	ann, bob := s.token("ann"), s.token("bob")
	var mu sync.Mutex
	bodies := map[string]int{}
	replayed := 0
	at(100, func(int) {
		a, err := s.try(ann, "POST", "/api/v1/orders", "one", ask(show, 1, 2))
		if err != nil || a.status != 201 {
			t.Errorf("%v, %d %.200s", err, a.status, a.body)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		bodies[string(a.body)]++
		if a.header.Get("Idempotency-Replayed") == "true" {
			replayed++
		}
	})
	if len(bodies) != 1 || replayed != 99 {
		t.Errorf("%d different answers, %d replayed", len(bodies), replayed)
	}
	if a := s.call(ann, "POST", "/api/v1/orders", "one", ask(show, 3)); a.status != 422 {
		t.Errorf("the key with another body: %d", a.status)
	}
	if a := s.call(bob, "POST", "/api/v1/orders", "one", ask(show, 3)); a.status != 201 {
		t.Errorf("another user's key: %d %s", a.status, a.body)
	}
	if a := s.call(bob, "POST", "/api/v1/orders", "two", map[string]any{"showId": show, "seats": []int{4}, "idempotencyKey": "three"}); a.status != 400 {
		t.Errorf("two different keys: %d", a.status)
	}
	s.verify("")
}

// A replay is answered while another transaction holds the writer.
func TestReplayWhileTheLedgerIsBusy(t *testing.T) {
	var ledger *testkit.FaultyLedger
	s := startServer(t, testConfig(t.TempDir()), app.Options{WrapLedger: func(l seatflow.Ledger) seatflow.Ledger {
		ledger = testkit.NewFaultyLedger(l)
		return ledger
	}})
	show := s.openShow(10, 10, nil)
	ann := s.token("ann")
	first := s.call(ann, "POST", "/api/v1/orders", "one", ask(show, 1))
	release, reached := make(chan struct{}), make(chan struct{})
	ledger.On("InsertOrder", testkit.Signal(reached, testkit.HoldBefore(release)), testkit.Times(1))
	done := make(chan answer, 1)
	go func() {
		a, _ := s.try(s.token("bob"), "POST", "/api/v1/orders", "slow", ask(show, 2))
		done <- a
	}()
	<-reached
	again := s.call(ann, "POST", "/api/v1/orders", "one", ask(show, 1))
	if again.status != 201 || string(again.body) != string(first.body) || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %s", again.status, again.body)
	}
	close(release)
	if a := <-done; a.status != 201 {
		t.Errorf("the slow one: %d %s", a.status, a.body)
	}
}

// On a stop, what was accepted is answered and what was acknowledged is there.
func TestGracefulStop(t *testing.T) {
	dir := t.TempDir()
	var ledger *testkit.FaultyLedger
	s := startServer(t, testConfig(dir), app.Options{WrapLedger: func(l seatflow.Ledger) seatflow.Ledger {
		ledger = testkit.NewFaultyLedger(l)
		return ledger
	}})
	show := s.openShow(10, 10, nil)
	const n = 50
	tokens := s.tokens(n)
	var arrived sync.WaitGroup
	arrived.Add(n)
	release := make(chan struct{})
	ledger.On("InsertOrder", func(ctx context.Context, do func() error) error {
		arrived.Done()
		<-release
		return do()
	}, testkit.Times(n))
	// An open stream must not keep the server from stopping.
	stream, err := s.http.Get(fmt.Sprintf("%s/api/v1/shows/%d/events", s.base, show))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	var got tally
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			a, err := s.try(tokens[i], "POST", "/api/v1/orders", fmt.Sprint("k", i), ask(show, i+1))
			got.add(t, a, err)
		})
	}
	arrived.Wait() // all accepted, none committed
	s.stop()
	s.waitFor("the listener to close", func() bool {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}).Get(s.base + "/livez")
		if err == nil {
			resp.Body.Close()
		}
		return err != nil
	})
	close(release)
	callers.Wait()
	got.want(t, n, 0)
	s.stop = func() {}
	s.close()

	again := startServer(t, testConfig(dir), app.Options{})
	var acked strings.Builder
	for _, o := range got.orders {
		fmt.Fprintf(&acked, `{"at":"2031-01-01T00:00:00Z","op":"order","no":%q,"showId":%d,"userId":"u%d","seats":[%d],"state":"pending"}`+"\n",
			o.No, show, o.Seats[0].SeatID-1, o.Seats[0].SeatID)
	}
	again.verify(acked.String())
	if n := strings.Count(again.states(show), "1"); n != len(got.orders) {
		t.Errorf("%d seats are held after the restart, want %d", n, len(got.orders))
	}
}

func (s *server) tokens(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = s.token(fmt.Sprint("u", i))
	}
	return list
}

// The life of an order over HTTP: hold, pay in the sandbox, see it sold.
func TestPayInTheSandbox(t *testing.T) {
	s := startServer(t, testConfig(t.TempDir()), app.Options{})
	show := s.openShow(2, 10, nil)
	ann := s.token("ann")
	var o order
	s.must(201, ann, "POST", "/api/v1/orders", ask(show, 1, 2)).into(t, &o)
	var checkout struct {
		URL string `json:"url"`
	}
	s.must(201, ann, "POST", "/api/v1/orders/"+o.No+"/payments", map[string]any{}).into(t, &checkout)
	s.must(202, ann, "POST", checkout.URL, map[string]any{"outcome": "succeed", "copies": 3})
	s.waitFor("the order to be paid", func() bool {
		s.must(200, ann, "GET", "/api/v1/orders/"+o.No, nil).into(t, &o)
		return o.State == "paid"
	})
	if states := s.states(show); !strings.HasPrefix(states, "22") {
		t.Errorf("the map shows %s", states)
	}
	s.verify(fmt.Sprintf(`{"at":"2031-01-01T00:00:00Z","op":"pay","no":%q,"showId":%d,"userId":"ann","seats":[1,2],"state":"paid"}`+"\n", o.No, show))
	s.must(200, s.admin, "POST", "/api/v1/admin/orders/"+o.No+"/refund", map[string]any{"seats": []int{1}})
	if states := s.states(show); !strings.HasPrefix(states, "02") {
		t.Errorf("after a refund of seat 1 the map shows %s", states)
	}
	s.verify("")
}

// Every part of Close and New survives being called out of turn.
func TestCloseTwiceAndWithoutRun(t *testing.T) {
	a, err := app.New(t.Context(), testConfig(t.TempDir()), app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFirstAdminTokenIsGivenOnce(t *testing.T) {
	dir := t.TempDir()
	for i, want := range []bool{true, false} {
		a, err := app.New(t.Context(), testConfig(dir), app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		token, err := a.AdminToken()
		if err != nil || (token != "") != want {
			t.Errorf("start %d: token given: %v, %v", i+1, token != "", err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A new show takes what it does not say from the configuration.
func TestNewShowsTakeTheConfiguredDefaults(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Hold.Seconds, cfg.Hold.CapSeconds, cfg.Hold.ExtendSeconds, cfg.Limits.SeatsPerUser = 77, 99, 11, 2
	s := startServer(t, cfg, app.Options{})
	var show struct {
		LimitPerUser   int `json:"limitPerUser"`
		HoldSeconds    int `json:"holdSeconds"`
		HoldCapSeconds int `json:"holdCapSeconds"`
		ExtendSeconds  int `json:"extendSeconds"`
	}
	s.must(200, "", "GET", fmt.Sprintf("/api/v1/shows/%d", s.openShow(2, 5, nil)), nil).into(t, &show)
	if show.LimitPerUser != 2 || show.HoldSeconds != 77 || show.HoldCapSeconds != 99 || show.ExtendSeconds != 11 {
		t.Errorf("%+v", show)
	}
}

// A category that gains a price brings its seats into the map at once; what
// was sold before stays.
func TestNewlyPricedSeatsAreForSale(t *testing.T) {
	s := startServer(t, testConfig(t.TempDir()), app.Options{})
	show := s.openShow(10, 10, nil)
	var made struct {
		Prices map[string]int `json:"prices"`
	}
	path := fmt.Sprintf("/api/v1/shows/%d", show)
	s.must(200, "", "GET", path, nil).into(t, &made)
	if len(made.Prices) < 2 {
		t.Fatalf("the plan has categories %v; the test needs two", made.Prices)
	}
	one := map[string]int{}
	for c := range made.Prices {
		one[c] = 1500
		break
	}
	few := s.openShow(10, 10, map[string]any{"prices": one})
	before := s.states(few)
	if !strings.Contains(before, "-") {
		t.Fatalf("every seat is for sale: %s", before)
	}
	sold := strings.Index(before, "0") + 1
	s.must(201, s.token("ann"), "POST", "/api/v1/orders", ask(few, sold))
	s.must(200, s.admin, "PATCH", fmt.Sprintf("/api/v1/admin/shows/%d", few), map[string]any{"prices": made.Prices})
	after := s.states(few)
	if strings.Contains(after, "-") || after[sold-1] != '1' || strings.Count(after, "0") != len(after)-1 {
		t.Errorf("before %s, after %s", before, after)
	}
	s.verify("")
}

// TestRateWindowsOfADefaultServer: ten orders a minute and user, then 429 with
// the time to come back, and nothing held; a replay is answered all the same.
func TestRateWindowsOfADefaultServer(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Rates = config.Defaults().Rates
	s := startServer(t, cfg, app.Options{})
	show := s.openShow(4, 5, nil)
	token := s.token("ann")
	for i := range 10 {
		body := map[string]any{"showId": show, "seats": []int{i + 1}}
		a := s.call(token, "POST", "/api/v1/orders", fmt.Sprint("k", i), body)
		if i < 6 && a.status != 201 || i >= 6 && a.status != 409 { // six seats a user; the rest are refused and count
			t.Fatalf("order %d: %d %s", i, a.status, a.body)
		}
	}
	a := s.call(token, "POST", "/api/v1/orders", "k10", map[string]any{"showId": show, "seats": []int{11}})
	var p problem
	if json.Unmarshal(a.body, &p) != nil || a.status != 429 || p.Code != 1029 {
		t.Fatalf("the eleventh: %d %s", a.status, a.body)
	}
	if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n < 1 || n > 60 {
		t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
	}
	if a := s.call(token, "POST", "/api/v1/orders", "k0", map[string]any{"showId": show, "seats": []int{1}}); a.status != 201 || a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a replay over the rate: %d %s", a.status, a.body)
	}
}
