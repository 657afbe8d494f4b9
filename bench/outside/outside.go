// Package outside lets a command start the servers that tests start: it stands
// in for the test that is not there.
package outside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// TB stands in for a test where there is none, so that a command may
// start the servers of tests. What would end a test panics; see [Attempt].
type TB struct {
	testing.TB // nil: whatever is not below is not used
	mu         sync.Mutex
	failed     bool
	cleanups   []func()
}

// failure is what TB panics with.
type failure string

// Helper implements [testing.TB].
func (o *TB) Helper() {}

// Name implements [testing.TB].
func (o *TB) Name() string { return "strategies" }

// Context implements [testing.TB].
func (o *TB) Context() context.Context { return context.Background() }

// Cleanup implements [testing.TB].
func (o *TB) Cleanup(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleanups = append(o.cleanups, f)
}

// Failed implements [testing.TB].
func (o *TB) Failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

func (o *TB) fail(text string) {
	o.mu.Lock()
	o.failed = true
	o.mu.Unlock()
	panic(failure(text))
}

// Fatal implements [testing.TB].
func (o *TB) Fatal(args ...any) { o.fail(fmt.Sprint(args...)) }

// Fatalf implements [testing.TB].
func (o *TB) Fatalf(format string, args ...any) { o.fail(fmt.Sprintf(format, args...)) }

// Errorf implements [testing.TB].
func (o *TB) Errorf(format string, args ...any) { o.fail(fmt.Sprintf(format, args...)) }

// Skipf implements [testing.TB]: a missing program is a failure here.
func (o *TB) Skipf(format string, args ...any) { o.fail(fmt.Sprintf(format, args...)) }

// Logf implements [testing.TB].
func (o *TB) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// End runs what was registered for the end.
func (o *TB) End() {
	o.mu.Lock()
	cleanups := o.cleanups
	o.cleanups = nil
	o.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
}

// Attempt turns the panic of a [TB] into an error.
func Attempt(do func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			err = errors.New(string(v))
		default:
			panic(v)
		}
	}()
	do()
	return nil
}
