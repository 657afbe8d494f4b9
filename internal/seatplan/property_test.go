package seatplan_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"seatflow"
	"seatflow/internal/seatplan"
)

// drawDocument draws a document that can be published.
func drawDocument(t *rapid.T) *seatplan.Document {
	name := rapid.StringMatching(`[ -~äöüß中文]{1,12}`)
	maybe := rapid.OneOf(rapid.Just(""), name)
	coordinate := rapid.OneOf(rapid.Float64Range(-1000, 1000), rapid.Map(rapid.IntRange(-500, 500), func(n int) float64 { return float64(n) }),
		rapid.SampledFrom([]float64{0, 1e-9, -1e-300, 0.1, 333333.25}))
	point := rapid.Custom(func(t *rapid.T) seatplan.Point {
		return seatplan.Point{X: coordinate.Draw(t, "x"), Y: coordinate.Draw(t, "y")}
	})
	extent := rapid.Float64Range(0, 5000)
	color := rapid.SampledFrom([]string{"", "#abc", "#12345678", "navy", "transparent", "rgb(9,8,7)"})
	d := &seatplan.Document{
		Name: maybe.Draw(t, "name"), Width: rapid.Float64Range(1, 1e6).Draw(t, "width"), Height: rapid.Float64Range(1, 1e6).Draw(t, "height"),
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "categories") {
		d.Categories = append(d.Categories, seatplan.Category{Name: fmt.Sprint(name.Draw(t, "category"), i), Color: color.Draw(t, "color")})
	}
	n := 0
	for range rapid.IntRange(1, 4).Draw(t, "zones") {
		z := seatplan.Zone{Name: maybe.Draw(t, "zone"), ZoneID: maybe.Draw(t, "zone id"), UUID: maybe.Draw(t, "uuid"), Position: point.Draw(t, "zone at")}
		for range rapid.IntRange(0, 3).Draw(t, "areas") {
			a := seatplan.Area{
				Shape:    rapid.SampledFrom([]string{"rectangle", "circle", "ellipse", "polygon", "text"}).Draw(t, "shape"),
				Position: point.Draw(t, "area at"), Rotation: coordinate.Draw(t, "rotation"), Color: color.Draw(t, "fill"),
				BorderColor: color.Draw(t, "border"), UUID: maybe.Draw(t, "uuid"),
			}
			switch a.Shape {
			case "rectangle":
				a.Width, a.Height = extent.Draw(t, "w"), extent.Draw(t, "h")
			case "circle":
				r := extent.Draw(t, "r")
				a.Radius = seatplan.Point{X: r, Y: r}
			case "ellipse":
				a.Radius = seatplan.Point{X: extent.Draw(t, "rx"), Y: extent.Draw(t, "ry")}
			case "polygon":
				a.Points = rapid.SliceOfN(point, 1, 5).Draw(t, "points")
			}
			if a.Shape == "text" || rapid.Bool().Draw(t, "has text") {
				a.Text = &seatplan.Text{
					Text: rapid.StringMatching(`[ -~\n]{0,20}`).Draw(t, "text"), Color: color.Draw(t, "text color"),
					Size: rapid.SampledFrom([]float64{0, 10, 12.5}).Draw(t, "text size"), Position: point.Draw(t, "text at"),
				}
			}
			z.Areas = append(z.Areas, a)
		}
		for range rapid.IntRange(0, 3).Draw(t, "rows") {
			r := seatplan.Row{
				Number: maybe.Draw(t, "row"), Label: rapid.SampledFrom([]string{"", "Row %s", "%s%s", "100%"}).Draw(t, "label"),
				SeatLabel:      rapid.SampledFrom([]string{"", "Seat %s"}).Draw(t, "seat label"),
				NumberPosition: rapid.SampledFrom([]string{"", "start", "end", "both"}).Draw(t, "numbers"),
				UUID:           maybe.Draw(t, "uuid"), Position: point.Draw(t, "row at"),
			}
			for range rapid.IntRange(1, 5).Draw(t, "seats") {
				n++
				r.Seats = append(r.Seats, seatplan.Seat{
					GUID: fmt.Sprint(maybe.Draw(t, "guid"), n), Number: maybe.Draw(t, "number"), UUID: maybe.Draw(t, "uuid"),
					Category:       rapid.SampledFrom(d.Categories).Draw(t, "category of").Name,
					StartDirection: rapid.SampledFrom([]string{"", "<", ">", "<>"}).Draw(t, "start"),
					Position:       point.Draw(t, "seat at"), Radius: rapid.SampledFrom([]float64{0, 10, 0.5}).Draw(t, "radius"),
				})
			}
			z.Rows = append(z.Rows, r)
		}
		d.Zones = append(d.Zones, z)
	}
	if n == 0 {
		z := &d.Zones[0]
		z.Rows = append(z.Rows, seatplan.Row{Seats: []seatplan.Seat{{GUID: "only", Category: d.Categories[0].Name}}})
	}
	return d
}

// TestRoundTrip: what is written is read as it was; a plan that is exported
// and imported is the same plan, in a new hall up to ids and in its own hall
// with the same ids; also when only the published form of it is left.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDocument(t)
		body, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		read, err := seatplan.Parse(bytes.NewReader(body), seatplan.Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if diff := cmp.Diff(d, read); diff != "" {
			t.Fatalf("document (-written +read):\n%s\n%s", diff, body)
		}

		taken := seatflow.HallSeats{Latest: 4, NextID: 90, ByGUID: map[string]seatflow.SeatID{"only": 17}}
		p, err := d.Plan(3, taken)
		if err != nil {
			t.Fatal(err)
		}
		known := after(taken, p)
		for _, strip := range []bool{false, true} {
			q := *p
			if strip {
				q.Source = nil
			}
			body, err := seatplan.Export(&q)
			if err != nil {
				t.Fatal(err)
			}
			back, err := seatplan.Parse(bytes.NewReader(body), seatplan.Options{})
			if err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
			next, err := back.Plan(3, known)
			if err != nil {
				t.Fatal(err)
			}
			if next.Version != p.Version+1 {
				t.Fatalf("version %d after %d", next.Version, p.Version)
			}
			want := *p
			want.Version, want.Source, next.Source = next.Version, nil, nil
			if diff := cmp.Diff(&want, next); diff != "" {
				t.Fatalf("plan without source: %v (-exported +imported):\n%s\n%s", strip, diff, body)
			}
		}
	})
}

// TestIDsOverVersions: over any sequence of plans no id is ever given to a
// second guid, and no guid changes its id.
func TestIDsOverVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := seatflow.HallSeats{}
		owner := map[seatflow.SeatID]string{}
		for range rapid.IntRange(1, 6).Draw(t, "versions") {
			guids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-f]`), 1, 6, rapid.ID).Draw(t, "guids")
			d := seatplan.Generate(seatplan.GenerateOptions{Rows: 1, Seats: len(guids)})
			for i, g := range guids {
				d.Zones[0].Rows[0].Seats[i].GUID = g
			}
			p, err := d.Plan(1, known)
			if err != nil {
				t.Fatal(err)
			}
			used := map[seatflow.SeatID]bool{}
			for _, s := range p.Seats {
				if had, ok := owner[s.ID]; s.ID < 1 || used[s.ID] || ok && had != s.GUID {
					t.Fatalf("id %d of %q belonged to %q", s.ID, s.GUID, had)
				}
				if id, ok := known.ByGUID[s.GUID]; ok && id != s.ID {
					t.Fatalf("%q moved from id %d to %d", s.GUID, id, s.ID)
				}
				owner[s.ID], used[s.ID] = s.GUID, true
			}
			known = after(known, p)
		}
	})
}

// nearest returns the least distance between any two seats.
func nearest(p *seatflow.Plan) float64 {
	const cell = 40
	grid := map[[2]int][]int{}
	least := math.Inf(1)
	for i := range p.Seats {
		s := &p.Seats[i]
		cx, cy := int(math.Floor(s.X/cell)), int(math.Floor(s.Y/cell))
		for x := cx - 1; x <= cx+1; x++ {
			for y := cy - 1; y <= cy+1; y++ {
				for _, j := range grid[[2]int{x, y}] {
					least = min(least, math.Hypot(s.X-p.Seats[j].X, s.Y-p.Seats[j].Y))
				}
			}
		}
		grid[[2]int{cx, cy}] = append(grid[[2]int{cx, cy}], i)
	}
	return least
}

// TestGenerate: what is drawn up has exactly as many seats as asked for, can be
// published, fits its size, and no two seats (20 wide) overlap.
func TestGenerate(t *testing.T) {
	for _, o := range []seatplan.GenerateOptions{
		{}, {Rows: 1, Seats: 1}, {Rows: 2, Seats: 300}, {Rows: 18, Seats: 28, Name: "Small"}, {Rows: 200, Seats: 1000},
		{Rows: 1000, Seats: 3}, {Stadium: true}, {Stadium: true, Capacity: 100}, {Stadium: true, Capacity: 1999},
		{Stadium: true, Capacity: 200_000},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			if err := o.Check(); err != nil {
				t.Fatal(err)
			}
			want := max(o.Rows, 1) * max(o.Seats, 1)
			switch {
			case o.Stadium && o.Capacity == 0:
				want = seatplan.DefaultStadium
			case o.Stadium:
				want = o.Capacity
			case o.Rows == 0:
				want = 100
			}
			d := seatplan.Generate(o)
			p := publish(t, d, seatflow.HallSeats{})
			if len(p.Seats) != want {
				t.Errorf("%d seats, want %d", len(p.Seats), want)
			}
			for _, c := range d.SeatsByCategory() {
				if c.Seats == 0 {
					t.Errorf("category %q has no seat", c.Name)
				}
			}
			if least := nearest(p); least < 24 {
				t.Errorf("two seats are %.1f apart", least)
			}
			for _, s := range p.Seats {
				if s.X < 20 || s.Y < 20 || s.X > p.Width-20 || s.Y > p.Height-20 {
					t.Fatalf("seat %s at %v, %v is not within %v × %v", s.GUID, s.X, s.Y, p.Width, p.Height)
				}
			}
			again, err := seatplan.Generate(o).JSON()
			if err != nil || !bytes.Equal(again, p.Source) {
				t.Error("drawn up differently the second time")
			}
			if o.Stadium && want >= seatplan.DefaultStadium && (len(p.Categories) < 4 || len(p.Zones) < 100) {
				t.Errorf("%d categories, %d zones", len(p.Categories), len(p.Zones))
			}
		})
	}
}

// TestStadiumIsExact: whatever is left for the last row around.
func TestStadiumIsExact(t *testing.T) {
	for capacity := seatplan.MinStadium; capacity < 1500; capacity++ {
		if n := seatplan.Generate(seatplan.GenerateOptions{Stadium: true, Capacity: capacity}).Seats(); n != capacity {
			t.Fatalf("%d seats, want %d", n, capacity)
		}
	}
}

// TestGenerateIsMonotone: a hall that grows by rows keeps the guids it had.
func TestGenerateIsMonotone(t *testing.T) {
	small := guids(seatplan.Generate(seatplan.GenerateOptions{Rows: 4, Seats: 9}))
	large := guids(seatplan.Generate(seatplan.GenerateOptions{Rows: 7, Seats: 9}))
	if diff := cmp.Diff(small, large[:len(small)]); diff != "" {
		t.Error(diff)
	}
}

func TestGenerateOptions(t *testing.T) {
	for _, o := range []seatplan.GenerateOptions{
		{Rows: -1}, {Seats: -1}, {Rows: 201, Seats: 1000}, {Seats: 1001}, {Rows: math.MaxInt, Seats: math.MaxInt},
		{Stadium: true, Capacity: 99}, {Stadium: true, Capacity: 200_001}, {Stadium: true, Capacity: -1}, {Name: "a\x00b"},
	} {
		if o.Check() == nil {
			t.Errorf("%+v is taken", o)
		}
		if err := seatplan.Generate(o).Check(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// FuzzParse: any input gives a plan that can be published, written and read
// again, or a bounded list of faults; never a panic.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no faulty plans", err)
	}
	for _, file := range append(files, "testdata/chamber.json") {
		doc, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc, len(doc)%2 == 0)
	}
	f.Add([]byte(plan(seats(3), "")), false)
	f.Add([]byte(plan(seats(3), `,"more":{"a":[1,{"a":1,"a":2}]}`)), true)
	f.Fuzz(func(t *testing.T, doc []byte, byZone bool) {
		o := seatplan.Options{MaxSeats: 500, MaxBytes: 1 << 20, Progress: func(int, int) {}}
		if byZone {
			o.Disambiguate = seatplan.DisambiguateZone
		}
		d, err := seatplan.Parse(bytes.NewReader(doc), o)
		if err != nil {
			var faults *seatplan.FaultsError
			if !errors.As(err, &faults) || faults.Total == 0 || len(faults.Faults) == 0 || len(faults.Faults) > seatplan.MaxFaults {
				t.Fatalf("error %v", err)
			}
			return
		}
		p, err := d.Plan(1, seatflow.HallSeats{})
		if err != nil {
			t.Fatalf("taken, but cannot be published: %v", err)
		}
		seen := map[string]bool{}
		for _, s := range p.Seats {
			if seen[s.GUID] || s.GUID == "" || !(math.Abs(s.X) <= seatplan.MaxUnits) || !(math.Abs(s.Y) <= seatplan.MaxUnits) {
				t.Fatalf("seat %+v", s)
			}
			seen[s.GUID] = true
		}
		again, err := seatplan.Parse(bytes.NewReader(p.Source), o)
		if err != nil {
			t.Fatalf("written, but cannot be read: %v\n%s", err, p.Source)
		}
		d.Warnings = nil
		if diff := cmp.Diff(d, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkParseStadium(b *testing.B) {
	body, err := seatplan.Generate(seatplan.GenerateOptions{Stadium: true}).JSON()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := seatplan.Parse(bytes.NewReader(body), seatplan.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
