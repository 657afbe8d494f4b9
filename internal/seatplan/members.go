package seatplan

var (
	documentFields = []string{"name", "categories", "zones", "size"}
	sizeFields     = []string{"width", "height"}
	categoryFields = []string{"name", "color"}
	// displayed, number_of_seats and seats_spacing are the first editor's and
	// say nothing about the chairs.
	zoneFields = []string{"name", "zone_id", "uuid", "position", "rows", "areas", "displayed"}
	rowFields  = []string{"row_number", "seats", "position", "row_label", "seat_label",
		"row_number_position", "uuid", "number_of_seats", "seats_spacing"}
	seatFields = []string{"seat_guid", "seat_number", "position", "category", "uuid", "start_direction", "radius"}
	areaFields = []string{"shape", "position", "color", "border_color", "rotation", "uuid",
		"rectangle", "circle", "ellipse", "polygon", "text", "width", "height"}
	circleFields  = []string{"radius"}
	polygonFields = []string{"points"}
	textFields    = []string{"text", "position", "color", "size"}
)

// document reads the whole, and reports whether it was an object at all.
func (p *parser) document() bool {
	d, at := p.doc, loc{}
	sized := false
	object := p.members(at, documentFields, 0b0111, func(i int) {
		f := at.in(documentFields[i])
		switch documentFields[i] {
		case "name":
			p.text(f, &d.Name)
		case "categories":
			p.elements(f, func(i int) { p.category(i) })
		case "zones":
			p.elements(f, func(i int) { p.zone(i) })
		case "size":
			sized = true
			p.members(f, sizeFields, 0b11, func(i int) {
				if i == 0 {
					p.number(f.in("width"), &d.Width)
				} else {
					p.number(f.in("height"), &d.Height)
				}
			})
		}
	})
	if object && !sized {
		p.noSize = true // as the oldest plans may
	}
	return object
}

// full says once that a list is too long; what follows is read and dropped.
func (p *parser) full(at loc, have, most int, what string) bool {
	if have < most {
		return false
	}
	if !p.faults.known(at) {
		p.faults.add(at, KindTooMany, "more than %s %s", group(most), what)
	}
	p.skip(at)
	return true
}

func (p *parser) category(i int) {
	d := p.doc
	if p.full(loc{field: "categories"}, i, MaxCategories, "categories") {
		return
	}
	d.Categories = append(d.Categories, Category{})
	c, at := &d.Categories[i], loc{cat: int32(i + 1)}
	p.members(at, categoryFields, 0b01, func(i int) {
		if i == 0 {
			p.text(at.in("name"), &c.Name)
		} else {
			p.text(at.in("color"), &c.Color)
		}
	})
}

func (p *parser) zone(i int) {
	d := p.doc
	if p.full(loc{field: "zones"}, i, MaxZones, "zones") {
		return
	}
	d.Zones = append(d.Zones, Zone{})
	z, at := &d.Zones[i], loc{zone: int32(i + 1)}
	p.members(at, zoneFields, 0b0011000, func(i int) {
		f := at.in(zoneFields[i])
		switch zoneFields[i] {
		case "name":
			p.text(f, &z.Name)
		case "zone_id":
			p.text(f, &z.ZoneID)
		case "uuid":
			p.text(f, &z.UUID)
		case "position":
			p.position(f, &z.Position)
		case "rows":
			p.elements(f, func(i int) { p.row(at, z, i) })
		case "areas":
			p.elements(f, func(i int) { p.area(at, z, i) })
		default:
			p.skip(f)
		}
	})
}

func (p *parser) row(at loc, z *Zone, i int) {
	// Rows are not limited by themselves: an empty one is a fault, and a seat
	// in each makes them as many as the seats.
	if p.full(at.in("rows"), i, p.opts.maxSeats(), "rows") {
		return
	}
	z.Rows = append(z.Rows, Row{})
	r := &z.Rows[i]
	at.row = int32(i + 1)
	p.progress()
	p.members(at, rowFields, 0b11, func(i int) {
		f := at.in(rowFields[i])
		switch rowFields[i] {
		case "row_number":
			p.text(f, &r.Number)
		case "seats":
			p.elements(f, func(i int) { p.seat(at, r, i) })
		case "position":
			p.position(f, &r.Position)
		case "row_label":
			p.optional(f, &r.Label)
		case "seat_label":
			p.optional(f, &r.SeatLabel)
		case "row_number_position":
			p.optional(f, &r.NumberPosition)
		case "uuid":
			p.text(f, &r.UUID)
		default:
			p.skip(f)
		}
	})
}

func (p *parser) seat(at loc, r *Row, i int) {
	if p.seats >= p.opts.maxSeats() {
		all := loc{field: "zones"}
		if !p.faults.known(all) {
			p.faults.add(all, KindTooManySeats, "more than %s seats", group(p.opts.maxSeats()))
		}
		p.skip(at)
		return
	}
	p.seats++
	r.Seats = append(r.Seats, Seat{})
	s := &r.Seats[len(r.Seats)-1]
	at.seat = int32(i + 1)
	p.members(at, seatFields, 0b0001111, func(i int) {
		f := at.in(seatFields[i])
		switch seatFields[i] {
		case "seat_guid":
			p.text(f, &s.GUID)
		case "seat_number":
			p.text(f, &s.Number)
		case "position":
			p.position(f, &s.Position)
		case "category":
			p.text(f, &s.Category)
		case "uuid":
			p.text(f, &s.UUID)
		case "start_direction":
			p.optional(f, &s.StartDirection)
		case "radius":
			p.number(f, &s.Radius)
		}
	})
}

func (p *parser) area(at loc, z *Zone, i int) {
	if p.full(at.in("areas"), p.areas, MaxAreas, "areas") {
		return
	}
	p.areas++
	z.Areas = append(z.Areas, Area{})
	a := &z.Areas[i]
	at.area = int32(i + 1)
	var oldText bool
	var has [16]bool
	p.members(at, areaFields, 0, func(i int) {
		has[i] = true
		f := at.in(areaFields[i])
		switch areaFields[i] {
		case "shape":
			p.text(f, &a.Shape)
		case "position":
			p.position(f, &a.Position)
		case "color":
			p.text(f, &a.Color)
		case "border_color":
			p.text(f, &a.BorderColor)
		case "rotation":
			p.number(f, &a.Rotation)
		case "uuid":
			p.text(f, &a.UUID)
		case "rectangle":
			p.members(f, sizeFields, 0b11, func(i int) {
				if i == 0 {
					p.number(f.in("width"), &a.Width)
				} else {
					p.number(f.in("height"), &a.Height)
				}
			})
		case "circle":
			p.members(f, circleFields, 0b1, func(int) { p.number(f.in("radius"), &a.Radius.X) })
			a.Radius.Y = a.Radius.X
		case "ellipse":
			p.members(f, circleFields, 0b1, func(int) { p.position(f.in("radius"), &a.Radius) })
		case "polygon":
			p.members(f, polygonFields, 0b1, func(int) {
				p.elements(f.in("points"), func(i int) { p.polygonPoint(at, a, i) })
			})
		case "text":
			oldText = p.areaText(f, a)
		case "width":
			p.number(f, &a.Width)
		case "height":
			p.number(f, &a.Height)
		}
	})
	if p.dead {
		return
	}
	p.shape(at, a, has[:], oldText)
}

func (p *parser) polygonPoint(at loc, a *Area, i int) {
	if p.full(at.in("polygon.points"), p.points, MaxPoints, "points") {
		return
	}
	p.points++
	a.Points = append(a.Points, Point{})
	at.point = int32(i + 1)
	p.position(at, &a.Points[i])
}

// areaText reads a text, which the first editor wrote as a bare string.
func (p *parser) areaText(at loc, a *Area) (old bool) {
	a.Text = &Text{}
	t := a.Text
	if !p.dead && p.dec.PeekKind() == '"' {
		p.text(at, &t.Text)
		return true
	}
	p.members(at, textFields, 0b0011, func(i int) {
		f := at.in(textFields[i])
		switch textFields[i] {
		case "text":
			p.text(f, &t.Text)
		case "position":
			p.position(f, &t.Position)
		case "color":
			p.text(f, &t.Color)
		case "size":
			p.number(f, &t.Size)
		}
	})
	return false
}

// shape settles what an area is. The first editor knew rectangles only, with
// width and height beside the position and the text in their middle.
func (p *parser) shape(at loc, a *Area, has []bool, oldText bool) {
	const rectangle, circle, ellipse, polygon, text, width, height = 6, 7, 8, 9, 10, 11, 12
	if a.Shape == "" && !has[0] {
		switch {
		case has[rectangle] || has[width] || has[height]:
			a.Shape = ShapeRectangle
		case has[circle]:
			a.Shape = ShapeCircle
		case has[ellipse]:
			a.Shape = ShapeEllipse
		case has[polygon]:
			a.Shape = ShapePolygon
		case has[text]:
			a.Shape = ShapeText
		default:
			p.faults.add(at.in("shape"), KindMissingField, "shape is missing")
			return
		}
	}
	need := map[string]bool{
		ShapeRectangle: has[rectangle] || has[width] && has[height],
		ShapeCircle:    has[circle], ShapeEllipse: has[ellipse], ShapePolygon: has[polygon], ShapeText: has[text],
	}
	if there, ok := need[a.Shape]; ok && !there {
		p.faults.add(at.in(a.Shape), KindMissingField, "%s is missing in an area of that shape", a.Shape)
	}
	if oldText {
		a.Text.Position = Point{a.Width / 2, a.Height / 2}
	}
	a.clean()
}

// clean drops the measures of other shapes than the area's own, which some
// editors leave behind.
func (a *Area) clean() {
	if a.Shape != ShapeRectangle {
		a.Width, a.Height = 0, 0
	}
	if a.Shape != ShapeCircle && a.Shape != ShapeEllipse {
		a.Radius = Point{}
	}
	if a.Shape != ShapePolygon {
		a.Points = nil
	}
}
