package booking_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/testkit"
)

// gate is an admission that a test opens and shuts.
type gate struct {
	remote bool
	shut   bool
	asked  chan seatflow.UserID // if not nil, told of each question
}

func (g *gate) Remote() bool { return g.remote }

func (g *gate) Admit(_ context.Context, user seatflow.UserID) error {
	if g.asked != nil {
		g.asked <- user
	}
	if g.shut {
		return &seatflow.Error{Code: seatflow.CodeRateLimited, RetryAfter: 7 * time.Second}
	}
	return nil
}

func (r *rig) limited(g *gate, showRate int) *booking.Service {
	return booking.New(booking.Options{Seats: r.seats, Ledger: r.ledger, Clock: r.clock, Admission: g, ShowRate: showRate,
		Houses: &houses{m: map[seatflow.ShowID]*seatflow.House{r.show: r.house}}})
}

func TestARefusedCallerHoldsNothing(t *testing.T) {
	for _, remote := range []bool{false, true} {
		r := newRig(t, 10)
		g := &gate{remote: remote}
		svc := r.limited(g, 0)
		first, err := svc.Create(t.Context(), r.request("ann", "k1", 1))
		if err != nil {
			t.Fatal(err)
		}
		g.shut = true
		for _, key := range []string{"k2", ""} {
			_, err = svc.Create(t.Context(), r.request("ann", key, 2))
			var e *seatflow.Error
			if !errors.As(err, &e) || e.Code != seatflow.CodeRateLimited || e.RetryAfter != 7*time.Second {
				t.Fatalf("remote %t, key %q: %v", remote, key, err)
			}
		}
		if s := r.state(2); s != seatflow.Available {
			t.Errorf("remote %t: the seat of a refused caller is %v", remote, s)
		}
		again, err := svc.Create(t.Context(), r.request("ann", "k1", 1))
		if err != nil || !again.Replayed || again.Order.No != first.Order.No {
			t.Errorf("remote %t: a replay over the rate: %+v, %v", remote, again, err)
		}
	}
}

// TestRemoteAdmissionIsAskedBeside: the question is on its way before the
// ledger has answered.
func TestRemoteAdmissionIsAskedBeside(t *testing.T) {
	r := newRig(t, 10)
	asked := make(chan seatflow.UserID)
	svc := r.limited(&gate{remote: true, asked: asked}, 0)
	hold := make(chan struct{})
	r.ledger.On("OrderByKey", testkit.HoldBefore(hold))
	done := make(chan error, 1)
	go func() {
		_, err := svc.Create(t.Context(), r.request("ann", "k", 1))
		done <- err
	}()
	if user := <-asked; user != "ann" { // a hang here is the failure
		t.Errorf("asked for %q", user)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAFullShowWindowHoldsNothing(t *testing.T) {
	r := newRig(t, 10)
	svc := r.limited(&gate{}, 2)
	for i, user := range []string{"ann", "bob"} {
		if _, err := svc.Create(t.Context(), r.request(user, "k", seatflow.SeatID(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	_, err := svc.Create(t.Context(), r.request("cid", "k", 3))
	var e *seatflow.Error
	if !errors.As(err, &e) || e.Code != seatflow.CodeRateLimited || e.RetryAfter <= 0 || e.RetryAfter > time.Second {
		t.Fatalf("third in one second: %v", err)
	}
	if s := r.state(3); s != seatflow.Available {
		t.Errorf("the seat of a refused caller is %v", s)
	}
	r.clock.Advance(time.Second)
	if _, err := svc.Create(t.Context(), r.request("cid", "k", 3)); err != nil {
		t.Errorf("a second later: %v", err)
	}
}
