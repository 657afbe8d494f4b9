package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"seatflow"
)

// Option changes how [View] looks.
type Option func(*look)

type look struct {
	looks  int
	pause  time.Duration // before the second look; doubles with each further one
	grace  time.Duration
	ensure func(context.Context, seatflow.ShowID) error
	wait   func(context.Context, time.Duration) error
}

// WithLooks sets how often a difference is looked at before it is believed,
// and the pause before the second look, which doubles with each further one.
func WithLooks(n int, pause time.Duration) Option {
	return func(l *look) { l.looks, l.pause = max(n, 1), pause }
}

// WithGrace tolerates differences of orders that were taken or changed less
// than d ago: the guardian settles them. They are counted as young.
func WithGrace(d time.Duration) Option { return func(l *look) { l.grace = d } }

// WithEnsure has a missing view built first, as its first use would; without
// it a missing view of a show that has orders is a violation.
func WithEnsure(build func(context.Context, seatflow.ShowID) error) Option {
	return func(l *look) { l.ensure = build }
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// difference is one way in which a view is not what the facts say.
type difference struct {
	text string
	at   time.Time // of the last change that either side knows; zero: unknown
}

// View checks I4 for one show: states, owners, order records, the users'
// counts, the counts by state and the generation of the view against what
// follows from the facts, and that no seat was lost or added.
func View(ctx context.Context, ledger Facts, seats seatflow.SeatStore, show seatflow.ShowID, opts ...Option) Report {
	l := look{looks: 6, pause: 50 * time.Millisecond, wait: pause}
	for _, o := range opts {
		o(&l)
	}
	c := newCheck(I4, fmt.Sprintf("view equals facts, show %d", show))
	l.view(ctx, &c, ledger, seats, show)
	return report(c)
}

func (l *look) view(ctx context.Context, c *Check, ledger Facts, seats seatflow.SeatStore, id seatflow.ShowID) {
	house, err := openHouse(ctx, ledger, id)
	if err != nil {
		c.violate("the show could not be read: %v", err)
		return
	}
	if l.ensure != nil {
		if err := l.ensure(ctx, id); err != nil {
			c.violate("the view could not be built: %v", err)
			return
		}
	}
	var stable map[string]difference
	for n := 0; ; n++ {
		found, err := l.once(ctx, c, house, ledger, seats)
		if err != nil {
			c.violate("%v", err)
			return
		}
		if n == 0 {
			stable = found
		}
		for key := range stable {
			if _, still := found[key]; !still {
				delete(stable, key)
			}
		}
		c.Counts["looks"] = int64(n + 1)
		if len(stable) == 0 || n+1 >= l.looks {
			break
		}
		if err := l.wait(ctx, l.pause<<min(n, 16)); err != nil {
			c.violate("stopped while looking again: %v", err)
			break
		}
	}
	keys := make([]string, 0, len(stable))
	for key := range stable {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		c.violate("%s", stable[key].text)
	}
}

func openHouse(ctx context.Context, catalog seatflow.Catalog, id seatflow.ShowID) (*seatflow.House, error) {
	show, err := catalog.Show(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("show %d: %w", id, err)
	}
	hall, err := catalog.Hall(ctx, show.Hall)
	if err != nil {
		return nil, fmt.Errorf("hall %d: %w", show.Hall, err)
	}
	plan, err := catalog.Plan(ctx, show.Hall, show.PlanVersion)
	if err != nil {
		return nil, fmt.Errorf("plan of hall %d, version %d: %w", show.Hall, show.PlanVersion, err)
	}
	return seatflow.NewHouse(show, hall, plan), nil
}

// once looks a single time: the view first and the facts after it, so that
// whatever the view was told of is in the facts that are read.
func (l *look) once(ctx context.Context, c *Check, house *seatflow.House, ledger Facts, seats seatflow.SeatStore) (map[string]difference, error) {
	found := map[string]difference{}
	snap, err := seats.Snapshot(ctx, house.Show.Ref(), seatflow.DetailOrders|seatflow.DetailUsers)
	missing := errors.Is(err, seatflow.ErrNotReady)
	if err != nil && !missing {
		return nil, fmt.Errorf("the view could not be read: %w", err)
	}
	facts, err := ledger.Facts(ctx, house.Show.ID)
	if err != nil {
		return nil, fmt.Errorf("the facts could not be read: %w", err)
	}
	// The sold seats and their owners are told from the facts, whatever the
	// view says.
	var sold, held, blocked int64
	for i := range facts.Orders {
		n := int64(len(facts.Orders[i].Seats()))
		switch facts.Orders[i].State {
		case seatflow.OrderPaid:
			sold += n
		case seatflow.OrderPending:
			held += n
		case seatflow.OrderBlocked:
			blocked += n
		}
	}
	c.Counts["seats sold"], c.Counts["seats held"], c.Counts["seats blocked"] = sold, held, blocked
	c.Counts["orders"] = int64(len(facts.Orders))
	c.Counts["young"] = 0
	c.Note = ""
	switch {
	case missing && len(facts.Orders) == 0:
		c.Note = "not built: nobody has a seat in it, and its first use builds it"
		return found, nil
	case missing:
		found["view"] = difference{text: fmt.Sprintf("the view is missing; the facts have %d orders in generation %d",
			len(facts.Orders), facts.Generation)}
		return found, nil
	case snap == nil || len(snap.States) == 0:
		if time.Now().Before(house.Show.Ref().Until) {
			found["view"] = difference{text: "the view is empty within its lifetime"}
		} else {
			c.Note = "its time is over: no view is expected"
		}
		return found, nil
	}
	compare(found, house, &facts, snap)
	c.Counts["seats"], c.Counts["seats available"] = 0, 0
	for _, s := range snap.States {
		if s != seatflow.NoSeat {
			c.Counts["seats"]++
		}
		if s == seatflow.Available {
			c.Counts["seats available"]++
		}
	}
	if l.grace > 0 {
		now := snap.At
		if now.IsZero() {
			now = time.Now()
		}
		for key, d := range found {
			if !d.at.IsZero() && now.Sub(d.at) < l.grace {
				delete(found, key)
				c.Counts["young"]++
			}
		}
	}
	return found, nil
}

// deadlineSlack is how far a ledger may round an instant.
const deadlineSlack = 2 * time.Millisecond

// compare adds to found whatever of the view does not follow from the facts.
// Keys name the difference with the owners on both sides, so that two looks
// at a busy seat never mistake two differences for one.
func compare(found map[string]difference, house *seatflow.House, facts *seatflow.Facts, snap *seatflow.Snapshot) {
	add := func(at time.Time, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		found[text] = difference{text, at}
	}
	if snap.Revision.Generation != facts.Generation {
		add(time.Time{}, "the view is of generation %d, the facts of %d", snap.Revision.Generation, facts.Generation)
	}
	want := house.Base()
	owners := make(map[seatflow.SeatID]seatflow.Owner)
	users := make(map[seatflow.UserID]int)
	records := make(map[seatflow.Owner]*seatflow.OrderRecord, len(facts.Orders))
	changed := make(map[seatflow.Owner]time.Time, len(facts.Orders))
	for i := range facts.Orders {
		o := &facts.Orders[i]
		r, has := o.Record()
		if !has {
			add(o.UpdatedAt, "order %s (%s) is among the facts but has no seats", o.No, o.State)
			continue
		}
		records[r.Owner] = &r
		changed[r.Owner] = o.UpdatedAt
		for _, id := range r.Seats {
			if id < 1 || int(id) > len(want) || want[id-1] == seatflow.NoSeat {
				add(o.UpdatedAt, "order %s has seat %d, which is not in this show", o.No, id)
				continue
			}
			if other, taken := owners[id]; taken {
				add(time.Time{}, "seat %d belongs to %s and to %s", id, other, r.Owner)
			}
			want[id-1] = r.State
			owners[id] = r.Owner
		}
		if o.Kind != seatflow.KindBlock {
			users[r.User] += len(r.Seats)
		}
	}

	seen := make(map[seatflow.Owner]*seatflow.OrderRecord, len(snap.Orders))
	for i := range snap.Orders {
		r := &snap.Orders[i]
		seen[r.Owner] = r
		if changed[r.Owner].Before(r.TakenAt) {
			changed[r.Owner] = r.TakenAt
		}
	}
	latest := func(a, b seatflow.Owner) time.Time {
		if changed[a].After(changed[b]) {
			return changed[a]
		}
		return changed[b]
	}

	if len(snap.States) != len(want) {
		add(time.Time{}, "the view has %d places, the plan %d", len(snap.States), len(want))
	}
	var have, ought [256]int
	for i := range min(len(snap.States), len(want)) {
		id := seatflow.SeatID(i + 1)
		got := snap.States[i]
		have[got]++
		ought[want[i]]++
		if !got.Valid() {
			add(time.Time{}, "seat %d has the unknown state %q", id, byte(got))
			continue
		}
		if got != want[i] || snap.Owners[id] != owners[id] {
			add(latest(snap.Owners[id], owners[id]), "seat %d is %s of %s in the view, %s of %s by the facts",
				id, got, name(snap.Owners[id]), want[i], name(owners[id]))
		}
	}
	for id, owner := range snap.Owners {
		if id < 1 || int(id) > len(snap.States) {
			add(time.Time{}, "the view gives seat %d, which does not exist, to %s", id, owner)
		}
	}
	// Conservation: whatever moved, no chair came or went.
	total := have[seatflow.Available] + have[seatflow.Held] + have[seatflow.Sold] + have[seatflow.Blocked] + have[seatflow.NoSeat]
	if total != len(want) {
		add(time.Time{}, "%d seats are available, held, sold, blocked or none, of %d places", total, len(want))
	}
	if have[seatflow.NoSeat] != ought[seatflow.NoSeat] {
		add(time.Time{}, "%d places of the view have no seat, %d of the plan", have[seatflow.NoSeat], ought[seatflow.NoSeat])
	}

	for owner, r := range records {
		got, ok := seen[owner]
		if !ok {
			add(changed[owner], "the view has no record of %s (%s)", owner, r.State)
			continue
		}
		compareRecord(add, changed[owner], r, got)
	}
	for owner, r := range seen {
		if records[owner] == nil {
			add(changed[owner], "the view has a record of %s (%s), the facts have no such order", owner, r.State)
		}
	}
	compareUsers(add, users, snap.Users, snap.Orders, facts.Orders)
}

func name(o seatflow.Owner) string {
	if o.IsZero() {
		return "nobody"
	}
	return o.String()
}

func compareRecord(add func(time.Time, string, ...any), at time.Time, want, got *seatflow.OrderRecord) {
	o := want.Owner
	if got.State != want.State {
		add(at, "%s is %s in the view, %s by the facts", o, got.State, want.State)
	}
	// A block's record names no user until a rebuild reads it from the facts.
	if got.User != want.User && want.State != seatflow.Blocked {
		add(at, "%s is of user %s in the view, of %s by the facts", o, got.User, want.User)
	}
	if got.KeyHash != want.KeyHash {
		add(at, "%s has key hash %x in the view, %x by the facts", o, got.KeyHash, want.KeyHash)
	}
	if !slices.Equal(got.Seats, want.Seats) {
		add(at, "%s has seats %v in the view, %v by the facts", o, got.Seats, want.Seats)
	}
	if want.State == seatflow.Held && got.Deadline.Sub(want.Deadline).Abs() > deadlineSlack {
		add(at, "%s ends at %s in the view, at %s by the facts", o,
			got.Deadline.UTC().Format(time.RFC3339Nano), want.Deadline.UTC().Format(time.RFC3339Nano))
	}
}

// compareUsers holds the counts that purchase limits are decided by against
// the facts. A count's last change is the newest of its user's orders.
func compareUsers(add func(time.Time, string, ...any), want, got map[seatflow.UserID]int, records []seatflow.OrderRecord, orders []seatflow.Order) {
	var newest map[seatflow.UserID]time.Time
	at := func(user seatflow.UserID) time.Time {
		if newest == nil {
			newest = map[seatflow.UserID]time.Time{}
			for i := range records {
				if r := &records[i]; r.TakenAt.After(newest[r.User]) {
					newest[r.User] = r.TakenAt
				}
			}
			for i := range orders {
				if o := &orders[i]; o.UpdatedAt.After(newest[o.User]) {
					newest[o.User] = o.UpdatedAt
				}
			}
		}
		return newest[user]
	}
	for user, n := range want {
		if got[user] != n {
			add(at(user), "user %s has %d seats in the view, %d by the facts", user, got[user], n)
		}
	}
	for user, n := range got {
		if _, known := want[user]; !known && n != 0 {
			add(at(user), "user %s has %d seats in the view, none by the facts", user, n)
		}
	}
}
