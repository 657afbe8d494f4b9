package redisseats

import (
	"flag"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/conformance"
	"seatflow/internal/testkit"
)

var (
	histories = flag.Int("histories", 1, "how many histories the tests of linearizability record")
	calls     = flag.Int("calls", 4000, "calls in each of them")
)

// linear records histories of a house while something is done to its server.
func linear(t *testing.T, url string, disturb func()) {
	t.Helper()
	const size = 40
	for seed := range uint64(*histories) {
		s := open(t, Options{URL: url})
		ref := seatflow.ShowRef{ID: seatflow.ShowID(42 + seed), Partition: 7, Until: time.Now().Add(24 * time.Hour).Truncate(time.Millisecond)}
		install(t, s, ref, 1, size)
		done, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-done:
					return
				case <-tick.C:
					disturb()
				}
			}
		}()
		got := conformance.Linearizable(t, conformance.History{Store: s, Show: ref, Seats: size, Clients: 16, Operations: *calls,
			Seed: seed, Patience: 2 * time.Second, Lost: 0.002})
		close(done)
		<-over
		s.Close()
		t.Logf("history %d: %+v", seed, got)
	}
}

// What concurrent callers are told is what one after the other would be (I5),
// though connections break under them.
func TestLinearizable(t *testing.T) {
	redis := testkit.SharedRedis(t)
	proxy := testkit.StartProxy(t, redis.Addr())
	linear(t, "redis://"+proxy.Addr(), proxy.Cut)
}

// The same while the house moves from master to master. Where it did not begin
// its view is not ready: every call there is refused, and changes nothing.
func TestLinearizableOnACluster(t *testing.T) {
	cluster := testkit.SharedRedisCluster(t)
	slot := cluster.Slot(t, changesKey(7))
	home := cluster.Owner(t, slot)
	linear(t, cluster.URLs(), func() {
		cluster.MoveSlot(t, slot, (home+1)%3)
		cluster.MoveSlot(t, slot, home)
	})
}
