package conformance

import (
	"errors"
	"time"

	"seatflow"
)

var ledgerCatalogCases = []ledgerCase{
	{"catalog/halls", ledgerHalls},
	{"catalog/plans", ledgerPlans},
	{"catalog/plans refused", ledgerPlansRefused},
	{"catalog/shows", ledgerShows},
	{"catalog/show updates", ledgerShowUpdates},
	{"catalog/show moves", ledgerShowMoves},
}

func ledgerHalls(t *ledgerTest) {
	ctx := t.Context()
	var made []seatflow.Hall
	for _, name := range []string{"Großer Saal", "小厅", "Studio"} {
		h, err := t.l.CreateHall(ctx, seatflow.Hall{Name: name, Zone: "Asia/Shanghai"})
		if err != nil {
			t.Fatalf("create: %v", err)
		}
		if h.ID < 1 || h.CreatedAt.IsZero() || len(made) > 0 && h.ID <= made[len(made)-1].ID {
			t.Errorf("hall %+v after %+v", h, made)
		}
		got, err := t.l.Hall(ctx, h.ID)
		if err != nil {
			t.Fatalf("hall %d: %v", h.ID, err)
		}
		t.same("hall", got, h)
		made = append(made, h)
	}
	list, err := t.l.Halls(ctx, 0, 2)
	t.wantErr("list", err, nil)
	t.same("first two", list, made[:2])
	list, err = t.l.Halls(ctx, made[1].ID, 2)
	t.wantErr("list", err, nil)
	t.same("the rest", list, made[2:])
	_, err = t.l.Hall(ctx, made[2].ID+1)
	t.wantErr("a hall that is not there", err, seatflow.ErrNotFound)
	_, err = t.l.HallSeats(ctx, made[2].ID+1)
	t.wantErr("seats of a hall that is not there", err, seatflow.ErrNotFound)
	h, err := t.l.HallSeats(ctx, made[0].ID)
	if err != nil || h.Latest != 0 || len(h.ByGUID) != 0 || h.NextID != 1 {
		t.Errorf("seats of a hall without plan: %+v, %v", h, err)
	}
}

func ledgerPlans(t *ledgerTest) {
	ctx := t.Context()
	hall, err := t.l.CreateHall(ctx, seatflow.Hall{Name: "Hall", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatalf("hall: %v", err)
	}
	_, err = t.l.Plan(ctx, hall.ID, 0)
	t.wantErr("no plan yet", err, seatflow.ErrNotFound)
	first := t.plan(hall.ID, 1, 1, 30)
	if err := t.l.PublishPlan(ctx, first); err != nil {
		t.Fatalf("publish: %v", err)
	}
	// The second keeps seats 11–30 under their ids and adds 31–40.
	second := t.plan(hall.ID, 2, 11, 40)
	second.Name, second.Source = "After the rebuilding", nil
	if err := t.l.PublishPlan(ctx, second); err != nil {
		t.Fatalf("publish again: %v", err)
	}
	for version, want := range map[seatflow.PlanVersion]*seatflow.Plan{0: second, 1: first, 2: second} {
		got, err := t.l.Plan(ctx, hall.ID, version)
		if err != nil {
			t.Fatalf("plan %d: %v", version, err)
		}
		t.same("plan", *got, *want)
	}
	_, err = t.l.Plan(ctx, hall.ID, 3)
	t.wantErr("no such version", err, seatflow.ErrNotFound)
	h, err := t.l.HallSeats(ctx, hall.ID)
	if err != nil || h.Latest != 2 || h.NextID != 41 || len(h.ByGUID) != 40 || h.ByGUID["guid-5"] != 5 || h.ByGUID["guid-40"] != 40 {
		t.Errorf("hall seats: %+v, %v", h, err)
	}
	// A guid that left the plan comes back under its own id, not a new one.
	third := t.plan(hall.ID, 3, 1, 3)
	if err := t.l.PublishPlan(ctx, third); err != nil {
		t.Errorf("old seats again: %v", err)
	}
	// Another hall has ids of its own.
	other, err := t.l.CreateHall(ctx, seatflow.Hall{Name: "Other", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatalf("hall: %v", err)
	}
	if err := t.l.PublishPlan(ctx, t.plan(other.ID, 1, 1, 5)); err != nil {
		t.Errorf("another hall's plan: %v", err)
	}
}

func ledgerPlansRefused(t *ledgerTest) {
	ctx := t.Context()
	hall, err := t.l.CreateHall(ctx, seatflow.Hall{Name: "Hall", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatalf("hall: %v", err)
	}
	if err := t.l.PublishPlan(ctx, t.plan(hall.ID, 1, 1, 10)); err != nil {
		t.Fatalf("publish: %v", err)
	}
	t.wantErr("the same version again", t.l.PublishPlan(ctx, t.plan(hall.ID, 1, 1, 10)), seatflow.ErrWrongState)
	t.wantErr("a version too far", t.l.PublishPlan(ctx, t.plan(hall.ID, 3, 1, 10)), seatflow.ErrWrongState)
	t.wantErr("a gap in ids", t.l.PublishPlan(ctx, t.plan(hall.ID, 2, 12, 13)), seatflow.ErrWrongState)
	reuse := t.plan(hall.ID, 2, 10, 11)
	reuse.Seats[0].GUID = "another chair"
	t.wantErr("an id given again", t.l.PublishPlan(ctx, reuse), seatflow.ErrWrongState)
	t.wantErr("no such hall", t.l.PublishPlan(ctx, t.plan(hall.ID+1, 1, 1, 10)), seatflow.ErrNotFound)
	bad := map[string]func(p *seatflow.Plan){
		"an id of another guid": func(p *seatflow.Plan) { p.Seats[0].ID, p.Seats[1].ID = p.Seats[1].ID, p.Seats[0].ID },
		"an id twice":           func(p *seatflow.Plan) { p.Seats[1].ID = p.Seats[0].ID },
		"a guid twice":          func(p *seatflow.Plan) { p.Seats[1].GUID = p.Seats[0].GUID },
		"no such zone":          func(p *seatflow.Plan) { p.Seats[0].Zone = 2 },
		"no such category":      func(p *seatflow.Plan) { p.Seats[0].Category = -1 },
	}
	for what, spoil := range bad {
		p := t.plan(hall.ID, 2, 1, 10)
		spoil(p)
		if err := t.l.PublishPlan(ctx, p); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	h, err := t.l.HallSeats(ctx, hall.ID)
	if err != nil || h.Latest != 1 || h.NextID != 11 || len(h.ByGUID) != 10 {
		t.Errorf("after refusals: %+v, %v", h, err)
	}
	// Of several that publish the same version, one does.
	published := 0
	for _, err := range parallel(8, func(int) error { return t.l.PublishPlan(ctx, t.plan(hall.ID, 2, 1, 20)) }) {
		switch {
		case err == nil:
			published++
		case !errors.Is(err, seatflow.ErrWrongState):
			t.Errorf("a loser heard %v", err)
		}
	}
	if published != 1 {
		t.Errorf("%d published version 2", published)
	}
}

func ledgerShows(t *ledgerTest) {
	ctx := t.Context()
	first := t.show(10)
	if first.ID < 1 || first.Version != 1 || first.Generation < 1 || first.Partition != 7 || first.CreatedAt.IsZero() {
		t.Errorf("a new show: %+v", first)
	}
	got, err := t.l.Show(ctx, first.ID)
	if err != nil {
		t.Fatalf("show: %v", err)
	}
	t.same("show", got, first)
	want := newShow(first.Hall)
	if got.Title != want.Title || got.HoldFor != want.HoldFor || got.HoldCap != want.HoldCap || got.ExtendBy != want.ExtendBy ||
		!got.Starts.Equal(want.Starts.Truncate(time.Microsecond)) || got.Prices["Balcony"] != 3000 || len(got.Prices) != 2 || got.LimitPerUser != 6 {
		t.Errorf("stored %+v of %+v", got, want)
	}
	no := newShow(first.Hall)
	no.PlanVersion = 2
	_, err = t.l.CreateShow(ctx, no)
	t.wantErr("a plan that is not published", err, seatflow.ErrNotFound)
	no = newShow(first.Hall + 1)
	_, err = t.l.CreateShow(ctx, no)
	t.wantErr("a hall that is not there", err, seatflow.ErrNotFound)
	_, err = t.l.Show(ctx, first.ID+1)
	t.wantErr("a show that is not there", err, seatflow.ErrNotFound)

	// By start, then by id.
	make1 := func(starts, ends time.Duration) seatflow.Show {
		s := newShow(first.Hall)
		s.Starts, s.Ends = noon.Add(starts), noon.Add(ends)
		s, err := t.l.CreateShow(ctx, s)
		if err != nil {
			t.Fatalf("show: %v", err)
		}
		return s
	}
	second := make1(47*time.Hour, 60*time.Hour)
	third := make1(48*time.Hour, 49*time.Hour)
	list := func(after seatflow.ShowID, end time.Time, limit int) (ids []seatflow.ShowID) {
		shows, err := t.l.Shows(ctx, after, end, limit)
		if err != nil {
			t.Errorf("shows after %d: %v", after, err)
		}
		for _, s := range shows {
			ids = append(ids, s.ID)
		}
		return ids
	}
	t.same("all", list(0, time.Time{}, 10), []seatflow.ShowID{second.ID, first.ID, third.ID})
	t.same("two", list(0, time.Time{}, 2), []seatflow.ShowID{second.ID, first.ID})
	t.same("after the second of them", list(first.ID, time.Time{}, 2), []seatflow.ShowID{third.ID})
	t.same("that end later", list(0, first.Ends, 10), []seatflow.ShowID{second.ID})
	t.same("that end later, by a moment", list(0, first.Ends.Add(-time.Microsecond), 10), []seatflow.ShowID{second.ID, first.ID})
	t.same("after the last", list(third.ID, time.Time{}, 10), []seatflow.ShowID(nil))
}

// Another partition raises the generation in the same step: what was held in
// the old place is stale. It waits for pending orders to end.
func ledgerShowMoves(t *ledgerTest) {
	ctx := t.Context()
	show, order := t.pending(2)
	there := show
	there.Partition = 9
	_, err := t.l.UpdateShow(ctx, there)
	t.wantErr("while an order is pending", err, seatflow.ErrWrongState)
	stands, err := t.l.Show(ctx, show.ID)
	t.wantErr("show", err, nil)
	t.same("what stands", stands, show)

	if _, err := t.l.CancelOrder(ctx, by(order, buyer)); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	held := t.sale(show, buyer.User, "held before", 5) // under the old generation
	got, err := t.l.UpdateShow(ctx, there)
	if err != nil {
		t.Fatalf("move: %v", err)
	}
	if got.Partition != 9 || got.Generation != show.Generation+1 || got.Version != show.Version+1 {
		t.Errorf("moved: partition %d, generation %d, version %d", got.Partition, got.Generation, got.Version)
	}
	stands, err = t.l.Show(ctx, show.ID)
	t.wantErr("show", err, nil)
	t.same("what stands", stands, got)
	_, err = t.l.InsertOrder(ctx, held)
	t.wantErr("an order held in the old place", err, seatflow.ErrStaleGeneration)
}

func ledgerShowUpdates(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(10)
	if _, err := t.l.RaiseGeneration(ctx, show.ID, show.Generation); err != nil {
		t.Fatalf("raise: %v", err)
	}
	change := show
	change.Title, change.Status, change.LimitPerUser, change.Prices = "Dernière", seatflow.ShowCancelled, 0, map[string]int64{"Stalls": 1}
	change.Starts, change.HoldFor = change.Starts.Add(time.Hour), time.Minute
	change.Hall, change.PlanVersion, change.Generation = 99, 99, 99 // none of these may change
	got, err := t.l.UpdateShow(ctx, change)
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	if got.Version != 2 || got.Generation != show.Generation+1 || got.Partition != 7 || got.Hall != show.Hall || got.PlanVersion != 1 ||
		got.Title != "Dernière" || got.Status != seatflow.ShowCancelled || got.Prices["Stalls"] != 1 || len(got.Prices) != 1 ||
		got.LimitPerUser != 0 || got.HoldFor != time.Minute || !got.Starts.Equal(show.Starts.Add(time.Hour)) || !got.CreatedAt.Equal(show.CreatedAt) {
		t.Errorf("updated: %+v", got)
	}
	stands, err := t.l.Show(ctx, show.ID)
	t.wantErr("show", err, nil)
	t.same("what stands", stands, got)
	_, err = t.l.UpdateShow(ctx, change)
	t.wantErr("with the version of before", err, seatflow.ErrWrongState)
	change.ID++
	_, err = t.l.UpdateShow(ctx, change)
	t.wantErr("a show that is not there", err, seatflow.ErrNotFound)
	won := 0
	for _, err := range parallel(8, func(int) error { _, err := t.l.UpdateShow(ctx, got); return err }) {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, seatflow.ErrWrongState):
			t.Errorf("a loser heard %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d updates of one version", won)
	}
}
