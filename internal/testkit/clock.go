package testkit

import (
	"sync/atomic"
	"time"
)

// FakeClock is a clock that stands still until it is moved. It may be used
// concurrently; its zero value stands at the zero time.
type FakeClock struct {
	at atomic.Pointer[time.Time]
}

// NewFakeClock returns a clock that stands at an instant of the test's
// choice, in UTC.
func NewFakeClock(at time.Time) *FakeClock {
	c := new(FakeClock)
	c.Set(at)
	return c
}

// Now implements seatflow.Clock.
func (c *FakeClock) Now() time.Time {
	if at := c.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Advance moves the clock on by d, which may be negative, and returns the
// time it stands at then. Concurrent moves add up.
func (c *FakeClock) Advance(d time.Duration) time.Time {
	for {
		old := c.at.Load()
		var next time.Time
		if old != nil {
			next = *old
		}
		next = next.Add(d)
		if c.at.CompareAndSwap(old, &next) {
			return next
		}
	}
}

// Set moves the clock to an instant.
func (c *FakeClock) Set(at time.Time) {
	at = at.UTC()
	c.at.Store(&at)
}
