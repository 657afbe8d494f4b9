package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"seatflow"
)

// auditList is how many findings of a kind are listed.
const auditList = 100

func note(list *[]string, format string, args ...any) {
	if len(*list) < auditList {
		*list = append(*list, fmt.Sprintf(format, args...))
	}
}

// Audit implements [seatflow.FactsReader]. It reads every order once and
// holds a few dozen bytes for each occupied seat.
func (l *Ledger) Audit(ctx context.Context) (seatflow.LedgerAudit, error) {
	a := seatflow.LedgerAudit{Orders: map[seatflow.OrderState]int64{}}
	err := l.consistently(ctx, func(q querier) (err error) {
		if a.MissingIndexes, err = l.dialect.missingKeys(ctx, q); err != nil {
			return err
		}
		occupied, err := auditOccupancy(ctx, q, &a)
		if err != nil {
			return err
		}
		if err := auditOrders(ctx, q, &a, occupied); err != nil {
			return err
		}
		if err := auditPayments(ctx, q, &a); err != nil {
			return err
		}
		if err := auditPaid(ctx, q, &a); err != nil {
			return err
		}
		faults, err := l.dialect.integrity(ctx, q, auditList)
		a.IntegrityFaults = append(a.IntegrityFaults, faults...)
		return err
	})
	return a, err
}

type showSeat struct {
	show seatflow.ShowID
	seat seatflow.SeatID
}

// auditOccupancy reads the occupancy: how many rows, which seats are there
// twice, and who has each. What the last of several rows says stands for the
// seat; the seat is reported anyway.
func auditOccupancy(ctx context.Context, q querier, a *seatflow.LedgerAudit) (map[showSeat]string, error) {
	// The order makes repeats neighbours and does not rest on the key, which
	// may be what is missing.
	rows, err := q.QueryContext(ctx, "SELECT show_id, seat_id, order_no FROM order_seat ORDER BY show_id, seat_id, order_no")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	occupied := map[showSeat]string{}
	var (
		last   showSeat
		owners []string
	)
	double := func() {
		if len(owners) > 1 {
			note(&a.DoubleSeats, "show %d seat %d: %s", last.show, last.seat, strings.Join(owners, ", "))
		}
	}
	for rows.Next() {
		var (
			at showSeat
			no string
		)
		if err := rows.Scan(&at.show, &at.seat, &no); err != nil {
			return nil, err
		}
		a.ActiveSeats++
		if a.ActiveSeats == 1 || at != last {
			double()
			a.DistinctSeats++
			last, owners = at, owners[:0]
		}
		owners = append(owners, no)
		occupied[at] = no
	}
	double()
	return occupied, rows.Err()
}

// auditOrders counts the orders and holds the active ones against the
// occupancy. What is left of that belongs to no active order that lists it.
func auditOrders(ctx context.Context, q querier, a *seatflow.LedgerAudit, occupied map[showSeat]string) error {
	rows, err := q.QueryContext(ctx, "SELECT no, show_id, state, items FROM order_info")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			no    string
			show  seatflow.ShowID
			state seatflow.OrderState
			items string
		)
		if err := rows.Scan(&no, &show, &state, &items); err != nil {
			return err
		}
		a.Orders[state]++
		if !state.Active() {
			continue
		}
		list, err := parseItems(items)
		if err != nil {
			note(&a.IntegrityFaults, "order %s: %v", no, err)
			continue
		}
		left := false
		for i := range list {
			if list[i].Refunded {
				continue
			}
			left = true
			at := showSeat{show, list[i].Seat}
			if occupied[at] == no {
				delete(occupied, at)
			} else {
				note(&a.MissingSeats, "show %d seat %d: %s (%s)", show, at.seat, no, state)
			}
		}
		if !left {
			note(&a.MissingSeats, "show %d: %s is %s and has no seat", show, no, state)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for at, no := range occupied {
		note(&a.OrphanSeats, "show %d seat %d: %s", at.show, at.seat, no)
	}
	return nil
}

// auditPayments holds every capture's ending against the rows that should
// bear it out.
func auditPayments(ctx context.Context, q querier, a *seatflow.LedgerAudit) error {
	rows, err := q.QueryContext(ctx, "SELECT p.provider, p.capture_id, p.order_no, p.amount, p.currency, p.ending, p.refund_id, "+
		"o.kind, o.state, r.amount, r.currency, r.capture_id, r.order_no, "+
		"(SELECT COALESCE(SUM(x.amount), 0) FROM refund x WHERE x.provider = p.provider AND x.capture_id = p.capture_id), "+
		"(SELECT COUNT(*) FROM refund x WHERE x.provider = p.provider AND x.capture_id = p.capture_id), "+
		"(SELECT COUNT(*) FROM payment x WHERE x.provider = p.provider AND x.capture_id = p.capture_id) "+
		"FROM payment p LEFT JOIN order_info o ON o.no = p.order_no LEFT JOIN refund r ON r.id = p.refund_id AND r.provider = p.provider "+
		"WHERE p.type = 'payment.captured'")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			p                                      auditPayment
			provider, no                           string
			kind, state                            sql.NullString
			refundAmount                           sql.NullInt64
			refundCurrency, refundCapture, forward sql.NullString
			copies                                 int64
		)
		if err := rows.Scan(&provider, &p.capture, &no, &p.amount, &p.currency, &p.ending, &p.refundID, &kind, &state, &refundAmount,
			&refundCurrency, &refundCapture, &forward, &p.returned, &p.refunds, &copies); err != nil {
			return err
		}
		a.Captures++
		p.sellable = state.Valid && kind.String == string(seatflow.KindSale) && state.String != string(seatflow.OrderVoid)
		p.bought = state.String == string(seatflow.OrderPaid) || state.String == string(seatflow.OrderRefunded)
		p.refundFits = refundAmount.Valid && refundAmount.Int64 == p.amount && refundCurrency.String == p.currency &&
			refundCapture == p.capture && forward.String == no
		switch p.ending {
		case seatflow.EndingPaid, seatflow.EndingReseated:
			a.EndingPaid++
		case seatflow.EndingRefund:
			a.EndingRefund++
		case seatflow.EndingUnknown:
			a.EndingUnknown++
		}
		why := p.fault()
		if why == "" && copies != 1 {
			why = fmt.Sprintf("stands %d times", copies)
		}
		if why != "" {
			note(&a.BadEndings, "%s capture %s of order %s, ending %s: %s", provider, p.capture.String, no, p.ending, why)
		}
	}
	return rows.Err()
}

// auditPayment is a capture beside what is known of its order and refunds.
type auditPayment struct {
	capture    sql.NullString
	amount     int64
	currency   string
	ending     seatflow.PaymentEnding
	refundID   sql.NullString
	sellable   bool  // the order is there, a sale and not void
	bought     bool  // and paid, or refunded after
	refundFits bool  // the named refund gives back exactly this capture
	refunds    int64 // recorded against the capture
	returned   int64 // by them together
}

// fault says what is wrong with a capture's ending, or "".
func (p *auditPayment) fault() string {
	switch {
	case !p.capture.Valid || p.capture.String == "":
		return "no capture id"
	case p.returned > p.amount:
		return fmt.Sprintf("%d refunded of %d", p.returned, p.amount)
	}
	switch p.ending {
	case seatflow.EndingPaid, seatflow.EndingReseated:
		switch {
		case !p.sellable || !p.bought:
			return "the order is not paid"
		case p.refundID.Valid:
			return "names a refund as well"
		}
	case seatflow.EndingRefund:
		switch {
		case !p.sellable:
			return "no such order"
		case !p.refundFits:
			return "no refund that gives it back"
		case p.refunds != 1:
			return fmt.Sprintf("%d refunds", p.refunds)
		}
	case seatflow.EndingUnknown:
		switch {
		case p.sellable:
			return "the order is there"
		case p.refundID.Valid || p.refunds != 0:
			return "refunded as well"
		}
	default:
		return "no ending"
	}
	return ""
}

// auditPaid looks for bought orders without exactly one capture that paid
// them, and for refunds of captures that are not there.
func auditPaid(ctx context.Context, q querier, a *seatflow.LedgerAudit) error {
	type finding struct {
		what string
		n    int64
	}
	scan := func(row scanner) (f finding, err error) {
		err = row.Scan(&f.what, &f.n)
		return f, err
	}
	paid, err := queryAll(ctx, q, scan, "SELECT o.no, (SELECT COUNT(*) FROM payment p WHERE p.order_no = o.no AND p.ending IN ('paid', 'reseated')) AS n "+
		"FROM order_info o WHERE o.state IN ('paid', 'refunded') AND "+
		"1 <> (SELECT COUNT(*) FROM payment p WHERE p.order_no = o.no AND p.type = 'payment.captured' AND p.ending IN ('paid', 'reseated')) LIMIT ?", auditList)
	if err != nil {
		return err
	}
	for _, f := range paid {
		note(&a.PaidWithoutCash, "order %s: %d captures paid it", f.what, f.n)
	}
	stray, err := queryAll(ctx, q, scan, "SELECT r.id, r.amount FROM refund r WHERE NOT EXISTS (SELECT 1 FROM payment p "+
		"WHERE p.provider = r.provider AND p.capture_id = r.capture_id AND p.type = 'payment.captured') LIMIT ?", auditList)
	if err != nil {
		return err
	}
	for _, f := range stray {
		note(&a.BadEndings, "refund %s of %d: no such capture", f.what, f.n)
	}
	return nil
}
