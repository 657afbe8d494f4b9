package redisseats

import (
	"context"
	"net"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// A replica that is promoted may have forgotten the last holds: it is another
// incarnation, whose views are rebuilt before they sell.
func TestPromotionMakesViewsSuspect(t *testing.T) {
	sentinel := testkit.StartSentinel(t)
	s, ref := house(t, Options{URL: sentinel.URL()}, 10)
	mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 1, 1, 2))
	before, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sentinel.Failover(t)
	ctx := within(t, 2*guard)
	after := another(ctx, t, s, before)
	var r seatflow.HoldReply
	err = settled(func() (err error) { r, err = s.Hold(ctx, ask(ref, 2, 3)); return err })
	if err != nil || r.Outcome != seatflow.OutcomeNotReady {
		t.Fatalf("a hold after the promotion: %+v, %v", r, err)
	}
	if err := settled(func() error { return s.Rebuild(ctx, seatflow.View{Show: ref, Generation: 2, Base: free(10)}) }); err != nil {
		t.Fatal(err)
	}
	if snap := mustSnapshot(t, s, ref); snap.Identity != after || text(snap.States) != "0000000000" {
		t.Errorf("the view is %q's: %s", snap.Identity, text(snap.States))
	}
}

func TestPromotionUnderLoad(t *testing.T) {
	sentinel := testkit.StartSentinel(t)
	stores := []*Store{open(t, Options{URL: sentinel.URL()}), open(t, Options{URL: sentinel.URL()})}
	f := newFacts(seatflow.ShowRef{ID: 42, Partition: 7, Until: time.Now().Add(24 * time.Hour)}, 1500)
	f.sellOut(t, stores, func(sold func() int64) {
		reach(t, sold, 300)
		sentinel.Failover(t)
		sentinel.Settle(t)
	})
	if f.rebuilt < 2 {
		t.Errorf("the view was rebuilt %d times", f.rebuilt)
	}
}

// A master that was demoted and is promoted again is the same process with the
// same scripts, and yet another incarnation.
func TestAPromotedServerThatWasAMasterBefore(t *testing.T) {
	redis, other := testkit.StartRedis(t, testkit.RedisOptions{}), testkit.StartRedis(t, testkit.RedisOptions{})
	s, ref := house(t, Options{URL: redis.URL()}, 10)
	mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 1, 1))
	before, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(other.Addr())
	redis.CLI(t, "REPLICAOF", host, port)
	if _, err := s.Hold(within(t, 300*time.Millisecond), ask(ref, 2, 2)); !isNotExecuted(err) {
		t.Errorf("a hold of a replica: %v", err)
	}
	redis.CLI(t, "REPLICAOF", "NO", "ONE")
	another(within(t, guard), t, s, before) // noticed by the watch, at the latest
	mustHold(t, s, seatflow.OutcomeNotReady, ask(ref, 2, 2))
}

// another waits until the store has another identity.
func another(ctx context.Context, t *testing.T, s *Store, before string) string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if after, err := s.Identity(ctx); ctx.Err() != nil {
			t.Fatalf("the identity is still %q, %v", after, err)
		} else if err == nil && after != before {
			return after
		}
		<-tick.C
	}
}
