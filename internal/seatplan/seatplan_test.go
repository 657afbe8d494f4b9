package seatplan_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seatflow"
	"seatflow/internal/seatplan"
)

func read(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func parse(t testing.TB, doc string, o seatplan.Options) *seatplan.Document {
	t.Helper()
	d, err := seatplan.Parse(strings.NewReader(doc), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func publish(t testing.TB, d *seatplan.Document, known seatflow.HallSeats) *seatflow.Plan {
	t.Helper()
	p, err := d.Plan(7, known)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// after is what a hall knows once a plan is published on top of it.
func after(known seatflow.HallSeats, p *seatflow.Plan) seatflow.HallSeats {
	next := seatflow.HallSeats{Latest: p.Version, ByGUID: map[string]seatflow.SeatID{}, NextID: max(1, known.NextID)}
	for guid, id := range known.ByGUID {
		next.ByGUID[guid] = id
	}
	for _, s := range p.Seats {
		next.ByGUID[s.GUID] = s.ID
		next.NextID = max(next.NextID, s.ID+1)
	}
	return next
}

// TestRepeatedAcrossZones: the theatre of the older field set uses 52 guids in
// the stalls and again in the gallery. It is refused with each of them named,
// and nothing else is wrong with it.
func TestRepeatedAcrossZones(t *testing.T) {
	faults := faultsOf(t, read(t, "theatre.json"), seatplan.Options{})
	onlyKind(t, faults, seatplan.KindRepeatedAcross, 52)
	named := map[string]bool{}
	for _, f := range faults.Faults {
		for _, row := range []string{"11", "12"} {
			for n := range 26 {
				if guid := fmt.Sprintf("%s-%d", row, n+1); strings.Contains(f.Message, fmt.Sprintf("guid %q is used", guid)) {
					named[guid] = true
				}
			}
		}
	}
	if len(named) != 52 {
		t.Errorf("%d guids are named, want 52", len(named))
	}
	want := seatplan.Fault{
		Path: "zones[1].rows[1].seats[2].seat_guid", Place: `zone "Gallery", row "12", seat "3"`, Kind: seatplan.KindRepeatedAcross,
		Message: `guid "12-3" is used in 2 zones; it also stands at zone "Stalls", row "12", seat "3"`,
	}
	if !slices.Contains(faults.Faults, want) {
		t.Errorf("%+v is missing", want)
	}
}

func guids(d *seatplan.Document) []string {
	var all []string
	for _, z := range d.Zones {
		for _, r := range z.Rows {
			for _, s := range r.Seats {
				all = append(all, s.GUID)
			}
		}
	}
	return all
}

func TestDisambiguate(t *testing.T) {
	byZone := seatplan.Options{Disambiguate: seatplan.DisambiguateZone}
	theatre := parse(t, read(t, "theatre.json"), byZone)
	want := []seatplan.Count{{Name: "Stalls", Seats: 276}, {Name: "Gallery", Seats: 108}}
	if diff := cmp.Diff(want, theatre.SeatsByZone()); diff != "" {
		t.Error(diff)
	}
	p := publish(t, theatre, seatflow.HallSeats{})
	distinct := map[string]bool{}
	for _, s := range p.Seats {
		distinct[s.GUID] = true
	}
	if len(p.Seats) != 384 || len(distinct) != 384 {
		t.Fatalf("%d seats with %d guids", len(p.Seats), len(distinct))
	}
	if !distinct["Stalls/11-1"] || !distinct["Gallery/11-1"] || !distinct["Stalls/1-1"] {
		t.Error("guids are not prefixed with their zone, whether they repeat or not")
	}

	t.Run("an export of it is as it was, with the option or without", func(t *testing.T) {
		body, err := seatplan.Export(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []seatplan.Options{{}, byZone} {
			if diff := cmp.Diff(theatre, parse(t, string(body), o)); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("a zone keeps its guids whatever other zones there are", func(t *testing.T) {
		less := parse(t, read(t, "theatre.json"), byZone)
		less.Zones = less.Zones[1:]
		body, err := less.JSON()
		if err != nil {
			t.Fatal(err)
		}
		body = []byte(strings.ReplaceAll(string(body), "Gallery/", ""))
		alone := parse(t, string(body), byZone)
		if diff := cmp.Diff(guids(theatre)[276:], guids(alone)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the id of a zone counts for more than its name", func(t *testing.T) {
		d := parse(t, read(t, "chamber.json"), byZone)
		if g := guids(d); g[0] != "SAL/sal-A1" || g[len(g)-1] != "BOX/box-4-4" {
			t.Errorf("guids %s … %s", g[0], g[len(g)-1])
		}
	})
	t.Run("no two zones share a prefix", func(t *testing.T) {
		doc := func(zone1, guid1, zone2, guid2 string) string {
			zone := func(name, guid string) string {
				return fmt.Sprintf(`{"name":%q,"position":{"x":0,"y":0},"rows":[{"row_number":"1","seats":[`+
					`{"seat_guid":%q,"seat_number":"1","position":{"x":0,"y":0},"category":"A"}]}]}`, name, guid)
			}
			return `{"name":"P","size":{"width":9,"height":9},"categories":[{"name":"A"}],"zones":[` +
				zone(zone1, guid1) + "," + zone(zone2, guid2) + `]}`
		}
		for _, c := range [][4]string{
			{"A", "B/1", "A/B", "1"}, {"A/", "1", "A", "/1"}, {"A%2F", "1", "A/", "1"}, {"A", "A/A/1", "A/A", "1"},
		} {
			g := guids(parse(t, doc(c[0], c[1], c[2], c[3]), byZone))
			if g[0] == g[1] {
				t.Errorf("%q: both became %q", c, g[0])
			}
		}
		// A guid that looks prefixed meets one that becomes so: refused, not merged.
		merged := strings.Replace(doc("A", "1", "B", "2"), `}]}]},`,
			`},{"seat_guid":"A/1","seat_number":"2","position":{"x":1,"y":0},"category":"A"}]}]},`, 1)
		onlyKind(t, faultsOf(t, merged, byZone), seatplan.KindRepeatedGUID, 1)
	})
}

// TestChamber reads a plan of the newer field set with every kind of area.
func TestChamber(t *testing.T) {
	d := parse(t, read(t, "chamber.json"), seatplan.Options{})
	if len(d.Warnings) != 0 {
		t.Errorf("warnings %q", d.Warnings)
	}
	r := d.Zones[0].Rows[1]
	want := seatplan.Row{
		Number: "B", Label: "Row %s", SeatLabel: "Chair %s", NumberPosition: "end",
		UUID: r.UUID, Position: seatplan.Point{X: 10.5, Y: 60.5}, Seats: r.Seats,
	}
	if diff := cmp.Diff(want, r); diff != "" || r.UUID == "" {
		t.Error(diff)
	}
	seat := r.Seats[6]
	wantSeat := seatplan.Seat{
		GUID: "sal-B7", Number: "7", Category: "Salon", UUID: seat.UUID, StartDirection: "<>",
		Position: seatplan.Point{X: 189, Y: -0.03}, Radius: 11,
	}
	if i := slices.IndexFunc(r.Seats, func(s seatplan.Seat) bool { return s.StartDirection != "" }); i != 6 {
		t.Errorf("the row starts at seat %d", i)
	}
	if diff := cmp.Diff(wantSeat, seat); diff != "" || seat.UUID == "" {
		t.Error(diff)
	}

	p := publish(t, d, seatflow.HallSeats{})
	if p.Hall != 7 || p.Version != 1 || p.Name != "Kammersaal Süd" || p.Width != 780 || p.Height != 620 {
		t.Errorf("plan %+v", *p)
	}
	wantCategories := []seatflow.Category{
		{Name: "Salon", Color: "#7a5195"}, {Name: "Salon, back", Color: "#008080"}, {Name: "Box", Color: "#59a14f"},
	}
	if diff := cmp.Diff(wantCategories, p.Categories); diff != "" {
		t.Error(diff)
	}
	// Positions add up: zone + row + seat; a row need not have one.
	got := p.Seats[slices.IndexFunc(p.Seats, func(s seatflow.PlanSeat) bool { return s.GUID == "sal-B7" })]
	wantPlanSeat := seatflow.PlanSeat{
		ID: 19, GUID: "sal-B7", Zone: 0, Category: 0, Row: "Row B", Number: "7",
		X: 40.5 + 10.5 + 189, Y: 120.25 + 60.5 - 0.03, Radius: 11,
	}
	if diff := cmp.Diff(wantPlanSeat, got); diff != "" {
		t.Error(diff)
	}
	if last := p.Seats[len(p.Seats)-1]; last.Row != "Box" || last.Number != "d" || last.X != 730 || last.Y != 380 {
		t.Errorf("last seat %+v", last)
	}
	wantAreas := []seatflow.Area{
		{Shape: "ellipse", X: 340.5, Y: 60.25, Color: "#f3e9d2", BorderColor: "#c6ac8f", RadiusX: 160, RadiusY: 36,
			Text: "Podium", TextColor: "#5e503f", TextSize: 18},
		{Shape: "circle", X: 60.5, Y: 540.25, Color: "#78787880", RadiusX: 24, RadiusY: 24},
		{Shape: "polygon", X: 40.5, Y: 120.25, Rotation: -7.5, Color: "#f5f5f5",
			Points: [][2]float64{{0, 0}, {610.5, 0}, {580, 330.25}, {30, 330.25}}},
		{Shape: "text", X: 340.5, Y: 570.25, Text: "Entrance\nthis side", TextColor: "#333333", TextSize: seatplan.DefaultTextSize},
	}
	if diff := cmp.Diff(wantAreas, p.Zones[0].Areas); diff != "" {
		t.Error(diff)
	}
}

// TestFirstEditor reads what only the first editor wrote, and what is not
// known at all.
func TestFirstEditor(t *testing.T) {
	const doc = "\ufeff" + `{"name":"Old","categories":[{"name":"A"}],"made_by":"hand","zones":[
	 {"position":{"x":10,"y":20},"displayed":true,"areas":[
	   {"width":200,"height":50,"position":{"x":1,"y":2},"text":"STAGE"},
	   {"shape":"rectangle","width":4,"height":5},
	   {"circle":{"radius":3},"rectangle":{"width":1,"height":1},"shape":"circle"}],
	  "rows":[
	   {"row_number":"1","number_of_seats":2,"seats_spacing":30,"seats":[
	    {"seat_guid":"a","seat_number":"1","position":{"x":0,"y":100},"category":"A","tilt":1},
	    {"seat_guid":"b","seat_number":"2","position":{"x":30.5,"y":100},"category":"A","tilt":2}]}]}]}`
	d := parse(t, doc, seatplan.Options{})
	wantWarnings := []string{
		"the document starts with a byte order mark, ignored",
		"made_by: not known, ignored 1 time",
		"zones[].rows[].seats[].tilt: not known, ignored 2 times",
		"size is missing; 71 × 150 fits the seats",
	}
	if diff := cmp.Diff(wantWarnings, d.Warnings); diff != "" {
		t.Error(diff)
	}
	wantAreas := []seatplan.Area{
		{Shape: "rectangle", Position: seatplan.Point{X: 1, Y: 2}, Width: 200, Height: 50,
			Text: &seatplan.Text{Text: "STAGE", Position: seatplan.Point{X: 100, Y: 25}}},
		{Shape: "rectangle", Width: 4, Height: 5},
		{Shape: "circle", Radius: seatplan.Point{X: 3, Y: 3}},
	}
	if diff := cmp.Diff(wantAreas, d.Zones[0].Areas); diff != "" {
		t.Error(diff)
	}
	if d.Width != 71 || d.Height != 150 {
		t.Errorf("size %v × %v", d.Width, d.Height)
	}
}

func TestManyUnknownMembers(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, `,"m%d":{"deep":[1,{"x":null}]}`, i)
	}
	d := parse(t, plan(seats(1), b.String()), seatplan.Options{})
	if len(d.Warnings) != 101 || d.Warnings[0] != "further members that are not known, ignored 400 times" {
		t.Errorf("%d warnings, first %q", len(d.Warnings), d.Warnings[0])
	}
}

// TestSeatIDs: ids go by document order, stay with their guid, and are never
// given twice, whatever comes and goes.
func TestSeatIDs(t *testing.T) {
	d := parse(t, plan(seats(5), ""), seatplan.Options{})
	first := publish(t, d, seatflow.HallSeats{ByGUID: map[string]seatflow.SeatID{}})
	for i, s := range first.Seats {
		if s.ID != seatflow.SeatID(i+1) {
			t.Errorf("seat %d has id %d", i, s.ID)
		}
	}
	if again := publish(t, d, seatflow.HallSeats{}); !cmp.Equal(first, again) {
		t.Error(cmp.Diff(first, again))
	}

	known := after(seatflow.HallSeats{}, first)
	row := &d.Zones[0].Rows[0]
	gone := row.Seats[4]
	// The last two chairs go, one comes at the front, the rest swap around.
	fresh := seatplan.Seat{GUID: "fresh", Number: "0", Category: "A"}
	row.Seats = []seatplan.Seat{fresh, row.Seats[2], row.Seats[1], row.Seats[0]}
	second := publish(t, d, known)
	if second.Version != 2 {
		t.Errorf("version %d", second.Version)
	}
	for i, want := range []seatflow.SeatID{6, 3, 2, 1} {
		if second.Seats[i].ID != want {
			t.Errorf("seat %s has id %d, want %d", second.Seats[i].GUID, second.Seats[i].ID, want)
		}
	}

	known = after(known, second)
	row.Seats = append(row.Seats, gone, seatplan.Seat{GUID: "fresher", Number: "9", Category: "A"})
	third := publish(t, d, known)
	if got := third.Seats[4]; got.ID != 5 || got.GUID != gone.GUID {
		t.Errorf("the chair that came back has id %d, want 5", got.ID)
	}
	if got := third.Seats[5]; got.ID != 7 {
		t.Errorf("the newest chair has id %d, want 7", got.ID)
	}
}

func TestIDsRunOut(t *testing.T) {
	d := parse(t, plan(seats(3), ""), seatplan.Options{})
	if _, err := d.Plan(1, seatflow.HallSeats{NextID: 1<<31 - 3}); err == nil {
		t.Error("ids beyond their type were given")
	}
}

// TestHandMade: a document that was not parsed is judged all the same.
func TestHandMade(t *testing.T) {
	d := seatplan.Generate(seatplan.GenerateOptions{})
	d.Zones[0].Rows[0].Seats[0].Category = "Nowhere"
	d.Zones[0].Rows[0].Seats[1].GUID = d.Zones[0].Rows[1].Seats[1].GUID
	d.Name = "\xff"
	if err := d.Check(); err == nil {
		t.Error("taken")
	}
	if _, err := d.Plan(1, seatflow.HallSeats{}); err == nil {
		t.Error("published")
	}
	if _, err := d.JSON(); err == nil {
		t.Error("written as JSON though it is not UTF-8")
	}
}

func TestProgress(t *testing.T) {
	doc := read(t, "theatre.json")
	last, calls := 0, 0
	parse(t, doc, seatplan.Options{Disambiguate: seatplan.DisambiguateZone, Progress: func(done, total int) {
		calls++
		if total != len(doc) || done < last || done > total {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	}})
	if last != len(doc) || calls < 10 || calls > 110 {
		t.Errorf("%d calls, the last at %d of %d", calls, last, len(doc))
	}
}

func TestParseColor(t *testing.T) {
	for in, want := range map[string]string{
		"#eee": "#eeeeee", "#AbC8": "#aabbcc88", "#7f4a91": "#7f4a91", "#7F4A9180": "#7f4a9180", " Teal ": "#008080",
		"transparent": "transparent", "rgb(1, 2,3)": "#010203", "rgba(255,0,0,0.5)": "#ff000080", "rebeccapurple": "#663399",
	} {
		if got, ok := seatplan.ParseColor(in); !ok || got != want {
			t.Errorf("%q: %q %v, want %q", in, got, ok, want)
		}
	}
	for _, in := range []string{
		"", "#", "#12", "#12345", "#ggg", "reddish", "rgb(1,2)", "rgb(1,2,256)", "rgb(1,2,-1)", "rgb(1,2,NaN)",
		"rgba(1,2,3,2)", "rgb(1,2,3", "url(x)", "red;", strings.Repeat("f", 100),
	} {
		if got, ok := seatplan.ParseColor(in); ok {
			t.Errorf("%q: taken as %q", in, got)
		}
	}
}
