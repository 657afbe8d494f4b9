package httpapi

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that ends at a time, like one of context.WithDeadline,
// but for its timer: that is made when somebody first waits for the end. Most
// requests are answered from memory and nobody does, and the timer would cost
// them more than reading a seat map.
type deadline struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex
	inner  context.Context // once somebody waits
	cancel context.CancelFunc
	ended  bool
}

func withDeadline(parent context.Context, at time.Time) *deadline {
	return &deadline{parent: parent, at: at}
}

// end is the cancel function: what waits is told, and the timer is freed.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}

func (d *deadline) waiting() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inner
}

// Deadline implements [context.Context].
func (d *deadline) Deadline() (time.Time, bool) {
	if at, ok := d.parent.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

// Done implements [context.Context].
func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inner == nil {
		d.inner, d.cancel = context.WithDeadline(d.parent, d.at)
		if d.ended {
			d.cancel()
		}
	}
	return d.inner.Done()
}

// Err implements [context.Context].
func (d *deadline) Err() error {
	if inner := d.waiting(); inner != nil {
		return inner.Err()
	}
	if err := d.parent.Err(); err != nil {
		return err
	}
	if !time.Now().Before(d.at) {
		return context.DeadlineExceeded
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return context.Canceled
	}
	return nil
}

// Value implements [context.Context]. It asks the context that is waited for,
// so that children find whom to be cancelled by.
func (d *deadline) Value(key any) any {
	if inner := d.waiting(); inner != nil {
		return inner.Value(key)
	}
	return d.parent.Value(key)
}
