// Package notice brings messages to one user to wherever that user is
// connected: an order of theirs has changed on another device, a hold of
// theirs is about to end, a show that they follow has changed.
//
// # State model
//
// [Rooms] has one room for each user with a subscription on this node, and a
// bounded queue for each subscription. Nothing is kept for users who are not
// there: a notice is a hint about facts that are elsewhere, and who connects
// reads those.
//
// [Watch] feeds the rooms with what happens to orders: it follows the orders'
// events on the bus while anybody is here, and keeps the deadlines of their
// holds.
//
// # Failure
//
// A subscriber that does not read is cut: its channel is closed, and it reads
// the facts when it comes back. Where notices may have been missed on the way
// to this node every subscriber gets [seatflow.NoticeMissed].
package notice
