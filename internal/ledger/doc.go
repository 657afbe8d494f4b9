// Package ledger keeps the facts in SQL.
package ledger
