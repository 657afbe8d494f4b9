package seatplan

import (
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON writes the document in the exchange format with the newest field set:
// optional members only where they say something, one seat a line, so that two
// versions of a plan compare well.
func (d *Document) JSON() ([]byte, error) {
	e := &encoder{buf: make([]byte, 0, 1024+140*d.Seats())}
	e.open("{")
	e.str("name", d.Name)
	e.key("size")
	e.flat(func() { e.num("width", d.Width); e.num("height", d.Height) })
	e.key("categories")
	e.open("[")
	for _, c := range d.Categories {
		e.item()
		e.flat(func() {
			e.str("name", c.Name)
			e.optional("color", c.Color)
		})
	}
	e.close("]")
	e.key("zones")
	e.open("[")
	for i := range d.Zones {
		e.item()
		e.zone(&d.Zones[i])
	}
	e.close("]")
	e.close("}")
	e.buf = append(e.buf, '\n')
	if e.err != nil {
		return nil, e.err
	}
	return e.buf, nil
}

// encoder appends members. first is whether the next needs no comma; inline
// puts them on one line.
type encoder struct {
	buf    []byte
	depth  int
	first  bool
	inline bool
	err    error
}

func (e *encoder) raw(s string) { e.buf = append(e.buf, s...); e.first = true }

func (e *encoder) open(s string) { e.raw(s); e.depth++ }

func (e *encoder) close(s string) {
	e.depth--
	if !e.first {
		e.line()
	}
	e.buf = append(e.buf, s...)
	e.first = false
}

func (e *encoder) line() {
	e.buf = append(e.buf, '\n')
	for range e.depth {
		e.buf = append(e.buf, ' ')
	}
}

// item begins a member or an element.
func (e *encoder) item() {
	if !e.first {
		e.buf = append(e.buf, ',')
	}
	if !e.inline {
		e.line()
	} else if !e.first {
		e.buf = append(e.buf, ' ')
	}
	e.first = false
}

func (e *encoder) key(k string) {
	e.item()
	e.quoted(k)
	e.buf = append(e.buf, ": "...)
}

// flat writes an object on one line.
func (e *encoder) flat(members func()) {
	was := e.inline
	e.inline = true
	e.raw("{")
	members()
	e.buf = append(e.buf, '}')
	e.inline, e.first = was, false
}

func (e *encoder) quoted(s string) {
	buf, err := jsontext.AppendQuote(e.buf, s)
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("seatplan: write: %w", err)
	}
	e.buf = buf
}

func (e *encoder) str(k, v string) { e.key(k); e.quoted(v) }

func (e *encoder) optional(k, v string) {
	if v != "" {
		e.str(k, v)
	}
}

func (e *encoder) num(k string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		if e.err == nil {
			e.err = fmt.Errorf("seatplan: write: %s is not a finite number", k)
		}
		return
	}
	e.key(k)
	format := byte('f')
	if v != 0 && math.Abs(v) < 1e-6 {
		format = 'e'
	}
	e.buf = strconv.AppendFloat(e.buf, v, format, -1, 64)
}

func (e *encoder) point(k string, p Point) {
	e.key(k)
	e.flat(func() { e.num("x", p.X); e.num("y", p.Y) })
}

func (e *encoder) zone(z *Zone) {
	e.open("{")
	e.str("name", z.Name)
	e.optional("zone_id", z.ZoneID)
	e.optional("uuid", z.UUID)
	e.point("position", z.Position)
	e.key("rows")
	e.open("[")
	for i := range z.Rows {
		e.item()
		e.row(&z.Rows[i])
	}
	e.close("]")
	e.key("areas")
	e.open("[")
	for i := range z.Areas {
		e.item()
		e.area(&z.Areas[i])
	}
	e.close("]")
	e.close("}")
}

func (e *encoder) row(r *Row) {
	e.open("{")
	e.str("row_number", r.Number)
	e.optional("row_label", r.Label)
	e.optional("seat_label", r.SeatLabel)
	e.optional("row_number_position", r.NumberPosition)
	e.optional("uuid", r.UUID)
	e.point("position", r.Position)
	e.key("seats")
	e.open("[")
	for i := range r.Seats {
		s := &r.Seats[i]
		e.item()
		e.flat(func() {
			e.str("seat_guid", s.GUID)
			e.str("seat_number", s.Number)
			e.optional("uuid", s.UUID)
			e.point("position", s.Position)
			e.str("category", s.Category)
			e.optional("start_direction", s.StartDirection)
			if s.Radius != 0 {
				e.num("radius", s.Radius)
			}
		})
	}
	e.close("]")
	e.close("}")
}

func (e *encoder) area(a *Area) {
	e.flat(func() {
		e.str("shape", a.Shape)
		e.optional("uuid", a.UUID)
		e.point("position", a.Position)
		e.num("rotation", a.Rotation)
		e.optional("color", a.Color)
		e.optional("border_color", a.BorderColor)
		switch a.Shape {
		case ShapeRectangle:
			e.key("rectangle")
			e.flat(func() { e.num("width", a.Width); e.num("height", a.Height) })
		case ShapeCircle:
			e.key("circle")
			e.flat(func() { e.num("radius", a.Radius.X) })
		case ShapeEllipse:
			e.key("ellipse")
			e.flat(func() { e.point("radius", a.Radius) })
		case ShapePolygon:
			e.key("polygon")
			e.flat(func() {
				e.key("points")
				e.raw("[")
				for _, p := range a.Points {
					e.item()
					e.flat(func() { e.num("x", p.X); e.num("y", p.Y) })
				}
				e.buf = append(e.buf, ']')
				e.first = false
			})
		}
		if t := a.Text; t != nil || a.Shape == ShapeText {
			if t == nil {
				t = &Text{}
			}
			e.key("text")
			e.flat(func() {
				e.str("text", t.Text)
				e.point("position", t.Position)
				e.optional("color", t.Color)
				if t.Size != 0 {
					e.num("size", t.Size)
				}
			})
		}
	})
}
