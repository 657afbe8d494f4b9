package seatplan_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seatflow"
	"seatflow/internal/seatplan"
)

var update = flag.Bool("update", false, "write the expected faults from what is found")

// faultsOf parses and returns the faults; it fails the test when the document
// is taken or the error is of another kind.
func faultsOf(t *testing.T, doc string, o seatplan.Options) *seatplan.FaultsError {
	t.Helper()
	_, err := seatplan.Parse(strings.NewReader(doc), o)
	var faults *seatplan.FaultsError
	if !errors.As(err, &faults) {
		t.Fatalf("error %v, want faults", err)
	}
	return faults
}

// TestFaultyPlans holds every faulty document to the whole list of its faults,
// in order, with path, place, kind and words.
func TestFaultyPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/faulty/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no faulty plans", err)
	}
	seen := map[seatplan.Kind]bool{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, by := range []string{"", seatplan.DisambiguateZone} {
				faults := faultsOf(t, string(doc), seatplan.Options{Disambiguate: by})
				total := 0
				for _, k := range faults.Kinds {
					total += k.Count
					seen[k.Kind] = true
				}
				if total != faults.Total || len(faults.Faults) != faults.Total {
					t.Errorf("%d faults listed, %d counted, %d in all", len(faults.Faults), total, faults.Total)
				}
				fmt.Fprintf(&got, "# disambiguate %q: %d\n%s\n", by, faults.Total, strings.Join(faults.Lines(), "\n"))
			}
			golden := strings.TrimSuffix(file, ".json") + ".faults"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	// These take a document too large to keep; TestLimits shows them.
	seen[seatplan.KindTooLarge], seen[seatplan.KindTooMany], seen[seatplan.KindTooManySeats] = true, true, true
	for _, k := range seatplan.Kinds {
		if !seen[k] {
			t.Errorf("no faulty plan shows %s", k)
		}
	}
}

// TestKindsAreDocumented holds the page about the format to the kinds of
// faults there are.
func TestKindsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/seat-plans.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, line := range strings.Split(string(page), "\n") {
		if kind, ok := strings.CutPrefix(line, "| `"); ok {
			kind, _, _ = strings.Cut(kind, "`")
			documented = append(documented, kind)
		}
	}
	for _, k := range seatplan.Kinds {
		if !slices.Contains(documented, string(k)) {
			t.Errorf("%s is not documented", k)
		}
	}
}

// seats writes n seats of one row.
func seats(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"seat_guid":"g%d","seat_number":"%d","position":{"x":%d,"y":0},"category":"A"}`, i, i, i)
	}
	return b.String()
}

// plan writes a document of one zone with one row.
func plan(seats, more string) string {
	return `{"name":"P","size":{"width":100,"height":100},"categories":[{"name":"A","color":"red"}],` +
		`"zones":[{"name":"Z","position":{"x":0,"y":0},"rows":[{"row_number":"1","seats":[` + seats + `]}]}]` + more + `}`
}

func onlyKind(t *testing.T, faults *seatplan.FaultsError, kind seatplan.Kind, total int) {
	t.Helper()
	if faults.Total != total || len(faults.Kinds) != 1 || faults.Kinds[0].Kind != kind {
		t.Errorf("%v, want %d × %s", faults, total, kind)
	}
}

func TestLimits(t *testing.T) {
	t.Run("seats", func(t *testing.T) {
		if _, err := seatplan.Parse(strings.NewReader(plan(seats(7), "")), seatplan.Options{MaxSeats: 7}); err != nil {
			t.Fatal(err)
		}
		faults := faultsOf(t, plan(seats(90), ""), seatplan.Options{MaxSeats: 7})
		onlyKind(t, faults, seatplan.KindTooManySeats, 1)
		// Said while reading, so that what is too much is not even kept.
		if got := faults.Faults[0].Message; got != "more than 7 seats" {
			t.Error(got)
		}
	})
	t.Run("a later row that lost all its seats is not called empty", func(t *testing.T) {
		doc := plan(seats(3), "")
		doc = strings.Replace(doc, `]}]}]`, `]},{"row_number":"2","seats":[`+strings.ReplaceAll(seats(2), `"g`, `"h`)+`]}]}]`, 1)
		onlyKind(t, faultsOf(t, doc, seatplan.Options{MaxSeats: 3}), seatplan.KindTooManySeats, 1)
	})
	t.Run("bytes", func(t *testing.T) {
		doc := plan(seats(2), "")
		if _, err := seatplan.Parse(strings.NewReader(doc), seatplan.Options{MaxBytes: int64(len(doc))}); err != nil {
			t.Fatal(err)
		}
		onlyKind(t, faultsOf(t, doc, seatplan.Options{MaxBytes: int64(len(doc)) - 1}), seatplan.KindTooLarge, 1)
	})
	t.Run("categories", func(t *testing.T) {
		var b strings.Builder
		for i := range seatplan.MaxCategories {
			fmt.Fprintf(&b, `,{"name":"c%d"}`, i)
		}
		doc := strings.Replace(plan(seats(1), ""), `,"color":"red"}]`, `}`+b.String()+`]`, 1)
		onlyKind(t, faultsOf(t, doc, seatplan.Options{}), seatplan.KindTooMany, 1)
	})
	t.Run("points", func(t *testing.T) {
		points := strings.Repeat(`{"x":0,"y":0},`, seatplan.MaxPoints) + `{"x":0,"y":0}`
		doc := strings.Replace(plan(seats(1), ""), `"rows"`, `"areas":[{"polygon":{"points":[`+points+`]}}],"rows"`, 1)
		onlyKind(t, faultsOf(t, doc, seatplan.Options{}), seatplan.KindTooMany, 1)
	})
	t.Run("faults are all counted and not all listed", func(t *testing.T) {
		n := seatplan.MaxFaults + 500
		doc := plan(strings.ReplaceAll(seats(n), `"category":"A"`, `"category":"B"`), "")
		faults := faultsOf(t, doc, seatplan.Options{})
		onlyKind(t, faults, seatplan.KindUnknownCategory, n)
		if len(faults.Faults) != seatplan.MaxFaults {
			t.Errorf("%d listed", len(faults.Faults))
		}
		if lines := faults.Lines(); lines[len(lines)-1] != "and 500 faults more" {
			t.Errorf("last line %q", lines[len(lines)-1])
		}
	})
	t.Run("depth", func(t *testing.T) {
		for _, c := range []struct {
			depth int
			kind  seatplan.Kind
		}{{seatplan.MaxDepth - 1, ""}, {seatplan.MaxDepth, seatplan.KindTooDeep}, {20_000, seatplan.KindTooDeep}} {
			doc := plan(seats(1), `,"more":`+strings.Repeat("[", c.depth)+strings.Repeat("]", c.depth))
			if c.kind == "" {
				if _, err := seatplan.Parse(strings.NewReader(doc), seatplan.Options{}); err != nil {
					t.Error(err)
				}
				continue
			}
			onlyKind(t, faultsOf(t, doc, seatplan.Options{}), c.kind, 1)
		}
	})
}

// TestPublicFaults: what a caller of the API is shown names every fault.
func TestPublicFaults(t *testing.T) {
	faults := faultsOf(t, plan(strings.ReplaceAll(seats(3), `"A"`, `"B"`), ""), seatplan.Options{})
	e := faults.Public()
	if e.Code != seatflow.CodeInvalid || e.Reason != seatflow.ReasonPlanFaults || len(e.Faults) != 3 || e.Args[0] != 3 {
		t.Errorf("%+v", e)
	}
	if !errors.Is(e, faults) {
		t.Error("the cause is lost")
	}
	want := `zones[0].rows[0].seats[1].category (zone "Z", row "1", seat "1"): unknown_category: there is no category "B"`
	if e.Faults[1] != want {
		t.Errorf("got  %s\nwant %s", e.Faults[1], want)
	}
}

type brokenReader struct{}

var errBroken = errors.New("the disk is on fire")

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

func TestErrorsThatAreNoFaults(t *testing.T) {
	if _, err := seatplan.Parse(brokenReader{}, seatplan.Options{}); !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
	_, err := seatplan.Parse(strings.NewReader(plan(seats(1), "")), seatplan.Options{Disambiguate: "row"})
	var faults *seatplan.FaultsError
	if err == nil || errors.As(err, &faults) {
		t.Errorf("error %v", err)
	}
}
