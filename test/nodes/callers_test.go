package nodes_test

import (
	"testing"
	"time"

	"seatflow/internal/testkit"
)

// TestThousandCallers: exact counts, whichever nodes the callers ask.
func TestThousandCallers(t *testing.T) {
	d := deploy(t, testkit.RedisOptions{})
	d.start(3)
	one := d.openShow(5, 10, nil)
	d.callers(1000, one, func(int) []int { return []int{7} }, nil).want(t, 1, 999)

	hundred := d.openShow(10, 10, nil)
	d.callers(1000, hundred, func(i int) []int { return []int{i%100 + 1} }, nil).want(t, 100, 900)

	// Overlapping groups, never a part of one.
	groups := d.openShow(10, 10, nil)
	y := d.callers(1000, groups, func(i int) []int { return []int{i%98 + 1, i%98 + 2, i%98 + 3} }, nil)
	if n := len(y.orders); n < 20 || n > 33 {
		t.Errorf("%d groups of three in a hundred seats", n)
	}
	y.want(t, len(y.orders), 1000-len(y.orders))
	d.check(one, hundred, groups)
}

// TestThousandCallersWhileANodeDies: the same counts while one node is killed
// and comes back, and the partitions that it relayed change owner.
func TestThousandCallersWhileANodeDies(t *testing.T) {
	d := deploy(t, testkit.RedisOptions{})
	d.start(3)
	show := d.openShow(10, 10, nil)
	w := d.watch(show)
	y := d.callers(1000, show, func(i int) []int { return []int{i%100 + 1} }, func() {
		for _, nd := range d.nodes {
			pause(300 * time.Millisecond)
			nd.kill()
			pause(300 * time.Millisecond)
			nd.start()
			nd.ready()
		}
	})
	y.want(t, 100, 900)
	d.check(show)
	w.converges()
}
