package simulate

import (
	"context"
	"fmt"
	"time"

	"seatflow"
)

// seatsPort is the seat state as a node sees it. Other partitions than the
// show's are empty, and asking them is no event.
type seatsPort struct{ n *node }

func (p seatsPort) store() seatflow.SeatStore { return p.n.w.seats() }

// Hold implements [seatflow.SeatStore].
func (p seatsPort) Hold(ctx context.Context, r seatflow.HoldRequest) (seatflow.HoldReply, error) {
	return step(ctx, p.n, seatWrite, "Hold", fmt.Sprint(r.Owner, r.User, r.Seats), func(ctx context.Context) (seatflow.HoldReply, error) {
		reply, err := p.store().Hold(ctx, r)
		if q, ok := ctx.Value(requestKey{}).(*request); ok && err == nil && reply.Outcome == seatflow.OutcomeHeld {
			q.holds = append(q.holds, r.Owner)
		}
		return reply, err
	})
}

// Extend implements [seatflow.SeatStore].
func (p seatsPort) Extend(ctx context.Context, s seatflow.ShowRef, o seatflow.Owner, to time.Time) (seatflow.ExtendReply, error) {
	return step(ctx, p.n, seatWrite, "Extend", o.String(), func(ctx context.Context) (seatflow.ExtendReply, error) {
		return p.store().Extend(ctx, s, o, to)
	})
}

// Sell implements [seatflow.SeatStore].
func (p seatsPort) Sell(ctx context.Context, s seatflow.ShowRef, o seatflow.Owner) (seatflow.SellReply, error) {
	return step(ctx, p.n, seatWrite, "Sell", o.String(), func(ctx context.Context) (seatflow.SellReply, error) { return p.store().Sell(ctx, s, o) })
}

// Release implements [seatflow.SeatStore].
func (p seatsPort) Release(ctx context.Context, s seatflow.ShowRef, o seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	return step(ctx, p.n, seatWrite, "Release", fmt.Sprint(o, seats), func(ctx context.Context) (seatflow.ReleaseReply, error) {
		return p.store().Release(ctx, s, o, seats)
	})
}

// Unsell implements [seatflow.SeatStore].
func (p seatsPort) Unsell(ctx context.Context, s seatflow.ShowRef, o seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	return step(ctx, p.n, seatWrite, "Unsell", fmt.Sprint(o, seats), func(ctx context.Context) (seatflow.ReleaseReply, error) {
		return p.store().Unsell(ctx, s, o, seats)
	})
}

// Block implements [seatflow.SeatStore].
func (p seatsPort) Block(ctx context.Context, s seatflow.ShowRef, o seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	return step(ctx, p.n, seatWrite, "Block", fmt.Sprint(o, seats), func(ctx context.Context) (seatflow.BlockReply, error) {
		return p.store().Block(ctx, s, o, seats)
	})
}

// Unblock implements [seatflow.SeatStore].
func (p seatsPort) Unblock(ctx context.Context, s seatflow.ShowRef, o seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	return step(ctx, p.n, seatWrite, "Unblock", fmt.Sprint(o, seats), func(ctx context.Context) (seatflow.BlockReply, error) {
		return p.store().Unblock(ctx, s, o, seats)
	})
}

// ClaimDue implements [seatflow.SeatStore].
func (p seatsPort) ClaimDue(ctx context.Context, n seatflow.Partition, limit int, lease time.Duration) ([]seatflow.DueHold, error) {
	if n != place {
		return nil, nil
	}
	return step(ctx, p.n, seatWrite, "ClaimDue", "", func(ctx context.Context) ([]seatflow.DueHold, error) {
		return p.store().ClaimDue(ctx, n, limit, lease)
	})
}

// Changes implements [seatflow.SeatStore].
func (p seatsPort) Changes(ctx context.Context, r seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	return step(ctx, p.n, seatRead, "Changes", "", func(ctx context.Context) (seatflow.ChangeBatch, error) {
		return p.store().Changes(ctx, r)
	})
}

// Snapshot implements [seatflow.SeatStore].
func (p seatsPort) Snapshot(ctx context.Context, s seatflow.ShowRef, d seatflow.Detail) (*seatflow.Snapshot, error) {
	return step(ctx, p.n, seatRead, "Snapshot", "", func(ctx context.Context) (*seatflow.Snapshot, error) { return p.store().Snapshot(ctx, s, d) })
}

// Rebuild implements [seatflow.SeatStore].
func (p seatsPort) Rebuild(ctx context.Context, v seatflow.View) error {
	return step0(ctx, p.n, seatWrite, "Rebuild", fmt.Sprint(v.Generation), func(ctx context.Context) error { return p.store().Rebuild(ctx, v) })
}

// Repair implements [seatflow.SeatStore].
func (p seatsPort) Repair(ctx context.Context, r seatflow.RepairRequest) (seatflow.RepairReply, error) {
	return step(ctx, p.n, seatWrite, "Repair", repairText(&r), func(ctx context.Context) (seatflow.RepairReply, error) { return p.store().Repair(ctx, r) })
}

func repairText(r *seatflow.RepairRequest) string {
	text := fmt.Sprint(r.Generation)
	for i := range r.Seats {
		f := &r.Seats[i]
		text += fmt.Sprintf(" %d:%c %s→%c %s", f.Seat, f.SawState, f.SawOwner, f.WantState, f.Want.Owner)
	}
	return text
}

// Identity implements [seatflow.SeatStore].
func (p seatsPort) Identity(ctx context.Context) (string, error) {
	return step(ctx, p.n, seatRead, "Identity", "", func(ctx context.Context) (string, error) { return p.store().Identity(ctx) })
}

// ledgerPort is the facts as a node sees them. What it does not wrap (the
// catalogue, the lists for people) is not asked for by the core at work.
type ledgerPort struct {
	seatflow.Ledger
	n *node
}

// InsertOrder implements [seatflow.Ledger].
func (p ledgerPort) InsertOrder(ctx context.Context, o seatflow.NewOrder) (seatflow.Order, error) {
	return step(ctx, p.n, factInsert, "InsertOrder", fmt.Sprint(o.Order.No, o.Order.Seats()), func(ctx context.Context) (seatflow.Order, error) {
		stored, err := p.Ledger.InsertOrder(ctx, o)
		p.n.w.inserted(&o, err)
		return stored, err
	})
}

// OrderByKey implements [seatflow.Ledger].
func (p ledgerPort) OrderByKey(ctx context.Context, u seatflow.UserID, key string) (seatflow.Order, error) {
	return step(ctx, p.n, factRead, "OrderByKey", key, func(ctx context.Context) (seatflow.Order, error) { return p.Ledger.OrderByKey(ctx, u, key) })
}

// Order implements [seatflow.Ledger].
func (p ledgerPort) Order(ctx context.Context, no seatflow.OrderNo, u seatflow.UserID) (seatflow.Order, error) {
	return step(ctx, p.n, factRead, "Order", string(no), func(ctx context.Context) (seatflow.Order, error) { return p.Ledger.Order(ctx, no, u) })
}

// History implements [seatflow.Ledger].
func (p ledgerPort) History(ctx context.Context, no seatflow.OrderNo) ([]seatflow.OrderEvent, error) {
	return step(ctx, p.n, factRead, "History", string(no), func(ctx context.Context) ([]seatflow.OrderEvent, error) { return p.Ledger.History(ctx, no) })
}

// VoidOrder implements [seatflow.Ledger].
func (p ledgerPort) VoidOrder(ctx context.Context, no seatflow.OrderNo, s seatflow.ShowID, a seatflow.Actor) (seatflow.Order, error) {
	return step(ctx, p.n, factWrite, "VoidOrder", string(no), func(ctx context.Context) (seatflow.Order, error) { return p.Ledger.VoidOrder(ctx, no, s, a) })
}

// StartPayment implements [seatflow.Ledger].
func (p ledgerPort) StartPayment(ctx context.Context, c seatflow.OrderChange, to time.Time) (seatflow.Order, error) {
	return step(ctx, p.n, factWrite, "StartPayment", string(c.No), func(ctx context.Context) (seatflow.Order, error) { return p.Ledger.StartPayment(ctx, c, to) })
}

// ExtendOrder implements [seatflow.Ledger].
func (p ledgerPort) ExtendOrder(ctx context.Context, c seatflow.OrderChange, seen, to time.Time) (seatflow.Order, error) {
	return step(ctx, p.n, factWrite, "ExtendOrder", string(c.No), func(ctx context.Context) (seatflow.Order, error) {
		return p.Ledger.ExtendOrder(ctx, c, seen, to)
	})
}

// CancelOrder implements [seatflow.Ledger].
func (p ledgerPort) CancelOrder(ctx context.Context, c seatflow.OrderChange) (seatflow.Order, error) {
	return step(ctx, p.n, factWrite, "CancelOrder", string(c.No), func(ctx context.Context) (seatflow.Order, error) { return p.Ledger.CancelOrder(ctx, c) })
}

// ExpireOrder implements [seatflow.Ledger].
func (p ledgerPort) ExpireOrder(ctx context.Context, c seatflow.OrderChange, seen time.Time) (seatflow.Order, error) {
	return step(ctx, p.n, factWrite, "ExpireOrder", string(c.No), func(ctx context.Context) (seatflow.Order, error) { return p.Ledger.ExpireOrder(ctx, c, seen) })
}

// RefundSeats implements [seatflow.Ledger].
func (p ledgerPort) RefundSeats(ctx context.Context, c seatflow.OrderChange, seats []seatflow.SeatID) (o seatflow.Order, r *seatflow.Refund, err error) {
	o, err = step(ctx, p.n, factWrite, "RefundSeats", fmt.Sprint(c.No, seats), func(ctx context.Context) (o seatflow.Order, err error) {
		o, r, err = p.Ledger.RefundSeats(ctx, c, seats)
		return o, err
	})
	if err != nil {
		r = nil
	}
	return o, r, err
}

// RecordPayment implements [seatflow.Ledger].
func (p ledgerPort) RecordPayment(ctx context.Context, e seatflow.PaymentEvent, a seatflow.Actor) (seatflow.PaymentOutcome, error) {
	return step(ctx, p.n, factWrite, "RecordPayment", string(e.Order), func(ctx context.Context) (seatflow.PaymentOutcome, error) {
		out, err := p.Ledger.RecordPayment(ctx, e, a)
		if err == nil && out.Ending == seatflow.EndingReseated {
			p.n.w.reseated[out.Order.User] = true
		}
		return out, err
	})
}

// DueRefunds implements [seatflow.Ledger].
func (p ledgerPort) DueRefunds(ctx context.Context, limit int) ([]seatflow.Refund, error) {
	return step(ctx, p.n, factRead, "DueRefunds", "", func(ctx context.Context) ([]seatflow.Refund, error) { return p.Ledger.DueRefunds(ctx, limit) })
}

// RefundDone implements [seatflow.Ledger].
func (p ledgerPort) RefundDone(ctx context.Context, id string) error {
	return step0(ctx, p.n, factWrite, "RefundDone", id, func(ctx context.Context) error { return p.Ledger.RefundDone(ctx, id) })
}

// Show implements [seatflow.Ledger].
func (p ledgerPort) Show(ctx context.Context, id seatflow.ShowID) (seatflow.Show, error) {
	return step(ctx, p.n, factRead, "Show", "", func(ctx context.Context) (seatflow.Show, error) { return p.Ledger.Show(ctx, id) })
}

// Shows implements [seatflow.Ledger].
func (p ledgerPort) Shows(ctx context.Context, after seatflow.ShowID, end time.Time, limit int) ([]seatflow.Show, error) {
	return step(ctx, p.n, factRead, "Shows", "", func(ctx context.Context) ([]seatflow.Show, error) { return p.Ledger.Shows(ctx, after, end, limit) })
}

// RaiseGeneration implements [seatflow.Ledger].
func (p ledgerPort) RaiseGeneration(ctx context.Context, id seatflow.ShowID, seen seatflow.Generation) (seatflow.Generation, error) {
	return step(ctx, p.n, factWrite, "RaiseGeneration", fmt.Sprint(seen), func(ctx context.Context) (seatflow.Generation, error) {
		return p.Ledger.RaiseGeneration(ctx, id, seen)
	})
}

// Facts implements [seatflow.Ledger].
func (p ledgerPort) Facts(ctx context.Context, id seatflow.ShowID) (seatflow.Facts, error) {
	return step(ctx, p.n, factRead, "Facts", "", func(ctx context.Context) (seatflow.Facts, error) { return p.Ledger.Facts(ctx, id) })
}

// Outbox implements [seatflow.Ledger].
func (p ledgerPort) Outbox(ctx context.Context, limit int) ([]seatflow.OutboxEvent, error) {
	return step(ctx, p.n, factRead, "Outbox", "", func(ctx context.Context) ([]seatflow.OutboxEvent, error) { return p.Ledger.Outbox(ctx, limit) })
}

// OutboxDone implements [seatflow.Ledger].
func (p ledgerPort) OutboxDone(ctx context.Context, ids []int64) error {
	return step0(ctx, p.n, factWrite, "OutboxDone", fmt.Sprint(len(ids)), func(ctx context.Context) error { return p.Ledger.OutboxDone(ctx, ids) })
}

// RecordRepairs implements [seatflow.Ledger].
func (p ledgerPort) RecordRepairs(ctx context.Context, rows []seatflow.RepairRecord) error {
	return step0(ctx, p.n, factWrite, "RecordRepairs", fmt.Sprint(len(rows)), func(ctx context.Context) error { return p.Ledger.RecordRepairs(ctx, rows) })
}

// Rotation implements [seatflow.Ledger].
func (p ledgerPort) Rotation(ctx context.Context) (seatflow.Rotation, error) {
	return step(ctx, p.n, factRead, "Rotation", "", func(ctx context.Context) (seatflow.Rotation, error) { return p.Ledger.Rotation(ctx) })
}

// MoveRotation implements [seatflow.Ledger].
func (p ledgerPort) MoveRotation(ctx context.Context, next seatflow.Rotation) (seatflow.Rotation, error) {
	return step(ctx, p.n, factWrite, "MoveRotation", fmt.Sprint(next.Version), func(ctx context.Context) (seatflow.Rotation, error) {
		return p.Ledger.MoveRotation(ctx, next)
	})
}

// Healthy implements [seatflow.Ledger].
func (p ledgerPort) Healthy(ctx context.Context) error { return ctx.Err() }

// busPort is the bus as a node sees it.
type busPort struct {
	*bus
	n *node
}

// Publish implements [seatflow.Bus].
func (p busPort) Publish(ctx context.Context, messages ...seatflow.Message) error {
	return step0(ctx, p.n, busWrite, "Publish", fmt.Sprint(messages[0].Subject, len(messages)), func(ctx context.Context) error { return p.bus.Publish(ctx, messages...) })
}

// Last implements [seatflow.Bus].
func (p busPort) Last(ctx context.Context, subject string) (seatflow.Message, error) {
	return step(ctx, p.n, busWrite, "Last", subject, func(ctx context.Context) (seatflow.Message, error) { return p.bus.Last(ctx, subject) })
}
