package loadgen

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// Ack is one acknowledged answer, a line of the log.
type Ack struct {
	At    time.Time           `json:"at"`
	Op    string              `json:"op"` // order, pay or cancel
	No    seatflow.OrderNo    `json:"no"`
	Show  seatflow.ShowID     `json:"showId"`
	User  seatflow.UserID     `json:"userId"`
	Seats []seatflow.SeatID   `json:"seats"`
	State seatflow.OrderState `json:"state"`
}

// AckLog writes acknowledgements, one JSON object a line. It may be used
// concurrently; a nil log drops what it is given. An entry is added only after
// the whole answer has arrived, so a log never claims more than was promised;
// a tool that is killed loses the last second of it.
type AckLog struct {
	mu      sync.Mutex
	file    *os.File
	w       *bufio.Writer
	buf     []byte
	flushed time.Time
	err     error
}

// OpenAckLog opens a log to append to, or makes one. A last line that a
// killed writer left unfinished is cut off.
func OpenAckLog(path string) (*AckLog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of acknowledgements: %w", err)
	}
	if err := cutTornLine(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("log of acknowledgements %s: %w", path, err)
	}
	return &AckLog{file: f, w: bufio.NewWriterSize(f, 256<<10), flushed: time.Now()}, nil
}

func cutTornLine(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for pos := end; pos > 0; {
		n := min(pos, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], pos-n); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			end = pos - n + int64(i) + 1
			break
		}
		if pos -= n; pos == 0 {
			end = 0
		}
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	_, err = f.Seek(end, io.SeekStart)
	return err
}

// Add appends an acknowledgement.
func (l *AckLog) Add(a Ack) error {
	if l == nil {
		return nil
	}
	if a.At.IsZero() {
		a.At = time.Now().UTC()
	}
	line, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("log of acknowledgements: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.buf = append(append(l.buf[:0], line...), '\n')
	_, l.err = l.w.Write(l.buf)
	if l.err == nil && a.At.Sub(l.flushed) > time.Second {
		l.err = l.w.Flush()
		l.flushed = a.At
	}
	return l.err
}

// Close writes everything to the disk. It may be called twice.
func (l *AckLog) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.err, l.w.Flush(), l.file.Sync(), l.file.Close())
	l.file = nil
	l.err = os.ErrClosed
	if err != nil {
		return fmt.Errorf("log of acknowledgements: %w", err)
	}
	return nil
}
