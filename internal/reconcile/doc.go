// Package reconcile makes the view agree with the facts again.
//
// The two stores drift apart when something dies between them: a payment that
// committed and was never shown, a hold whose order never came, a store that
// forgot. A [Reconciler] looks at shows in rotation, compares what the view
// has with what follows from the facts, and mends the view. It never mends the
// facts: all it may do to an order is to expire one that is past its time,
// through the same code as the guardian. It has no way to make, revive or pay
// one: see [Ledger].
//
// # State model
//
// Seven checks, each with the label that its repairs are counted under:
//
//	1 expired_cancelled      a pending order more than a minute past its deadline is expired
//	2 paid_seats_fixed       a seat of a paid order is set sold, whatever stands there
//	3 hashes_rebuilt         a view that is missing, or beyond mending, is built anew from the facts
//	4 orphan_locks_released  a held seat whose owner has no live order is released
//	5 sold_orphans_released  a sold seat whose owner has no paid order is released
//	6 pending_seats_fixed    a seat of a pending order is held for it again
//	7 derived_fixed          blocks, records, counts: set to what they derive from
//
// What tells the checks apart is what a seat should be, and only where it
// should be free what it is; so every seat that is wrong belongs to exactly
// one check and needs one repair.
//
// A lost wake-up cannot be seen in a view and need not be: a hold whose
// deadline nobody was woken for is found by check 1 when it has an order and
// by check 4 when it has none, and every repair of a held seat sets the
// wake-up of its order anew.
//
// # Beside live traffic
//
// The view is read first, in one snapshot, and the facts after it, so that
// whatever the view had been told of is among them. A difference is acted upon
// only if the last change on both sides is older than the grace time: the
// order's in the ledger, the taking in the view. Where a side has no time (an
// owner without a record) the difference must have been seen unchanged for the
// grace time. The store itself compares each seat with the snapshot before it
// sets it. Then the show is looked at again at once, its facts included: an
// order that moved before the repair shows there, and one that moves after it
// tells the view by itself. What this round set and nobody has touched since
// needs no grace, so a repair that was overtaken is undone in the same round.
//
// A hold whose order has no row is released only after a void row has made the
// absence a fact. Whoever was about to insert that order is refused, and holds
// again or gives up; see package booking.
//
// # Failure
//
// Everything may be repeated, by several nodes and after a crash at any point:
// repairs are compared in the store and a show is worked on under a lease. A
// round that dies leaves its shows to the next lap; a show that cannot be read
// is reported and counted as unchecked, and the others go on. When the view
// has more than one in a hundred of a show's sold seats that the ledger cannot
// account for, it is more likely that the ledger lost something: nothing is
// touched there and an alarm is raised.
package reconcile
