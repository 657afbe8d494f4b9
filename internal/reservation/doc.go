// Package reservation is seats by time slot: rooms, their opening rules, the
// slots made from them, and the life of a reservation.
//
// # State model
//
// A room is a hall with an IANA zone. Rules say in local times when it is
// open; [Resolve] alone turns a local time, on its own date, into an instant,
// for making, showing and booking alike. A slot is a real half-open interval
// and belongs to the civil date on which it begins.
//
// The arbiter is the database row, not the view: a reservation is checked and
// inserted in one transaction of the ledger under a lock on the seat's row.
// States: booked → cancelled, completed, no_show; booked → checked_in →
// completed.
//
// # Failure
//
// A slot whose beginning or end the clock skips is not made and is reported.
// Whatever fails inside the transaction leaves nothing and frees the lock.
package reservation
