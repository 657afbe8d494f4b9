// Package relay moves seat changes and the ledger's outbox to the bus, in
// order and without a gap.
//
// # State model
//
// Each partition has one relay at a time, by a lease ("relay:p07"). It reads
// the partition's changes in order and publishes them; the place to go on from
// travels in the messages themselves, so the newest message of a partition is
// all that a successor needs, and there is no cursor to lose. What one read
// holds of a show becomes one message. Every message of a batch but the last
// tells its successor to begin with the batch again, because the ones after it
// may not have been stored.
//
// The outbox has a lease of its own ("relay:outbox"). Rows are read by
// presence, published, and deleted after the acknowledgement.
//
// Nothing is published twice in the ordinary run. After a lost
// acknowledgement, a takeover, or while two relays both believe to own a
// partition, it may be: consumers go by (store, generation, revision) and by
// (order, version), and drop what they have seen.
//
// # Failure
//
// The identity of the seat store is read with every batch. Another one than
// was published last means that revisions may have forked: the batch is thrown
// away, every current show of the partition is made sure of (a view of the
// former store is rebuilt under a new generation), and only then a reset goes
// out for each, and what follows it.
//
// When the seat store dropped changes unread, when nothing is stored of a
// partition any more, or when the stream is another one than this relay has
// published to, a reset for each show comes first: a consumer that is behind
// takes a snapshot. A gap is never passed over in silence.
//
// A bus that fails is asked again with growing pauses, for ever; meanwhile
// changes wait in the seat store and events in the ledger, and sales go on. A
// relay whose lease ends stops at once; its successor begins where the stream
// ends. Neither the seats nor the facts depend on any of it.
//
// In a rush a relay waits a little between reads, so that the number of
// messages is bounded by time and not by the number of orders.
package relay
