package ledger

import (
	"path/filepath"
	"sync"
	"testing"
)

// Whoever asks first sets what all must have, on one node or on several that
// ask at once.
func TestAgree(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		l, err := OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "facts.db"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		testAgree(t, l, l)
	})
	t.Run("mysql", func(t *testing.T) {
		url := newDatabase(t)
		testAgree(t, openMySQL(t, url, Options{}), openMySQL(t, url, Options{}))
	})
}

func testAgree(t *testing.T, nodes ...*Ledger) {
	ask := func(name string) map[int64]bool {
		var (
			all   sync.WaitGroup
			mu    sync.Mutex
			stand = map[int64]bool{}
		)
		for i := range 8 {
			all.Go(func() {
				v, err := nodes[i%len(nodes)].Agree(t.Context(), name, int64(i+1))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				stand[v] = true
				mu.Unlock()
			})
		}
		all.Wait()
		return stand
	}
	first := ask("a")
	if len(first) != 1 || first[0] {
		t.Fatalf("they were told %v", first)
	}
	if v, err := nodes[0].Agree(t.Context(), "b", 99); err != nil || v != 99 {
		t.Errorf("another name: %d, %v", v, err)
	}
	if err := nodes[0].Disagree(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if v, err := nodes[len(nodes)-1].Agree(t.Context(), "a", 100); err != nil || v != 100 {
		t.Errorf("after it was forgotten: %d, %v", v, err)
	}
}
