package memseats

import (
	"context"
	"slices"
	"time"

	"seatflow"
)

// Extend implements [seatflow.SeatStore]. A deadline asked for beyond the cap
// counts as the cap; one that is not in the future extends nothing.
func (s *Store) Extend(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, deadline time.Time) (seatflow.ExtendReply, error) {
	w, err := s.look(ctx, ref)
	if err != nil || w.ended {
		return seatflow.ExtendReply{}, err
	}
	r, err := w.lock()
	if err != nil {
		return seatflow.ExtendReply{}, err
	}
	defer w.show.mu.Unlock()
	rec := w.show.owners[owner]
	if rec == nil || rec.state != seatflow.Held {
		return seatflow.ExtendReply{}, nil
	}
	want := fromTime(deadline)
	if rec.cap != noTime {
		want = min(want, rec.cap)
	}
	switch {
	case want <= w.now:
		return seatflow.ExtendReply{Deadline: toTime(rec.deadline)}, nil
	case want <= rec.deadline:
		return seatflow.ExtendReply{Extended: true, Deadline: toTime(rec.deadline)}, nil
	}
	next := *rec
	next.deadline = want
	e := w.show.begin(r, w.now, len(rec.seats))
	for _, id := range rec.seats {
		state, at := r.seat(id)
		if to, ok := seatflow.Next(seatflow.VerbExtend, state, at.owns(owner)); ok {
			e.tell(id, state, to)
		}
	}
	e.replace(rec, &next)
	e.publish(seatflow.VerbExtend)
	w.show.at.deadlines.move(next.wake, want)
	return seatflow.ExtendReply{Extended: true, Deadline: toTime(want)}, nil
}

// Sell implements [seatflow.SeatStore].
func (s *Store) Sell(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner) (seatflow.SellReply, error) {
	w, err := s.look(ctx, ref)
	if err != nil || w.ended {
		return seatflow.SellReply{}, err
	}
	r, err := w.lock()
	if err != nil {
		return seatflow.SellReply{}, err
	}
	defer w.show.mu.Unlock()
	rec := w.show.owners[owner]
	if rec == nil {
		return seatflow.SellReply{}, nil
	}
	var reply seatflow.SellReply
	var moves []seatflow.SeatID
	for _, id := range rec.seats {
		state, at := r.seat(id)
		to, ok := seatflow.Next(seatflow.VerbSell, state, at.owns(owner))
		if !ok {
			continue
		}
		reply.Sold++
		if to != state {
			moves = append(moves, id)
		}
	}
	if len(moves) == 0 {
		return reply, nil
	}
	next := *rec
	next.state, next.deadline, next.wake = seatflow.Sold, noTime, nil
	e := w.show.begin(r, w.now, len(moves))
	e.replace(rec, &next)
	for _, id := range moves {
		from, _ := r.seat(id)
		to, _ := seatflow.Next(seatflow.VerbSell, from, true)
		e.seat(id, from, to, &next)
	}
	e.publish(seatflow.VerbSell)
	return reply, nil
}

// Release implements [seatflow.SeatStore].
func (s *Store) Release(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	freed, _, err := s.free(ctx, seatflow.VerbRelease, ref, owner, seats)
	return seatflow.ReleaseReply{Released: freed}, err
}

// Unsell implements [seatflow.SeatStore].
func (s *Store) Unsell(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	freed, _, err := s.free(ctx, seatflow.VerbUnsell, ref, owner, seats)
	return seatflow.ReleaseReply{Released: freed}, err
}

// Unblock implements [seatflow.SeatStore].
func (s *Store) Unblock(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	freed, refused, err := s.free(ctx, seatflow.VerbUnblock, ref, owner, seats)
	return seatflow.BlockReply{Changed: freed, Refused: refused}, err
}

// free gives back seats of an owner, all of them if seats is nil, as far as
// the verb has an edge from where they are. The rest of those listed is
// returned as refused.
func (s *Store) free(ctx context.Context, verb seatflow.Verb, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (freed, refused []seatflow.SeatID, err error) {
	w, err := s.look(ctx, ref)
	if err != nil || w.ended {
		return nil, nil, err
	}
	seats = tidy(seats)
	r, err := w.lock()
	if err != nil {
		return nil, nil, err
	}
	defer w.show.mu.Unlock()
	rec := w.show.owners[owner]
	if rec == nil {
		return nil, slices.Clone(seats), nil
	}
	listed := seats != nil
	if !listed {
		seats = rec.seats
	}
	for _, id := range seats {
		state, at := r.seat(id)
		if _, ok := seatflow.Next(verb, state, at.owns(owner)); ok {
			freed = append(freed, id)
		} else if listed {
			refused = append(refused, id)
		}
	}
	if len(freed) == 0 {
		return nil, refused, nil
	}
	next := *rec
	next.seats = without(rec.seats, freed)
	e := w.show.begin(r, w.now, len(freed))
	for _, id := range freed {
		from, _ := r.seat(id)
		to, _ := seatflow.Next(verb, from, true)
		e.seat(id, from, to, nil)
	}
	e.replace(rec, &next)
	e.publish(verb)
	return freed, refused, nil
}

// without returns the sorted seats less those freed, also sorted.
func without(seats, freed []seatflow.SeatID) []seatflow.SeatID {
	if len(freed) >= len(seats) && slices.Equal(seats, freed) {
		return nil
	}
	left := make([]seatflow.SeatID, 0, len(seats))
	for _, id := range seats {
		if _, gone := slices.BinarySearch(freed, id); !gone {
			left = append(left, id)
		}
	}
	return left
}

// Block implements [seatflow.SeatStore]. An owner that holds or has bought
// seats is no block: everything it asks for is refused.
func (s *Store) Block(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	if owner.IsZero() {
		return seatflow.BlockReply{}, errNoOwner
	}
	w, err := s.look(ctx, ref)
	if err != nil || w.ended {
		return seatflow.BlockReply{}, err
	}
	seats = tidy(seats)
	r, err := w.lock()
	if err != nil {
		return seatflow.BlockReply{}, err
	}
	defer w.show.mu.Unlock()
	rec := w.show.owners[owner]
	if rec != nil && rec.state != seatflow.Blocked {
		return seatflow.BlockReply{Refused: slices.Clone(seats)}, nil
	}
	var reply seatflow.BlockReply
	for _, id := range seats {
		state, at := r.seat(id)
		to, ok := seatflow.Next(seatflow.VerbBlock, state, at.owns(owner))
		switch {
		case !ok:
			reply.Refused = append(reply.Refused, id)
		case to != state:
			reply.Changed = append(reply.Changed, id)
		}
	}
	if len(reply.Changed) == 0 {
		return reply, nil
	}
	next := &record{owner: owner, state: seatflow.Blocked, takenAt: w.now, deadline: noTime, cap: noTime}
	if rec != nil {
		*next = *rec
	}
	next.seats = tidy(slices.Concat(next.seats, reply.Changed))
	e := w.show.begin(r, w.now, len(reply.Changed))
	e.replace(rec, next)
	for _, id := range reply.Changed {
		from, _ := r.seat(id)
		to, _ := seatflow.Next(seatflow.VerbBlock, from, false)
		e.seat(id, from, to, next)
	}
	e.publish(seatflow.VerbBlock)
	return reply, nil
}
