package redisseats

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// What stands in the keys, read by other means than the store's.
func TestKeysHoldWhatTheDocumentSays(t *testing.T) {
	redis := testkit.SharedRedis(t)
	clock := testkit.NewFakeClock(today())
	s := open(t, Options{URL: redis.URL(), Clock: clock})
	now := clock.Now().UnixMilli()
	ref := seatflow.ShowRef{ID: 42, Partition: 7, Until: clock.Now().Add(24 * time.Hour)}
	view := seatflow.View{Show: ref, Generation: 3, Base: free(10)}
	view.Base[3] = seatflow.NoSeat
	view.Orders = []seatflow.OrderRecord{{Owner: order(9), User: "buyer", Seats: []seatflow.SeatID{9, 10}, State: seatflow.Sold, TakenAt: clock.Now()}}
	if err := s.Rebuild(t.Context(), view); err != nil {
		t.Fatal(err)
	}
	req := ask(ref, 1, 1, 2)
	req.KeyHash, req.Rate, req.Limit = seatflow.KeyHash{0xab, 15: 0xcd}, 5, 6
	mustHold(t, s, seatflow.OutcomeHeld, req)
	if _, err := s.Block(t.Context(), ref, order(7), []seatflow.SeatID{5}); err != nil {
		t.Fatal(err)
	}
	identity, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	raw := func(args ...string) string { return redis.CLI(t, args...) }
	hash := func(key string) map[string]string {
		lines := strings.Split(raw("HGETALL", key), "\n")
		m := make(map[string]string)
		for i := 0; i+1 < len(lines); i += 2 {
			m[lines[i]] = lines[i+1]
		}
		return m
	}
	const show = "seatflow:{p07}:show:42:"
	wantKeys := []string{"seatflow:{p07}:changes", "seatflow:{p07}:deadlines", show + "meta", show + "orders", show + "owners",
		show + "rate", show + "seats", show + "users"}
	if keys := slices.Sorted(slices.Values(strings.Split(raw("KEYS", "*"), "\n"))); !slices.Equal(keys, wantKeys) {
		t.Errorf("keys %q", keys)
	}
	if got := raw("GET", show+"seats"); got != "110-x00022" {
		t.Errorf("the house reads %q", got)
	}
	held, sold, block := order(1).String(), order(9).String(), order(7).String()
	if got, want := hash(show+"owners"), map[string]string{"1": held, "2": held, "5": block, "9": sold, "10": sold}; !maps.Equal(got, want) {
		t.Errorf("owners %q", got)
	}
	if got, want := hash(show+"orders"), map[string]string{
		held:  fmt.Sprintf("1 1,2 %d %d %d ab%028dcd user-1", now, now+900_000, now+1_800_000, 0),
		sold:  fmt.Sprintf("2 9,10 %d - - - buyer", now),
		block: fmt.Sprintf("x 5 %d - - - ", now),
	}; !maps.Equal(got, want) {
		t.Errorf("orders %q, want %q", got, want)
	}
	if got, want := hash(show+"users"), map[string]string{"user-1": "2", "buyer": "2"}; !maps.Equal(got, want) {
		t.Errorf("users %q", got)
	}
	if got, want := hash(show+"meta"), map[string]string{"identity": identity, "generation": "3", "revision": "2", "size": "10",
		"until": strconv.FormatInt(ref.Until.UnixMilli(), 10), "counts": "5 4 2 2 1 1 3 2"}; !maps.Equal(got, want) {
		t.Errorf("meta %q, want %q", got, want)
	}
	if got, want := raw("ZRANGE", "seatflow:{p07}:deadlines", "0", "-1", "WITHSCORES"), fmt.Sprintf("42:%s\n%d", held, now+900_000); got != want {
		t.Errorf("deadlines %q, want %q", got, want)
	}
	var changes []string
	for line := range strings.SplitSeq(raw("XRANGE", "seatflow:{p07}:changes", "-", "+"), "\n") {
		if strings.HasPrefix(line, "42 ") {
			changes = append(changes, line)
		}
	}
	if want := []string{fmt.Sprintf("42 3.0 rebuild %d ", now), fmt.Sprintf("42 3.1 hold %d 1+1,2", now),
		fmt.Sprintf("42 3.2 block %d x+5", now)}; !slices.Equal(changes, want) {
		t.Errorf("changes %q, want %q", changes, want)
	}
	if got := raw("LRANGE", show+"rate", "0", "-1"); got != strconv.FormatInt(now, 10) {
		t.Errorf("the rate's window holds %q", got)
	}
	// An hour after the end of its lifetime everything of the show is gone.
	ends := strconv.FormatInt(ref.Until.UnixMilli()+3_600_000, 10)
	for _, key := range wantKeys {
		if key == "seatflow:{p07}:deadlines" {
			continue // its members go with their holds
		}
		if got := raw("PEXPIRETIME", key); got != ends {
			t.Errorf("%s expires at %s, want %s", key, got, ends)
		}
	}
	// Keys that were empty for a while expire again, and later when told so.
	if _, err := s.Unsell(t.Context(), ref, order(9), nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 7} {
		_, errRelease := s.Release(t.Context(), ref, order(n), nil)
		_, errUnblock := s.Unblock(t.Context(), ref, order(n), nil)
		if errRelease != nil || errUnblock != nil {
			t.Fatal(errRelease, errUnblock)
		}
	}
	if got := raw("EXISTS", show+"owners", show+"orders", show+"users", "seatflow:{p07}:deadlines"); got != "0" {
		t.Errorf("%s keys of an empty house are left", got)
	}
	later := ref
	later.Until = ref.Until.Add(time.Hour)
	mustHold(t, s, seatflow.OutcomeHeld, ask(later, 20, 1))
	ends = strconv.FormatInt(later.Until.UnixMilli()+3_600_000, 10)
	for _, key := range []string{"seats", "owners", "orders", "users", "meta", "rate"} {
		if got := raw("PEXPIRETIME", show+key); got != ends {
			t.Errorf("%s expires at %s after the end was moved, want %s", key, got, ends)
		}
	}
}

// A view whose parts do not fit sells nothing and tells nothing.
func TestAMissingKeyMakesTheViewSuspect(t *testing.T) {
	for _, key := range []string{"seats", "owners", "orders", "users", "meta"} {
		t.Run(key, func(t *testing.T) {
			redis := testkit.SharedRedis(t)
			s, ref := house(t, Options{URL: redis.URL()}, 10)
			mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 1, 1, 2))
			redis.CLI(t, "DEL", "seatflow:{p07}:show:42:"+key)
			mustHold(t, s, seatflow.OutcomeNotReady, ask(ref, 2, 3))
			if _, err := s.Sell(t.Context(), ref, order(1)); err == nil {
				t.Error("a suspect view sold")
			}
			install(t, s, ref, 2, 10)
			mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 2, 3))
		})
	}
}

// Two servers' worth of operators agree on where a hall's keys are.
func TestWindowKeysAreSpread(t *testing.T) {
	tags := make(map[string]bool)
	for i := range 1000 {
		key := windowKey(fmt.Sprint("orders:user-", i))
		tag, rest, ok := strings.Cut(strings.TrimPrefix(key, "seatflow:{"), "}:window:")
		if !ok || rest != fmt.Sprint("orders:user-", i) {
			t.Fatalf("key %q", key)
		}
		tags[tag] = true
	}
	if len(tags) < 700 {
		t.Errorf("1000 names share %d tags", len(tags))
	}
}

// A stadium: nothing that scripts can hold only so much of breaks.
func TestAHouseOf60000(t *testing.T) {
	const n = 60_000
	s, ref := house(t, Options{URL: testkit.SharedRedis(t).URL()}, 1)
	view := seatflow.View{Show: ref, Generation: 2, Base: free(n)}
	for i := 1; i < n; i += 3 { // every third seat is left free
		view.Orders = append(view.Orders, seatflow.OrderRecord{Owner: order(i), User: seatflow.UserID(fmt.Sprint("u", i)), State: seatflow.Held,
			Seats: []seatflow.SeatID{seatflow.SeatID(i), seatflow.SeatID(i + 1)}, TakenAt: today(), Deadline: today().Add(-time.Second), Cap: today()})
	}
	if err := s.Rebuild(t.Context(), view); err != nil {
		t.Fatal(err)
	}
	reply := mustHold(t, s, seatflow.OutcomeHeld, ask(ref, n+1, 3, 30_000, n))
	if reply.Generation != 2 || reply.Revision != 1 {
		t.Errorf("reply %+v", reply)
	}
	snap := mustSnapshot(t, s, ref)
	if len(snap.States) != n || len(snap.Orders) != n/3+1 || len(snap.Owners) != 2*n/3+3 || len(snap.Users) != n/3+1 {
		t.Fatalf("%d seats, %d orders, %d owners, %d users", len(snap.States), len(snap.Orders), len(snap.Owners), len(snap.Users))
	}
	due, err := s.ClaimDue(t.Context(), 7, 2*claimMost+7, time.Minute)
	if err != nil || len(due) != 2*claimMost+7 {
		t.Fatalf("claimed %d, %v", len(due), err)
	}
	var all []seatflow.SeatID
	for i := 6; i < n-3; i += 3 {
		if i != 30_000 {
			all = append(all, seatflow.SeatID(i))
		}
	}
	block, err := s.Block(t.Context(), ref, order(n+2), all)
	if err != nil || len(block.Changed) != len(all) {
		t.Fatalf("blocked %d of %d, %v", len(block.Changed), len(all), err)
	}
	if unblock, err := s.Unblock(t.Context(), ref, order(n+2), nil); err != nil || len(unblock.Changed) != len(all) {
		t.Fatalf("freed %d of %d, %v", len(unblock.Changed), len(all), err)
	}
	if r, err := s.Repair(t.Context(), seatflow.RepairRequest{Show: ref, Generation: 2}); err != nil || r.Revision != 3 {
		t.Fatalf("recount %+v, %v", r, err)
	}
	install(t, s, ref, 3, n)
	if due, err = s.ClaimDue(t.Context(), 7, 10, 0); err != nil || len(due) != 0 {
		t.Fatalf("after a rebuild %d are due, %v", len(due), err)
	}
}
