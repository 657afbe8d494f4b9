package bus

import (
	"log/slog"
	"testing"

	"seatflow"
	"seatflow/internal/conformance"
)

// testLog writes what the bus says to a test's log.
func testLog(t conformance.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(logWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type logWriter struct{ t conformance.TB }

func (w logWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil { // else the test is over
		w.t.Logf("%s", p)
	}
	return len(p), nil
}

// open opens a bus for a test.
func open(t conformance.TB, o Options) *Bus {
	t.Helper()
	if o.Log == nil {
		o.Log = testLog(t)
	}
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// drop deletes the stream of a subject, over a bus's own connection.
func drop(t conformance.TB, b *Bus) func(subject string) {
	return func(subject string) {
		t.Helper()
		s, ok := specOf(subject)
		if !ok {
			t.Fatalf("no stream for %q", subject)
		}
		if err := b.js.DeleteStream(t.Context(), s.name); err != nil {
			t.Fatalf("deleting %s: %v", s.name, err)
		}
	}
}

func TestEmbedded(t *testing.T) {
	conformance.Bus(t, func(ct conformance.TB) conformance.Buses {
		b := open(ct, Options{Dir: t.TempDir()})
		return conformance.Buses{Nodes: []seatflow.Bus{b}, Drop: drop(ct, b), MaxPayload: MaxPayload}
	})
}
