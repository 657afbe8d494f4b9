package seatflow

import (
	"context"
	"time"
)

// Drift names a way in which a view differs from its facts, by the label under
// which its repairs are counted.
type Drift string

// The drifts, by the numbers of the checks that find them.
const (
	DriftExpired      Drift = "expired_cancelled"     // 1: a pending order long past its deadline
	DriftPaidSeats    Drift = "paid_seats_fixed"      // 2: seats of a paid order not sold, or another's
	DriftView         Drift = "hashes_rebuilt"        // 3: the view is missing, or not one to be mended
	DriftOrphanHolds  Drift = "orphan_locks_released" // 4: a held seat whose owner has no live order
	DriftOrphanSales  Drift = "sold_orphans_released" // 5: a sold seat whose owner has no paid order
	DriftPendingSeats Drift = "pending_seats_fixed"   // 6: seats of a pending order not held by it
	DriftDerived      Drift = "derived_fixed"         // 7: blocks, records, counts of users, wake-ups
)

// Drifts lists every drift; the check that finds one has its place here,
// counted from 1.
var Drifts = [...]Drift{DriftExpired, DriftPaidSeats, DriftView, DriftOrphanHolds, DriftOrphanSales,
	DriftPendingSeats, DriftDerived}

// Number returns the number of the check that finds d, 0 for no drift.
func (d Drift) Number() int {
	for i, known := range Drifts {
		if d == known {
			return i + 1
		}
	}
	return 0
}

// RepairRecord is a row of the audit table: what a reconciler did.
type RepairRecord struct {
	ID    int64     `json:"id,omitempty"` // given by the ledger, growing
	Round string    `json:"round"`        // names the round
	Seq   int       `json:"seq"`          // within the round
	At    time.Time `json:"at"`
	Drift Drift     `json:"check"`
	Show  ShowID    `json:"show"`
	Order OrderNo   `json:"order,omitempty"` // whose seats these are, or were
	Seats []SeatID  `json:"seats,omitempty"`
	Was   string    `json:"was"` // what was found, in words
	Now   string    `json:"now"` // what it was made
	Cause string    `json:"cause"`
	Count int       `json:"count"` // how far it counted: seats, or 1
}

// Rotation is how far reconcilers have come over the shows, together.
type Rotation struct {
	After   ShowID    // the last show that was taken in this lap; 0: none yet
	Began   time.Time // when this lap began; zero: there was none
	Before  time.Time // when the lap before it began; zero: there was none
	Version int64     // grows with every move
}

// Repairs keeps what reconcilers did and how far they have come.
type Repairs interface {
	// RecordRepairs adds rows to the audit table, all or none. A row whose
	// round and sequence are there already is left out, so that it may be
	// tried again.
	RecordRepairs(ctx context.Context, rows []RepairRecord) error
	// RepairsOf lists rows, newest first, before an id (0: from the newest),
	// of one show (0: of all).
	RepairsOf(ctx context.Context, show ShowID, before int64, limit int) ([]RepairRecord, error)
	// Rotation reads the rotation; it is zero before its first move.
	Rotation(ctx context.Context) (Rotation, error)
	// MoveRotation replaces the rotation and returns it with its new version,
	// if next.Version is that of the one there (else ErrWrongState).
	MoveRotation(ctx context.Context, next Rotation) (Rotation, error)
}
