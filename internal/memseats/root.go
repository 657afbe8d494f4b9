package memseats

import (
	"math"
	"sync/atomic"
	"time"

	"seatflow"
)

// cell is a seat: its state in the upper byte and the slot of its owner's
// record below. Slot 0 is nobody.
type cell uint32

func newCell(state seatflow.SeatState, slot int32) cell { return cell(state)<<24 | cell(slot) }

func (c cell) state() seatflow.SeatState { return seatflow.SeatState(c >> 24) }
func (c cell) slot() int32               { return int32(c & 0xffffff) }

// record is what the view keeps of an order; it is never changed, only
// replaced. Seats are its own by their cells: the list serves to find them.
type record struct {
	owner    seatflow.Owner
	user     seatflow.UserID
	key      seatflow.KeyHash
	seats    []seatflow.SeatID
	state    seatflow.SeatState
	ghost    bool // no record at all, only an owner's name that a seat was forced to have
	takenAt  int64
	deadline int64 // noTime unless held
	cap      int64
	wake     *wakeUp // of a held record; not part of the view
}

// counted reports whether the record's seats count for its user.
func (r *record) counted() bool { return r.state != seatflow.Blocked && !r.ghost }

// userCount is how many seats a user has in effect.
type userCount struct {
	user  seatflow.UserID
	seats int
}

// counts is how many seats there are in each state.
type counts [len(seatflow.States)]int32

// stateIndex is a state's place in seatflow.States, or −1.
var stateIndex = func() (index [256]int8) {
	for i := range index {
		index[i] = -1
	}
	for i, s := range seatflow.States {
		index[s] = int8(i)
	}
	return index
}()

func (c *counts) add(s seatflow.SeatState, n int32) {
	if i := stateIndex[s]; i >= 0 {
		c[i] += n
	}
}

func (c *counts) of(s seatflow.SeatState) int32 { return c[stateIndex[s]] }

// body is a view at one revision.
type body struct {
	generation seatflow.Generation
	revision   int64
	size       int // seat ids are 1 … size

	seats   vec[cell]       // by seat id − 1
	records vec[*record]    // by slot, from 1
	users   vec[*userCount] // by slot

	// Three tallies kept by three different pieces of code, so that each
	// vouches for the others: what operations meant to do, what was written
	// into cells, and what records list.
	meant, written counts
	listed         int32
}

// root is a published body. It is immutable but for the cache.
type root struct {
	body
	flat atomic.Pointer[[]seatflow.SeatState] // the states in one piece, once somebody asked
}

// fits reports whether the counts agree; a view whose counts do not is
// suspect and sells nothing.
func (b *body) fits() bool {
	return b.meant == b.written &&
		b.listed == b.meant.of(seatflow.Held)+b.meant.of(seatflow.Sold)+b.meant.of(seatflow.Blocked)
}

// seat returns the cell of a seat; one that does not exist is NoSeat.
func (b *body) seat(id seatflow.SeatID) cell {
	if id < 1 || int(id) > b.size {
		return newCell(seatflow.NoSeat, 0)
	}
	return b.seats.get(int(id) - 1)
}

// owner returns the record of a cell, or nil.
func (b *body) owner(c cell) *record {
	if c.slot() == 0 {
		return nil
	}
	return b.records.get(int(c.slot()))
}

// states returns the whole house in text form, made once for a root and
// shared by all who ask.
func (r *root) states() []seatflow.SeatState {
	if flat := r.flat.Load(); flat != nil {
		return *flat
	}
	flat := make([]seatflow.SeatState, (r.size+pageMask)&^pageMask)
	r.seats.pages(func(first int, p *page[cell]) {
		out := flat[first : first+pageSize]
		for i, c := range p {
			out[i] = c.state()
		}
	})
	flat = flat[:r.size:r.size]
	r.flat.Store(&flat)
	return flat
}

// noTime stands for the zero time among instants in milliseconds.
const noTime = math.MinInt64

func fromTime(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.UnixMilli()
}

func toTime(ms int64) time.Time {
	if ms == noTime {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
