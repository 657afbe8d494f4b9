package relay

import (
	"cmp"
	"context"
	"slices"
	"time"

	"seatflow"
)

// lookAhead: of a full read, one row in so many is left for the next, so that
// every row that is published was held against those behind it.
const lookAhead = 4

// relayOutbox publishes order events while it has the lease.
func (r *Relay) relayOutbox(ctx context.Context) {
	defer r.waiting(nil)
	for ctx.Err() == nil {
		began := time.Now()
		var rows []seatflow.OutboxEvent
		if !r.insist(ctx, "read the outbox", func(ctx context.Context) (err error) {
			rows, err = r.o.Outbox.Outbox(ctx, r.o.OutboxBatch)
			return err
		}) {
			return
		}
		read := len(rows)
		inVersionOrder(rows)
		if read >= r.o.OutboxBatch && read >= lookAhead {
			// An earlier event of one of the last orders may be right behind.
			rows = rows[:read-read/lookAhead]
		}
		if len(rows) > 0 && !r.publishRows(ctx, rows) {
			return
		}
		wait := time.Duration(len(rows))*time.Second/time.Duration(r.o.OutboxPerSecond) - time.Since(began)
		if read < r.o.OutboxBatch {
			wait = max(wait, r.o.OutboxPoll)
		}
		pause(ctx, wait)
	}
}

// publishRows publishes rows and then deletes them. When the deletion fails it
// is tried again by itself, so that only an end in between publishes twice.
func (r *Relay) publishRows(ctx context.Context, rows []seatflow.OutboxEvent) bool {
	r.waiting(rows)
	messages := make([]seatflow.Message, len(rows))
	ids := make([]int64, len(rows))
	for i := range rows {
		notice := rows[i].Notice()
		messages[i], ids[i] = notice.Message(), rows[i].ID
	}
	if ok, _ := r.publish(ctx, messages); !ok {
		return false
	}
	if !r.insist(ctx, "delete from the outbox", func(ctx context.Context) error {
		return r.o.Outbox.OutboxDone(ctx, ids)
	}) {
		return false
	}
	r.count.events.Add(int64(len(rows)))
	r.waiting(nil)
	return true
}

// inVersionOrder moves the events of each order among their places so that
// versions ascend. Rows come in the order of their ids, which nodes give by
// clocks of their own.
func inVersionOrder(rows []seatflow.OutboxEvent) {
	places := make(map[seatflow.OrderNo][]int, len(rows))
	several := false
	for i := range rows {
		no := rows[i].Event.Order
		places[no] = append(places[no], i)
		several = several || len(places[no]) > 1
	}
	if !several {
		return
	}
	for _, at := range places {
		if len(at) < 2 {
			continue
		}
		events := make([]seatflow.OutboxEvent, len(at))
		for i, p := range at {
			events[i] = rows[p]
		}
		slices.SortStableFunc(events, func(a, b seatflow.OutboxEvent) int { return cmp.Compare(a.Event.Version, b.Event.Version) })
		for i, p := range at {
			rows[p] = events[i]
		}
	}
}

// waiting notes the rows that were read and are not done yet.
func (r *Relay) waiting(rows []seatflow.OutboxEvent) {
	r.count.outboxRows.Store(int64(len(rows)))
	since := int64(0)
	for i := range rows {
		if at := rows[i].Event.At.UnixNano(); since == 0 || at < since {
			since = at
		}
	}
	r.count.outboxSince.Store(since)
}
