package seatflow

import (
	"context"
	"crypto/sha256"
	"time"
)

// HashKey returns the fingerprint of a user's idempotency key, the same on
// every node; zero for an absent key.
func HashKey(user UserID, key string) KeyHash {
	if key == "" {
		return KeyHash{}
	}
	var buf [160]byte
	b := append(buf[:0], user...)
	b = append(b, 0)
	b = append(b, key...)
	sum := sha256.Sum256(b)
	return KeyHash(sum[:16])
}

// Locker gives leases that make one process at a time the owner of a job (a
// relay's partition, a reconciler's show). It never decides whether a seat is
// sold: a holder that is paused may not notice in time that its lease ended.
//
// A lease is renewed in the background while it is held. The returned context
// descends from ctx and is cancelled when the lease is lost or released.
type Locker interface {
	// TryLock takes a lease if it is free and returns ErrLocked otherwise.
	TryLock(ctx context.Context, name string, lease time.Duration) (context.Context, Lock, error)
	// Lock waits for the lease until ctx ends.
	Lock(ctx context.Context, name string, lease time.Duration) (context.Context, Lock, error)
}

// Lock is a lease that is held.
type Lock interface {
	// Release frees the lease if it is still this holder's. It may be called
	// twice.
	Release(ctx context.Context) error
}

// Message is one message of a stream on the bus.
type Message struct {
	Subject string            // tokens separated by dots
	ID      string            // a second message of the same id is dropped, for some minutes, by a stream that has the first
	Header  map[string]string // attributes, e.g. CloudEvents' ("ce-type")
	Payload []byte

	// Set on delivery.
	Stream   string // names the incarnation of the stream: a stream made again has another one
	Sequence uint64 // place in the stream, growing
	// Gap: messages before this one may have been missed (the stream was made
	// again or trimmed, the consumer was away too long). It may come alone,
	// with no subject; the consumer then takes snapshots.
	Gap bool
}

// Bus carries changes to whoever watches. It is a projection: it may be lost
// and is rebuilt, and facts never depend on it. Consumers recognise repeats
// by what the messages say, not by their ids. Methods may be called
// concurrently; a bus that was lost is found again by itself.
type Bus interface {
	// Publish stores messages in their order before it returns. After an
	// error any prefix may have been stored: publish all of them again, with
	// the same ids.
	Publish(ctx context.Context, messages ...Message) error
	// Subscribe delivers messages whose subject matches (with the wildcards *
	// for one token and > for the rest), published from now on, in order, in
	// runs of at least one, until ctx ends; then it returns nil. It calls
	// ready, if not nil, once it misses nothing more. What was missed while
	// the bus was away is announced by a Gap.
	Subscribe(ctx context.Context, subject string, ready func(), deliver func([]Message)) error
	// Last returns the newest message that is stored under a subject (with
	// wildcards), or ErrNotFound.
	Last(ctx context.Context, subject string) (Message, error)
	// Healthy returns nil while messages can be published.
	Healthy(ctx context.Context) error
	Close() error
}

// RateWindows counts attempts by name in sliding windows, the same on every
// node that shares the store.
type RateWindows interface {
	// Attempt counts one attempt under a name and reports 0, or how long from
	// now until one would pass when none is made meanwhile. It passes when
	// fewer than most were counted during the span before it. Refused
	// attempts count. An error says nothing of the attempt.
	Attempt(ctx context.Context, name string, most int, span time.Duration) (retryAfter time.Duration, err error)
}
