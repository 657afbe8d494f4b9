package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"seatflow"
)

// actor stands in the ledger for what a reconciler does there.
var actor = seatflow.System("reconcile")

// pass is a round's work on one show.
type pass struct {
	r    *Reconciler
	rep  *Report
	show seatflow.ShowID

	rows      []seatflow.RepairRecord
	fixed     map[seatflow.Drift]int
	mine      map[seatflow.SeatID]sight // what this round set
	ended     map[seatflow.Owner]bool   // whom it expired
	doubted   string                    // why the last look wanted a rebuild
	recounted bool
	rebuilt   bool
}

// run looks at the show and repairs it until a look finds nothing that this
// round may do.
func (p *pass) run(ctx context.Context) error {
	var last *found
	for range looksMost {
		f, err := p.look(ctx)
		if err != nil {
			p.settle(last)
			return err
		}
		last = f
		again, err := p.act(ctx, f)
		if err != nil {
			p.settle(last)
			return err
		}
		if !again {
			break
		}
	}
	p.settle(last)
	p.outcome(last)
	return nil
}

// settle adds to the report what is left of the last look.
func (p *pass) settle(f *found) {
	for d, n := range p.fixed {
		p.rep.of(d).Fixed += n
		p.r.o.Metrics.Reconciled.Add(string(d), n)
	}
	left := map[seatflow.Drift]int{}
	if f != nil {
		for d, n := range f.over {
			left[d] += n
		}
		for d, n := range f.young {
			p.rep.of(d).Young += n
		}
		for i := range f.drifts { // what was repaired is taken out
			left[f.drifts[i].kind] += f.drifts[i].count()
		}
		if f.rebuild != "" {
			left[seatflow.DriftView]++
		}
		if f.misfit != "" {
			left[seatflow.DriftDerived]++
		}
		if f.snap != nil && f.alarm() {
			left[seatflow.DriftOrphanSales] += f.lost
		}
	}
	for _, d := range seatflow.Drifts {
		p.rep.of(d).Left += left[d]
		p.r.o.Metrics.Drift.Add(string(d), left[d]+p.fixed[d])
	}
}

func (p *pass) outcome(f *found) {
	outcome := "clean"
	switch {
	case f.snap != nil && f.alarm():
		outcome = "alarm"
	case len(f.drifts) > 0 || len(f.over) > 0 || f.rebuild != "" || f.misfit != "":
		outcome = "left"
	case len(p.fixed) > 0:
		outcome = "repaired"
	}
	p.r.o.Metrics.ReconcileShows.Inc(outcome)
}

// act repairs what a look found. again: the show is to be looked at once more.
func (p *pass) act(ctx context.Context, f *found) (again bool, err error) {
	switch {
	case f.ended || f.unbuilt:
		return false, nil
	case f.build:
		if p.rep.DryRun {
			return false, nil
		}
		return false, p.r.o.Booking.EnsureView(ctx, p.show) // the sale has opened: no drift
	case f.snap != nil && f.alarm():
		p.raise(ctx, f)
		return false, nil
	case f.rebuild != "":
		return p.rebuild(ctx, f)
	case f.misfit != "":
		return p.recount(ctx, f)
	}
	if p.rep.DryRun {
		for i := range f.drifts {
			p.would(ctx, &f.drifts[i])
		}
		return false, nil
	}
	if acted, err := p.expire(ctx, f); acted || err != nil {
		return true, err // the view has changed under what this look found
	}
	for _, kind := range []seatflow.Drift{seatflow.DriftPaidSeats, seatflow.DriftOrphanHolds, seatflow.DriftOrphanSales,
		seatflow.DriftPendingSeats, seatflow.DriftDerived} {
		more, err := p.repair(ctx, f, kind)
		if err != nil {
			return false, err
		}
		again = again || more
	}
	return again, nil
}

// raise tells that a person should look at a show before anything is done.
func (p *pass) raise(ctx context.Context, f *found) {
	a := Alarm{Show: p.show, Sold: f.sold, Unaccounted: f.lost,
		Why: fmt.Sprintf("at least %d of %d sold seats are of orders that the ledger has no account of; it may have lost them. Nothing was changed", f.lost, f.sold)}
	p.rep.Alarms = append(p.rep.Alarms, a)
	p.r.o.Log.ErrorContext(ctx, "reconcile: ALARM: the ledger does not know who bought seats that are sold; the show is left as it is",
		"show", p.show, "sold", f.sold, "unaccounted", f.lost)
}

// rebuild builds the view anew. A view that is there is looked at twice first:
// another node may be at it.
func (p *pass) rebuild(ctx context.Context, f *found) (again bool, err error) {
	missing := f.snap == nil
	if !missing && p.doubted != f.rebuild {
		p.doubted = f.rebuild
		return true, p.wait(ctx)
	}
	d := drift{kind: seatflow.DriftView, was: f.rebuild}
	if p.rep.DryRun {
		p.would(ctx, &d)
		return false, nil
	}
	if p.rebuilt {
		p.r.o.Log.WarnContext(ctx, "reconcile: a view that was just rebuilt is wrong again; left to the next round", "show", p.show, "why", f.rebuild)
		return false, nil
	}
	if p.rep.budget[seatflow.DriftView] == 0 {
		return false, nil
	}
	if missing {
		err = p.r.o.Booking.EnsureView(ctx, p.show)
	} else {
		err = p.r.o.Booking.Rebuild(ctx, p.show)
	}
	if err != nil {
		return false, fmt.Errorf("rebuild the view: %w", err)
	}
	p.rebuilt = true
	d.why = "the store forgot it, or a part of it"
	if !missing {
		d.why = "a rebuild that did not end, a plan that changed, or a store that was written to by hand"
	}
	p.done(ctx, &d, nil, 1, "built anew from the facts")
	clear(p.mine)
	return true, nil
}

// wait gives whoever is at the view a moment.
func (p *pass) wait(ctx context.Context) error {
	timer := time.NewTimer(p.r.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recount has the store derive its counts and records anew from what stands on
// the seats. If that does not help the view is rebuilt.
func (p *pass) recount(ctx context.Context, f *found) (again bool, err error) {
	d := drift{kind: seatflow.DriftDerived, was: "does not fit: " + f.misfit, why: "the store was written to by hand, or forgot a part"}
	switch {
	case p.rep.DryRun:
		p.would(ctx, &d)
		return false, nil
	case p.recounted:
		f.rebuild, f.misfit = "the view does not fit after a recount: "+f.misfit, ""
		p.doubted = f.rebuild
		return p.rebuild(ctx, f)
	case p.rep.budget[seatflow.DriftDerived] == 0:
		return false, nil
	}
	p.recounted = true
	_, err = p.r.o.Seats.Repair(ctx, seatflow.RepairRequest{Show: f.house.Show.Ref(), Generation: f.snap.Revision.Generation})
	switch {
	case errors.Is(err, seatflow.ErrStaleGeneration), errors.Is(err, seatflow.ErrNotReady):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("recount: %w", err)
	}
	p.done(ctx, &d, nil, 1, "recounted")
	return true, nil
}

// expire ends the orders that are past their time, as the guardian does.
func (p *pass) expire(ctx context.Context, f *found) (acted bool, err error) {
	var errs []error
	left := f.drifts[:0:0]
	for _, d := range f.drifts {
		if d.kind != seatflow.DriftExpired || p.rep.budget[d.kind] == 0 {
			left = append(left, d)
			continue
		}
		serr := p.r.o.Booking.Settle(ctx, *d.due)
		if errors.Is(serr, seatflow.ErrNotReady) {
			serr, acted = nil, true // the view went meanwhile; the next look finds that
		}
		now, err := p.r.o.Ledger.Order(ctx, d.owner.Order, "")
		switch {
		case err == nil && now.State == seatflow.OrderExpired:
			d.row, p.ended[d.owner] = &now, true
			p.done(ctx, &d, now.Seats(), 1, "expired")
			acted = true
		case err == nil && now.State != seatflow.OrderPending:
			acted = true // somebody else ended it in the same moment
		default:
			left = append(left, d)
		}
		errs = append(errs, serr, err)
	}
	f.drifts = left
	return acted, errors.Join(errs...)
}

// repair sets the seats that are wrong under one check, as many as the round
// may still repair. again: something was done, or what it went by has changed
// meanwhile.
func (p *pass) repair(ctx context.Context, f *found, kind seatflow.Drift) (again bool, err error) {
	var mine, rest []drift
	req := seatflow.RepairRequest{Show: f.house.Show.Ref(), Generation: f.snap.Revision.Generation}
	budget := p.rep.budget[kind]
	for _, d := range f.drifts {
		if d.kind != kind || budget < d.count() {
			rest = append(rest, d)
			continue
		}
		if kind == seatflow.DriftOrphanHolds && d.row == nil && d.owner.Order.Valid() {
			row, err := p.r.o.Ledger.VoidOrder(ctx, d.owner.Order, p.show, actor)
			if err != nil {
				return false, fmt.Errorf("make order %s void: %w", d.owner.Order, err)
			}
			if row.State != seatflow.OrderVoid {
				again = true // its insert came first
				continue
			}
			d.row, d.why = &row, "it was held and its order never came: the caller died, or slept past the grace time"
		}
		budget -= d.count()
		mine = append(mine, d)
		req.Seats = append(req.Seats, d.seats...)
	}
	f.drifts = rest
	if len(mine) == 0 {
		return again, nil
	}
	reply, err := p.r.o.Seats.Repair(ctx, req)
	switch {
	case errors.Is(err, seatflow.ErrStaleGeneration), errors.Is(err, seatflow.ErrNotReady):
		return true, nil
	case err != nil:
		f.drifts = append(f.drifts, mine...)
		return false, fmt.Errorf("repair: %w", err)
	}
	for i := range mine {
		d := &mine[i]
		var fixed []seatflow.SeatID
		for _, s := range d.seats {
			if slices.Contains(reply.Fixed, s.Seat) {
				fixed = append(fixed, s.Seat)
				p.mine[s.Seat] = sight{s.WantState, wantOwner(&s)}
			}
		}
		if len(fixed) > 0 {
			n, now := len(fixed), sight{d.seats[0].WantState, wantOwner(&d.seats[0])}.String()
			if d.whole {
				n, now = 1, "as the order says"
			}
			p.done(ctx, d, fixed, n, now)
		}
	}
	return true, nil
}

func wantOwner(s *seatflow.SeatRepair) seatflow.Owner {
	if s.WantState.Owned() {
		return s.Want.Owner
	}
	return seatflow.Owner{}
}

// done writes a repair down.
func (p *pass) done(ctx context.Context, d *drift, seats []seatflow.SeatID, n int, now string) {
	p.fixed[d.kind] += n
	p.rep.budget[d.kind] -= n
	row := p.note(ctx, d, seats, n, now)
	p.rows = append(p.rows, row)
	p.r.o.Log.LogAttrs(ctx, slog.LevelWarn, "reconcile: repaired", slog.String("check", string(d.kind)), slog.Int64("show", int64(p.show)),
		slog.String("order", string(row.Order)), slog.Any("seats", row.Seats), slog.String("was", row.Was), slog.String("now", row.Now),
		slog.String("cause", row.Cause), slog.String("round", p.rep.ID))
}

// would writes down what a dry run found.
func (p *pass) would(ctx context.Context, d *drift) {
	var seats []seatflow.SeatID
	now := "to be built anew"
	switch {
	case d.due != nil:
		seats, now = d.row.Seats(), "to be expired"
	case len(d.seats) > 0:
		for i := range d.seats {
			seats = append(seats, d.seats[i].Seat)
		}
		now = "to be " + sight{d.seats[0].WantState, wantOwner(&d.seats[0])}.String()
	case d.kind == seatflow.DriftDerived:
		now = "to be recounted"
	}
	p.rep.budget[d.kind] -= d.count()
	p.note(ctx, d, seats, d.count(), now)
}

func (p *pass) note(ctx context.Context, d *drift, seats []seatflow.SeatID, n int, now string) seatflow.RepairRecord {
	row := seatflow.RepairRecord{Round: p.rep.ID, Seq: len(p.rep.Repairs) + 1, At: p.r.o.Clock.Now(), Drift: d.kind, Show: p.show,
		Order: d.owner.Order, Seats: slices.Clone(seats), Was: d.was, Now: now, Count: n, Cause: p.cause(ctx, d)}
	if others := d.others(); others > 0 {
		row.Was += fmt.Sprintf(" and %d others", others)
	}
	row.Was = clip(row.Was)
	p.rep.Repairs = append(p.rep.Repairs, row)
	return row
}

// others counts the owners among a drift's seats beside the first.
func (d *drift) others() int {
	seen := map[sight]bool{}
	for i := range d.seats {
		seen[sight{d.seats[i].SawState, d.seats[i].SawOwner}] = true
	}
	return max(0, len(seen)-1)
}

// clip bounds a text of the audit table.
func clip(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
