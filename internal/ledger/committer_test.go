package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
)

// gate holds the committer inside a transaction until it is opened.
type gate struct {
	reached chan struct{}
	open    func()
	done    chan error
}

// holdCommitter queues a change that waits inside its transaction and then
// ends as do says.
func holdCommitter(t testing.TB, l *Ledger, do func(t *tx) error) *gate {
	t.Helper()
	release := make(chan struct{})
	g := &gate{reached: make(chan struct{}), open: sync.OnceFunc(func() { close(release) }), done: make(chan error, 1)}
	t.Cleanup(g.open)
	var once sync.Once
	go func() {
		_, err := change(context.Background(), l, 0, func(t *tx) (struct{}, error) {
			once.Do(func() { close(g.reached) })
			<-release
			if do != nil {
				return struct{}{}, do(t)
			}
			return struct{}{}, nil
		})
		g.done <- err
	}()
	<-g.reached
	return g
}

// waitQueued waits until n changes are queued.
func waitQueued(l *Ledger, n int64) {
	for l.Stats().Queued < n {
		runtime.Gosched() // the queue's length is all there is to see from outside
	}
}

// TestGroupCommit: what queues while a commit runs is one commit, and each
// change gets its own answer.
func TestGroupCommit(t *testing.T) {
	type commit struct{ size int }
	var commits []commit // the committer's until it is closed
	l := openTest(t, Options{OnCommit: func(size int, took time.Duration) {
		if took <= 0 {
			t.Error("a commit took no time")
		}
		commits = append(commits, commit{size})
	}})
	ctx := context.Background()
	show := testShow(t, l, 200)
	paid, err := l.InsertOrder(ctx, sale(show, "payer", "k", 200))
	if err != nil {
		t.Fatal(err)
	}
	before := l.Stats()
	g := holdCommitter(t, l, nil)
	errs := make(chan error, 101)
	for i := range 100 {
		go func() {
			n := sale(show, fmt.Sprint("user-", i), "k", seatflow.SeatID(i%90+1)) // ten meet a seat that is asked for twice
			_, err := l.InsertOrder(ctx, n)
			errs <- err
		}()
	}
	go func() {
		_, err := l.RecordPayment(ctx, seatflow.PaymentEvent{Provider: "p", EventID: "e", CaptureID: "c", Type: seatflow.PaymentCaptured,
			Order: paid.No, Amount: paid.Total}, seatflow.System("test"))
		errs <- err
	}()
	waitQueued(l, 101)
	g.open()
	conflicts := 0
	for range 101 {
		var conflict *seatflow.SeatConflictError
		switch err := <-errs; {
		case errors.As(err, &conflict):
			conflicts++
		case err != nil:
			t.Error(err)
		}
	}
	if err := <-g.done; err != nil || conflicts != 10 {
		t.Errorf("%d conflicts of 10; %v", conflicts, err)
	}
	s := l.Stats()
	if s.Batches-before.Batches != 2 || s.Changes-before.Changes != 102 || s.Queued != 0 || s.Committed <= before.Committed {
		t.Errorf("stats %+v, before %+v", s, before)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if last := commits[len(commits)-1]; last.size != 101 || int64(len(commits)) != s.Batches {
		t.Errorf("the last of %d commits had %d changes, want 101", len(commits), last.size)
	}
}

// TestFirstInQueueWins: of two orders in one batch that ask for the same, the
// first does.
func TestFirstInQueueWins(t *testing.T) {
	l := openTest(t, Options{})
	ctx := context.Background()
	show := testShow(t, l, 200)
	g := holdCommitter(t, l, nil)
	var orders []seatflow.NewOrder
	var results []chan error
	for i := range 20 {
		// Pairs of the same seat, pairs of the same key, pairs of the same number.
		n := sale(show, fmt.Sprint("user-", i), "k", seatflow.SeatID(i+1))
		if i%2 == 1 {
			switch first := orders[i-1].Order; i / 2 % 3 {
			case 0:
				n.Order.Items = first.Items
			case 1:
				n.Order.User = first.User
			case 2:
				n.Order.No = first.No
			}
		}
		orders = append(orders, n)
		done := make(chan error, 1)
		results = append(results, done)
		go func() {
			_, err := l.InsertOrder(ctx, n)
			done <- err
		}()
		waitQueued(l, int64(i+1))
	}
	g.open()
	for i, done := range results {
		err := <-done
		var conflict *seatflow.SeatConflictError
		var exists *seatflow.OrderExistsError
		switch {
		case i%2 == 0 && err == nil:
		case i%2 == 1 && i/2%3 == 0 && errors.As(err, &conflict) && conflict.Seats[0] == orders[i-1].Order.Items[0].Seat:
		case i%2 == 1 && i/2%3 != 0 && errors.As(err, &exists) && exists.Order.No == orders[i-1].Order.No:
		default:
			t.Errorf("order %d: %v", i, err)
		}
	}
}

func TestQueueBounds(t *testing.T) {
	l := openTest(t, Options{QueueMax: 3, BatchMax: 2})
	ctx := context.Background()
	show := testShow(t, l, 20)
	g := holdCommitter(t, l, nil)
	errs := make(chan error, 3)
	for i := range 3 {
		go func() {
			_, err := l.InsertOrder(ctx, sale(show, "u", fmt.Sprint(i), seatflow.SeatID(i+1)))
			errs <- err
		}()
	}
	waitQueued(l, 3)
	if _, err := l.InsertOrder(ctx, sale(show, "u", "k", 9)); !errors.Is(err, seatflow.ErrNotCommitted) {
		t.Errorf("a full queue took one more: %v", err)
	}
	before := l.Stats().Batches
	g.open()
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := l.Stats().Batches - before; n != 3 { // the gate, then two, then one
		t.Errorf("%d batches of two at most", n)
	}
	if _, err := l.InsertOrder(ctx, sale(show, "u", "k", 9)); err != nil {
		t.Errorf("after the rush: %v", err)
	}
}

func TestBatchBytes(t *testing.T) {
	l := openTest(t, Options{BatchBytes: 3000})
	show := testShow(t, l, 20)
	g := holdCommitter(t, l, nil)
	errs := make(chan error, 8)
	for i := range 8 {
		go func() {
			_, err := l.InsertOrder(context.Background(), sale(show, "u", fmt.Sprint(i), seatflow.SeatID(i+1)))
			errs <- err
		}()
	}
	waitQueued(l, 8)
	before := l.Stats().Batches
	g.open()
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := l.Stats().Batches - before; n < 3 {
		t.Errorf("%d batches for eight orders of half a kilobyte", n-1)
	}
}

func TestContextWhileQueued(t *testing.T) {
	l := openTest(t, Options{})
	show := testShow(t, l, 20)
	g := holdCommitter(t, l, nil)

	// Withdrawn while it waits: certainly not committed.
	ctx, cancel := context.WithCancel(context.Background())
	gone := sale(show, "u", "gone", 1)
	done := make(chan error, 1)
	go func() { _, err := l.InsertOrder(ctx, gone); done <- err }()
	waitQueued(l, 1)
	cancel()
	if err := <-done; !errors.Is(err, seatflow.ErrNotCommitted) || !errors.Is(err, context.Canceled) {
		t.Errorf("withdrawn: %v", err)
	}
	g.open()
	if err := <-g.done; err != nil {
		t.Error(err)
	}
	if _, err := l.InsertOrder(context.Background(), sale(show, "u", "k", 1)); err != nil {
		t.Errorf("the withdrawn order's seat: %v", err)
	}
	if _, err := l.Order(context.Background(), gone.Order.No, ""); !errors.Is(err, seatflow.ErrNotFound) {
		t.Errorf("a withdrawn order is there: %v", err)
	}
}

// TestContextWhileCommitting: what the committer has begun is not withdrawn.
// A caller that goes away still gets the certain answer; one whose deadline
// passes does not wait for it.
func TestContextWhileCommitting(t *testing.T) {
	l := openTest(t, Options{})
	for name, ctx := range map[string]func() (context.Context, func()){
		"cancelled": func() (context.Context, func()) {
			ctx, cancel := context.WithCancel(context.Background())
			return ctx, cancel
		},
		"deadline": func() (context.Context, func()) {
			ctx := &deadline{Context: context.Background(), done: make(chan struct{})}
			return ctx, ctx.pass
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := ctx()
			reached, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				_, err := change(ctx, l, 0, func(*tx) (struct{}, error) {
					close(reached)
					<-release
					return struct{}{}, nil
				})
				done <- err
			}()
			<-reached
			end()
			if name == "deadline" {
				if err := <-done; !errors.Is(err, seatflow.ErrUnknownCommit) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a deadline that passed: %v", err)
				}
				close(release)
				return
			}
			close(release)
			if err := <-done; err != nil {
				t.Errorf("a commit that went well: %v", err)
			}
		})
	}
}

// deadline is a context whose deadline passes when a test says so.
type deadline struct {
	context.Context
	done chan struct{}
}

func (d *deadline) pass()                 { close(d.done) }
func (d *deadline) Done() <-chan struct{} { return d.done }
func (d *deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestCloseDrains: everything that was accepted is committed by Close.
func TestCloseDrains(t *testing.T) {
	path := t.TempDir() + "/ledger.db"
	l, err := OpenSQLite(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	show := testShow(t, l, 100)
	g := holdCommitter(t, l, nil)
	errs := make(chan error, 100)
	for i := range 100 {
		go func() {
			_, err := l.InsertOrder(context.Background(), sale(show, fmt.Sprint("u", i), "k", seatflow.SeatID(i+1)))
			errs <- err
		}()
	}
	waitQueued(l, 100)
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	for { // until Close refuses newcomers
		if _, err := l.InsertOrder(&deadline{Context: context.Background(), done: passed}, sale(show, "late", "k", 1)); errors.Is(err, seatflow.ErrNotCommitted) {
			break
		}
	}
	g.open()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for range 100 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is left behind: %v", err)
	}
	if l, err = OpenSQLite(context.Background(), path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := l.Audit(context.Background())
	if err != nil || a.Orders[seatflow.OrderPending] != 100 || a.ActiveSeats != 100 {
		t.Errorf("after reopening: %+v, %v", a, err)
	}
}

// passed is a deadline that has passed.
var passed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// A ledger that lived in a synctest bubble leaves nothing of the bubble to the
// next one.
func TestLedgersShareNoChannels(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a pool gives back what its own processor put in
	insert := func(t *testing.T) {
		l := openTest(t, Options{})
		show := testShow(t, l, 50)
		for i := range 50 {
			if _, err := l.InsertOrder(t.Context(), sale(show, "ann", fmt.Sprint("k", i), seatflow.SeatID(i+1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	synctest.Test(t, insert)
	insert(t)
}
