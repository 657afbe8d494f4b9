package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"seatflow"
)

// Model is a seat store to compare others with: maps, one lock, everything
// counted afresh whenever it is asked for. It keeps every change and is meant
// for small houses.
type Model struct {
	clock seatflow.Clock
	name  string

	mu    sync.Mutex
	shows map[modelKey]*modelShow
	logs  [seatflow.Partitions][]seatflow.Change
	wake  chan struct{} // closed by the next change
}

var _ seatflow.SeatStore = (*Model)(nil)

type modelKey struct {
	partition seatflow.Partition
	show      seatflow.ShowID
}

type modelShow struct {
	id         seatflow.ShowID
	partition  seatflow.Partition
	generation seatflow.Generation
	revision   int64
	until      time.Time
	states     []seatflow.SeatState
	owners     map[seatflow.SeatID]seatflow.Owner
	orders     map[seatflow.Owner]*seatflow.OrderRecord
	wakeAt     map[seatflow.Owner]time.Time
	passed     []time.Time // holds that the rate window let through
}

// NewModel returns an empty store.
func NewModel(clock seatflow.Clock) *Model {
	return &Model{clock: clock, name: "model" + rand.Text(), shows: make(map[modelKey]*modelShow), wake: make(chan struct{})}
}

func (m *Model) now() time.Time { return m.clock.Now().UTC().Truncate(time.Millisecond) }

// modelFound is what an operation meets.
type modelFound struct {
	show  *modelShow
	now   time.Time
	ended bool
}

// find returns the view, or that its lifetime is over. The lock is held.
func (m *Model) find(ctx context.Context, ref seatflow.ShowRef) (modelFound, error) {
	if err := ctx.Err(); err != nil {
		return modelFound{}, fmt.Errorf("%w: %w", seatflow.ErrNotExecuted, err)
	}
	if ref.Partition >= seatflow.Partitions {
		return modelFound{}, fmt.Errorf("model: no partition %d", ref.Partition)
	}
	f := modelFound{now: m.now()}
	if !f.now.Before(ref.Until) {
		f.ended = true
		return f, nil
	}
	key := modelKey{ref.Partition, ref.ID}
	if sh := m.shows[key]; sh != nil && !f.now.Before(sh.until.Add(time.Hour)) {
		delete(m.shows, key)
	}
	if f.show = m.shows[key]; f.show != nil && ref.Until.After(f.show.until) {
		f.show.until = ref.Until
	}
	return f, nil
}

// view is find for operations that need one.
func (m *Model) view(ctx context.Context, ref seatflow.ShowRef) (modelFound, error) {
	f, err := m.find(ctx, ref)
	if err == nil && !f.ended && f.show == nil {
		err = seatflow.ErrNotReady
	}
	return f, err
}

func (sh *modelShow) state(id seatflow.SeatID) seatflow.SeatState {
	if id < 1 || int(id) > len(sh.states) {
		return seatflow.NoSeat
	}
	return sh.states[id-1]
}

func (sh *modelShow) next(verb seatflow.Verb, id seatflow.SeatID, owner seatflow.Owner) (seatflow.SeatState, bool) {
	return seatflow.Next(verb, sh.state(id), !owner.IsZero() && sh.owners[id] == owner)
}

func (sh *modelShow) users() map[seatflow.UserID]int {
	users := make(map[seatflow.UserID]int)
	for _, o := range sh.orders {
		if o.State != seatflow.Blocked {
			users[o.User] += len(o.Seats)
		}
	}
	return users
}

// set moves seats and appends the change. The owner's record must be as it
// shall be; orders left without seats go.
func (m *Model) set(f modelFound, verb seatflow.Verb, changes []seatflow.SeatChange, owner seatflow.Owner) {
	sh := f.show
	for i := range changes {
		c := &changes[i]
		c.Delta = c.State.Occupied() - sh.state(c.Seat).Occupied()
		sh.states[c.Seat-1] = c.State
		if c.State.Owned() {
			sh.owners[c.Seat] = owner
		} else {
			delete(sh.owners, c.Seat)
		}
	}
	m.changed(f, verb, changes)
}

func (m *Model) changed(f modelFound, verb seatflow.Verb, changes []seatflow.SeatChange) {
	sh := f.show
	for owner, o := range sh.orders {
		if len(o.Seats) == 0 {
			delete(sh.orders, owner)
		}
	}
	maps.DeleteFunc(sh.wakeAt, func(owner seatflow.Owner, _ time.Time) bool {
		o := sh.orders[owner]
		return o == nil || o.State != seatflow.Held
	})
	if verb != seatflow.VerbRebuild {
		sh.revision++
	}
	m.logs[sh.partition] = append(m.logs[sh.partition], seatflow.Change{Show: sh.id, Verb: verb, At: f.now,
		Revision: seatflow.Revision{Generation: sh.generation, Number: sh.revision}, Seats: changes})
	close(m.wake)
	m.wake = make(chan struct{})
}

// Hold implements [seatflow.SeatStore].
func (m *Model) Hold(ctx context.Context, req seatflow.HoldRequest) (seatflow.HoldReply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sorted := slices.Compact(slices.Sorted(slices.Values(req.Seats)))
	if len(req.Seats) == 0 || !slices.Equal(sorted, req.Seats) || req.Owner.IsZero() || req.User == "" || req.For < 0 {
		return seatflow.HoldReply{}, fmt.Errorf("model: invalid hold")
	}
	f, err := m.find(ctx, req.Show)
	if err != nil {
		return seatflow.HoldReply{}, err
	}
	sh := f.show
	if f.ended || sh == nil {
		return seatflow.HoldReply{Outcome: seatflow.OutcomeNotReady}, nil
	}
	reply := seatflow.HoldReply{Generation: sh.generation, Revision: sh.revision}
	own := sh.orders[req.Owner]
	if own != nil && own.State == seatflow.Held && own.Deadline.After(f.now) && own.User == req.User && slices.Equal(own.Seats, req.Seats) {
		reply.Outcome, reply.Repeat = seatflow.OutcomeHeld, true
		reply.TakenAt, reply.Deadline, reply.Cap = own.TakenAt, own.Deadline, own.Cap
		return reply, nil
	}
	for _, id := range req.Seats {
		if o := sh.orders[sh.owners[id]]; o != nil && o.Owner != req.Owner && o.User == req.User && o.State != seatflow.Blocked &&
			!req.KeyHash.IsZero() && o.KeyHash == req.KeyHash {
			reply.Outcome, reply.Owner = seatflow.OutcomeYours, o.Owner
			return reply, nil
		}
	}
	if req.Rate > 0 {
		sh.passed = slices.DeleteFunc(sh.passed, func(at time.Time) bool { return !at.After(f.now.Add(-time.Second)) })
		if n := len(sh.passed); n >= req.Rate {
			reply.Outcome, reply.RetryAfter = seatflow.OutcomeBusy, sh.passed[n-req.Rate].Add(time.Second).Sub(f.now)
			return reply, nil
		}
		sh.passed = append(sh.passed, f.now)
	}
	for _, id := range req.Seats {
		if _, free := sh.next(seatflow.VerbHold, id, req.Owner); !free {
			reply.Taken = append(reply.Taken, id)
		}
	}
	if own != nil && reply.Taken == nil {
		reply.Taken = slices.Clone(req.Seats)
	}
	if reply.Taken != nil {
		reply.Outcome = seatflow.OutcomeTaken
		return reply, nil
	}
	if left := req.Limit - sh.users()[req.User]; req.Limit > 0 && len(req.Seats) > left {
		reply.Outcome, reply.Left = seatflow.OutcomeOverLimit, max(0, left)
		return reply, nil
	}
	o := &seatflow.OrderRecord{Owner: req.Owner, User: req.User, KeyHash: req.KeyHash, Seats: slices.Clone(req.Seats),
		State: seatflow.Held, TakenAt: f.now, Deadline: f.now.Add(req.For), Cap: f.now.Add(req.For)}
	if req.Cap > 0 {
		o.Cap = f.now.Add(req.Cap)
		o.Deadline = f.now.Add(min(req.For, req.Cap))
	}
	sh.orders[req.Owner], sh.wakeAt[req.Owner] = o, o.Deadline
	m.set(f, seatflow.VerbHold, all(req.Seats, seatflow.Held), req.Owner)
	reply.Outcome, reply.Revision = seatflow.OutcomeHeld, sh.revision
	reply.TakenAt, reply.Deadline, reply.Cap = o.TakenAt, o.Deadline, o.Cap
	return reply, nil
}

func all(seats []seatflow.SeatID, state seatflow.SeatState) []seatflow.SeatChange {
	changes := make([]seatflow.SeatChange, len(seats))
	for i, id := range seats {
		changes[i] = seatflow.SeatChange{Seat: id, State: state}
	}
	return changes
}

// Extend implements [seatflow.SeatStore].
func (m *Model) Extend(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, deadline time.Time) (seatflow.ExtendReply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.view(ctx, ref)
	if err != nil || f.ended {
		return seatflow.ExtendReply{}, err
	}
	o := f.show.orders[owner]
	if o == nil || o.State != seatflow.Held {
		return seatflow.ExtendReply{}, nil
	}
	deadline = deadline.UTC().Truncate(time.Millisecond)
	if !o.Cap.IsZero() && deadline.After(o.Cap) {
		deadline = o.Cap
	}
	if !deadline.After(f.now) {
		return seatflow.ExtendReply{Deadline: o.Deadline}, nil
	}
	if deadline.After(o.Deadline) {
		o.Deadline, f.show.wakeAt[owner] = deadline, deadline
		held := slices.DeleteFunc(slices.Clone(o.Seats), func(id seatflow.SeatID) bool { return f.show.state(id) != seatflow.Held })
		m.set(f, seatflow.VerbExtend, all(held, seatflow.Held), owner)
	}
	return seatflow.ExtendReply{Extended: true, Deadline: o.Deadline}, nil
}

// Sell implements [seatflow.SeatStore].
func (m *Model) Sell(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner) (seatflow.SellReply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.view(ctx, ref)
	if err != nil || f.ended || f.show.orders[owner] == nil {
		return seatflow.SellReply{}, err
	}
	o := f.show.orders[owner]
	var moves []seatflow.SeatID
	sold := 0
	for _, id := range o.Seats {
		if to, ok := f.show.next(seatflow.VerbSell, id, owner); ok {
			sold++
			if to != f.show.state(id) {
				moves = append(moves, id)
			}
		}
	}
	if len(moves) > 0 {
		o.State, o.Deadline = seatflow.Sold, time.Time{}
		m.set(f, seatflow.VerbSell, all(moves, seatflow.Sold), owner)
	}
	return seatflow.SellReply{Sold: sold}, nil
}

// Release implements [seatflow.SeatStore].
func (m *Model) Release(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	freed, _, err := m.free(ctx, seatflow.VerbRelease, ref, owner, seats)
	return seatflow.ReleaseReply{Released: freed}, err
}

// Unsell implements [seatflow.SeatStore].
func (m *Model) Unsell(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.ReleaseReply, error) {
	freed, _, err := m.free(ctx, seatflow.VerbUnsell, ref, owner, seats)
	return seatflow.ReleaseReply{Released: freed}, err
}

// Unblock implements [seatflow.SeatStore].
func (m *Model) Unblock(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	freed, refused, err := m.free(ctx, seatflow.VerbUnblock, ref, owner, seats)
	return seatflow.BlockReply{Changed: freed, Refused: refused}, err
}

func (m *Model) free(ctx context.Context, verb seatflow.Verb, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (freed, refused []seatflow.SeatID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.view(ctx, ref)
	if err != nil || f.ended {
		return nil, nil, err
	}
	o := f.show.orders[owner]
	listed := slices.Compact(slices.Sorted(slices.Values(seats)))
	if seats == nil && o != nil {
		listed = slices.Clone(o.Seats)
	}
	for _, id := range listed {
		if _, ok := f.show.next(verb, id, owner); ok && o != nil {
			freed = append(freed, id)
		} else if seats != nil {
			refused = append(refused, id)
		}
	}
	if len(freed) > 0 {
		o.Seats = slices.DeleteFunc(o.Seats, func(id seatflow.SeatID) bool { return slices.Contains(freed, id) })
		m.set(f, verb, all(freed, seatflow.Available), seatflow.Owner{})
	}
	return freed, refused, nil
}

// Block implements [seatflow.SeatStore].
func (m *Model) Block(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, seats []seatflow.SeatID) (seatflow.BlockReply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if owner.IsZero() {
		return seatflow.BlockReply{}, fmt.Errorf("model: no owner")
	}
	f, err := m.view(ctx, ref)
	if err != nil || f.ended {
		return seatflow.BlockReply{}, err
	}
	o := f.show.orders[owner]
	var reply seatflow.BlockReply
	for _, id := range slices.Compact(slices.Sorted(slices.Values(seats))) {
		to, ok := f.show.next(seatflow.VerbBlock, id, owner)
		switch {
		case !ok || o != nil && o.State != seatflow.Blocked:
			reply.Refused = append(reply.Refused, id)
		case to != f.show.state(id):
			reply.Changed = append(reply.Changed, id)
		}
	}
	if len(reply.Changed) > 0 {
		if o == nil {
			o = &seatflow.OrderRecord{Owner: owner, State: seatflow.Blocked, TakenAt: f.now}
			f.show.orders[owner] = o
		}
		o.Seats = slices.Sorted(slices.Values(slices.Concat(o.Seats, reply.Changed)))
		m.set(f, seatflow.VerbBlock, all(reply.Changed, seatflow.Blocked), owner)
	}
	return reply, nil
}

// ClaimDue implements [seatflow.SeatStore].
func (m *Model) ClaimDue(ctx context.Context, partition seatflow.Partition, limit int, lease time.Duration) ([]seatflow.DueHold, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", seatflow.ErrNotExecuted, err)
	}
	if partition >= seatflow.Partitions {
		return nil, fmt.Errorf("model: no partition %d", partition)
	}
	now := m.now()
	type entry struct {
		sh *modelShow
		o  *seatflow.OrderRecord
		at time.Time
	}
	var due []entry
	for key, sh := range m.shows {
		if key.partition != partition || !now.Before(sh.until.Add(time.Hour)) {
			continue
		}
		for owner, at := range sh.wakeAt {
			if !at.After(now) {
				due = append(due, entry{sh, sh.orders[owner], at})
			}
		}
	}
	slices.SortFunc(due, func(a, b entry) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.sh.id, b.sh.id), compareOwners(a.o.Owner, b.o.Owner))
	})
	var claimed []seatflow.DueHold
	for _, e := range due[:min(max(0, limit), len(due))] {
		e.sh.wakeAt[e.o.Owner] = now.Add(max(0, lease))
		claimed = append(claimed, seatflow.DueHold{Show: e.sh.id, Owner: e.o.Owner, User: e.o.User, TakenAt: e.o.TakenAt,
			Deadline: e.o.Deadline, Age: now.Sub(e.o.TakenAt)})
	}
	return claimed, nil
}

func compareOwners(a, b seatflow.Owner) int {
	return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Attempt, b.Attempt))
}

// Changes implements [seatflow.SeatStore].
func (m *Model) Changes(ctx context.Context, req seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	if req.Partition >= seatflow.Partitions {
		return seatflow.ChangeBatch{}, fmt.Errorf("model: no partition %d", req.Partition)
	}
	timeout, cancel := context.WithTimeout(context.Background(), req.Wait)
	defer cancel()
	after := -1
	for {
		if err := ctx.Err(); err != nil {
			return seatflow.ChangeBatch{}, fmt.Errorf("%w: %w", seatflow.ErrNotExecuted, err)
		}
		m.mu.Lock()
		log, wake := m.logs[req.Partition], m.wake
		batch := seatflow.ChangeBatch{Identity: m.name}
		if after < 0 {
			after, batch.Trimmed = m.place(req.After, len(log))
		}
		m.mu.Unlock()
		batch.Changes = slices.Clone(log[after:])
		if req.Limit > 0 && len(batch.Changes) > req.Limit {
			batch.Changes = batch.Changes[:req.Limit]
		}
		batch.Next = seatflow.Position(m.name + "-" + strconv.Itoa(after+len(batch.Changes)))
		if len(batch.Changes) > 0 || batch.Trimmed || timeout.Err() != nil {
			return batch, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
		case <-timeout.Done():
		}
	}
}

func (m *Model) place(pos seatflow.Position, n int) (after int, trimmed bool) {
	switch pos {
	case "":
		return 0, false
	case seatflow.PositionNow:
		return n, false
	}
	name, number, _ := strings.Cut(string(pos), "-")
	i, err := strconv.Atoi(number)
	if name != m.name || err != nil || i < 0 || i > n {
		return 0, true
	}
	return i, false
}

// Snapshot implements [seatflow.SeatStore].
func (m *Model) Snapshot(ctx context.Context, ref seatflow.ShowRef, detail seatflow.Detail) (*seatflow.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.view(ctx, ref)
	if err != nil {
		return nil, err
	}
	snap := &seatflow.Snapshot{Show: ref.ID, Identity: m.name, At: f.now}
	if f.ended {
		return snap, nil
	}
	sh := f.show
	snap.Revision = seatflow.Revision{Generation: sh.generation, Number: sh.revision}
	snap.States = slices.Clone(sh.states)
	if detail&seatflow.DetailOrders != 0 {
		snap.Owners = maps.Clone(sh.owners)
		for _, o := range sh.orders {
			c := *o
			c.Seats = slices.Clone(o.Seats)
			snap.Orders = append(snap.Orders, c)
		}
		slices.SortFunc(snap.Orders, func(a, b seatflow.OrderRecord) int { return compareOwners(a.Owner, b.Owner) })
	}
	if detail&seatflow.DetailUsers != 0 {
		snap.Users = sh.users()
	}
	return snap, nil
}

// Identity implements [seatflow.SeatStore].
func (m *Model) Identity(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", seatflow.ErrNotExecuted, err)
	}
	return m.name, nil
}
