package seatflow

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// HallID identifies a hall (or room); from 1.
type HallID int64

// ShowID identifies a show: a screening or an event; from 1.
type ShowID int64

// SeatID identifies a seat within its hall: a small integer given in plan
// order from 1 and never reused by a later version of the plan. People see
// zone, row and number instead.
type SeatID int32

// PlanVersion numbers the published plans of a hall, from 1.
type PlanVersion int32

// UserID names a buyer or a member of staff: 1–64 printable ASCII characters
// without space.
type UserID string

// Valid reports whether u may be stored.
func (u UserID) Valid() bool {
	if len(u) == 0 || len(u) > 64 {
		return false
	}
	for i := range len(u) {
		if u[i] <= ' ' || u[i] > '~' {
			return false
		}
	}
	return true
}

// OrderNo is an order's number: a ULID of 26 characters in Crockford's
// base 32, sortable by the time it was made and not guessable.
type OrderNo string

const orderNoAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// Valid reports whether n has the form of an order number.
func (n OrderNo) Valid() bool {
	if len(n) != 26 || n[0] > '7' {
		return false
	}
	for i := range len(n) {
		if strings.IndexByte(orderNoAlphabet, n[i]) < 0 {
			return false
		}
	}
	return true
}

// Owner is who a taken seat belongs to: an order and its attempt. The attempt
// stands in the order's row and grows in the same transaction whenever the
// order's seats are taken again, so a late change by an earlier attempt does
// nothing. Written ORDER.n.
type Owner struct {
	Order   OrderNo
	Attempt int32
}

// IsZero reports whether o names nobody.
func (o Owner) IsZero() bool { return o.Order == "" }

// String returns the form ORDER.n, or "" for nobody.
func (o Owner) String() string {
	if o.IsZero() {
		return ""
	}
	return string(o.Order) + "." + strconv.Itoa(int(o.Attempt))
}

// ParseOwner reads the form ORDER.n.
func ParseOwner(s string) (Owner, error) {
	no, n, ok := strings.Cut(s, ".")
	attempt, err := strconv.ParseInt(n, 10, 32)
	if !ok || err != nil || attempt < 1 || !OrderNo(no).Valid() {
		return Owner{}, fmt.Errorf("seatflow: %q is not an owner", s)
	}
	return Owner{Order: OrderNo(no), Attempt: int32(attempt)}, nil
}

// Partition is a shard of shows: all keys of a show live in one. It is stored
// on the show, so that a hot show can be given another.
type Partition uint8

// Partitions is how many there are.
const Partitions = 64

// Generation numbers the views of a show. It is a fact, raised in the ledger
// by compare-and-set before a view is rebuilt; a hold's reply carries it and
// the order's transaction checks it, so that no order is missed by a rebuild.
type Generation int64

// Revision is a show's change counter. Number grows by one with every change
// and starts again at 0 in a new generation.
type Revision struct {
	Generation Generation
	Number     int64
}

// String returns the opaque text form, generation.number.
func (r Revision) String() string {
	return strconv.FormatInt(int64(r.Generation), 10) + "." + strconv.FormatInt(r.Number, 10)
}

// Before reports whether r comes before q in a show's order of changes.
func (r Revision) Before(q Revision) bool {
	if r.Generation != q.Generation {
		return r.Generation < q.Generation
	}
	return r.Number < q.Number
}

// ParseRevision reads the form generation.number.
func ParseRevision(s string) (Revision, error) {
	g, n, ok := strings.Cut(s, ".")
	gen, err1 := strconv.ParseInt(g, 10, 64)
	num, err2 := strconv.ParseInt(n, 10, 64)
	if !ok || err1 != nil || err2 != nil || gen < 0 || num < 0 {
		return Revision{}, fmt.Errorf("seatflow: %q is not a revision", s)
	}
	return Revision{Generation(gen), num}, nil
}

// Money is an amount in minor units (cents) with its ISO 4217 currency.
type Money struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// KeyHash is the fingerprint of a user's idempotency key, by which a retry
// recognises its own first attempt in the view. Zero means no key.
type KeyHash [16]byte

// IsZero reports whether there was no key.
func (k KeyHash) IsZero() bool { return k == KeyHash{} }

// Fingerprint is a digest of the request that made an order: the same key
// with another fingerprint is refused.
type Fingerprint [16]byte

// Role is what a token allows; see package auth for the access table.
type Role string

// The roles.
const (
	RoleBuyer Role = "buyer"
	RoleKiosk Role = "kiosk"
	RoleStaff Role = "staff"
	RoleAdmin Role = "admin"
)

// Device is the kind of terminal an action came from.
type Device string

// The devices.
const (
	DeviceWeb    Device = "web"
	DeviceMobile Device = "mobile"
	DeviceKiosk  Device = "kiosk"
	DeviceSystem Device = "system" // the guardian, a callback, a repair
)

// Actor is who asks for a change and from where; it goes into every order
// event and log line.
type Actor struct {
	User    UserID
	Role    Role
	TraceID string // 32 hex digits, W3C Trace Context
	SpanID  string // 16 hex digits
	Device  Device
}

// System is the actor of what nobody asked for: expiry, repair.
func System(what string) Actor {
	return Actor{User: UserID("system:" + what), Role: RoleAdmin, Device: DeviceSystem}
}

// Clock tells the time. Only the seat store's clock decides when a hold is
// due; in the embedded mode that is the process clock.
type Clock interface {
	Now() time.Time
}

// WallClock is the process clock, in UTC.
type WallClock struct{}

// Now implements [Clock].
func (WallClock) Now() time.Time { return time.Now().UTC() }

// Defaults, all configurable by show or by configuration.
const (
	DefaultHoldFor      = 15 * time.Minute
	DefaultHoldCap      = 30 * time.Minute // a hold never lasts longer than this, extensions included
	DefaultExtendBy     = 5 * time.Minute  // once, when payment starts
	DefaultLimitPerUser = 6                // seats per user and show
	KioskHoldFor        = 120 * time.Second
	ReconcileGrace      = 60 * time.Second // younger remnants are left to those who made them
	LedgerDeadline      = 5 * time.Second  // of one ledger transaction
	ViewAfterEnd        = 23 * time.Hour   // a view is expected until this long after the show's end
)

// Limits on what a caller may ask, each because something real ends there.
const (
	MaxSeatsPerOrder = 50      // more is an organiser's block, not an order
	MaxSeatsPerHall  = 200_000 // the largest stadiums hold about 130,000
	MaxKeyLen        = 64      // characters of an idempotency key
)

// ErrNotFound is returned by the ports when what was asked for is not there
// or not the caller's.
var ErrNotFound = errors.New("seatflow: not found")
