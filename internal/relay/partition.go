package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seatflow"
)

// worker relays one partition under its lease.
type worker struct {
	*Relay
	partition seatflow.Partition
	place     *place

	store  string            // identity of the seat store that was published last; "" when unknown
	after  seatflow.Position // of the newest change published
	stream string            // the incarnation published to, once known
	last   string            // id of the newest message in it, as far as this worker knows

	shows map[seatflow.ShowID]*showState
	beat  time.Time // when positions are told next
}

// showState is what a worker remembers of a show.
type showState struct {
	hall    seatflow.HallID
	floor   seatflow.Generation // changes of a lower one are superseded
	last    seatflow.Revision   // published
	changed time.Time           // when; zero: not lately
}

func (r *Relay) relayPartition(ctx context.Context, p seatflow.Partition) {
	w := &worker{Relay: r, partition: p, place: &r.places[p], shows: make(map[seatflow.ShowID]*showState)}
	w.place.own(true)
	defer w.place.own(false)
	if !w.insist(ctx, "resume", w.resume) {
		return
	}
	if w.stream == "" && !w.insist(ctx, "look at the stream", w.lookAtStream) {
		return
	}
	for ctx.Err() == nil {
		w.step(ctx)
	}
}

// resume finds the place to go on from: the newest message has it. Where there
// is none, nothing is known, and everyone begins anew.
func (w *worker) resume(ctx context.Context) error {
	last, err := w.o.Bus.Last(ctx, seatflow.PartitionSubjects(w.partition))
	if errors.Is(err, seatflow.ErrNotFound) {
		return w.restart(ctx, "nothing is stored of the partition")
	}
	if err != nil {
		return err
	}
	w.stream, w.last = last.Stream, last.ID
	event, err := seatflow.ParseSeatsEvent(last.Payload)
	if err != nil {
		return w.restart(ctx, "the newest message cannot be read: "+err.Error())
	}
	w.stand(event.Store, event.After)
	return nil
}

func (w *worker) stand(store string, after seatflow.Position) {
	w.store, w.after = store, after
	w.place.stand(store, after)
}

// step reads one batch and publishes it.
func (w *worker) step(ctx context.Context) {
	var b seatflow.ChangeBatch
	if !w.insist(ctx, "read changes", func(ctx context.Context) (err error) {
		b, err = w.o.Seats.Changes(ctx, seatflow.ChangesRequest{
			Partition: w.partition, After: w.after, Limit: w.o.Batch, Wait: w.patience(),
		})
		return err
	}) {
		return
	}
	if b.Identity != w.store {
		// What was read may belong to a fork: none of it goes out.
		w.insist(ctx, "begin anew", func(ctx context.Context) error {
			return w.restart(ctx, "the seat store is another one now")
		})
		return
	}
	if b.Trimmed && !w.trimmed(ctx, &b) {
		return
	}
	w.place.pend(len(b.Changes))
	if messages := w.coalesce(ctx, &b); len(messages) > 0 {
		ok, failed := w.publish(ctx, messages)
		if !ok {
			return
		}
		w.last = messages[len(messages)-1].ID
		w.count.changes.Add(int64(len(b.Changes)))
		w.stand(b.Identity, b.Next)
		if (failed || w.stream == "") && !w.insist(ctx, "look at the stream", w.lookAtStream) {
			return
		}
	}
	w.stand(b.Identity, b.Next)
	w.tellPositions(ctx)
	if n := len(b.Changes); n > 0 && n < w.o.Batch {
		pause(ctx, w.o.Coalesce)
	}
}

// patience is how long a read may wait for changes.
func (w *worker) patience() time.Duration {
	if w.beat.IsZero() {
		return w.o.Wait
	}
	return max(min(w.o.Wait, time.Until(w.beat)), time.Millisecond)
}

// trimmed tells everyone that changes were lost before the batch.
func (w *worker) trimmed(ctx context.Context, b *seatflow.ChangeBatch) bool {
	after := w.after // whoever comes next shall find the gap as well …
	if len(b.Changes) == 0 {
		after = b.Next // … unless nothing follows that would hide it
	}
	w.o.Log.WarnContext(ctx, "seat changes were dropped before they were relayed", "partition", w.partition)
	return w.insist(ctx, "tell of dropped changes", func(ctx context.Context) error {
		shows, err := w.current(ctx)
		if err != nil {
			return err
		}
		return w.reset(ctx, shows, b.Identity, after)
	})
}

// lookAtStream resets the shows when the stream does not end with what this
// worker published last: it is another one, or its end was lost. What was in
// it may not have been read. (Or another relay published meanwhile; then the
// resets tell nobody anything new.)
func (w *worker) lookAtStream(ctx context.Context) error {
	last, err := w.o.Bus.Last(ctx, seatflow.PartitionSubjects(w.partition))
	switch {
	case err != nil && !errors.Is(err, seatflow.ErrNotFound):
		return err
	case w.last == "", err == nil && last.ID == w.last && (w.stream == "" || last.Stream == w.stream):
		w.stream = last.Stream
		return nil
	}
	w.o.Log.WarnContext(ctx, "the stream was lost: everyone takes snapshots", "partition", w.partition)
	shows, err := w.current(ctx)
	if err != nil {
		return err
	}
	w.stream = "" // looked up again once there is something in it
	return w.reset(ctx, shows, w.store, w.after)
}

// restart begins anew where nothing that was published can be built on. First
// every view is made sure of, then a reset goes out for each show, and what
// changes from here on.
func (w *worker) restart(ctx context.Context, why string) error {
	now, err := w.o.Seats.Changes(ctx, seatflow.ChangesRequest{Partition: w.partition, After: seatflow.PositionNow, Limit: 1})
	if err != nil {
		return fmt.Errorf("relay: the end of partition %d: %w", w.partition, err)
	}
	shows, err := w.o.Shows(ctx, w.partition)
	if err != nil {
		return fmt.Errorf("relay: shows of partition %d: %w", w.partition, err)
	}
	if w.o.Ensure != nil {
		for i := range shows {
			if err := w.o.Ensure(ctx, shows[i].ID); err != nil && !gone(err) {
				return fmt.Errorf("relay: the view of show %d: %w", shows[i].ID, err)
			}
		}
	}
	standing, err := w.locate(ctx, shows)
	if err != nil {
		return err
	}
	for _, s := range standing {
		if s.identity != now.Identity {
			return fmt.Errorf("relay: the seat store of partition %d has changed again", w.partition)
		}
	}
	if err := w.reset(ctx, standing, now.Identity, now.Next); err != nil {
		return err
	}
	w.stand(now.Identity, now.Next)
	level := slog.LevelInfo
	if len(standing) == 0 {
		level = slog.LevelDebug // at every start, of every partition without shows
	}
	w.o.Log.Log(ctx, level, "the relay of a partition began anew", "partition", w.partition, "why", why, "shows", len(standing))
	return nil
}

// gone reports whether a show has no view and needs none.
func gone(err error) bool {
	return errors.Is(err, seatflow.ErrNotFound) || seatflow.CodeOf(err) == seatflow.CodeNoShow
}

// standing is a show with its view's place.
type standing struct {
	Show
	identity string
	rev      seatflow.Revision // zero: unknown
}

// current lists the shows of the partition, with where their views stand.
func (w *worker) current(ctx context.Context) ([]standing, error) {
	shows, err := w.o.Shows(ctx, w.partition)
	if err != nil {
		return nil, fmt.Errorf("relay: shows of partition %d: %w", w.partition, err)
	}
	all, err := w.locate(ctx, shows)
	if errors.Is(err, seatflow.ErrNotReady) {
		// A view that is being rebuilt: its consumers take snapshots anyway.
		all, err = all[:0], nil
		for _, s := range shows {
			all = append(all, standing{Show: s, identity: w.store})
		}
	}
	return all, err
}

// revisioner is a seat store that tells where a view stands at little cost.
type revisioner interface {
	Revision(ctx context.Context, show seatflow.ShowRef) (identity string, rev seatflow.Revision, err error)
}

// locate reads where views stand; those past their lifetime are left out.
func (w *worker) locate(ctx context.Context, shows []Show) ([]standing, error) {
	all := make([]standing, 0, len(shows))
	for _, s := range shows {
		at := standing{Show: s}
		var err error
		if store, ok := w.o.Seats.(revisioner); ok {
			at.identity, at.rev, err = store.Revision(ctx, s.ShowRef)
		} else {
			var snap *seatflow.Snapshot
			if snap, err = w.o.Seats.Snapshot(ctx, s.ShowRef, seatflow.DetailStates); err == nil {
				at.identity, at.rev = snap.Identity, snap.Revision
			}
		}
		if err != nil {
			return all, fmt.Errorf("relay: where show %d stands: %w", s.ID, err)
		}
		if at.rev != (seatflow.Revision{}) {
			all = append(all, at)
		}
	}
	return all, nil
}

// reset publishes a reset for each show, once.
func (w *worker) reset(ctx context.Context, shows []standing, store string, after seatflow.Position) error {
	messages := make([]seatflow.Message, 0, len(shows))
	for i := range shows {
		s := &shows[i]
		event := seatflow.SeatsEvent{
			Type: seatflow.SeatsReset, Show: s.ID, Hall: s.Hall, Store: store, After: after,
			Generation: s.rev.Generation, First: s.rev.Number, Last: s.rev.Number,
		}
		messages = append(messages, event.Message(w.partition, time.Now()))
		st := w.show(ctx, s.ID)
		st.hall, st.floor, st.changed = s.Hall, max(st.floor, s.rev.Generation), time.Time{}
	}
	if len(messages) == 0 {
		return nil
	}
	if err := w.o.Bus.Publish(ctx, messages...); err != nil {
		return err
	}
	w.last = messages[len(messages)-1].ID
	w.count.messages.Add(int64(len(messages)))
	w.count.resets.Add(int64(len(messages)))
	return nil
}

// show returns what is remembered of a show.
func (w *worker) show(ctx context.Context, id seatflow.ShowID) *showState {
	s := w.shows[id]
	if s == nil {
		s = new(showState)
		if w.o.Hall != nil {
			s.hall = w.o.Hall(ctx, id)
		}
		w.shows[id] = s
	}
	return s
}

// tellPositions repeats the newest revision of every show that has gone quiet
// lately, and looks whether the stream is still there.
func (w *worker) tellPositions(ctx context.Context) {
	now := time.Now()
	if w.beat.IsZero() || now.Before(w.beat) {
		return
	}
	w.beat = time.Time{}
	if !w.insist(ctx, "look at the stream", w.lookAtStream) {
		return
	}
	var messages []seatflow.Message
	for id, s := range w.shows {
		quiet := now.Sub(s.changed)
		if s.changed.IsZero() || quiet > w.o.Recent {
			s.changed = time.Time{}
			if len(w.shows) > showsMost {
				delete(w.shows, id)
			}
			continue
		}
		w.beat = now.Add(w.o.Heartbeat)
		if quiet < w.o.Heartbeat {
			continue // its last message was position enough
		}
		event := seatflow.SeatsEvent{
			Type: seatflow.SeatsPosition, Show: id, Hall: s.hall, Store: w.store, After: w.after,
			Generation: s.last.Generation, First: s.last.Number, Last: s.last.Number,
		}
		messages = append(messages, event.Message(w.partition, now))
	}
	if len(messages) == 0 {
		return
	}
	if ok, _ := w.publish(ctx, messages); ok {
		w.last = messages[len(messages)-1].ID
	}
}

// showsMost is how many shows a worker remembers before it forgets the quiet
// ones.
const showsMost = 1024
