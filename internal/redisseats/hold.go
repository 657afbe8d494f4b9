package redisseats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"seatflow"
)

// showCall runs a script of a show's view. Before the reply is looked at by
// the caller, a later end of the view's lifetime has been told, a server that
// is another one has been seen, and a view that is not ready is an error. A
// reply {ended} is the caller's.
func (s *Store) showCall(ctx context.Context, ref *seatflow.ShowRef, script int, keys, args []string) (reply, error) {
	run := s.call
	if script == scriptSnapshot || script == scriptRevision {
		run = s.read
	}
	for tries := 0; ; tries++ {
		r, err := run(ctx, ref.Partition, script, keys, args)
		if err != nil {
			return r, err
		}
		switch r.status() {
		case "later":
			if tries > 0 { // its end is moved about at this moment
				return r, fmt.Errorf("redisseats: %s: %w", scripts[script].name, seatflow.ErrNotReady)
			}
			if err := s.prolong(ctx, ref); err != nil {
				return r, err
			}
		case "foreign":
			was := s.partitions[ref.Partition].now.Load()
			in, err := s.seeAgain(ctx, ref.Partition, was)
			if err != nil || tries > 0 || in.identity == r.identity {
				return r, errors.Join(fmt.Errorf("redisseats: %s: %w", scripts[script].name, seatflow.ErrNotReady), err)
			}
		case "not ready":
			return r, fmt.Errorf("redisseats: %s: %w", scripts[script].name, seatflow.ErrNotReady)
		case "stale":
			return r, fmt.Errorf("redisseats: %s: %w", scripts[script].name, seatflow.ErrStaleGeneration)
		default:
			return r, nil
		}
	}
}

// prolong moves the end of a view's lifetime on.
func (s *Store) prolong(ctx context.Context, ref *seatflow.ShowRef) error {
	k := s.keys.of(ref)
	_, err := s.call(ctx, ref.Partition, scriptLifetime,
		[]string{k.seats, k.owners, k.orders, k.users, k.meta, k.rate, k.changes}, []string{until(ref)})
	return err
}

// until is the end of a view's lifetime as an argument.
func until(ref *seatflow.ShowRef) string { return strconv.FormatInt(ref.Until.UnixMilli(), 10) }

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Hold implements [seatflow.SeatStore].
//
// An owner takes seats once: while it has a record, only a repeat of its live
// hold is answered held. Anything else it asks for is refused as taken, with
// every asked seat listed when all of them were available.
func (s *Store) Hold(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
	if err := checkHold(&req); err != nil {
		return seatflow.HoldReply{}, err
	}
	r, err := s.showCall(ctx, &req.Show, scriptHold, s.keys.of(&req.Show).hold, holdArgs(&req))
	if errors.Is(err, seatflow.ErrNotReady) {
		return seatflow.HoldReply{Outcome: seatflow.OutcomeNotReady}, nil
	}
	if err != nil {
		return seatflow.HoldReply{}, err
	}
	h := seatflow.HoldReply{Generation: seatflow.Generation(r.number(1)), Revision: r.number(2)}
	switch r.status() {
	case "held":
		h.Outcome, h.TakenAt, h.Deadline, h.Cap, h.Repeat = seatflow.OutcomeHeld, r.time(3), r.time(4), r.time(5), r.number(6) == 1
	case "yours":
		h.Outcome, h.Owner = seatflow.OutcomeYours, parseOwner(r.text(3))
	case "busy":
		h.Outcome, h.RetryAfter = seatflow.OutcomeBusy, time.Duration(r.number(3))*time.Millisecond
	case "taken":
		h.Outcome, h.Taken = seatflow.OutcomeTaken, r.seats(3, len(r.fields))
	case "over limit":
		h.Outcome, h.Left = seatflow.OutcomeOverLimit, int(r.number(3))
	default:
		return seatflow.HoldReply{}, r.strange(scriptHold)
	}
	return h, nil
}

func holdArgs(req *seatflow.HoldRequest) []string {
	args := make([]string, 9, 10+len(req.Seats)) // one more for a clock of tests
	args[0], args[1] = strconv.FormatInt(int64(req.Show.ID), 10), req.Owner.String()
	args[2], args[3] = string(req.User), formatKey(req.KeyHash)
	args[4], args[5], args[6] = until(&req.Show), milliseconds(req.For), milliseconds(max(0, req.Cap))
	args[7], args[8] = strconv.Itoa(max(0, req.Limit)), strconv.Itoa(max(0, req.Rate))
	for _, id := range req.Seats {
		args = append(args, formatSeat(id))
	}
	return args
}

// strange is the error for a reply that the script does not give.
func (r *reply) strange(script int) error {
	return fmt.Errorf("%w: %s replies %q", errForeignData, scripts[script].name, r.status())
}

func checkHold(req *seatflow.HoldRequest) error {
	switch {
	case len(req.Seats) == 0 || !ascending(req.Seats):
		return fmt.Errorf("%w: seats of a hold must be one or more, sorted and distinct", errInvalid)
	case len(req.Seats) > maxListed:
		return fmt.Errorf("%w: a hold of %d seats", errInvalid, len(req.Seats))
	case req.Owner.IsZero():
		return errNoOwner
	case req.User == "":
		return fmt.Errorf("%w: a hold needs a user", errInvalid)
	case req.For < 0:
		return fmt.Errorf("%w: a hold of %v", errInvalid, req.For)
	}
	return checkPartition(req.Show.Partition)
}

// maxListed is how many seats a hold may list: a script can pass no more to a
// command at once.
const maxListed = 3000

func ascending(seats []seatflow.SeatID) bool {
	for i := 1; i < len(seats); i++ {
		if seats[i-1] >= seats[i] {
			return false
		}
	}
	return true
}
