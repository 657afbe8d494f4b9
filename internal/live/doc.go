// Package live answers "how does the house look now?" and tells everyone who
// watches how it moves on.
//
// # State model
//
// A [Map] is a show's seat map at one revision: immutable, encoded once, and
// shared by everyone who asks while that revision stands. Where the seat
// store lives in this process a map is as fresh as the store: [Hub.Map]
// compares revisions with it on every call, so a caller always sees its own
// acknowledged changes. With [Options.Replicas], for a store behind a
// network, maps come from replicas that follow the store's changes, and
// reading one costs no call to the store.
//
// A feed exists for each watched show. It knows the last revision that it
// read (its head) and the last that it has sent (sent ≤ head), and keeps the
// most recent changes in a ring for those who resume. One follower goroutine
// per partition with a feed reads a [Source] and is the only writer of its
// feeds: the store's own changes ([StoreFeed]), or what relays publish on the
// bus ([BusFeed]), which serves any number of nodes at the price of one reader.
// A feed outlives its last subscriber for a while, so that a phone that lost
// its connection finds the ring still there; then it is dropped, and with the
// last feed of a partition its follower ends.
//
// Each [Subscription] has the revision that its subscriber will have once its
// queue is read. Every frame leads from exactly that revision to a later one,
// or is a snapshot, which replaces everything before it. That is the whole
// argument for "nothing skipped, nothing twice": the shared frame goes to
// those who stand where it begins, and the few who stand elsewhere (they
// joined with a map fresher than the last frame) get one made for them.
//
// # Failure
//
// By (store, generation, revision) a change is next and is applied, or was
// seen and is dropped, or leaves a gap or has a higher generation; then, and
// when the store has dropped changes unread or has become another incarnation,
// or the bus may have lost messages, the feed is stale: nothing more is sent
// from it until a fresh snapshot has been read, which all its subscribers get.
// A view that is missing is rebuilt on the way ([Options.Ensure]). A store
// that fails is asked again with growing pauses; subscribers stay and wait.
//
// Of a lower generation nothing is believed, neither a message of a relay that
// was deposed nor the house of a store that was: no client gets a fork. Every
// few seconds each feed is compared with the store, so that a bus which is
// away, or silent about what it lost, makes maps late and no worse.
//
// Queues are bounded. A subscriber that does not keep up is cut with
// [ErrSlow], costs the others nothing, and may resume by its last revision.
//
// The first change after a quiet spell is sent at once; what follows within
// [Options.Window] of it is read and sent as one frame, in which each seat
// stands once. So the work per second is bounded by the number of watched
// partitions and subscribers, not by the rate of orders.
package live
