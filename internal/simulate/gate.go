package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"seatflow"
)

// fate is what becomes of a call.
type fate uint8

const (
	fine        fate = iota // as it should be
	refused                 // it was certainly not executed
	lostRequest             // it was not executed, and nobody knows
	lostReply               // it was executed, and nobody knows
	lateCommit              // nobody knows, and it will be executed
	diedBefore              // its node died
	diedAfter               // its node died when it had been executed
)

var fateNames = [...]string{"", "refused", "request lost", "reply lost", "commits later", "node dies before", "node dies after"}

// errDied is what the goroutines of a dead node see until they end.
var errDied = errors.New("simulate: the node is dead")

// call is a call that waits at the gate.
type call struct {
	actor   string
	node    *node
	verb    string
	detail  string
	kind    kind
	verdict chan fate
}

// kind groups calls by how they can fail.
type kind uint8

const (
	seatWrite kind = iota
	seatRead
	factWrite
	factInsert // whose commit may come late
	factRead
	busWrite
)

// fates are those that a kind of call may meet.
var fates = [...][]fate{
	seatWrite:  {refused, lostRequest, lostReply},
	seatRead:   {refused},
	factWrite:  {refused, lostRequest, lostReply},
	factInsert: {refused, lostRequest, lostReply, lateCommit},
	factRead:   {refused},
	busWrite:   {lostRequest, lostReply},
}

// failure is the error of a call that was refused, or of whose outcome nobody
// knows.
func (k kind) failure(f fate) error {
	switch {
	case k == busWrite:
		return errors.New("simulate: the bus does not answer")
	case k <= seatRead && f == refused:
		return fmt.Errorf("simulate: %w", seatflow.ErrNotExecuted)
	case k <= seatRead:
		return fmt.Errorf("simulate: %w", seatflow.ErrUnknownOutcome)
	case f == refused:
		return fmt.Errorf("simulate: %w", seatflow.ErrNotCommitted)
	}
	return fmt.Errorf("simulate: %w", seatflow.ErrUnknownCommit)
}

// actorKey is under which a context tells who acts; requestKey, for which
// buyer's request.
type (
	actorKey   struct{}
	requestKey struct{}
)

func as(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// step brings a call to the gate and does with it what the scheduler says.
func step[T any](ctx context.Context, n *node, k kind, verb, detail string, do func(ctx context.Context) (T, error)) (T, error) {
	var none T
	w := n.w
	actor, _ := ctx.Value(actorKey{}).(string)
	c := &call{actor: actor, node: n, verb: verb, detail: detail, kind: k, verdict: make(chan fate, 1)}
	if !w.arrive(c) {
		return none, errDied
	}
	f := <-c.verdict
	if q, ok := ctx.Value(requestKey{}).(*request); ok && f != fine {
		q.met(c, f)
	}
	switch f {
	case diedBefore:
		return none, errDied
	case diedAfter:
		_, _ = do(context.WithoutCancel(ctx))
		return none, errDied
	case refused, lostRequest:
		return none, k.failure(f)
	case lostReply:
		_, _ = do(context.WithoutCancel(ctx))
		return none, k.failure(f)
	case lateCommit:
		w.later(w.between(time.Millisecond, 4*time.Second), c.actor+" "+verb+" "+detail+" lands", func() { _, _ = do(context.WithoutCancel(ctx)) })
		return none, k.failure(f)
	}
	if err := ctx.Err(); err != nil { // it waited longer than its caller would
		return none, fmt.Errorf("%w: %w", k.failure(refused), err)
	}
	return do(ctx)
}

func step0(ctx context.Context, n *node, k kind, verb, detail string, do func(ctx context.Context) error) error {
	_, err := step(ctx, n, k, verb, detail, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// arrive puts a call to those that wait, unless its node is dead or the world
// is over.
func (w *world) arrive(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.node.dead || w.over {
		return false
	}
	w.waiting = append(w.waiting, c)
	return true
}

// pick takes one of the calls that wait, none if there is none that can move.
// The order of arrival is not the seed's, so they are sorted first.
func (w *world) pick(now time.Time) *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.waiting, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.actor, b.actor), cmp.Compare(a.verb, b.verb), cmp.Compare(a.detail, b.detail))
	})
	var free []int
	for i, c := range w.waiting {
		if !now.Before(c.node.pausedUntil) {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return nil
	}
	i := free[w.rng.IntN(len(free))]
	c := w.waiting[i]
	w.waiting = slices.Delete(w.waiting, i, i+1)
	return c
}

// expel sends the waiting calls of a dead node away; nil: everybody's.
func (w *world) expel(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, func(c *call) bool {
		if n != nil && c.node != n {
			return false
		}
		c.verdict <- diedBefore
		return true
	})
}
