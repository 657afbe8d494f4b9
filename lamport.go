package seatflow

import (
	"strconv"
	"sync/atomic"
)

// Lamport is a Lamport clock: a counter that each node keeps, so that of two
// events of which one may have caused the other the later has the greater
// number (L. Lamport, Time, Clocks, and the Ordering of Events in a Distributed
// System, 1978). A node ticks when it sends and takes over what it receives.
//
// It orders what people and logs see of several nodes. What is applied to a
// seat map is ordered by revisions alone, which have no ties and no gaps.
//
// The zero value is ready, and safe for concurrent use.
type Lamport struct{ n atomic.Uint64 }

// lamportMost bounds what is believed of others, so that one bad message
// cannot use the counter up.
const lamportMost = 1 << 53

// Tick returns the number of an event of this node: one more than of any event
// that it knows.
func (l *Lamport) Tick() uint64 { return l.n.Add(1) }

// Receive takes in the number of an event of another node and returns that of
// its receipt: one more than both. Numbers that no clock reaches are ignored.
func (l *Lamport) Receive(n uint64) uint64 {
	if n > lamportMost {
		n = 0
	}
	for {
		now := l.n.Load()
		next := max(now, n) + 1
		if l.n.CompareAndSwap(now, next) {
			return next
		}
	}
}

// HeaderLamport is the attribute of a message on the bus that has the sender's
// number.
const HeaderLamport = "ce-lamport"

// Stamp ticks and writes the number into a message.
func (l *Lamport) Stamp(m *Message) {
	if m.Header == nil {
		m.Header = make(map[string]string, 1)
	}
	m.Header[HeaderLamport] = strconv.FormatUint(l.Tick(), 10)
}

// ReceiveMessage is Receive with a message's number, 0 if it has none.
func (l *Lamport) ReceiveMessage(m *Message) uint64 {
	n, _ := strconv.ParseUint(m.Header[HeaderLamport], 10, 64)
	return l.Receive(n)
}
