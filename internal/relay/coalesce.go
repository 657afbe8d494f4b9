package relay

import (
	"context"
	"time"

	"seatflow"
)

// Limits of a message, well below what a bus accepts (1 MB by default).
const (
	messageMost = 256 << 10 // bytes, about
	seatsMost   = 8_192     // of one change; more are told as a reset
)

// coalesce makes messages of a batch: what it holds of a show in consecutive
// revisions is one, in the order in which the shows first changed.
func (w *worker) coalesce(ctx context.Context, b *seatflow.ChangeBatch) []seatflow.Message {
	if len(b.Changes) == 0 {
		return nil
	}
	type run struct {
		event seatflow.SeatsEvent
		size  int
	}
	var runs []*run
	open := make(map[seatflow.ShowID]*run, 4)
	now := time.Now()
	for i := range b.Changes {
		c := &b.Changes[i]
		s := w.show(ctx, c.Show)
		if c.Revision.Generation < s.floor {
			continue
		}
		s.floor = c.Revision.Generation
		s.last, s.changed = c.Revision, now
		size := 80 + 44*len(c.Seats)
		r := open[c.Show]
		if r == nil || r.event.Generation != c.Revision.Generation || r.event.Last+1 != c.Revision.Number ||
			r.size+size > messageMost || len(c.Seats) > seatsMost {
			r = &run{event: seatflow.SeatsEvent{
				Type: seatflow.SeatsChanged, Show: c.Show, Hall: s.hall, Store: b.Identity, After: w.after,
				Generation: c.Revision.Generation, First: c.Revision.Number,
			}}
			runs = append(runs, r)
			open[c.Show] = r
		}
		r.event.Last = c.Revision.Number
		if len(c.Seats) > seatsMost {
			r.event.Type = seatflow.SeatsReset
			delete(open, c.Show)
			continue
		}
		r.event.Changes = append(r.event.Changes, *c)
		r.size += size
	}
	if len(runs) == 0 {
		return nil
	}
	if w.beat.IsZero() {
		w.beat = now.Add(w.o.Heartbeat)
	}
	runs[len(runs)-1].event.After = b.Next
	messages := make([]seatflow.Message, len(runs))
	for i, r := range runs {
		messages[i] = r.event.Message(w.partition, now)
	}
	return messages
}
