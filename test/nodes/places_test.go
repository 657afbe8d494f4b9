package nodes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/testkit"
)

// TestAReplicaIsPromoted: while the crowd buys, Sentinel makes a replica the
// master, and the old one goes on taking writes that are lost. The identity
// changes, so views are rebuilt from the facts before anything more is sold or
// published, and no watcher applies a forked revision.
func TestAReplicaIsPromoted(t *testing.T) {
	sentinel := testkit.StartSentinel(t)
	faulted(t, testkit.RedisOptions{}, func(d *deployment) {
		d.seats, d.viewURL = sentinel.URL(), sentinel.URL()
	}, func(_ *deployment, r *rush) {
		for range 2 {
			sentinel.Failover(t)
			r.sells(backAgain)
			sentinel.Settle(t)
			r.sells(backAgain)
		}
	})
}

// TestSlotsMove: while the crowd buys, the slot of its show goes round the
// masters of a Cluster, and those of all other partitions change place.
func TestSlotsMove(t *testing.T) {
	cluster := testkit.StartRedisCluster(t, 3)
	slot := func(p int) int { return cluster.Slot(t, fmt.Sprintf("seatflow:{p%02d}:changes", p)) }
	faulted(t, testkit.RedisOptions{}, func(d *deployment) {
		d.seats, d.viewURL = cluster.URLs(), cluster.URLs()
	}, func(d *deployment, r *rush) {
		hot := slot(d.partition(r.show))
		for range 3 {
			cluster.MoveSlot(t, hot, (cluster.Owner(t, hot)+1)%3)
			r.sells(backAgain)
			pause(time.Second)
		}
		for p := range seatflow.Partitions {
			s := slot(p)
			cluster.MoveSlot(t, s, (cluster.Owner(t, s)+1)%3)
		}
		r.sells(backAgain)
	})
}

// TestAHotShowHasItsOwnPartition: before its sale a show moves away from its
// neighbours, on a Cluster to another master; those who watched it already find
// it again, and it sells out exactly.
func TestAHotShowHasItsOwnPartition(t *testing.T) {
	cluster := testkit.StartRedisCluster(t, 3)
	d := deploy(t, testkit.RedisOptions{})
	d.seats, d.viewURL = cluster.URLs(), cluster.URLs()
	d.start(3)
	opens := time.Now().Add(time.Hour).UTC()
	show := d.openShow(10, 10, map[string]any{"saleFrom": opens.Format(time.RFC3339)})
	first := d.show(show)
	neighbour := d.addShow(first.Hall.ID, first.Prices, nil)
	w := d.watch(show)
	waitFor(t, "the watcher's first snapshot", startLimit, func() bool { return w.position() != "" })
	before, seen := d.partition(show), w.position()
	if p := d.partition(neighbour); p != before {
		t.Fatalf("shows of a hall are in partitions %d and %d", before, p)
	}
	master := func(p int) int { return cluster.Owner(t, cluster.Slot(t, fmt.Sprintf("seatflow:{p%02d}:changes", p))) }
	own := (before + 1) % seatflow.Partitions
	for master(own) == master(before) {
		own = (own + 1) % seatflow.Partitions
	}
	path := fmt.Sprintf("/api/v1/admin/shows/%d", show)
	d.must(200, "PATCH", path, map[string]any{"partition": own}, nil)
	if p := d.partition(show); p != own || d.partition(neighbour) != before {
		t.Fatalf("the show is in partition %d, its neighbour in %d", p, d.partition(neighbour))
	}
	d.must(200, "PATCH", path, map[string]any{"saleFrom": time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)}, nil)
	d.must(400, "PATCH", path, map[string]any{"partition": before}, nil) // it is on sale now
	for _, nd := range d.nodes {
		waitFor(t, nd.name+" to know that the sale is open", startLimit, func() bool { return nd.show(show).OnSale })
	}
	waitFor(t, "the watcher to find the show again", startLimit, func() bool { return w.position() != seen })
	d.callers(1000, show, func(i int) []int { return []int{i%100 + 1} }, nil).want(t, 100, 900)
	d.callers(200, neighbour, func(i int) []int { return []int{i%100 + 1} }, nil).want(t, 100, 100)
	d.check(show, neighbour)
	w.converges()
}

type showInfo struct {
	Hall struct {
		ID int `json:"id"`
	} `json:"hall"`
	Prices    map[string]int `json:"prices"`
	Partition int            `json:"partition"`
	OnSale    bool           `json:"onSale"`
}

// show asks one node about a show.
func (n *node) show(id int) (info showInfo) {
	n.d.t.Helper()
	a, err := n.d.try(n.d.t.Context(), n.url, n.d.token("admin", seatflow.RoleAdmin), "GET", fmt.Sprintf("/api/v1/shows/%d", id), "", nil)
	if err != nil || a.status != 200 || json.Unmarshal(a.body, &info) != nil {
		n.d.t.Fatalf("show %d: %d %s %v", id, a.status, a.body, err)
	}
	return info
}

func (d *deployment) show(id int) showInfo { d.t.Helper(); return d.nodes[0].show(id) }

func (d *deployment) partition(show int) int { d.t.Helper(); return d.show(show).Partition }
