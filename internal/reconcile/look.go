package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"seatflow"
	"seatflow/internal/booking"
)

// nobody is an owner that no order can be: its number is never given. Asked to
// release seats it changes nothing, and hears whether the view is usable.
var nobody = seatflow.Owner{Order: "00000000000000000000000000", Attempt: 1}

// sight is what stands on a seat.
type sight struct {
	state seatflow.SeatState
	owner seatflow.Owner
}

func (s sight) String() string {
	if s.owner.IsZero() {
		if s.state.Owned() {
			return s.state.String() + " by nobody"
		}
		return s.state.String()
	}
	if !s.state.Owned() {
		return s.state.String() + " though " + s.owner.String() + "'s"
	}
	return s.state.String() + " by " + s.owner.String()
}

// sightings remembers since when seats have stood as they do, by the store's
// clock, where nothing else tells their age.
type sightings struct {
	generation seatflow.Generation
	at         map[seatflow.SeatID]sighting
}

type sighting struct {
	sight
	since time.Time
}

// drift is a difference that is old enough to be repaired, or several of one
// order under the same check.
type drift struct {
	kind  seatflow.Drift
	owner seatflow.Owner // whose seats they should be, or are by mistake
	row   *seatflow.Order
	due   *seatflow.DueHold     // check 1
	seats []seatflow.SeatRepair // each one counts, unless whole
	whole bool                  // the seats are right; their order's record is not, and counts as one
	was   string
	why   string // the cause, if this look knows it
}

// count is how far a drift counts.
func (d *drift) count() int {
	if d.due != nil || d.whole {
		return 1
	}
	return len(d.seats)
}

// found is what one look at a show found.
type found struct {
	ended   bool // its views have outlived their time
	unbuilt bool // no view was ever built, and none is needed yet
	build   bool // no view was ever built, and it is time

	house *seatflow.House
	snap  *seatflow.Snapshot
	facts seatflow.Facts

	rebuild string  // why the view cannot be mended; "" if it can
	drifts  []drift // by check, in the order in which they are repaired
	young   map[seatflow.Drift]int
	over    map[seatflow.Drift]int // old enough, beyond what the round may still repair
	misfit  string                 // the view's parts do not fit each other, though its seats are right
	sold    int                    // seats sold in the view
	lost    int                    // of them, those that the ledger has no account of
}

// look compares a show's view with its facts.
type look struct {
	p   *pass
	f   *found
	now time.Time // of this process, for the age of rows

	states  []seatflow.SeatState // as they should be
	owners  map[seatflow.SeatID]seatflow.Owner
	orders  map[seatflow.Owner]*seatflow.Order // of the facts, by owner
	records map[seatflow.Owner]*seatflow.OrderRecord
	listed  map[seatflow.SeatID]seatflow.Owner // whose record lists a seat that says no owner
	rows    map[seatflow.OrderNo]*seatflow.Order
	groups  map[groupKey]int       // into found.drifts
	queued  map[seatflow.Drift]int // how far they count
	dirty   map[seatflow.Owner]bool
	next    map[seatflow.SeatID]sighting
}

type groupKey struct {
	kind  seatflow.Drift
	owner seatflow.Owner
}

// look reads a show, the view first.
func (p *pass) look(ctx context.Context) (*found, error) {
	f := &found{young: map[seatflow.Drift]int{}, over: map[seatflow.Drift]int{}}
	house, err := p.r.o.Houses.House(ctx, p.show)
	if err != nil {
		return nil, err
	}
	// The time is read before either store, so that no row seems older than it
	// was when it was read, however long that takes.
	ref, now := house.Show.Ref(), p.r.o.Clock.Now()
	snap, err := p.r.o.Seats.Snapshot(ctx, ref, seatflow.DetailOrders|seatflow.DetailUsers)
	missing := errors.Is(err, seatflow.ErrNotReady)
	if err != nil && !missing {
		return nil, fmt.Errorf("read the view: %w", err)
	}
	if f.facts, err = p.r.o.Ledger.Facts(ctx, p.show); err != nil {
		return nil, fmt.Errorf("read the facts: %w", err)
	}
	if f.facts.Show.Version != house.Show.Version && f.facts.Show.PlanVersion == house.Show.PlanVersion {
		house = seatflow.NewHouse(f.facts.Show, house.Hall, house.Plan) // the cached one is behind
	}
	f.house, f.snap = house, snap
	switch {
	case missing:
		p.r.missing(f)
		return f, nil
	case snap == nil || len(snap.States) == 0 && !snap.At.Before(ref.Until):
		f.ended = true
		return f, nil
	}
	l := &look{p: p, f: f, now: now}
	if err := l.compare(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// missing decides what a view that is not there means.
func (r *Reconciler) missing(f *found) {
	show, now := &f.facts.Show, r.o.Clock.Now()
	onSale := show.Status == seatflow.ShowPublished && !now.Before(show.SaleFrom) && now.Before(show.SaleUntil)
	switch {
	case f.facts.Generation <= 1: // the first rebuild raises it to 2
		f.build, f.unbuilt = onSale, !onSale
	case onSale || len(f.facts.Orders) > 0:
		f.rebuild = "the view is missing"
	default:
		f.unbuilt = true // nobody has a seat and nobody may take one
	}
}

func (l *look) compare(ctx context.Context) error {
	l.expect()
	l.f.rebuild = l.beyondMending()
	if l.comparable() {
		if err := l.account(ctx); err != nil {
			return err
		}
	}
	if l.f.rebuild != "" || l.f.alarm() {
		return nil
	}
	l.overdue()
	if err := l.seats(ctx); err != nil {
		return err
	}
	l.orderRecords()
	l.p.r.remember(l.p.show, sightings{l.f.snap.Revision.Generation, l.next})
	if len(l.f.drifts) > 0 || len(l.f.young) > 0 || len(l.f.over) > 0 {
		return nil
	}
	return l.fit(ctx)
}

// expect derives from the facts what the view should be.
func (l *look) expect() {
	view := booking.ViewOf(l.f.house, l.f.facts)
	l.states, l.owners = view.Base, make(map[seatflow.SeatID]seatflow.Owner)
	for i := range view.Orders {
		rec := &view.Orders[i]
		for _, id := range rec.Seats {
			if id >= 1 && int(id) <= len(l.states) {
				l.states[id-1], l.owners[id] = rec.State, rec.Owner
			}
		}
	}
	l.orders = make(map[seatflow.Owner]*seatflow.Order, len(l.f.facts.Orders))
	for i := range l.f.facts.Orders {
		o := &l.f.facts.Orders[i]
		l.orders[o.Owner()] = o
	}
	l.records = make(map[seatflow.Owner]*seatflow.OrderRecord, len(l.f.snap.Orders))
	l.listed = map[seatflow.SeatID]seatflow.Owner{}
	for i := range l.f.snap.Orders {
		rec := &l.f.snap.Orders[i]
		l.records[rec.Owner] = rec
		for _, id := range rec.Seats {
			if l.f.snap.Owners[id].IsZero() {
				l.listed[id] = rec.Owner
			}
		}
	}
	l.rows, l.groups, l.queued = map[seatflow.OrderNo]*seatflow.Order{}, map[groupKey]int{}, map[seatflow.Drift]int{}
	l.dirty, l.next = map[seatflow.Owner]bool{}, map[seatflow.SeatID]sighting{}
}

// comparable reports whether the view's seats are those of the plan.
func (l *look) comparable() bool { return len(l.f.snap.States) == len(l.states) }

// beyondMending says why a view cannot be repaired seat by seat, or "".
func (l *look) beyondMending() string {
	snap := l.f.snap
	if snap.Revision.Generation != l.f.facts.Generation {
		return fmt.Sprintf("the view is of generation %d, the facts of %d", snap.Revision.Generation, l.f.facts.Generation)
	}
	if !l.comparable() {
		return fmt.Sprintf("the view has %d places, the plan %d", len(snap.States), len(l.states))
	}
	owned := 0
	for i, s := range snap.States {
		switch {
		case !s.Valid():
			return fmt.Sprintf("seat %d has the unknown state %q", i+1, byte(s))
		case (s == seatflow.NoSeat) != (l.states[i] == seatflow.NoSeat):
			return fmt.Sprintf("seat %d is %s in the view, %s by the plan and its prices", i+1, s, l.states[i])
		case s.Owned():
			owned++
		}
	}
	for id := range snap.Owners {
		if id < 1 || int(id) > len(snap.States) {
			return fmt.Sprintf("the view gives seat %d, which does not exist, to somebody", id)
		}
	}
	// A single order may have lost its record by itself.
	if owned > 0 && len(l.orders) > 1 && (len(snap.Owners) == 0 || len(snap.Orders) == 0) {
		return "a part of the view is gone"
	}
	return ""
}

// account counts the sold seats and those that the ledger has no account of:
// it knows of no order that has them or gave them back. What a refund left
// behind is accounted for. It stops where there are enough for an alarm.
func (l *look) account(ctx context.Context) error {
	var astray []seatflow.SeatID
	for i, s := range l.f.snap.States {
		if s != seatflow.Sold {
			continue
		}
		l.f.sold++
		if l.states[i] != seatflow.Sold {
			astray = append(astray, seatflow.SeatID(i+1))
		}
	}
	for _, id := range astray {
		if l.f.rebuild == "" { // else a rebuild would take them all, of whatever age
			old, err := l.oldEnough(ctx, id, l.orders[l.owners[id]], true)
			if err != nil {
				return err
			}
			if !old {
				continue
			}
		}
		row, err := l.row(ctx, l.ownerOf(id).Order)
		if err != nil {
			return err
		}
		if !gaveBack(row, id) {
			l.f.lost++
		}
		if l.f.alarm() {
			return nil
		}
	}
	return nil
}

// alarm reports whether more than one in a hundred sold seats are unaccounted
// for.
func (f *found) alarm() bool { return f.lost*100 > f.sold }

// gaveBack reports whether a row says that its order had a seat and gave it
// back.
func gaveBack(row *seatflow.Order, id seatflow.SeatID) bool {
	if row == nil {
		return false
	}
	for i := range row.Items {
		if row.Items[i].Seat == id {
			return row.Items[i].Refunded || row.State == seatflow.OrderRefunded
		}
	}
	return false
}

// row reads an order, nil when it has no row, once a look.
func (l *look) row(ctx context.Context, no seatflow.OrderNo) (*seatflow.Order, error) {
	if row, known := l.rows[no]; known || no == "" {
		return row, nil
	}
	order, err := l.p.r.o.Ledger.Order(ctx, no, "")
	switch {
	case errors.Is(err, seatflow.ErrNotFound):
		l.rows[no] = nil
	case err != nil:
		return nil, fmt.Errorf("read order %s: %w", no, err)
	default:
		l.rows[no] = &order
	}
	return l.rows[no], nil
}

// ownerOf is a seat's owner in the view: the one that stands there, or the one
// whose record lists the seat.
func (l *look) ownerOf(id seatflow.SeatID) seatflow.Owner {
	if owner := l.f.snap.Owners[id]; !owner.IsZero() {
		return owner
	}
	return l.listed[id]
}

// sight is what stands on a seat.
func (l *look) sight(id seatflow.SeatID) sight {
	return sight{l.f.snap.States[id-1], l.f.snap.Owners[id]}
}

// overdue finds pending orders long past their deadlines. Whether one is due
// is a matter of the store's clock alone.
func (l *look) overdue() {
	for i := range l.f.facts.Orders {
		o := &l.f.facts.Orders[i]
		if o.State != seatflow.OrderPending || o.Deadline.IsZero() || l.f.snap.At.Sub(o.Deadline) <= overdue {
			continue
		}
		l.f.drifts = append(l.f.drifts, drift{kind: seatflow.DriftExpired, owner: o.Owner(), row: o,
			was: "pending until " + o.Deadline.UTC().Format(time.RFC3339),
			due: &seatflow.DueHold{Show: l.p.show, Owner: o.Owner(), User: o.User, TakenAt: o.TakenAt, Deadline: o.Deadline,
				Age: l.f.snap.At.Sub(o.TakenAt)}})
	}
}

// seats compares seat by seat. What a seat should be decides under which check
// a difference falls, and where it should be free, what it is.
func (l *look) seats(ctx context.Context) error {
	for i := range l.states {
		id := seatflow.SeatID(i + 1)
		is, want := l.sight(id), sight{l.states[i], l.owners[id]}
		if is == want || want.state == seatflow.NoSeat {
			continue
		}
		order := l.orders[want.owner]
		l.dirty[want.owner], l.dirty[is.owner] = true, true
		kind := seatflow.DriftDerived
		switch {
		case want.state == seatflow.Sold:
			kind = seatflow.DriftPaidSeats
		case want.state == seatflow.Held:
			kind = seatflow.DriftPendingSeats
			if !order.Deadline.After(l.f.snap.At) {
				l.f.young[kind]++ // it is about to be expired
				continue
			}
		case want.state == seatflow.Available && is.state == seatflow.Held:
			kind = seatflow.DriftOrphanHolds
		case want.state == seatflow.Available && is.state == seatflow.Sold:
			kind = seatflow.DriftOrphanSales
		}
		within := l.queued[kind] < l.p.rep.budget[kind]
		old, err := l.oldEnough(ctx, id, order, within)
		if err != nil {
			return err
		}
		switch {
		case !old:
			l.f.young[kind]++
			continue
		case !within:
			l.f.over[kind]++
			continue
		}
		if err := l.wrong(ctx, kind, id, is, want, order); err != nil {
			return err
		}
	}
	return nil
}

// wrong adds a seat to what is to be repaired.
func (l *look) wrong(ctx context.Context, kind seatflow.Drift, id seatflow.SeatID, is, want sight, order *seatflow.Order) error {
	fix := seatflow.SeatRepair{Seat: id, SawState: is.state, SawOwner: is.owner, WantState: want.state}
	owner, row := want.owner, order
	if order != nil {
		fix.Want, _ = order.Record()
	} else {
		owner = l.ownerOf(id)
		var err error
		if row, err = l.row(ctx, owner.Order); err != nil {
			return err
		}
		if has(row, owner, id) {
			return nil // it came in after the facts were read
		}
	}
	key := groupKey{kind, owner}
	n, known := l.groups[key]
	if !known {
		n = len(l.f.drifts)
		l.groups[key] = n
		l.f.drifts = append(l.f.drifts, drift{kind: kind, owner: owner, row: row, was: is.String()})
	}
	l.f.drifts[n].seats = append(l.f.drifts[n].seats, fix)
	l.queued[kind]++
	return nil
}

// has reports whether a row says that an owner has a seat now.
func has(row *seatflow.Order, owner seatflow.Owner, id seatflow.SeatID) bool {
	return row != nil && row.State.Active() && row.Owner() == owner && slices.Contains(row.Seats(), id)
}

// oldEnough reports whether the last change to a seat, on both sides, is older
// than the grace time. order is the one that should have it, or nil. ask: the
// ledger may be asked about the one that has it.
func (l *look) oldEnough(ctx context.Context, id seatflow.SeatID, order *seatflow.Order, ask bool) (bool, error) {
	is := l.sight(id)
	if mine, ok := l.p.mine[id]; ok && mine == is {
		return true, nil // this round set it, and nobody since
	}
	if order == nil && l.p.ended[l.ownerOf(id)] {
		return true, nil // this round expired it
	}
	young, unknown := false, false
	judge := func(age time.Duration, known bool) {
		if known = known && age >= 0; known {
			young = young || age < l.p.r.grace()
		}
		unknown = unknown || !known
	}
	if order != nil {
		judge(l.now.Sub(order.UpdatedAt), true)
	}
	owner := l.ownerOf(id)
	switch {
	case !owner.IsZero() && (order == nil || owner != order.Owner()):
		rec := l.records[owner]
		if rec != nil {
			judge(l.f.snap.At.Sub(rec.TakenAt), !rec.TakenAt.IsZero())
		}
		if young || !ask {
			unknown = unknown || rec == nil
			break
		}
		row, err := l.row(ctx, owner.Order)
		if err != nil {
			return false, err
		}
		if row != nil {
			judge(l.now.Sub(row.UpdatedAt), true)
		}
		unknown = unknown || rec == nil && row == nil
	case owner.IsZero() && order == nil:
		unknown = true
	}
	if !unknown {
		return !young, nil
	}
	since := l.f.snap.At
	if s, ok := l.p.r.sighted(l.p.show, l.f.snap.Revision.Generation, id); ok && s.sight == is && !s.since.After(since) {
		since = s.since
	}
	l.next[id] = sighting{is, since}
	return !young && l.f.snap.At.Sub(since) >= l.p.r.grace(), nil
}

func (r *Reconciler) sighted(show seatflow.ShowID, gen seatflow.Generation, id seatflow.SeatID) (sighting, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen[show]
	s, ok := seen.at[id]
	return s, ok && seen.generation == gen
}

// remember keeps what had no age, for the next look.
func (r *Reconciler) remember(show seatflow.ShowID, s sightings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(s.at) == 0 {
		delete(r.seen, show)
	} else {
		r.seen[show] = s
	}
}

// slack is how far stores may round an instant.
const slack = 2 * time.Millisecond

// orderRecords finds orders whose seats are right and whose record is not.
func (l *look) orderRecords() {
	for i := range l.f.facts.Orders {
		o := &l.f.facts.Orders[i]
		want, ok := o.Record()
		if !ok || l.dirty[want.Owner] || !l.inHouse(want.Seats) || want.State == seatflow.Held && !want.Deadline.After(l.f.snap.At) {
			continue
		}
		what := differs(&want, l.records[want.Owner])
		if what == "" {
			continue
		}
		rec := l.records[want.Owner]
		if l.now.Sub(o.UpdatedAt) < l.p.r.grace() ||
			rec != nil && l.f.snap.At.Sub(rec.TakenAt) >= 0 && l.f.snap.At.Sub(rec.TakenAt) < l.p.r.grace() {
			l.f.young[seatflow.DriftDerived]++
			continue
		}
		if l.queued[seatflow.DriftDerived] >= l.p.rep.budget[seatflow.DriftDerived] {
			l.f.over[seatflow.DriftDerived]++
			continue
		}
		l.queued[seatflow.DriftDerived]++
		d := drift{kind: seatflow.DriftDerived, owner: want.Owner, row: o, whole: true, was: "record of " + want.Owner.String() + ": " + what}
		for _, id := range want.Seats {
			d.seats = append(d.seats, seatflow.SeatRepair{Seat: id, SawState: want.State, SawOwner: want.Owner,
				WantState: want.State, Want: want})
		}
		l.f.drifts = append(l.f.drifts, d)
	}
}

// inHouse reports whether all seats have a place in the view.
func (l *look) inHouse(seats []seatflow.SeatID) bool {
	for _, id := range seats {
		if id < 1 || int(id) > len(l.states) {
			return false
		}
	}
	return true
}

// differs says what of an order's record is not as it should be, or "".
func differs(want, got *seatflow.OrderRecord) string {
	away := func(a, b time.Time) bool { return a.Sub(b).Abs() > slack }
	switch {
	case got == nil:
		return "missing"
	case got.State != want.State:
		return "state " + got.State.String()
	case want.State != seatflow.Blocked && got.User != want.User: // a block's names nobody until a rebuild
		return "user " + string(got.User)
	case got.KeyHash != want.KeyHash:
		return "another key"
	case !slices.Equal(got.Seats, want.Seats):
		return "seats " + seatList(got.Seats)
	case want.State != seatflow.Held:
		return ""
	case away(got.Deadline, want.Deadline):
		return "deadline " + got.Deadline.UTC().Format(time.RFC3339Nano)
	case away(got.Cap, want.Cap):
		return "cap " + got.Cap.UTC().Format(time.RFC3339Nano)
	case away(got.TakenAt, want.TakenAt):
		return "taken at " + got.TakenAt.UTC().Format(time.RFC3339Nano)
	}
	return ""
}
