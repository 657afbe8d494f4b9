package relay

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
)

// Eight writers over many shows: every change arrives once, in order, and
// nobody needs a second snapshot.
func TestNoGap(t *testing.T) {
	bubble(t, 30, 0, func(t *testing.T, r *rig) {
		a, b := r.start(), r.start()
		time.Sleep(time.Second)
		r.watcher.begin() // the resets of a first start are over
		r.rush(300, 2*time.Millisecond)
		r.settled(a)
		if snapshots, repeats := r.watcher.counts(); snapshots != 0 || repeats != 0 {
			t.Errorf("%d snapshots and %d repeats in a run without faults", snapshots, repeats)
		}
		messages := r.seatMessages()
		if repeats, err := complete(t.Context(), r.seats, r.shows, messages); err != nil || repeats != 0 {
			t.Errorf("%d repeats, %v", repeats, err)
		}
		changes := 0
		for _, e := range eventsOf(t, messages, seatflow.SeatsChanged) {
			changes += len(e.Changes)
			if e.Hall != 7 {
				t.Fatalf("hall %d", e.Hall)
			}
		}
		if len(messages) > changes {
			t.Errorf("%d messages for %d changes", len(messages), changes)
		}
		if n := r.locks.owned(a.locker) + r.locks.owned(b.locker); n != seatflow.Partitions {
			t.Errorf("%d partitions are relayed", n)
		}
		a.stop()
		b.stop()
		if n := r.locks.owned(a.locker) + r.locks.owned(b.locker); n != 0 {
			t.Errorf("%d leases are left behind", n)
		}
	})
}

// In a rush what one show did within a few milliseconds is one message, and
// the first change after a quiet spell does not wait.
func TestCoalesces(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, r *rig) {
		n := r.start()
		time.Sleep(time.Second)
		before := len(eventsOf(t, r.seatMessages(), seatflow.SeatsChanged))
		r.rush(20, 2*time.Millisecond)
		r.settled(n)
		messages := eventsOf(t, r.seatMessages(), seatflow.SeatsChanged)[before:]
		changes := 0
		for _, e := range messages {
			changes += len(e.Changes)
		}
		if len(messages) > 6 || changes < 50 {
			t.Errorf("%d messages with %d changes in about 40 ms", len(messages), changes)
		}
		r.rebuild(t, 1)
		time.Sleep(time.Second)
		before = len(eventsOf(t, r.seatMessages(), seatflow.SeatsChanged))
		at := time.Now()
		r.takeOne(1)
		synctest.Wait()
		if n := len(eventsOf(t, r.seatMessages(), seatflow.SeatsChanged)) - before; n != 1 || time.Since(at) != 0 {
			t.Errorf("a lone change waited: %d messages after %v", n, time.Since(at))
		}
	})
}

// takeOne makes one change in a show.
func (r *rig) takeOne(show seatflow.ShowID) {
	r.t.Helper()
	for seat := seatflow.SeatID(1); seat <= rigSeats; seat++ {
		if r.take(show, seat) {
			return
		}
	}
	r.t.Fatal("the house is full")
}

// take holds seats; false: not all are free.
func (r *rig) take(show seatflow.ShowID, seats ...seatflow.SeatID) bool {
	r.t.Helper()
	reply, err := r.seats.Hold(context.Background(), seatflow.HoldRequest{
		Show: r.shows[show-1].ShowRef, Owner: seatflow.Owner{Order: orderNo(r.orders.Add(1)), Attempt: 1}, User: "u",
		Seats: seats, For: time.Hour, Cap: time.Hour})
	if err != nil {
		r.t.Fatal(err)
	}
	return reply.Outcome == seatflow.OutcomeHeld
}

// Another node takes over within seconds of a death, and at once when a node
// ends in good order, with nothing lost.
func TestTakeover(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(n *node)
		most time.Duration
	}{
		"stopped": {func(n *node) { n.stop() }, 2 * DefaultRetry},
		"killed":  {func(n *node) { n.kill() }, DefaultLease + 2*DefaultRetry},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 6, 0, func(t *testing.T, r *rig) {
				a := r.start()
				b := r.start()
				time.Sleep(time.Second)
				r.watcher.begin()
				if r.locks.owned(a.locker) != seatflow.Partitions {
					t.Fatal("the first node has not all leases")
				}
				go func() {
					time.Sleep(150 * time.Millisecond)
					c.end(a)
				}()
				r.rush(100, 3*time.Millisecond)
				time.Sleep(c.most)
				synctest.Wait()
				if n := r.locks.owned(b.locker); n != seatflow.Partitions {
					t.Errorf("the second node relays %d partitions", n)
				}
				if err := r.watcher.check(t.Context()); err != nil {
					t.Error(err)
				}
				r.settled(b)
				if snapshots, _ := r.watcher.counts(); snapshots != 0 {
					t.Errorf("%d snapshots: the successor left a gap", snapshots)
				}
				if _, err := complete(t.Context(), r.seats, r.shows, r.seatMessages()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A node that loses its leases stops, and gets them again when they are free.
func TestLeaseLost(t *testing.T) {
	bubble(t, 3, 0, func(t *testing.T, r *rig) {
		a := r.start()
		time.Sleep(time.Second)
		for range 5 {
			r.rush(20, 3*time.Millisecond)
			r.locks.lapse(a.locker, false)
			time.Sleep(3 * time.Second)
		}
		r.settled(a)
		if _, err := complete(t.Context(), r.seats, r.shows, r.seatMessages()); err != nil {
			t.Error(err)
		}
		if n := r.locks.owned(a.locker); n != seatflow.Partitions {
			t.Errorf("%d partitions are relayed", n)
		}
	})
}

// Two relays that both believe to own a partition publish twice; consumers
// recognise it.
func TestTwoOwners(t *testing.T) {
	bubble(t, 6, 0, func(t *testing.T, r *rig) {
		// Different batches, so that the bus cannot tell repeats by their ids.
		a := r.start(func(o *Options) { o.Batch = 3 })
		time.Sleep(time.Second)
		r.watcher.begin()
		r.locks.lapse(a.locker, true)
		b := r.start(func(o *Options) { o.Batch = 5 })
		time.Sleep(time.Second)
		r.rush(100, 2*time.Millisecond)
		r.settled(b)
		snapshots, repeats := r.watcher.counts()
		if snapshots != 0 || repeats == 0 {
			t.Errorf("%d snapshots, %d repeats", snapshots, repeats)
		}
		if repeats, err := complete(t.Context(), r.seats, r.shows, r.seatMessages()); err != nil || repeats == 0 {
			t.Errorf("%d repeats, %v", repeats, err)
		}
		a.stop()
		time.Sleep(time.Second)
		r.rush(20, time.Millisecond)
		r.settled(b)
	})
}

func TestRunsOnce(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, r *rig) {
		n := r.start()
		if err := n.Run(t.Context()); err == nil {
			t.Error("a second run was not refused")
		}
		n.stop()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := n.Run(ctx); err != nil {
			t.Errorf("a run after the first: %v", err)
		}
	})
}

// Nobody polls: an idle relay asks the store a few times a minute.
func TestIdle(t *testing.T) {
	bubble(t, 3, 0, func(t *testing.T, r *rig) {
		r.takeOne(1)
		counted := &countedSeats{SeatStore: r.seats}
		n := r.start(func(o *Options) { o.Seats = counted })
		time.Sleep(5 * time.Minute) // what changed lately is no longer told
		stored, before := len(r.seatMessages()), counted.calls.Load()
		time.Sleep(time.Minute)
		if calls := counted.calls.Load() - before; calls > seatflow.Partitions*13 {
			t.Errorf("%d reads in a minute of silence", calls)
		}
		if len(r.seatMessages()) != stored {
			t.Error("something was published in silence")
		}
		n.stop()
	})
}

// A show that has gone quiet tells where it stands, so that a lost last
// message is noticed; after a while it does not any more.
func TestHeartbeat(t *testing.T) {
	bubble(t, 2, 0, func(t *testing.T, r *rig) {
		n := r.start()
		time.Sleep(time.Second)
		r.watcher.begin()
		r.bus.with(func() { r.bus.lose = func(m seatflow.Message) bool { return m.Subject == "seatflow.seats.p05.1" } })
		r.takeOne(1)
		r.takeOne(2)
		synctest.Wait()
		r.bus.with(func() { r.bus.lose = nil })
		if r.watcher.check(t.Context()) == nil {
			t.Fatal("nothing was lost")
		}
		time.Sleep(2 * DefaultHeartbeat)
		synctest.Wait()
		if err := r.watcher.check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if snapshots, _ := r.watcher.counts(); snapshots != 1 {
			t.Errorf("%d snapshots", snapshots)
		}
		r.settled(n)
		time.Sleep(2 * DefaultRecent)
		positions := len(eventsOf(t, r.seatMessages(), seatflow.SeatsPosition))
		if most := 2 * int(DefaultRecent/DefaultHeartbeat); positions < 4 || positions > most {
			t.Errorf("%d positions, want at most %d", positions, most)
		}
		time.Sleep(time.Minute)
		if more := len(eventsOf(t, r.seatMessages(), seatflow.SeatsPosition)); more != positions {
			t.Errorf("%d more positions of a house at rest", more-positions)
		}
	})
}

// A change of more seats than a message holds is told as a reset.
func TestLargeChanges(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, r *rig) {
		const seats = 3 * seatsMost
		view := freeHouse(r.shows[0].ShowRef, 2)
		view.Base = slices.Repeat([]seatflow.SeatState{seatflow.Available}, seats)
		if err := r.seats.Rebuild(t.Context(), view); err != nil {
			t.Fatal(err)
		}
		n := r.start()
		time.Sleep(time.Second)
		block := func(no int64, from, to seatflow.SeatID) {
			var ids []seatflow.SeatID
			for id := from; id < to; id++ {
				ids = append(ids, id)
			}
			if _, err := r.seats.Block(t.Context(), r.shows[0].ShowRef, seatflow.Owner{Order: orderNo(no), Attempt: 1}, ids); err != nil {
				t.Fatal(err)
			}
		}
		// All in one batch: small, too large, and large but not too large.
		block(1, 1, 11)
		block(2, 11, 11+seatsMost+1)
		block(3, 9000, 9000+7000)
		block(4, 16_000, 16_000+7000)
		r.settled(n)
		for _, m := range r.seatMessages() {
			if len(m.Payload) > 2*messageMost {
				t.Errorf("a message of %d bytes", len(m.Payload))
			}
		}
		large := 0
		for _, e := range eventsOf(t, r.seatMessages(), seatflow.SeatsReset) {
			if e.Generation == 2 && e.Last == 2 {
				large++
			}
		}
		if large != 1 {
			t.Errorf("%d resets for the change that is too large", large)
		}
	})
}

// Lag tells of what no relay has published, whoever asks.
func TestLag(t *testing.T) {
	bubble(t, 3, 0, func(t *testing.T, r *rig) {
		n := r.start()
		time.Sleep(time.Second)
		if lag, err := n.Lag(t.Context()); err != nil || !lag.Zero() {
			t.Errorf("lag %+v, %v", lag, err)
		}
		n.stop()
		r.takeOne(1)
		r.takeOne(1)
		r.takeOne(3)
		time.Sleep(7 * time.Second)
		lag, err := n.Lag(t.Context())
		if want := (Lag{Changes: 3, Partitions: 2, Oldest: 7 * time.Second}); err != nil || lag != want {
			t.Errorf("lag %+v, %v; want %+v", lag, err, want)
		}
		n = r.start()
		r.settled(n)
		n.stop()

		// Messages go by their age; changes in the store may stay. Who has no
		// lease does not take them for new.
		time.Sleep(2 * lagForgets)
		r.bus.wipe()
		if lag, err := n.Lag(t.Context()); err != nil || !lag.Zero() {
			t.Errorf("lag %+v, %v", lag, err)
		}
		r.takeOne(2)
		if lag, err := n.Lag(t.Context()); err != nil || lag.Changes != 1 {
			t.Errorf("lag %+v, %v", lag, err)
		}
	})
}

// The checkers by which these tests judge notice what is wrong.
func TestCheckersFail(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, r *rig) {
		n := r.start()
		time.Sleep(time.Second)
		start := len(r.seatMessages())
		for range 3 {
			r.takeOne(1)
			time.Sleep(time.Second)
		}
		n.stop()
		messages := r.seatMessages()
		good := slices.DeleteFunc(slices.Clone(messages[start:]), func(m seatflow.Message) bool {
			return len(eventsOf(t, []seatflow.Message{m}, seatflow.SeatsChanged)) == 0
		})
		if len(good) != 3 {
			t.Fatalf("%d messages", len(good))
		}
		edit := func(i int, change func(*seatflow.SeatsEvent)) []seatflow.Message {
			all := slices.Clone(good)
			e, err := seatflow.ParseSeatsEvent(all[i].Payload)
			if err != nil {
				t.Fatal(err)
			}
			change(&e)
			all[i] = e.Message(5, time.Now())
			return all
		}
		play := func(messages []seatflow.Message) error {
			// A watcher that has the house as it was before, and no store to
			// be saved by.
			w := newWatcher(r.seats, r.shows)
			w.begin()
			w.seats = unready{r.seats}
			w.shows[1].rev = seatflow.Revision{Generation: 1}
			for i := range w.shows[1].states {
				w.shows[1].states[i] = byte(seatflow.Available)
			}
			w.deliver(messages)
			w.seats = r.seats
			return w.check(t.Context())
		}
		if err := play(good); err != nil {
			t.Fatalf("good messages: %v", err)
		}
		if err := play(append(slices.Clone(good), good[1])); err != nil {
			t.Fatalf("a repeat: %v", err)
		}
		for name, bad := range map[string][]seatflow.Message{
			"the last is lost":  good[:2],
			"one is lost":       {good[0], good[2]},
			"out of order":      {good[1], good[0], good[2]},
			"another seat":      edit(2, func(e *seatflow.SeatsEvent) { e.Changes[0].Seats[0].Seat = 40 }),
			"another state":     edit(2, func(e *seatflow.SeatsEvent) { e.Changes[0].Seats[0].State = seatflow.Sold }),
			"another delta":     edit(2, func(e *seatflow.SeatsEvent) { e.Changes[0].Seats[0].Delta = 0 }),
			"no house has it":   edit(2, func(e *seatflow.SeatsEvent) { e.Changes[0].Seats[0].Seat = 4000 }),
			"another store":     edit(1, func(e *seatflow.SeatsEvent) { e.Store = "other" }),
			"higher generation": edit(1, func(e *seatflow.SeatsEvent) { e.Generation, e.Changes[0].Revision.Generation = 2, 2 }),
			"another show":      edit(1, func(e *seatflow.SeatsEvent) { e.Show = 2 }),
			"not readable":      {good[0], {Subject: good[1].Subject, Payload: []byte("{}")}, good[2]},
		} {
			if play(bad) == nil {
				t.Errorf("%s: not noticed", name)
			}
		}
		if _, err := complete(t.Context(), r.seats, r.shows, good); err != nil {
			t.Errorf("complete: %v", err)
		}
		for name, bad := range map[string][]seatflow.Message{"the last is lost": good[:2], "one is lost": {good[0], good[2]}} {
			if _, err := complete(t.Context(), r.seats, r.shows, bad); err == nil {
				t.Errorf("complete: %s: not noticed", name)
			}
		}
		if repeats, _ := complete(t.Context(), r.seats, r.shows, append(slices.Clone(good), good[0])); repeats != 1 {
			t.Errorf("complete counts %d repeats of 1", repeats)
		}
	})
}

// unready has no snapshot.
type unready struct{ seatflow.SeatStore }

func (unready) Snapshot(context.Context, seatflow.ShowRef, seatflow.Detail) (*seatflow.Snapshot, error) {
	return nil, fmt.Errorf("fake: %w", seatflow.ErrNotReady)
}
