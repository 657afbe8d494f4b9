package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
)

const hallColumns = "id, name, zone, created_at"

func scanHall(row scanner) (seatflow.Hall, error) {
	var (
		h       seatflow.Hall
		created int64
	)
	err := row.Scan(&h.ID, &h.Name, &h.Zone, &created)
	h.CreatedAt = instant(created)
	return h, notFound(err)
}

// CreateHall implements [seatflow.Catalog]; it gives the hall its id.
func (l *Ledger) CreateHall(ctx context.Context, hall seatflow.Hall) (seatflow.Hall, error) {
	return change(ctx, l, 256, func(t *tx) (seatflow.Hall, error) {
		h := hall
		h.CreatedAt = l.createdAt(h.CreatedAt)
		r, err := t.exec("INSERT INTO hall (name, zone, created_at) VALUES (?,?,?)", h.Name, h.Zone, micros(h.CreatedAt))
		if err != nil {
			return h, err
		}
		id, err := r.LastInsertId()
		h.ID = seatflow.HallID(id)
		return h, err
	})
}

func (l *Ledger) createdAt(t time.Time) time.Time {
	if t.IsZero() {
		t = l.opts.Clock.Now()
	}
	return stored(t)
}

// Hall implements [seatflow.Catalog].
func (l *Ledger) Hall(ctx context.Context, id seatflow.HallID) (_ seatflow.Hall, err error) {
	defer l.unread(&err)
	return scanHall(l.reads.QueryRowContext(ctx, "SELECT "+hallColumns+" FROM hall WHERE id = ?", int64(id)))
}

// Halls implements [seatflow.Catalog].
func (l *Ledger) Halls(ctx context.Context, after seatflow.HallID, limit int) (_ []seatflow.Hall, err error) {
	defer l.unread(&err)
	return queryAll(ctx, &l.reads, scanHall, "SELECT "+hallColumns+" FROM hall WHERE id > ? ORDER BY id LIMIT ?", int64(after), bounded(limit))
}

const showColumns = "id, hall_id, plan_version, title, starts, ends, sale_from, sale_until, currency, prices, limit_per_user, " +
	"hold_for, hold_cap, extend_by, status, partition_no, generation, version, created_at"

func scanShow(row scanner) (seatflow.Show, error) {
	var (
		s                                   seatflow.Show
		starts, ends, from, until, created  int64
		holdFor, holdCap, extendBy, section int64
		prices                              string
	)
	if err := row.Scan(&s.ID, &s.Hall, &s.PlanVersion, &s.Title, &starts, &ends, &from, &until, &s.Currency, &prices, &s.LimitPerUser,
		&holdFor, &holdCap, &extendBy, &s.Status, &section, &s.Generation, &s.Version, &created); err != nil {
		return s, notFound(err)
	}
	s.Starts, s.Ends, s.SaleFrom, s.SaleUntil, s.CreatedAt = instant(starts), instant(ends), instant(from), instant(until), instant(created)
	s.HoldFor, s.HoldCap, s.ExtendBy = duration(holdFor), duration(holdCap), duration(extendBy)
	s.Partition = seatflow.Partition(section)
	if err := json.Unmarshal([]byte(prices), &s.Prices); err != nil {
		return s, fmt.Errorf("ledger: prices of show %d: %w", s.ID, err)
	}
	return s, nil
}

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

func formatPrices(prices map[string]int64) (string, error) {
	if prices == nil {
		prices = map[string]int64{}
	}
	b, err := json.Marshal(prices, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("ledger: prices: %w", err)
	}
	return string(b), nil
}

// asStored returns a show with its times and durations as they are stored.
func asStored(s seatflow.Show) seatflow.Show {
	s.Starts, s.Ends, s.SaleFrom, s.SaleUntil = stored(s.Starts), stored(s.Ends), stored(s.SaleFrom), stored(s.SaleUntil)
	s.HoldFor, s.HoldCap, s.ExtendBy = duration(s.HoldFor.Microseconds()), duration(s.HoldCap.Microseconds()), duration(s.ExtendBy.Microseconds())
	if s.Status == "" {
		s.Status = seatflow.ShowPublished
	}
	prices := make(map[string]int64, len(s.Prices)) // the caller's map stays its own
	for name, p := range s.Prices {
		prices[name] = p
	}
	s.Prices = prices
	return s
}

// CreateShow implements [seatflow.Catalog]; it gives the show its id, its
// first version and, unless it has one, its first generation. A plan that is
// not published is ErrNotFound.
func (l *Ledger) CreateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
	prices, err := formatPrices(show.Prices)
	if err != nil {
		return seatflow.Show{}, err
	}
	return change(ctx, l, 512+len(prices), func(t *tx) (seatflow.Show, error) {
		s := asStored(show)
		s.Version, s.Generation, s.CreatedAt = 1, max(s.Generation, 1), l.createdAt(s.CreatedAt)
		var one int
		err := t.QueryRowContext(t.ctx, "SELECT 1 FROM seat_plan WHERE hall_id = ? AND version = ?", int64(s.Hall), int64(s.PlanVersion)).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return s, domainError{fmt.Errorf("ledger: plan %d of hall %d: %w", s.PlanVersion, s.Hall, seatflow.ErrNotFound)}
		}
		if err != nil {
			return s, err
		}
		r, err := t.exec("INSERT INTO "+showTable+" (hall_id, plan_version, title, starts, ends, sale_from, sale_until, currency, prices, "+
			"limit_per_user, hold_for, hold_cap, extend_by, status, partition_no, generation, version, created_at) "+
			"VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", int64(s.Hall), int64(s.PlanVersion), s.Title, micros(s.Starts), micros(s.Ends),
			micros(s.SaleFrom), micros(s.SaleUntil), s.Currency, prices, s.LimitPerUser, s.HoldFor.Microseconds(), s.HoldCap.Microseconds(),
			s.ExtendBy.Microseconds(), string(s.Status), int64(s.Partition), int64(s.Generation), s.Version, micros(s.CreatedAt))
		if err != nil {
			return s, err
		}
		id, err := r.LastInsertId()
		s.ID = seatflow.ShowID(id)
		return s, err
	})
}

// UpdateShow implements [seatflow.Catalog].
func (l *Ledger) UpdateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
	prices, err := formatPrices(show.Prices)
	if err != nil {
		return seatflow.Show{}, err
	}
	return change(ctx, l, 512+len(prices), func(t *tx) (seatflow.Show, error) {
		was, err := scanShow(t.QueryRowContext(t.ctx, "SELECT "+showColumns+" FROM "+showTable+" WHERE id = ?"+l.dialect.forUpdate(), int64(show.ID)))
		if errors.Is(err, seatflow.ErrNotFound) {
			return was, domainError{err}
		}
		if err != nil {
			return was, err
		}
		if was.Version != show.Version {
			return was, domainError{fmt.Errorf("ledger: show %d has version %d, not %d: %w", show.ID, was.Version, show.Version, seatflow.ErrWrongState)}
		}
		s := asStored(show)
		s.Hall, s.PlanVersion, s.Generation, s.CreatedAt = was.Hall, was.PlanVersion, was.Generation, was.CreatedAt
		s.Version++
		if s.Partition != was.Partition {
			s.Generation++
			var pending bool
			if err := t.QueryRowContext(t.ctx, "SELECT EXISTS (SELECT 1 FROM order_seat s JOIN order_info o ON o.no = s.order_no WHERE s.show_id = ? AND o.state = ?)",
				int64(s.ID), string(seatflow.OrderPending)).Scan(&pending); err != nil {
				return was, err
			}
			if pending {
				return was, domainError{fmt.Errorf("ledger: show %d has pending orders and stays in partition %d: %w", s.ID, was.Partition, seatflow.ErrWrongState)}
			}
		}
		return s, t.execOne("UPDATE "+showTable+" SET title = ?, starts = ?, ends = ?, sale_from = ?, sale_until = ?, currency = ?, prices = ?, "+
			"limit_per_user = ?, hold_for = ?, hold_cap = ?, extend_by = ?, status = ?, partition_no = ?, generation = ?, version = ? WHERE id = ? AND version = ?",
			s.Title, micros(s.Starts), micros(s.Ends), micros(s.SaleFrom), micros(s.SaleUntil), s.Currency, prices, s.LimitPerUser,
			s.HoldFor.Microseconds(), s.HoldCap.Microseconds(), s.ExtendBy.Microseconds(), string(s.Status),
			int64(s.Partition), int64(s.Generation), s.Version, int64(s.ID), was.Version)
	})
}

// Show implements [seatflow.Catalog].
func (l *Ledger) Show(ctx context.Context, id seatflow.ShowID) (_ seatflow.Show, err error) {
	defer l.unread(&err)
	return scanShow(l.reads.QueryRowContext(ctx, "SELECT "+showColumns+" FROM "+showTable+" WHERE id = ?", int64(id)))
}

// Shows implements [seatflow.Catalog]; a show to go on after that is not there
// is ErrNotFound.
func (l *Ledger) Shows(ctx context.Context, after seatflow.ShowID, endAfter time.Time, limit int) (_ []seatflow.Show, err error) {
	defer l.unread(&err)
	query, args := "SELECT "+showColumns+" FROM "+showTable+" WHERE 1 = 1", []any{}
	if after != 0 {
		var starts int64
		if err := l.reads.QueryRowContext(ctx, "SELECT starts FROM "+showTable+" WHERE id = ?", int64(after)).Scan(&starts); err != nil {
			return nil, notFound(err)
		}
		query += " AND (starts > ? OR starts = ? AND id > ?)"
		args = append(args, starts, starts, int64(after))
	}
	if !endAfter.IsZero() {
		query += " AND ends > ?"
		args = append(args, micros(endAfter))
	}
	return queryAll(ctx, &l.reads, scanShow, query+" ORDER BY starts, id LIMIT ?", append(args, bounded(limit))...)
}
