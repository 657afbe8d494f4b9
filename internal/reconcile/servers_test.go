package reconcile_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"seatflow"
	"seatflow/internal/reconcile"
	"seatflow/internal/redisseats"
	"seatflow/internal/testkit"
)

// serversFor reports whether a test runs on Redis and MariaDB, by its name.
func serversFor(t testing.TB) bool { return strings.Contains(t.Name(), "OnServers") }

// TestOnServers runs every drift again on Redis and MariaDB.
func TestOnServers(t *testing.T) {
	testkit.SharedRedis(t) // or nothing here can run
	testkit.SharedMariaDB(t)
	for name, test := range map[string]func(*testing.T){
		"1 expired": TestExpiresWhatIsLongOverdue, "2 paid": TestSellsThePaid, "3 lost": TestRebuildsWhatIsLost,
		"4 orphan holds": TestReleasesOrphanHolds, "5 orphan sales": TestReleasesOrphanSales, "6 pending": TestHoldsAgainForThePending,
		"7 derived": TestDerivedIsSet, "mixed": TestAllMixed, "alarm": TestAlarmWhenTheLedgerMayHaveLostSomething,
		"limit": TestLimitOfARound, "overtaken": TestOvertakenRepairIsUndone, "paused": TestPausedBetweenHoldAndInsert,
		"limits of users": TestPurchaseLimitAfterRepairs, "recount": TestRecountsWhatDoesNotFit, "dry run": TestDryRun,
		"half seen": TestARebuildIsNeverHalfSeen,
	} {
		t.Run(name, test)
	}
}

// redisHouse is the view in Redis, with another hand on its keys.
type redisHouse struct {
	*redisseats.Store
	t      testing.TB
	server *testkit.Redis
}

func openRedis(r *rig) *redisHouse {
	r.t.Helper()
	server := testkit.SharedRedis(r.t)
	s, err := redisseats.Open(r.t.Context(), redisseats.Options{URL: server.URL(), Clock: r.clock})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Close)
	return &redisHouse{s, r.t, server}
}

// key names one of a show's keys.
func (h *redisHouse) key(ref seatflow.ShowRef, what string) string {
	return fmt.Sprintf("seatflow:{p%02d}:show:%d:%s", ref.Partition, ref.ID, what)
}

// ForceSeat writes a state and an owner and nothing else.
func (h *redisHouse) ForceSeat(ref seatflow.ShowRef, id seatflow.SeatID, state seatflow.SeatState, owner seatflow.Owner) bool {
	seat := strconv.Itoa(int(id))
	h.server.CLI(h.t, "SETRANGE", h.key(ref, "seats"), strconv.Itoa(int(id)-1), string(rune(state)))
	if owner.IsZero() {
		h.server.CLI(h.t, "HDEL", h.key(ref, "owners"), seat)
	} else {
		h.server.CLI(h.t, "HSET", h.key(ref, "owners"), seat, owner.String())
	}
	return true
}

// DropView deletes a show's keys, all at once.
func (h *redisHouse) DropView(ref seatflow.ShowRef) {
	del := []string{"DEL"}
	for _, what := range []string{"seats", "owners", "orders", "users", "meta"} {
		del = append(del, h.key(ref, what))
	}
	h.server.CLI(h.t, del...)
}

// people fills a house that is at peace.
func (r *rig) people() {
	r.t.Helper()
	r.buy("ann", 1, 2)
	r.buy("bob", 3)
	r.hold("cat", 4, 5)
	if _, err := r.svc.Block(r.t.Context(), staff, r.show, []seatflow.SeatID{9}, "camera"); err != nil {
		r.t.Fatal(err)
	}
	r.later()
	want(r.t, r.round(), nil)
}

// 3, key by key: a view that lost a part of itself is built anew, or mended
// where what is left says everything.
func TestOnServersHalfDeleted(t *testing.T) {
	for what, kind := range map[string]seatflow.Drift{"seats": seatflow.DriftView, "owners": seatflow.DriftView,
		"orders": seatflow.DriftView, "meta": seatflow.DriftView, "users": seatflow.DriftDerived} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, 20)
			r.people()
			h := r.store.(*redisHouse)
			h.server.CLI(t, "DEL", h.key(r.ref(), what))
			r.repaired(kind, 1, "")
		})
	}
}

// 3: another incarnation of the server may have forgotten something.
func TestOnServersRestarted(t *testing.T) {
	r := newRig(t, 20)
	server := testkit.StartRedis(t, testkit.RedisOptions{AppendOnly: true})
	s, err := redisseats.Open(t.Context(), redisseats.Options{URL: server.URL(), Clock: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	h := &redisHouse{s, t, server}
	r.store, r.seats.SeatStore = h, h
	if err := r.svc.Rebuild(t.Context(), r.show); err != nil {
		t.Fatal(err)
	}
	r.people()
	server.Kill()
	server.Restart(t)
	gen, rebuilt := r.generation(), 0
	for range 20 { // each connection that died says so once, and such a round did what it could
		rep, err := r.rec.Round(t.Context(), reconcile.RoundOptions{})
		rebuilt += rep.FixedBy(seatflow.DriftView)
		if err == nil {
			break
		}
	}
	if rebuilt != 1 || r.generation() == gen {
		t.Errorf("rebuilt %d times, from generation %d to %d", rebuilt, gen, r.generation())
	}
	r.settled()
}

// 7: a user's count, the counts of the house, a record without seats.
func TestOnServersCounts(t *testing.T) {
	for name, spoil := range map[string]func(h *redisHouse, ref seatflow.ShowRef){
		"a user's count":          func(h *redisHouse, ref seatflow.ShowRef) { h.server.CLI(h.t, "HSET", h.key(ref, "users"), "ann", "5") },
		"a user who has none":     func(h *redisHouse, ref seatflow.ShowRef) { h.server.CLI(h.t, "HSET", h.key(ref, "users"), "eve", "2") },
		"a user who is forgotten": func(h *redisHouse, ref seatflow.ShowRef) { h.server.CLI(h.t, "HDEL", h.key(ref, "users"), "bob") },
		"the counts by state": func(h *redisHouse, ref seatflow.ShowRef) {
			counts := strings.Fields(h.server.CLI(h.t, "HGET", h.key(ref, "meta"), "counts"))
			counts[1], counts[3] = counts[3], counts[1]
			h.server.CLI(h.t, "HSET", h.key(ref, "meta"), "counts", strings.Join(counts, " "))
		},
		"a record that nobody's seat is in": func(h *redisHouse, ref seatflow.ShowRef) {
			h.server.CLI(h.t, "HSET", h.key(ref, "orders"), stranger(3).String(), "1 17 1000 2000 3000 - eve")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20)
			r.people()
			spoil(r.store.(*redisHouse), r.ref())
			r.repaired(seatflow.DriftDerived, 1, "by hand")
		})
	}
}

// A wake-up that is lost shows nowhere and delays its hold until the check that
// needs none.
func TestOnServersLostWakeUp(t *testing.T) {
	r := newRig(t, 20)
	o := r.hold("ann", 1)
	h := r.store.(*redisHouse)
	h.server.CLI(t, "DEL", fmt.Sprintf("seatflow:{p%02d}:deadlines", r.ref().Partition))
	r.later()
	want(t, r.round(), nil)
	r.clock.Set(o.Deadline.Add(grace))
	r.guard()
	if r.order(o.No).State != seatflow.OrderPending {
		t.Fatal("somebody was woken")
	}

	r.clock.Advance(grace)
	r.repaired(seatflow.DriftExpired, 1, "wake-up was lost")
}
