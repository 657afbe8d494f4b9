package testkit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"seatflow"
)

// Action is what happens in place of a call: it may run the call by do, once
// or never, and returns the error that the caller sees. When that is not an
// error of the call itself, the caller sees zero results beside it.
type Action func(ctx context.Context, do func() error) error

// FailBefore does not run the call: with ErrNotCommitted or ErrNotExecuted a
// plain failure, with an unknown outcome a lost request.
func FailBefore(err error) Action {
	return func(context.Context, func() error) error { return err }
}

// FailAfter runs the call and reports err in place of its answer: a lost
// reply.
func FailAfter(err error) Action {
	return func(_ context.Context, do func() error) error {
		_ = do() // the answer is lost, whatever it was
		return err
	}
}

// Before runs f and then the call, so that a test can act at that very point.
func Before(f func()) Action {
	return func(_ context.Context, do func() error) error {
		f()
		return do()
	}
}

// After runs the call and then f before the caller has the answer.
func After(f func()) Action {
	return func(_ context.Context, do func() error) error {
		err := do()
		f()
		return err
	}
}

// HoldBefore waits for release to be closed and runs the call then, or ends
// with the context's error without it.
func HoldBefore(release <-chan struct{}) Action {
	return func(ctx context.Context, do func() error) error {
		select {
		case <-release:
			return do()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// HoldAfter runs the call and keeps its answer back until release is closed;
// when the context ends first, the answer is lost and the caller sees err.
func HoldAfter(release <-chan struct{}, err error) Action {
	return func(ctx context.Context, do func() error) error {
		got := do()
		select {
		case <-release:
			return got
		case <-ctx.Done():
			return err
		}
	}
}

// Signal closes reached when the call arrives and goes on with next; it is for
// one call (see [Times]).
func Signal(reached chan<- struct{}, next Action) Action {
	return func(ctx context.Context, do func() error) error {
		close(reached)
		return next(ctx, do)
	}
}

// Option narrows the calls that a rule applies to.
type Option func(*Rule)

// Times makes a rule apply to n calls and no more.
func Times(n int) Option { return func(r *Rule) { r.left = n } }

// Skip lets n calls pass before the rule applies.
func Skip(n int) Option { return func(r *Rule) { r.skip = n } }

// Rule is one programmed fault.
type Rule struct {
	action Action
	skip   int // calls to let pass first
	left   int // calls to act on; negative: every one
	hits   int
	faults *Faults
}

// Hits returns how many calls the rule has acted on.
func (r *Rule) Hits() int {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	return r.hits
}

// Stop ends the rule.
func (r *Rule) Stop() {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	r.left = 0
}

// Faults programs the calls of a wrapped port by method name. The zero value
// is not usable: see [NewFaultyLedger] and [NewFaultySeats].
type Faults struct {
	methods map[string]bool
	mu      sync.Mutex
	rules   map[string][]*Rule
	calls   map[string]int
}

func newFaults[T any]() *Faults {
	f := &Faults{methods: map[string]bool{}, rules: map[string][]*Rule{}, calls: map[string]int{}}
	port := reflect.TypeFor[T]()
	for i := range port.NumMethod() {
		f.methods[port.Method(i).Name] = true
	}
	return f
}

// On programs what happens on calls of a method. Of several rules the first
// that applies acts, alone; calls that none applies to pass through. A name
// that is no method of the port panics: the test would prove nothing.
func (f *Faults) On(method string, action Action, options ...Option) *Rule {
	if !f.methods[method] {
		panic(fmt.Sprintf("testkit: no method %q to fail", method))
	}
	r := &Rule{action: action, left: -1, faults: f}
	for _, o := range options {
		o(r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules[method] = append(f.rules[method], r)
	return r
}

// Calls returns how often a method was called, passed through or not.
func (f *Faults) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// Clear ends every rule. Calls that wait in one go on waiting.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.rules)
}

func (f *Faults) next(method string) Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[method]++
	for _, r := range f.rules[method] {
		if r.skip > 0 {
			r.skip--
			continue
		}
		if r.left == 0 {
			continue
		}
		if r.left > 0 {
			r.left--
		}
		r.hits++
		return r.action
	}
	return nil
}

// pass runs a call with one result under the rules.
func pass[T any](ctx context.Context, f *Faults, method string, call func() (T, error)) (T, error) {
	act := f.next(method)
	if act == nil {
		return call()
	}
	var (
		result T
		own    error
		none   T
	)
	err := act(ctx, func() error {
		result, own = call()
		return own
	})
	if err != nil && (own == nil || !errors.Is(err, own)) {
		return none, err
	}
	return result, err
}

func pass0(ctx context.Context, f *Faults, method string, call func() error) error {
	_, err := pass(ctx, f, method, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// FaultyLedger is a ledger whose calls fail as programmed.
type FaultyLedger struct {
	seatflow.Ledger
	*Faults
}

// NewFaultyLedger wraps a ledger; without rules it changes nothing.
func NewFaultyLedger(inner seatflow.Ledger) *FaultyLedger {
	return &FaultyLedger{Ledger: inner, Faults: newFaults[seatflow.Ledger]()}
}

// FaultySeats is a seat store whose calls fail as programmed.
type FaultySeats struct {
	seatflow.SeatStore
	*Faults
}

// NewFaultySeats wraps a seat store; without rules it changes nothing.
func NewFaultySeats(inner seatflow.SeatStore) *FaultySeats {
	return &FaultySeats{SeatStore: inner, Faults: newFaults[seatflow.SeatStore]()}
}

var (
	_ seatflow.Ledger    = (*FaultyLedger)(nil)
	_ seatflow.SeatStore = (*FaultySeats)(nil)
)

// Hold implements [seatflow.SeatStore].
func (f *FaultySeats) Hold(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
	return pass(ctx, f.Faults, "Hold", func() (seatflow.HoldReply, error) { return f.SeatStore.Hold(ctx, req) })
}

// Extend implements [seatflow.SeatStore].
func (f *FaultySeats) Extend(ctx context.Context, show seatflow.ShowRef, owner seatflow.Owner, deadline time.Time) (seatflow.ExtendReply, error) {
	return pass(ctx, f.Faults, "Extend", func() (seatflow.ExtendReply, error) {
		return f.SeatStore.Extend(ctx, show, owner, deadline)
	})
}

// Sell implements [seatflow.SeatStore].
func (f *FaultySeats) Sell(ctx context.Context, show seatflow.ShowRef, owner seatflow.Owner) (seatflow.SellReply, error) {
	return pass(ctx, f.Faults, "Sell", func() (seatflow.SellReply, error) { return f.SeatStore.Sell(ctx, show, owner) })
}

// Release implements [seatflow.SeatStore].
func (f *FaultySeats) Release(ctx context.Context, show seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	return pass(ctx, f.Faults, "Release", func() (seatflow.ReleaseReply, error) {
		return f.SeatStore.Release(ctx, show, owner, seats)
	})
}

// Unsell implements [seatflow.SeatStore].
func (f *FaultySeats) Unsell(ctx context.Context, show seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	return pass(ctx, f.Faults, "Unsell", func() (seatflow.ReleaseReply, error) {
		return f.SeatStore.Unsell(ctx, show, owner, seats)
	})
}

// Block implements [seatflow.SeatStore].
func (f *FaultySeats) Block(ctx context.Context, show seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	return pass(ctx, f.Faults, "Block", func() (seatflow.BlockReply, error) {
		return f.SeatStore.Block(ctx, show, owner, seats)
	})
}

// Unblock implements [seatflow.SeatStore].
func (f *FaultySeats) Unblock(ctx context.Context, show seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	return pass(ctx, f.Faults, "Unblock", func() (seatflow.BlockReply, error) {
		return f.SeatStore.Unblock(ctx, show, owner, seats)
	})
}

// ClaimDue implements [seatflow.SeatStore].
func (f *FaultySeats) ClaimDue(ctx context.Context, partition seatflow.Partition, limit int, lease time.Duration) ([]seatflow.DueHold, error) {
	return pass(ctx, f.Faults, "ClaimDue", func() ([]seatflow.DueHold, error) {
		return f.SeatStore.ClaimDue(ctx, partition, limit, lease)
	})
}

// Changes implements [seatflow.SeatStore].
func (f *FaultySeats) Changes(ctx context.Context, req seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	return pass(ctx, f.Faults, "Changes", func() (seatflow.ChangeBatch, error) { return f.SeatStore.Changes(ctx, req) })
}

// Snapshot implements [seatflow.SeatStore].
func (f *FaultySeats) Snapshot(ctx context.Context, show seatflow.ShowRef, detail seatflow.Detail) (*seatflow.Snapshot, error) {
	return pass(ctx, f.Faults, "Snapshot", func() (*seatflow.Snapshot, error) {
		return f.SeatStore.Snapshot(ctx, show, detail)
	})
}

// Rebuild implements [seatflow.SeatStore].
func (f *FaultySeats) Rebuild(ctx context.Context, view seatflow.View) error {
	return pass0(ctx, f.Faults, "Rebuild", func() error { return f.SeatStore.Rebuild(ctx, view) })
}

// Repair implements [seatflow.SeatStore].
func (f *FaultySeats) Repair(ctx context.Context, req seatflow.RepairRequest) (seatflow.RepairReply, error) {
	return pass(ctx, f.Faults, "Repair", func() (seatflow.RepairReply, error) { return f.SeatStore.Repair(ctx, req) })
}

// Identity implements [seatflow.SeatStore].
func (f *FaultySeats) Identity(ctx context.Context) (string, error) {
	return pass(ctx, f.Faults, "Identity", func() (string, error) { return f.SeatStore.Identity(ctx) })
}
