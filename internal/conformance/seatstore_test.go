package conformance

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newModel(TB) Seats {
	clock := testkit.NewFakeClock(time.Date(2026, 5, 1, 18, 0, 0, 0, time.UTC))
	return Seats{Store: NewModel(clock), Now: clock.Now, Advance: func(d time.Duration) { clock.Advance(d) }}
}

// The model is a seat store too; what it does must be what the suite says.
func TestModel(t *testing.T) { SeatStore(t, newModel) }
