// Package bus carries changes through NATS JetStream: on a server inside this
// process by default, or on any cluster of 2.12 or newer, named by its URLs.
//
// # State model
//
// There are two streams, one for seats and one for orders; a message's subject
// decides which. A stream is limited in age and bytes and drops its oldest
// messages first. It has an incarnation, its name and the instant it was made:
// a stream that was deleted is made again by whoever next needs it, empty and
// with another incarnation.
//
// Publish sends runs of messages and waits for the acknowledgement of each
// run before it sends the next. A message that is not acknowledged is sent
// again, with all that follow it in its run and under the same ids, until the
// caller's time is up. A Bus takes the acknowledgements itself, on one
// subscription, instead of by the library's futures: these cost about half as
// much again as the whole rest of a publication.
//
// Subscribe reads through a consumer that lives in the server's memory, asks
// for no acknowledgement and may vanish at any time. The subscription knows the
// newest message that it has seen and reads on from there through another
// consumer whenever something looks wrong: the connection was cut, heartbeats
// stay away, a number is missing, the server says so. Before it reads on it
// proves that nothing was lost: the stream has the same incarnation, still has
// the message it saw last (the same, by its time: a server that lost the end of
// its stream gives the numbers out again), and has trimmed nothing after it. What
// cannot be proven is announced as a Gap. Beside that it looks, every few
// seconds, whether the stream was trimmed beyond a place that it has not read.
//
// There is no limit by subject. A stream that trims in its middle cannot be
// proven to be whole, and Last needs none.
//
// # Failure
//
// The bus is a projection. Its messages are written to the file before they
// are acknowledged, and brought to the disk every two minutes: a power cut may
// take the last of them, and a server that is lost takes all. Consumers then
// hear of a Gap and take snapshots.
//
// A connection that is lost is sought again for ever, with growing pauses of
// at most a second. Meanwhile Publish waits, at most for Options.Patience, and
// then fails; nothing is kept in memory to be sent behind the caller's back.
// After an error the messages that are stored are usually the first ones, but
// a server that fails in the middle of a run may have stored a later one
// without an earlier one. Published again with the same ids, the earlier one
// then stands behind the later one, so consumers go by what messages say.
//
// A cluster elects other leaders when it loses a server, which takes a few
// seconds; Publish bridges them within its patience. A stream of one replica is away
// for as long as its server is.
package bus
