package conformance

import (
	"slices"
	"time"

	"seatflow"
)

var ledgerRepairCases = []ledgerCase{
	{"repairs/audit rows", ledgerRepairRows},
	{"repairs/rotation", ledgerRotation},
	{"repairs/rotation at once", ledgerRotationAtOnce},
}

func repairRow(round string, seq int, show seatflow.ShowID) seatflow.RepairRecord {
	return seatflow.RepairRecord{Round: round, Seq: seq, At: noon.Add(time.Duration(seq) * time.Second), Drift: seatflow.DriftPaidSeats,
		Show: show, Order: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Seats: seats(3, 1, 2), Was: "available", Now: "sold by ünïcode ‘1’",
		Cause: "the view was not told", Count: 3}
}

func ledgerRepairRows(t *ledgerTest) {
	ctx := t.Context()
	if err := t.l.RecordRepairs(ctx, nil); err != nil {
		t.Errorf("no rows at all: %v", err)
	}
	bare := seatflow.RepairRecord{Round: "r1", Seq: 4, At: noon, Drift: seatflow.DriftView, Show: 8, Was: "missing", Now: "rebuilt", Count: 1}
	rows := []seatflow.RepairRecord{repairRow("r1", 1, 7), repairRow("r1", 2, 8), repairRow("r1", 3, 7), bare}
	if err := t.l.RecordRepairs(ctx, rows); err != nil {
		t.Fatalf("record: %v", err)
	}
	// Tried again together with a new one: nothing twice.
	rows = append(rows, repairRow("r2", 1, 7))
	if err := t.l.RecordRepairs(ctx, rows); err != nil {
		t.Fatalf("record again: %v", err)
	}
	list := func(show seatflow.ShowID, before int64, limit int) []seatflow.RepairRecord {
		got, err := t.l.RepairsOf(ctx, show, before, limit)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		return got
	}
	all := list(0, 0, 100)
	if len(all) != len(rows) {
		t.Fatalf("%d rows, want %d: %+v", len(all), len(rows), all)
	}
	want := slices.Clone(rows)
	slices.Reverse(want)
	for i := range want {
		if all[i].ID <= 0 || i > 0 && all[i].ID >= all[i-1].ID {
			t.Errorf("row %d has id %d", i, all[i].ID)
		}
		want[i].ID, want[i].At = all[i].ID, want[i].At.Truncate(time.Microsecond)
		all[i].At = all[i].At.UTC()
	}
	t.same("rows, newest first", all, want)
	t.same("rows of a show", list(8, 0, 100), []seatflow.RepairRecord{want[1], want[3]})
	t.same("a page", list(7, want[0].ID, 1), want[2:3])
	t.same("the next page", list(0, want[2].ID, 100), want[3:])
	if got := list(99, 0, 100); len(got) != 0 {
		t.Errorf("rows of a show without any: %+v", got)
	}
}

func ledgerRotation(t *ledgerTest) {
	ctx := t.Context()
	first, err := t.l.Rotation(ctx)
	if err != nil || first.After != 0 || !first.Began.IsZero() || !first.Before.IsZero() {
		t.Fatalf("before the first move: %+v, %v", first, err)
	}
	next := first
	next.After, next.Began, next.Before = 17, noon, noon.Add(-time.Hour)
	moved, err := t.l.MoveRotation(ctx, next)
	if err != nil {
		t.Fatalf("move: %v", err)
	}
	next.Began, next.Before, next.Version = next.Began.Truncate(time.Microsecond), next.Before.Truncate(time.Microsecond), moved.Version
	if moved.Version <= first.Version {
		t.Errorf("moved from version %d to %d", first.Version, moved.Version)
	}
	t.same("as moved", moved, next)
	read, err := t.l.Rotation(ctx)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	t.same("as read", read, moved)
	stale := first
	stale.After = 99
	_, err = t.l.MoveRotation(ctx, stale)
	t.wantErr("a stale move", err, seatflow.ErrWrongState)
	if again, err := t.l.Rotation(ctx); err != nil || again.After != 17 {
		t.Errorf("after a stale move: %+v, %v", again, err)
	}
	back := moved
	back.After, back.Before = 0, time.Time{}
	if moved, err = t.l.MoveRotation(ctx, back); err != nil || moved.After != 0 || !moved.Before.IsZero() {
		t.Errorf("a lap's end: %+v, %v", moved, err)
	}
}

// Of several that move from the same place one wins.
func ledgerRotationAtOnce(t *ledgerTest) {
	seen, err := t.l.Rotation(t.Context())
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	won := 0
	for _, err := range parallel(10, func(i int) error {
		next := seen
		next.After = seatflow.ShowID(i + 1)
		_, err := t.l.MoveRotation(t.Context(), next)
		return err
	}) {
		if err == nil {
			won++
		} else {
			t.wantErr("the others", err, seatflow.ErrWrongState)
		}
	}
	if won != 1 {
		t.Errorf("%d of 10 moved the rotation from the same place", won)
	}
}
