package live

import (
	"strconv"
	"strings"
	"time"

	"seatflow"

	"github.com/go-json-experiment/json/jsontext"
)

// EventVersion is the version of the SeatUpdateEvent that frames carry.
const EventVersion = "1.2"

// merge lists the seats that changes touched, in the order of their first
// touch: deltas summed, the last state.
func (r *ring) merge(since, to int64) []seatflow.SeatChange {
	if to == since+1 {
		return r.get(to) // the seats of one change are distinct
	}
	var out []seatflow.SeatChange
	index := make(map[seatflow.SeatID]int)
	for n := since + 1; n <= to; n++ {
		for _, c := range r.get(n) {
			i, ok := index[c.Seat]
			if !ok {
				index[c.Seat] = len(out)
				out = append(out, c)
				continue
			}
			out[i].State = c.State
			out[i].Delta += c.Delta
		}
	}
	return out
}

// update encodes the changes after one revision up to another as one event.
// Both are in the ring and since is not after to.
func (f *feed) update(since, to seatflow.Revision) *Frame {
	seats := f.ring.merge(since.Number, to.Number)
	text := to.String()
	b := make([]byte, 0, 256+len(f.hub.node)+48*len(seats))
	b = append(b, `{"type":"seat.update","version":"`+EventVersion+`","timestamp":"`...)
	b = f.at.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","showId":`...)
	b = strconv.AppendInt(b, int64(f.show), 10)
	b = append(b, `,"hallId":`...)
	b = strconv.AppendInt(b, int64(f.hall), 10)
	b = append(b, `,"revision":"`...)
	b = append(b, text...)
	b = append(b, `","lamport":`...)
	b = strconv.AppendUint(b, f.hub.opt.Lamport.Tick(), 10)
	b = append(b, `,"node":`...)
	b = append(b, f.hub.node...)
	b = append(b, `,"updates":[`...)
	for i, c := range seats {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"seatId":`...)
		b = strconv.AppendInt(b, int64(c.Seat), 10)
		b = append(b, `,"status":"`...)
		b = append(b, c.State.String()...)
		b = append(b, `","delta":`...)
		b = strconv.AppendInt(b, int64(c.Delta), 10)
		b = append(b, '}')
	}
	b = append(b, `]}`...)
	return &Frame{ID: text, Event: EventUpdate, Data: b, Changes: seats, Show: f.show, Hall: f.hall, since: since, to: to, forms: new(forms)}
}

// quote returns a node's name as a JSON string.
func quote(node string) []byte {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(node, "?"))
	if err != nil {
		return []byte(`""`) // not reached: the only fault is invalid UTF-8
	}
	return b
}
