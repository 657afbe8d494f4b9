package memseats

import (
	"math"
	"sync/atomic"
	"time"

	"seatflow"
	"seatflow/internal/sabotage"
)

const (
	pageBits = 5 // seats of a page
	fanBits  = 5 // pages of a branch
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
	fanMask  = 1<<fanBits - 1
)

// page is a run of seats: their states and whose they are. A page that a root
// points to is never changed.
type page struct {
	states [pageSize]seatflow.SeatState
	owners [pageSize]*record
}

type branch [1 << fanBits]*page

// record is what the view keeps of an order; it is never changed, only
// replaced, and then all its seats point to the new one.
type record struct {
	owner    seatflow.Owner
	user     seatflow.UserID
	key      seatflow.KeyHash
	seats    []seatflow.SeatID
	state    seatflow.SeatState
	ghost    bool // no record at all, only the owner's name that a test forced upon a seat
	takenAt  int64
	deadline int64 // noTime unless held
	cap      int64
	wake     *wakeUp // of a held record; not part of the view
}

// charged returns how many seats count for the record's user.
func (r *record) charged() int32 {
	if r.state == seatflow.Blocked {
		return 0
	}
	return int32(len(r.seats))
}

// owns reports whether a seat with record r, or none, is the owner's.
func (r *record) owns(owner seatflow.Owner) bool {
	return r != nil && (r.owner == owner || sabotage.On(sabotage.SkipOwnerCheck))
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
	size       int       // seat ids are 1 … size
	top        []*branch // the seats, by seat id − 1

	tally
}

// tally is the counts of a view. Each number is kept by another piece of code
// than the one it must agree with, so that they vouch for each other.
type tally struct {
	meant   counts // what operations meant to do
	written counts // what stands in the pages
	listed  int32  // seats in records: as many as are owned
	billed  int32  // those of them that count for users
	charged int32  // what users are charged with
}

// fits reports whether the counts agree; a view whose counts do not is
// suspect and sells nothing.
func (t *tally) fits() bool {
	return t.meant == t.written && t.billed == t.charged &&
		t.listed == t.meant.of(seatflow.Held)+t.meant.of(seatflow.Sold)+t.meant.of(seatflow.Blocked)
}

// root is a published body. It is immutable but for the cache.
type root struct {
	body
	flat atomic.Pointer[[]seatflow.SeatState] // the states in one piece, once somebody asked
}

// seat returns a seat's state and record; one that does not exist is NoSeat.
func (b *body) seat(id seatflow.SeatID) (seatflow.SeatState, *record) {
	i := int(id) - 1
	if i < 0 || i >= b.size {
		return seatflow.NoSeat, nil
	}
	p := b.top[i>>(pageBits+fanBits)][i>>pageBits&fanMask]
	return p.states[i&pageMask], p.owners[i&pageMask]
}

// pages calls visit for every page with the index of its first seat.
func (b *body) pages(visit func(first int, p *page)) {
	for i, br := range b.top {
		for j, p := range br {
			if p != nil {
				visit((i<<fanBits|j)<<pageBits, p)
			}
		}
	}
}

// records calls visit for every order that has seats.
func (b *body) records(visit func(r *record)) {
	b.pages(func(first int, p *page) {
		for i, r := range p.owners {
			if r != nil && !r.ghost && b.first(r) == seatflow.SeatID(first+i+1) {
				visit(r)
			}
		}
	})
}

// first returns the first of a record's seats that is its own.
func (b *body) first(r *record) seatflow.SeatID {
	for _, id := range r.seats {
		if _, at := b.seat(id); at == r {
			return id
		}
	}
	return 0
}

// states returns the whole house in text form, made once for a root and
// shared by all who ask.
func (r *root) states() []seatflow.SeatState {
	if flat := r.flat.Load(); flat != nil {
		return *flat
	}
	flat := make([]seatflow.SeatState, r.size)
	r.pages(func(first int, p *page) { copy(flat[first:], p.states[:]) })
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
