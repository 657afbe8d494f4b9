// Package seatplan reads, checks, writes and draws up seat plans in the
// exchange format of the pretix seating-plan editor, with its older and its
// newer field set.
//
// # State model
//
// A plan passes through three forms and never back:
//
//	bytes --Parse--> Document --Plan--> seatflow.Plan --Export--> bytes
//
// A [Document] is what the file says: zones hold rows, rows hold seats,
// positions are relative, categories are names. A [seatflow.Plan] is what is
// sold: absolute positions, indexes instead of names, and a small number for
// every chair. The number is given once for each guid in a hall and stays with
// it in every later version; a chair that is gone takes its number along.
// Numbers are not part of the format, so an export carries none, and importing
// it into the same hall finds the same numbers through the guids.
//
// # Failure
//
// [Parse] either returns a Document that can be published as it stands or a
// [FaultsError] with the whole list of what is wrong, each fault with its place
// for machines and for people. It goes on after a fault wherever the JSON
// itself can still be followed. Nothing is repaired on the way: two seats with
// one guid are refused, or told apart on request, and never merged. Members
// that it does not know are skipped and listed in [Document.Warnings], because
// the format grows.
//
// Input is untrusted. Memory is bounded by the size of the input, which is
// bounded itself, and so are nesting, counts, lengths and the list of faults.
package seatplan
