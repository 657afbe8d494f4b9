package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"seatflow"
)

// MinLease is the shortest lease that is given. A third of it must be much
// longer than what a busy process or a short break in the network may take.
const MinLease = 10 * time.Second

// maxName bounds a name, which becomes a part of a key.
const maxName = 1024

// Causes of the end of a lease's context, by context.Cause, and errors of
// lockers.
var (
	// ErrLost: the lease ended before its holder gave it back.
	ErrLost = errors.New("lock: lease lost")
	// ErrReleased: the holder gave the lease back.
	ErrReleased = errors.New("lock: lease released")
	// ErrClosed: the locker was closed.
	ErrClosed = errors.New("lock: closed")
	// ErrUnavailable: too few servers answered to say whether a lease is free.
	ErrUnavailable = errors.New("lock: no majority of the servers answered")
)

// check refuses what cannot be a lease.
func check(name string, lease, least time.Duration) error {
	switch {
	case name == "":
		return errors.New("lock: a lease needs a name")
	case len(name) > maxName:
		return fmt.Errorf("lock: a name of %d bytes; the most is %d", len(name), maxName)
	case lease < least:
		return fmt.Errorf("lock: a lease of %v for %q is too short; the least is %v", lease, name, least)
	}
	return nil
}

// Stats are counts since a locker was made.
type Stats struct {
	Held            int64  // leases that are held now
	Taken           uint64 // leases that were given
	Locked          uint64 // attempts that met another holder
	Unavailable     uint64 // attempts that too few servers answered
	Renewed         uint64
	RenewalsFailed  uint64 // attempts to renew; several may fail before a lease is lost
	Lost            uint64
	Released        uint64
	ReleasesFailed  uint64 // too few servers answered; such a lease ends by itself
	ServersRejoined uint64 // a server had forgotten a lease, and was told again
}

type counts struct {
	held                                                atomic.Int64
	taken, locked, unavailable, renewed, renewalsFailed atomic.Uint64
	lost, released, releasesFailed, rejoined            atomic.Uint64
}

func (c *counts) stats() Stats {
	return Stats{Held: c.held.Load(), Taken: c.taken.Load(), Locked: c.locked.Load(), Unavailable: c.unavailable.Load(),
		Renewed: c.renewed.Load(), RenewalsFailed: c.renewalsFailed.Load(), Lost: c.lost.Load(),
		Released: c.released.Load(), ReleasesFailed: c.releasesFailed.Load(), ServersRejoined: c.rejoined.Load()}
}

// locked is what an attempt says that met another holder.
func locked(name string) error { return fmt.Errorf("lock: %q: %w", name, seatflow.ErrLocked) }

// waited is what a wait that was given up says; last is why the last attempt
// failed, when that was not another holder.
func waited(ctx context.Context, name string, last error) error {
	err := context.Cause(ctx)
	if ctxErr := ctx.Err(); !errors.Is(err, ctxErr) {
		err = fmt.Errorf("%w: %w", ctxErr, err)
	}
	if last != nil && !errors.Is(last, seatflow.ErrLocked) {
		return fmt.Errorf("lock: waiting for %q: %w (%w)", name, err, last)
	}
	return fmt.Errorf("lock: waiting for %q: %w", name, err)
}

// hidden returns an address without its password, for logs.
func hidden(addr string) string {
	scheme, rest, ok := strings.Cut(addr, "://")
	if !ok {
		return addr
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	return scheme + "://" + rest
}
