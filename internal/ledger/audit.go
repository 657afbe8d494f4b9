package ledger

import (
	"context"

	"seatflow"
)

// Audit implements [seatflow.FactsReader].
func (l *Ledger) Audit(ctx context.Context) (seatflow.LedgerAudit, error) {
	var a seatflow.LedgerAudit
	err := l.consistently(ctx, func(q querier) error {
		return nil
	})
	return a, err
}
