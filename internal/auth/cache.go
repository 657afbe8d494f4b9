package auth

import (
	"hash/maphash"
	"sync"
)

const (
	// cacheShards keeps callers on different cores apart; a power of two.
	cacheShards = 16
	// cacheTokens bounds the verified tokens that are remembered. At 4 KB,
	// the longest token there is, that is 64 MB; at the 260 bytes of a usual
	// one, about 6 MB.
	cacheTokens = 16384
)

// verified is a token that was found good, and until when.
type verified struct {
	token     string
	principal Principal
	notBefore int64 // Unix milliseconds
	expires   int64
}

type cacheShard struct {
	mu      sync.RWMutex
	entries map[uint64]*verified
}

// cache remembers verified tokens. The hash is seeded per process, and an
// entry is used only if its whole token is equal, so a collision is a miss.
type cache struct {
	seed   maphash.Seed
	most   int // entries a shard
	shards [cacheShards]cacheShard
}

func newCache(tokens int) *cache {
	c := &cache{seed: maphash.MakeSeed(), most: max(1, tokens/cacheShards)}
	for i := range c.shards {
		c.shards[i].entries = make(map[uint64]*verified)
	}
	return c
}

// get returns the entry of a token, or nil; the hash is for put.
func (c *cache) get(token string) (*verified, uint64) {
	h := maphash.String(c.seed, token)
	s := &c.shards[h%cacheShards]
	s.mu.RLock()
	v := s.entries[h]
	s.mu.RUnlock()
	if v == nil || v.token != token {
		return nil, h
	}
	return v, h
}

// put remembers a token. A full shard drops what has expired among a few
// entries, or else any one of them.
func (c *cache) put(h uint64, v *verified, now int64) {
	s := &c.shards[h%cacheShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.entries[h]; !there && len(s.entries) >= c.most {
		s.evict(now)
	}
	s.entries[h] = v
}

// evict makes room for one entry in a bounded number of steps: it looks at a
// few entries (a map begins its walk anywhere) and drops those that have
// expired, or the last one it saw.
func (s *cacheShard) evict(now int64) {
	const looks = 8
	var last uint64
	seen, dropped := 0, 0
	for h, v := range s.entries {
		if v.expires <= now {
			delete(s.entries, h)
			dropped++
		}
		last = h
		if seen++; seen == looks {
			break
		}
	}
	if dropped == 0 {
		delete(s.entries, last)
	}
}

// drop forgets a token.
func (c *cache) drop(h uint64) {
	s := &c.shards[h%cacheShards]
	s.mu.Lock()
	delete(s.entries, h)
	s.mu.Unlock()
}

// size counts the tokens that are remembered.
func (c *cache) size() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		n += len(s.entries)
		s.mu.RUnlock()
	}
	return n
}
