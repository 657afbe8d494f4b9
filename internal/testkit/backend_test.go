package testkit

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// fakeTB stands for a test that is skipped or failed.
type fakeTB struct {
	testing.TB
	skipped, failed string
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Skipf(format string, args ...any) {
	f.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestMissingBackend is the negative control of every test that needs a
// server: where backends are required, one that is missing is no pass.
func TestMissingBackend(t *testing.T) {
	run := func(programs ...string) *fakeTB {
		f := &fakeTB{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			require(f, programs...)
		}()
		<-done
		return f
	}
	const none = "seatflow-no-such-program"
	t.Setenv(RequireBackends, "1")
	if f := run("sh", none); f.skipped != "" || !strings.Contains(f.failed, none) || strings.Contains(f.failed, "sh,") {
		t.Errorf("required and missing: skipped %q, failed %q; want a failure that names it", f.skipped, f.failed)
	}
	if f := run("sh"); f.skipped != "" || f.failed != "" {
		t.Errorf("required and there: skipped %q, failed %q", f.skipped, f.failed)
	}
	t.Setenv(RequireBackends, "")
	if f := run(none); f.failed != "" || !strings.Contains(f.skipped, none) {
		t.Errorf("missing: skipped %q, failed %q; want a skip that names it", f.skipped, f.failed)
	}
}
