// Package memseats keeps seat state in the memory of one process. It is the
// view of the embedded mode: it forgets everything when the process ends and
// is rebuilt from the facts.
//
// # State model
//
// A show's view is one immutable root: generation, revision, counts, and the
// seats in pages, each seat with its state and the record of the order that
// has it. Orders and what users are charged with follow from the records. A
// writer takes the show's lock, copies the few pages it changes into a new
// root that shares all others, publishes it by one pointer store and appends
// the change to the log of its partition before it lets go of the lock. So
//
//   - a reader loads one pointer and has a consistent view for as long as it
//     likes, without any lock, while writers go on;
//   - a writer costs the same in a house of 500 seats and of 60,000;
//   - an operation that is refused has written nothing, since what it
//     prepared is simply dropped;
//   - the newest position in the log is never ahead of the root: who reads
//     the position first and the snapshot second misses nothing.
//
// What a seat may become is asked of seatflow.Next, nowhere else. The only
// exceptions are a rebuild and a repair, which set what the facts say.
//
// Most callers of a hot sale ask for seats that are gone. They are answered
// from the root they find, without the lock; only a caller who may win, or
// who meets an order of its own, queues for it.
//
// # Time
//
// The clock given in the options decides when a hold is due; instants are
// kept to the millisecond. A hold whose deadline has passed stays held: it is
// only offered to the guardian, who asks the ledger what to do with it.
//
// # Failure
//
// A view that is missing sells nothing, nor does one whose counts do not fit
// its seats and records; both wait for a rebuild (or, the latter, a repair).
// Every store has a random identity, and positions in its logs carry it, so a
// position from before a restart is recognised and answered as trimmed.
// Nothing here blocks but waiting for changes, and nothing runs in the
// background.
package memseats
