package plain_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow/bench/strategies/plain"
	"seatflow/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is the design on real servers, with one show of 20 seats.
type rig struct {
	*plain.Store
	t     *testing.T
	redis *testkit.Redis
	url   string
	db    *sql.DB
}

func newRig(t *testing.T, o plain.Options) *rig {
	t.Helper()
	r := &rig{t: t, redis: testkit.SharedRedis(t), url: testkit.SharedMariaDB(t).NewDatabase(t)}
	o.Redis, o.MySQL, o.Conns = r.redis.Addr(), r.url, 8
	s, err := plain.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r.Store = s
	if r.db, err = plain.OpenDB(t.Context(), r.url, 2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), r.db.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := s.OpenShow(t.Context(), 1, 20); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) order(user, key string, seats ...int) (plain.Order, error) {
	return r.Order(r.t.Context(), plain.Request{User: user, Show: 1, Seats: seats, Key: key})
}

func (r *rig) must(user string, seats ...int) plain.Order {
	r.t.Helper()
	o, err := r.order(user, "", seats...)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// seat is what Redis has for a seat, raw.
func (r *rig) seat(n int) string {
	r.t.Helper()
	return strings.TrimSpace(r.redis.CLI(r.t, "HGET", "plain:show:1", strconv.Itoa(n)))
}

func (r *rig) count(query string, args ...any) (n int) {
	r.t.Helper()
	if err := r.db.QueryRowContext(r.t.Context(), query, args...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

func taken(t *testing.T, err error, seats ...int) {
	t.Helper()
	var e *plain.TakenError
	if !errors.As(err, &e) || !slices.Equal(e.Seats, seats) {
		t.Errorf("got %v, want seats %v taken", err, seats)
	}
}

func TestOrder(t *testing.T) {
	r := newRig(t, plain.Options{})
	o := r.must("ann", 3, 2)
	if !slices.Equal(o.Seats, []int{2, 3}) || len(o.No) != 26 || time.Until(o.Deadline) < 14*time.Minute {
		t.Errorf("%+v", o)
	}
	if r.seat(2) != o.No || r.seat(3) != o.No || r.seat(4) != "0" {
		t.Errorf("Redis has %q, %q and %q", r.seat(2), r.seat(3), r.seat(4))
	}
	if n := r.count("SELECT COUNT(*) FROM order_seat WHERE show_id = 1 AND order_no = ?", o.No); n != 2 {
		t.Errorf("%d rows of seats", n)
	}
	if n := r.count("SELECT COUNT(*) FROM order_info WHERE no = ? AND user_id = 'ann' AND seats = '2,3' AND state = 'pending'", o.No); n != 1 {
		t.Errorf("%d rows of the order", n)
	}
	_, err := r.order("bob", "", 1, 2, 3)
	taken(t, err, 2, 3)
	_, err = r.order("bob", "", 21)
	taken(t, err, 21) // no such seat
	if r.seat(1) != "0" {
		t.Errorf("a refused order left seat 1 as %q", r.seat(1))
	}
	var orders []plain.Order
	if err := r.Orders(t.Context(), func(o plain.Order) error { orders = append(orders, o); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(orders) != 1 || fmt.Sprint(orders[0]) != fmt.Sprint(o) {
		t.Errorf("read %+v, stored %+v", orders, o)
	}
	if err := r.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInvalid(t *testing.T) {
	r := newRig(t, plain.Options{})
	for name, q := range map[string]plain.Request{
		"no seats":  {User: "ann", Show: 1},
		"too many":  {User: "ann", Show: 1, Seats: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		"twice":     {User: "ann", Show: 1, Seats: []int{1, 1}},
		"nobody":    {Show: 1, Seats: []int{1}},
		"long key":  {User: "ann", Show: 1, Seats: []int{1}, Key: strings.Repeat("k", 65)},
		"long user": {User: strings.Repeat("u", 65), Show: 1, Seats: []int{1}},
	} {
		if _, err := r.Order(t.Context(), q); !errors.Is(err, plain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRateWindow(t *testing.T) {
	r := newRig(t, plain.Options{Rate: 3, Span: time.Hour})
	for i := range 3 {
		r.must("ann", i+1)
	}
	if _, err := r.order("ann", "", 4); !errors.Is(err, plain.ErrRate) {
		t.Errorf("a fourth: %v", err)
	}
	if r.seat(4) != "0" {
		t.Error("a refused order holds a seat")
	}
	r.must("bob", 4)
}

// A used key is refused by the database, and the seats are given back.
func TestKeyUsed(t *testing.T) {
	r := newRig(t, plain.Options{})
	if _, err := r.order("ann", "k", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.order("ann", "k", 2); !errors.Is(err, plain.ErrKeyUsed) {
		t.Errorf("%v", err)
	}
	if r.seat(2) != "0" {
		t.Errorf("seat 2 is %q", r.seat(2))
	}
	if _, err := r.order("bob", "k", 2); err != nil {
		t.Errorf("another user's key: %v", err)
	}
}

// A hundred callers and ten seats: ten orders.
func TestRace(t *testing.T) {
	r := newRig(t, plain.Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	sold := map[int]int{}
	for i := range 100 {
		wg.Go(func() {
			seat := i%10 + 1
			_, err := r.order(fmt.Sprint("user-", i), "", seat)
			var e *plain.TakenError
			switch {
			case err == nil:
				mu.Lock()
				sold[seat]++
				mu.Unlock()
			case !errors.As(err, &e):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for seat := 1; seat <= 10; seat++ {
		if sold[seat] != 1 {
			t.Errorf("seat %d was sold %d times", seat, sold[seat])
		}
	}
	if n := r.count("SELECT COUNT(*) FROM order_info"); n != 10 {
		t.Errorf("%d orders", n)
	}
}

// A Redis that has forgotten what is sold: the unique key decides, and a show
// that is opened again knows it from the tables.
func TestForgetfulRedis(t *testing.T) {
	r := newRig(t, plain.Options{})
	o := r.must("ann", 5)
	r.redis.CLI(t, "HSET", "plain:show:1", "5", "0")
	_, err := r.order("bob", "", 5)
	taken(t, err, 5)
	if n := r.count("SELECT COUNT(*) FROM order_info"); n != 1 {
		t.Errorf("%d orders", n)
	}
	r.redis.CLI(t, "FLUSHALL")
	if err := r.OpenShow(t.Context(), 1, 20); err != nil {
		t.Fatal(err)
	}
	if r.seat(5) != o.No || r.seat(6) != "0" {
		t.Errorf("after it was opened again: %q, %q", r.seat(5), r.seat(6))
	}
}

// A database that fails leaves nothing taken.
func TestFailedTransaction(t *testing.T) {
	r := newRig(t, plain.Options{})
	if _, err := r.db.ExecContext(t.Context(), "DROP TABLE order_seat"); err != nil {
		t.Fatal(err)
	}
	_, err := r.order("ann", "", 1, 2)
	var e *plain.TakenError
	if err == nil || errors.As(err, &e) {
		t.Fatalf("%v", err)
	}
	if r.seat(1) != "0" || r.seat(2) != "0" {
		t.Errorf("seats are %q and %q", r.seat(1), r.seat(2))
	}
	if n := r.count("SELECT COUNT(*) FROM order_info"); n != 0 {
		t.Errorf("%d orders", n)
	}
}

// A taker that dies holds its seats until they are due; the sweep frees them
// and leaves those of orders alone.
func TestSweep(t *testing.T) {
	died := errors.New("died")
	dying := false
	r := newRig(t, plain.Options{Hold: time.Minute, Between: func(context.Context) error {
		if dying {
			return died
		}
		return nil
	}})
	o := r.must("ann", 1)
	dying = true
	if _, err := r.order("bob", "", 2, 3); !errors.Is(err, died) {
		t.Fatal(err)
	}
	if r.seat(2) == "0" {
		t.Fatal("the dead taker's seat is free")
	}
	if n, err := r.Sweep(t.Context(), time.Now(), 100); n != 0 || err != nil {
		t.Errorf("before they are due: %d, %v", n, err)
	}
	later := time.Now().Add(2 * time.Minute)
	if n, err := r.Sweep(t.Context(), later, 100); n != 2 || err != nil {
		t.Errorf("when they are due: %d, %v", n, err)
	}
	if r.seat(1) != o.No || r.seat(2) != "0" || r.seat(3) != "0" {
		t.Errorf("seats are %q, %q and %q", r.seat(1), r.seat(2), r.seat(3))
	}
	if n, err := r.Sweep(t.Context(), later, 100); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
}

// Transactions run at READ COMMITTED, on connections that stay.
func TestIsolation(t *testing.T) {
	r := newRig(t, plain.Options{})
	var level string
	if err := r.db.QueryRowContext(t.Context(), "SELECT @@tx_isolation").Scan(&level); err != nil || level != "READ-COMMITTED" {
		t.Errorf("%q, %v", level, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, url := range []string{"", "postgres://x/y", "mysql://", "mysql://nobody:x@127.0.0.1:1/none", ":"} {
		if db, err := plain.OpenDB(t.Context(), url, 1); err == nil {
			t.Errorf("%q is opened", url)
			_ = db.Close()
		}
	}
}
