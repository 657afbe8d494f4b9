package redisseats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"seatflow"
)

// Snapshot implements [seatflow.SeatStore]. A view whose counts do not fit
// can be read, so that it can be repaired. After the view's lifetime the
// snapshot is empty.
func (s *Store) Snapshot(ctx context.Context, ref seatflow.ShowRef, detail seatflow.Detail) (*seatflow.Snapshot, error) {
	if err := checkPartition(ref.Partition); err != nil {
		return nil, err
	}
	k := s.keys.of(&ref)
	orders, users := detail&seatflow.DetailOrders != 0, detail&seatflow.DetailUsers != 0
	r, err := s.showCall(ctx, &ref, scriptSnapshot, []string{k.seats, k.owners, k.orders, k.users, k.meta},
		[]string{until(&ref), digit(orders), digit(users)})
	if err != nil {
		return nil, err
	}
	snap := &seatflow.Snapshot{Show: ref.ID, Identity: r.identity}
	switch r.status() {
	case "ended":
		snap.At = r.time(1)
		return snap, nil
	case "snapshot":
	default:
		return nil, r.strange(scriptSnapshot)
	}
	snap.Revision = seatflow.Revision{Generation: seatflow.Generation(r.number(1)), Number: r.number(2)}
	snap.At = r.time(3)
	snap.States = []seatflow.SeatState(r.text(4))
	if orders {
		if err := readOrders(snap, r.list(5), r.list(6)); err != nil {
			return nil, err
		}
	}
	if users {
		list := r.list(7)
		snap.Users = make(map[seatflow.UserID]int, len(list)/2)
		for i := 0; i+1 < len(list); i += 2 {
			n, err := strconv.Atoi(textOf(&list[i+1]))
			if err != nil {
				return nil, fmt.Errorf("%w: a user's count: %w", errForeignData, err)
			}
			snap.Users[seatflow.UserID(textOf(&list[i]))] = n
		}
	}
	return snap, nil
}

func readOrders(snap *seatflow.Snapshot, orders, owners []rueidis.RedisMessage) error {
	for i := 0; i+1 < len(orders); i += 2 {
		o, err := parseRecord(textOf(&orders[i]), textOf(&orders[i+1]))
		if err != nil {
			return err
		}
		snap.Orders = append(snap.Orders, o)
	}
	slices.SortFunc(snap.Orders, func(a, b seatflow.OrderRecord) int {
		return cmp.Or(cmp.Compare(a.Owner.Order, b.Owner.Order), cmp.Compare(a.Owner.Attempt, b.Owner.Attempt))
	})
	snap.Owners = make(map[seatflow.SeatID]seatflow.Owner, len(owners)/2)
	for i := 0; i+1 < len(owners); i += 2 {
		id, err := parseSeat(textOf(&owners[i]))
		if err != nil {
			return fmt.Errorf("%w: a seat in owners: %w", errForeignData, err)
		}
		snap.Owners[id] = parseOwner(textOf(&owners[i+1]))
	}
	return nil
}

func digit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// Revision tells where a view stands, with the identity of its server,
// without reading the house; zero after the view's lifetime.
func (s *Store) Revision(ctx context.Context, ref seatflow.ShowRef) (identity string, rev seatflow.Revision, err error) {
	if err := checkPartition(ref.Partition); err != nil {
		return "", seatflow.Revision{}, err
	}
	r, err := s.showCall(ctx, &ref, scriptRevision, []string{s.keys.of(&ref).meta}, []string{until(&ref)})
	switch {
	case err != nil:
		return "", seatflow.Revision{}, err
	case r.status() == "ended":
		return r.identity, seatflow.Revision{}, nil
	}
	return r.identity, seatflow.Revision{Generation: seatflow.Generation(r.number(1)), Number: r.number(2)}, nil
}

// Rebuild implements [seatflow.SeatStore]. The view is put together before
// anything is sent, for the server that the partition has at this moment. The
// generation starts at 1; a store that has no view of the show takes any.
func (s *Store) Rebuild(ctx context.Context, view seatflow.View) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	ref := &view.Show
	if err := checkPartition(ref.Partition); err != nil {
		return err
	}
	args, err := layOut(&view)
	if err != nil {
		return err
	}
	if _, err := s.seeAgain(ctx, ref.Partition, s.partitions[ref.Partition].now.Load()); err != nil {
		return fmt.Errorf("redisseats: rebuild: %w: %w", seatflow.ErrNotExecuted, err)
	}
	r, err := s.showCall(ctx, ref, scriptRebuild, s.keys.of(ref).hold, args)
	if err != nil {
		return err
	}
	if r.status() != "ended" && r.status() != "rebuilt" {
		return r.strange(scriptRebuild)
	}
	return nil
}

// layOut checks a view and puts it into the words of the script.
func layOut(view *seatflow.View) ([]string, error) {
	if len(view.Base) > seatflow.MaxSeatsPerHall {
		return nil, fmt.Errorf("%w: %d seats", errInvalid, len(view.Base))
	}
	states := make([]byte, len(view.Base))
	for i, state := range view.Base {
		if state != seatflow.Available && state != seatflow.NoSeat {
			return nil, fmt.Errorf("%w: seat %d of the base is %q", errInvalid, i+1, byte(state))
		}
		states[i] = byte(state)
	}
	users, seen := make(map[seatflow.UserID]int), make(map[seatflow.Owner]bool, len(view.Orders))
	orders := make([]string, 0, 3*len(view.Orders))
	for i := range view.Orders {
		o := &view.Orders[i]
		if o.Owner.IsZero() || seen[o.Owner] || !o.State.Owned() || len(o.Seats) == 0 {
			return nil, fmt.Errorf("%w: the record of %q needs an owner of its own, a state and seats", errInvalid, o.Owner)
		}
		seen[o.Owner] = true
		seats := o.Seats
		if !ascending(seats) {
			seats = slices.Clone(seats)
			slices.Sort(seats)
			seats = slices.Compact(seats)
		}
		for _, id := range seats {
			if id < 1 || int(id) > len(states) || states[id-1] != byte(seatflow.Available) {
				return nil, fmt.Errorf("%w: seat %d of %s is not there or not free", errInvalid, id, o.Owner)
			}
			states[id-1] = byte(o.State)
		}
		if o.State != seatflow.Blocked {
			users[o.User] += len(seats)
		}
		orders = append(orders, o.Owner.String(), formatRecord(o, seats), wakeAt(o))
	}
	args := append([]string{strconv.FormatInt(int64(view.Show.ID), 10), until(&view.Show), strconv.FormatInt(int64(view.Generation), 10),
		string(states), formatCounts(states, len(view.Orders), len(users)), strconv.Itoa(len(view.Orders))}, orders...)
	for user, n := range users {
		args = append(args, string(user), strconv.Itoa(n))
	}
	return args, nil
}

// wakeAt is when to wake for an order of a view that is installed.
func wakeAt(o *seatflow.OrderRecord) string {
	switch {
	case o.State != seatflow.Held:
		return "-"
	case o.Deadline.IsZero():
		return "-inf"
	}
	return formatTime(o.Deadline)
}

// formatCounts is the counts as they stand in meta: owned seats, then those in
// each state, then orders and users.
func formatCounts(states []byte, orders, users int) string {
	var n [256]int
	for _, state := range states {
		n[state]++
	}
	return fmt.Sprintf("%d %d %d %d %d %d %d %d", n[seatflow.Held]+n[seatflow.Sold]+n[seatflow.Blocked], n[seatflow.Available],
		n[seatflow.Held], n[seatflow.Sold], n[seatflow.Blocked], n[seatflow.NoSeat], orders, users)
}

// Repair implements [seatflow.SeatStore].
//
// A seat that becomes an owner's joins the owner's record, which takes over
// what the request says of the order; a record whose last seat goes, goes
// with its wake-up. All counts are derived anew, in a step of its own, when
// they do not fit afterwards, or when the request lists no seat, which is no
// change. NoSeat is not repaired, nor is a seat that does not exist: both are
// reported as changed.
func (s *Store) Repair(ctx context.Context, req seatflow.RepairRequest) (seatflow.RepairReply, error) {
	if err := checkRepair(&req); err != nil {
		return seatflow.RepairReply{}, err
	}
	k := s.keys.of(&req.Show)
	show, end, generation := strconv.FormatInt(int64(req.Show.ID), 10), until(&req.Show), strconv.FormatInt(int64(req.Generation), 10)
	var reply seatflow.RepairReply
	if len(req.Seats) > 0 {
		args := append(make([]string, 0, 3+10*len(req.Seats)), show, end, generation)
		for i := range req.Seats {
			fix := &req.Seats[i]
			want := fix.Want
			if fix.WantState == seatflow.Available {
				want = seatflow.OrderRecord{}
			}
			deadline := formatTime(want.Deadline)
			if fix.WantState != seatflow.Held {
				deadline = "-"
			}
			args = append(args, formatSeat(fix.Seat), string([]byte{byte(fix.SawState)}), fix.SawOwner.String(),
				string([]byte{byte(fix.WantState)}), want.Owner.String(), formatTime(want.TakenAt), deadline,
				formatTime(want.Cap), formatKey(want.KeyHash), string(want.User))
		}
		r, err := s.showCall(ctx, &req.Show, scriptRepair, k.edit, args)
		if err != nil || r.status() == "ended" {
			return seatflow.RepairReply{}, err
		}
		if r.status() != "repaired" {
			return seatflow.RepairReply{}, r.strange(scriptRepair)
		}
		to := 4 + int(r.number(3))
		reply = seatflow.RepairReply{Revision: r.number(1), Fixed: r.seats(4, to), Changed: r.seats(to, len(r.fields))}
		if r.number(2) == 1 {
			return reply, nil
		}
	}
	r, err := s.showCall(ctx, &req.Show, scriptRecount,
		[]string{k.seats, k.owners, k.orders, k.users, k.meta, k.deadlines}, []string{show, end, generation})
	if err != nil || r.status() == "ended" {
		return reply, err
	}
	if len(req.Seats) == 0 {
		reply.Revision = r.number(1)
	}
	return reply, nil
}

func checkRepair(req *seatflow.RepairRequest) error {
	seen := make(map[seatflow.SeatID]bool, len(req.Seats))
	for i := range req.Seats {
		fix := &req.Seats[i]
		switch {
		case seen[fix.Seat]:
			return fmt.Errorf("%w: seat %d is repaired twice", errInvalid, fix.Seat)
		case fix.WantState != seatflow.Available && !fix.WantState.Owned():
			return fmt.Errorf("%w: seat %d cannot become %q", errInvalid, fix.Seat, byte(fix.WantState))
		case fix.WantState.Owned() && fix.Want.Owner.IsZero():
			return errNoOwner
		}
		seen[fix.Seat] = true
	}
	return checkPartition(req.Show.Partition)
}
