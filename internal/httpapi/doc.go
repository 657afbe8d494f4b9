// Package httpapi is the HTTP transport: it decodes, calls and encodes, and
// decides nothing about seats.
//
// # One registry
//
// Every endpoint is one entry of [API]'s route list: method, path, the action
// of the access table, body and time limits, the handler, and what it takes
// and answers as Go types. The mux, the access check, the limits, the request
// counters and the OpenAPI document are all made from that list, so an
// endpoint cannot exist undocumented, unlimited or unguarded.
//
// # One place each
//
// decode.go reads JSON: strictly, with the path of what is wrong. encode.go
// writes it. problem.go turns any error into a problem document (RFC 9457) in
// the caller's language; texts.go has the words. A handler returns an error
// and never writes one.
//
// # Hot path
//
// Creating an order, the conflict that answers most of them when a sale opens,
// and reading a seat map cost the transport a few microseconds: the token was
// verified before, bodies live in pooled buffers, well-formed orders are read
// by a small decoder of their own (anything that it does not know goes to the
// strict one, which alone refuses), and answers are appended, not reflected.
//
// # Failure
//
// An error that is a *seatflow.Error is shown as its code says. Any other is
// logged once with its trace id and shown as a system error without details;
// a panic likewise. Streams end when the client goes, when it reads too
// slowly, and when the server stops; nothing of them is left behind.
package httpapi
