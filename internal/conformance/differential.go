package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seatflow"
)

// Differential gives the same n random operations to two fresh stores and
// compares every reply, every change and every whole view after each: all
// verbs, by owners and strangers, on views that are there, missing, ended and
// dropped, with rebuilds, repairs and a clock that moves on. The clocks of
// both stores must start at the same instant.
//
// At the first difference the test fails with the shortest sequence found
// that still shows one. The same seed makes the same sequence.
func Differential(t TB, a, b SeatFactory, seed uint64, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	steps := make([]uint64, n)
	for i := range steps {
		steps[i] = rng.Uint64()
	}
	first := runSteps(t, a, b, steps)
	if first == nil {
		return
	}
	short := shorten(steps[:first.step+1], func(steps []uint64) []uint64 {
		if f := runSteps(t, a, b, steps); f != nil {
			return steps[:f.step+1]
		}
		return nil
	})
	last := runSteps(t, a, b, short)
	if last == nil { // it depends on more than the operations
		last = first
	}
	t.Errorf("seed %d: step %d of %d: %s\nshortest sequence found:\n%s", seed, first.step+1, n, first.what, last.trace())
}

// difference is where two stores part.
type difference struct {
	step int
	what string
	log  []string
}

func (d *difference) trace() string {
	const most = 60
	lines := d.log
	if len(lines) > most {
		lines = append([]string{fmt.Sprintf("… %d steps …", len(lines)-most)}, lines[len(lines)-most:]...)
	}
	return "\t" + strings.Join(append(slices.Clone(lines), "⇒ "+d.what), "\n\t")
}

// shorten leaves out ever smaller pieces as long as it still fails.
func shorten(steps []uint64, fails func([]uint64) []uint64) []uint64 {
	tries := 0
	for piece := len(steps) / 2; piece > 0; piece /= 2 {
		for from := 0; from < len(steps) && tries < 400; {
			tries++
			without := slices.Concat(steps[:from], steps[min(from+piece, len(steps)):])
			if shorter := fails(without); shorter != nil {
				steps = shorter
			} else {
				from += piece
			}
		}
	}
	return steps
}

// runSteps plays steps on two fresh stores up to the first difference.
func runSteps(t TB, a, b SeatFactory, steps []uint64) *difference {
	d := &duel{ctx: t.Context(), stores: [2]Seats{a(t), b(t)}}
	for i := range d.positions {
		d.positions[i] = make(map[seatflow.Partition]seatflow.Position)
	}
	for i, seed := range steps {
		what := d.step(rand.New(rand.NewPCG(seed, 1)))
		if what == "" {
			what = d.compareViews()
		}
		if what != "" {
			return &difference{step: i, what: what, log: d.log}
		}
	}
	return nil
}

// duel is two stores that should be the same.
type duel struct {
	ctx       context.Context
	stores    [2]Seats
	positions [2]map[seatflow.Partition]seatflow.Position
	log       []string
}

// places are the shows of a duel: two of a partition, and the first of them
// in another as well.
var places = []seatflow.ShowRef{{ID: 1, Partition: 7}, {ID: 2, Partition: 7}, {ID: 1, Partition: 8}}

// both calls an operation on both stores and compares what it returns.
func (d *duel) both(what string, call func(s seatflow.SeatStore) (any, error)) string {
	var replies [2]any
	var errs [2]string
	for i, s := range d.stores {
		reply, err := call(s.Store)
		replies[i], errs[i] = reply, errorKind(err)
	}
	if errs[0] != "" {
		replies = [2]any{}
	}
	d.log = append(d.log, fmt.Sprintf("%s → %+v %s", what, replies[0], errs[0]))
	if errs[0] != errs[1] {
		return fmt.Sprintf("%s: errors %q and %q", what, errs[0], errs[1])
	}
	if errs[0] != "" {
		return ""
	}
	if diff := cmp.Diff(replies[0], replies[1], cmpopts.EquateEmpty()); diff != "" {
		return fmt.Sprintf("%s: replies differ (-first +second):\n%s", what, diff)
	}
	return ""
}

func errorKind(err error) string {
	if err == nil {
		return ""
	}
	for _, kind := range []error{seatflow.ErrNotReady, seatflow.ErrStaleGeneration, seatflow.ErrNotExecuted, seatflow.ErrUnknownOutcome} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return "another error"
}

// compareViews compares all that can be read.
func (d *duel) compareViews() string {
	for _, ref := range places {
		ref.Until = d.stores[0].Now().Add(time.Hour)
		var snaps [2]*seatflow.Snapshot
		var errs [2]string
		for i, s := range d.stores {
			snap, err := s.Store.Snapshot(d.ctx, ref, seatflow.DetailOrders|seatflow.DetailUsers)
			snaps[i], errs[i] = snap, errorKind(err)
		}
		switch {
		case errs[0] != errs[1]:
			return fmt.Sprintf("snapshots of %d/%d: %q and %q", ref.Partition, ref.ID, errs[0], errs[1])
		case errs[0] != "":
			continue
		}
		if diff := diffSnapshots(snaps[0], snaps[1]); diff != "" {
			return fmt.Sprintf("views of %d/%d: %s", ref.Partition, ref.ID, diff)
		}
		if !snaps[0].At.Equal(snaps[1].At) {
			return fmt.Sprintf("clocks at %v and %v", snaps[0].At, snaps[1].At)
		}
	}
	for _, partition := range []seatflow.Partition{7, 8} {
		var got [2][]seatflow.Change
		for i, s := range d.stores {
			batch, err := s.Store.Changes(d.ctx, seatflow.ChangesRequest{Partition: partition, After: d.positions[i][partition]})
			if err != nil || batch.Trimmed {
				return fmt.Sprintf("changes of partition %d: trimmed %t, %v", partition, batch.Trimmed, err)
			}
			got[i], d.positions[i][partition] = batch.Changes, batch.Next
		}
		if diff := cmp.Diff(got[0], got[1], cmpopts.EquateEmpty()); diff != "" {
			return fmt.Sprintf("changes of partition %d differ (-first +second):\n%s", partition, diff)
		}
	}
	return ""
}
