package ledger

import (
	"os"
	"path/filepath"
	"testing"

	"seatflow"
	"seatflow/internal/conformance"
)

func newConforming(t conformance.TB) seatflow.Ledger {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		t.Fatalf("%v", err)
	}
	l, err := OpenSQLite(t.Context(), filepath.Join(dir, "ledger.db"), Options{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("%v", err)
		}
	})
	return l
}

func TestConformance(t *testing.T) { conformance.Ledger(t, newConforming) }
