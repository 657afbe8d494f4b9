package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// flaky is a dialect whose transactions cannot begin while it is broken.
type flaky struct {
	sqliteDialect
	broken atomic.Bool
}

func (f *flaky) begin() string {
	if f.broken.Load() {
		return "BEGIN NOTHING"
	}
	return f.sqliteDialect.begin()
}

// TestDown: a ledger that cannot commit refuses at once, and is found to work
// again without anybody's help but a look now and then.
func TestDown(t *testing.T) {
	l := openTest(t, Options{})
	f := &flaky{}
	l.dialect, l.writer.d = f, f
	ctx := context.Background()
	show := testShow(t, l, 20)
	f.broken.Store(true)
	if _, err := l.InsertOrder(ctx, sale(show, "u", "k", 1)); !errors.Is(err, seatflow.ErrNotCommitted) {
		t.Fatalf("an insert into a broken ledger: %v", err)
	}
	down := l.commits.down.Load()
	if down == nil {
		t.Fatal("not known to be down")
	}
	down.retry.Store(time.Now().Add(time.Hour).UnixNano())
	batches := l.Stats().Batches
	if _, err := l.InsertOrder(ctx, sale(show, "u", "k", 1)); !errors.Is(err, seatflow.ErrNotCommitted) {
		t.Errorf("an insert while down: %v", err)
	}
	if err := l.Healthy(ctx); !errors.Is(err, seatflow.ErrNotCommitted) {
		t.Errorf("healthy while down: %v", err)
	}
	if n := l.Stats().Batches - batches; n != 0 {
		t.Errorf("%d transactions were tried while down", n)
	}
	// When it is time for a look, one goes through.
	down.retry.Store(0)
	if err := l.Healthy(ctx); !errors.Is(err, seatflow.ErrNotCommitted) || l.Stats().Batches-batches != 1 {
		t.Errorf("the look: %v, %d transactions", err, l.Stats().Batches-batches)
	}
	f.broken.Store(false)
	l.commits.down.Load().retry.Store(0)
	if err := l.Healthy(ctx); err != nil {
		t.Errorf("repaired: %v", err)
	}
	if _, err := l.InsertOrder(ctx, sale(show, "u", "k", 1)); err != nil {
		t.Errorf("an insert after the repair: %v", err)
	}
}

// A batch of which many cannot begin is not tried one by one to the end.
func TestDownSparesTheRest(t *testing.T) {
	l := openTest(t, Options{})
	f := &flaky{}
	l.dialect, l.writer.d = f, f
	ctx := context.Background()
	show := testShow(t, l, 100)
	g := holdCommitter(t, l, nil)
	errs := make(chan error, 50)
	for i := range 50 {
		go func() {
			_, err := l.InsertOrder(ctx, sale(show, fmt.Sprint("u", i), "k", seatflow.SeatID(i+1)))
			errs <- err
		}()
	}
	waitQueued(l, 50)
	f.broken.Store(true)
	g.open()
	for range 50 {
		if err := <-errs; !errors.Is(err, seatflow.ErrNotCommitted) || errors.Is(err, seatflow.ErrUnknownCommit) {
			t.Errorf("in a batch that could not begin: %v", err)
		}
	}
	f.broken.Store(false)
	l.commits.down.Load().retry.Store(0)
	if err := l.Healthy(ctx); err != nil {
		t.Error(err)
	}
	if f, err := l.Facts(ctx, show.ID); err != nil || len(f.Orders) != 0 {
		t.Errorf("left behind: %v, %v", f.Orders, err)
	}
}

// breakCommit makes the commit of its transaction fail: a reference to nothing
// that is checked only then.
func breakCommit(t *tx) error {
	if _, err := t.exec("PRAGMA defer_foreign_keys = ON"); err != nil {
		return err
	}
	_, err := t.exec("INSERT INTO seat (hall_id, seat_id, guid, since) VALUES (999, 1, 'x', 1)")
	return err
}

// TestUnknownCommit: when COMMIT fails, nobody in the batch is told that it
// went well or badly, and the next batch finds a connection that works.
func TestUnknownCommit(t *testing.T) {
	l := openTest(t, Options{})
	ctx := context.Background()
	show := testShow(t, l, 20)
	g := holdCommitter(t, l, nil)
	errs := make(chan error, 5)
	for i := range 4 {
		go func() {
			_, err := l.InsertOrder(ctx, sale(show, "u", fmt.Sprint("k", i), seatflow.SeatID(i+1)))
			errs <- err
		}()
	}
	go func() {
		_, err := change(ctx, l, 0, func(t *tx) (struct{}, error) { return struct{}{}, breakCommit(t) })
		errs <- err
	}()
	waitQueued(l, 5)
	g.open()
	for range 5 {
		if err := <-errs; !errors.Is(err, seatflow.ErrUnknownCommit) || errors.Is(err, seatflow.ErrNotCommitted) {
			t.Errorf("a member of the batch heard %v", err)
		}
	}
	if d := l.commits.down.Load(); d == nil {
		t.Error("a commit that failed is no sign that something is wrong")
	} else {
		d.retry.Store(0)
	}
	if err := l.Healthy(ctx); err != nil {
		t.Fatalf("the next transaction: %v", err)
	}
	for i := range 4 { // it was rolled back, as it happens
		if _, err := l.InsertOrder(ctx, sale(show, "u", fmt.Sprint("k", i), seatflow.SeatID(i+1))); err != nil {
			t.Errorf("again: %v", err)
		}
	}
}

// TestOneBadChange: a change whose statement fails fails alone.
func TestOneBadChange(t *testing.T) {
	l := openTest(t, Options{})
	ctx := context.Background()
	show := testShow(t, l, 20)
	g := holdCommitter(t, l, nil)
	errs, bad := make(chan error, 4), make(chan error, 1)
	for i := range 4 {
		go func() {
			_, err := l.InsertOrder(ctx, sale(show, "u", fmt.Sprint("k", i), seatflow.SeatID(i+1)))
			errs <- err
		}()
	}
	go func() {
		_, err := change(ctx, l, 0, func(t *tx) (struct{}, error) {
			_, err := t.exec("UPDATE show SET generation = NULL WHERE id = ?", int64(show.ID))
			return struct{}{}, err
		})
		bad <- err
	}()
	waitQueued(l, 5)
	g.open()
	for range 4 {
		if err := <-errs; err != nil {
			t.Errorf("a neighbour: %v", err)
		}
	}
	if err := <-bad; !errors.Is(err, seatflow.ErrNotCommitted) {
		t.Errorf("the bad one: %v", err)
	}
	if err := l.Healthy(ctx); err != nil || l.commits.down.Load() != nil {
		t.Errorf("one bad change brought the ledger down: %v", err)
	}
}

// TestEventNumbers: an event's number is given once, whatever failed and
// however often the ledger was opened.
func TestEventNumbers(t *testing.T) {
	path := t.TempDir() + "/ledger.db"
	seen := map[int64]bool{}
	var show seatflow.Show
	for run := range 3 {
		l, err := OpenSQLite(context.Background(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if run == 0 {
			show = testShow(t, l, 100)
		}
		insert := func(seat int) {
			o, err := l.InsertOrder(context.Background(), sale(show, "u", fmt.Sprint("k", seat), seatflow.SeatID(seat)))
			if err != nil {
				t.Fatal(err)
			}
			h, err := l.History(context.Background(), o.No)
			if err != nil || seen[h[0].ID] {
				t.Fatalf("number %d again, %v", h[0].ID, err)
			}
			seen[h[0].ID] = true
		}
		insert(10*run + 1)
		_, _ = change(context.Background(), l, 0, func(t *tx) (struct{}, error) { // takes numbers and fails
			if _, err := l.eventIDs(t, 3*eventBlock); err != nil {
				return struct{}{}, err
			}
			return struct{}{}, errors.New("no")
		})
		insert(10*run + 2)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadsOfADownDatabaseSaySo: as an error that callers answer with "come
// again", whichever read it is.
func TestReadsOfADownDatabaseSaySo(t *testing.T) {
	maria := testkit.StartMariaDB(t, testkit.MariaDBOptions{})
	l, err := OpenMySQL(t.Context(), maria.URL(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	maria.Kill()
	ctx := t.Context()
	for name, read := range map[string]func() error{
		"Hall":            func() error { _, err := l.Hall(ctx, 1); return err },
		"Halls":           func() error { _, err := l.Halls(ctx, 0, 1); return err },
		"Show":            func() error { _, err := l.Show(ctx, 1); return err },
		"Shows":           func() error { _, err := l.Shows(ctx, 0, time.Time{}, 1); return err },
		"Plan":            func() error { _, err := l.Plan(ctx, 1, 1); return err },
		"OrderByKey":      func() error { _, err := l.OrderByKey(ctx, "u", "k"); return err },
		"Order":           func() error { _, err := l.Order(ctx, "01JAAAAAAAAAAAAAAAAAAAAAAA", ""); return err },
		"OrdersOf":        func() error { _, err := l.OrdersOf(ctx, "u", "", 1); return err },
		"History":         func() error { _, err := l.History(ctx, "01JAAAAAAAAAAAAAAAAAAAAAAA"); return err },
		"Blocks":          func() error { _, err := l.Blocks(ctx, 1); return err },
		"PaymentsOf":      func() error { _, err := l.PaymentsOf(ctx, "01JAAAAAAAAAAAAAAAAAAAAAAA"); return err },
		"UnknownPayments": func() error { _, err := l.UnknownPayments(ctx, 0, 1); return err },
		"DueRefunds":      func() error { _, err := l.DueRefunds(ctx, 1); return err },
		"Facts":           func() error { _, err := l.Facts(ctx, 1); return err },
		"Outbox":          func() error { _, err := l.Outbox(ctx, 1); return err },
	} {
		if err := read(); !errors.Is(err, seatflow.ErrNotCommitted) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
