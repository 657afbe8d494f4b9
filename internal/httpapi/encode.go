package httpapi

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/live"
)

// appendTime appends an instant in UTC, to the millisecond: that is what the
// ledger keeps, so an order reads the same before and after it was stored.
func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().Truncate(time.Millisecond).AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// instant is appendTime for the types that are encoded by reflection.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// appendOrder appends an order with the labels of the house that it is in. A
// house that cannot be read costs the labels, not the answer.
func (c *call) appendOrder(b []byte, o *seatflow.Order) []byte {
	var house *seatflow.House
	if o.Show > 0 {
		house, _ = c.api.opt.Catalog.House(c.ctx, o.Show)
	}
	return appendOrder(b, o, house)
}

func appendOrder(b []byte, o *seatflow.Order, house *seatflow.House) []byte {
	b = append(b, `{"no":`...)
	b = appendString(b, string(o.No))
	b = append(b, `,"showId":`...)
	b = strconv.AppendInt(b, int64(o.Show), 10)
	b = append(b, `,"userId":`...)
	b = appendString(b, string(o.User))
	if o.Kind == seatflow.KindBlock {
		b = append(b, `,"kind":"block"`...)
	}
	b = append(b, `,"state":`...)
	b = appendString(b, string(o.State))
	b = append(b, `,"seats":[`...)
	for i := range o.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, &o.Items[i], house)
	}
	b = append(b, `],"total":{"amount":`...)
	b = strconv.AppendInt(b, o.Total.Amount, 10)
	b = append(b, `,"currency":`...)
	b = appendString(b, o.Total.Currency)
	b = append(b, '}')
	if !o.Deadline.IsZero() {
		b = append(b, `,"deadline":`...)
		b = appendTime(b, o.Deadline)
	}
	if !o.Cap.IsZero() {
		b = append(b, `,"cap":`...)
		b = appendTime(b, o.Cap)
	}
	b = append(b, `,"extended":`...)
	b = strconv.AppendBool(b, o.Extended)
	if o.Reason != "" {
		b = append(b, `,"reason":`...)
		b = appendString(b, o.Reason)
	}
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, o.Version, 10)
	b = append(b, `,"createdAt":`...)
	b = appendTime(b, o.CreatedAt)
	b = append(b, `,"updatedAt":`...)
	b = appendTime(b, o.UpdatedAt)
	return append(b, '}')
}

func appendItem(b []byte, it *seatflow.OrderItem, house *seatflow.House) []byte {
	b = append(b, `{"seatId":`...)
	b = strconv.AppendInt(b, int64(it.Seat), 10)
	b = append(b, `,"price":`...)
	b = strconv.AppendInt(b, it.Price, 10)
	if it.Refunded {
		b = append(b, `,"refunded":true`...)
	}
	var seat *seatflow.PlanSeat
	if house != nil {
		seat = house.Seat(it.Seat)
	}
	b = appendLabels(b, seat, house)
	return append(b, '}')
}

// appendLabels appends what people call a seat; a seat without a plan has
// empty ones.
func appendLabels(b []byte, seat *seatflow.PlanSeat, house *seatflow.House) []byte {
	if seat == nil {
		return append(b, `,"zone":"","row":"","number":"","category":""`...)
	}
	b = append(b, `,"zone":`...)
	b = appendString(b, house.Plan.Zones[seat.Zone].Name)
	b = append(b, `,"row":`...)
	b = appendString(b, seat.Row)
	b = append(b, `,"number":`...)
	b = appendString(b, seat.Number)
	b = append(b, `,"category":`...)
	return appendString(b, house.Plan.Categories[seat.Category].Name)
}

func appendCounts(b []byte, n live.Counts) []byte {
	b = append(b, `{"available":`...)
	b = strconv.AppendInt(b, int64(n.Available), 10)
	b = append(b, `,"held":`...)
	b = strconv.AppendInt(b, int64(n.Held), 10)
	b = append(b, `,"sold":`...)
	b = strconv.AppendInt(b, int64(n.Sold), 10)
	b = append(b, `,"blocked":`...)
	b = strconv.AppendInt(b, int64(n.Blocked), 10)
	return append(b, '}')
}

// appendSeatMap appends the full form of a seat map: every seat that the show
// has, in plan order, with its labels.
func appendSeatMap(b []byte, m *live.Map, house *seatflow.House) []byte {
	b = append(b, `{"showId":`...)
	b = strconv.AppendInt(b, int64(house.Show.ID), 10)
	b = append(b, `,"revision":"`...)
	b = append(b, m.Revision.String()...)
	b = append(b, `","counts":`...)
	b = appendCounts(b, m.Counts)
	b = append(b, `,"seats":[`...)
	first := true
	for i := range house.Plan.Seats {
		seat := &house.Plan.Seats[i]
		if seat.ID < 1 || int(seat.ID) > len(m.States) {
			continue
		}
		state := seatflow.SeatState(m.States[seat.ID-1])
		if state == seatflow.NoSeat {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, `{"seatId":`...)
		b = strconv.AppendInt(b, int64(seat.ID), 10)
		b = append(b, `,"status":"`...)
		b = append(b, state.String()...)
		b = append(b, '"')
		b = appendLabels(b, seat, house)
		price, _ := house.Price(seat)
		b = append(b, `,"price":`...)
		b = strconv.AppendInt(b, price, 10)
		b = append(b, '}')
	}
	return append(b, ']', '}')
}

// appendFloat appends a coordinate, to a thousandth of the plan's unit: sums
// of decimal fractions would otherwise be as long as their rounding errors.
func appendFloat(b []byte, f float64) []byte {
	return strconv.AppendFloat(b, coordinate(f), 'f', -1, 64)
}

func coordinate(f float64) float64 {
	r := math.Round(f*1000) / 1000
	if math.IsInf(r, 0) || math.IsNaN(r) || r == 0 { // nothing that JSON cannot say, and no −0
		return 0
	}
	return r
}

// appendPlan appends the geometry of a house. The chairs are most of it; they
// are appended by column.
func appendPlan(b []byte, house *seatflow.House) ([]byte, error) {
	p := house.Plan
	categories := make([]PlanCategory, len(p.Categories))
	for i, cat := range p.Categories {
		categories[i] = PlanCategory{Name: cat.Name, Color: cat.Color}
		if price, ok := house.Show.Prices[cat.Name]; ok {
			categories[i].Price = &price
		}
	}
	zones := make([]PlanZone, len(p.Zones))
	for i := range p.Zones {
		zones[i] = PlanZone{Name: p.Zones[i].Name, Areas: make([]PlanArea, len(p.Zones[i].Areas))}
		for j := range p.Zones[i].Areas {
			zones[i].Areas[j] = planArea(&p.Zones[i].Areas[j])
		}
	}
	categoryList, err := json.Marshal(categories)
	if err != nil {
		return b, fmt.Errorf("httpapi: categories of plan %d.%d: %w", p.Hall, p.Version, err)
	}
	zoneList, err := json.Marshal(zones)
	if err != nil {
		return b, fmt.Errorf("httpapi: zones of plan %d.%d: %w", p.Hall, p.Version, err)
	}
	b = append(b, `{"hallId":`...)
	b = strconv.AppendInt(b, int64(p.Hall), 10)
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, int64(p.Version), 10)
	b = append(b, `,"name":`...)
	b = appendString(b, p.Name)
	b = append(b, `,"width":`...)
	b = appendFloat(b, p.Width)
	b = append(b, `,"height":`...)
	b = appendFloat(b, p.Height)
	b = append(b, `,"categories":`...)
	b = append(b, categoryList...)
	b = append(b, `,"zones":`...)
	b = append(b, zoneList...)
	column := func(name string, value func([]byte, *seatflow.PlanSeat) []byte) {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":[`...)
		for i := range p.Seats {
			if i > 0 {
				b = append(b, ',')
			}
			b = value(b, &p.Seats[i])
		}
		b = append(b, ']')
	}
	b = append(b, `,"seats":{`...)
	column("id", func(b []byte, s *seatflow.PlanSeat) []byte { return strconv.AppendInt(b, int64(s.ID), 10) })
	b = append(b, ',')
	column("x", func(b []byte, s *seatflow.PlanSeat) []byte { return appendFloat(b, s.X) })
	b = append(b, ',')
	column("y", func(b []byte, s *seatflow.PlanSeat) []byte { return appendFloat(b, s.Y) })
	b = append(b, ',')
	column("zone", func(b []byte, s *seatflow.PlanSeat) []byte { return strconv.AppendInt(b, int64(s.Zone), 10) })
	b = append(b, ',')
	column("category", func(b []byte, s *seatflow.PlanSeat) []byte { return strconv.AppendInt(b, int64(s.Category), 10) })
	b = append(b, ',')
	column("row", func(b []byte, s *seatflow.PlanSeat) []byte { return appendString(b, s.Row) })
	b = append(b, ',')
	column("number", func(b []byte, s *seatflow.PlanSeat) []byte { return appendString(b, s.Number) })
	for i := range p.Seats {
		if p.Seats[i].Radius != 0 {
			b = append(b, ',')
			column("radius", func(b []byte, s *seatflow.PlanSeat) []byte { return appendFloat(b, s.Radius) })
			break
		}
	}
	return append(b, '}', '}'), nil
}

func planArea(a *seatflow.Area) PlanArea {
	area := PlanArea{Shape: a.Shape, X: coordinate(a.X), Y: coordinate(a.Y), Rotation: coordinate(a.Rotation),
		Color: a.Color, BorderColor: a.BorderColor, Width: coordinate(a.Width), Height: coordinate(a.Height),
		RadiusX: coordinate(a.RadiusX), RadiusY: coordinate(a.RadiusY), Text: a.Text, TextX: coordinate(a.TextX),
		TextY: coordinate(a.TextY), TextSize: coordinate(a.TextSize), TextColor: a.TextColor}
	for _, p := range a.Points {
		area.Points = append(area.Points, [2]float64{coordinate(p[0]), coordinate(p[1])})
	}
	return area
}

// reply encodes an answer by reflection, for the endpoints that are not hot.
func (c *call) reply(status int, value any) error {
	body, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err
	}
	c.json(status, body)
	return nil
}
