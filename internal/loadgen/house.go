package loadgen

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"seatflow"
)

// Tastes, where in a house people like to sit.
const (
	tasteFront = iota
	tasteMiddle
	tasteBack
	tasteAisle
	tastes
)

// house is a show's plan as a buyer sees it: rows of neighbours.
type house struct {
	show  seatflow.ShowID
	rows  [][]chair
	seats int
}

type chair struct {
	id    seatflow.SeatID
	liked [tastes]float64 // lower is better
}

// newHouse groups a plan's seats that have a price into rows, each in order
// along the row.
func newHouse(show seatflow.ShowID, p *apiPlan) *house {
	type rowKey struct {
		zone int
		row  string
	}
	h := &house{show: show}
	index := map[rowKey]int{}
	s := &p.Seats
	lowX, highX := math.Inf(1), math.Inf(-1)
	lowY, highY := math.Inf(1), math.Inf(-1)
	for i := range s.ID {
		lowX, highX = min(lowX, s.X[i]), max(highX, s.X[i])
		lowY, highY = min(lowY, s.Y[i]), max(highY, s.Y[i])
	}
	width, height := max(highX-lowX, 1), max(highY-lowY, 1)
	xs := map[seatflow.SeatID]float64{}
	for i, id := range s.ID {
		if p.Categories[s.Category[i]].Price == nil {
			continue
		}
		x, y := (s.X[i]-lowX)/width-0.5, (s.Y[i]-lowY)/height
		c := chair{id: id}
		c.liked[tasteFront] = math.Hypot(x, y)
		c.liked[tasteMiddle] = math.Hypot(x, y-0.4)
		c.liked[tasteBack] = math.Hypot(x, y-1)
		c.liked[tasteAisle] = 0.5 - math.Abs(x) + y/4
		xs[id] = s.X[i]
		k := rowKey{s.Zone[i], s.Row[i]}
		at, known := index[k]
		if !known {
			at = len(h.rows)
			index[k] = at
			h.rows = append(h.rows, nil)
		}
		h.rows[at] = append(h.rows[at], c)
		h.seats++
	}
	for _, row := range h.rows {
		slices.SortFunc(row, func(a, b chair) int { return cmp.Or(cmp.Compare(xs[a.id], xs[b.id]), cmp.Compare(a.id, b.id)) })
	}
	return h
}

// free counts the seats of a map that can be had now or later.
func free(states string) (available, held int) {
	for i := range len(states) {
		switch seatflow.SeatState(states[i]) {
		case seatflow.Available:
			available++
		case seatflow.Held:
			held++
		}
	}
	return available, held
}

// pick chooses neighbours that are free on a map: one of the few best places
// by taste for size people, or for fewer when no such place is left. It
// returns nothing when nothing is free.
func (h *house) pick(rng *rand.Rand, states string, size, taste int) []seatflow.SeatID {
	type place struct {
		row, at int
		liked   float64
	}
	const favourites = 6
	isFree := func(id seatflow.SeatID) bool {
		return int(id) <= len(states) && seatflow.SeatState(states[id-1]) == seatflow.Available
	}
	for ; size > 0; size-- {
		best := make([]place, 0, favourites+1)
		for r, row := range h.rows {
			run, sum := 0, 0.0
			for i := range row {
				if !isFree(row[i].id) {
					run, sum = 0, 0
					continue
				}
				run++
				sum += row[i].liked[taste]
				if run > size {
					run--
					sum -= row[i-size].liked[taste]
				}
				if run < size || len(best) == favourites && sum >= best[favourites-1].liked {
					continue
				}
				best = append(best, place{r, i - size + 1, sum})
				for j := len(best) - 1; j > 0 && best[j].liked < best[j-1].liked; j-- {
					best[j], best[j-1] = best[j-1], best[j]
				}
				best = best[:min(len(best), favourites)]
			}
		}
		if len(best) == 0 {
			continue
		}
		p := best[rng.IntN(len(best))]
		ids := make([]seatflow.SeatID, size)
		for i := range ids {
			ids[i] = h.rows[p.row][p.at+i].id
		}
		return ids
	}
	return nil
}
