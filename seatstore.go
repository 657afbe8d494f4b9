package seatflow

import (
	"context"
	"errors"
	"time"
)

// Errors of a [SeatStore]. Anything the caller may be told about seats is a
// tagged reply; these are failures of the store itself.
var (
	// ErrUnknownOutcome: the operation may or may not have been executed (a
	// time-out, a lost reply). It is never to be reported as "taken".
	ErrUnknownOutcome = errors.New("seatflow: outcome unknown")
	// ErrNotExecuted: the operation was certainly not executed and may be
	// tried again.
	ErrNotExecuted = errors.New("seatflow: not executed")
	// ErrNotReady: the view is missing or suspect; it must be rebuilt first.
	ErrNotReady = errors.New("seatflow: view not ready")
	// ErrStaleGeneration: a rebuild or an insert with a generation that is
	// not the show's.
	ErrStaleGeneration = errors.New("seatflow: stale generation")
)

// ShowRef is what a seat store must know of a show to find its view and to
// know whether one is expected.
type ShowRef struct {
	ID        ShowID
	Partition Partition
	Until     time.Time // end of the view's lifetime; after it, operations succeed as no-ops
}

// SeatStore is the view: one answer, in one atomic step, to "may this seat be
// taken?". Every method is one atomic operation on one show (or partition)
// and may be called concurrently. Times are the store's own clock. All
// operations are safe to retry: changes are fenced by [Owner].
//
// A view that is missing, or whose counts do not fit, answers
// [OutcomeNotReady] or ErrNotReady within its lifetime, and outside it every
// operation but Hold succeeds as a no-op.
type SeatStore interface {
	// Hold takes seats 0→1, all or none. It checks every seat before it
	// writes any and reports all that failed. A repeat by the same live owner
	// for the same seats answers held with the same deadline. Refusals are
	// replies, not errors.
	Hold(ctx context.Context, req HoldRequest) (HoldReply, error)

	// Extend moves the deadline of an owner's held seats, never past the cap
	// and never earlier. The ledger was extended before, so the requested
	// deadline is the fact: a hold counts as live while that lies ahead.
	Extend(ctx context.Context, show ShowRef, owner Owner, deadline time.Time) (ExtendReply, error)

	// Sell turns an owner's held seats 1→2 and ends the deadline. A repeat is
	// a no-op. The reply counts the owner's seats that are sold now, so that a
	// lost hold is noticed.
	Sell(ctx context.Context, show ShowRef, owner Owner) (SellReply, error)

	// Release frees held seats 1→0 of their owner: all (seats nil) or those
	// listed. Seats of others, and sold ones, are left alone.
	Release(ctx context.Context, show ShowRef, owner Owner, seats []SeatID) (ReleaseReply, error)

	// Unsell frees held and sold seats 1,2→0 of their owner, for refunds. A
	// late Sell after it finds no record and does nothing.
	Unsell(ctx context.Context, show ShowRef, owner Owner, seats []SeatID) (ReleaseReply, error)

	// Block takes free seats 0→x for a block whose fact is in the ledger
	// already; a seat that is not free is reported, the others are blocked.
	Block(ctx context.Context, show ShowRef, owner Owner, seats []SeatID) (BlockReply, error)

	// Unblock frees the listed (nil: all) seats of a block x→0.
	Unblock(ctx context.Context, show ShowRef, owner Owner, seats []SeatID) (BlockReply, error)

	// ClaimDue returns at most limit holds of the partition whose wake-up has
	// come, and pushes their wake-ups on by lease, so that a guardian that
	// dies loses nothing.
	ClaimDue(ctx context.Context, partition Partition, limit int, lease time.Duration) ([]DueHold, error)

	// Changes returns the changes of a partition after a position, oldest
	// first, waiting up to req.Wait for the first. Position "" is the oldest
	// kept, [PositionNow] the newest. When changes between the position and
	// the oldest kept were lost the batch says Trimmed.
	Changes(ctx context.Context, req ChangesRequest) (ChangeBatch, error)

	// Snapshot reads a whole view in one step. It does not block writers for
	// a time that grows with the house.
	Snapshot(ctx context.Context, show ShowRef, detail Detail) (*Snapshot, error)

	// Rebuild installs a whole view. Its generation must be higher than the
	// one there (else ErrStaleGeneration); the revision starts again at 0.
	// The replacement is atomic: no reader sees a part of it.
	Rebuild(ctx context.Context, view View) error

	// Repair sets listed seats that are still as the caller saw them; a seat
	// that has changed since is left alone and reported. Counts are recounted
	// inside the step. It never changes a view of another generation
	// (ErrStaleGeneration).
	Repair(ctx context.Context, req RepairRequest) (RepairReply, error)

	// Identity names the store's present incarnation. It changes when the
	// store has restarted or was promoted and may have forgotten changes.
	Identity(ctx context.Context) (string, error)
}

// HoldRequest asks for seats.
type HoldRequest struct {
	Show    ShowRef
	Owner   Owner
	User    UserID
	KeyHash KeyHash
	Seats   []SeatID      // 1 or more, sorted, distinct
	For     time.Duration // until the deadline
	Cap     time.Duration // until the cap: no extension goes past it
	Limit   int           // seats in effect per user and show; 0: none
	Rate    int           // orders a second for the show, a sliding window; 0: none
}

// HoldOutcome tags the reply to a hold.
type HoldOutcome uint8

// The outcomes of a hold, in the order in which they are decided.
const (
	OutcomeNotReady  HoldOutcome = iota + 1 // no usable view: rebuild, then ask again
	OutcomeHeld                             // the seats are the owner's until Deadline
	OutcomeYours                            // the same user and key hash hold one of them: Owner
	OutcomeBusy                             // the show's rate window is full: RetryAfter
	OutcomeTaken                            // at least one seat is not available: Taken lists every one
	OutcomeOverLimit                        // the user's limit leaves Left more seats
)

var outcomeNames = [...]string{"", "not ready", "held", "yours", "busy", "taken", "over limit"}

// String returns the outcome in words.
func (o HoldOutcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "invalid"
}

// HoldReply answers a hold. Which fields are set depends on the outcome.
type HoldReply struct {
	Outcome    HoldOutcome
	Generation Generation
	Revision   int64
	TakenAt    time.Time // held: when the hold was first taken
	Deadline   time.Time // held
	Cap        time.Time // held
	Repeat     bool      // held: this owner held them already
	Taken      []SeatID  // taken: every asked seat that is not available, NoSeat included
	Owner      Owner     // yours
	Left       int       // over limit
	RetryAfter time.Duration
}

// ExtendReply answers an extension.
type ExtendReply struct {
	Extended bool      // false: no live hold of that owner
	Deadline time.Time // in effect now
}

// SellReply answers a sale.
type SellReply struct {
	Sold int // the owner's seats that are sold now
}

// ReleaseReply answers a release or unsell.
type ReleaseReply struct {
	Released []SeatID // really freed by this call
}

// BlockReply answers a block or unblock.
type BlockReply struct {
	Changed []SeatID
	Refused []SeatID // not free, or not of this block
}

// DueHold is a hold whose wake-up has come.
type DueHold struct {
	Show     ShowID
	Owner    Owner
	User     UserID
	TakenAt  time.Time
	Deadline time.Time     // as the view has it
	Age      time.Duration // since it was taken, by the store's clock
}

// Position is a place in a partition's changes; opaque.
type Position string

// PositionNow is the end of what has been appended so far.
const PositionNow Position = "$"

// ChangesRequest asks for changes.
type ChangesRequest struct {
	Partition Partition
	After     Position
	Limit     int           // at most this many; 0: the store's default
	Wait      time.Duration // for the first change; 0: do not wait
}

// ChangeBatch is a run of changes.
type ChangeBatch struct {
	Identity string // of the store; another one than before: positions are void and revisions may have forked
	Changes  []Change
	Next     Position // ask for what comes after this
	Trimmed  bool     // older changes than these were dropped unread
}

// Change is one step of a show's view, with no gap in revisions within a
// generation. A rebuild is a change with revision 0 and no seats: it means
// "take a snapshot".
type Change struct {
	Show     ShowID
	Revision Revision
	Verb     Verb
	At       time.Time // the store's clock; informative
	Seats    []SeatChange
}

// SeatChange is one seat's new state within a change.
type SeatChange struct {
	Seat  SeatID
	State SeatState
	Delta int // change in occupied places: +1, −1 or 0
}

// Detail asks for more than the states in a snapshot.
type Detail uint8

// The parts of a snapshot.
const (
	DetailStates Detail = 0
	DetailOrders Detail = 1 << iota // Snapshot.Orders and Owners
	DetailUsers                     // Snapshot.Users
)

// Snapshot is a view at one revision. It is immutable.
type Snapshot struct {
	Show     ShowID
	Revision Revision
	Identity string
	At       time.Time        // the store's clock when it was read
	States   []SeatState      // by seat id − 1
	Orders   []OrderRecord    // with DetailOrders, sorted by owner
	Owners   map[SeatID]Owner // with DetailOrders
	Users    map[UserID]int   // with DetailUsers: seats in effect, as the view counts them
}

// OrderRecord is what the view keeps of an order for as long as it has seats.
type OrderRecord struct {
	Owner    Owner
	User     UserID
	KeyHash  KeyHash
	Seats    []SeatID  // sorted
	State    SeatState // Held, Sold or Blocked
	TakenAt  time.Time
	Deadline time.Time // zero unless Held
	Cap      time.Time
}

// View is a whole house to install. Seats of records must exist in Base and
// be distinct; counts and users follow from the records (blocks do not count
// for a user).
type View struct {
	Show       ShowRef
	Generation Generation
	Base       []SeatState // Available or NoSeat, by seat id − 1
	Orders     []OrderRecord
}

// SeatRepair is one seat to set: what the caller saw and what it wants.
type SeatRepair struct {
	Seat      SeatID
	SawState  SeatState
	SawOwner  Owner // zero: nobody
	WantState SeatState
	Want      OrderRecord // whose seat it becomes; ignored when WantState is Available
}

// RepairRequest asks for repairs within one generation.
type RepairRequest struct {
	Show       ShowRef
	Generation Generation
	Seats      []SeatRepair
}

// RepairReply tells what was done.
type RepairReply struct {
	Fixed    []SeatID
	Changed  []SeatID // had changed since the caller looked; left alone
	Revision int64
}
