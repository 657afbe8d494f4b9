// Package telemetry is what the server says about itself: logs, metrics,
// health, and the trace ids that tie a log line to a request and to the
// events of an order.
//
// # State model
//
// A [Metrics] owns its registry, so that two servers in one test process do
// not share counters. Everything that is counted on a hot path is resolved
// when the server starts; counting is then a few atomic operations. Labels
// come from short lists fixed here: never a user, a seat, a show or an order,
// which would let callers grow the server's memory. A label that is not on
// its list is counted as "other".
//
// A trace id is W3C Trace Context: taken from the caller's traceparent header
// when that is well-formed, made here otherwise. It travels in the context;
// the logger of [NewLogger] adds it to every line.
//
// # Failure
//
// Telemetry never fails a request. A nil *Metrics, *Route or *Outcomes counts
// nothing, so parts can be tested without one. A health check that hangs is
// reported as failing and is not started a second time while it hangs.
package telemetry
