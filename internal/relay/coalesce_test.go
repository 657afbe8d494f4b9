package relay

import (
	"slices"
	"testing"
	"time"

	"seatflow"
)

// What a batch becomes, change by change.
func TestCoalesce(t *testing.T) {
	at := time.Date(2031, 5, 4, 18, 0, 0, 0, time.UTC)
	change := func(show seatflow.ShowID, generation seatflow.Generation, number int64, seats int) seatflow.Change {
		return seatflow.Change{Show: show, Revision: seatflow.Revision{Generation: generation, Number: number}, Verb: seatflow.VerbHold, At: at,
			Seats: slices.Repeat([]seatflow.SeatChange{{Seat: 1, State: seatflow.Held, Delta: 1}}, seats)}
	}
	w := &worker{Relay: New(Options{}), partition: 5, place: &place{}, after: "before", shows: map[seatflow.ShowID]*showState{4: {floor: 3}}}
	messages := w.coalesce(t.Context(), &seatflow.ChangeBatch{Identity: "id", Next: "next", Changes: []seatflow.Change{
		change(1, 1, 7, 1), change(2, 1, 1, 1), change(1, 1, 8, 1), change(4, 2, 9, 1), // superseded
		change(1, 2, 0, 0), change(1, 2, 1, 1), change(2, 1, 2, 0), change(1, 1, 9, 1), // superseded by now
		change(2, 1, 4, 1), // a gap
		change(2, 1, 5, seatsMost+1), change(2, 1, 6, 1), change(4, 3, 1, 1),
	}})
	type said struct {
		id    string
		after seatflow.Position
	}
	var got []said
	for _, m := range messages {
		e, err := seatflow.ParseSeatsEvent(m.Payload)
		if err != nil {
			t.Fatal(err)
		}
		id := m.ID
		if e.Type == seatflow.SeatsReset {
			id = "reset " + e.Revision().String()
		}
		got = append(got, said{id, e.After})
	}
	want := []said{{"1.1.7-8", "before"}, {"2.1.1-2", "before"}, {"1.2.0-1", "before"}, {"2.1.4-4", "before"}, {"reset 1.5", "before"},
		{"2.1.6-6", "before"}, {"4.3.1-1", "next"}}
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	if m := w.coalesce(t.Context(), &seatflow.ChangeBatch{Changes: []seatflow.Change{change(4, 1, 1, 1)}}); m != nil {
		t.Errorf("%v of nothing but what is superseded", m)
	}
}
