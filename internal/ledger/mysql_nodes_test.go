package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/conformance"
	"seatflow/internal/testkit"
)

// spread hands each call to the next of several nodes that share a database.
type spread struct {
	nodes []*Ledger
	next  *atomic.Int64
}

func (s spread) node() *Ledger { return s.nodes[int(s.next.Add(1))%len(s.nodes)] }

func (s spread) Audit(ctx context.Context) (seatflow.LedgerAudit, error) { return s.node().Audit(ctx) }
func (s spread) Blocks(ctx context.Context, show seatflow.ShowID) ([]seatflow.Order, error) {
	return s.node().Blocks(ctx, show)
}
func (s spread) CancelOrder(ctx context.Context, c seatflow.OrderChange) (seatflow.Order, error) {
	return s.node().CancelOrder(ctx, c)
}
func (s spread) CreateHall(ctx context.Context, h seatflow.Hall) (seatflow.Hall, error) {
	return s.node().CreateHall(ctx, h)
}
func (s spread) CreateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
	return s.node().CreateShow(ctx, show)
}
func (s spread) DueRefunds(ctx context.Context, limit int) ([]seatflow.Refund, error) {
	return s.node().DueRefunds(ctx, limit)
}
func (s spread) ExpireOrder(ctx context.Context, c seatflow.OrderChange, seen time.Time) (seatflow.Order, error) {
	return s.node().ExpireOrder(ctx, c, seen)
}
func (s spread) ExtendOrder(ctx context.Context, c seatflow.OrderChange, seen, to time.Time) (seatflow.Order, error) {
	return s.node().ExtendOrder(ctx, c, seen, to)
}
func (s spread) Facts(ctx context.Context, show seatflow.ShowID) (seatflow.Facts, error) {
	return s.node().Facts(ctx, show)
}
func (s spread) Hall(ctx context.Context, id seatflow.HallID) (seatflow.Hall, error) {
	return s.node().Hall(ctx, id)
}
func (s spread) HallSeats(ctx context.Context, id seatflow.HallID) (seatflow.HallSeats, error) {
	return s.node().HallSeats(ctx, id)
}
func (s spread) Halls(ctx context.Context, after seatflow.HallID, limit int) ([]seatflow.Hall, error) {
	return s.node().Halls(ctx, after, limit)
}
func (s spread) Healthy(ctx context.Context) error { return s.node().Healthy(ctx) }
func (s spread) History(ctx context.Context, no seatflow.OrderNo) ([]seatflow.OrderEvent, error) {
	return s.node().History(ctx, no)
}
func (s spread) InsertOrder(ctx context.Context, n seatflow.NewOrder) (seatflow.Order, error) {
	return s.node().InsertOrder(ctx, n)
}
func (s spread) MoveRotation(ctx context.Context, r seatflow.Rotation) (seatflow.Rotation, error) {
	return s.node().MoveRotation(ctx, r)
}
func (s spread) Order(ctx context.Context, no seatflow.OrderNo, user seatflow.UserID) (seatflow.Order, error) {
	return s.node().Order(ctx, no, user)
}
func (s spread) OrderByKey(ctx context.Context, user seatflow.UserID, key string) (seatflow.Order, error) {
	return s.node().OrderByKey(ctx, user, key)
}
func (s spread) OrdersOf(ctx context.Context, user seatflow.UserID, before seatflow.OrderNo, limit int) ([]seatflow.Order, error) {
	return s.node().OrdersOf(ctx, user, before, limit)
}
func (s spread) Outbox(ctx context.Context, limit int) ([]seatflow.OutboxEvent, error) {
	return s.node().Outbox(ctx, limit)
}
func (s spread) OutboxDone(ctx context.Context, ids []int64) error {
	return s.node().OutboxDone(ctx, ids)
}
func (s spread) PaymentsOf(ctx context.Context, no seatflow.OrderNo) ([]seatflow.Payment, error) {
	return s.node().PaymentsOf(ctx, no)
}
func (s spread) Plan(ctx context.Context, hall seatflow.HallID, v seatflow.PlanVersion) (*seatflow.Plan, error) {
	return s.node().Plan(ctx, hall, v)
}
func (s spread) PublishPlan(ctx context.Context, p *seatflow.Plan) error {
	return s.node().PublishPlan(ctx, p)
}
func (s spread) RaiseGeneration(ctx context.Context, show seatflow.ShowID, seen seatflow.Generation) (seatflow.Generation, error) {
	return s.node().RaiseGeneration(ctx, show, seen)
}
func (s spread) RecordPayment(ctx context.Context, e seatflow.PaymentEvent, a seatflow.Actor) (seatflow.PaymentOutcome, error) {
	return s.node().RecordPayment(ctx, e, a)
}
func (s spread) RecordRepairs(ctx context.Context, r []seatflow.RepairRecord) error {
	return s.node().RecordRepairs(ctx, r)
}
func (s spread) RefundDone(ctx context.Context, id string) error { return s.node().RefundDone(ctx, id) }
func (s spread) RefundSeats(ctx context.Context, c seatflow.OrderChange, seats []seatflow.SeatID) (seatflow.Order, *seatflow.Refund, error) {
	return s.node().RefundSeats(ctx, c, seats)
}
func (s spread) RepairsOf(ctx context.Context, show seatflow.ShowID, before int64, limit int) ([]seatflow.RepairRecord, error) {
	return s.node().RepairsOf(ctx, show, before, limit)
}
func (s spread) Rotation(ctx context.Context) (seatflow.Rotation, error) {
	return s.node().Rotation(ctx)
}
func (s spread) Show(ctx context.Context, id seatflow.ShowID) (seatflow.Show, error) {
	return s.node().Show(ctx, id)
}
func (s spread) Shows(ctx context.Context, after seatflow.ShowID, end time.Time, limit int) ([]seatflow.Show, error) {
	return s.node().Shows(ctx, after, end, limit)
}
func (s spread) StartPayment(ctx context.Context, c seatflow.OrderChange, to time.Time) (seatflow.Order, error) {
	return s.node().StartPayment(ctx, c, to)
}
func (s spread) UnblockSeats(ctx context.Context, c seatflow.OrderChange, seats []seatflow.SeatID) (seatflow.Order, error) {
	return s.node().UnblockSeats(ctx, c, seats)
}
func (s spread) UnknownPayments(ctx context.Context, after int64, limit int) ([]seatflow.Payment, error) {
	return s.node().UnknownPayments(ctx, after, limit)
}
func (s spread) UpdateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
	return s.node().UpdateShow(ctx, show)
}
func (s spread) VoidOrder(ctx context.Context, no seatflow.OrderNo, show seatflow.ShowID, a seatflow.Actor) (seatflow.Order, error) {
	return s.node().VoidOrder(ctx, no, show, a)
}

func (s spread) Close() error {
	var errs []error
	for _, l := range s.nodes {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// The whole suite holds when every call goes to another node than the last.
func TestConformanceMySQLNodes(t *testing.T) {
	m := testkit.SharedMariaDB(t)
	conformance.Ledger(t, func(tb conformance.TB) seatflow.Ledger {
		url := m.NewDatabase(t)
		s := spread{next: &atomic.Int64{}}
		for range 3 {
			s.nodes = append(s.nodes, openMySQL(tb, url, Options{}))
		}
		return s
	})
}

// openNodes opens several ledgers on one database.
func openNodes(t *testing.T, n int) []*Ledger {
	t.Helper()
	url := newDatabase(t)
	nodes := make([]*Ledger, n)
	for i := range nodes {
		nodes[i] = openMySQL(t, url, Options{})
	}
	return nodes
}

// TestNodesShareAHouse: callers of four nodes want overlapping groups of seats
// of one house, cancel some and come back; the keys decide, whatever meets.
func TestNodesShareAHouse(t *testing.T) {
	nodes := openNodes(t, 4)
	show := testShow(t, nodes[0], 120)
	ctx := context.Background()
	var (
		all           sync.WaitGroup
		won, conflict atomic.Int64
		mu            sync.Mutex
		paid          []seatflow.Order
	)
	for caller := range 64 {
		all.Go(func() {
			l := nodes[caller%len(nodes)]
			rng := rand.New(rand.NewPCG(3, uint64(caller)))
			for i := range 8 {
				var seats []seatflow.SeatID
				for _, s := range rng.Perm(120)[:1+rng.IntN(5)] {
					seats = append(seats, seatflow.SeatID(s+1))
				}
				o, err := l.InsertOrder(ctx, sale(show, fmt.Sprint("u", caller), fmt.Sprint("k", i), seats...))
				var taken *seatflow.SeatConflictError
				switch {
				case errors.As(err, &taken):
					conflict.Add(1)
					continue
				case err != nil:
					t.Errorf("insert: %v", err)
					continue
				}
				won.Add(1)
				other := nodes[rng.IntN(len(nodes))]
				if rng.IntN(3) > 0 {
					if _, err := other.CancelOrder(ctx, seatflow.OrderChange{No: o.No}); err != nil {
						t.Errorf("cancel: %v", err)
					}
					continue
				}
				out, err := other.RecordPayment(ctx, seatflow.PaymentEvent{Provider: "p", EventID: string(o.No), CaptureID: string(o.No),
					Type: seatflow.PaymentCaptured, Order: o.No, Amount: o.Total}, seatflow.System("t"))
				if err != nil || out.Ending != seatflow.EndingPaid {
					t.Errorf("pay: %s, %v", out.Ending, err)
				}
				mu.Lock()
				paid = append(paid, out.Order)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if won.Load() == 0 || conflict.Load() == 0 {
		t.Errorf("%d won, %d met a conflict: no race", won.Load(), conflict.Load())
	}
	sound(t, nodes[0])
	f, err := nodes[1].Facts(ctx, show.ID)
	if err != nil || len(f.Orders) != len(paid) {
		t.Errorf("%d orders have seats, %d were paid: %v", len(f.Orders), len(paid), err)
	}
	wantTexts(t, nodes[2], "SELECT COUNT(*) - COUNT(DISTINCT id) FROM order_event", "0")
	wantTexts(t, nodes[2], "SELECT COUNT(*) - (SELECT COUNT(*) FROM order_event) FROM outbox", "0")
}

// sound holds the ledger's audit empty.
func sound(t testing.TB, l *Ledger) {
	t.Helper()
	a, err := l.Audit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{a.DoubleSeats, a.OrphanSeats, a.MissingSeats, a.MissingIndexes, a.BadEndings, a.PaidWithoutCash, a.IntegrityFaults} {
		if len(list) > 0 {
			t.Errorf("audit: %q", list)
		}
	}
}

// A key that was used at one node is known at another as soon as it was
// acknowledged; what a node alone remembers must not say otherwise.
func TestNodesKnowEachOthersKeys(t *testing.T) {
	nodes := openNodes(t, 2)
	show := testShow(t, nodes[0], 40)
	ctx := context.Background()
	for i := range 20 {
		a, b := nodes[i%2], nodes[1-i%2]
		key := fmt.Sprint("k", i)
		if _, err := b.OrderByKey(ctx, "u", key); !errors.Is(err, seatflow.ErrNotFound) {
			t.Fatalf("before: %v", err)
		}
		o, err := a.InsertOrder(ctx, sale(show, "u", key, seatflow.SeatID(i+1)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.OrderByKey(ctx, "u", key); err != nil || got.No != o.No {
			t.Errorf("at the other node: %s, %v", got.No, err)
		}
		if got, err := b.Order(ctx, o.No, "u"); err != nil || got.No != o.No {
			t.Errorf("by number at the other node: %s, %v", got.No, err)
		}
	}
}

// TestNodesFence: an order is in the facts that are read after its
// generation was raised at another node, or it is refused.
func TestNodesFence(t *testing.T) {
	nodes := openNodes(t, 3)
	show := testShow(t, nodes[0], 4000)
	ctx := context.Background()
	var seat atomic.Int64
	for round := range 15 {
		var (
			all  sync.WaitGroup
			mu   sync.Mutex
			in   []seatflow.OrderNo
			seen seatflow.Facts
		)
		for caller := range 24 {
			all.Go(func() {
				for i := range 3 {
					n := sale(show, fmt.Sprintf("u%d", caller), fmt.Sprint(round, i), seatflow.SeatID(seat.Add(1)))
					o, err := nodes[caller%3].InsertOrder(ctx, n)
					switch {
					case err == nil:
						mu.Lock()
						in = append(in, o.No)
						mu.Unlock()
					case !errors.Is(err, seatflow.ErrStaleGeneration):
						t.Errorf("insert: %v", err)
					}
				}
			})
		}
		all.Go(func() {
			l := nodes[round%3]
			if _, err := l.RaiseGeneration(ctx, show.ID, show.Generation); err != nil {
				t.Errorf("raise: %v", err)
				return
			}
			var err error
			if seen, err = l.Facts(ctx, show.ID); err != nil {
				t.Errorf("facts: %v", err)
			}
		})
		all.Wait()
		there := map[seatflow.OrderNo]bool{}
		for _, o := range seen.Orders {
			there[o.No] = true
		}
		for _, no := range in {
			if !there[no] {
				t.Fatalf("round %d: order %s was committed and not in the facts of generation %d", round, no, seen.Generation)
			}
		}
		show = seen.Show
	}
}

// rawTx is a transaction of somebody else.
func rawTx(t *testing.T, l *Ledger, statements ...string) *sql.Tx {
	t.Helper()
	tx, err := l.readDB.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	for _, s := range statements {
		if _, err := tx.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return tx
}

// waitForLock waits until a transaction of the ledger's waits for a lock. The
// server makes its list anew only for those who have not asked for a tenth of
// a second.
func waitForLock(t *testing.T, l *Ledger) {
	t.Helper()
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	hang := time.After(time.Minute)
	for len(rawTexts(t, l, "SELECT 1 FROM information_schema.innodb_trx x JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id "+
		"WHERE x.trx_state = 'LOCK WAIT' AND p.db = DATABASE()")) == 0 {
		select {
		case <-tick.C:
		case <-hang:
			t.Fatal("nobody waits for a lock")
		}
	}
}

// TestDeadlock: a batch that is the victim of a deadlock is written again as a
// whole, and its members hear nothing of it.
func TestDeadlock(t *testing.T) {
	nodes := openNodes(t, 1)
	l := nodes[0]
	ctx := context.Background()
	show := testShow(t, l, 500)
	// The other has written so much more that the batch is the cheaper victim.
	tx := rawTx(t, l, fmt.Sprintf("INSERT INTO order_seat SELECT %d, seq, 'X' FROM seq_200_to_400", show.ID),
		fmt.Sprintf("INSERT INTO order_seat VALUES (%d, 2, 'X')", show.ID))
	errs := make(chan error, 2)
	g := holdWriter(t, l)
	for i, seats := range [][]seatflow.SeatID{{1, 2}, {10}} {
		go func() {
			_, err := l.InsertOrder(ctx, sale(show, fmt.Sprint("u", i), "k", seats...))
			errs <- err
		}()
	}
	waitQueued(l, 2)
	g()
	waitForLock(t, l)
	if _, err := tx.Exec(fmt.Sprintf("INSERT INTO order_seat VALUES (%d, 1, 'X')", show.ID)); err != nil {
		t.Fatalf("the other was the victim: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Errorf("after a deadlock: %v", err)
		}
	}
}

// TestLockedShow: while somebody keeps a show's row locked, orders of other
// shows go on, those of the show wait no longer than their callers, and go on
// when it is free again.
func TestLockedShow(t *testing.T) {
	l := openNodes(t, 1)[0]
	ctx := context.Background()
	locked, free := testShow(t, l, 400), testShow(t, l, 400)
	tx := rawTx(t, l, fmt.Sprintf("SELECT id FROM `show` WHERE id = %d FOR UPDATE", locked.ID))
	short, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancel()
	gone := make(chan error, 1)
	go func() {
		_, err := l.InsertOrder(short, sale(locked, "gone", "k", 399))
		gone <- err
	}()
	stays := make(chan error, 20)
	for i := range 20 {
		go func() {
			_, err := l.InsertOrder(ctx, sale(locked, fmt.Sprint("s", i), "k", seatflow.SeatID(i+1)))
			stays <- err
		}()
	}
	waitFor(t, "a show that is known to be locked", func() bool { return l.busy.has(locked.ID) })
	for i := range 50 { // none of them waits with the locked ones, or this would take a minute
		if _, err := l.InsertOrder(ctx, sale(free, fmt.Sprint("f", i), "k", seatflow.SeatID(i+1))); err != nil {
			t.Fatalf("an order of another show: %v", err)
		}
	}
	// Its time was up while it waited or while it was tried: it has not happened, or is not known to.
	if err := <-gone; !errors.Is(err, seatflow.ErrNotCommitted) && !errors.Is(err, seatflow.ErrUnknownCommit) {
		t.Errorf("a caller whose time was up: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	ok := 0
	for range 20 {
		switch err := <-stays; {
		case err == nil:
			ok++
		case !errors.Is(err, seatflow.ErrNotCommitted):
			t.Errorf("after the lock: %v", err)
		}
	}
	if _, err := l.InsertOrder(ctx, sale(locked, "late", "k", 300)); err != nil {
		t.Errorf("after the lock: %v", err)
	}
	if f, err := l.Facts(ctx, locked.ID); err != nil || len(f.Orders) < ok+1 {
		t.Errorf("%d of %d orders, %v", len(f.Orders), ok+1, err)
	}
	sound(t, l)
}

// TestNodesEventNumbers: numbers are distinct over nodes that write at once,
// and grow with time at each.
func TestNodesEventNumbers(t *testing.T) {
	nodes := openNodes(t, 3)
	seen := map[int64]bool{}
	for i, l := range nodes {
		last := int64(0)
		for range 1000 {
			id := l.events.take(3)
			for k := range int64(3) {
				if n := id + k*l.events.step; n <= last || seen[n] {
					t.Fatalf("node %d: number %d after %d", i, n, last)
				} else {
					seen[n], last = true, n
				}
			}
		}
	}
}

// A number that was given twice after all is refused by a key, and the
// transaction runs again with another.
func TestEventNumberTwice(t *testing.T) {
	l := openNodes(t, 1)[0]
	ctx := context.Background()
	show := testShow(t, l, 10)
	if _, err := l.InsertOrder(ctx, sale(show, "u", "k", 1)); err != nil {
		t.Fatal(err)
	}
	ahead := time.Now().Add(time.Hour).UnixMicro() - eventEpoch
	rawExecMySQL(t, l, fmt.Sprintf("UPDATE outbox SET id = %d", (ahead+1)*eventNodes+l.events.node))
	l.events.last.Store(ahead)
	if _, err := l.InsertOrder(ctx, sale(show, "u", "k2", 2)); err != nil {
		t.Errorf("insert: %v", err)
	}
	wantTexts(t, l, "SELECT COUNT(*), COUNT(DISTINCT id) FROM outbox", "2|2")
}

func rawExecMySQL(t testing.TB, l *Ledger, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := l.readDB.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// TestOutboxLateCommit: a row that commits late is read although others after
// it were read and deleted before.
func TestOutboxLateCommit(t *testing.T) {
	nodes := openNodes(t, 2)
	ctx := context.Background()
	show := testShow(t, nodes[0], 10)
	insert := func(l *Ledger, seat seatflow.SeatID) seatflow.Order {
		o, err := l.InsertOrder(ctx, sale(show, "u", fmt.Sprint(seat), seat))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	first := insert(nodes[0], 1)
	id := rawTexts(t, nodes[0], "SELECT id FROM outbox")[0]
	rawExecMySQL(t, nodes[0], "DELETE FROM outbox")
	tx := rawTx(t, nodes[0], fmt.Sprintf("INSERT INTO outbox VALUES (%s, '%s', 1)", id, first.No)) // not committed yet
	second := insert(nodes[1], 2)
	out, err := nodes[0].Outbox(ctx, 10)
	if err != nil || len(out) != 1 || out[0].Order.No != second.No {
		t.Fatalf("%+v, %v", out, err)
	}
	// Deleting waits for no row of others.
	if err := nodes[1].OutboxDone(ctx, []int64{out[0].ID, 12345}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	out, err = nodes[1].Outbox(ctx, 10)
	if err != nil || len(out) != 1 || out[0].Order.No != first.No || out[0].Event.Order != first.No {
		t.Fatalf("%+v, %v", out, err)
	}
	var ids []int64
	for i := range 1200 {
		ids = append(ids, int64(i))
	}
	if err := nodes[0].OutboxDone(ctx, append(ids, out[0].ID)); err != nil {
		t.Fatal(err)
	}
	if out, err = nodes[0].Outbox(ctx, 10); err != nil || len(out) != 0 {
		t.Errorf("left: %+v, %v", out, err)
	}
}

// TestLookupsShare: look-ups made at the same time share statements, each gets
// its own answer, and one whose time is up waits for nobody.
func TestLookupsShare(t *testing.T) {
	entered, release := make(chan int, 100), make(chan struct{})
	s := &lookups[int]{rejects: func(err error) bool { return err.Error() == "strange" },
		read: func(_ context.Context, keys []int) (map[int]seatflow.Order, error) {
			entered <- len(keys)
			<-release
			found := map[int]seatflow.Order{}
			for _, k := range keys {
				switch {
				case k == 13:
					return nil, errors.New("strange")
				case k%2 == 0:
					found[k] = seatflow.Order{Version: int64(k)}
				}
			}
			return found, nil
		}}
	ctx := context.Background()
	var all sync.WaitGroup
	ask := func(key int) {
		all.Go(func() {
			o, err := s.find(ctx, key)
			switch {
			case key == 13:
				if err == nil || err.Error() != "strange" {
					t.Errorf("key 13: %v", err)
				}
			case key%2 == 0:
				if err != nil || o.Version != int64(key) {
					t.Errorf("key %d: %d, %v", key, o.Version, err)
				}
			case !errors.Is(err, seatflow.ErrNotFound):
				t.Errorf("key %d: %v", key, err)
			}
		})
	}
	ask(0)
	if n := <-entered; n != 1 {
		t.Errorf("a lone look-up was asked together with %d", n-1)
	}
	ask(2)
	<-entered // both lanes are at work
	for k := range 40 {
		ask(k)
		ask(k)
	}
	waitFor(t, "80 look-ups to wait", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.queue) == 80
	})
	short, cancel := context.WithCancel(ctx)
	cancelled := make(chan error, 1)
	go func() {
		_, err := s.find(short, 3)
		cancelled <- err
	}()
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
	close(release)
	all.Wait()
	s.close()
	if _, err := s.find(ctx, 1); err == nil || errors.Is(err, seatflow.ErrNotFound) {
		t.Errorf("after close: %v", err)
	}
	var sizes []int
	for len(entered) > 0 {
		sizes = append(sizes, <-entered)
	}
	if slices.Max(sizes) < 40 {
		t.Errorf("statements of %v keys: nothing was shared", sizes)
	}
}
