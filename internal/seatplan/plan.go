package seatplan

import (
	"fmt"
	"math"
	"slices"

	"seatflow"
)

// Plan turns the document into the next version of a hall's plan. A guid that
// any earlier version had keeps its seat id; the others get the next free ids
// in document order. The same document and the same known seats give the same
// plan. The error is a [*FaultsError] for a document that does not hold, and
// something else when ids have run out.
func (d *Document) Plan(hall seatflow.HallID, known seatflow.HallSeats) (*seatflow.Plan, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	source, err := d.JSON()
	if err != nil {
		return nil, err
	}
	p := &seatflow.Plan{
		Hall: hall, Version: known.Latest + 1, Name: d.Name, Width: d.Width, Height: d.Height,
		Categories: make([]seatflow.Category, len(d.Categories)),
		Zones:      make([]seatflow.Zone, len(d.Zones)),
		Seats:      make([]seatflow.PlanSeat, 0, d.Seats()),
		Source:     source,
	}
	category := make(map[string]int, len(d.Categories))
	for i, c := range d.Categories {
		p.Categories[i] = seatflow.Category{Name: c.Name, Color: categoryColor(i, c.Color)}
		category[c.Name] = i
	}
	next := max(1, known.NextID)
	for i := range d.Zones {
		z := &d.Zones[i]
		p.Zones[i].Name = z.Name
		if z.Name == "" {
			p.Zones[i].Name = z.ZoneID
		}
		for j := range z.Areas {
			p.Zones[i].Areas = append(p.Zones[i].Areas, z.Areas[j].absolute(z.Position))
		}
		for j := range z.Rows {
			r := &z.Rows[j]
			display := r.display()
			x, y := z.Position.X+r.Position.X, z.Position.Y+r.Position.Y
			for k := range r.Seats {
				s := &r.Seats[k]
				id, ok := known.ByGUID[s.GUID]
				if !ok {
					if next == math.MaxInt32 {
						return nil, fmt.Errorf("seatplan: hall %d has no seat ids left", hall)
					}
					id = next
					next++
				}
				p.Seats = append(p.Seats, seatflow.PlanSeat{
					ID: id, GUID: s.GUID, Zone: i, Category: category[s.Category],
					Row: display, Number: s.Number, X: x + s.Position.X, Y: y + s.Position.Y, Radius: s.Radius,
				})
			}
		}
	}
	return p, nil
}

func (a *Area) absolute(origin Point) seatflow.Area {
	out := seatflow.Area{
		Shape: a.Shape, X: origin.X + a.Position.X, Y: origin.Y + a.Position.Y, Rotation: a.Rotation,
		Color: areaColor(a.Color), BorderColor: areaColor(a.BorderColor),
		Width: a.Width, Height: a.Height, RadiusX: a.Radius.X, RadiusY: a.Radius.Y,
	}
	for _, p := range a.Points {
		out.Points = append(out.Points, [2]float64{p.X, p.Y})
	}
	if t := a.Text; t != nil {
		out.Text, out.TextX, out.TextY = t.Text, t.Position.X, t.Position.Y
		out.TextColor, out.TextSize = areaColor(t.Color), t.Size
		if out.TextSize == 0 {
			out.TextSize = DefaultTextSize
		}
	}
	return out
}

// Export writes a published plan in the exchange format, with the newest
// field set and without seat ids. A plan that was imported keeps what its file
// said about rows and labels; one without a source is laid out anew, with
// every seat's absolute position.
func Export(p *seatflow.Plan) ([]byte, error) {
	if len(p.Source) > 0 {
		return slices.Clone(p.Source), nil
	}
	d := &Document{Name: p.Name, Width: p.Width, Height: p.Height}
	for _, c := range p.Categories {
		d.Categories = append(d.Categories, Category(c))
	}
	d.Zones = make([]Zone, len(p.Zones))
	for i, z := range p.Zones {
		d.Zones[i].Name = z.Name
		for _, a := range z.Areas {
			d.Zones[i].Areas = append(d.Zones[i].Areas, relative(a))
		}
	}
	for i := range p.Seats {
		s := &p.Seats[i]
		if s.Zone < 0 || s.Zone >= len(p.Zones) || s.Category < 0 || s.Category >= len(p.Categories) {
			return nil, fmt.Errorf("seatplan: seat %d names a zone or category that the plan does not have", s.ID)
		}
		z := &d.Zones[s.Zone]
		if n := len(z.Rows); n == 0 || z.Rows[n-1].Number != s.Row {
			z.Rows = append(z.Rows, Row{Number: s.Row})
		}
		r := &z.Rows[len(z.Rows)-1]
		r.Seats = append(r.Seats, Seat{
			GUID: s.GUID, Number: s.Number, Category: d.Categories[s.Category].Name,
			Position: Point{s.X, s.Y}, Radius: s.Radius,
		})
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	return d.JSON()
}

func relative(a seatflow.Area) Area {
	out := Area{
		Shape: a.Shape, Position: Point{a.X, a.Y}, Rotation: a.Rotation, Color: a.Color,
		BorderColor: a.BorderColor, Width: a.Width, Height: a.Height, Radius: Point{a.RadiusX, a.RadiusY},
	}
	for _, p := range a.Points {
		out.Points = append(out.Points, Point{p[0], p[1]})
	}
	if a.Text != "" || a.TextSize != 0 {
		out.Text = &Text{Text: a.Text, Color: a.TextColor, Size: a.TextSize, Position: Point{a.TextX, a.TextY}}
	}
	return out
}
