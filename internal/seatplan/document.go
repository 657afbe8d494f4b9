package seatplan

import "seatflow"

// Point is a place or an offset in the plan's units, y growing downwards.
type Point struct{ X, Y float64 }

// Document is a plan as its file says it. Positions add up: a seat stands at
// zone + row + seat.
type Document struct {
	Name       string
	Width      float64
	Height     float64
	Categories []Category
	Zones      []Zone
	Warnings   []string // what was ignored or filled in while reading; nothing that is wrong
}

// Category is a price group as its file says it.
type Category struct {
	Name  string
	Color string // any CSS colour of [ParseColor]; "" for none
}

// Zone is a named part of a plan.
type Zone struct {
	Name     string
	ZoneID   string // newer field set
	UUID     string // newer field set
	Position Point
	Rows     []Row
	Areas    []Area
}

// Row is a row of seats.
type Row struct {
	Number         string
	Label          string // newer field set; "%s" in it stands for Number
	SeatLabel      string // newer field set; kept, not used
	NumberPosition string // newer field set; "start", "end", "both" or ""
	UUID           string // newer field set
	Position       Point
	Seats          []Seat
}

// Seat is a chair.
type Seat struct {
	GUID           string
	Number         string
	Category       string
	UUID           string // newer field set
	StartDirection string // newer field set; "<", ">", "<>" or ""
	Position       Point
	Radius         float64 // newer field set; 0: the drawing's default
}

// The shapes of an area.
const (
	ShapeRectangle = "rectangle"
	ShapeCircle    = "circle"
	ShapeEllipse   = "ellipse"
	ShapePolygon   = "polygon"
	ShapeText      = "text"
)

// Area is decoration: a shape, a text, or both.
type Area struct {
	Shape       string
	UUID        string
	Position    Point
	Rotation    float64 // degrees, clockwise about Position
	Color       string
	BorderColor string
	Width       float64 // rectangle
	Height      float64
	Radius      Point   // circle (X = Y) and ellipse
	Points      []Point // polygon, relative to Position
	Text        *Text
}

// Text is written on an area.
type Text struct {
	Text     string
	Color    string
	Size     float64 // 0: DefaultTextSize
	Position Point   // relative to the area's
}

// DefaultTextSize is the size of a text that gives none.
const DefaultTextSize = 16

// Limits on a document, each far beyond any real plan and small enough to
// keep a hostile one harmless.
const (
	MaxUnits      = 1e6       // of any coordinate or extent, and of their sums
	MaxName       = 200       // characters of a name, label or guid
	MaxText       = 1000      // characters of a text on an area
	MaxCategories = 1000      //
	MaxZones      = 10_000    //
	MaxAreas      = 50_000    // in all zones together
	MaxPoints     = 200_000   // of polygons, in all zones together
	MaxDepth      = 32        // of nested arrays and objects; the format needs 9
	MaxBytes      = 128 << 20 // 200,000 seats with every member, generously indented
	MaxFaults     = 10_000    // listed; the rest is only counted
)

// Options tells Parse how to read.
type Options struct {
	// Disambiguate is "" or "zone". With "zone" every guid is prefixed with
	// its zone (see [Document] and docs/seat-plans.md), so that two zones may
	// use the same guids for different chairs.
	Disambiguate string
	// MaxSeats is the most seats to accept; 0: seatflow.MaxSeatsPerHall.
	MaxSeats int
	// MaxBytes is the longest document to read; 0: the constant MaxBytes.
	MaxBytes int64
	// Progress, when set, is told now and then how many bytes of how many
	// have been read, and at the end that all have.
	Progress func(done, total int)
}

// DisambiguateZone is the one value of [Options.Disambiguate] beside "".
const DisambiguateZone = "zone"

func (o Options) maxSeats() int {
	if o.MaxSeats > 0 {
		return o.MaxSeats
	}
	return seatflow.MaxSeatsPerHall
}

func (o Options) maxBytes() int64 {
	if o.MaxBytes > 0 {
		return o.MaxBytes
	}
	return MaxBytes
}

// Seats counts the seats.
func (d *Document) Seats() int {
	n := 0
	for z := range d.Zones {
		for r := range d.Zones[z].Rows {
			n += len(d.Zones[z].Rows[r].Seats)
		}
	}
	return n
}

// Count is a name and how many seats go with it.
type Count struct {
	Name  string `json:"name"`
	Seats int    `json:"seats"`
}

// SeatsByCategory counts the seats of every category, in document order.
func (d *Document) SeatsByCategory() []Count {
	counts := make([]Count, len(d.Categories))
	at := make(map[string]int, len(d.Categories))
	for i, c := range d.Categories {
		counts[i].Name = c.Name
		at[c.Name] = i
	}
	for z := range d.Zones {
		for r := range d.Zones[z].Rows {
			for s := range d.Zones[z].Rows[r].Seats {
				if i, ok := at[d.Zones[z].Rows[r].Seats[s].Category]; ok {
					counts[i].Seats++
				}
			}
		}
	}
	return counts
}

// SeatsByZone counts the seats of every zone, in document order.
func (d *Document) SeatsByZone() []Count {
	counts := make([]Count, len(d.Zones))
	for z := range d.Zones {
		counts[z].Name = d.Zones[z].Name
		for r := range d.Zones[z].Rows {
			counts[z].Seats += len(d.Zones[z].Rows[r].Seats)
		}
	}
	return counts
}
