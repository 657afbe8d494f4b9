package live

import (
	"context"
	"fmt"
	"time"

	"seatflow"
)

// Feed is where a hub hears of what happens: the seat store itself, or the
// bus.
type Feed interface {
	// Follow returns a source of what happens in a partition. A map that is
	// read from the store after it leads on to what the source brings, or the
	// source says that something was missed.
	Follow(ctx context.Context, partition seatflow.Partition) (Source, error)
}

// Source brings what happens in one partition. One goroutine reads it.
type Source interface {
	// Next waits up to a time for news, and returns those there are, up to a
	// limit. No news are no error.
	Next(ctx context.Context, limit int, wait time.Duration) (News, error)
	// Close ends the source.
	Close()
}

// News is what a source has to tell, in its order; what was missed, was missed
// before it.
type News struct {
	Changes  []seatflow.Change  // read from the store
	Messages []seatflow.Message // from the bus
	Missed   bool               // something may be missing: take snapshots
	Forked   bool               // the store is another one now: revisions mean nothing any more
	More     bool               // there is more to be had at once
}

// storeFeed follows the changes in the seat store.
type storeFeed struct{ seats seatflow.SeatStore }

// StoreFeed returns a feed that reads the seat store's own changes: for a
// store in this process, or where there is no bus.
func StoreFeed(seats seatflow.SeatStore) Feed { return storeFeed{seats} }

// Follow implements [Feed].
func (f storeFeed) Follow(ctx context.Context, partition seatflow.Partition) (Source, error) {
	s := &storeSource{seats: f.seats, partition: partition}
	return s, s.position(ctx)
}

type storeSource struct {
	seats     seatflow.SeatStore
	partition seatflow.Partition
	after     seatflow.Position
	identity  string
}

// position begins at the end of the partition's changes.
func (s *storeSource) position(ctx context.Context) error {
	b, err := s.seats.Changes(ctx, seatflow.ChangesRequest{Partition: s.partition, After: seatflow.PositionNow, Limit: 1})
	if err != nil {
		return fmt.Errorf("live: position in partition %d: %w", s.partition, err)
	}
	s.after, s.identity = b.Next, b.Identity
	return nil
}

// Next implements [Source].
func (s *storeSource) Next(ctx context.Context, limit int, wait time.Duration) (News, error) {
	b, err := s.seats.Changes(ctx, seatflow.ChangesRequest{Partition: s.partition, After: s.after, Limit: limit, Wait: wait})
	if err != nil {
		return News{}, fmt.Errorf("live: changes of partition %d: %w", s.partition, err)
	}
	if b.Identity != s.identity {
		// Positions are void and revisions may have forked.
		if err := s.position(ctx); err != nil {
			return News{}, err
		}
		return News{Missed: true, Forked: true}, nil
	}
	s.after = b.Next
	return News{Changes: b.Changes, Missed: b.Trimmed, More: len(b.Changes) >= limit}, nil
}

// Close implements [Source].
func (s *storeSource) Close() {}
