package ledger

import (
	"context"
	"database/sql"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"seatflow"
)

// keyFilter answers "this user never used this key" without the database:
// a Bloom filter of every pair that was ever queued for insertion. A "maybe"
// is looked up. It is right because this process alone writes the database,
// and adds a pair before its row can be seen by anyone; until the pairs of
// earlier runs are loaded, every answer is "maybe".
type keyFilter struct {
	seed   maphash.Seed
	loaded atomic.Bool
	tried  chan struct{} // closed when loading has ended, well or not
	stages atomic.Pointer[[]*keyStage]
	grow   sync.Mutex
}

// keyStage is one filter. When it is full the next one, twice its size, takes
// the new pairs. A pair's bits lie in one cache line.
type keyStage struct {
	words []atomic.Uint64
	lines uint64
	left  atomic.Int64 // pairs until it is full
}

const (
	keyBitsEach   = 12      // bits a pair: about one wrong "maybe" in 200
	keyProbes     = 6       // bits set for a pair
	keyFirstStage = 1 << 18 // pairs in the first stage, 400 KB
	keyMaxStage   = 1 << 24 // pairs in one stage at most, 25 MB
)

func newKeyStage(pairs int) *keyStage {
	lines := max(pairs*keyBitsEach/512, 1)
	s := &keyStage{words: make([]atomic.Uint64, lines*8), lines: uint64(lines)}
	s.left.Store(int64(pairs))
	return s
}

func (f *keyFilter) init() {
	f.seed, f.tried = maphash.MakeSeed(), make(chan struct{})
	f.stages.Store(&[]*keyStage{newKeyStage(keyFirstStage)})
}

func (f *keyFilter) hash(user seatflow.UserID, key string) uint64 {
	var buf [160]byte
	b := append(buf[:0], user...)
	b = append(b, 0)
	b = append(b, key...)
	return maphash.Bytes(f.seed, b)
}

// add makes sure that later answers for the pair are "maybe".
func (f *keyFilter) add(user seatflow.UserID, key string) {
	h := f.hash(user, key)
	stages := *f.stages.Load()
	for _, s := range stages {
		if s.has(h) {
			return // a retry takes no room
		}
	}
	last := stages[len(stages)-1]
	last.set(h)
	if last.left.Add(-1) == 0 {
		f.grow.Lock()
		defer f.grow.Unlock()
		stages = *f.stages.Load()
		size := min(keyFirstStage<<len(stages), keyMaxStage)
		next := append(append([]*keyStage(nil), stages...), newKeyStage(size))
		f.stages.Store(&next)
	}
}

// never reports whether the pair was certainly never used.
func (f *keyFilter) never(user seatflow.UserID, key string) bool {
	if !f.loaded.Load() {
		return false
	}
	h := f.hash(user, key)
	for _, s := range *f.stages.Load() {
		if s.has(h) {
			return false
		}
	}
	return true
}

func (s *keyStage) line(h uint64) []atomic.Uint64 {
	n, _ := bits.Mul64(h, s.lines)
	return s.words[n*8 : n*8+8]
}

func (s *keyStage) set(h uint64) {
	line := s.line(h)
	for h, i := h*0x9E3779B97F4A7C15, 0; i < keyProbes; i++ {
		bit := uint64(1) << (h & 63)
		if w := &line[h>>6&7]; w.Load()&bit == 0 {
			w.Or(bit)
		}
		h >>= 9
	}
}

func (s *keyStage) has(h uint64) bool {
	line := s.line(h)
	for h, i := h*0x9E3779B97F4A7C15, 0; i < keyProbes; i++ {
		if line[h>>6&7].Load()&(1<<(h&63)) == 0 {
			return false
		}
		h >>= 9
	}
	return true
}

// load adds the pairs of earlier runs. Pairs of this run are added as they
// are queued, so a snapshot of any time since the filter was made will do.
func (f *keyFilter) load(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT user_id, okey FROM order_info WHERE okey IS NOT NULL")
	if err != nil {
		return err
	}
	defer rows.Close()
	var user, key sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&user, &key); err != nil {
			return err
		}
		f.add(seatflow.UserID(user), string(key))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	f.loaded.Store(true)
	return nil
}
