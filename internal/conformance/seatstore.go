package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"seatflow"
)

// Seats is an empty seat store under test and the strings it hangs on.
type Seats struct {
	Store seatflow.SeatStore
	// Now reads the store's clock, which must stand still between two moves,
	// at a whole millisecond: the suite compares instants.
	Now func() time.Time
	// Advance moves the store's clock on.
	Advance func(time.Duration)
	// ChangesKept is how many changes of a partition the store was told to
	// keep; 0 if it keeps all of them, and then nothing is ever trimmed.
	ChangesKept int
	// Identity names the incarnation of the part of the store that has a
	// partition; nil if the store has one identity for all of them.
	Identity func(ctx context.Context, partition seatflow.Partition) (string, error)
}

// SeatFactory makes an empty store. It cleans up after itself by t.Cleanup.
type SeatFactory func(t TB) Seats

// SeatStore checks that a backend is a seatflow.SeatStore, by every sentence
// of the contract.
func SeatStore(t *testing.T, factory SeatFactory) {
	for _, c := range seatCases() {
		t.Run(c.name, func(t *testing.T) { c.check(t, factory) })
	}
}

// seatCase is one part of the contract.
type seatCase struct {
	name string
	run  func(t *seatTest)
}

// check runs a case on a fresh store and then looks whether what is left
// holds together.
func (c seatCase) check(t TB, factory SeatFactory) {
	st := &seatTest{TB: t, Seats: factory(t), views: make(map[seatflow.ShowRef]map[seatflow.Generation]seatflow.View)}
	c.run(st)
	st.auditAll()
}

func seatCases() []seatCase {
	return slices.Concat(holdCases, verbCases, wholeCases, feedCases, lifeCases, raceCases)
}

// seatTest is a running case: a store, and every view it was given.
type seatTest struct {
	TB
	Seats
	views map[seatflow.ShowRef]map[seatflow.Generation]seatflow.View
}

// Names for orders, users and shows; any number will do.

func order(n int) seatflow.Owner {
	return seatflow.Owner{Order: seatflow.OrderNo(fmt.Sprintf("%026d", n)), Attempt: 1}
}

func user(n int) seatflow.UserID { return seatflow.UserID(fmt.Sprintf("user-%d", n)) }

func seats(ids ...seatflow.SeatID) []seatflow.SeatID { return ids }

// none is a list of no seats, which is not the same as no list.
var none = []seatflow.SeatID{}

// span returns the seats from a to b.
func span(a, b seatflow.SeatID) []seatflow.SeatID {
	var ids []seatflow.SeatID
	for id := a; id <= b; id++ {
		ids = append(ids, id)
	}
	return ids
}

const (
	holdFor = 15 * time.Minute
	holdCap = 30 * time.Minute
)

// ref names show n; all shows of a test are in one partition unless said
// otherwise, and live for a day.
func (t *seatTest) ref(n int) seatflow.ShowRef {
	return seatflow.ShowRef{ID: seatflow.ShowID(n), Partition: 7, Until: t.Now().Add(24 * time.Hour)}
}

// base is a house of n free seats but for the gaps, which are no seats.
func base(n int, gaps ...seatflow.SeatID) []seatflow.SeatState {
	states := slices.Repeat([]seatflow.SeatState{seatflow.Available}, n)
	for _, id := range gaps {
		states[id-1] = seatflow.NoSeat
	}
	return states
}

// house installs show 1 with n free seats.
func (t *seatTest) house(n int, gaps ...seatflow.SeatID) seatflow.ShowRef {
	t.Helper()
	ref := t.ref(1)
	t.install(seatflow.View{Show: ref, Generation: 1, Base: base(n, gaps...)})
	return ref
}

// install rebuilds a view and remembers it for the audit.
func (t *seatTest) install(view seatflow.View) {
	t.Helper()
	if err := t.rebuild(view); err != nil {
		t.Fatalf("rebuild of generation %d: %v", view.Generation, err)
	}
}

func (t *seatTest) rebuild(view seatflow.View) error {
	if t.views[view.Show] == nil {
		t.views[view.Show] = make(map[seatflow.Generation]seatflow.View)
	}
	if _, known := t.views[view.Show][view.Generation]; !known {
		t.views[view.Show][view.Generation] = view
	}
	return t.Store.Rebuild(t.Context(), view)
}

// record is an order that has seats, as the ledger would tell it.
func (t *seatTest) record(n int, state seatflow.SeatState, ids ...seatflow.SeatID) seatflow.OrderRecord {
	r := seatflow.OrderRecord{Owner: order(n), User: user(n), Seats: ids, State: state, TakenAt: t.Now()}
	switch state {
	case seatflow.Held:
		r.Deadline, r.Cap = t.Now().Add(holdFor), t.Now().Add(holdCap)
	case seatflow.Sold:
		r.Cap = t.Now().Add(holdCap)
	}
	return r
}

// ask is the usual request of order and user n.
func ask(ref seatflow.ShowRef, n int, ids ...seatflow.SeatID) seatflow.HoldRequest {
	return seatflow.HoldRequest{Show: ref, Owner: order(n), User: user(n), Seats: ids, For: holdFor, Cap: holdCap}
}

// hold asks and expects an outcome.
func (t *seatTest) hold(want seatflow.HoldOutcome, req seatflow.HoldRequest) seatflow.HoldReply {
	t.Helper()
	reply, err := t.Store.Hold(t.Context(), req)
	if err != nil {
		t.Fatalf("hold of %v by %s: %v", req.Seats, req.Owner, err)
	}
	if reply.Outcome != want {
		t.Fatalf("hold of %v by %s: %v, want %v (reply %+v)", req.Seats, req.Owner, reply.Outcome, want, reply)
	}
	return reply
}

func (t *seatTest) sell(want int, ref seatflow.ShowRef, n int) {
	t.Helper()
	reply, err := t.Store.Sell(t.Context(), ref, order(n))
	if err != nil || reply.Sold != want {
		t.Fatalf("sell of order %d: %d sold, %v; want %d", n, reply.Sold, err, want)
	}
}

func (t *seatTest) release(want []seatflow.SeatID, ref seatflow.ShowRef, n int, ids []seatflow.SeatID) {
	t.Helper()
	reply, err := t.Store.Release(t.Context(), ref, order(n), ids)
	if err != nil || !slices.Equal(reply.Released, want) {
		t.Fatalf("release of %v of order %d: freed %v, %v; want %v", ids, n, reply.Released, err, want)
	}
}

func (t *seatTest) unsell(want []seatflow.SeatID, ref seatflow.ShowRef, n int, ids []seatflow.SeatID) {
	t.Helper()
	reply, err := t.Store.Unsell(t.Context(), ref, order(n), ids)
	if err != nil || !slices.Equal(reply.Released, want) {
		t.Fatalf("unsell of %v of order %d: freed %v, %v; want %v", ids, n, reply.Released, err, want)
	}
}

func (t *seatTest) block(changed, refused []seatflow.SeatID, ref seatflow.ShowRef, n int, ids []seatflow.SeatID) {
	t.Helper()
	reply, err := t.Store.Block(t.Context(), ref, order(n), ids)
	if err != nil || !slices.Equal(reply.Changed, changed) || !slices.Equal(reply.Refused, refused) {
		t.Fatalf("block %d of %v: %+v, %v; want %v changed and %v refused", n, ids, reply, err, changed, refused)
	}
}

func (t *seatTest) unblock(changed, refused []seatflow.SeatID, ref seatflow.ShowRef, n int, ids []seatflow.SeatID) {
	t.Helper()
	reply, err := t.Store.Unblock(t.Context(), ref, order(n), ids)
	if err != nil || !slices.Equal(reply.Changed, changed) || !slices.Equal(reply.Refused, refused) {
		t.Fatalf("unblock %d of %v: %+v, %v; want %v changed and %v refused", n, ids, reply, err, changed, refused)
	}
}

func (t *seatTest) repair(ref seatflow.ShowRef, generation seatflow.Generation, fixes ...seatflow.SeatRepair) seatflow.RepairReply {
	t.Helper()
	reply, err := t.Store.Repair(t.Context(), seatflow.RepairRequest{Show: ref, Generation: generation, Seats: fixes})
	if err != nil {
		t.Fatalf("repair %+v: %v", fixes, err)
	}
	return reply
}

// due claims and expects orders, in the order of their wake-ups.
func (t *seatTest) due(lease time.Duration, want ...int) []seatflow.DueHold {
	t.Helper()
	due, err := t.Store.ClaimDue(t.Context(), 7, 100, lease)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	if len(due) != len(want) {
		t.Fatalf("claimed %+v, want orders %v", due, want)
	}
	for i, n := range want {
		if due[i].Owner != order(n) {
			t.Fatalf("claimed %+v, want orders %v", due, want)
		}
	}
	return due
}

// snap reads a whole view.
func (t *seatTest) snap(ref seatflow.ShowRef) *seatflow.Snapshot {
	t.Helper()
	snap, err := t.Store.Snapshot(t.Context(), ref, seatflow.DetailOrders|seatflow.DetailUsers)
	if err != nil {
		t.Fatalf("snapshot of show %d: %v", ref.ID, err)
	}
	return snap
}

// identity names the incarnation of the store that snapshots and changes of a
// partition must carry.
func (t *seatTest) identity(partition seatflow.Partition) string {
	t.Helper()
	whole, err := t.Store.Identity(t.Context())
	t.must(err)
	if whole == "" {
		t.Fatalf("a store without an identity")
	}
	if t.Identity == nil {
		return whole
	}
	part, err := t.Identity(t.Context(), partition)
	t.must(err)
	return part
}

// text expects the states of a house, one character a seat.
func (t *seatTest) text(ref seatflow.ShowRef, want string) {
	t.Helper()
	if got := text(t.snap(ref).States); got != want {
		t.Fatalf("the house reads %s, want %s", got, want)
	}
}

func text(states []seatflow.SeatState) string {
	b := make([]byte, len(states))
	for i, s := range states {
		b[i] = byte(s)
	}
	return string(b)
}

// effective expects how many seats user n has, by the view's own count.
func (t *seatTest) effective(ref seatflow.ShowRef, n, want int) {
	t.Helper()
	if got := t.snap(ref).Users[user(n)]; got != want {
		t.Fatalf("user %d has %d seats in effect, want %d", n, got, want)
	}
}

// unchanged expects that nothing happens to a view, not even a revision.
func (t *seatTest) unchanged(ref seatflow.ShowRef, what string, do func()) {
	t.Helper()
	before := t.snap(ref)
	do()
	if d := diffSnapshots(before, t.snap(ref)); d != "" {
		t.Fatalf("%s changed the view: %s", what, d)
	}
}

// fails expects an error of a kind; nil is any error.
func (t *seatTest) fails(what string, err, kind error) {
	t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) {
		t.Fatalf("%s: error %v, want %v", what, err, kind)
	}
}
