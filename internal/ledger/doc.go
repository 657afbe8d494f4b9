// Package ledger keeps the facts in SQL: who bought what, which seats are
// blocked, and what became of the money.
//
// # What is stored
//
// An order is one row of order_info, whatever becomes of it. The seats that it
// has now are rows of order_seat, and nothing else is there: they go when an
// order is cancelled, expires or is refunded. The unique key on (show, seat)
// of that table is what makes a double sale impossible. Every transition, and
// every call to cancel, adds a row to order_event, which is only ever added
// to, and one to outbox, which goes once the event is published. A payment is
// stored in the transaction that decides its ending. Instants are integer
// microseconds since 1970 in UTC, 0 for none; callers see times rounded down
// to that. The schema is in migrations; a database with a newer one than this
// release knows is not opened ([ErrNewerSchema]).
//
// # One committer
//
// There is one connection that writes (MySQL has more, see below), and one
// goroutine that uses it. Writers queue; the committer takes everything that
// queued while its last commit ran and writes it as one transaction: the new
// orders by multi-row statements, then every other change by itself. It never
// waits for more, so a lone order costs one plain commit, and under load one
// sync serves hundreds. A batch is bounded in changes and bytes, the queue in
// changes: what does not fit is refused at once with ErrNotCommitted.
//
// The new orders of a batch are written without looking first. When a key
// refuses one, the transaction is undone and the batch written again with a
// look before each order, so that the one that conflicts is told exactly why
// and its neighbours are committed; the first in the queue wins. A failure that
// is nobody's own answer makes the batch run once more, each change in a
// transaction of its own, so that a bad one fails alone.
//
// Every other change reads its order, checks it and then writes it with a
// condition on version and state. It may run more than once before it is
// committed, and it never writes before it has decided: an answer such as
// ErrWrongState leaves nothing behind.
//
// # Failure
//
// A context that ends withdraws a change that still waits. One that the
// committer has begun is waited for, except that a deadline which passes turns
// it into ErrUnknownCommit. When COMMIT itself fails, every member of the batch
// is told ErrUnknownCommit, unless the database was merely busy: a transaction
// whose last write failed may still be found in the log after a crash.
//
// A database that does not work (full, unreadable, gone) marks the ledger as
// down: changes are refused at once with ErrNotCommitted, and every quarter of
// a second one is let through to see. [Ledger.Healthy] does that too. Close
// accepts nothing more, commits what was accepted and then closes.
//
// # Reading
//
// Reads use a pool of their own, see every commit that was acknowledged before
// they began, and wait for no writer. Those of several statements run on one
// snapshot. [Ledger.OrderByKey], which every order asks first, is answered for
// a key that was never used from a Bloom filter in memory.
//
// # SQLite
//
// The writer has journal_mode=WAL and synchronous=FULL: a commit returns after
// its log is on the disk, so an acknowledged order survives the process and the
// power. Where the system has fdatasync it is used in place of fsync, as SQLite
// itself does. foreign_keys is on, and busy_timeout five seconds, though nobody
// else should have the file open: whoever opens it holds the lock of its data
// folder. Readers have query_only. The log is copied into the database by a
// connection beside the writer, which finishes between two commits.
//
// # MySQL and MariaDB
//
// Any number of processes may write the database, so nothing that one of them
// remembers may decide anything. There is no Bloom filter; look-ups by key and
// by number that are made at the same time share a statement instead. An
// event's number is the microsecond at which it was given and the number of the
// process, so that nobody counts. What a change decides on is read FOR UPDATE,
// a show's generation LOCK IN SHARE MODE once a batch. Rows of seats are
// written in the order of the seats; rows are locked by key alone. Sessions run
// at READ COMMITTED, reads that must agree on one snapshot above it.
//
// New orders have a committer, as above; every other change is one of a small
// batch on one of a few connections. A batch that another process spoils (a
// deadlock, a key, a connection that was cut before the commit) is written once
// more as a whole; if that does not help, or a lock was not had within a
// second, its changes run singly on connections kept for that, each until it
// has an answer, five seconds have passed or its caller's deadline has. While a
// show's row stays locked, its orders go there at once and hold up nobody.
//
// An error of COMMIT is [seatflow.ErrUnknownCommit] unless the server said that
// it rolled back. What then stands is decided by the primary key of the order's
// number, between the insert and the row of [Ledger.VoidOrder], which waits for
// a commit that is still on its way. The server ends a session that is silent
// for half a minute, within a transaction too, so that a process which froze
// keeps its locks no longer.
//
// A server that cannot be reached is known to be down from a commit that
// failed, or from being asked every second; it is found again likewise. Every
// new connection checks that the server keeps what it commits
// ([ErrRelaxedDurability]).
//
// What differs between databases is listed in dialect, each difference by name;
// all other SQL is meant to run anywhere, but for texts.go, which holds what is
// done in few long statements.
package ledger
