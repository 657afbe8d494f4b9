package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

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
		unknown bool                 // nobody knows whether it was executed, or will be
		outcome seatflow.HoldOutcome // hold
		n       int                  // seats extended, sold, freed, blocked
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
		owned := !freely(now.state) && now.by == call.by
		to, ok := seatflow.Next(call.verb, now.state, owned)
		next, n := now, 0
		if ok {
			next, n = seatNow{to, call.by}, 1
			if freely(to) {
				next.by = 0
			}
			if call.verb == seatflow.VerbBlock && owned {
				n = 0 // it was blocked already
			}
		}
		switch {
		case got.unknown:
			return true, next
		case call.verb != seatflow.VerbHold:
			return got.n == n, next
		}
		repeat := owned && now.state == seatflow.Held
		return (got.outcome == seatflow.OutcomeHeld) == (ok || repeat), next
	},
	DescribeOperation: func(input, output any) string {
		call, got := input.(seatCall), output.(seatAnswer)
		if got.unknown {
			return fmt.Sprintf("%d: %s → ?", call.by, call.verb)
		}
		return fmt.Sprintf("%d: %s → %s %d", call.by, call.verb, got.outcome, got.n)
	},
}

// freely reports whether a seat in a state is nobody's.
func freely(s seatflow.SeatState) bool { return s == seatflow.Available || s == seatflow.NoSeat }

// History says what [Linearizable] records.
type History struct {
	Store      seatflow.SeatStore
	Show       seatflow.ShowRef // installed, every seat free
	Seats      int
	Clients    int           // at once
	Operations int           // altogether
	Seed       uint64        // of what they ask for; in which order they are served is the machine's
	Patience   time.Duration // for an answer; 0: the store's own
	Lost       float64       // share of calls whose answer is thrown away, executed at once, later or never
}

// Recorded is what a history came to.
type Recorded struct {
	Operations int
	Unknown    int // no answer: executed, or not, or yet to be
	Refused    int // certainly not executed: asked again, and left out
}

// Linearizable records what concurrent clients were told and looks for an
// order in which one client after another would have been told the same, seat
// by seat (I5). A call without an answer may have been executed at any time
// after it was made, or never.
func Linearizable(t TB, h History) Recorded {
	t.Helper()
	r := &historian{TB: t, h: h}
	each := (h.Operations + h.Clients - 1) / h.Clients
	together(h.Clients, func(client int) { r.client(client, each) })
	r.late.Wait()
	switch porcupine.CheckOperationsTimeout(oneSeat, r.history, linearLimit) {
	case porcupine.Illegal:
		t.Errorf("%d calls were answered as no order of them explains", len(r.history))
	case porcupine.Unknown:
		t.Errorf("no order was found that explains %d calls (%d without an answer), nor that there is none, within %v",
			len(r.history), r.unknown.Load(), linearLimit)
	}
	return Recorded{Operations: len(r.history), Unknown: int(r.unknown.Load()), Refused: int(r.refused.Load())}
}

// linearLimit is far more than a search takes.
const linearLimit = 5 * time.Minute

type historian struct {
	TB
	h                History
	clock            atomic.Int64
	unknown, refused atomic.Int64
	late             sync.WaitGroup // calls whose answers nobody awaits

	mu      sync.Mutex
	history []porcupine.Operation
}

// client goes through the lives of orders and blocks of one seat each. Of
// those that ended without an answer it goes on as if they were its own.
func (r *historian) client(client, calls int) {
	rng := rand.New(rand.NewPCG(r.h.Seed, uint64(client)))
	var mine seatCall // the last that it took
	of := func(verbs ...seatflow.Verb) seatflow.Verb { return verbs[rng.IntN(len(verbs))] }
	for i := range calls {
		call := seatCall{verb: seatflow.VerbHold, seat: seatflow.SeatID(1 + rng.IntN(r.h.Seats)), by: 1 + client*calls + i}
		switch {
		case mine.by > 0 && rng.IntN(3) > 0 && mine.verb == seatflow.VerbBlock:
			call.seat, call.by = mine.seat, mine.by
			call.verb = of(seatflow.VerbBlock, seatflow.VerbUnblock, seatflow.VerbUnblock, seatflow.VerbUnblock)
		case mine.by > 0 && rng.IntN(3) > 0:
			call.seat, call.by = mine.seat, mine.by
			call.verb = of(seatflow.VerbHold, seatflow.VerbExtend, seatflow.VerbSell, seatflow.VerbRelease, seatflow.VerbUnsell, seatflow.VerbUnsell)
		case rng.IntN(10) == 0:
			call.verb = seatflow.VerbBlock
		}
		from := r.clock.Add(1)
		got, err := r.ask(rng, call)
		for errors.Is(err, seatflow.ErrNotExecuted) || errors.Is(err, seatflow.ErrNotReady) || got.outcome == seatflow.OutcomeNotReady {
			r.refused.Add(1)
			select {
			case <-time.After(time.Millisecond):
			case <-r.Context().Done():
				return
			}
			from = r.clock.Add(1)
			got, err = r.ask(rng, call)
		}
		to := r.clock.Add(1)
		switch {
		case errors.Is(err, seatflow.ErrUnknownOutcome):
			r.unknown.Add(1)
			got, to = seatAnswer{unknown: true}, math.MaxInt64
		case err != nil:
			r.Errorf("%s of seat %d: %v", call.verb, call.seat, err)
			return
		}
		if took := got.unknown || got.outcome == seatflow.OutcomeHeld || call.verb == seatflow.VerbBlock && got.n > 0; took && call.by != mine.by {
			mine = call
		}
		r.mu.Lock()
		r.history = append(r.history, porcupine.Operation{ClientId: client, Input: call, Call: from, Output: got, Return: to})
		r.mu.Unlock()
	}
}

// ask makes a call, or loses its answer.
func (r *historian) ask(rng *rand.Rand, c seatCall) (seatAnswer, error) {
	ctx := r.Context()
	if rng.Float64() < r.h.Lost {
		switch rng.IntN(3) {
		case 0: // never arrived
		case 1: // arrives when its caller has long gone on
			delay := time.Duration(rng.Int64N(int64(5 * time.Millisecond)))
			r.late.Go(func() {
				select {
				case <-time.After(delay):
				case <-ctx.Done():
				}
				_, _ = r.call(ctx, c)
			})
		default:
			_, _ = r.call(ctx, c)
		}
		return seatAnswer{}, seatflow.ErrUnknownOutcome
	}
	if r.h.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.h.Patience)
		defer cancel()
	}
	return r.call(ctx, c)
}

func (r *historian) call(ctx context.Context, c seatCall) (seatAnswer, error) {
	s, ref, owner, list := r.h.Store, r.h.Show, order(c.by), seats(c.seat)
	switch c.verb {
	case seatflow.VerbHold:
		r, err := s.Hold(ctx, ask(ref, c.by, c.seat))
		return seatAnswer{outcome: r.Outcome}, err
	case seatflow.VerbExtend:
		// Far beyond the cap, so that it is never the earlier deadline.
		r, err := s.Extend(ctx, ref, owner, ref.Until)
		if r.Extended {
			return seatAnswer{n: 1}, err
		}
		return seatAnswer{}, err
	case seatflow.VerbSell:
		r, err := s.Sell(ctx, ref, owner)
		return seatAnswer{n: r.Sold}, err
	case seatflow.VerbRelease:
		r, err := s.Release(ctx, ref, owner, nil)
		return seatAnswer{n: len(r.Released)}, err
	case seatflow.VerbBlock:
		r, err := s.Block(ctx, ref, owner, list)
		return seatAnswer{n: len(r.Changed)}, err
	case seatflow.VerbUnblock:
		r, err := s.Unblock(ctx, ref, owner, list)
		return seatAnswer{n: len(r.Changed)}, err
	default:
		r, err := s.Unsell(ctx, ref, owner, nil)
		return seatAnswer{n: len(r.Released)}, err
	}
}

func raceLinearizable(t *seatTest) {
	const houseSize = 4
	got := Linearizable(t, History{Store: t.Store, Show: t.house(houseSize), Seats: houseSize, Clients: 8, Operations: 960, Seed: 11, Lost: 0.003})
	if got.Operations+got.Refused < 960 || got.Unknown == 0 {
		t.Errorf("%+v", got)
	}
}
