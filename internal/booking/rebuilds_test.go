package booking

import (
	"context"
	"sync/atomic"
	"testing"

	"seatflow"
)

// Whoever comes when a rebuild is over gets one of their own: the view that
// they found missing may have gone since.
func TestNobodyJoinsWhatIsOver(t *testing.T) {
	const calls = 20_000
	var r rebuilds
	var runs atomic.Int64
	run := func(context.Context, seatflow.ShowID, seatflow.Generation) error {
		runs.Add(1)
		return nil
	}
	for range calls {
		if err := r.join(t.Context(), 1, 0, run); err != nil {
			t.Fatal(err)
		}
	}
	if n := runs.Load(); n != calls {
		t.Errorf("%d calls, one after the other, made %d rebuilds", calls, n)
	}
}
