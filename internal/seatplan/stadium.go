package seatplan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// The stadium is a bowl: every row of seats runs along a rounded rectangle
// around the pitch, each a fixed distance outside the one before. Such curves
// are parallel, so rows never come closer than that distance, corners
// included. The curve is cut into sections by the same straight lines for all
// tiers, with a stairway between neighbours.
const (
	pitchLength   = 4200.0 // of the field of play
	pitchWidth    = 2720.0
	pitchBorder   = 300.0 // from the field to the first row's straight sides
	cornerRadius  = 900.0 // of the first row
	stairs        = 60.0  // between sections, along the row
	concourse     = 130.0 // between tiers
	sideSections  = 9     // along a long side
	endSections   = 4     // along a short side
	cornerParts   = 4     // around a corner
	lowerRows     = 30
	clubRows      = 12
	straightLong  = pitchLength + 2*pitchBorder - 2*cornerRadius
	straightShort = pitchWidth + 2*pitchBorder - 2*cornerRadius
)

// tier is one storey of the stands.
type tier struct{ rows int }

// The lower tier, the club level and the upper tier, which takes the rest.
var tiers = []tier{{lowerRows}, {clubRows}, {math.MaxInt}}

// side is the category group that a section belongs to.
type side uint8

const (
	long side = iota // best seats
	corner
	end
)

// section is a slice of every ring: a part of a straight side or of a corner.
type section struct {
	side     side
	from, to Point   // straight: where it begins and ends on the first ring's straight
	out      Point   // straight: unit vector away from the pitch
	center   Point   // corner: of its circle
	a0, a1   float64 // corner: angles
}

// sections lists the slices of the bowl clockwise, beginning in the middle of
// the near long side, so that section 1 faces the halfway line.
func sections() []section {
	hl, hs := straightLong/2, straightShort/2
	x, y := hl+cornerRadius, hs+cornerRadius
	var all []section
	straight := func(n int, s side, from, to, out Point) {
		for i := range n {
			f, t := float64(i)/float64(n), float64(i+1)/float64(n)
			at := func(f float64) Point {
				return Point{from.X + (to.X-from.X)*f, from.Y + (to.Y-from.Y)*f}
			}
			all = append(all, section{side: s, from: at(f), to: at(t), out: out})
		}
	}
	round := func(center Point, a0 float64) {
		for i := range cornerParts {
			f := math.Pi / 2 / cornerParts
			all = append(all, section{side: corner, center: center, a0: a0 + float64(i)*f, a1: a0 + float64(i+1)*f})
		}
	}
	straight(sideSections, long, Point{hl, y}, Point{-hl, y}, Point{0, 1})
	round(Point{-hl, hs}, math.Pi/2)
	straight(endSections, end, Point{-x, hs}, Point{-x, -hs}, Point{-1, 0})
	round(Point{-hl, -hs}, math.Pi)
	straight(sideSections, long, Point{-hl, -y}, Point{hl, -y}, Point{0, -1})
	round(Point{hl, -hs}, 3*math.Pi/2)
	straight(endSections, end, Point{x, -hs}, Point{x, hs}, Point{1, 0})
	round(Point{hl, hs}, 0)
	half := sideSections / 2
	return append(all[half:], all[:half]...)
}

// length of the section's part of the ring that is d outside the first.
func (s *section) length(d float64) float64 {
	if s.side == corner {
		return (s.a1 - s.a0) * (cornerRadius + d)
	}
	return math.Hypot(s.to.X-s.from.X, s.to.Y-s.from.Y)
}

// at returns the point a distance along that part from its middle.
func (s *section) at(d, along float64) Point {
	if s.side == corner {
		r := cornerRadius + d
		a := (s.a0+s.a1)/2 + along/r
		return Point{s.center.X + r*math.Cos(a), s.center.Y + r*math.Sin(a)}
	}
	l := s.length(d)
	f := 0.5 + along/l
	return Point{s.from.X + (s.to.X-s.from.X)*f + s.out.X*d, s.from.Y + (s.to.Y-s.from.Y)*f + s.out.Y*d}
}

// fits is how many seats the section has in a ring.
func (s *section) fits(d float64) int {
	return max(0, int((s.length(d)-stairs)/pitchSeat)+1)
}

// category of a section's seats in a tier.
func category(tier int, s side) string {
	switch {
	case tier == 1:
		return "Club"
	case tier == 0 && s == long:
		return "Category 1"
	case tier == 0:
		return "Category 2"
	case s == long:
		return "Category 3"
	}
	return "Category 4"
}

// ring is one row around the pitch.
type ring struct {
	tier, row int
	d         float64
	seats     []int // by section
	total     int
}

// rings goes outwards until there are at least as many places as seats, and
// thins the last ring out evenly, so that the number is exact.
func rings(capacity int, all []section) []ring {
	var out []ring
	d, left := 0.0, capacity
	for t, row := 0, 0; left > 0; {
		if row == tiers[t].rows {
			t, row = t+1, 0
			d += concourse - pitchRow
		}
		r := ring{tier: t, row: row, d: d, seats: make([]int, len(all))}
		for i := range all {
			r.seats[i] = all[i].fits(d)
			r.total += r.seats[i]
		}
		if r.total > left {
			thin(&r, left)
		}
		left -= r.total
		out = append(out, r)
		row++
		d += pitchRow
	}
	return out
}

// thin leaves exactly want seats in a ring, in proportion to the sections, the
// largest remainders first.
func thin(r *ring, want int) {
	type part struct{ section, remainder int }
	parts := make([]part, len(r.seats))
	kept := 0
	for i, n := range r.seats {
		parts[i] = part{i, n * want % r.total}
		r.seats[i] = n * want / r.total
		kept += r.seats[i]
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.remainder, a.remainder) })
	for i := range want - kept {
		r.seats[parts[i].section]++
	}
	r.total = want
}

func stadium(o GenerateOptions) *Document {
	all := sections()
	bowl := rings(o.Capacity, all)
	depth := bowl[len(bowl)-1].d
	half := Point{straightLong/2 + cornerRadius + depth + 2*margin, straightShort/2 + cornerRadius + depth + 2*margin}
	d := &Document{
		Name:  cmp.Or(o.Name, fmt.Sprintf("Stadium, %s seats", group(o.Capacity))),
		Width: 2 * math.Ceil(half.X), Height: 2 * math.Ceil(half.Y),
		Categories: []Category{
			{"Category 1", "#c0504d"}, {"Category 2", "#e39b3b"}, {"Club", "#7a5195"},
			{"Category 3", "#3f7fbf"}, {"Category 4", "#5aa469"},
		},
	}
	middle := Point{math.Ceil(half.X), math.Ceil(half.Y)}
	d.Zones = append(d.Zones, field(middle))
	for len(bowl) > 0 {
		t := bowl[0].tier
		n := slices.IndexFunc(bowl, func(r ring) bool { return r.tier != t })
		if n < 0 {
			n = len(bowl)
		}
		for i := range all {
			if z := stand(&all[i], i, bowl[:n], middle); len(z.Rows) > 0 {
				d.Zones = append(d.Zones, z)
			}
		}
		bowl = bowl[n:]
	}
	d.dropUnused()
	return d
}

// stand is one section of one tier.
func stand(s *section, i int, bowl []ring, middle Point) Zone {
	t := bowl[0].tier
	number := strconv.Itoa(100*(t+1) + i + 1)
	z := Zone{Name: "Section " + number, ZoneID: number, Position: middle}
	for _, r := range bowl {
		n := r.seats[i]
		if n == 0 {
			continue
		}
		row := Row{Number: strconv.Itoa(r.row + 1), NumberPosition: "both", Seats: make([]Seat, n)}
		origin := s.at(r.d, 0)
		row.Position = Point{math.Round(origin.X), math.Round(origin.Y)}
		for k := range n {
			p := s.at(r.d, (float64(k)-float64(n-1)/2)*pitchSeat)
			seat := strconv.Itoa(k + 1)
			row.Seats[k] = Seat{
				GUID: number + "-" + row.Number + "-" + seat, Number: seat, Category: category(t, s.side),
				Position: Point{round(p.X - row.Position.X), round(p.Y - row.Position.Y)},
			}
		}
		z.Rows = append(z.Rows, row)
	}
	if len(z.Rows) > 0 {
		z.Areas = []Area{s.outline(bowl[0].d, bowl[len(bowl)-1].d)}
	}
	return z
}

// outline is the ground under a section between two rings.
func (s *section) outline(inner, outer float64) Area {
	const edge = pitchRow / 2
	a := Area{Shape: ShapePolygon, Color: "#f4f4f2", BorderColor: "#dcdcd8"}
	line := func(d float64, reverse bool) {
		half := (s.length(d) - stairs/2) / 2
		steps := 1
		if s.side == corner {
			steps = 8
		}
		for i := range steps + 1 {
			f := float64(i) / float64(steps)
			if reverse {
				f = 1 - f
			}
			p := s.at(d, half*(2*f-1))
			a.Points = append(a.Points, Point{round(p.X), round(p.Y)})
		}
	}
	line(inner-edge, false)
	line(outer+edge, true)
	return a
}

// field is the pitch with its lines.
func field(middle Point) Zone {
	const white = "#ffffff"
	l, w := pitchLength/2, pitchWidth/2
	rect := func(x, y, width, height float64, color string) Area {
		return Area{Shape: ShapeRectangle, Position: Point{x, y}, Width: width, Height: height, Color: color, BorderColor: white}
	}
	return Zone{Name: "Pitch", ZoneID: "pitch", Position: middle, Areas: []Area{
		rect(-l, -w, pitchLength, pitchWidth, "#7fb069"),
		rect(-l, -806, 660, 1612, "transparent"),
		rect(l-660, -806, 660, 1612, "transparent"),
		{Shape: ShapeCircle, Radius: Point{366, 366}, Color: "transparent", BorderColor: white},
		{Shape: ShapePolygon, Points: []Point{{0, -w}, {0, w}}, Color: "transparent", BorderColor: white},
		{Shape: ShapeText, Color: "transparent", Text: &Text{Text: "PITCH", Color: white, Size: 200, Position: Point{0, 800}}},
	}}
}

// dropUnused leaves out categories that no seat has.
func (d *Document) dropUnused() {
	counts := d.SeatsByCategory()
	kept := d.Categories[:0]
	for i, c := range d.Categories {
		if counts[i].Seats > 0 {
			kept = append(kept, c)
		}
	}
	d.Categories = kept
}
