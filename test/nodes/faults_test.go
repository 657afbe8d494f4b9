package nodes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/testkit"
)

// answerLimit is above every deadline that a request can meet: ten seconds of
// its own, and what must be finished although it has passed.
const answerLimit = 20 * time.Second

// backAgain bounds how long it takes to sell again once a fault is over.
const backAgain = 20 * time.Second

// faulted deploys three nodes with a show, a crowd and a watcher, has a test
// break something, and holds what is left against what was answered.
func faulted(t *testing.T, redis testkit.RedisOptions, between func(d *deployment), fault func(d *deployment, r *rush)) {
	t.Helper()
	d := deploy(t, redis)
	if between != nil {
		between(d)
	}
	d.start(3)
	const seats = 20_000
	show := d.openShow(100, seats/100, map[string]any{"limitPerUser": 0})
	w := d.watch(show)
	r := d.rush(show, seats, 24)
	r.sells(backAgain)
	fault(d, r)
	r.sells(backAgain)
	r.end()
	d.check(show)
	w.converges()
}

// TestRedisComesBackEmpty: the view is gone; it is rebuilt from the facts
// before anything is sold.
func TestRedisComesBackEmpty(t *testing.T) {
	faulted(t, testkit.RedisOptions{}, nil, func(d *deployment, _ *rush) {
		for range 2 {
			d.redis.Kill()
			pause(time.Second)
			d.redis.RestartEmpty(t)
			pause(2 * time.Second)
		}
	})
}

// TestRedisComesBackWithItsData: what it kept may lack the last second; its
// new identity makes it suspect.
func TestRedisComesBackWithItsData(t *testing.T) {
	faulted(t, testkit.RedisOptions{AppendOnly: true}, nil, func(d *deployment, _ *rush) {
		for range 2 {
			d.redis.Kill()
			pause(500 * time.Millisecond)
			d.redis.Restart(t)
			pause(2 * time.Second)
		}
	})
}

// TestRepliesOfRedisAreLost: scripts run and nobody hears of it.
func TestRepliesOfRedisAreLost(t *testing.T) {
	var proxy *testkit.Proxy
	faulted(t, testkit.RedisOptions{}, func(d *deployment) {
		proxy = testkit.StartProxy(t, d.redis.Addr())
		d.seats = "redis://" + proxy.Addr()
	}, func(_ *deployment, r *rush) {
		for range 3 {
			proxy.DropReplies()
			pause(time.Second)
			proxy.Cut()
			pause(100 * time.Millisecond)
			proxy.Clear()
			r.sells(backAgain)
		}
	})
}

// TestMariaDBIsKilledMidCommit: every acknowledged order is there afterwards.
func TestMariaDBIsKilledMidCommit(t *testing.T) {
	var maria *testkit.MariaDB
	faulted(t, testkit.RedisOptions{}, func(d *deployment) {
		maria = testkit.StartMariaDB(t, testkit.MariaDBOptions{})
		d.ledger, d.factsURL = maria.URL(), maria.URL()
	}, func(_ *deployment, r *rush) {
		for range 2 {
			maria.Kill()
			pause(time.Second)
			maria.Restart(t)
			r.sells(backAgain)
		}
	})
}

// TestConnectionsToMariaDBAreCut: at any point, after COMMIT too.
func TestConnectionsToMariaDBAreCut(t *testing.T) {
	var proxy *testkit.Proxy
	faulted(t, testkit.RedisOptions{}, func(d *deployment) {
		proxy = testkit.StartProxy(t, d.maria.Addr())
		d.ledger = strings.Replace(d.factsURL, d.maria.Addr(), proxy.Addr(), 1)
	}, func(_ *deployment, r *rush) {
		for i := range 6 {
			if i%2 == 0 {
				proxy.DropReplies()
				pause(200 * time.Millisecond)
			}
			proxy.Cut()
			pause(50 * time.Millisecond)
			proxy.Clear()
			pause(500 * time.Millisecond)
		}
		r.sells(backAgain)
	})
}

// TestNATSIsAway: for a minute, and then it has lost its store: sales go on,
// and whoever watches sees the house as it is.
func TestNATSIsAway(t *testing.T) {
	faulted(t, testkit.RedisOptions{}, nil, func(d *deployment, r *rush) {
		d.nats.Kill(0)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); pause(5 * time.Second) {
			r.sells(5 * time.Second)
		}
		d.nats.WipeStore(t, 0)
		d.nats.Restart(t, 0)
		pause(2 * time.Second)
	})
}

// TestRedisIsFull: holds are refused cleanly; what was held before is paid,
// cancelled, refunded and expires all the same.
func TestRedisIsFull(t *testing.T) {
	faulted(t, testkit.RedisOptions{}, nil, func(d *deployment, r *rush) {
		token := d.token("early", seatflow.RoleBuyer)
		brief := d.openShow(2, 10, map[string]any{"limitPerUser": 0, "holdSeconds": 6, "holdCapSeconds": 6})
		early := make([]order, 4) // to pay, to cancel, to refund, to leave
		for i := range early {
			a, err := d.final(t.Context(), token, fmt.Sprint("early-", i), brief, []int{i + 1}, nil)
			if err != nil || a.status != 201 || json.Unmarshal(a.body, &early[i]) != nil {
				t.Fatalf("%d %s %v", a.status, a.body, err)
			}
		}
		d.settle(token, early[2])

		d.redis.CLI(t, "config", "set", "maxmemory", "1mb")
		a, err := d.try(t.Context(), d.nodes[0].url, token, "POST", "/api/v1/orders", "late", map[string]any{"showId": brief, "seats": []int{9}})
		if err != nil || a.status != 503 || a.retry == "" {
			t.Errorf("a hold while Redis is full: %d %s %v", a.status, a.body, err)
		}
		d.settle(token, early[0])
		for what, path := range map[string]string{"cancel": "/api/v1/orders/" + early[1].No + "/cancel", "refund": "/api/v1/admin/orders/" + early[2].No + "/refund"} {
			as := token
			if what == "refund" {
				as = d.token("staff", seatflow.RoleStaff)
			}
			if a, err := d.try(t.Context(), d.nodes[1].url, as, "POST", path, "", nil); err != nil || a.status != 200 {
				t.Errorf("%s while Redis is full: %d %s %v", what, a.status, a.body, err)
			}
		}
		key := d.redis.CLI(t, "--raw", "keys", fmt.Sprintf("seatflow:{*}:show:%d:seats", brief))
		waitForOr(t, 30*time.Second, func() bool {
			return strings.HasPrefix(d.redis.CLI(t, "--raw", "get", strings.TrimSpace(key)), "2000")
		}, func() {
			t.Errorf("the house while Redis is full: %s; want the first seat sold, the next three free", d.redis.CLI(t, "--raw", "get", strings.TrimSpace(key)))
		})
		orders := r.orders.Load()
		pause(time.Second)
		if n := r.orders.Load() - orders; n > 0 {
			t.Errorf("%d orders were made while Redis was full", n)
		}
		d.redis.CLI(t, "config", "set", "maxmemory", "0")
	})
}

// TestBackendsAreSlowOrSilent: from a little latency to a black hole, on each.
// Deadlines are honoured, and a few seconds later all is well again.
func TestBackendsAreSlowOrSilent(t *testing.T) {
	for _, backend := range []string{"redis", "mariadb", "nats"} {
		t.Run(backend, func(t *testing.T) {
			var proxy *testkit.Proxy
			faulted(t, testkit.RedisOptions{}, func(d *deployment) {
				switch backend {
				case "redis":
					proxy = testkit.StartProxy(t, d.redis.Addr())
					d.seats = "redis://" + proxy.Addr()
				case "mariadb":
					proxy = testkit.StartProxy(t, d.maria.Addr())
					d.ledger = strings.Replace(d.factsURL, d.maria.Addr(), proxy.Addr(), 1)
				case "nats":
					proxy = testkit.StartProxy(t, strings.TrimPrefix(d.nats.URL(), "nats://"))
					d.bus = "nats://" + proxy.Addr()
				}
			}, func(_ *deployment, r *rush) {
				for _, latency := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
					proxy.Latency(latency)
					pause(2 * time.Second)
				}
				proxy.BlackHole()
				r.slowest.Store(0)
				pause(12 * time.Second) // what begins in the dark ends there: the deadlines of the parts add up
				proxy.Clear()
				r.sells(backAgain)
				if slowest := time.Duration(r.slowest.Load()); slowest > answerLimit {
					t.Errorf("a request took %v", slowest)
				}
			})
		})
	}
}
