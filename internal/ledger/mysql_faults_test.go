package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// commitProxy stands before a server and meddles with one COMMIT.
type commitProxy struct {
	listener net.Listener
	server   string
	mode     atomic.Int32
	reached  chan struct{} // told when the COMMIT was met
	held     chan struct{} // closed: a held COMMIT goes on
	release  func()
	all      sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

const (
	passAll     int32 = iota
	cutAfter          // the COMMIT happens, its answer is lost
	holdCommit        // the client is cut off; the COMMIT goes on when released
	dropsCommit       // the client is cut off, and the COMMIT is lost
)

func newCommitProxy(t *testing.T, database string) (*commitProxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &commitProxy{listener: l, server: u.Host, reached: make(chan struct{}, 1), held: make(chan struct{})}
	p.release = sync.OnceFunc(func() { close(p.held) })
	p.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.release()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.all.Wait()
	})
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *commitProxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	defer func() { _, _ = client.Close(), server.Close() }()
	var mute atomic.Bool
	p.all.Go(func() { // answers
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				_ = client.Close()
				return
			}
			if mute.Load() {
				_ = client.Close() // the answer to the COMMIT has come and is kept
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	head := make([]byte, 4)
	for {
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		body := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		mode := passAll
		if bytes.Equal(body, []byte("\x03COMMIT")) {
			mode = p.mode.Swap(passAll)
		}
		switch mode {
		case cutAfter:
			mute.Store(true)
		case holdCommit:
			mute.Store(true)
			_ = client.Close()
			p.reached <- struct{}{}
			<-p.held
		case dropsCommit:
			return
		}
		if _, err := server.Write(append(head, body...)); err != nil {
			return
		}
		if mode == holdCommit || mode == cutAfter {
			_, _ = io.Copy(io.Discard, client) // until the answer has come
			if mode == holdCommit {
				p.waitServer(server)
			}
			return
		}
	}
}

// waitServer keeps a connection until the server has answered.
func (p *commitProxy) waitServer(server net.Conn) {
	_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = server.Read(make([]byte, 64))
}

// TestMySQLCutAfterCommit: a lost answer is an unknown commit, and the row is
// there.
func TestMySQLCutAfterCommit(t *testing.T) {
	database := newDatabase(t)
	p, through := newCommitProxy(t, database)
	l, other := openMySQL(t, through, Options{}), openMySQL(t, database, Options{})
	ctx := context.Background()
	show := testShow(t, l, 20)
	n := sale(show, "u", "k", 1)
	p.mode.Store(cutAfter)
	if _, err := l.InsertOrder(ctx, n); !errors.Is(err, seatflow.ErrUnknownCommit) || errors.Is(err, seatflow.ErrNotCommitted) {
		t.Fatalf("the answer was lost: %v", err)
	}
	if o, err := other.VoidOrder(ctx, n.Order.No, show.ID, seatflow.System("t")); err != nil || o.State != seatflow.OrderPending {
		t.Errorf("what stands is %s, %v", o.State, err)
	}
	// The same with another change.
	p.mode.Store(cutAfter)
	waitFor(t, "the ledger to work again", func() bool { return l.Healthy(ctx) == nil })
	if p.mode.Load() != passAll {
		t.Log("the look did not meet the proxy") // it was up already: the next change meets it
		if _, err := l.CancelOrder(ctx, seatflow.OrderChange{No: n.Order.No}); !errors.Is(err, seatflow.ErrUnknownCommit) {
			t.Errorf("a cancel whose answer was lost: %v", err)
		}
		waitFor(t, "the ledger to work again", func() bool { return l.Healthy(ctx) == nil })
		if o, err := l.CancelOrder(ctx, seatflow.OrderChange{No: n.Order.No}); err != nil || o.State != seatflow.OrderCancelled {
			t.Errorf("cancelled again: %s, %v", o.State, err)
		}
	}
	sound(t, other)
}

// TestMySQLLateCommit: a COMMIT that lands after the look-up found nothing is
// settled by the void row's key: here the commit is first, so the order
// stands.
func TestMySQLLateCommit(t *testing.T) {
	database := newDatabase(t)
	p, through := newCommitProxy(t, database)
	l, other := openMySQL(t, through, Options{}), openMySQL(t, database, Options{})
	ctx := context.Background()
	show := testShow(t, l, 20)
	n := sale(show, "u", "k", 1, 2)
	p.mode.Store(holdCommit)
	if _, err := l.InsertOrder(ctx, n); !errors.Is(err, seatflow.ErrUnknownCommit) {
		t.Fatalf("cut off at the commit: %v", err)
	}
	<-p.reached
	if _, err := other.Order(ctx, n.Order.No, ""); !errors.Is(err, seatflow.ErrNotFound) {
		t.Fatalf("before the commit landed: %v", err)
	}
	settled := make(chan seatflow.Order, 1)
	go func() {
		o, err := other.VoidOrder(ctx, n.Order.No, show.ID, seatflow.System("t"))
		if err != nil {
			t.Errorf("void: %v", err)
		}
		settled <- o
	}()
	waitForLock(t, other)
	p.release()
	if o := <-settled; o.State != seatflow.OrderPending || len(o.Items) != 2 {
		t.Errorf("what stands is %+v", o)
	}
	if f, err := other.Facts(ctx, show.ID); err != nil || len(f.Orders) != 1 {
		t.Errorf("%d orders, %v", len(f.Orders), err)
	}
	sound(t, other)
}

// TestMySQLLostCommit: a COMMIT that never lands leaves nothing, the void row
// stands, and a late insert of the number is refused.
func TestMySQLLostCommit(t *testing.T) {
	database := newDatabase(t)
	p, through := newCommitProxy(t, database)
	l, other := openMySQL(t, through, Options{}), openMySQL(t, database, Options{})
	ctx := context.Background()
	show := testShow(t, l, 20)
	n := sale(show, "u", "k", 1)
	p.mode.Store(dropsCommit)
	if _, err := l.InsertOrder(ctx, n); !errors.Is(err, seatflow.ErrUnknownCommit) {
		t.Fatalf("cut off at the commit: %v", err)
	}
	if o, err := other.VoidOrder(ctx, n.Order.No, show.ID, seatflow.System("t")); err != nil || o.State != seatflow.OrderVoid {
		t.Fatalf("what stands is %s, %v", o.State, err)
	}
	waitFor(t, "the ledger to work again", func() bool { return l.Healthy(ctx) == nil })
	var exists *seatflow.OrderExistsError
	if _, err := l.InsertOrder(ctx, n); !errors.As(err, &exists) || exists.Order.State != seatflow.OrderVoid {
		t.Errorf("a late insert: %v", err)
	}
	if _, err := l.InsertOrder(ctx, sale(show, "u", "k", 1)); err != nil {
		t.Errorf("under another number: %v", err)
	}
	sound(t, other)
}

// TestMySQLInsertAfterVoid: an insert that was held up until its number was
// made void is refused, though its caller left long ago.
func TestMySQLInsertAfterVoid(t *testing.T) {
	nodes := openNodes(t, 2)
	ctx := context.Background()
	show := testShow(t, nodes[0], 20)
	n := sale(show, "u", "k", 1)
	release := holdWriter(t, nodes[0])
	done := make(chan error, 1)
	go func() {
		_, err := nodes[0].InsertOrder(ctx, n)
		done <- err
	}()
	waitQueued(nodes[0], 1)
	if o, err := nodes[1].VoidOrder(ctx, n.Order.No, show.ID, seatflow.System("t")); err != nil || o.State != seatflow.OrderVoid {
		t.Fatalf("%s, %v", o.State, err)
	}
	release()
	var exists *seatflow.OrderExistsError
	if err := <-done; !errors.As(err, &exists) || exists.Order.State != seatflow.OrderVoid {
		t.Errorf("an insert after the void row: %v", err)
	}
	wantTexts(t, nodes[1], "SELECT COUNT(*) FROM order_seat", "0")
}

// killAll kills every connection that the ledgers of a database have.
func killAll(t *testing.T, l *Ledger) int {
	t.Helper()
	ids := rawTexts(t, l, "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
	for _, id := range ids {
		_, _ = l.readDB.Exec("KILL " + id) // it may have gone by itself
	}
	return len(ids)
}

// TestMySQLKilledBetween: connections that were killed between transactions
// are made again, and no caller hears of it.
func TestMySQLKilledBetween(t *testing.T) {
	nodes := openNodes(t, 2)
	l, other := nodes[0], nodes[1]
	ctx := context.Background()
	show := testShow(t, l, 20)
	for round := range 3 {
		o, err := l.InsertOrder(ctx, sale(show, "u", fmt.Sprint("k", round), seatflow.SeatID(round+1)))
		if err != nil {
			t.Fatalf("round %d: insert: %v", round, err)
		}
		if killAll(t, other) == 0 {
			t.Fatal("nothing to kill")
		}
		if _, err := l.CancelOrder(ctx, seatflow.OrderChange{No: o.No}); err != nil {
			t.Errorf("round %d: cancel: %v", round, err)
		}
		if _, err := l.OrderByKey(ctx, "u", fmt.Sprint("k", round)); err != nil {
			t.Errorf("round %d: look-up: %v", round, err)
		}
	}
}

// TestMySQLKilledWithin: a transaction whose connection is killed before its
// commit runs again as a whole.
func TestMySQLKilledWithin(t *testing.T) {
	l := openNodes(t, 1)[0]
	ctx := context.Background()
	show := testShow(t, l, 20)
	runs := 0
	gen, err := change(ctx, l, 0, func(t *tx) (int64, error) {
		runs++
		if _, err := t.exec("UPDATE `show` SET generation = generation + 1 WHERE id = ?", int64(show.ID)); err != nil {
			return 0, err
		}
		if runs == 1 {
			if _, err := t.exec("KILL CONNECTION_ID()"); err == nil {
				return 0, errors.New("still there")
			}
		}
		var gen int64
		err := t.QueryRowContext(t.ctx, "SELECT generation FROM `show` WHERE id = ?", int64(show.ID)).Scan(&gen)
		return gen, err
	})
	if err != nil || runs != 2 || gen != int64(show.Generation)+1 {
		t.Errorf("%d runs, generation %d after %d, %v", runs, gen, show.Generation, err)
	}
	// So does a lock wait that is broken off, and an error that stays is told.
	runs = 0
	if _, err := change(ctx, l, 0, func(t *tx) (int64, error) {
		runs++
		_, err := t.exec("SELECT * FROM no_such_table")
		return 0, err
	}); !errors.Is(err, seatflow.ErrNotCommitted) || runs != 2 {
		t.Errorf("a statement that never works: %d runs, %v", runs, err)
	}
}

// TestMySQLKilledAtRandom: under load, with connections killed all the time,
// every order is acknowledged, unknown or refused, and the rows agree.
func TestMySQLKilledAtRandom(t *testing.T) {
	l := openNodes(t, 1)[0]
	killer := openMySQL(t, newDatabase(t), Options{}) // not among those killed
	ctx := context.Background()
	show := testShow(t, l, 2000)
	name := rawTexts(t, l, "SELECT DATABASE()")[0]
	stop := make(chan struct{})
	var all, callers sync.WaitGroup
	kills := 0
	all.Go(func() {
		tick := time.NewTicker(15 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			ids := rawTexts(t, killer, "SELECT id FROM information_schema.processlist WHERE db = '"+name+"'")
			if len(ids) > 0 {
				_, _ = killer.readDB.Exec("KILL " + ids[rand.IntN(len(ids))])
				kills++
			}
		}
	})
	var acked, unknown atomic.Int64
	for c := range 8 {
		callers.Go(func() {
			again := time.NewTicker(5 * time.Millisecond)
			defer again.Stop()
			for i := range 40 {
				n := sale(show, fmt.Sprint("u", c), fmt.Sprint("k", i), seatflow.SeatID(c*40+i+1))
				for {
					_, err := l.InsertOrder(ctx, n)
					if errors.Is(err, seatflow.ErrNotCommitted) {
						<-again.C
						continue // as a buyer would
					}
					switch {
					case err == nil:
						acked.Add(1)
					case errors.Is(err, seatflow.ErrUnknownCommit):
						unknown.Add(1)
					default:
						t.Errorf("insert: %v", err)
					}
					break
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	all.Wait()
	waitFor(t, "the ledger to work again", func() bool { return l.Healthy(ctx) == nil })
	f, err := l.Facts(ctx, show.ID)
	if n := int64(len(f.Orders)); err != nil || n < acked.Load() || n > acked.Load()+unknown.Load() || acked.Load()+unknown.Load() != 320 {
		t.Errorf("%d orders; %d acknowledged, %d unknown; %v", n, acked.Load(), unknown.Load(), err)
	}
	t.Logf("%d kills, %d acknowledged, %d unknown", kills, acked.Load(), unknown.Load())
	sound(t, l)
}

// TestMySQLKilledServer: a server that is killed at any moment under load has
// lost nothing that was acknowledged, and the nodes find it again by
// themselves.
func TestMySQLKilledServer(t *testing.T) {
	m := testkit.StartMariaDB(t, testkit.MariaDBOptions{})
	ctx := context.Background()
	nodes := []*Ledger{openMySQL(t, m.URL(), Options{}), openMySQL(t, m.URL(), Options{})}
	show := testShow(t, nodes[0], 10)
	var (
		mu    sync.Mutex
		acked = map[seatflow.OrderNo]seatflow.Order{}
		open  = map[seatflow.OrderNo]bool{} // unknown
		seat  atomic.Int64
	)
	for round := range 3 {
		var all sync.WaitGroup
		count, enough := atomic.Int64{}, int64(150+rand.IntN(400))
		hit := make(chan struct{})
		for c := range 24 {
			all.Go(func() {
				l := nodes[c%2]
				for {
					n := sale(show, fmt.Sprintf("u%d", c), fmt.Sprint(seat.Load(), "-", round), seatflow.SeatID(seat.Add(1)))
					o, err := l.InsertOrder(ctx, n)
					if err == nil && seat.Load()%3 == 0 {
						o, err = l.CancelOrder(ctx, seatflow.OrderChange{No: o.No})
					}
					mu.Lock()
					switch {
					case err == nil:
						acked[o.No] = o
					case errors.Is(err, seatflow.ErrUnknownCommit):
						open[n.Order.No] = true
					}
					mu.Unlock()
					if err != nil {
						return
					}
					if count.Add(1) == enough {
						close(hit)
					}
				}
			})
		}
		<-hit
		m.Kill()
		all.Wait()
		for _, l := range nodes {
			waitFor(t, "the server to be known to be down", func() bool { return l.Healthy(ctx) != nil })
			// Refused at once and before anything is held, not after a time-out.
			if _, err := l.InsertOrder(ctx, sale(show, "x", "x", 1)); !errors.Is(err, seatflow.ErrNotCommitted) {
				t.Errorf("while the server is down: %v", err)
			}
		}
		m.Restart(t)
		for _, l := range nodes {
			waitFor(t, "the server to be found again", func() bool { return l.Healthy(ctx) == nil })
		}
		for no, want := range acked {
			got, err := nodes[round%2].Order(ctx, no, "")
			if err != nil || got.Version < want.Version || got.State != want.State {
				t.Errorf("round %d: order %s was acknowledged as %s; there is %s, %v", round, no, want.State, got.State, err)
			}
		}
		for no := range open {
			stands, err := nodes[0].VoidOrder(ctx, no, show.ID, seatflow.System("t"))
			if err != nil {
				t.Errorf("round %d: settle %s: %v", round, no, err)
			}
			if again, err := nodes[1].Order(ctx, no, ""); err != nil || again.State != stands.State {
				t.Errorf("round %d: order %s stands as %s and as %s, %v", round, no, stands.State, again.State, err)
			}
		}
		sound(t, nodes[0])
	}
	t.Logf("%d acknowledged, %d unknown", len(acked), len(open))
}

// TestMySQLStopsAnswering: a server that says nothing is known to be down in
// seconds, callers keep their deadlines, and all goes on when it answers.
func TestMySQLStopsAnswering(t *testing.T) {
	m := testkit.StartMariaDB(t, testkit.MariaDBOptions{})
	l := openMySQL(t, m.URL(), Options{})
	ctx := context.Background()
	show := testShow(t, l, 100)
	m.Pause()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := l.InsertOrder(short, sale(show, "u", "k", 1)); !errors.Is(err, seatflow.ErrUnknownCommit) && !errors.Is(err, seatflow.ErrNotCommitted) {
		t.Errorf("a server that says nothing: %v", err)
	}
	if _, err := l.OrderByKey(short, "u", "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a look-up there: %v", err)
	}
	waitFor(t, "the server to be known to be down", func() bool { return l.down.Load() != nil })
	if err := l.Healthy(short); !errors.Is(err, seatflow.ErrNotCommitted) {
		t.Errorf("healthy: %v", err)
	}
	m.Resume()
	waitFor(t, "the server to be found again", func() bool { return l.Healthy(ctx) == nil })
	if _, err := l.InsertOrder(ctx, sale(show, "u", "k2", 2)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := l.OrderByKey(ctx, "u", "k2"); err != nil {
		t.Errorf("a look-up afterwards: %v", err)
	}
	sound(t, l)
}

// A server that was set to lose commits while this process was running is not
// connected to again.
func TestMySQLRelaxedLater(t *testing.T) {
	m := testkit.SharedMariaDB(t)
	l := openMySQL(t, m.NewDatabase(t), Options{})
	show := testShow(t, l, 10)
	m.SetGlobal(t, "innodb_flush_log_at_trx_commit", "0")
	for _, id := range rawTexts(t, l, "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()") {
		rawExecMySQL(t, l, "KILL "+id)
	}
	_, err := l.InsertOrder(context.Background(), sale(show, "u", "k", 1))
	if !errors.Is(err, seatflow.ErrNotCommitted) || !errors.Is(err, ErrRelaxedDurability) {
		t.Errorf("through a new connection: %v", err)
	}
	if err := l.Healthy(context.Background()); !errors.Is(err, seatflow.ErrNotCommitted) {
		t.Errorf("healthy: %v", err)
	}
}
