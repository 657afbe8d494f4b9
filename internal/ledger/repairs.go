package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"seatflow"
)

// repairBytes is about what a row of the audit table takes.
const repairBytes = 512

// RecordRepairs implements [seatflow.Repairs].
func (l *Ledger) RecordRepairs(ctx context.Context, rows []seatflow.RepairRecord) error {
	if len(rows) == 0 {
		return nil
	}
	rows = slices.Clone(rows) // the committer may be at it after the caller has gone
	_, err := change(ctx, l, repairBytes*len(rows), func(t *tx) (struct{}, error) {
		for i := range rows {
			r := &rows[i]
			var there int64
			err := t.QueryRowContext(t.ctx, "SELECT seq FROM reconcile_repair WHERE round_id = ? AND seq = ?", r.Round, int64(r.Seq)).Scan(&there)
			if err == nil {
				continue
			}
			if !errors.Is(err, sql.ErrNoRows) {
				return struct{}{}, err
			}
			if _, err := t.exec("INSERT INTO reconcile_repair (round_id, seq, at, drift, show_id, order_no, seats, was, became, cause, counted) "+
				"VALUES (?,?,?,?,?,?,?,?,?,?,?)", r.Round, int64(r.Seq), micros(r.At), string(r.Drift), int64(r.Show), string(r.Order),
				formatSeats(r.Seats), r.Was, r.Now, r.Cause, int64(r.Count)); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}

const repairColumns = "id, round_id, seq, at, drift, show_id, order_no, seats, was, became, cause, counted"

func scanRepair(row scanner) (seatflow.RepairRecord, error) {
	var (
		r     seatflow.RepairRecord
		at    int64
		seats string
	)
	if err := row.Scan(&r.ID, &r.Round, &r.Seq, &at, &r.Drift, &r.Show, &r.Order, &seats, &r.Was, &r.Now, &r.Cause, &r.Count); err != nil {
		return r, err
	}
	r.At = instant(at)
	var err error
	if r.Seats, err = parseSeats(seats); err != nil {
		return r, fmt.Errorf("ledger: repair %d: %w", r.ID, err)
	}
	return r, nil
}

// RepairsOf implements [seatflow.Repairs].
func (l *Ledger) RepairsOf(ctx context.Context, show seatflow.ShowID, before int64, limit int) (_ []seatflow.RepairRecord, err error) {
	defer l.unread(&err)
	if before <= 0 {
		before = math.MaxInt64
	}
	if show == 0 {
		return queryAll(ctx, &l.reads, scanRepair, "SELECT "+repairColumns+" FROM reconcile_repair WHERE id < ? ORDER BY id DESC LIMIT ?",
			before, bounded(limit))
	}
	return queryAll(ctx, &l.reads, scanRepair, "SELECT "+repairColumns+" FROM reconcile_repair WHERE show_id = ? AND id < ? ORDER BY id DESC LIMIT ?",
		int64(show), before, bounded(limit))
}

// Rotation implements [seatflow.Repairs].
func (l *Ledger) Rotation(ctx context.Context) (_ seatflow.Rotation, err error) {
	defer l.unread(&err)
	return queryRotation(ctx, &l.reads, "")
}

func queryRotation(ctx context.Context, q querier, lock string) (seatflow.Rotation, error) {
	var (
		r             seatflow.Rotation
		began, before int64
	)
	err := q.QueryRowContext(ctx, "SELECT after_show, began, lap_before, version FROM reconcile_rotation WHERE id = 1"+lock).
		Scan(&r.After, &began, &before, &r.Version)
	if err != nil {
		return seatflow.Rotation{}, fmt.Errorf("ledger: rotation: %w", err)
	}
	r.Began, r.Before = instant(began), instant(before)
	return r, nil
}

// MoveRotation implements [seatflow.Repairs].
func (l *Ledger) MoveRotation(ctx context.Context, next seatflow.Rotation) (seatflow.Rotation, error) {
	return change(ctx, l, 0, func(t *tx) (seatflow.Rotation, error) {
		there, err := queryRotation(t.ctx, t, t.w.d.forUpdate())
		if err != nil {
			return there, err
		}
		if there.Version != next.Version {
			return there, domainError{fmt.Errorf("ledger: the rotation was moved meanwhile: %w", seatflow.ErrWrongState)}
		}
		moved := seatflow.Rotation{After: next.After, Began: stored(next.Began), Before: stored(next.Before), Version: there.Version + 1}
		return moved, t.execOne("UPDATE reconcile_rotation SET after_show = ?, began = ?, lap_before = ?, version = ? WHERE id = 1 AND version = ?",
			int64(moved.After), micros(moved.Began), micros(moved.Before), moved.Version, there.Version)
	})
}
