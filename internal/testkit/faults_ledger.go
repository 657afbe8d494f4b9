package testkit

import (
	"context"
	"time"

	"seatflow"
)

// CreateHall implements [seatflow.Ledger].
func (f *FaultyLedger) CreateHall(ctx context.Context, hall seatflow.Hall) (seatflow.Hall, error) {
	return pass(ctx, f.Faults, "CreateHall", func() (seatflow.Hall, error) {
		return f.Ledger.CreateHall(ctx, hall)
	})
}

// Hall implements [seatflow.Ledger].
func (f *FaultyLedger) Hall(ctx context.Context, id seatflow.HallID) (seatflow.Hall, error) {
	return pass(ctx, f.Faults, "Hall", func() (seatflow.Hall, error) {
		return f.Ledger.Hall(ctx, id)
	})
}

// Halls implements [seatflow.Ledger].
func (f *FaultyLedger) Halls(ctx context.Context, after seatflow.HallID, limit int) ([]seatflow.Hall, error) {
	return pass(ctx, f.Faults, "Halls", func() ([]seatflow.Hall, error) {
		return f.Ledger.Halls(ctx, after, limit)
	})
}

// HallSeats implements [seatflow.Ledger].
func (f *FaultyLedger) HallSeats(ctx context.Context, hall seatflow.HallID) (seatflow.HallSeats, error) {
	return pass(ctx, f.Faults, "HallSeats", func() (seatflow.HallSeats, error) {
		return f.Ledger.HallSeats(ctx, hall)
	})
}

// PublishPlan implements [seatflow.Ledger].
func (f *FaultyLedger) PublishPlan(ctx context.Context, plan *seatflow.Plan) error {
	return pass0(ctx, f.Faults, "PublishPlan", func() error { return f.Ledger.PublishPlan(ctx, plan) })
}

// Plan implements [seatflow.Ledger].
func (f *FaultyLedger) Plan(ctx context.Context, hall seatflow.HallID, version seatflow.PlanVersion) (*seatflow.Plan, error) {
	return pass(ctx, f.Faults, "Plan", func() (*seatflow.Plan, error) {
		return f.Ledger.Plan(ctx, hall, version)
	})
}

// CreateShow implements [seatflow.Ledger].
func (f *FaultyLedger) CreateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
	return pass(ctx, f.Faults, "CreateShow", func() (seatflow.Show, error) {
		return f.Ledger.CreateShow(ctx, show)
	})
}

// UpdateShow implements [seatflow.Ledger].
func (f *FaultyLedger) UpdateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
	return pass(ctx, f.Faults, "UpdateShow", func() (seatflow.Show, error) {
		return f.Ledger.UpdateShow(ctx, show)
	})
}

// Show implements [seatflow.Ledger].
func (f *FaultyLedger) Show(ctx context.Context, id seatflow.ShowID) (seatflow.Show, error) {
	return pass(ctx, f.Faults, "Show", func() (seatflow.Show, error) {
		return f.Ledger.Show(ctx, id)
	})
}

// Shows implements [seatflow.Ledger].
func (f *FaultyLedger) Shows(ctx context.Context, after seatflow.ShowID, endAfter time.Time, limit int) ([]seatflow.Show, error) {
	return pass(ctx, f.Faults, "Shows", func() ([]seatflow.Show, error) {
		return f.Ledger.Shows(ctx, after, endAfter, limit)
	})
}

// InsertOrder implements [seatflow.Ledger].
func (f *FaultyLedger) InsertOrder(ctx context.Context, order seatflow.NewOrder) (seatflow.Order, error) {
	return pass(ctx, f.Faults, "InsertOrder", func() (seatflow.Order, error) {
		return f.Ledger.InsertOrder(ctx, order)
	})
}

// OrderByKey implements [seatflow.Ledger].
func (f *FaultyLedger) OrderByKey(ctx context.Context, user seatflow.UserID, key string) (seatflow.Order, error) {
	return pass(ctx, f.Faults, "OrderByKey", func() (seatflow.Order, error) {
		return f.Ledger.OrderByKey(ctx, user, key)
	})
}

// Order implements [seatflow.Ledger].
func (f *FaultyLedger) Order(ctx context.Context, no seatflow.OrderNo, user seatflow.UserID) (seatflow.Order, error) {
	return pass(ctx, f.Faults, "Order", func() (seatflow.Order, error) {
		return f.Ledger.Order(ctx, no, user)
	})
}

// OrdersOf implements [seatflow.Ledger].
func (f *FaultyLedger) OrdersOf(ctx context.Context, user seatflow.UserID, before seatflow.OrderNo, limit int) ([]seatflow.Order, error) {
	return pass(ctx, f.Faults, "OrdersOf", func() ([]seatflow.Order, error) {
		return f.Ledger.OrdersOf(ctx, user, before, limit)
	})
}

// History implements [seatflow.Ledger].
func (f *FaultyLedger) History(ctx context.Context, no seatflow.OrderNo) ([]seatflow.OrderEvent, error) {
	return pass(ctx, f.Faults, "History", func() ([]seatflow.OrderEvent, error) {
		return f.Ledger.History(ctx, no)
	})
}

// VoidOrder implements [seatflow.Ledger].
func (f *FaultyLedger) VoidOrder(ctx context.Context, no seatflow.OrderNo, show seatflow.ShowID, actor seatflow.Actor) (seatflow.Order, error) {
	return pass(ctx, f.Faults, "VoidOrder", func() (seatflow.Order, error) {
		return f.Ledger.VoidOrder(ctx, no, show, actor)
	})
}

// StartPayment implements [seatflow.Ledger].
func (f *FaultyLedger) StartPayment(ctx context.Context, c seatflow.OrderChange, extendTo time.Time) (seatflow.Order, error) {
	return pass(ctx, f.Faults, "StartPayment", func() (seatflow.Order, error) {
		return f.Ledger.StartPayment(ctx, c, extendTo)
	})
}

// ExtendOrder implements [seatflow.Ledger].
func (f *FaultyLedger) ExtendOrder(ctx context.Context, c seatflow.OrderChange, seen, deadline time.Time) (seatflow.Order, error) {
	return pass(ctx, f.Faults, "ExtendOrder", func() (seatflow.Order, error) {
		return f.Ledger.ExtendOrder(ctx, c, seen, deadline)
	})
}

// CancelOrder implements [seatflow.Ledger].
func (f *FaultyLedger) CancelOrder(ctx context.Context, c seatflow.OrderChange) (seatflow.Order, error) {
	return pass(ctx, f.Faults, "CancelOrder", func() (seatflow.Order, error) {
		return f.Ledger.CancelOrder(ctx, c)
	})
}

// ExpireOrder implements [seatflow.Ledger].
func (f *FaultyLedger) ExpireOrder(ctx context.Context, c seatflow.OrderChange, seen time.Time) (seatflow.Order, error) {
	return pass(ctx, f.Faults, "ExpireOrder", func() (seatflow.Order, error) {
		return f.Ledger.ExpireOrder(ctx, c, seen)
	})
}

// RefundSeats implements [seatflow.Ledger].
func (f *FaultyLedger) RefundSeats(ctx context.Context, c seatflow.OrderChange, seats []seatflow.SeatID) (seatflow.Order, *seatflow.Refund, error) {
	type answer struct {
		order  seatflow.Order
		refund *seatflow.Refund
	}
	a, err := pass(ctx, f.Faults, "RefundSeats", func() (a answer, err error) {
		a.order, a.refund, err = f.Ledger.RefundSeats(ctx, c, seats)
		return a, err
	})
	return a.order, a.refund, err
}

// UnblockSeats implements [seatflow.Ledger].
func (f *FaultyLedger) UnblockSeats(ctx context.Context, c seatflow.OrderChange, seats []seatflow.SeatID) (seatflow.Order, error) {
	return pass(ctx, f.Faults, "UnblockSeats", func() (seatflow.Order, error) {
		return f.Ledger.UnblockSeats(ctx, c, seats)
	})
}

// Blocks implements [seatflow.Ledger].
func (f *FaultyLedger) Blocks(ctx context.Context, show seatflow.ShowID) ([]seatflow.Order, error) {
	return pass(ctx, f.Faults, "Blocks", func() ([]seatflow.Order, error) {
		return f.Ledger.Blocks(ctx, show)
	})
}

// RecordPayment implements [seatflow.Ledger].
func (f *FaultyLedger) RecordPayment(ctx context.Context, event seatflow.PaymentEvent, actor seatflow.Actor) (seatflow.PaymentOutcome, error) {
	return pass(ctx, f.Faults, "RecordPayment", func() (seatflow.PaymentOutcome, error) {
		return f.Ledger.RecordPayment(ctx, event, actor)
	})
}

// PaymentsOf implements [seatflow.Ledger].
func (f *FaultyLedger) PaymentsOf(ctx context.Context, no seatflow.OrderNo) ([]seatflow.Payment, error) {
	return pass(ctx, f.Faults, "PaymentsOf", func() ([]seatflow.Payment, error) {
		return f.Ledger.PaymentsOf(ctx, no)
	})
}

// UnknownPayments implements [seatflow.Ledger].
func (f *FaultyLedger) UnknownPayments(ctx context.Context, after int64, limit int) ([]seatflow.Payment, error) {
	return pass(ctx, f.Faults, "UnknownPayments", func() ([]seatflow.Payment, error) {
		return f.Ledger.UnknownPayments(ctx, after, limit)
	})
}

// DueRefunds implements [seatflow.Ledger].
func (f *FaultyLedger) DueRefunds(ctx context.Context, limit int) ([]seatflow.Refund, error) {
	return pass(ctx, f.Faults, "DueRefunds", func() ([]seatflow.Refund, error) {
		return f.Ledger.DueRefunds(ctx, limit)
	})
}

// RefundDone implements [seatflow.Ledger].
func (f *FaultyLedger) RefundDone(ctx context.Context, id string) error {
	return pass0(ctx, f.Faults, "RefundDone", func() error { return f.Ledger.RefundDone(ctx, id) })
}

// RaiseGeneration implements [seatflow.Ledger].
func (f *FaultyLedger) RaiseGeneration(ctx context.Context, show seatflow.ShowID, seen seatflow.Generation) (seatflow.Generation, error) {
	return pass(ctx, f.Faults, "RaiseGeneration", func() (seatflow.Generation, error) {
		return f.Ledger.RaiseGeneration(ctx, show, seen)
	})
}

// Facts implements [seatflow.Ledger].
func (f *FaultyLedger) Facts(ctx context.Context, show seatflow.ShowID) (seatflow.Facts, error) {
	return pass(ctx, f.Faults, "Facts", func() (seatflow.Facts, error) {
		return f.Ledger.Facts(ctx, show)
	})
}

// Audit implements [seatflow.Ledger].
func (f *FaultyLedger) Audit(ctx context.Context) (seatflow.LedgerAudit, error) {
	return pass(ctx, f.Faults, "Audit", func() (seatflow.LedgerAudit, error) {
		return f.Ledger.Audit(ctx)
	})
}

// Outbox implements [seatflow.Ledger].
func (f *FaultyLedger) Outbox(ctx context.Context, limit int) ([]seatflow.OutboxEvent, error) {
	return pass(ctx, f.Faults, "Outbox", func() ([]seatflow.OutboxEvent, error) {
		return f.Ledger.Outbox(ctx, limit)
	})
}

// OutboxDone implements [seatflow.Ledger].
func (f *FaultyLedger) OutboxDone(ctx context.Context, ids []int64) error {
	return pass0(ctx, f.Faults, "OutboxDone", func() error { return f.Ledger.OutboxDone(ctx, ids) })
}

// RecordRepairs implements [seatflow.Ledger].
func (f *FaultyLedger) RecordRepairs(ctx context.Context, rows []seatflow.RepairRecord) error {
	return pass0(ctx, f.Faults, "RecordRepairs", func() error { return f.Ledger.RecordRepairs(ctx, rows) })
}

// RepairsOf implements [seatflow.Ledger].
func (f *FaultyLedger) RepairsOf(ctx context.Context, show seatflow.ShowID, before int64, limit int) ([]seatflow.RepairRecord, error) {
	return pass(ctx, f.Faults, "RepairsOf", func() ([]seatflow.RepairRecord, error) {
		return f.Ledger.RepairsOf(ctx, show, before, limit)
	})
}

// Rotation implements [seatflow.Ledger].
func (f *FaultyLedger) Rotation(ctx context.Context) (seatflow.Rotation, error) {
	return pass(ctx, f.Faults, "Rotation", func() (seatflow.Rotation, error) { return f.Ledger.Rotation(ctx) })
}

// MoveRotation implements [seatflow.Ledger].
func (f *FaultyLedger) MoveRotation(ctx context.Context, next seatflow.Rotation) (seatflow.Rotation, error) {
	return pass(ctx, f.Faults, "MoveRotation", func() (seatflow.Rotation, error) { return f.Ledger.MoveRotation(ctx, next) })
}

// Healthy implements [seatflow.Ledger].
func (f *FaultyLedger) Healthy(ctx context.Context) error {
	return pass0(ctx, f.Faults, "Healthy", func() error { return f.Ledger.Healthy(ctx) })
}

// Close implements [seatflow.Ledger].
func (f *FaultyLedger) Close() error {
	return pass0(context.Background(), f.Faults, "Close", func() error { return f.Ledger.Close() })
}
