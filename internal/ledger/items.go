package ledger

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"seatflow"
)

// Items are stored as text, "17:4500,18:4500r": seat, price in minor units,
// and an r when the seat was given back. It is short, a person can read it,
// and an order needs no rows of its own for what never changes.

func appendItems(b []byte, items []seatflow.OrderItem) []byte {
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(items[i].Seat), 10)
		b = append(b, ':')
		b = strconv.AppendInt(b, items[i].Price, 10)
		if items[i].Refunded {
			b = append(b, 'r')
		}
	}
	return b
}

func formatItems(items []seatflow.OrderItem) string {
	var buf [128]byte
	return string(appendItems(buf[:0], items))
}

func parseItems(s string) ([]seatflow.OrderItem, error) {
	if s == "" {
		return nil, nil
	}
	items := make([]seatflow.OrderItem, 0, strings.Count(s, ",")+1)
	for rest, more := s, true; more; {
		var one string
		one, rest, more = strings.Cut(rest, ",")
		seat, price, ok := strings.Cut(one, ":")
		var it seatflow.OrderItem
		price, it.Refunded = strings.CutSuffix(price, "r")
		id, err1 := canonicalInt(seat)
		p, err2 := canonicalInt(price)
		if !ok || err1 != nil || err2 != nil || id < 1 || id > math.MaxInt32 {
			return nil, fmt.Errorf("ledger: %q is no item", one)
		}
		it.Seat, it.Price = seatflow.SeatID(id), p
		items = append(items, it)
	}
	return items, nil
}

// canonicalInt reads an integer in the one form in which it is written.
func canonicalInt(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && (s[0] == '+' || s[0] == '0' && len(s) > 1 || s[0] == '-' && (s[1] == '0')) {
		err = strconv.ErrSyntax
	}
	return n, err
}

// Seat lists are stored as "17,18".

func formatSeats(seats []seatflow.SeatID) string {
	var b []byte
	for i, id := range seats {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return string(b)
}

func parseSeats(s string) ([]seatflow.SeatID, error) {
	if s == "" {
		return nil, nil
	}
	seats := make([]seatflow.SeatID, 0, strings.Count(s, ",")+1)
	for one := range strings.SplitSeq(s, ",") {
		id, err := canonicalInt(one)
		if err != nil || id < 1 || id > math.MaxInt32 {
			return nil, fmt.Errorf("ledger: %q is no seat", one)
		}
		seats = append(seats, seatflow.SeatID(id))
	}
	return seats, nil
}
