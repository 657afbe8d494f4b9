package seatflow

import (
	"strconv"
	"time"
)

// NoticeKind tells what a message to one user says.
type NoticeKind string

// The kinds of notice.
const (
	NoticeOrder      NoticeKind = "order.changed"     // one's own order has changed, from any device
	NoticeHoldEnding NoticeKind = "hold.ending"       // one's own hold is about to end
	NoticeShow       NoticeKind = "show.changed"      // a show that one follows has changed, or is new in a hall that one follows
	NoticeSeatsFreed NoticeKind = "show.seats_freed"  // seats came free in a show that one follows
	NoticeSelection  NoticeKind = "selection.changed" // one's own selection has changed, or was frozen or freed
	NoticeMissed     NoticeKind = "missed"            // notices may be missing before this: read again what matters
)

// Notice is a message to one user. It is a hint that may be lost or come
// twice: who gets one reads the order, the show or the selection that it
// names. Consumers recognise repeats by (Kind, ID).
type Notice struct {
	Kind     NoticeKind
	ID       string // of what it tells: an order's number and version, for example
	User     UserID // to whom; not part of the payload
	Show     ShowID // 0: none
	Hall     HallID // 0: none
	Order    OrderNo
	Version  int64      // of the order or the show; 0: none
	Event    EventType  // NoticeOrder: what happened
	State    OrderState // NoticeOrder: the state after it
	Seats    []SeatID   // concerned, at most MaxNoticeSeats
	Deadline time.Time  // NoticeHoldEnding: when the hold ends
	Device   Device     // from which it was changed
	TraceID  string
	At       time.Time
}

// AppendJSON appends the payload, one object without line breaks.
func (n *Notice) AppendJSON(b []byte) []byte {
	text := func(name, value string) {
		if value != "" {
			b = append(b, `,"`...)
			b = append(b, name...)
			b = append(b, `":`...)
			b = appendJSONString(b, value)
		}
	}
	number := func(name string, value int64) {
		if value != 0 {
			b = append(b, `,"`...)
			b = append(b, name...)
			b = append(b, `":`...)
			b = strconv.AppendInt(b, value, 10)
		}
	}
	b = append(b, `{"type":`...)
	b = appendJSONString(b, string(n.Kind))
	text("id", n.ID)
	number("showId", int64(n.Show))
	number("hallId", int64(n.Hall))
	text("orderNo", string(n.Order))
	number("version", n.Version)
	text("event", string(n.Event))
	text("state", string(n.State))
	if len(n.Seats) > 0 {
		b = append(b, `,"seats":[`...)
		for i, s := range n.Seats {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(s), 10)
		}
		b = append(b, ']')
	}
	if !n.Deadline.IsZero() {
		text("deadline", n.Deadline.UTC().Format(time.RFC3339Nano))
	}
	text("device", string(n.Device))
	text("traceId", n.TraceID)
	b = append(b, `,"at":"`...)
	b = n.At.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"', '}')
}
