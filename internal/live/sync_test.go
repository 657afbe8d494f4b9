package live

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
)

func TestSince(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
		ask := func(after string) string {
			t.Helper()
			got, err := h.Since(t.Context(), 1, after)
			if err != nil {
				t.Fatal(err)
			}
			text := got.Revision
			for _, c := range got.Changes {
				text += fmt.Sprintf(" %d:%c%+d", c.Seat, c.State, c.Delta)
			}
			if got.Map != nil {
				text += " " + string(got.Map.States)
			}
			if got.Show != 1 {
				t.Errorf("of show %d", got.Show)
			}
			return text
		}
		check := func(after, want string) {
			t.Helper()
			if got := ask(after); got != want {
				t.Errorf("since %q: %s, want %s", after, got, want)
			}
		}
		settle := func() { // what changed has been read
			time.Sleep(time.Second)
			synctest.Wait()
		}
		check("", "1.0 000000000")
		check("1.0", "1.0")
		s.change(1, seatflow.Held, 2, 3)
		s.change(1, seatflow.Sold, 3)
		s.change(1, seatflow.Available, 2)
		s.change(1, seatflow.Held, 9)
		settle()
		check("1.0", "1.4 2:0+0 3:2+1 9:1+1")
		check("1.2", "1.4 2:0-1 9:1+1")
		check("1.4", "1.4")
		for _, nonsense := range []string{"x", "1.5", "2.0", "0.3", "1.-1", "99.99"} {
			check(nonsense, "1.4 002000001")
		}
		s.rebuild(1)
		settle()
		check("1.4", "2.0 002000001")
		s.restart()
		s.change(1, seatflow.Held, 1)
		settle()
		check("2.0", ask(""))
		if _, err := h.Since(t.Context(), 99, ""); seatflow.CodeOf(err) != seatflow.CodeNoShow {
			t.Errorf("of a show that is not there: %v", err)
		}
	})
}

// One that was away for longer than changes are kept gets the house.
func TestSinceLongAgo(t *testing.T) {
	bubble(t, func(o *Options) { o.Ring = 8 }, func(t *testing.T, s *fakeStore, h *Hub) {
		if _, err := h.Since(t.Context(), 1, ""); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			s.change(1, []seatflow.SeatState{seatflow.Held, seatflow.Available}[i%2], 1)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for after, whole := range map[string]bool{"1.2": true, "1.15": false} {
			got, err := h.Since(t.Context(), 1, after)
			if err != nil || (got.Map != nil) != whole || got.Revision != "1.20" {
				t.Errorf("since %s: %+v, %v", after, got, err)
			}
		}
	})
}

func TestSinceAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.open(1, worldSeats)
		h, stop := running(t, s, nil)
		stop()
		if _, err := h.Since(t.Context(), 1, ""); !errors.Is(err, ErrClosed) {
			t.Errorf("after the hub's end: %v", err)
		}
	})
}

// The control of the checker that TestConverge uses.
func TestSinceCheckerFails(t *testing.T) {
	held := func(id seatflow.SeatID) seatflow.SeatChange {
		return seatflow.SeatChange{Seat: id, State: seatflow.Held, Delta: 1}
	}
	for name, c := range map[string]struct {
		since Since
		good  bool
	}{
		"good":                    {Since{Revision: "1.5", Changes: []seatflow.SeatChange{held(1), held(2)}}, true},
		"nothing new":             {Since{Revision: "1.3"}, true},
		"a seat twice":            {Since{Revision: "1.5", Changes: []seatflow.SeatChange{held(1), held(1)}}, false},
		"a change twice":          {Since{Revision: "1.5", Changes: []seatflow.SeatChange{held(3)}}, false},
		"backwards":               {Since{Revision: "1.2"}, false},
		"another generation":      {Since{Revision: "2.1"}, false},
		"changes, and no advance": {Since{Revision: "1.3", Changes: []seatflow.SeatChange{held(1)}}, false},
		"no such seat":            {Since{Revision: "1.4", Changes: []seatflow.SeatChange{held(4)}}, false},
	} {
		v := viewer{show: 1, rev: "1.3", states: []byte("001")}
		if err := v.since(c.since); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
