package redisseats

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/conformance"
	"seatflow/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient{m}) }

// patient gives the client the five seconds after which it closes connections
// that a slot's move has made useless.
type patient struct{ *testing.M }

func (p patient) Run() int {
	code := p.M.Run()
	for end := time.Now().Add(10 * time.Second); goleak.Find() != nil && time.Now().Before(end); {
	}
	return code
}

// open opens a store that is closed with the test.
func open(t conformance.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open %s: %v", o.URL, err)
	}
	t.Cleanup(s.Close)
	return s
}

// today begins the fake clocks: not before the servers' own, by which keys
// expire.
func today() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// factory opens stores that are empty, as empty leaves them, on a clock that
// stands still.
func factory(start time.Time, kept int, url func() string) conformance.SeatFactory {
	return func(t conformance.TB) conformance.Seats {
		clock := testkit.NewFakeClock(start)
		s := open(t, Options{URL: url(), Clock: clock, ChangesKept: kept})
		return conformance.Seats{Store: s, Now: clock.Now, ChangesKept: kept, Identity: s.IdentityOf,
			Advance: func(d time.Duration) { clock.Advance(d) }}
	}
}

// house opens a store with a house of n free seats in show 42 of partition 7.
func house(t testing.TB, o Options, n int) (*Store, seatflow.ShowRef) {
	t.Helper()
	s := open(t, o)
	ref := seatflow.ShowRef{ID: 42, Partition: 7, Until: time.Now().Add(24 * time.Hour).Truncate(time.Millisecond)}
	install(t, s, ref, 1, n)
	return s, ref
}

func free(n int) []seatflow.SeatState {
	return slices.Repeat([]seatflow.SeatState{seatflow.Available}, n)
}

func install(t testing.TB, s *Store, ref seatflow.ShowRef, generation seatflow.Generation, n int) {
	t.Helper()
	if err := s.Rebuild(t.Context(), seatflow.View{Show: ref, Generation: generation, Base: free(n)}); err != nil {
		t.Fatalf("rebuild: %v", err)
	}
}

func order(n int) seatflow.Owner {
	return seatflow.Owner{Order: seatflow.OrderNo(fmt.Sprintf("%026d", n)), Attempt: 1}
}

func ask(ref seatflow.ShowRef, n int, ids ...seatflow.SeatID) seatflow.HoldRequest {
	return seatflow.HoldRequest{Show: ref, Owner: order(n), User: seatflow.UserID(fmt.Sprint("user-", n)), Seats: ids,
		For: 15 * time.Minute, Cap: 30 * time.Minute}
}

func mustHold(t testing.TB, s *Store, want seatflow.HoldOutcome, req seatflow.HoldRequest) seatflow.HoldReply {
	t.Helper()
	r, err := s.Hold(t.Context(), req)
	if err != nil || r.Outcome != want {
		t.Fatalf("hold of %v by %s: %+v, %v; want %v", req.Seats, req.Owner, r, err, want)
	}
	return r
}

func mustSnapshot(t testing.TB, s *Store, ref seatflow.ShowRef) *seatflow.Snapshot {
	t.Helper()
	snap, err := s.Snapshot(t.Context(), ref, seatflow.DetailOrders|seatflow.DetailUsers)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	return snap
}

// text is the states of a house, one character a seat.
func text(states []seatflow.SeatState) string {
	b := make([]byte, len(states))
	for i, s := range states {
		b[i] = byte(s)
	}
	return string(b)
}

func isNotExecuted(err error) bool { return errors.Is(err, seatflow.ErrNotExecuted) }
