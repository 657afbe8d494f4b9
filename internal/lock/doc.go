// Package lock gives leases: by the Redlock algorithm over N Redis servers, or
// within one process.
package lock
