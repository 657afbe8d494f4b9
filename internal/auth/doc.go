// Package auth says who calls and what they may do. Every transport uses it,
// so that a rule cannot hold on one door and not on another.
//
// # Tokens
//
// A token is a JWT signed with HS256 and nothing else: the algorithm is pinned
// before a key is looked at, so neither "none" nor an asymmetric header is
// ever considered. Issuer and audience are ours, the expiry is required, the
// subject must be a name that may be stored, and the role one that the table
// knows. A token longer than [MaxTokenLen] is refused before it is parsed.
//
// Verifying costs a signature and a JSON document, which is more than the rest
// of a hot request together. [Tokens] therefore remembers tokens that it has
// verified: a bounded number, each only until it expires, found by a seeded
// hash and compared whole. Forgetting one costs time and nothing else, so a
// full shard drops entries at random. Refusals are not remembered.
//
// # Access
//
// [Allowed] is the one access table: an action and the roles that may take it.
// What it cannot know, whose order is asked for, is part of the queries that
// read orders.
//
// # Failure
//
// Every refusal of a token is a *seatflow.Error with code 1001; its cause is
// for the log and says nothing to the caller.
package auth
