package admission_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
	"seatflow/internal/admission"
	"seatflow/internal/telemetry"
	"seatflow/internal/testkit"
)

// failing are windows that cannot be asked, or answer late.
type failing struct {
	err   error
	waits bool
	calls atomic.Int64
}

func (f *failing) Attempt(ctx context.Context, _ string, _ int, _ time.Duration) (time.Duration, error) {
	f.calls.Add(1)
	if f.waits {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return 0, f.err
}

func limited(t *testing.T, err error) time.Duration {
	t.Helper()
	var e *seatflow.Error
	if !errors.As(err, &e) || e.Code != seatflow.CodeRateLimited {
		t.Fatalf("not a refusal: %v", err)
	}
	return e.RetryAfter
}

func TestAdmit(t *testing.T) {
	clock := testkit.NewFakeClock(noon)
	metrics := telemetry.NewMetrics()
	s := admission.New(admission.Options{Windows: admission.NewMemory(clock), OrdersPerMinute: 10, Metrics: metrics})
	if s.Remote() {
		t.Error("memory is not remote")
	}
	for i := range 10 {
		if err := s.Admit(t.Context(), "ann"); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
		clock.Advance(time.Second)
	}
	// The second of the ten decides, as this one counts: it was 9 s ago.
	if wait := limited(t, s.Admit(t.Context(), "ann")); wait != 51*time.Second {
		t.Errorf("retry after %v", wait)
	}
	if err := s.Admit(t.Context(), "ben"); err != nil {
		t.Errorf("another user: %v", err)
	}
	clock.Advance(51 * time.Second)
	if err := s.Admit(t.Context(), "ann"); err != nil {
		t.Errorf("when it said: %v", err)
	}
	if got := s.Stats(); got != (admission.Stats{Admitted: 12, Refused: 1}) {
		t.Errorf("stats %+v", got)
	}
	page := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`seatflow_admissions_total{outcome="admitted"} 12`, `seatflow_admissions_total{outcome="refused"} 1`} {
		if !strings.Contains(page.Body.String(), line) {
			t.Errorf("no metric %s", line)
		}
	}
}

func TestOff(t *testing.T) {
	windows := &failing{err: errors.New("asked")}
	for _, perMinute := range []int{0, -1} {
		s := admission.New(admission.Options{Windows: windows, OrdersPerMinute: perMinute})
		for range 1000 {
			if err := s.Admit(t.Context(), "ann"); err != nil {
				t.Fatal(err)
			}
		}
		if n := windows.calls.Load(); n != 0 || s.Stats() != (admission.Stats{}) || s.Remote() {
			t.Errorf("off, the windows were asked %d times; %+v", n, s.Stats())
		}
	}
}

func TestDefaults(t *testing.T) {
	s := admission.New(admission.Options{OrdersPerMinute: 1})
	if err := s.Admit(t.Context(), "ann"); err != nil {
		t.Error(err)
	}
	if wait := limited(t, s.Admit(t.Context(), "ann")); wait <= 0 || wait > time.Minute {
		t.Errorf("retry after %v", wait)
	}
}

// TestFailsOpen: windows that cannot be asked let everybody through, are
// counted, and do not fill the log.
func TestFailsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		windows := &failing{err: errors.New("no route to the store")}
		metrics := telemetry.NewMetrics()
		s := admission.New(admission.Options{Windows: windows, OrdersPerMinute: 1, Metrics: metrics, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if !s.Remote() {
			t.Error("windows of an unknown kind are remote")
		}
		var callers sync.WaitGroup
		for range 500 {
			callers.Go(func() {
				if err := s.Admit(t.Context(), "ann"); err != nil {
					t.Errorf("with the windows away: %v", err)
				}
			})
		}
		callers.Wait()
		if got := s.Stats(); got != (admission.Stats{Unasked: 500}) {
			t.Errorf("stats %+v", got)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "no route to the store") {
			t.Errorf("%d lines logged at once:\n%s", n, &log)
		}
		time.Sleep(10 * time.Second)
		if err := s.Admit(t.Context(), "ann"); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "notLogged=499") {
			t.Errorf("%d lines logged after a while:\n%s", n, &log)
		}
	})
}

// TestSlowWindowsAreNotWaitedFor: a store that does not answer costs half a
// second, and a caller who went away is nobody's failure.
func TestSlowWindowsAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := admission.New(admission.Options{Windows: &failing{waits: true}, OrdersPerMinute: 1})
		began := time.Now()
		if err := s.Admit(t.Context(), "ann"); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 500*time.Millisecond || s.Stats().Unasked != 1 {
			t.Errorf("after %v: %+v", took, s.Stats())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := s.Admit(ctx, "ann"); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 600*time.Millisecond || s.Stats().Unasked != 1 {
			t.Errorf("after %v: %+v", took, s.Stats())
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	s := admission.New(admission.Options{OrdersPerMinute: 1_000_000})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Admit(ctx, "01JABCDEFGHJKMNPQRSTVWXYZ0"); err != nil {
			b.Fatal(err)
		}
	}
}
