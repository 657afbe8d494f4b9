// Package payment takes money through providers and applies their callbacks.
//
// A callback is verified over its raw bytes, stored by its unique event id and
// decided in one ledger transaction, and answered only after that commit, so a
// provider may deliver it late, twice or out of order. Refunds are facts in
// the ledger first; a worker asks the provider until it succeeds, with the
// refund's id as the provider's idempotency key.
package payment
