package seatplan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"

	"seatflow"
)

// GenerateOptions says what to draw up.
type GenerateOptions struct {
	Name string // "": a name that tells the size

	// A hall: rows of equal length, gently curved about a stage.
	Rows  int // 0: 10
	Seats int // in a row; 0: 10

	// A stadium: stands of sections around a pitch, instead of a hall.
	Stadium  bool
	Capacity int // seats in it, exactly; 0: DefaultStadium
}

// DefaultStadium is how many seats a stadium has unless told otherwise.
const DefaultStadium = 60_000

// Limits of what is drawn up.
const (
	MaxGeneratedRow = 1000 // seats in a row of a hall: beyond it the curve is a line
	MinStadium      = 100  // seats; less does not go around a pitch
)

func (o GenerateOptions) filled() GenerateOptions {
	o.Rows, o.Seats = cmp.Or(o.Rows, 10), cmp.Or(o.Seats, 10)
	o.Capacity = cmp.Or(o.Capacity, DefaultStadium)
	return o
}

// Check reports options that Generate would have to bend.
func (o GenerateOptions) Check() error {
	o = o.filled()
	var f findings
	(&checker{d: &Document{}, findings: &f}).text(loc{field: "name"}, o.Name, MaxName, false)
	if err := f.err(&Document{}); err != nil {
		return errors.New("seatplan: the name has control characters or is too long")
	}
	if o.Stadium {
		if o.Capacity < MinStadium || o.Capacity > seatflow.MaxSeatsPerHall {
			return fmt.Errorf("seatplan: a stadium has %s to %s seats, not %s",
				group(MinStadium), group(seatflow.MaxSeatsPerHall), group(o.Capacity))
		}
		return nil
	}
	if o.Rows < 1 || o.Seats < 1 || o.Seats > MaxGeneratedRow || o.Rows > seatflow.MaxSeatsPerHall/o.Seats {
		return fmt.Errorf("seatplan: a hall has 1 or more rows of 1 to %s seats, at most %s in all; not %d × %d",
			group(MaxGeneratedRow), group(seatflow.MaxSeatsPerHall), o.Rows, o.Seats)
	}
	return nil
}

// Generate draws up a plan that can be published as it stands. The same
// options give the same plan, and seats of it keep their guids when it grows
// by rows. Options that Check refuses are bent to what it allows.
func Generate(o GenerateOptions) *Document {
	o = o.filled()
	if o.Check() != nil {
		o.Name = ""
		o.Seats = min(max(o.Seats, 1), MaxGeneratedRow)
		o.Rows = min(max(o.Rows, 1), seatflow.MaxSeatsPerHall/o.Seats)
		o.Capacity = min(max(o.Capacity, MinStadium), seatflow.MaxSeatsPerHall)
	}
	if o.Stadium {
		return stadium(o)
	}
	return hall(o)
}

const (
	pitchSeat = 26.0 // between seats of a row, centre to centre; a seat is drawn 20 wide
	pitchRow  = 32.0 // between rows
	margin    = 60.0 // around everything
)

// hall lays rows on circles about one centre above the stage.
func hall(o GenerateOptions) *Document {
	d := &Document{
		Name: cmp.Or(o.Name, fmt.Sprintf("Hall, %d × %d", o.Rows, o.Seats)),
		Categories: []Category{
			{"Front", "#c0504d"}, {"Middle", "#4f81bd"}, {"Rear", "#6aa84f"},
		}[:min(o.Rows, 3)],
	}
	width := float64(o.Seats-1) * pitchSeat
	stage := math.Round(max(width*0.6, 160))
	// The first row spans at most 0.9 rad, so that wide halls stay flat.
	radius := max(width/0.9, 420)
	const front = 130.0 // from the top edge to the middle of the first row
	total := width
	for r := range o.Rows {
		half := float64(o.Seats-1) / 2 * pitchSeat / (radius + float64(r)*pitchRow)
		total = max(total, 2*(radius+float64(r)*pitchRow)*math.Sin(min(half, math.Pi/2)))
	}
	d.Width = math.Ceil(max(total, stage) + 2*margin)
	middle := math.Round(d.Width / 2)
	zone := Zone{Name: "Stalls", ZoneID: "stalls"}
	lowest := 0.0
	for r := range o.Rows {
		number := strconv.Itoa(r + 1)
		row := Row{Number: number, NumberPosition: "both", Seats: make([]Seat, o.Seats)}
		at := radius + float64(r)*pitchRow
		row.Position = Point{middle, front + float64(r)*pitchRow}
		category := d.Categories[r*len(d.Categories)/o.Rows].Name
		for s := range o.Seats {
			angle := (float64(s) - float64(o.Seats-1)/2) * pitchSeat / at
			row.Seats[s] = Seat{
				GUID: number + "-" + strconv.Itoa(s+1), Number: strconv.Itoa(s + 1), Category: category,
				// The sides come towards the stage.
				Position: Point{round(at * math.Sin(angle)), round(at*math.Cos(angle) - at)},
			}
		}
		lowest = min(lowest, row.Position.Y+row.Seats[0].Position.Y)
		zone.Rows = append(zone.Rows, row)
	}
	// Long rows bend up beyond the stage; everything moves down by that much.
	down := math.Ceil(max(0, margin-lowest))
	zone.Position.Y = down
	d.Height = math.Ceil(down + front + float64(o.Rows-1)*pitchRow + margin)
	zone.Areas = []Area{{
		Shape: ShapeRectangle, Position: Point{middle - math.Round(stage/2), 30 - down}, Width: stage, Height: 50,
		Color: "#e8e8e8", BorderColor: "#b0b0b0",
		Text: &Text{Text: "STAGE", Color: "#555555", Size: 20, Position: Point{math.Round(stage / 2), 25}},
	}}
	d.Zones = []Zone{zone}
	return d
}

// round keeps positions short in the file; a tenth of a unit is not visible.
func round(v float64) float64 {
	v = math.Round(v*10) / 10
	if v == 0 {
		return 0 // not minus zero
	}
	return v
}
