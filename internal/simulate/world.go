package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
	"seatflow/internal/catalog"
	"seatflow/internal/ledger"
	"seatflow/internal/memseats"
	"seatflow/internal/seatplan"
)

// Fault is a kind of thing that goes wrong.
type Fault uint16

// The faults; a world knows those that its seed draws.
const (
	faultRefused   Fault = 1 << iota // a backend refuses a call
	faultLost                        // a request or a reply is lost
	faultLate                        // a commit lands after its caller gave up
	faultCrash                       // a node dies between two steps, and another starts
	faultPause                       // a node stops between two steps, and goes on
	faultWipe                        // the view is gone
	faultStore                       // the seat store is another one, and empty
	faultCorrupt                     // a seat is written to by hand
	faultClock                       // clocks are set
	faultMessages                    // messages come twice and out of order
	faultBus                         // the bus forgets everything
	faultCallbacks                   // callbacks come several times
	faultCount     = iota
)

var faultNames = [faultCount]string{"refusals", "lost requests and replies", "late commits", "crashes", "pauses", "wiped views",
	"replaced stores", "corrupted seats", "clocks", "messages twice and out of order", "forgetful bus", "repeated callbacks"}

func (f Fault) String() string {
	var names []string
	for i, name := range faultNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// The house of every world.
const (
	houseSeats = 10
	place      = seatflow.Partition(7)
	chaosFor   = 40 * time.Second
	settleFor  = 40 * time.Second  // after the last buyer; a dead node's lease on the show has run out long before
	settleMost = 200 * time.Second // then something hangs
)

// Options say which world to run.
type Options struct {
	Seed    uint64
	Without Fault  // faults that the world does not know although its seed draws them
	Buyers  int    // 0: as the seed draws
	Nodes   int    // 0: as the seed draws
	Shuffle uint64 // another order of events in the same world
	Trace   bool   // keep every event in words
	Dir     string // for the facts; "": a folder in memory, if there is one
}

// Result is what became of a world.
type Result struct {
	Options // as drawn
	Faults  Fault
	Steps   int    // calls that passed the gate
	Orders  int    // acknowledged
	Failure string // "": everything was as it must be
	Detail  string
	Hash    uint64   // of every event: the same for every run of a seed
	Trace   []string // with Options.Trace
}

// world is one run.
type world struct {
	o        Options
	rng      *rand.Rand
	faults   Fault
	begun    time.Time
	house    *seatflow.House
	ledger   *ledger.Ledger
	store    *memseats.Store
	bus      *bus
	leases   *leases
	provider *provider
	nodes    []*node
	watchers []*watcher
	lives    int
	numbers  int
	ctx      context.Context // of buyers, provider and watchers
	end      context.CancelFunc
	wg       sync.WaitGroup // everybody
	buyers   sync.WaitGroup

	// Only the scheduler, and the one call that it has let go, touch these.
	seatOffset atomic.Int64 // of its clock, a time.Duration
	seen       *seatflow.Snapshot
	freed      map[seatflow.Owner]bool
	reseated   map[seatflow.UserID]bool
	corrupted  bool
	calm       bool // no more faults
	hash       hash.Hash64
	steps      int
	trace      []string
	comes      []coming

	mu      sync.Mutex
	waiting []*call
	over    bool
	shut    bool
	acks    bytes.Buffer
	failure string
	detail  string
}

// coming is something that happens at a time.
type coming struct {
	at   time.Time
	what string
	do   func()
}

// template is a ledger with the schema and one house, copied for each world.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := scratch("")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, name := context.Background(), filepath.Join(dir, "facts.db")
	l, err := ledger.OpenSQLite(ctx, name, ledger.Options{})
	if err != nil {
		return nil, err
	}
	c := catalog.New(l, seatflow.WallClock{}, slog.New(slog.DiscardHandler))
	hall, err := c.CreateHall(ctx, seatflow.Hall{Name: "House", Zone: "UTC"})
	if err == nil {
		_, err = c.ImportPlan(ctx, hall.ID, seatplan.Generate(seatplan.GenerateOptions{Rows: 1, Seats: houseSeats}))
	}
	if err := errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
})

// scratch makes a folder, in memory where the system has a place for that.
func scratch(dir string) (string, error) {
	if dir == "" {
		if _, err := os.Stat("/dev/shm"); err == nil {
			dir = "/dev/shm"
		}
	}
	return os.MkdirTemp(dir, "seatflow-simulate-")
}

// Run runs one world. The test fails only when the world could not be made;
// what went wrong in it is in the result.
func Run(t *testing.T, o Options) (r Result) {
	t.Helper()
	facts, err := template()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := scratch(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(dir, "facts.db")
		if err := os.WriteFile(name, facts, 0o600); err != nil {
			t.Fatal(err)
		}
		refunds := 0
		l, err := ledger.OpenSQLite(t.Context(), name, ledger.Options{NewRefundID: func() string { refunds++; return fmt.Sprint("refund-", refunds) }})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		w := &world{o: o, rng: rand.New(rand.NewPCG(o.Seed+o.Shuffle<<48, 1)), begun: time.Now(), ledger: l, freed: map[seatflow.Owner]bool{},
			reseated: map[seatflow.UserID]bool{}, hash: fnv.New64a()}
		if err := w.furnish(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.run()
		r = Result{Options: w.o, Faults: w.faults, Steps: w.steps, Orders: bytes.Count(w.acks.Bytes(), []byte(`"op":"order"`)),
			Failure: w.failure, Detail: w.detail, Hash: w.hash.Sum64(), Trace: w.trace}
	})
	return r
}

// furnish draws what the world is like and opens its house.
func (w *world) furnish(ctx context.Context) error {
	w.ctx, w.end = context.WithCancel(context.Background())
	draw := rand.New(rand.NewPCG(w.o.Seed, 0))
	if draw.IntN(8) > 0 {
		w.faults = Fault(draw.Uint64()) & (1<<faultCount - 1) // each with one chance in two
	}
	w.faults &^= w.o.Without
	for _, number := range []struct {
		is          *int
		least, most int
	}{{&w.o.Nodes, 1, 3}, {&w.o.Buyers, 2, 7}} {
		if n := number.least + draw.IntN(number.most-number.least+1); *number.is == 0 {
			*number.is = n
		}
	}
	now := time.Now().UTC()
	show, err := w.ledger.CreateShow(ctx, seatflow.Show{Hall: 1, PlanVersion: 1, Title: "Show", Starts: now.Add(2 * time.Hour), Ends: now.Add(4 * time.Hour),
		SaleFrom: now.Add(-time.Hour), SaleUntil: now.Add(2 * time.Hour), Currency: "EUR", Prices: map[string]int64{"Front": 3000, "Middle": 2000, "Rear": 1000},
		LimitPerUser: 4, HoldFor: holdFor, HoldCap: holdCap, ExtendBy: extendBy, Status: seatflow.ShowPublished, Partition: place})
	if err != nil {
		return err
	}
	hall, err := w.ledger.Hall(ctx, 1)
	if err != nil {
		return err
	}
	plan, err := w.ledger.Plan(ctx, 1, 1)
	if err != nil {
		return err
	}
	w.house = seatflow.NewHouse(show, hall, plan)
	w.store = memseats.New(memseats.Options{Clock: seatClock{w}})
	w.bus = newBus(w)
	w.leases = &leases{w: w, held: map[string]*leaseOf{}}
	w.provider = &provider{w: w, captured: map[string]seatflow.Money{}, refunded: map[string]seatflow.Money{}, given: map[string]int64{}}
	w.nodes = make([]*node, w.o.Nodes)
	for i := range w.nodes {
		w.start(i)
	}
	for i := range 2 {
		w.watch(i)
	}
	for i := range w.o.Buyers {
		b := &buyer{w: w, name: seatflow.UserID(fmt.Sprintf("buyer%d", i)), rng: rand.New(rand.NewPCG(w.o.Seed+w.o.Shuffle<<48, uint64(100+i)))}
		w.buyers.Add(1)
		w.wg.Go(func() {
			defer w.buyers.Done()
			b.buy()
		})
	}
	return nil
}

func (w *world) seats() seatflow.SeatStore { return w.store }

// newNo gives order numbers in the order of events.
func (w *world) newNo() seatflow.OrderNo {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.numbers++
	return seatflow.OrderNo(fmt.Sprintf("%026d", w.numbers))
}

// open: buyers may still come.
func (w *world) open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.shut
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure != ""
}

func (w *world) has(f Fault) bool { return w.faults&f != 0 && !w.calm }

func (w *world) chance(f Fault, p float64) bool { return w.has(f) && w.rng.Float64() < p }

func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rng.Int64N(int64(to-from)))
}

// later has something happen after a while.
func (w *world) later(after time.Duration, what string, do func()) {
	w.comes = append(w.comes, coming{time.Now().Add(after), what, do})
}

// note adds an event to the story.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%9.3fs  ", time.Since(w.begun).Seconds()) + fmt.Sprintf(format, args...)
	w.hash.Write([]byte(line))
	if w.o.Trace {
		w.trace = append(w.trace, line)
	}
}

// run is the world's one thread of events.
func (w *world) run() {
	w.advance(func(since time.Duration) bool { return since < chaosFor })
	w.settle()
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.end()
	for _, n := range w.nodes {
		n.end()
	}
	w.expel(nil)
	w.wg.Wait()
	if !w.failed() {
		time.Sleep(2 * time.Minute)
		w.judge()
	}
	w.store.Close()
}

// advance lets events happen while a condition holds and nothing has failed.
func (w *world) advance(while func(since time.Duration) bool) {
	from := time.Now()
	for while(time.Since(from)) && !w.failed() {
		synctest.Wait()
		w.happen()
		c := w.pick(time.Now())
		if c == nil {
			time.Sleep(w.between(time.Millisecond, 12*time.Millisecond))
			continue
		}
		f := w.fate(c)
		w.steps++
		w.note("%-18s %s %s %s", c.actor, c.verb, c.detail, fateNames[f])
		if f == diedBefore || f == diedAfter {
			w.crash(c.node)
		}
		c.verdict <- f
		synctest.Wait()
		w.observe(c.verb)
		if w.rng.IntN(3) == 0 {
			time.Sleep(w.between(0, 3*time.Millisecond))
		}
	}
}

// fate decides what becomes of a call.
func (w *world) fate(c *call) fate {
	watcher := strings.HasPrefix(c.actor, "watcher")
	if !watcher && w.chance(faultCrash, 0.004) {
		return []fate{diedBefore, diedAfter}[w.rng.IntN(2)]
	}
	var may []fate
	for _, f := range fates[c.kind] {
		if f == refused && w.has(faultRefused) || (f == lostRequest || f == lostReply) && w.has(faultLost) || f == lateCommit && w.has(faultLate) {
			may = append(may, f)
		}
	}
	if len(may) > 0 && w.rng.Float64() < 0.05 {
		return may[w.rng.IntN(len(may))]
	}
	return fine
}

// crash ends a node's life and has another begin after a while.
func (w *world) crash(n *node) {
	w.kill(n)
	for i := range w.nodes {
		if w.nodes[i] == n {
			w.later(w.between(50*time.Millisecond, 6*time.Second), n.name+" starts", func() { w.start(i) })
		}
	}
}

// happen lets come what comes, and now and then something goes wrong by itself.
func (w *world) happen() {
	now := time.Now()
	for i := 0; i < len(w.comes); {
		c := w.comes[i]
		if now.Before(c.at) {
			i++
			continue
		}
		w.comes = append(w.comes[:i], w.comes[i+1:]...)
		w.note("%s", c.what)
		c.do()
		synctest.Wait()
		w.observe("late")
	}
	const often = 0.003
	switch {
	case w.chance(faultPause, often):
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		d := w.between(100*time.Millisecond, 15*time.Second)
		w.mu.Lock()
		n.pausedAt, n.pausedUntil = now, now.Add(d)
		w.mu.Unlock()
		w.note("%s pauses for %v", n.name, d)
	case w.chance(faultWipe, often):
		w.store.DropView(w.house.Show.Ref())
		w.note("the view is gone")
		w.observe("")
	case w.chance(faultStore, often/3):
		w.store.Close()
		w.store = memseats.New(memseats.Options{Clock: seatClock{w}})
		w.note("the seat store is another one")
		w.observe("")
	case w.chance(faultCorrupt, often/3):
		w.corrupt()
	case w.chance(faultClock, often):
		d := w.between(-20*time.Second, 20*time.Second)
		if i := w.rng.IntN(len(w.nodes) + 1); i < len(w.nodes) {
			w.nodes[i].offset.Store(int64(d))
			w.note("%s's clock is off by %v", w.nodes[i].name, d)
		} else {
			w.seatOffset.Store(int64(d))
			w.note("the seat store's clock is off by %v", d)
		}
	case w.chance(faultBus, often):
		w.bus.forget()
		w.note("the bus forgets everything")
	}
	synctest.Wait()
}

// corrupt writes into a seat by hand: another state, another owner.
func (w *world) corrupt() {
	if w.seen == nil || w.seen.Revision.Generation == 0 {
		return
	}
	id := seatflow.SeatID(1 + w.rng.IntN(houseSeats))
	state := []seatflow.SeatState{seatflow.Available, seatflow.Held, seatflow.Sold}[w.rng.IntN(3)]
	var owner seatflow.Owner
	if state.Owned() {
		owner = seatflow.Owner{Order: seatflow.OrderNo(fmt.Sprintf("%026d", 1+w.rng.IntN(w.numbers+3))), Attempt: 1}
	}
	if state == seatflow.Sold {
		// Sold with no account of it in the ledger raises the alarm, and then
		// everything waits for people. So it is a seat that the order has, or
		// gave back.
		o, err := w.ledger.Order(context.Background(), owner.Order, "")
		if n := len(o.Items); err == nil && n > 0 && (o.State == seatflow.OrderPaid || o.State == seatflow.OrderRefunded) {
			id, owner = o.Items[w.rng.IntN(n)].Seat, o.Owner()
		} else {
			state = seatflow.Held
		}
	}
	w.corrupted = true
	w.store.ForceSeat(w.house.Show.Ref(), id, state, owner)
	w.note("seat %d is %c of %s, by hand", id, state, owner)
	w.observe("")
}

// settle ends the faults and gives everything its time.
func (w *world) settle() {
	if w.failed() {
		return
	}
	w.calm = true
	w.mu.Lock()
	w.shut = true
	for _, n := range w.nodes {
		n.pausedUntil = time.Time{}
		n.offset.Store(0)
	}
	w.mu.Unlock()
	w.seatOffset.Store(0)
	w.note("the faults end")
	gone := make(chan struct{})
	go func() {
		w.buyers.Wait()
		close(gone)
	}()
	var quiet time.Time // since when nobody has anything to do any more
	w.advance(func(since time.Duration) bool {
		w.provider.mu.Lock()
		owed := w.provider.owed
		w.provider.mu.Unlock()
		select {
		case <-gone:
			if owed > 0 {
				quiet = time.Time{}
			} else if quiet.IsZero() {
				quiet = time.Now()
			}
		default:
		}
		if since > settleMost {
			w.fail("hangs", "buyers or callbacks are not through after %v, %d callbacks owed", since, owed)
		}
		return quiet.IsZero() || time.Since(quiet) < settleFor
	})
	if !w.failed() {
		w.watched()
	}
}
