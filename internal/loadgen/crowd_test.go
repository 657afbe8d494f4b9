package loadgen

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// readLog reads a log of acknowledgements back.
func readLog(t *testing.T, path string) []Ack {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var acks []Ack
	for line := range strings.Lines(string(b)) {
		var a Ack
		if err := json.Unmarshal([]byte(line), &a, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		acks = append(acks, a)
	}
	return acks
}

func TestCrowdSellsOut(t *testing.T) {
	f := newFake(t)
	f.expire = true
	f.limit = 2 // larger groups must split up
	f.fault = func(n int, after bool) int {
		switch {
		case n%7 == 3 && !after:
			return 503
		case n%11 == 5 && after:
			return 503 // executed, but the buyer does not know
		case n%13 == 6 && after:
			return -1 // likewise
		}
		return 0
	}
	path := filepath.Join(t.TempDir(), "acked.ndjson")
	log, err := OpenAckLog(path)
	if err != nil {
		t.Fatal(err)
	}
	var soldOut atomic.Int64
	var last Counters
	c, err := NewCrowd(CrowdOptions{URL: f.URL, Buyers: 8, Seed: 7, UntilSoldOut: true, Acks: log,
		Report: func(c Counters) { last = c },
		Event: func(e Event) {
			if e.Kind == EventSoldOut {
				soldOut.Add(1)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	c.wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	got, err := c.Run(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if string(f.states) != strings.Repeat("2", fakeRows*fakeCols) {
		t.Fatalf("not sold out: %s", f.states)
	}
	if got.SeatsPaid != fakeRows*fakeCols || got.SoldOut != 1 || soldOut.Load() != 1 {
		t.Errorf("counters %+v, %d told", got, soldOut.Load())
	}
	if last != got {
		t.Errorf("the last report %+v is not the result %+v", last, got)
	}
	if got.Retries == 0 || got.Limited == 0 {
		t.Errorf("neither faults nor limits were met: %+v", got)
	}
	if got.Errors != 0 {
		t.Errorf("%d requests were given up on", got.Errors)
	}
	// What was acknowledged is exactly what the server has: every order once,
	// however often it was asked for.
	seen := map[seatflow.OrderNo]int{}
	paid := map[seatflow.SeatID]bool{}
	for _, a := range readLog(t, path) {
		switch a.Op {
		case "order":
			seen[a.No]++
		case "pay":
			if a.State != seatflow.OrderPaid {
				t.Errorf("paid as %s", a.State)
			}
			for _, id := range a.Seats {
				paid[id] = true
			}
		}
	}
	if len(seen) != len(f.orders) || len(paid) != fakeRows*fakeCols {
		t.Errorf("%d orders acknowledged of %d, %d seats paid", len(seen), len(f.orders), len(paid))
	}
	for no, n := range seen {
		if n != 1 {
			t.Errorf("order %s acknowledged %d times", no, n)
		}
	}
}

func TestCrowdStopsWithItsContext(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(testContext(t))
	c, err := NewCrowd(CrowdOptions{URL: f.URL, Buyers: 4, Rate: 2000, Seed: 1, Shows: []seatflow.ShowID{1},
		Event: func(e Event) {
			if e.Kind == EventPaid {
				cancel()
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Run(ctx)
	if err != nil || got.Paid == 0 || got.SoldOut != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCrowdGivesUpOnABrokenServer(t *testing.T) {
	f := newFake(t)
	f.fault = func(int, bool) int { return http.StatusInternalServerError }
	ctx, cancel := context.WithCancel(testContext(t))
	c, err := NewCrowd(CrowdOptions{URL: f.URL, Buyers: 1, Event: func(e Event) {
		if e.Kind == EventError {
			if e.Err == nil {
				t.Error("an error event without an error")
			}
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	c.wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	if got, err := c.Run(ctx); err != nil || got.Errors != 1 || got.Orders != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCrowdOptions(t *testing.T) {
	for name, opt := range map[string]CrowdOptions{
		"no url":         {},
		"not a url":      {URL: "localhost"},
		"another scheme": {URL: "ftp://localhost"},
		"nobody":         {URL: "http://localhost", Buyers: -1},
		"negative pace":  {URL: "http://localhost", Pace: -1},
		"share":          {URL: "http://localhost", Cancel: 1.5},
	} {
		if _, err := NewCrowd(opt); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestPick(t *testing.T) {
	f := fakePlan()
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var p apiPlan
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	h := newHouse(1, &p)
	if len(h.rows) != fakeRows || h.seats != fakeRows*fakeCols {
		t.Fatalf("%d rows, %d seats", len(h.rows), h.seats)
	}
	states := []byte(strings.Repeat("2", fakeRows*fakeCols))
	rng := rand.New(rand.NewPCG(1, 2))
	if got := h.pick(rng, string(states), 3, tasteMiddle); got != nil {
		t.Errorf("picked %v in a full house", got)
	}
	states[0], states[1], states[7], states[8] = '0', '0', '0', '0' // 8 and 9 are in different rows
	if got := h.pick(rng, string(states), 2, tasteBack); !slices.Equal(got, []seatflow.SeatID{1, 2}) {
		t.Errorf("picked %v, not the only neighbours", got)
	}
	if got := h.pick(rng, string(states), 6, tasteBack); !slices.Equal(got, []seatflow.SeatID{1, 2}) {
		t.Errorf("six people picked %v, not the most that sit together", got)
	}
	states[0], states[7] = 'x', '1'
	states[1] = '-'
	if got := h.pick(rng, string(states), 4, tasteFront); !slices.Equal(got, []seatflow.SeatID{9}) {
		t.Errorf("picked %v, not the last seat", got)
	}
	empty := strings.Repeat("0", fakeRows*fakeCols)
	for taste, row := range map[int]int{tasteFront: 0, tasteBack: fakeRows - 1} {
		got := h.pick(rng, empty, 1, taste)
		if at := int(got[0]-1) / fakeCols; at != row && at != row+1 && at != row-1 {
			t.Errorf("taste %d picked row %d", taste, at)
		}
	}
}

func TestPickIsDeterministic(t *testing.T) {
	b, _ := json.Marshal(fakePlan())
	var p apiPlan
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	h := newHouse(1, &p)
	empty := strings.Repeat("0", fakeRows*fakeCols)
	for seed := range uint64(20) {
		a := h.pick(rand.New(rand.NewPCG(seed, 1)), empty, 2, tasteMiddle)
		b := h.pick(rand.New(rand.NewPCG(seed, 1)), empty, 2, tasteMiddle)
		if !slices.Equal(a, b) {
			t.Fatalf("seed %d: %v and %v", seed, a, b)
		}
	}
}

func TestPlanCheck(t *testing.T) {
	for name, change := range map[string]func(*apiPlan){
		"column": func(p *apiPlan) { p.Seats.Row = p.Seats.Row[1:] },
		"zone":   func(p *apiPlan) { p.Seats.Zone[0] = 1 },
		"class":  func(p *apiPlan) { p.Seats.Category[0] = -1 },
		"id":     func(p *apiPlan) { p.Seats.ID[0] = 0 },
	} {
		b, _ := json.Marshal(fakePlan())
		var p apiPlan
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		change(&p)
		if p.check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
