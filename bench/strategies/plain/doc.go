// Package plain is a booking service as it is usually built on Redis and SQL,
// built with care: what SeatFlow's distributed mode is compared with.
//
// An order is three steps one after the other: a script for the user's rate
// window, a script that checks and takes the seats in a Redis hash of the show
// and notes the deadline, and one transaction with the order's row and a row a
// seat under a unique key. It has what a competent implementation has: one
// pipelined Redis client for all callers, a bounded pool of database
// connections that stay open, prepared statements, READ COMMITTED, retries of
// deadlocks, seats given back when the transaction fails. It has no group
// commit, no history, no outbox, no change stream, no generations.
//
// # State model
//
// Redis: a hash a show, field seat number, value "0" for free or the order's
// number; a sorted set of deadlines; a sorted set a user for the rate window.
// SQL: order_info (one row an order) and order_seat (one row a seat, primary
// key show and seat). The unique key is what makes a double sale impossible.
//
// # Failure
//
// A process that dies between the second script and the commit leaves seats
// taken in Redis for nobody until [Store.Sweep] comes past their deadline. A
// commit whose outcome is unknown leaves them taken as well. A Redis that
// forgets offers sold seats again; the unique key then refuses their buyers.
package plain
