package main

import (
	"context"
	"fmt"
)

// seatKey names a seat of the house.
type seatKey struct{ show, seat int32 }

// checked is what a strategy's own records say after a run.
type checked struct {
	Orders   int64 `json:"orders"`   // stored
	Seats    int64 `json:"seats"`    // distinct ones in them
	Oversold int64 `json:"oversold"` // sales of a seat beyond its first, over all seats
	Lost     int64 `json:"lost"`     // seats that a buyer was told are theirs and that no order has
	Unasked  int64 `json:"unasked"`  // seats of orders that are not in the house
}

// check reads what is stored and counts what is wrong with it. It believes no
// answer: acked is only held against the records.
func check(ctx context.Context, s Strategy, house House, acked []seatKey) (checked, error) {
	var c checked
	owners := make(map[seatKey]int32, len(acked))
	err := s.Sales(ctx, func(sale Sale) {
		c.Orders++
		for _, seat := range sale.Seats {
			if sale.Show < 1 || sale.Show > house.All() || seat < 1 || seat > house.SeatsOf(sale.Show) {
				c.Unasked++
				continue
			}
			owners[seatKey{int32(sale.Show), int32(seat)}]++
		}
	})
	if err != nil {
		return c, fmt.Errorf("read what is stored: %w", err)
	}
	for _, n := range owners {
		c.Oversold += int64(n - 1)
	}
	c.Seats = int64(len(owners))
	for _, seat := range acked {
		if owners[seat] == 0 {
			c.Lost++
		}
	}
	return c, nil
}
