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
type Locker interface {
	// TryLock takes a lease if it is free and returns ErrLocked otherwise.
	// While held it is renewed; the returned context is cancelled when the
	// lease is lost or released.
	TryLock(ctx context.Context, name string, lease time.Duration) (context.Context, Lock, error)
}

// Lock is a lease that is held.
type Lock interface {
	// Release frees the lease if it is still this holder's. It may be called
	// twice.
	Release(ctx context.Context) error
}

// Bus carries changes to whoever watches. It is a projection: it may be lost
// and is rebuilt, and facts never depend on it. Consumers recognise repeats.
type Bus interface {
	// Publish stores a message under a subject before it returns. A message
	// id that was published before is dropped.
	Publish(ctx context.Context, subject, messageID string, payload []byte) error
	// Subscribe delivers messages of a subject (with wildcards) published
	// from now on, in order, until the context ends.
	Subscribe(ctx context.Context, subject string, deliver func(subject string, payload []byte)) error
}
