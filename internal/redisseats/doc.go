// Package redisseats is the view in Redis 7.0 or newer: every operation of
// seatflow.SeatStore is one Lua script, on one server, behind Sentinel, or on
// a Cluster. Any number of processes may share it.
//
// # State model
//
// A show has six keys, a partition two, all with the partition's hash tag and
// so in one slot; docs/seat-state-redis.md shows them as a person reads them.
// A script checks everything before it writes anything, and appends the change
// it makes to the partition's stream in the same step. Time is the server's.
// What a seat may become stands in the scripts' headers and is held against
// seatflow.Transitions by the conformance suite, and against the memory store
// by the differential runs.
//
// A hold is one round trip and costs the same in every house. Only a snapshot,
// a rebuild, and a repair that finds the counts wrong read a house whole.
//
// The counts in meta are compared with the lengths of the keys on every hold
// and every edit. If they do not fit, the view is suspect and sells nothing.
//
// # Which server is it?
//
// Nothing that is stored can tell whether the server that holds it has
// forgotten something: a restart brings old data back, and a promoted replica
// has what reached it. What tells is what lives in one process only: its cache
// of scripts. An identity is made of the server's run id, which every process
// has anew, and its replication id, which every promotion makes anew. It is
// read and written into the text of every script, and the scripts are loaded,
// over one connection; so a process has scripts with its own identity in them
// and no others, and calls by digest reach the incarnation they are meant for
// or fail with NOSCRIPT. Scripts compare the identity in their text with that
// of the view, which was put there by the rebuild. A view of another
// incarnation is not ready.
//
// A process that is demoted and promoted again still has its scripts. So the
// identity is also read again whenever a connection was opened, before every
// rebuild, when a view turns out to be of another incarnation, and once a
// second.
//
// In a Cluster each partition has the identity of the master that has its
// slot. A slot that moves takes its views to another process, so they are
// rebuilt there.
//
// # Failure
//
// What the server refuses before it does anything (NOSCRIPT, TRYAGAIN,
// CLUSTERDOWN, LOADING, READONLY, MOVED, BUSY and the like), and what could
// not be sent, was not executed: it is tried again until the caller's
// deadline and then reported as seatflow.ErrNotExecuted. A server that is out
// of memory is not asked again. A time-out or a lost connection means that
// nobody knows: seatflow.ErrUnknownOutcome, at once, and never "taken". The
// same owner may ask again; if it holds the seats it is told so. Scripts that
// only read are asked again.
//
// At its memory limit the server refuses holds and rebuilds; sales, releases,
// extensions and refunds go on. A server that may evict keys is refused.
//
// No more calls are in flight than the queue of a connection holds, those
// included that were given up and may still be answered; others wait for
// their turn as long as their deadline allows. So a server that swallows
// everything costs a bounded amount of memory.
package redisseats
