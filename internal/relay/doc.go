// Package relay moves seat changes and the ledger's outbox to the bus, in
// order.
package relay
