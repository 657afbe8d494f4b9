// Package loadgen makes traffic over the public API: load with a fixed
// schedule ([Run]) and simulated buyers ([Crowd]). It knows nothing of the
// server but its API.
//
// # Load
//
// [Run] is open-loop: arrival i belongs at start + i/rate whether or not
// earlier answers have come, and its latency counts from that moment, so that
// a server that stalls cannot slow its own measurement down (coordinated
// omission). The number of outstanding requests is bounded by the
// connections; an arrival that found all of them busy is sent late, counted
// as a missed schedule, and its wait is part of its latency.
//
// Business refusals (a taken seat, a purchase limit) are answers, counted
// apart from errors and from rate limits.
//
// # Failure
//
// One confirmation has one idempotency key. After a time-out, a lost
// connection or a 503 the outcome is unknown or "not now", and the same
// request is sent again with the same key, a bounded number of times. What a
// server acknowledged goes into an [AckLog], so that package verify can hold
// the server to it, whatever happened to the server in between.
package loadgen
