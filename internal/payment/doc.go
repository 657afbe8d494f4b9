// Package payment takes money through providers and applies their callbacks.
//
// # State model
//
// A payment event is received → verified over its raw bytes → stored by its
// unique event id and decided in one ledger transaction → answered. The answer
// comes only after that commit, so a provider may deliver an event late, twice
// or out of order, and an event that was not answered comes again. Refunds are
// facts in the ledger first; a worker asks the provider until it succeeds,
// with the refund's id as the provider's idempotency key.
//
// # Failure
//
// A callback that cannot be stored is answered with an error and delivered
// again by the provider. Whether the view could be told is not the provider's
// concern: booking queues that. The sandbox provider keeps nothing: what it
// had not delivered yet is lost with the process, as if the buyer had closed
// the card form.
package payment
