package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seatflow"
	"seatflow/internal/catalog"
	"seatflow/internal/seatplan"
	"seatflow/internal/testkit"
)

func TestHalls(t *testing.T) {
	h := newHouse(t)
	for want, hall := range map[string]seatflow.Hall{
		"name": {Name: " ", Zone: "UTC"}, "name ": {Name: strings.Repeat("ä", 201), Zone: "UTC"},
		"name  ": {Name: "a\nb", Zone: "UTC"}, "name   ": {Name: "a\xff", Zone: "UTC"},
		"zone": {Name: "A"}, "zone ": {Name: "A", Zone: "Local"}, "zone  ": {Name: "A", Zone: "Europe/Nowhere"},
		"zone   ": {Name: "A", Zone: "../../etc/passwd"},
	} {
		if _, err := h.CreateHall(t.Context(), hall); field(err) != strings.TrimSpace(want) {
			t.Errorf("%+v: %v", hall, err)
		}
	}
	first, second := h.hall(t), h.hall(t)
	if !first.CreatedAt.Equal(noon) || first.ID == second.ID {
		t.Errorf("halls %+v, %+v", first, second)
	}
	halls, err := h.Halls(t.Context(), first.ID, 10)
	if err != nil || !cmp.Equal(halls, []seatflow.Hall{second}) {
		t.Errorf("halls %+v, %v", halls, err)
	}
	if got, err := h.Hall(t.Context(), second.ID); err != nil || got != second {
		t.Errorf("hall %+v, %v", got, err)
	}
	if _, err := h.Hall(t.Context(), 99); seatflow.CodeOf(err) != seatflow.CodeNotFound || !errors.Is(err, seatflow.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// TestImportPlan: the plan that comes back is the one stored, exports to what
// was imported, and its next version keeps ids.
func TestImportPlan(t *testing.T) {
	h := newHouse(t)
	hall := h.hall(t)
	doc := seatplan.Generate(seatplan.GenerateOptions{Rows: 4, Seats: 9})
	p, err := h.ImportPlan(t.Context(), hall.ID, doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []seatflow.PlanVersion{0, 1} {
		stored, err := h.Plan(t.Context(), hall.ID, version)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, stored); diff != "" {
			t.Errorf("version %d (-imported +stored):\n%s", version, diff)
		}
	}
	body, err := seatplan.Export(p)
	if err != nil {
		t.Fatal(err)
	}
	back, err := seatplan.Parse(bytes.NewReader(body), seatplan.Options{})
	if diff := cmp.Diff(doc, back); err != nil || diff != "" {
		t.Errorf("%v (-imported +exported):\n%s", err, diff)
	}

	next := h.publish(t, hall.ID, seatplan.GenerateOptions{Rows: 6, Seats: 9})
	if next.Version != 2 || len(next.Seats) != 54 {
		t.Fatalf("version %d, %d seats", next.Version, len(next.Seats))
	}
	for i, s := range next.Seats {
		if s.ID != seatflow.SeatID(i+1) {
			t.Fatalf("seat %s has id %d", s.GUID, s.ID)
		}
	}
	if _, err := h.Plan(t.Context(), hall.ID, 3); seatflow.CodeOf(err) != seatflow.CodeNotFound {
		t.Errorf("version 3: %v", err)
	}
	if _, err := h.ImportPlan(t.Context(), 99, doc); seatflow.CodeOf(err) != seatflow.CodeNotFound {
		t.Errorf("hall 99: %v", err)
	}
	doc.Zones[0].Rows[0].Seats[0].GUID = ""
	var e *seatflow.Error
	if _, err := h.ImportPlan(t.Context(), hall.ID, doc); !errors.As(err, &e) || e.Reason != seatflow.ReasonPlanFaults || len(e.Faults) != 1 {
		t.Errorf("a faulty plan: %v", err)
	}
}

// TestImportRaces: of many imports at once each gets a version of its own, and
// no id is given to two chairs.
func TestImportRaces(t *testing.T) {
	h := newHouse(t)
	hall := h.hall(t)
	const n = 6
	plans := make([]*seatflow.Plan, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			doc := seatplan.Generate(seatplan.GenerateOptions{Rows: 1, Seats: 5})
			for s := range doc.Zones[0].Rows[0].Seats {
				doc.Zones[0].Rows[0].Seats[s].GUID = fmt.Sprintf("%d-%d", i, s)
			}
			p, err := h.ImportPlan(context.Background(), hall.ID, doc)
			if err != nil {
				t.Error(err)
				return
			}
			plans[i] = p
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	versions, owner := map[seatflow.PlanVersion]bool{}, map[seatflow.SeatID]string{}
	for _, p := range plans {
		versions[p.Version] = true
		for _, s := range p.Seats {
			if had, ok := owner[s.ID]; ok && had != s.GUID {
				t.Errorf("id %d is of %s and of %s", s.ID, had, s.GUID)
			}
			owner[s.ID] = s.GUID
		}
	}
	if len(versions) != n || len(owner) != 5*n || !versions[n] {
		t.Errorf("%d versions, %d ids", len(versions), len(owner))
	}
}

// TestImportUnknown: an import whose commit is unknown is looked up, and
// published once.
func TestImportUnknown(t *testing.T) {
	for name, action := range map[string]testkit.Action{
		"committed":     testkit.FailAfter(seatflow.ErrUnknownCommit),
		"not committed": testkit.FailBefore(seatflow.ErrUnknownCommit),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			hall := h.hall(t)
			h.ledger.On("PublishPlan", action, testkit.Times(1))
			if p := h.publish(t, hall.ID, seatplan.GenerateOptions{}); p.Version != 1 {
				t.Errorf("version %d", p.Version)
			}
			if latest, err := h.Plan(t.Context(), hall.ID, 0); err != nil || latest.Version != 1 {
				t.Errorf("latest %+v, %v", latest, err)
			}
		})
	}
	t.Run("cannot be looked up", func(t *testing.T) {
		h := newHouse(t)
		hall := h.hall(t)
		h.ledger.On("PublishPlan", testkit.FailAfter(seatflow.ErrUnknownCommit), testkit.Times(1))
		h.ledger.On("Plan", testkit.FailBefore(seatflow.ErrNotCommitted), testkit.Times(1))
		_, err := h.ImportPlan(t.Context(), hall.ID, seatplan.Generate(seatplan.GenerateOptions{}))
		var e *seatflow.Error
		if !errors.As(err, &e) || e.Reason != seatflow.ReasonOutcomeUnknown {
			t.Errorf("error %v", err)
		}
	})
	t.Run("always lost", func(t *testing.T) {
		h := newHouse(t)
		hall := h.hall(t)
		h.ledger.On("PublishPlan", testkit.FailBefore(seatflow.ErrWrongState))
		_, err := h.ImportPlan(t.Context(), hall.ID, seatplan.Generate(seatplan.GenerateOptions{}))
		if seatflow.CodeOf(err) != seatflow.CodeWrongState {
			t.Errorf("error %v", err)
		}
	})
}

func TestCreateShowDefaults(t *testing.T) {
	h := newHouse(t)
	hall := h.hall(t)
	h.publish(t, hall.ID, seatplan.GenerateOptions{Rows: 3})
	h.publish(t, hall.ID, seatplan.GenerateOptions{Rows: 9})
	s := show(hall.ID)
	s.Generation, s.Version, s.Partition = 17, 18, 63 // not the caller's
	got, err := h.CreateShow(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	want := show(hall.ID)
	want.ID, want.PlanVersion, want.Version, want.Generation, want.CreatedAt = got.ID, 2, 1, 1, noon
	want.SaleFrom, want.SaleUntil = noon, want.Starts
	want.LimitPerUser, want.HoldFor, want.HoldCap = 6, 15*time.Minute, 30*time.Minute
	want.ExtendBy, want.Status, want.Partition = 5*time.Minute, seatflow.ShowPublished, got.Partition
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Partition >= seatflow.Partitions {
		t.Errorf("partition %d", got.Partition)
	}
	// Shows of a hall share a partition.
	other, err := h.CreateShow(t.Context(), show(hall.ID))
	if err != nil || other.Partition != got.Partition {
		t.Errorf("partition %d, want %d (%v)", other.Partition, got.Partition, err)
	}
	s = show(hall.ID)
	s.LimitPerUser, s.HoldFor, s.ExtendBy = 0, 2*time.Hour, 0
	if got, err := h.CreateShow(t.Context(), s); err != nil || got.LimitPerUser != 0 || got.HoldCap != 2*time.Hour || got.ExtendBy != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	h.SetDefaults(catalog.Defaults{LimitPerUser: 3, HoldFor: time.Minute, HoldCap: 2 * time.Minute, ExtendBy: 30 * time.Second})
	if got, err := h.CreateShow(t.Context(), show(hall.ID)); err != nil || got.LimitPerUser != 3 || got.HoldFor != time.Minute ||
		got.HoldCap != 2*time.Minute || got.ExtendBy != 30*time.Second {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPartitionsSpread: halls do not crowd into few partitions.
func TestPartitionsSpread(t *testing.T) {
	used := map[seatflow.Partition]int{}
	for id := range seatflow.HallID(6400) {
		used[catalog.PartitionOf(id+1)]++
	}
	for p, n := range used {
		if n < 50 || n > 150 {
			t.Errorf("partition %d has %d of 6,400 halls", p, n)
		}
	}
	if len(used) != seatflow.Partitions {
		t.Errorf("%d partitions are used", len(used))
	}
}

// TestShowsRefused names the field of everything that a show may not be.
func TestShowsRefused(t *testing.T) {
	h := newHouse(t)
	stored := h.create(t)
	bare := h.hall(t)
	for _, c := range []struct {
		field string
		spoil func(s *seatflow.Show)
	}{
		{"title", func(s *seatflow.Show) { s.Title = "" }},
		{"title", func(s *seatflow.Show) { s.Title = strings.Repeat("x", 201) }},
		{"title", func(s *seatflow.Show) { s.Title = "a\x00b" }},
		{"hallId", func(s *seatflow.Show) { s.Hall = 99 }},
		{"hallId", func(s *seatflow.Show) { s.Hall = bare.ID }},
		{"planVersion", func(s *seatflow.Show) { s.PlanVersion = 7 }},
		{"planVersion", func(s *seatflow.Show) { s.PlanVersion = -1 }},
		{"starts", func(s *seatflow.Show) { s.Starts = time.Time{} }},
		{"ends", func(s *seatflow.Show) { s.Ends = time.Time{} }},
		{"ends", func(s *seatflow.Show) { s.Ends = s.Starts }},
		{"saleUntil", func(s *seatflow.Show) { s.SaleFrom = s.Starts }},
		{"saleUntil", func(s *seatflow.Show) { s.SaleUntil = s.Ends.Add(1) }},
		{"saleFrom", func(s *seatflow.Show) { s.SaleFrom = time.Date(9001, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"currency", func(s *seatflow.Show) { s.Currency = "" }},
		{"currency", func(s *seatflow.Show) { s.Currency = "eur" }},
		{"currency", func(s *seatflow.Show) { s.Currency = "EURO" }},
		{"prices", func(s *seatflow.Show) { s.Prices = nil }},
		{"prices.Nowhere", func(s *seatflow.Show) { s.Prices = map[string]int64{"Nowhere": 1} }},
		{"prices.Front", func(s *seatflow.Show) { s.Prices = map[string]int64{"Front": -1} }},
		{"prices.Front", func(s *seatflow.Show) { s.Prices = map[string]int64{"Front": math.MaxInt64} }},
		{"limitPerUser", func(s *seatflow.Show) { s.LimitPerUser = 51 }},
		{"limitPerUser", func(s *seatflow.Show) { s.LimitPerUser = -2 }},
		{"holdSeconds", func(s *seatflow.Show) { s.HoldFor = 4999 * time.Millisecond }},
		{"holdSeconds", func(s *seatflow.Show) { s.HoldFor = 24*time.Hour + 1 }},
		{"holdSeconds", func(s *seatflow.Show) { s.HoldFor = -time.Hour }},
		{"holdCapSeconds", func(s *seatflow.Show) { s.HoldFor, s.HoldCap = time.Hour, time.Minute }},
		{"extendSeconds", func(s *seatflow.Show) { s.ExtendBy = -time.Second }},
		{"status", func(s *seatflow.Show) { s.Status = "postponed" }},
	} {
		s := show(stored.Hall)
		c.spoil(&s)
		if _, err := h.CreateShow(t.Context(), s); field(err) != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	if h.ledger.Calls("CreateShow") != 1 {
		t.Errorf("%d shows reached the ledger, want 1", h.ledger.Calls("CreateShow"))
	}

	for _, c := range []struct {
		field string
		spoil func(s *seatflow.Show)
	}{
		{"hallId", func(s *seatflow.Show) { s.Hall = bare.ID }},
		{"planVersion", func(s *seatflow.Show) { s.PlanVersion = 2 }},
		{"currency", func(s *seatflow.Show) { s.Currency = "CHF" }},
		{"ends", func(s *seatflow.Show) { s.Ends = s.Starts }},
		{"prices.Middle", func(s *seatflow.Show) { s.Prices = map[string]int64{"Front": 1} }},
	} {
		s := stored
		c.spoil(&s)
		if _, err := h.UpdateShow(t.Context(), s); field(err) != c.field {
			t.Errorf("update %s: %v", c.field, err)
		}
	}
	if h.ledger.Calls("UpdateShow") != 0 {
		t.Error("an update that was refused reached the ledger")
	}
}

func TestUpdateShow(t *testing.T) {
	h := newHouse(t)
	stored := h.create(t)
	before, err := h.House(t.Context(), stored.ID)
	if err != nil {
		t.Fatal(err)
	}
	s := stored
	s.Title, s.Status = "Last night", seatflow.ShowCancelled
	s.Prices = map[string]int64{"Front": 5100, "Middle": 3100, "Rear": 0}
	s.Generation = 99
	got, err := h.UpdateShow(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	want := s
	want.Version, want.Generation = stored.Version+1, stored.Generation
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !catalog.NeedsView(&stored, &got) || catalog.NeedsView(&got, &stored) {
		t.Error("the category that joined is not noticed")
	}
	// The house that was handed out stays as it was; the next is the new one.
	after, err := h.House(t.Context(), stored.ID)
	if err != nil || after.Show.Title != "Last night" || before.Show.Title != "Opening night" {
		t.Errorf("before %q, after %q, %v", before.Show.Title, after.Show.Title, err)
	}
	if price, ok := after.Price(&after.Plan.Seats[99]); !ok || price != 0 {
		t.Errorf("price %d %v", price, ok)
	}

	_, err = h.UpdateShow(t.Context(), s) // with the old version
	var e *seatflow.Error
	if !errors.As(err, &e) || e.Code != seatflow.CodeWrongState || e.Reason != seatflow.ReasonVersion {
		t.Errorf("error %v", err)
	}
	s.ID = 99
	if _, err := h.UpdateShow(t.Context(), s); seatflow.CodeOf(err) != seatflow.CodeNotFound {
		t.Errorf("error %v", err)
	}
}

// A show moves to another partition until shortly before its sale, not while
// an order is pending, and needs a view there.
func TestAShowMoves(t *testing.T) {
	h := newHouse(t)
	stored := h.create(t)
	elsewhere := func(s seatflow.Show) seatflow.Show {
		s.Partition = (s.Partition + 1) % seatflow.Partitions
		return s
	}
	if _, err := h.UpdateShow(t.Context(), elsewhere(stored)); field(err) != "partition" {
		t.Errorf("while it is on sale: %v", err)
	}
	stored.SaleFrom = noon.Add(10 * time.Minute)
	stored, err := h.UpdateShow(t.Context(), stored)
	if err != nil {
		t.Fatal(err)
	}
	bad := stored
	bad.Partition = seatflow.Partitions
	if _, err := h.UpdateShow(t.Context(), bad); field(err) != "partition" {
		t.Errorf("a partition that is not there: %v", err)
	}

	order := seatflow.Order{No: "00000000000000000000000001", Show: stored.ID, User: "early", Kind: seatflow.KindSale, TakenAt: noon,
		Deadline: noon.Add(time.Minute), Cap: noon.Add(time.Hour), Items: []seatflow.OrderItem{{Seat: 1, Price: 1}}, Total: seatflow.Money{Amount: 1, Currency: "EUR"}}
	if _, err := h.ledger.InsertOrder(t.Context(), seatflow.NewOrder{Order: order, Generation: stored.Generation}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.UpdateShow(t.Context(), elsewhere(stored)); field(err) != "partition" {
		t.Errorf("while an order is pending: %v", err)
	}
	if _, err := h.ledger.CancelOrder(t.Context(), seatflow.OrderChange{No: order.No}); err != nil {
		t.Fatal(err)
	}

	got, err := h.UpdateShow(t.Context(), elsewhere(stored))
	if err != nil {
		t.Fatal(err)
	}
	want := elsewhere(stored)
	want.Version, want.Generation = stored.Version+1, stored.Generation+1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !catalog.NeedsView(&stored, &got) {
		t.Error("it needs no view in its new place")
	}
	if house, err := h.House(t.Context(), stored.ID); err != nil || house.Show.Partition != got.Partition {
		t.Errorf("its house is in partition %d, %v", house.Show.Partition, err)
	}
	h.clock.Advance(9*time.Minute + 54*time.Second)
	if _, err := h.UpdateShow(t.Context(), elsewhere(got)); field(err) != "partition" {
		t.Errorf("six seconds before its sale: %v", err)
	}
}

func TestShows(t *testing.T) {
	h := newHouse(t)
	first := h.create(t)
	later := show(first.Hall)
	later.Starts, later.Ends = later.Starts.Add(time.Hour), later.Ends.Add(time.Hour)
	second, err := h.CreateShow(t.Context(), later)
	if err != nil {
		t.Fatal(err)
	}
	houses, err := h.Shows(t.Context(), 0, noon, 10)
	if err != nil || len(houses) != 2 || houses[0].Show.ID != first.ID || houses[1].Show.ID != second.ID {
		t.Fatalf("%d shows, %v", len(houses), err)
	}
	if houses[0].Plan != houses[1].Plan {
		t.Error("shows of a hall do not share their plan")
	}
	if houses[0].Plan.Source != nil {
		t.Error("a cached plan keeps its source")
	}
	if house, err := h.House(t.Context(), first.ID); err != nil || house != houses[0] {
		t.Errorf("a listed house is read again: %v", err)
	}
	if rest, err := h.Shows(t.Context(), first.ID, time.Time{}, 10); err != nil || len(rest) != 1 || rest[0] != houses[1] {
		t.Errorf("%d shows after the first, %v", len(rest), err)
	}
	if none, err := h.Shows(t.Context(), 0, later.Ends, 10); err != nil || len(none) != 0 {
		t.Errorf("%d shows end after all of them, %v", len(none), err)
	}
	h.ledger.On("Shows", testkit.FailBefore(seatflow.ErrNotCommitted), testkit.Times(1))
	if _, err := h.Shows(t.Context(), 0, noon, 10); seatflow.CodeOf(err) != seatflow.CodeNotReady {
		t.Errorf("error %v", err)
	}
}
