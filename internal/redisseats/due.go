package redisseats

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"seatflow"
)

// claimMost is how many wake-ups one script claims.
const claimMost = 500

// ClaimDue implements [seatflow.SeatStore]. Holds are offered in the order of
// their wake-ups. A limit below one claims nothing.
//
// What is due is listed first, since the keys of a script must be known before
// it runs; the claim then takes of that what is still due, so of several who
// list the same only one has it.
func (s *Store) ClaimDue(ctx context.Context, p seatflow.Partition, limit int, lease time.Duration) ([]seatflow.DueHold, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if err := checkPartition(p); err != nil {
		return nil, err
	}
	var due []seatflow.DueHold
	mine := make(map[string]bool)
	for len(due) < limit {
		want := min(limit-len(due), claimMost)
		r, err := s.read(ctx, p, scriptDue, []string{deadlinesKey(p)}, []string{strconv.Itoa(want + len(mine))})
		if err != nil {
			return due, err
		}
		var members []string
		for i := 1; i < len(r.fields); i++ {
			if member := r.text(i); !mine[member] && len(members) < want {
				members = append(members, member)
			}
		}
		if len(members) == 0 {
			break
		}
		got, err := s.claim(ctx, p, members, lease, mine)
		if err != nil {
			return due, err
		}
		due = append(due, got...)
		if len(members) < want && len(got) == len(members) {
			break
		}
	}
	return due, nil
}

// claim takes wake-ups that are still due.
func (s *Store) claim(ctx context.Context, p seatflow.Partition, members []string, lease time.Duration, mine map[string]bool) ([]seatflow.DueHold, error) {
	keys, args := []string{deadlinesKey(p)}, []string{milliseconds(max(0, lease))}
	places := make(map[string]int)
	shows, owners := make([]seatflow.ShowID, len(members)), make([]string, len(members))
	for i, member := range members {
		show, owner, _ := strings.Cut(member, ":")
		id, err := strconv.ParseInt(show, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: the wake-up %q", errForeignData, member)
		}
		shows[i], owners[i] = seatflow.ShowID(id), owner
		if places[show] == 0 {
			k := s.keys.of(&seatflow.ShowRef{ID: shows[i], Partition: p})
			keys = append(keys, k.orders, k.meta)
			places[show] = len(keys) - 1
		}
		args = append(args, member, owner, strconv.Itoa(places[show]))
	}
	r, err := s.call(ctx, p, scriptClaim, keys, args)
	if err != nil {
		return nil, err
	}
	now := r.time(1)
	var due []seatflow.DueHold
	for i := 2; i+3 < len(r.fields); i += 4 {
		at := int(r.number(i))
		if at < 0 || at >= len(members) {
			return due, r.strange(scriptClaim)
		}
		d := seatflow.DueHold{Show: shows[at], Owner: parseOwner(owners[at]), User: seatflow.UserID(r.text(i + 3)),
			TakenAt: r.time(i + 1), Deadline: r.time(i + 2)}
		if !d.TakenAt.IsZero() {
			d.Age = now.Sub(d.TakenAt)
		}
		mine[members[at]] = true
		due = append(due, d)
	}
	return due, nil
}
