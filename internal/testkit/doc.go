// Package testkit holds what tests need and programs must not: a clock that
// moves only when told to, faults on demand around a port, and throw-away
// backends. It is imported from tests only.
//
// Nothing in it sleeps. A test that waits for time to pass moves a
// [FakeClock]; a test that waits for work to happen waits for a signal.
//
// # State model
//
// A backend is one or several processes on free ports of 127.0.0.1, with their
// files in a folder of the test process below the temporary one. Start
// functions give a test servers of its own, which end with it. Shared
// functions give every test of a package the same servers, started by the first
// that asks and empty or with a database of its own for each; they revive
// servers that the test before killed or paused. What is slow to make, an
// installed MariaDB and the program of NATS, is made once for each version and
// user of the machine and kept.
//
// A server runs, is paused (its connections stay open and nothing answers), or
// has ended; a test may take it from any of these to any other. Calls that
// change it return when it has changed. They may come from several goroutines,
// but not for the same server.
//
// # Failure
//
// A program that is not installed skips the test, or fails it when
// SEATFLOW_REQUIRE_BACKENDS=1. A port that somebody else took before the server
// did leads to another try on another port. A test that fails has the last
// output of its servers in its log.
//
// Servers end with the test process, whatever ends that. A shell outside it
// reads from a pipe until the process is gone; then it kills what works in its
// folders and removes those it made. So no goroutine watches here, and tests
// may look for leaked ones.
//
// Servers of a real network fault do not end: the [Proxy] in between loses,
// holds back or cuts what passes, for as long as the test wants it to.
package testkit
