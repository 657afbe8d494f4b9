package nodes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// rush is a crowd that holds, pays and cancels through every node while a test
// breaks something. Whatever it is told for certain goes to the log of
// acknowledgements.
type rush struct {
	d     *deployment
	show  int
	seats int
	stop  context.CancelFunc
	group sync.WaitGroup

	orders, paid, cancelled, taken atomic.Int64
	failures                       atomic.Int64 // answers that said nothing for certain, or to come again
	slowest                        atomic.Int64 // ns of one try
	last                           atomic.Int64 // UnixNano of the last order
}

// rush lets buyers in until end is called.
func (d *deployment) rush(show, seats, buyers int) *rush {
	ctx, cancel := context.WithCancel(context.Background())
	r := &rush{d: d, show: show, seats: seats, stop: cancel}
	tokens := make([]string, buyers)
	for i := range tokens {
		tokens[i] = d.token(fmt.Sprintf("rush-%d-%d", show, i), seatflow.RoleBuyer)
	}
	for i, token := range tokens {
		r.group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r.buy(ctx, token, fmt.Sprintf("rush-%d-%d", i, n))
			}
		})
	}
	d.t.Cleanup(func() { cancel(); r.group.Wait() })
	return r
}

// end stops the crowd and waits for it.
func (r *rush) end() {
	r.stop()
	r.group.Wait()
	r.d.t.Logf("rush: %d orders, %d paid, %d cancelled, %d taken, %d answers that were no answer; slowest try %v",
		r.orders.Load(), r.paid.Load(), r.cancelled.Load(), r.taken.Load(), r.failures.Load(), time.Duration(r.slowest.Load()).Round(time.Millisecond))
}

func (r *rush) node() string { return r.d.nodes[rand.IntN(len(r.d.nodes))].url }

// call is one try; ok when it says something for certain.
func (r *rush) call(ctx context.Context, token, method, path, key string, body any) (answer, bool) {
	began := time.Now()
	a, err := r.d.try(ctx, r.node(), token, method, path, key, body)
	if took := int64(time.Since(began)); ctx.Err() == nil {
		for old := r.slowest.Load(); took > old && !r.slowest.CompareAndSwap(old, took); old = r.slowest.Load() {
		}
	}
	if err != nil || a.status >= 500 || a.code == int(seatflow.CodeInFlight) || a.code == int(seatflow.CodeRateLimited) {
		r.failures.Add(1)
		if a.status == 503 && a.retry == "" {
			r.d.t.Errorf("503 without Retry-After: %s", a.body)
		}
		pause(time.Duration(10+rand.IntN(40)) * time.Millisecond)
		return a, false
	}
	return a, true
}

func (r *rush) buy(ctx context.Context, token, key string) {
	seat := rand.IntN(r.seats) + 1
	var o order
	for {
		a, ok := r.call(ctx, token, "POST", "/api/v1/orders", key, map[string]any{"showId": r.show, "seats": []int{seat}})
		if ctx.Err() != nil {
			return
		}
		if !ok {
			continue // with the same key, on any node
		}
		if a.status != 201 {
			r.taken.Add(1)
			return
		}
		if err := json.Unmarshal(a.body, &o); err != nil {
			r.d.t.Error(err)
			return
		}
		break
	}
	r.d.acked.add("order", o)
	r.orders.Add(1)
	r.last.Store(time.Now().UnixNano())
	switch rand.IntN(3) {
	case 0:
		r.pay(ctx, token, o)
	case 1:
		if a, ok := r.call(ctx, token, "POST", "/api/v1/orders/"+o.No+"/cancel", "", nil); ok && a.status == 200 {
			o.State = "cancelled"
			r.d.acked.add("cancel", o)
			r.cancelled.Add(1)
		}
	}
}

func (r *rush) pay(ctx context.Context, token string, o order) {
	if !r.d.checkout(ctx, r.node(), r.node(), token, o) {
		return
	}
	for range 20 {
		a, ok := r.call(ctx, token, "GET", "/api/v1/orders/"+o.No, "", nil)
		var now order
		if ok && a.status == 200 && json.Unmarshal(a.body, &now) == nil && now.State == "paid" {
			r.d.acked.add("pay", now)
			r.paid.Add(1)
			return
		}
		if ctx.Err() != nil {
			return
		}
		pause(20 * time.Millisecond)
	}
}

// checkout begins a payment at one node and fills in the sandbox's card form
// at another.
func (d *deployment) checkout(ctx context.Context, base, form, token string, o order) bool {
	a, err := d.try(ctx, base, token, "POST", "/api/v1/orders/"+o.No+"/payments", "", map[string]any{})
	var checkout struct {
		URL string `json:"url"`
	}
	if err != nil || a.status != 201 || json.Unmarshal(a.body, &checkout) != nil {
		return false
	}
	p, err := d.try(ctx, form, token, "POST", checkout.URL, "", map[string]any{"outcome": "succeed"})
	return err == nil && p.status == 202
}

// settle pays an order and waits until it is paid.
func (d *deployment) settle(token string, o order) {
	d.t.Helper()
	if !d.checkout(d.t.Context(), d.nodes[0].url, d.nodes[1].url, token, o) {
		d.t.Fatalf("order %s could not be paid", o.No)
	}
	waitFor(d.t, "order "+o.No+" to be paid", backAgain, func() bool {
		a, err := d.try(d.t.Context(), d.nodes[2].url, token, "GET", "/api/v1/orders/"+o.No, "", nil)
		var now order
		if err != nil || a.status != 200 || json.Unmarshal(a.body, &now) != nil || now.State != "paid" {
			return false
		}
		d.acked.add("pay", now)
		return true
	})
}

// sells waits until an order succeeds that was made after now.
func (r *rush) sells(within time.Duration) {
	r.d.t.Helper()
	since := time.Now().UnixNano()
	waitFor(r.d.t, "the next order", within, func() bool { return r.last.Load() > since })
	r.d.t.Logf("sells again after %v", time.Duration(r.last.Load()-since).Round(time.Millisecond))
}
