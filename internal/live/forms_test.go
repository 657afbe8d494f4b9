package live

import (
	"testing"

	"seatflow"
)

// TestAFormIsMadeOnceForEveryone: whatever a transport makes of a frame beside
// its JSON is made once, for snapshots and for updates.
func TestAFormIsMadeOnceForEveryone(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fakeStore, h *Hub) {
		const viewers = 20
		subs := make([]*Subscription, viewers)
		for i := range subs {
			sub, err := h.Subscribe(t.Context(), 1, "")
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			subs[i] = sub
		}
		made := map[string]int{}
		all := func(check func(f Frame)) {
			t.Helper()
			for _, sub := range subs {
				f, err := sub.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				check(f)
				for _, kind := range []string{"a", "b"} {
					got := f.Form(kind, func(f *Frame) []byte { made[f.ID+kind]++; return []byte(kind + f.ID) })
					if string(got) != kind+f.ID {
						t.Errorf("form %q is %q", kind, got)
					}
				}
			}
		}
		all(func(f Frame) {
			if f.Map == nil || string(f.Map.States) != "000000000" || f.Changes != nil {
				t.Errorf("a snapshot of %+v", f)
			}
		})
		s.change(1, seatflow.Sold, 2, 3)
		all(func(f Frame) {
			if f.Map != nil || len(f.Changes) != 2 || f.Show != 1 || f.Changes[1].State != seatflow.Sold {
				t.Errorf("an update of %+v", f)
			}
		})
		for kind, n := range made {
			if n != 1 {
				t.Errorf("%s was made %d times", kind, n)
			}
		}
		if len(made) != 4 {
			t.Errorf("%d forms, want 4", len(made))
		}
		alone := Frame{ID: "1.1"}
		if string(alone.Form("a", func(*Frame) []byte { return []byte("x") })) != "x" {
			t.Error("a frame of no hub has no form")
		}
	})
}
