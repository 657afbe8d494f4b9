// Package simulate runs the core (booking, guardian, reconcile, relay,
// payment) in worlds that are made of a seed: several nodes, a crowd of
// buyers, a payment provider, and everything that can go wrong between them.
//
// # A world
//
// A world lives in a testing/synctest bubble, so its time is made up and
// passes only when nobody has anything to do. The seat state is memseats, the
// facts are the real ledger on SQLite, the bus and the leases are kept by the
// world. Every call of a node to one of them stops at a gate. When nothing in
// the world runs any more, the scheduler picks one of the waiting calls by the
// seed and decides what becomes of it: it is done; it, or its answer, is lost;
// it is refused; its commit lands later; its node dies before or after it.
// Between two calls the scheduler may also kill, pause or start a node, take a
// view away, corrupt a seat, replace the whole store, set a clock, wipe the
// bus. So there is one thread of events, and a seed always tells the same
// story (see [Result].Hash).
//
// Each seed draws which kinds of fault its world knows; one in eight knows
// none, and there no repair may happen at all.
//
// # What is checked
//
// While it runs, after every call: seats are only taken away from an order
// that the facts have ended; only paid seats are shown as sold; an insert
// after a good hold meets no other order; nothing is committed for a hold that
// was given back; nobody has more seats than the show allows; a failed request
// holds nothing when it is answered.
//
// At the end the faults stop, and once everything had its time: I1 to I4 by
// package verify, with a log of every acknowledgement; I6, every watcher's map
// is the view; conservation, the seats of all states add up and every user's
// count is the seats they have; two rounds of the reconciler, and the next
// finds nothing; the provider's captures are the ledger's, each with one
// ending.
//
// A world that fails is run again with less: without each fault, with fewer
// buyers and nodes. What still fails is told as a trace of the calls that
// concern it.
package simulate
