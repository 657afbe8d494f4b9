package conformance

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"seatflow"
)

// recorder is a TB that remembers failures instead of failing.
type recorder struct {
	ctx      context.Context
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Logf(string, ...any)      {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

// observe runs a check and returns what it complained of.
func observe(ctx context.Context, check func(t TB)) []string {
	r := &recorder{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	r.mu.Lock() // what a broken store keeps waiting may complain later
	defer r.mu.Unlock()
	return slices.Clone(r.failures)
}

// broken wraps a store that is right into one that is not.
func broken(wrap func(m *Model, now func() time.Time) seatflow.SeatStore) SeatFactory {
	return func(t TB) Seats {
		s := newModel(t)
		s.Store = wrap(s.Store.(*Model), s.Now)
		return s
	}
}

// override is a store of which single methods are replaced.
type override struct {
	*Model
	hold     func(context.Context, seatflow.HoldRequest) (seatflow.HoldReply, error)
	extend   func(context.Context, seatflow.ShowRef, seatflow.Owner, time.Time) (seatflow.ExtendReply, error)
	sell     func(context.Context, seatflow.ShowRef, seatflow.Owner) (seatflow.SellReply, error)
	release  func(context.Context, seatflow.ShowRef, seatflow.Owner, []seatflow.SeatID) (seatflow.ReleaseReply, error)
	claim    func(context.Context, seatflow.Partition, int, time.Duration) ([]seatflow.DueHold, error)
	changes  func(context.Context, seatflow.ChangesRequest) (seatflow.ChangeBatch, error)
	snapshot func(context.Context, seatflow.ShowRef, seatflow.Detail) (*seatflow.Snapshot, error)
	rebuild  func(context.Context, seatflow.View) error
	repair   func(context.Context, seatflow.RepairRequest) (seatflow.RepairReply, error)
}

func (o *override) Hold(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
	if o.hold != nil {
		return o.hold(ctx, req)
	}
	return o.Model.Hold(ctx, req)
}

func (o *override) Extend(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, d time.Time) (seatflow.ExtendReply, error) {
	if o.extend != nil {
		return o.extend(ctx, ref, owner, d)
	}
	return o.Model.Extend(ctx, ref, owner, d)
}

func (o *override) Sell(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner) (seatflow.SellReply, error) {
	if o.sell != nil {
		return o.sell(ctx, ref, owner)
	}
	return o.Model.Sell(ctx, ref, owner)
}

func (o *override) Release(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, ids []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	if o.release != nil {
		return o.release(ctx, ref, owner, ids)
	}
	return o.Model.Release(ctx, ref, owner, ids)
}

func (o *override) ClaimDue(ctx context.Context, p seatflow.Partition, limit int, lease time.Duration) ([]seatflow.DueHold, error) {
	if o.claim != nil {
		return o.claim(ctx, p, limit, lease)
	}
	return o.Model.ClaimDue(ctx, p, limit, lease)
}

func (o *override) Changes(ctx context.Context, req seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	if o.changes != nil {
		return o.changes(ctx, req)
	}
	return o.Model.Changes(ctx, req)
}

func (o *override) Snapshot(ctx context.Context, ref seatflow.ShowRef, d seatflow.Detail) (*seatflow.Snapshot, error) {
	if o.snapshot != nil {
		return o.snapshot(ctx, ref, d)
	}
	return o.Model.Snapshot(ctx, ref, d)
}

func (o *override) Rebuild(ctx context.Context, view seatflow.View) error {
	if o.rebuild != nil {
		return o.rebuild(ctx, view)
	}
	return o.Model.Rebuild(ctx, view)
}

func (o *override) Repair(ctx context.Context, req seatflow.RepairRequest) (seatflow.RepairReply, error) {
	if o.repair != nil {
		return o.repair(ctx, req)
	}
	return o.Model.Repair(ctx, req)
}

// breakage is a fault that people make, and the case that must see it.
type breakage struct {
	name   string
	seenBy string // a case of the suite
	apart  bool   // and the differential runner sees it too
	wrap   func(m *Model, now func() time.Time) seatflow.SeatStore
}

var breakages = []breakage{
	{"releases whatever is listed, whoever asks", "release", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, release: func(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, ids []seatflow.SeatID) (seatflow.ReleaseReply, error) {
			snap, err := m.Snapshot(ctx, ref, seatflow.DetailOrders)
			if err == nil && len(ids) > 0 && snap.Owners[ids[0]] != (seatflow.Owner{}) {
				owner = snap.Owners[ids[0]]
			}
			return m.Release(ctx, ref, owner, ids)
		}}
	}},
	{"sells seats of an earlier attempt", "sell", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, sell: func(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner) (seatflow.SellReply, error) {
			owner.Attempt = 1
			return m.Sell(ctx, ref, owner)
		}}
	}},
	{"counts one seat too many as sold", "sell", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, sell: func(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner) (seatflow.SellReply, error) {
			r, err := m.Sell(ctx, ref, owner)
			if r.Sold > 0 {
				r.Sold++
			}
			return r, err
		}}
	}},
	{"forgets every seventh change", "changes/content", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, changes: func(ctx context.Context, req seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
			b, err := m.Changes(ctx, req)
			b.Changes = slices.DeleteFunc(b.Changes, func(c seatflow.Change) bool { return c.Revision.Number%7 == 6 })
			return b, err
		}}
	}},
	{"takes the seats that are left of a group", "hold/all or none", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, hold: func(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
			r, err := m.Hold(ctx, req)
			if r.Outcome == seatflow.OutcomeTaken && len(r.Taken) < len(req.Seats) {
				part := req
				part.Seats = slices.DeleteFunc(slices.Clone(req.Seats), func(id seatflow.SeatID) bool { return slices.Contains(r.Taken, id) })
				_, err = m.Hold(ctx, part)
			}
			return r, err
		}}
	}},
	{"names only the first seat that is taken", "hold/all or none", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, hold: func(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
			r, err := m.Hold(ctx, req)
			r.Taken = r.Taken[:min(1, len(r.Taken))]
			return r, err
		}}
	}},
	{"limits orders, not users", "hold/limit", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, hold: func(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
			if len(req.Seats) <= req.Limit {
				req.Limit = 0
			}
			return m.Hold(ctx, req)
		}}
	}},
	{"restarts the countdown on a repeat", "hold/repeat", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, hold: func(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
			r, err := m.Hold(ctx, req)
			if r.Repeat {
				e, err := m.Extend(ctx, req.Show, req.Owner, now().Add(req.For))
				r.Deadline = e.Deadline
				return r, err
			}
			return r, err
		}}
	}},
	{"tells a retry that its own seats are taken", "hold/yours", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, hold: func(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
			req.KeyHash = seatflow.KeyHash{}
			return m.Hold(ctx, req)
		}}
	}},
	{"lets everybody in", "hold/rate window", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, hold: func(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
			req.Rate = 0
			return m.Hold(ctx, req)
		}}
	}},
	{"frees holds by itself when their time is over", "hold/past its deadline", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, hold: func(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
			if snap, err := m.Snapshot(ctx, req.Show, seatflow.DetailOrders); err == nil {
				for _, o := range snap.Orders {
					if o.State == seatflow.Held && o.Deadline.Before(now()) {
						if _, err := m.Release(ctx, req.Show, o.Owner, nil); err != nil {
							return seatflow.HoldReply{}, err
						}
					}
				}
			}
			return m.Hold(ctx, req)
		}}
	}},
	{"extends for ever", "extend", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, extend: func(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, d time.Time) (seatflow.ExtendReply, error) {
			r, err := m.Extend(ctx, ref, owner, d)
			if r.Extended && r.Deadline.Before(d) {
				r.Deadline = d
			}
			return r, err
		}}
	}},
	{"claims without a lease", "due/claims", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, claim: func(ctx context.Context, p seatflow.Partition, limit int, _ time.Duration) ([]seatflow.DueHold, error) {
			return m.ClaimDue(ctx, p, limit, 0)
		}}
	}},
	{"claims once and never again", "due/claims", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, claim: func(ctx context.Context, p seatflow.Partition, limit int, _ time.Duration) ([]seatflow.DueHold, error) {
			return m.ClaimDue(ctx, p, limit, 1000*time.Hour)
		}}
	}},
	{"installs what is stale", "rebuild/fences", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, rebuild: func(ctx context.Context, view seatflow.View) error {
			if snap, err := m.Snapshot(ctx, view.Show, 0); err == nil && view.Generation <= snap.Revision.Generation {
				view.Generation = snap.Revision.Generation + 1
			}
			return m.Rebuild(ctx, view)
		}}
	}},
	{"forgets the holds of a view it installs", "rebuild/installs", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, rebuild: func(ctx context.Context, view seatflow.View) error {
			view.Orders = slices.DeleteFunc(slices.Clone(view.Orders), func(o seatflow.OrderRecord) bool { return o.State == seatflow.Held })
			return m.Rebuild(ctx, view)
		}}
	}},
	{"repairs what has changed since", "repair/as seen", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, repair: func(ctx context.Context, req seatflow.RepairRequest) (seatflow.RepairReply, error) {
			snap, err := m.Snapshot(ctx, req.Show, seatflow.DetailOrders)
			if err == nil {
				req.Seats = slices.Clone(req.Seats)
				for i := range req.Seats {
					if r := &req.Seats[i]; r.Seat > 0 && int(r.Seat) <= len(snap.States) {
						r.SawState, r.SawOwner = snap.States[r.Seat-1], snap.Owners[r.Seat]
					}
				}
			}
			return m.Repair(ctx, req)
		}}
	}},
	{"charges a user for a seat too many", "hold/takes", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, snapshot: func(ctx context.Context, ref seatflow.ShowRef, d seatflow.Detail) (*seatflow.Snapshot, error) {
			snap, err := m.Snapshot(ctx, ref, d)
			if err == nil && len(snap.Users) > 0 {
				snap.Users[slices.Sorted(maps.Keys(snap.Users))[0]]++
			}
			return snap, err
		}}
	}},
	{"says that a view without memory is taken", "life/missing", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, hold: func(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
			r, err := m.Hold(ctx, req)
			if r.Outcome == seatflow.OutcomeNotReady {
				r.Outcome, r.Taken = seatflow.OutcomeTaken, req.Seats
			}
			return r, err
		}}
	}},
	{"sells though the caller has given up", "life/cancelled context", true, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return &override{Model: m, sell: func(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner) (seatflow.SellReply, error) {
			return m.Sell(context.WithoutCancel(ctx), ref, owner)
		}}
	}},
	{"checks first and writes later", "race/one seat", false, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return splitStore(m)
	}},
	{"checks first and writes later, seen from its answers", "race/linearizable", false, func(m *Model, now func() time.Time) seatflow.SeatStore {
		return splitStore(m)
	}},
}

// splitStore looks whether a seat is free and takes it in two steps. Once, for
// the first caller, somebody else comes between; both are told that it is
// theirs.
func splitStore(m *Model) seatflow.SeatStore {
	var calls atomic.Int64
	var first atomic.Int32 // the seat of the first caller
	var joined atomic.Bool
	met, wrote, stole, enough := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	return &override{Model: m, hold: func(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
		switch n := calls.Add(1); {
		case n == 1:
			first.Store(int32(req.Seats[0]))
			select {
			case <-met:
			case <-enough: // nobody came
				return m.Hold(ctx, req)
			}
			r, err := m.Hold(ctx, req)
			close(wrote)
			<-stole
			return r, err
		case n == 150:
			close(enough)
		case first.Load() == int32(req.Seats[0]) && joined.CompareAndSwap(false, true):
			close(met)
			<-wrote
			snap, err := m.Snapshot(ctx, req.Show, seatflow.DetailOrders)
			if err != nil {
				return seatflow.HoldReply{}, err
			}
			id := req.Seats[0]
			_, err = m.Repair(ctx, seatflow.RepairRequest{Show: req.Show, Generation: snap.Revision.Generation,
				Seats: []seatflow.SeatRepair{{Seat: id, SawState: snap.States[id-1], SawOwner: snap.Owners[id], WantState: seatflow.Held,
					Want: seatflow.OrderRecord{Owner: req.Owner, User: req.User, Deadline: snap.At.Add(req.For)}}}})
			close(stole)
			return seatflow.HoldReply{Outcome: seatflow.OutcomeHeld}, err
		}
		return m.Hold(ctx, req)
	}}
}

// Each fault is seen by the case that is about it.
func TestSuiteSeesBrokenStores(t *testing.T) {
	cases := make(map[string]seatCase)
	for _, c := range seatCases() {
		cases[c.name] = c
	}
	for _, b := range breakages {
		t.Run(b.name, func(t *testing.T) {
			failures := observe(t.Context(), func(tb TB) { cases[b.seenBy].check(tb, broken(b.wrap)) })
			if len(failures) == 0 {
				t.Fatalf("%q saw nothing", b.seenBy)
			}
			t.Logf("%q saw: %s", b.seenBy, failures[0])
		})
	}
}

// The runner finds each within a few seeds, and shows it in a few steps.
func TestDifferentialSeesBrokenStores(t *testing.T) {
	for _, b := range breakages {
		if !b.apart {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			for seed := range uint64(10) {
				failures := observe(t.Context(), func(tb TB) { Differential(tb, newModel, broken(b.wrap), seed, 400) })
				if len(failures) == 0 {
					continue
				}
				if steps := strings.Count(failures[0], "\n\t") - 1; steps > 40 {
					t.Errorf("the shortest sequence has %d lines:\n%s", steps, failures[0])
				}
				return
			}
			t.Fatal("ten seeds saw nothing")
		})
	}
}

// Two callers cannot both be told that they hold a seat, nor can one hold a
// seat that was never given back.
func TestLinearizabilityModelRefusesDoubleSale(t *testing.T) {
	op := func(client int, verb seatflow.Verb, by int, from, to int64, answer seatAnswer) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: seatCall{verb, 1, by}, Call: from, Output: answer, Return: to}
	}
	held := seatAnswer{outcome: seatflow.OutcomeHeld}
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		want    bool
	}{
		{"two hold it at once", []porcupine.Operation{
			op(0, seatflow.VerbHold, 1, 1, 4, held), op(1, seatflow.VerbHold, 2, 2, 3, held)}, false},
		{"one after the other gave it back", []porcupine.Operation{
			op(0, seatflow.VerbHold, 1, 1, 4, held), op(1, seatflow.VerbHold, 2, 2, 9, held),
			op(0, seatflow.VerbRelease, 1, 5, 6, seatAnswer{n: 1})}, true},
		{"given back by a stranger", []porcupine.Operation{
			op(0, seatflow.VerbHold, 1, 1, 2, held), op(1, seatflow.VerbRelease, 2, 3, 4, seatAnswer{n: 1})}, false},
		{"sold and then released", []porcupine.Operation{
			op(0, seatflow.VerbHold, 1, 1, 2, held), op(0, seatflow.VerbSell, 1, 3, 4, seatAnswer{n: 1}),
			op(0, seatflow.VerbRelease, 1, 5, 6, seatAnswer{n: 1})}, false},
		{"a free seat refused", []porcupine.Operation{
			op(0, seatflow.VerbHold, 1, 1, 2, seatAnswer{outcome: seatflow.OutcomeTaken})}, false},
		{"refused for one whose answer was lost", []porcupine.Operation{
			op(0, seatflow.VerbHold, 1, 1, math.MaxInt64, seatAnswer{unknown: true}),
			op(1, seatflow.VerbHold, 2, 2, 3, seatAnswer{outcome: seatflow.OutcomeTaken})}, true},
		{"refused before the one whose answer was lost", []porcupine.Operation{
			op(1, seatflow.VerbHold, 2, 1, 2, seatAnswer{outcome: seatflow.OutcomeTaken}),
			op(0, seatflow.VerbHold, 1, 3, math.MaxInt64, seatAnswer{unknown: true})}, false},
		{"given back, who knows when", []porcupine.Operation{
			op(0, seatflow.VerbHold, 1, 1, 2, held), op(0, seatflow.VerbRelease, 1, 3, math.MaxInt64, seatAnswer{unknown: true}),
			op(1, seatflow.VerbHold, 2, 4, 5, seatAnswer{outcome: seatflow.OutcomeTaken}), op(1, seatflow.VerbHold, 3, 6, 7, held)}, true},
		{"given back once, taken twice", []porcupine.Operation{
			op(0, seatflow.VerbHold, 1, 1, 2, held), op(0, seatflow.VerbRelease, 1, 3, math.MaxInt64, seatAnswer{unknown: true}),
			op(1, seatflow.VerbHold, 2, 4, 5, held), op(1, seatflow.VerbHold, 3, 6, 7, held)}, false},
		{"blocked, and held by another", []porcupine.Operation{
			op(0, seatflow.VerbBlock, 1, 1, 2, seatAnswer{n: 1}), op(1, seatflow.VerbHold, 2, 3, 4, held)}, false},
		{"blocked twice by one", []porcupine.Operation{
			op(0, seatflow.VerbBlock, 1, 1, 2, seatAnswer{n: 1}), op(0, seatflow.VerbBlock, 1, 3, 4, seatAnswer{}),
			op(0, seatflow.VerbUnblock, 1, 5, 6, seatAnswer{n: 1}), op(0, seatflow.VerbUnblock, 1, 7, 8, seatAnswer{})}, true},
		{"extended by a stranger", []porcupine.Operation{
			op(0, seatflow.VerbHold, 1, 1, 2, held), op(1, seatflow.VerbExtend, 2, 3, 4, seatAnswer{n: 1})}, false},
	} {
		if got := porcupine.CheckOperations(oneSeat, c.history); got != c.want {
			t.Errorf("%s: explained %t, want %t", c.name, got, c.want)
		}
	}
}
