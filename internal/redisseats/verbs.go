package redisseats

import (
	"context"
	"slices"
	"strconv"
	"time"

	"seatflow"
)

// edit runs a script that changes seats of an owner. A reply {ended} is no
// change.
func (s *Store) edit(ctx context.Context, ref *seatflow.ShowRef, script int, owner seatflow.Owner, more ...string) (r reply, ended bool, err error) {
	if err := checkPartition(ref.Partition); err != nil {
		return r, false, err
	}
	k := s.keys.of(ref)
	keys := k.edit
	if script == scriptBlock {
		keys = []string{k.seats, k.owners, k.orders, k.users, k.meta, k.changes}
	}
	args := append([]string{strconv.FormatInt(int64(ref.ID), 10), owner.String(), until(ref)}, more...)
	r, err = s.showCall(ctx, ref, script, keys, args)
	return r, err == nil && r.status() == "ended", err
}

// Extend implements [seatflow.SeatStore]. A deadline asked for beyond the cap
// counts as the cap; one that is not in the future extends nothing.
func (s *Store) Extend(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, deadline time.Time) (seatflow.ExtendReply, error) {
	r, ended, err := s.edit(ctx, &ref, scriptExtend, owner, strconv.FormatInt(deadline.UnixMilli(), 10))
	if err != nil || ended {
		return seatflow.ExtendReply{}, err
	}
	switch r.status() {
	case "extended", "refused":
		return seatflow.ExtendReply{Extended: r.status() == "extended", Deadline: r.time(1)}, nil
	}
	return seatflow.ExtendReply{}, r.strange(scriptExtend)
}

// Sell implements [seatflow.SeatStore].
func (s *Store) Sell(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner) (seatflow.SellReply, error) {
	r, ended, err := s.edit(ctx, &ref, scriptSell, owner)
	if err != nil || ended {
		return seatflow.SellReply{}, err
	}
	if r.status() != "sold" {
		return seatflow.SellReply{}, r.strange(scriptSell)
	}
	return seatflow.SellReply{Sold: int(r.number(1))}, nil
}

// Release implements [seatflow.SeatStore].
func (s *Store) Release(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	freed, _, err := s.free(ctx, scriptRelease, &ref, owner, seats)
	return seatflow.ReleaseReply{Released: freed}, err
}

// Unsell implements [seatflow.SeatStore].
func (s *Store) Unsell(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	freed, _, err := s.free(ctx, scriptUnsell, &ref, owner, seats)
	return seatflow.ReleaseReply{Released: freed}, err
}

// Unblock implements [seatflow.SeatStore].
func (s *Store) Unblock(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	freed, refused, err := s.free(ctx, scriptUnblock, &ref, owner, seats)
	return seatflow.BlockReply{Changed: freed, Refused: refused}, err
}

func (s *Store) free(ctx context.Context, script int, ref *seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (freed, refused []seatflow.SeatID, err error) {
	listed := "1"
	if seats == nil {
		listed = "0"
	}
	r, ended, err := s.edit(ctx, ref, script, owner, append([]string{listed}, formatSeats(seats)...)...)
	if err != nil || ended {
		return nil, nil, err
	}
	return r.done(script)
}

// Block implements [seatflow.SeatStore]. An owner that holds or has bought
// seats is no block: everything it asks for is refused.
func (s *Store) Block(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	if owner.IsZero() {
		return seatflow.BlockReply{}, errNoOwner
	}
	r, ended, err := s.edit(ctx, &ref, scriptBlock, owner, formatSeats(seats)...)
	if err != nil || ended {
		return seatflow.BlockReply{}, err
	}
	changed, refused, err := r.done(scriptBlock)
	return seatflow.BlockReply{Changed: changed, Refused: refused}, err
}

// done reads a reply {done, n, seats that were changed, seats that were not}.
func (r *reply) done(script int) (changed, refused []seatflow.SeatID, err error) {
	if r.status() != "done" {
		return nil, nil, r.strange(script)
	}
	to := 2 + int(r.number(1))
	return r.seats(2, to), r.seats(to, len(r.fields)), nil
}

// formatSeats returns seats as arguments, sorted and distinct.
func formatSeats(seats []seatflow.SeatID) []string {
	if !ascending(seats) {
		seats = slices.Clone(seats)
		slices.Sort(seats)
		seats = slices.Compact(seats)
	}
	args := make([]string, len(seats))
	for i, id := range seats {
		args[i] = formatSeat(id)
	}
	return args
}
