package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeServer answers the public API from a map under one lock. It keeps
// holds until they are paid or cancelled; with expire set it lets those run
// out that are older than 200 reads of the seat map.
type fakeServer struct {
	*httptest.Server
	mu      sync.Mutex
	states  []byte
	limit   int
	orders  map[string]*fakeOrder
	byKey   map[string]*fakeOrder
	perUser map[string]int
	guests  int
	maps    int
	posts   int // of orders, repeats included
	expire  bool

	// fault is asked for each request to make an order, before it is executed
	// and after; a status other than 0 is answered instead, -1 cuts the
	// connection.
	fault func(n int, after bool) int
}

type fakeOrder struct {
	No    string           `json:"no"`
	Show  int              `json:"showId"`
	User  string           `json:"userId"`
	State string           `json:"state"`
	Seats []map[string]any `json:"seats"`
	ids   []int
	maps  int // how many maps had been read when it was made
}

const fakeRows, fakeCols = 5, 8

func newFake(t *testing.T) *fakeServer {
	t.Helper()
	f := &fakeServer{states: []byte(strings.Repeat("0", fakeRows*fakeCols)), orders: map[string]*fakeOrder{},
		byKey: map[string]*fakeOrder{}, perUser: map[string]int{}, limit: 6}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/guests", f.handle(f.mint))
	mux.HandleFunc("GET /api/v1/shows", f.handle(func(r *http.Request) (int, any) {
		return 200, map[string]any{"shows": []any{f.show()}}
	}))
	mux.HandleFunc("GET /api/v1/shows/1", f.handle(func(*http.Request) (int, any) { return 200, f.show() }))
	mux.HandleFunc("GET /api/v1/shows/1/plan", f.handle(func(*http.Request) (int, any) { return 200, fakePlan() }))
	mux.HandleFunc("GET /api/v1/shows/1/seats", f.handle(f.seatMap))
	mux.HandleFunc("POST /api/v1/orders", f.postOrder)
	mux.HandleFunc("GET /api/v1/orders/{no}", f.handle(func(r *http.Request) (int, any) { return 200, f.orders[r.PathValue("no")] }))
	mux.HandleFunc("POST /api/v1/orders/{no}/cancel", f.handle(f.cancel))
	mux.HandleFunc("POST /api/v1/orders/{no}/payments", f.handle(func(r *http.Request) (int, any) {
		return 201, map[string]any{"provider": "sandbox", "ref": r.PathValue("no"), "url": "/api/v1/sandbox/payments/" + r.PathValue("no")}
	}))
	mux.HandleFunc("POST /api/v1/sandbox/payments/{no}", f.handle(f.pay))
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeServer) handle(h func(*http.Request) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		status, body := h(r)
		answerJSON(w, status, body)
	}
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func problem(code int) map[string]any { return map[string]any{"code": code, "title": "refused"} }

func (f *fakeServer) show() map[string]any {
	return map[string]any{"id": 1, "title": "Fake", "onSale": true, "limitPerUser": f.limit}
}

func fakePlan() map[string]any {
	seats := map[string][]any{}
	for i := range fakeRows * fakeCols {
		row, col := i/fakeCols, i%fakeCols
		for k, v := range map[string]any{"id": i + 1, "x": col * 10, "y": row * 10, "zone": 0, "category": 0,
			"row": fmt.Sprint(row + 1), "number": fmt.Sprint(col + 1)} {
			seats[k] = append(seats[k], v)
		}
	}
	return map[string]any{"categories": []any{map[string]any{"name": "A", "price": 100}},
		"zones": []any{map[string]any{"name": "Ground"}}, "seats": seats}
}

func (f *fakeServer) mint(*http.Request) (int, any) {
	f.guests++
	user := "guest-" + strconv.Itoa(f.guests)
	return 201, map[string]any{"token": user, "userId": user}
}

func (f *fakeServer) seatMap(*http.Request) (int, any) {
	f.maps++
	if f.expire {
		for _, o := range f.orders {
			if o.State == "pending" && f.maps > o.maps+200 {
				f.end(o, "expired", '0')
			}
		}
	}
	return 200, map[string]any{"states": string(f.states)}
}

func user(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

func (f *fakeServer) postOrder(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Show  int   `json:"showId"`
		Seats []int `json:"seats"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		answerJSON(w, 400, problem(1000))
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.posts++
	n := f.posts
	if f.failed(w, n, false) {
		return
	}
	status, answer := f.order(user(r), r.Header.Get("Idempotency-Key"), body.Seats)
	if f.failed(w, n, true) {
		return
	}
	answerJSON(w, status, answer)
}

func (f *fakeServer) failed(w http.ResponseWriter, n int, after bool) bool {
	if f.fault == nil {
		return false
	}
	switch status := f.fault(n, after); status {
	case 0:
		return false
	case -1:
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set("Retry-After", "0")
		answerJSON(w, status, problem(2003))
		return true
	}
}

func (f *fakeServer) order(user, key string, seats []int) (int, any) {
	if o := f.byKey[user+" "+key]; o != nil && key != "" {
		return 201, o
	}
	for _, id := range seats {
		if f.states[id-1] != '0' {
			return 409, problem(3002)
		}
	}
	if f.limit > 0 && f.perUser[user]+len(seats) > f.limit {
		return 409, problem(3004)
	}
	o := &fakeOrder{No: fmt.Sprintf("%026d", len(f.orders)+1), Show: 1, User: user, State: "pending", ids: seats, maps: f.maps}
	for _, id := range seats {
		f.states[id-1] = '1'
		o.Seats = append(o.Seats, map[string]any{"seatId": id})
	}
	f.perUser[user] += len(seats)
	f.orders[o.No] = o
	f.byKey[user+" "+key] = o
	return 201, o
}

func (f *fakeServer) end(o *fakeOrder, state string, seat byte) {
	o.State = state
	for _, id := range o.ids {
		f.states[id-1] = seat
	}
}

func (f *fakeServer) cancel(r *http.Request) (int, any) {
	o := f.orders[r.PathValue("no")]
	if o.State != "pending" {
		return 409, problem(3005)
	}
	f.end(o, "cancelled", '0')
	return 200, o
}

func (f *fakeServer) pay(r *http.Request) (int, any) {
	var c card
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		return 400, problem(1000)
	}
	if o := f.orders[r.PathValue("no")]; c.Outcome == "succeed" && o.State == "pending" {
		f.end(o, "paid", '2')
	}
	return 202, map[string]any{}
}

// testContext ends a test that hangs.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}
