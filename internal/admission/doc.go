// Package admission refuses early and cheaply what is over a rate, so that
// one caller's haste is not everybody's wait.
//
// # State model
//
// A window is named, and remembers when attempts were made under its name. An
// attempt at an instant passes when fewer than most were made during the span
// before it; it counts either way, so that who keeps hammering keeps being
// refused. Times that no answer depends on any more are forgotten: at most the
// newest most of a name, and of a name that has been idle for a span none.
//
// [Memory] keeps windows in one process, exactly, and one lock is held for a
// few instructions in one of many shards. On several nodes the windows live in
// Redis, and any seatflow.RateWindows will do. [Service] asks them about users
// who want to order; the window of a whole show is asked inside the hold, so
// that its count and the seat are one step.
//
// # Failure
//
// Windows guard fairness, never correctness: when they cannot be asked the
// caller is let through, which is counted and, now and then, logged. What
// process memory knew is gone after a restart, and everybody starts afresh. A
// clock that is set back makes windows stand still until it has caught up, but
// forgets them when it is set back by more than a span.
package admission
