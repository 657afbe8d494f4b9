package redisseats

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"seatflow"
)

// showKeys are the keys of a show. All of them are in the slot of the show's
// partition, whose name is the hash tag.
type showKeys struct {
	seats, owners, orders, users, meta, rate, deadlines, changes string

	hold []string // the keys of hold and rebuild, in their order
	edit []string // those of what changes seats of an owner
}

// keyring makes the names of keys once for each show.
type keyring struct {
	shows sync.Map // showID → *showKeys
	count atomic.Int64
}

type showID struct {
	partition seatflow.Partition
	show      seatflow.ShowID
}

// keyringSize bounds what is remembered: shows come and go for years.
const keyringSize = 4096

func (k *keyring) of(ref *seatflow.ShowRef) *showKeys {
	id := showID{ref.Partition, ref.ID}
	if keys, ok := k.shows.Load(id); ok {
		return keys.(*showKeys)
	}
	if k.count.Add(1) > keyringSize {
		k.shows.Clear()
		k.count.Store(1)
	}
	keys := newShowKeys(ref.Partition, ref.ID)
	k.shows.Store(id, keys)
	return keys
}

func newShowKeys(p seatflow.Partition, show seatflow.ShowID) *showKeys {
	prefix := partitionPrefix(p)
	of := prefix + "show:" + strconv.FormatInt(int64(show), 10) + ":"
	k := &showKeys{
		seats: of + "seats", owners: of + "owners", orders: of + "orders", users: of + "users", meta: of + "meta",
		rate: of + "rate", deadlines: prefix + "deadlines", changes: prefix + "changes",
	}
	k.hold = []string{k.seats, k.owners, k.orders, k.users, k.meta, k.rate, k.deadlines, k.changes}
	k.edit = []string{k.seats, k.owners, k.orders, k.users, k.meta, k.deadlines, k.changes}
	return k
}

// partitionPrefix begins the names of all keys of a partition.
func partitionPrefix(p seatflow.Partition) string {
	n := strconv.Itoa(int(p))
	if len(n) < 2 {
		n = "0" + n
	}
	return "seatflow:{p" + n + "}:"
}

func deadlinesKey(p seatflow.Partition) string { return partitionPrefix(p) + "deadlines" }
func changesKey(p seatflow.Partition) string   { return partitionPrefix(p) + "changes" }

// windowTags is over how many hash tags the rate windows are spread.
const windowTags = 4096

// windowKey is the key of a rate window. Windows are spread over the slots by
// a digest of their name.
func windowKey(name string) string {
	hash := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		hash = (hash ^ uint32(name[i])) * 16777619
	}
	return "seatflow:{u" + strconv.FormatUint(uint64(hash%windowTags), 16) + "}:window:" + name
}

// parseOwner reads ORDER.n. What somebody else wrote there is kept as it is,
// as far as it can be.
func parseOwner(s string) seatflow.Owner {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return seatflow.Owner{Order: seatflow.OrderNo(s)}
	}
	n, err := strconv.ParseInt(s[i+1:], 10, 32)
	if err != nil {
		return seatflow.Owner{Order: seatflow.OrderNo(s)}
	}
	return seatflow.Owner{Order: seatflow.OrderNo(s[:i]), Attempt: int32(n)}
}
