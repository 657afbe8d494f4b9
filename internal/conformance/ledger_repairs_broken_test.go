package conformance

import (
	"context"
	"slices"
	"testing"

	"seatflow"
)

// brokenRepairs is a ledger whose memory of repairs is wrong in one way.
type brokenRepairs struct {
	seatflow.Ledger
	record func(ctx context.Context, rows []seatflow.RepairRecord) error
	list   func(rows []seatflow.RepairRecord) []seatflow.RepairRecord
	move   func(ctx context.Context, next seatflow.Rotation) (seatflow.Rotation, error)
}

func (b *brokenRepairs) RecordRepairs(ctx context.Context, rows []seatflow.RepairRecord) error {
	if b.record != nil {
		return b.record(ctx, rows)
	}
	return b.Ledger.RecordRepairs(ctx, rows)
}

func (b *brokenRepairs) RepairsOf(ctx context.Context, show seatflow.ShowID, before int64, limit int) ([]seatflow.RepairRecord, error) {
	rows, err := b.Ledger.RepairsOf(ctx, show, before, limit)
	if b.list != nil {
		rows = b.list(rows)
	}
	return rows, err
}

func (b *brokenRepairs) MoveRotation(ctx context.Context, next seatflow.Rotation) (seatflow.Rotation, error) {
	if b.move != nil {
		return b.move(ctx, next)
	}
	return b.Ledger.MoveRotation(ctx, next)
}

// TestRepairsBroken breaks the memory of repairs on purpose and sees the suite
// notice.
func TestRepairsBroken(t *testing.T) {
	for name, c := range map[string]struct {
		by    string
		wreck func(b *brokenRepairs)
	}{
		"rows twice": {"repairs/audit rows", func(b *brokenRepairs) {
			round := 0
			b.record = func(ctx context.Context, rows []seatflow.RepairRecord) error {
				rows = slices.Clone(rows)
				round++
				for i := range rows {
					rows[i].Seq += 100 * round
				}
				return b.Ledger.RecordRepairs(ctx, rows)
			}
		}},
		"rows lost": {"repairs/audit rows", func(b *brokenRepairs) {
			b.record = func(context.Context, []seatflow.RepairRecord) error { return nil }
		}},
		"oldest first": {"repairs/audit rows", func(b *brokenRepairs) {
			b.list = func(rows []seatflow.RepairRecord) []seatflow.RepairRecord { slices.Reverse(rows); return rows }
		}},
		"without seats": {"repairs/audit rows", func(b *brokenRepairs) {
			b.list = func(rows []seatflow.RepairRecord) []seatflow.RepairRecord {
				for i := range rows {
					rows[i].Seats = nil
				}
				return rows
			}
		}},
		"a stale move": {"repairs/rotation", func(b *brokenRepairs) {
			b.move = func(ctx context.Context, next seatflow.Rotation) (seatflow.Rotation, error) {
				there, err := b.Ledger.Rotation(ctx)
				if err != nil {
					return there, err
				}
				next.Version = there.Version
				return b.Ledger.MoveRotation(ctx, next)
			}
		}},
		"everybody moves": {"repairs/rotation at once", func(b *brokenRepairs) {
			b.move = func(_ context.Context, next seatflow.Rotation) (seatflow.Rotation, error) { return next, nil }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(ledgerRepairCases, func(l ledgerCase) bool { return l.name == c.by })
			if i < 0 {
				t.Fatalf("no case %q", c.by)
			}
			seen := observe(t.Context(), func(tb TB) {
				ledgerRepairCases[i].check(tb, func(tb TB) seatflow.Ledger {
					b := &brokenRepairs{Ledger: sqliteLedger(func(*brokenLedger) {})(tb)}
					c.wreck(b)
					return b
				})
			})
			if len(seen) == 0 {
				t.Errorf("%s passes", c.by)
			}
		})
	}
}
