package loadgen

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"seatflow"
)

func TestAckLogAppendsAndCutsATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acked")
	first := `{"at":"2026-01-02T03:04:05Z","op":"order","no":"1","showId":1,"userId":"u","seats":[1],"state":"pending"}` + "\n"
	for _, torn := range []string{"", `{"at":"2026-`, strings.Repeat("x", 9000)} {
		if err := os.WriteFile(path, []byte(first+torn), 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := OpenAckLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Add(Ack{Op: "cancel", No: "2", Show: 1, User: "u", Seats: []seatflow.SeatID{2}, State: "cancelled"}); err != nil {
			t.Fatal(err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		if err := log.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		if err := log.Add(Ack{}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("added to a closed log: %v", err)
		}
		acks := readLog(t, path)
		if len(acks) != 2 || acks[0].No != "1" || acks[1].No != "2" || acks[1].At.IsZero() {
			t.Errorf("after %d torn bytes: %+v", len(torn), acks)
		}
	}
	if err := os.WriteFile(path, []byte(`{"torn`), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := OpenAckLog(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil || len(readLog(t, path)) != 0 {
		t.Errorf("a lone torn line was kept: %v", err)
	}
}

func TestAckLogIsConcurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acked")
	log, err := OpenAckLog(path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if err := log.Add(Ack{Op: "order", No: "1", Seats: []seatflow.SeatID{1, 2, 3}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(readLog(t, path)); n != 800 {
		t.Errorf("%d lines", n)
	}
	if _, err := OpenAckLog(t.TempDir()); err == nil {
		t.Error("a folder was opened as a log")
	}
	if (*AckLog)(nil).Add(Ack{}) != nil || (*AckLog)(nil).Close() != nil {
		t.Error("no log is no error")
	}
}
