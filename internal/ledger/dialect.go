package ledger

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// uniqueKey is a key that a promise rests on.
type uniqueKey struct {
	name    string
	table   string
	columns string // comma-separated, in order
}

// uniqueKeys are the keys without which the ledger promises nothing. The
// audit says which are missing.
var uniqueKeys = []uniqueKey{
	{"uk_order_seat_show_seat", "order_seat", "show_id,seat_id"},
	{"order_info primary key", "order_info", "no"},
	{"uk_order_info_user_key", "order_info", "user_id,okey"},
	{"order_event primary key", "order_event", "order_no,version"},
	{"uk_payment_provider_event", "payment", "provider,event_id"},
	{"uk_payment_provider_capture", "payment", "provider,capture_id"},
	{"refund primary key", "refund", "id"},
	{"seat primary key", "seat", "hall_id,seat_id"},
	{"uk_seat_hall_guid", "seat", "hall_id,guid"},
}

// dialect is what differs between databases, each difference by name. All
// other SQL in this package is meant to run everywhere.
type dialect interface {
	// gooseDialect and migrations say how the schema is made.
	gooseDialect() goose.Dialect
	migrations() fs.FS

	// begin opens a transaction that will write; what it reads is what is
	// there when it writes.
	begin() string
	// insertOrRollback begins an insert that ends the whole transaction when
	// a key refuses a row, where the database can do so, and says whether it
	// did.
	insertOrRollback() (verb string, endsTransaction bool)
	// lockShow is appended to the read of a show that must stay as it is until
	// the transaction ends, forUpdate to the read of a row that it changes.
	lockShow() string
	forUpdate() string
	// snapshot says how several reads see one state of the database.
	snapshot() *sql.TxOptions
	// ordersOf reads a page of a user's orders (user, number, limit), newest
	// first, facts the orders that have seats of a show, blocks those of them
	// that are blocks.
	ordersOf() string
	facts() string
	blocks() string
	// join joins in the order in which the tables are written.
	join() string

	// shared: other processes write the same database, so that what this one
	// remembers of it may be out of date and a row may change between a read
	// and a write.
	shared() bool
	// texts: statements go as text with their values in it, and what can go
	// in one statement should; otherwise they are prepared.
	texts() bool
	// pack and unpack are how large documents are stored.
	pack(document []byte) ([]byte, error)
	unpack(stored []byte) ([]byte, error)

	// isDuplicate: a unique key refused a row.
	isDuplicate(err error) bool
	// isDown: the database as a whole did not work, whatever was asked. That
	// a transaction cannot begin says so by itself.
	isDown(err error) bool
	// isTransient: another transaction was in the way; the whole transaction
	// may be run again. isLockWait: it waited for a lock until it gave up.
	isTransient(err error) bool
	isLockWait(err error) bool
	// certainlyNotCommitted: an error of COMMIT after which the transaction
	// is known not to have happened.
	certainlyNotCommitted(err error) bool

	// missingKeys lists those of uniqueKeys that are not there.
	missingKeys(ctx context.Context, q querier) ([]string, error)
	// integrity lists what the database finds wrong with itself.
	integrity(ctx context.Context, q querier, limit int) ([]string, error)
}

// querier is what reads run on: a pool, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
