package conformance

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"

	"seatflow"
)

// seatCall is one call on one seat, and seatAnswer its answer.
type (
	seatCall struct {
		verb seatflow.Verb
		seat seatflow.SeatID
		by   int
	}
	seatAnswer struct {
		outcome seatflow.HoldOutcome // hold
		n       int                  // seats sold or freed
	}
	seatNow struct {
		state seatflow.SeatState
		by    int
	}
)

// oneSeat is what a seat alone may do, by the transition table. Orders have
// one seat each.
var oneSeat = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		bySeat := make(map[seatflow.SeatID][]porcupine.Operation)
		for _, op := range history {
			id := op.Input.(seatCall).seat
			bySeat[id] = append(bySeat[id], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range bySeat {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return seatNow{state: seatflow.Available} },
	Step: func(state, input, output any) (bool, any) {
		now, call, got := state.(seatNow), input.(seatCall), output.(seatAnswer)
		owned := now.state.Owned() && now.by == call.by
		to, ok := seatflow.Next(call.verb, now.state, owned)
		next, n := now, 0
		if ok {
			next, n = seatNow{to, call.by}, 1
			if !to.Owned() {
				next.by = 0
			}
		}
		if call.verb != seatflow.VerbHold {
			return got.n == n, next
		}
		repeat := owned && now.state == seatflow.Held
		return (got.outcome == seatflow.OutcomeHeld) == (ok || repeat), next
	},
	DescribeOperation: func(input, output any) string {
		call, got := input.(seatCall), output.(seatAnswer)
		return fmt.Sprintf("%d: %s → %s %d", call.by, call.verb, got.outcome, got.n)
	},
}

// raceLinearizable records what concurrent callers were told and looks for an
// order in which one caller after another would have been told the same.
func raceLinearizable(t *seatTest) {
	const clients, rounds, houseSize = 8, 120, 4
	ref := t.house(houseSize)
	var clock atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	together(clients, func(client int) {
		rng := rand.New(rand.NewPCG(uint64(client), 11))
		mine := 0 // the last order of this client
		var at seatflow.SeatID
		for i := range rounds {
			call := seatCall{verb: seatflow.VerbHold, seat: seatflow.SeatID(1 + rng.IntN(houseSize)), by: 1 + client*rounds + i}
			if mine > 0 && rng.IntN(3) > 0 {
				call.seat, call.by = at, mine
				call.verb = []seatflow.Verb{seatflow.VerbHold, seatflow.VerbSell, seatflow.VerbRelease, seatflow.VerbUnsell, seatflow.VerbUnsell}[rng.IntN(5)]
			}
			from := clock.Add(1)
			got, err := t.call(ref, call)
			to := clock.Add(1)
			if err != nil {
				t.Errorf("%s of seat %d: %v", call.verb, call.seat, err)
				return
			}
			if got.outcome == seatflow.OutcomeHeld {
				mine, at = call.by, call.seat
			}
			mu.Lock()
			history = append(history, porcupine.Operation{ClientId: client, Input: call, Call: from, Output: got, Return: to})
			mu.Unlock()
		}
	})
	if !porcupine.CheckOperations(oneSeat, history) {
		t.Errorf("%d calls were answered as no order of them explains", len(history))
	}
}

func (t *seatTest) call(ref seatflow.ShowRef, c seatCall) (seatAnswer, error) {
	ctx, s, owner := t.Context(), t.Store, order(c.by)
	switch c.verb {
	case seatflow.VerbHold:
		r, err := s.Hold(ctx, ask(ref, c.by, c.seat))
		return seatAnswer{outcome: r.Outcome}, err
	case seatflow.VerbSell:
		r, err := s.Sell(ctx, ref, owner)
		return seatAnswer{n: r.Sold}, err
	case seatflow.VerbRelease:
		r, err := s.Release(ctx, ref, owner, nil)
		return seatAnswer{n: len(r.Released)}, err
	default:
		r, err := s.Unsell(ctx, ref, owner, nil)
		return seatAnswer{n: len(r.Released)}, err
	}
}
