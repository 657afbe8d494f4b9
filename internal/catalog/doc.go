// Package catalog keeps what staff decide about: halls, seat plans and shows.
//
// # State model
//
// The ledger holds the catalog; this package judges what goes in, gives
// defaults, and keeps a bounded cache of what comes out. A [seatflow.House] is
// a show, its hall and its plan, indexed. It is immutable and shared: a change
// makes a new one. Plans are immutable once published, so the shows of a hall
// share one.
//
// # Trust window
//
// A cached house is what the ledger said at most [TTL] ago. A change made
// through this Service is seen by its next call. A change made elsewhere (another
// node) is seen when the entry has grown stale and the show's row is read
// again. Nothing that a sale depends on rests on that: the seat store and the
// ledger check generation and occupancy themselves.
//
// # Failure
//
// When the ledger cannot be read, houses that were cached are served on, so
// that maps stay up while nothing can be sold anyway; a house that was never
// read is an error. A show that is gone is [seatflow.ErrNotFound] at once.
// Publishing a plan whose outcome is unknown is looked up before it is tried
// again, so that a retry never publishes twice.
package catalog
