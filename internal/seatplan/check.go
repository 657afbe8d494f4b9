package seatplan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"seatflow"
)

// Check judges a document that was made in memory, as Parse judges one that
// was read; the error is a [*FaultsError].
func (d *Document) Check() error {
	var f findings
	d.check(&f, seatflow.MaxSeatsPerHall)
	return f.err(d)
}

// check judges values. A place where a fault is known already (a wrong type)
// holds no value to judge.
func (d *Document) check(f *findings, maxSeats int) {
	c := checker{d: d, findings: f}
	c.text(loc{field: "name"}, d.Name, MaxName, false)
	if !f.known(loc{field: "size"}) {
		c.extent(loc{field: "size.width"}, d.Width, true)
		c.extent(loc{field: "size.height"}, d.Height, true)
	}
	c.count(loc{field: "categories"}, len(d.Categories), MaxCategories, "categories")
	c.count(loc{field: "zones"}, len(d.Zones), MaxZones, "zones")
	c.categoryList()

	seats := d.Seats()
	if all := (loc{field: "zones"}); seats > maxSeats && !f.known(all) {
		f.add(all, KindTooManySeats, "%s, the most is %s", plural(seats, "seat"), group(maxSeats))
	} else if seats == 0 && !c.misread() {
		f.add(all, KindEmptyPlan, "the plan has no seat")
	}
	c.guids = make(map[string]place, min(seats, maxSeats))
	for i := range d.Zones {
		c.zone(loc{zone: int32(i + 1)}, &d.Zones[i])
	}
	if c.areas > MaxAreas || c.points > MaxPoints {
		c.count(loc{field: "zones"}, c.areas, MaxAreas, "areas")
		c.count(loc{field: "zones"}, c.points, MaxPoints, "points")
	}
	c.repeated()
}

// place is where a seat stands in a document.
type place struct{ zone, row, seat int32 }

func (p place) loc(field string) loc {
	return loc{zone: p.zone, row: p.row, seat: p.seat, field: field}
}

type checker struct {
	*findings
	d             *Document
	categories    map[string]bool
	guids         map[string]place   // the first seat of each
	again         map[string][]place // further seats, of those that repeat
	order         []string           // keys of again, as met
	noCategories  bool               // the list of them is at fault itself
	areas, points int
}

// misread reports whether seats may have been lost to a fault of shape.
func (c *checker) misread() bool {
	return c.findings.count[KindWrongType] > 0 || c.findings.count[KindMissingField] > 0
}

func (c *checker) count(at loc, have, most int, what string) {
	if have > most && !c.known(at) {
		c.add(at, KindTooMany, "%s %s, the most is %s", group(have), what, group(most))
	}
}

// text judges a name (one line) or a longer text.
func (c *checker) text(at loc, s string, most int, lines bool) bool {
	switch {
	case !utf8.ValidString(s):
		c.add(at, KindInvalidUTF8, "not valid UTF-8")
	case len(s) > most && utf8.RuneCountInString(s) > most:
		c.add(at, KindTooLong, "%s characters, the most is %s", group(utf8.RuneCountInString(s)), group(most))
	case strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && !(lines && (r == '\n' || r == '\r' || r == '\t'))
	}):
		c.add(at, KindBadText, "control characters in %s", quote(s))
	default:
		return true
	}
	return false
}

// extent judges a width, height, radius or size.
func (c *checker) extent(at loc, v float64, positive bool) {
	switch {
	case c.known(at):
	case math.IsNaN(v) || math.IsInf(v, 0):
		c.add(at, KindAbsurdSize, "not a finite number")
	case v < 0:
		c.add(at, KindAbsurdSize, "%v is less than zero", v)
	case positive && v == 0:
		c.add(at, KindAbsurdSize, "must be more than zero")
	case v > MaxUnits:
		c.add(at, KindAbsurdSize, "%v is more than %s", v, group(MaxUnits))
	}
}

func within(v float64) bool { return v >= -MaxUnits && v <= MaxUnits } // false for NaN

// position judges a place or an offset.
func (c *checker) position(at loc, p Point) bool {
	ok := true
	if !within(p.X) {
		c.add(at.in("x"), KindBadPosition, "%v is not within ±%s", p.X, group(MaxUnits))
		ok = false
	}
	if !within(p.Y) {
		c.add(at.in("y"), KindBadPosition, "%v is not within ±%s", p.Y, group(MaxUnits))
		ok = false
	}
	return ok
}

func (c *checker) color(at loc, s string) {
	if s == "" || c.known(at) {
		return
	}
	if _, ok := ParseColor(s); !ok {
		c.add(at, KindBadColor, "%s is not a CSS colour", quote(s))
	}
}

// word judges a value that must be one of a few.
func (c *checker) word(at loc, s string, words ...string) {
	if !c.known(at) && !slices.Contains(words, s) {
		c.add(at, KindBadValue, "%s is none of %q", quote(s), words)
	}
}

func (c *checker) categoryList() {
	c.noCategories = c.known(loc{field: "categories"})
	c.categories = make(map[string]bool, len(c.d.Categories))
	for i, cat := range c.d.Categories {
		at := loc{cat: int32(i + 1)}
		switch name := at.in("name"); {
		case c.known(at) || c.known(name):
		case cat.Name == "":
			c.add(name, KindMissingField, "a category without a name")
		case c.categories[cat.Name]:
			c.add(name, KindDuplicateCategory, "category %s stands in the list already", quote(cat.Name))
		default:
			c.text(name, cat.Name, MaxName, false)
		}
		c.categories[cat.Name] = true
		c.color(at.in("color"), cat.Color)
	}
	delete(c.categories, "")
}

func (c *checker) zone(at loc, z *Zone) {
	c.text(at.in("name"), z.Name, MaxName, false)
	c.text(at.in("zone_id"), z.ZoneID, MaxName, false)
	c.text(at.in("uuid"), z.UUID, MaxName, false)
	ok := c.position(at.in("position"), z.Position)
	for i := range z.Areas {
		at := at
		at.area = int32(i + 1)
		c.area(at, &z.Areas[i], z.Position, ok)
	}
	for i := range z.Rows {
		at := at
		at.row = int32(i + 1)
		c.row(at, &z.Rows[i], z.Position, ok)
	}
}

func (c *checker) row(at loc, r *Row, origin Point, ok bool) {
	if c.known(at) {
		return
	}
	c.text(at.in("row_number"), r.Number, MaxName, false)
	if c.text(at.in("row_label"), r.Label, MaxName, false) {
		c.text(at.in("row_label"), r.display(), MaxName, false)
	}
	c.text(at.in("seat_label"), r.SeatLabel, MaxName, false)
	c.text(at.in("uuid"), r.UUID, MaxName, false)
	if r.NumberPosition != "" {
		c.word(at.in("row_number_position"), r.NumberPosition, "start", "end", "both")
	}
	ok = c.position(at.in("position"), r.Position) && ok
	if seats := at.in("seats"); len(r.Seats) == 0 && !c.known(seats) && !c.tooMany() {
		c.add(seats, KindEmptyRow, "a row without seats")
	}
	for i := range r.Seats {
		at := at
		at.seat = int32(i + 1)
		c.seat(at, &r.Seats[i], Point{origin.X + r.Position.X, origin.Y + r.Position.Y}, ok)
	}
}

// tooMany reports whether seats were left out because there are too many.
func (c *checker) tooMany() bool { return c.findings.count[KindTooManySeats] > 0 }

func (c *checker) seat(at loc, s *Seat, origin Point, ok bool) {
	if c.known(at) {
		return
	}
	c.text(at.in("seat_number"), s.Number, MaxName, false)
	c.text(at.in("uuid"), s.UUID, MaxName, false)
	if s.StartDirection != "" {
		c.word(at.in("start_direction"), s.StartDirection, "<", ">", "<>")
	}
	c.extent(at.in("radius"), s.Radius, false)
	if cat := at.in("category"); !c.categories[s.Category] && !c.known(cat) && !c.noCategories {
		if s.Category == "" {
			c.add(cat, KindUnknownCategory, "the seat has no category")
		} else {
			c.add(cat, KindUnknownCategory, "there is no category %s", quote(s.Category))
		}
	}
	if pos := at.in("position"); c.position(pos, s.Position) && ok && !c.known(pos) {
		if x, y := origin.X+s.Position.X, origin.Y+s.Position.Y; !within(x) || !within(y) {
			c.add(pos, KindBadPosition, "zone, row and seat add up to %v, %v, which is not within ±%s", x, y, group(MaxUnits))
		}
	}
	guid := at.in("seat_guid")
	switch {
	case c.known(guid):
	case s.GUID == "":
		c.add(guid, KindMissingGUID, "a seat without a guid")
	default:
		c.text(guid, s.GUID, MaxName, false)
		here := place{at.zone, at.row, at.seat}
		if _, taken := c.guids[s.GUID]; !taken {
			c.guids[s.GUID] = here
			return
		}
		if c.again == nil {
			c.again = map[string][]place{}
		}
		if c.again[s.GUID] == nil {
			c.order = append(c.order, s.GUID)
		}
		c.again[s.GUID] = append(c.again[s.GUID], here)
	}
}

// repeated makes one fault for each guid that repeats, or two when it does so
// both within a zone and across zones.
func (c *checker) repeated() {
	for _, guid := range c.order {
		places := append([]place{c.guids[guid]}, c.again[guid]...)
		var within, across *place
		zones := map[int32]bool{places[0].zone: true}
		for i := range places[1:] {
			p := &places[i+1]
			if zones[p.zone] && within == nil {
				within = p
			}
			if !zones[p.zone] && across == nil {
				across = p
			}
			zones[p.zone] = true
		}
		if within != nil {
			c.add(within.loc("seat_guid"), KindRepeatedGUID, "guid %s is used twice in this zone; it also stands at %s",
				quote(guid), c.others(places, *within))
		}
		if across != nil {
			c.add(across.loc("seat_guid"), KindRepeatedAcross, "guid %s is used in %s; it also stands at %s",
				quote(guid), plural(len(zones), "zone"), c.others(places, *across))
		}
	}
}

// others names the places without one of them, the first few in full.
func (c *checker) others(places []place, without place) string {
	var names []string
	for _, p := range places {
		if p != without {
			names = append(names, c.d.place(p.loc("")))
		}
		if len(names) == 4 && len(places) > 6 {
			names = append(names, fmt.Sprintf("%d more places", len(places)-5))
			break
		}
	}
	return strings.Join(names, "; ")
}

func (c *checker) area(at loc, a *Area, origin Point, ok bool) {
	c.areas++
	c.points += len(a.Points)
	if c.known(at) {
		return
	}
	c.word(at.in("shape"), a.Shape, ShapeRectangle, ShapeCircle, ShapeEllipse, ShapePolygon, ShapeText)
	c.text(at.in("uuid"), a.UUID, MaxName, false)
	c.color(at.in("color"), a.Color)
	c.color(at.in("border_color"), a.BorderColor)
	if rot := at.in("rotation"); !within(a.Rotation) {
		c.add(rot, KindAbsurdSize, "%v degrees", a.Rotation)
	}
	if pos := at.in("position"); c.position(pos, a.Position) && ok {
		if x, y := origin.X+a.Position.X, origin.Y+a.Position.Y; !within(x) || !within(y) {
			c.add(pos, KindBadPosition, "zone and area add up to %v, %v, which is not within ±%s", x, y, group(MaxUnits))
		}
	}
	switch a.Shape {
	case ShapeRectangle:
		c.extent(at.in("rectangle.width"), a.Width, false)
		c.extent(at.in("rectangle.height"), a.Height, false)
	case ShapeCircle:
		c.extent(at.in("circle.radius"), a.Radius.X, false)
	case ShapeEllipse:
		c.extent(at.in("ellipse.radius.x"), a.Radius.X, false)
		c.extent(at.in("ellipse.radius.y"), a.Radius.Y, false)
	case ShapePolygon:
		for i, p := range a.Points {
			at := at
			at.point = int32(i + 1)
			c.position(at, p)
		}
	}
	if a.Text != nil {
		c.text(at.in("text.text"), a.Text.Text, MaxText, true)
		c.color(at.in("text.color"), a.Text.Color)
		c.extent(at.in("text.size"), a.Text.Size, false)
		c.position(at.in("text.position"), a.Text.Position)
	}
}

// disambiguate prefixes every guid with its zone, so that it does not depend
// on which other zones use the same one. The zone's part has "%" and "/"
// written as %25 and %2F, so two zones never share a prefix; a guid that has
// its own zone's prefix already (from an export) keeps it and no second one.
func (d *Document) disambiguate(f *findings, o Options) {
	if o.Disambiguate != DisambiguateZone {
		return
	}
	escape := strings.NewReplacer("%", "%25", "/", "%2F")
	first := map[string]int{}
	for i := range d.Zones {
		z := &d.Zones[i]
		at := loc{zone: int32(i + 1)}
		if len(z.Rows) == 0 || f.known(at.in("name")) || f.known(at.in("zone_id")) {
			continue
		}
		field, key := "zone_id", z.ZoneID
		if key == "" {
			field, key = "name", z.Name
		}
		if key == "" {
			f.add(at.in(field), KindUnnamedZone, "seats can only be told apart by zone when each zone has a zone_id or a name")
			continue
		}
		if j, taken := first[key]; taken {
			f.add(at.in(field), KindRepeatedZone, "zones[%d] and zones[%d] are both called %s: their seats cannot be told apart by zone",
				j, i, quote(key))
			continue
		}
		first[key] = i
		prefix := escape.Replace(key) + "/"
		for r := range z.Rows {
			for s := range z.Rows[r].Seats {
				if guid := &z.Rows[r].Seats[s].GUID; *guid != "" && !strings.HasPrefix(*guid, prefix) {
					*guid = prefix + *guid
				}
			}
		}
	}
}

// display is the row as people read it. A label that is too long is left out:
// filling a number into each of its places could make it huge.
func (r *Row) display() string {
	const most = MaxName * utf8.UTFMax
	if r.Label == "" || len(r.Label) > most || len(r.Number) > most {
		return r.Number
	}
	return strings.ReplaceAll(r.Label, "%s", r.Number)
}

// fitSize makes the plan as large as its seats need.
func (d *Document) fitSize() {
	for z := range d.Zones {
		zone := &d.Zones[z]
		for r := range zone.Rows {
			row := &zone.Rows[r]
			for s := range row.Seats {
				p := row.Seats[s].Position
				d.Width = max(d.Width, zone.Position.X+row.Position.X+p.X)
				d.Height = max(d.Height, zone.Position.Y+row.Position.Y+p.Y)
			}
		}
	}
	const margin = 30
	d.Width = min(math.Ceil(d.Width)+margin, MaxUnits)
	d.Height = min(math.Ceil(d.Height)+margin, MaxUnits)
}
