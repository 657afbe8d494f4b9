// Package testkit holds what tests need and programs must not: a clock that
// moves only when told to, faults on demand around a port, and throw-away
// backends. It is imported from tests only.
//
// Nothing in it sleeps. A test that waits for time to pass moves a
// [FakeClock]; a test that waits for work to happen waits for a signal.
package testkit
