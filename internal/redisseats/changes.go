package redisseats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"seatflow"
)

// batchDefault is how many changes a reader gets who names no number.
const batchDefault = 1024

// waitMost is how long one blocking read lasts: after it the script is asked
// again, so that a server that has become another one is noticed.
const waitMost = 5 * time.Second

// A position is IDENTITY-COUNT-ID: the server's identity, how many changes had
// been appended when the last one read was, and that one's id in the stream.
// By the count it is known whether the changes after it are still there.
type position struct {
	from  string // identity, or oldest, or newest
	count int64
	id    string
}

func (p position) String() string {
	return p.from + "-" + strconv.FormatInt(p.count, 10) + "-" + p.id
}

func parsePosition(text seatflow.Position) position {
	switch text {
	case "":
		return position{from: "oldest", id: "0-0"}
	case seatflow.PositionNow:
		return position{from: "newest", id: "0-0"}
	}
	void := position{from: "void", id: "0-0"}
	f := strings.Split(string(text), "-")
	if len(f) != 4 {
		return void
	}
	count, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || count < 0 || !number(f[2]) || !number(f[3]) {
		return void
	}
	return position{from: f[0], count: count, id: f[2] + "-" + f[3]}
}

func number(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

// Changes implements [seatflow.SeatStore]. A position that this incarnation of
// the server did not give is answered as trimmed, from the oldest change kept.
func (s *Store) Changes(ctx context.Context, req seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	if err := s.enter(ctx); err != nil {
		return seatflow.ChangeBatch{}, err
	}
	if err := checkPartition(req.Partition); err != nil {
		return seatflow.ChangeBatch{}, err
	}
	limit := req.Limit
	if limit < 1 {
		limit = batchDefault
	}
	at, ends := parsePosition(req.After), time.Now().Add(req.Wait)
	for {
		batch, next, err := s.changes(ctx, req.Partition, at, limit)
		if err != nil || len(batch.Changes) > 0 || batch.Trimmed || req.Wait <= 0 {
			return batch, err
		}
		left := time.Until(ends)
		if left <= 0 {
			return batch, nil
		}
		at = next
		if err := s.await(ctx, req.Partition, at.id, min(left, waitMost)); err != nil {
			return seatflow.ChangeBatch{}, fmt.Errorf("redisseats: wait for changes: %w: %w", seatflow.ErrNotExecuted, err)
		}
	}
}

// changes reads a run of changes and where to go on from.
func (s *Store) changes(ctx context.Context, p seatflow.Partition, at position, limit int) (seatflow.ChangeBatch, position, error) {
	r, err := s.read(ctx, p, scriptChanges, []string{changesKey(p)},
		[]string{at.from, strconv.FormatInt(at.count, 10), at.id, strconv.Itoa(limit)})
	if err != nil {
		return seatflow.ChangeBatch{}, at, err
	}
	if r.status() != "changes" {
		return seatflow.ChangeBatch{}, at, r.strange(scriptChanges)
	}
	next := position{from: r.identity, count: r.number(2), id: r.text(3)}
	batch := seatflow.ChangeBatch{Identity: r.identity, Trimmed: r.number(1) == 1}
	for i := 4; i+1 < len(r.fields); i += 2 {
		c, err := parseChange(r.text(i + 1))
		if err != nil {
			return seatflow.ChangeBatch{}, at, err
		}
		batch.Changes = append(batch.Changes, c)
		next.count++
		next.id = r.text(i)
	}
	batch.Next = seatflow.Position(next.String())
	return batch, next, nil
}

// await waits until something was appended after an id, or for a while. What
// comes is not looked at.
func (s *Store) await(ctx context.Context, p seatflow.Partition, id string, span time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	key := changesKey(p)
	ask := s.client.B().Xread().Count(1).Block(max(1, span.Milliseconds())).Streams().Key(key).Id(id).Build()
	err := s.client.Do(ctx, ask).NonRedisError()
	switch {
	case s.ctx.Err() != nil:
		return errClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	}
	// The connection was lost. The script will find out, or wait for the server.
	if errWait := sleep(ctx, s.ctx, firstPause); errWait != nil {
		return errors.Join(errWait, err)
	}
	return nil
}
