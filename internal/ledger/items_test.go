package ledger

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"seatflow"
)

func TestItemsText(t *testing.T) {
	for text, items := range map[string][]seatflow.OrderItem{
		"":                      nil,
		"1:0":                   {{Seat: 1}},
		"17:4500,18:4500r":      {{Seat: 17, Price: 4500}, {Seat: 18, Price: 4500, Refunded: true}},
		"2147483647:-5":         {{Seat: math.MaxInt32, Price: -5}},
		"1:9223372036854775807": {{Seat: 1, Price: math.MaxInt64}},
	} {
		got, err := parseItems(text)
		if err != nil || !reflect.DeepEqual(got, items) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if back := formatItems(items); back != text {
			t.Errorf("%v is written %q, want %q", items, back, text)
		}
	}
	for _, text := range []string{",", "1", "1:", ":1", "1:2,", "0:1", "-1:1", "2147483648:1", "1:2rr", "1:r", "01:2", "1:02", "+1:2", "1:-0", "1:x", " 1:2", "1:9223372036854775808"} {
		if got, err := parseItems(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestSeatsText(t *testing.T) {
	for text, seats := range map[string][]seatflow.SeatID{"": nil, "1": {1}, "17,3": {17, 3}} {
		got, err := parseSeats(text)
		if err != nil || !slices.Equal(got, seats) || formatSeats(seats) != text {
			t.Errorf("%q: %v, %v, written %q", text, got, err, formatSeats(seats))
		}
	}
	for _, text := range []string{",", "1,", "0", "x", "01", "2147483648"} {
		if got, err := parseSeats(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// FuzzItems: a text that is read is the text that would be written.
func FuzzItems(f *testing.F) {
	for _, s := range []string{"", "1:0", "17:4500,18:4500r", "2147483647:-5", "1:2,", "01:2", "1:-0", "1:2rr", ",,:,r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if items, err := parseItems(s); err == nil {
			if back := formatItems(items); back != s {
				t.Errorf("%q is read as %v and written %q", s, items, back)
			}
		}
		if seats, err := parseSeats(s); err == nil {
			if back := formatSeats(seats); back != s {
				t.Errorf("%q is read as %v and written %q", s, seats, back)
			}
		}
	})
}
