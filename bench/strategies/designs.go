package main

// Design is one row of the table.
type Design struct {
	Name string
	Open opener
	// PerSecond is how many seats a second of the run the house gets: more
	// than this design can sell, within reason.
	PerSecond int
	InProcess bool // its whole state dies with the process, so there is nothing to probe
	Leases    bool // what a dead taker leaves behind ends by itself
	Control   bool // it is wrong, and must be seen to be
	Guard     string
	Durable   string
	Promise   string
}

// designs are all rows, in the order of the table.
var designs = []Design{
	{
		Name: "naive", Open: openNaive, PerSecond: 8_000, Control: true,
		Guard:   "none: read the seat, then write the sale",
		Durable: "each sale is on disk before it is answered",
		Promise: "nothing; the negative control",
	},
	{
		Name: "mutex", Open: openMutex, PerSecond: 800_000, InProcess: true,
		Guard:   "one mutex over the whole house",
		Durable: "nothing; the sales die with the process",
		Promise: "no seat twice while one process lives",
	},
	{
		Name: "compare-and-swap", Open: openCompareAndSwap, PerSecond: 800_000, InProcess: true,
		Guard:   "an atomic flag a seat",
		Durable: "nothing; the sales die with the process",
		Promise: "no seat twice while one process lives; two seats are not taken in one step",
	},
	{
		Name: "row lock", Open: openRowLock, PerSecond: 8_000,
		Guard:   "`SELECT … FOR UPDATE` on each seat's row, in the order of the clicks",
		Durable: "each sale is on disk before it is answered",
		Promise: "no seat twice, whatever dies or sleeps; deadlocks are broken by the server and tried again",
	},
	{
		Name: "version column", Open: openVersionColumn, PerSecond: 8_000,
		Guard:   "`UPDATE … WHERE version = ?` over what was read",
		Durable: "each sale is on disk before it is answered",
		Promise: "no seat twice, whatever dies or sleeps; losers find out late",
	},
	{
		Name: "lock a hall", Open: openSetNX(hallNames), PerSecond: 8_000, Leases: true,
		Guard:   "`SET NX PX` in Redis by hall, then check and act in SQL",
		Durable: "each sale is on disk; locks are not",
		Promise: "no seat twice while no holder outlives its lease and Redis forgets no lock",
	},
	{
		Name: "lock a show", Open: openSetNX(showNames), PerSecond: 8_000, Leases: true,
		Guard:   "the same by show",
		Durable: "each sale is on disk; locks are not",
		Promise: "the same",
	},
	{
		Name: "lock a seat", Open: openSetNX(seatNames), PerSecond: 8_000, Leases: true,
		Guard:   "the same by seat, all of them or none",
		Durable: "each sale is on disk; locks are not",
		Promise: "the same",
	},
	{
		Name: "Redlock a seat", Open: openRedlock, PerSecond: 8_000, Leases: true,
		Guard:   "Redlock by seat on a majority of independent servers, then check and act in SQL",
		Durable: "each sale is on disk; locks are not",
		Promise: "the same, and locks outlive the loss of a minority of the servers",
	},
	{
		Name: "plain", Open: openPlain, PerSecond: 8_000, Leases: true,
		Guard:   "a script for the rate window, a script over a Redis hash for the seats, one transaction an order under a unique key",
		Durable: "each sale is on disk before it is answered; the hash is not",
		Promise: "no seat twice, whatever dies or sleeps: the unique key decides",
	},
	{
		Name: "SeatFlow, embedded", Open: openEmbedded, PerSecond: 120_000, Leases: true,
		Guard:   "hold in memory, then a unique key in SQLite, many orders a commit",
		Durable: "each sale is on disk before it is answered; the view is rebuilt from the ledger",
		Promise: "no seat twice, whatever dies or sleeps; owners fence every late step; holds of the dead are given back",
	},
	{
		Name: "SeatFlow, Redis and MariaDB", Open: openDistributed, PerSecond: 30_000, Leases: true,
		Guard:   "hold by one script in Redis, then a unique key in MariaDB, many orders a commit",
		Durable: "each sale is on disk before it is answered; the view is rebuilt from the ledger",
		Promise: "the same, on any number of nodes",
	},
}
