//go:build !linux

package ledger

// gatherLogWrites: elsewhere SQLite writes its log as it always does.
func gatherLogWrites() string { return "" }
