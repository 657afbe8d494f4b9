package conformance

import "context"

// TB is what the suites need of a test; *testing.T has it. A suite that runs
// under a TB of one's own can be seen to fail.
type TB interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
}
