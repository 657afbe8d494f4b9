package testkit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
)

// TestMoveSlotUnderLoad counts up in a slot that moves twice: no increment
// that was acknowledged may be lost, and none may fail.
func TestMoveSlotUnderLoad(t *testing.T) {
	c := SharedRedisCluster(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: strings.Split(strings.TrimPrefix(c.URLs(), "redis://"), ","), DisableCache: true, DisableRetry: true,
	})
	must(t, err)
	defer client.Close()

	const tag, keys = "{moving}", 250
	slot := c.Slot(t, tag)
	for i := range keys {
		must(t, client.Do(t.Context(), client.B().Set().Key(tag+strconv.Itoa(i)).Value(strconv.Itoa(i)).Build()).Error())
	}
	var acknowledged atomic.Int64
	stop, stopped := context.WithCancel(t.Context())
	done := make(chan error, 1)
	progress := make(chan struct{}, 1)
	go func() {
		defer close(done)
		for stop.Err() == nil {
			if err := client.Do(t.Context(), client.B().Incr().Key(tag+"count").Build()).Error(); err != nil {
				done <- err
				return
			}
			acknowledged.Add(1)
			select {
			case progress <- struct{}{}:
			default:
			}
		}
	}()
	<-progress
	for range 2 {
		from := c.Owner(t, slot)
		to := (from + 1) % len(c.Nodes)
		c.MoveSlot(t, slot, to)
		if got := c.Owner(t, slot); got != to {
			t.Errorf("the slot is on node %d, want %d", got, to)
		}
		left, err := redisDo(c.Nodes[from].Addr(), "CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot))
		must(t, err)
		if left != int64(0) {
			t.Errorf("%v keys stayed behind", left)
		}
		<-progress
		<-progress // one more than what was on its way
	}
	stopped()
	for err := range done {
		t.Error(err)
	}
	got, err := client.Do(t.Context(), client.B().Get().Key(tag+"count").Build()).AsInt64()
	must(t, err)
	if want := acknowledged.Load(); got != want || got == 0 {
		t.Errorf("counted %d, acknowledged %d", got, want)
	}
	for i := range keys {
		if got, err := client.Do(t.Context(), client.B().Get().Key(tag+strconv.Itoa(i)).Build()).ToString(); got != strconv.Itoa(i) {
			t.Errorf("key %d holds %q, %v", i, got, err)
		}
	}
}

func TestMoveSlotByHalves(t *testing.T) {
	c := SharedRedisCluster(t)
	const a, b = "{half}a", "{half}b"
	slot := c.Slot(t, a)
	from := c.Owner(t, slot)
	to := (from + 1) % len(c.Nodes)
	old := c.Nodes[from].Addr()
	for _, k := range []string{a, b} {
		_, err := redisDo(old, "SET", k, "v")
		must(t, err)
	}
	c.BeginMove(t, slot, to)
	if n := c.MoveKeys(t, slot, from, to, 1); n != 1 {
		t.Fatalf("%d keys moved, want 1", n)
	}
	var refusal redisError
	if _, err := redisDo(old, "MGET", a, b); !errors.As(err, &refusal) || !strings.HasPrefix(string(refusal), "TRYAGAIN") {
		t.Errorf("between two nodes the server replied %v, want TRYAGAIN", err)
	}
	if n := c.MoveKeys(t, slot, from, to, -1); n != 1 {
		t.Fatalf("%d keys moved, want the other", n)
	}
	c.EndMove(t, slot, to)
	reply, err := redisDo(c.Nodes[to].Addr(), "MGET", a, b)
	if err != nil || fmt.Sprint(reply) != "[v v]" {
		t.Errorf("after the move: %v, %v", reply, err)
	}
}

func TestSharedRedisClusterKillAndRestart(t *testing.T) {
	c := SharedRedisCluster(t)
	const key = "{other}k"
	node := c.Nodes[c.Owner(t, c.Slot(t, key))]
	_, err := redisDo(node.Addr(), "SET", key, "v")
	must(t, err)
	node.Restart(t)
	if got := get(t, node, key); got != "v" {
		t.Errorf("after a restart the key holds %v", got)
	}
	node.RestartEmpty(t)
	if got := get(t, node, key); got != nil {
		t.Errorf("after a restart with an empty folder the key holds %v", got)
	}
	_, err = redisDo(node.Addr(), "SET", key, "v")
	must(t, err)
	node.Kill()
	if again := SharedRedisCluster(t); again != c || get(t, node, key) != nil {
		t.Error("the shared Cluster did not come back whole and empty")
	}
}

func TestStartRedisCluster(t *testing.T) {
	t.Parallel()
	c := StartRedisCluster(t, 2)
	if len(c.Nodes) != 2 || c.Owner(t, 0) != 0 || c.Owner(t, clusterSlots-1) != 1 {
		t.Errorf("%d nodes; the first slot on %d, the last on %d", len(c.Nodes), c.Owner(t, 0), c.Owner(t, clusterSlots-1))
	}
}
