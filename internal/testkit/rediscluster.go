package testkit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

const (
	clusterSlots = 16384
	// nodesFile is where a node of a Cluster keeps who it is.
	nodesFile = "nodes.conf"
)

// RedisCluster is a Redis Cluster of masters without replicas.
type RedisCluster struct {
	Nodes []*Redis
}

// StartRedisCluster starts a Cluster that ends with the test, the slots spread
// evenly in order. A node that is killed takes its slots along; the others go
// on serving theirs.
func StartRedisCluster(t testing.TB, masters int) *RedisCluster {
	t.Helper()
	requireBackend(t, "redis-server", "redis-cli")
	c, err := launch(func() (*RedisCluster, error) { return newRedisCluster(masters) })
	must(t, err)
	for _, n := range c.Nodes {
		n.proc.endWith(t)
		n.proc.showOnFailure(t)
	}
	return c
}

var oneRedisCluster shared[*RedisCluster]

// SharedRedisCluster returns the Cluster of three masters that the tests of a
// process share, empty. Slots stay where the test before left them. Tests that
// use it do not run in parallel.
func SharedRedisCluster(t testing.TB) *RedisCluster {
	t.Helper()
	requireBackend(t, "redis-server", "redis-cli")
	c, err := oneRedisCluster.get(func() (*RedisCluster, error) {
		return launch(func() (*RedisCluster, error) { return newRedisCluster(3) })
	})
	must(t, err)
	for _, n := range c.Nodes {
		must(t, n.revive())
	}
	must(t, await("the shared Redis Cluster", c.agrees))
	for _, n := range c.Nodes {
		must(t, n.empty())
		n.proc.showOnFailure(t)
	}
	return c
}

func newRedisCluster(masters int) (c *RedisCluster, err error) {
	if masters < 1 || masters > clusterSlots {
		return nil, fmt.Errorf("a Cluster of %d masters", masters)
	}
	// A node listens for the others on a second port.
	ports, err := freePorts(2 * masters)
	if err != nil {
		return nil, err
	}
	buses := ports[masters:]
	c = &RedisCluster{Nodes: make([]*Redis, masters)}
	defer func() {
		if err != nil {
			for _, n := range c.Nodes {
				if n != nil {
					n.Kill()
				}
			}
		}
	}()
	for i := range c.Nodes {
		c.Nodes[i], err = prepareRedis("redis-cluster", ports[i], RedisOptions{AppendOnly: true, Args: []string{
			"--cluster-enabled", "yes", "--cluster-config-file", nodesFile, "--cluster-port", strconv.Itoa(buses[i]),
			// A machine that is busy with tests must not take a slow node for
			// a dead one.
			"--cluster-node-timeout", "5000",
			"--cluster-require-full-coverage", "no",
		}})
		if err != nil {
			return c, err
		}
		c.Nodes[i].kept = []string{nodesFile}
	}
	if err := inParallel(masters, func(i int) error { return c.Nodes[i].proc.start(c.Nodes[i].ping) }); err != nil {
		return c, err
	}
	for i, n := range c.Nodes {
		first, last := i*clusterSlots/masters, (i+1)*clusterSlots/masters-1
		steps := [][]string{
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
			{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)},
		}
		for j := range i {
			steps = append(steps, []string{"CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(ports[j]), strconv.Itoa(buses[j])})
		}
		for _, s := range steps {
			if _, err := redisDo(n.Addr(), s...); err != nil {
				return c, err
			}
		}
	}
	if err := await("the nodes to agree", c.agrees); err != nil {
		return c, err
	}
	for i, n := range c.Nodes {
		n.settled = func() error { return c.settled(i) }
	}
	return c, nil
}

// agrees reports whether every node knows all others and who serves what.
func (c *RedisCluster) agrees() error {
	for i := range c.Nodes {
		if err := c.settled(i); err != nil {
			return err
		}
		nodes, err := redisText(c.Nodes[i].Addr(), "CLUSTER", "NODES")
		if err != nil {
			return err
		}
		if n := strings.Count(nodes, " connected"); n != len(c.Nodes) || strings.Contains(nodes, "fail") || strings.Contains(nodes, "handshake") {
			return fmt.Errorf("%s sees %s", c.Nodes[i].Addr(), nodes)
		}
		info, err := redisText(c.Nodes[i].Addr(), "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		if got := infoField(info, "cluster_slots_ok"); got != strconv.Itoa(clusterSlots) {
			return fmt.Errorf("%s: %s slots are served", c.Nodes[i].Addr(), got)
		}
	}
	return nil
}

// settled reports whether one node takes writes; it does not at once after a
// start.
func (c *RedisCluster) settled(i int) error {
	info, err := redisText(c.Nodes[i].Addr(), "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if state := infoField(info, "cluster_state"); state != "ok" {
		return fmt.Errorf("%s is in state %s", c.Nodes[i].Addr(), state)
	}
	return nil
}

// URLs is redis://host:port,host:port with every node.
func (c *RedisCluster) URLs() string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
	}
	return "redis://" + strings.Join(addrs, ",")
}

// Slot is the slot of a key.
func (c *RedisCluster) Slot(t testing.TB, key string) int {
	t.Helper()
	for _, n := range c.Nodes {
		reply, err := redisDo(n.Addr(), "CLUSTER", "KEYSLOT", key)
		if err != nil {
			continue // any node that runs can tell
		}
		if slot, ok := reply.(int64); ok {
			return int(slot)
		}
	}
	t.Fatal("no node of the Cluster answers")
	return 0
}

// Owner is the index of the node that serves a slot.
func (c *RedisCluster) Owner(t testing.TB, slot int) int {
	t.Helper()
	for i, n := range c.Nodes {
		if owns, err := n.owns(slot); err == nil && owns {
			return i
		}
	}
	t.Fatalf("no node serves slot %d", slot)
	return 0
}

// owns reports whether a node has a slot by its own account.
func (r *Redis) owns(slot int) (bool, error) {
	nodes, err := redisText(r.Addr(), "CLUSTER", "NODES")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(nodes) {
		f := strings.Fields(line)
		if len(f) < 8 || !strings.Contains(f[2], "myself") {
			continue
		}
		for _, r := range f[8:] {
			if strings.HasPrefix(r, "[") {
				continue // on its way
			}
			from, to, ok := strings.Cut(r, "-")
			if !ok {
				to = from
			}
			a, errA := strconv.Atoi(from)
			b, errB := strconv.Atoi(to)
			if err := errors.Join(errA, errB); err != nil {
				return false, err
			}
			if a <= slot && slot <= b {
				return true, nil
			}
		}
	}
	return false, nil
}

// MoveSlot moves a slot with its keys to another node, by the steps that an
// operator's tool takes; clients are served throughout, by redirections and,
// for commands over several keys of which some have moved, TRYAGAIN.
func (c *RedisCluster) MoveSlot(t testing.TB, slot int, to int) {
	t.Helper()
	from := c.Owner(t, slot)
	if from == to {
		t.Fatalf("slot %d is on node %d already", slot, to)
	}
	c.BeginMove(t, slot, to)
	c.MoveKeys(t, slot, from, to, -1)
	c.EndMove(t, slot, to)
}

// BeginMove is the first step of MoveSlot: from now on a key that is not on
// its old node is looked for on the new.
func (c *RedisCluster) BeginMove(t testing.TB, slot int, to int) {
	t.Helper()
	from := c.Owner(t, slot)
	s := strconv.Itoa(slot)
	c.do(t, to, "CLUSTER", "SETSLOT", s, "IMPORTING", c.id(t, from))
	c.do(t, from, "CLUSTER", "SETSLOT", s, "MIGRATING", c.id(t, to))
}

// MoveKeys is the second step: it moves up to most keys of the slot, or with
// -1 all, and returns how many it moved.
func (c *RedisCluster) MoveKeys(t testing.TB, slot, from, to, most int) int {
	t.Helper()
	const batch = 100
	target := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(c.Nodes[to].port), "", "0", "30000", "REPLACE", "KEYS"}
	moved := 0
	for moved != most {
		n := batch
		if most >= 0 {
			n = min(n, most-moved)
		}
		keys, _ := c.do(t, from, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), strconv.Itoa(n)).([]any)
		if len(keys) == 0 {
			break
		}
		args := append([]string(nil), target...)
		for _, k := range keys {
			args = append(args, fmt.Sprint(k))
		}
		c.do(t, from, args...)
		moved += len(keys)
	}
	return moved
}

// EndMove is the last step: the new node owns the slot. The old one must not
// hold keys of it any more.
func (c *RedisCluster) EndMove(t testing.TB, slot int, to int) {
	t.Helper()
	id := c.id(t, to)
	// The new owner first: were the old one told and the new one lost before
	// it heard, nobody would serve the slot.
	c.do(t, to, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", id)
	for i := range c.Nodes {
		if i != to && c.Nodes[i].proc.running() {
			c.do(t, i, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", id)
		}
	}
}

func (c *RedisCluster) id(t testing.TB, node int) string {
	t.Helper()
	id, err := redisText(c.Nodes[node].Addr(), "CLUSTER", "MYID")
	must(t, err)
	return id
}

func (c *RedisCluster) do(t testing.TB, node int, args ...string) any {
	t.Helper()
	reply, err := redisDo(c.Nodes[node].Addr(), args...)
	must(t, err)
	return reply
}
