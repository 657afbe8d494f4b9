package catalog_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/catalog"
	"seatflow/internal/ledger"
	"seatflow/internal/seatplan"
	"seatflow/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)

// house is a catalog over a real ledger that fails as told.
type house struct {
	*catalog.Service
	ledger *testkit.FaultyLedger
	clock  *testkit.FakeClock
}

func newHouse(t *testing.T) *house {
	t.Helper()
	clock := testkit.NewFakeClock(noon)
	l, err := ledger.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "facts.db"), ledger.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	f := testkit.NewFaultyLedger(l)
	return &house{catalog.New(f, clock, slog.New(slog.DiscardHandler)), f, clock}
}

func (h *house) hall(t *testing.T) seatflow.Hall {
	t.Helper()
	hall, err := h.CreateHall(t.Context(), seatflow.Hall{Name: "Lindenhof", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	return hall
}

func (h *house) publish(t *testing.T, hall seatflow.HallID, o seatplan.GenerateOptions) *seatflow.Plan {
	t.Helper()
	p, err := h.ImportPlan(t.Context(), hall, seatplan.Generate(o))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// show is one that may be created in a hall of generated rows.
func show(hall seatflow.HallID) seatflow.Show {
	return seatflow.Show{
		Hall: hall, Title: "Opening night", Starts: noon.Add(30 * time.Hour), Ends: noon.Add(33 * time.Hour),
		Currency: "EUR", Prices: map[string]int64{"Front": 4900, "Middle": 2900}, LimitPerUser: catalog.Inherit, ExtendBy: catalog.Inherit,
	}
}

func (h *house) create(t *testing.T) seatflow.Show {
	t.Helper()
	hall := h.hall(t)
	h.publish(t, hall.ID, seatplan.GenerateOptions{})
	s, err := h.CreateShow(t.Context(), show(hall.ID))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// field returns the field that an error refuses, or the error itself in words.
func field(err error) string {
	var e *seatflow.Error
	if errors.As(err, &e) && e.Code == seatflow.CodeInvalid && e.Reason == seatflow.ReasonField && len(e.Args) == 1 {
		return e.Field
	}
	if err == nil {
		return "nothing"
	}
	return err.Error()
}

// rows is a ledger of one hall in memory, for tests of what is cached.
type rows struct {
	seatflow.Ledger // any other method is a mistake

	house *seatflow.House
	show  func(ctx context.Context, id seatflow.ShowID) (seatflow.Show, error)
	reads int
}

func newRows(id seatflow.ShowID) *rows {
	plan, err := seatplan.Generate(seatplan.GenerateOptions{}).Plan(1, seatflow.HallSeats{})
	if err != nil {
		panic(err)
	}
	s := show(1)
	s.ID, s.PlanVersion, s.Version, s.Generation = id, 1, 1, 1
	r := &rows{house: seatflow.NewHouse(s, seatflow.Hall{ID: 1, Name: "Lindenhof", Zone: "Europe/Berlin"}, plan)}
	r.show = func(_ context.Context, id seatflow.ShowID) (seatflow.Show, error) {
		if id != r.house.Show.ID {
			return seatflow.Show{}, seatflow.ErrNotFound
		}
		return r.house.Show, nil
	}
	return r
}

func (r *rows) Show(ctx context.Context, id seatflow.ShowID) (seatflow.Show, error) {
	r.reads++
	return r.show(ctx, id)
}

func (r *rows) Hall(context.Context, seatflow.HallID) (seatflow.Hall, error) {
	return r.house.Hall, nil
}

func (r *rows) Plan(context.Context, seatflow.HallID, seatflow.PlanVersion) (*seatflow.Plan, error) {
	return r.house.Plan, nil
}
