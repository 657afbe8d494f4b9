package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seatflow"
)

// cause guesses from an order's history how its seats came to be wrong. It is
// for the people who read the log, and decides nothing.
func (p *pass) cause(ctx context.Context, d *drift) string {
	if d.why != "" {
		return d.why
	}
	if d.owner.IsZero() {
		return "the store was written to by hand, or forgot a part"
	}
	if d.row == nil {
		return "no such order: the store was written to by hand, or the ledger lost it"
	}
	history, err := p.r.o.Ledger.History(ctx, d.owner.Order)
	if err != nil && !errors.Is(err, seatflow.ErrNotFound) {
		return "its history could not be read: " + err.Error()
	}
	return guess(d, history)
}

func guess(d *drift, history []seatflow.OrderEvent) string {
	if len(history) == 0 {
		return "the order has no history"
	}
	last := &history[len(history)-1]
	for i := len(history) - 1; i > 0 && (last.Type == seatflow.EventCancelRepeated || last.Type == seatflow.EventPaymentStarted); i-- {
		last = &history[i-1] // these change no seat
	}
	when := fmt.Sprintf("%s at %s by %s", words[last.Type], last.At.UTC().Format(time.RFC3339), last.Actor.User)
	switch d.kind {
	case seatflow.DriftExpired:
		return "no guardian came when it was due: none runs, or its wake-up was lost"
	case seatflow.DriftPaidSeats:
		if last.Type == seatflow.EventPaid || last.Type == seatflow.EventReseated {
			return when + ", and the view was not told"
		}
	case seatflow.DriftOrphanHolds, seatflow.DriftOrphanSales:
		if d.row.Attempt != d.owner.Attempt {
			return "the order has moved on to attempt " + fmt.Sprint(d.row.Attempt) + "; " + when
		}
		return when + ", and the seats were not released"
	case seatflow.DriftPendingSeats:
		return when + ", and the view lost the hold since"
	case seatflow.DriftDerived:
		switch last.Type {
		case seatflow.EventExtended, seatflow.EventBlocked, seatflow.EventUnblocked, seatflow.EventRefunded:
			return when + ", and the view was not told"
		}
	}
	return when + ", and the view changed since: it forgot, or was written to by hand"
}

// words put the types of event in words.
var words = map[seatflow.EventType]string{
	seatflow.EventCreated: "made", seatflow.EventPaymentStarted: "payment started", seatflow.EventExtended: "extended",
	seatflow.EventPaid: "paid", seatflow.EventReseated: "paid after it had ended", seatflow.EventCancelled: "cancelled",
	seatflow.EventCancelRepeated: "cancelled again", seatflow.EventExpired: "expired", seatflow.EventRefundDue: "refund due",
	seatflow.EventRefunded: "refunded", seatflow.EventBlocked: "blocked", seatflow.EventUnblocked: "unblocked",
	seatflow.EventVoided: "made void",
}
