package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"seatflow"
	"seatflow/internal/testkit"
)

// hang is how long a test waits before it says that something never comes.
const hang = time.Minute

func numbered(show, n int) seatflow.Message {
	return seatflow.Message{
		Subject: seatflow.SeatsSubject(7, seatflow.ShowID(show)), ID: fmt.Sprintf("%d.%d", show, n),
		Header: map[string]string{"ce-type": "test"}, Payload: fmt.Append(nil, n),
	}
}

func run256(show, a, b int) []seatflow.Message {
	var list []seatflow.Message
	for n := a; n <= b; n++ {
		m := numbered(show, n)
		m.Payload = append(m.Payload, make([]byte, 256)...)
		list = append(list, m)
	}
	return list
}

// ear listens, and holds what it hears against the numbers: each the next, or
// a gap before it.
type ear struct {
	mu    sync.Mutex
	next  int
	gaps  int
	sure  bool
	wrong []string
	heard chan struct{}
	stall chan struct{} // if not nil, deliveries wait for it
}

func listenTo(t *testing.T, b *Bus, subject string, stall chan struct{}) *ear {
	t.Helper()
	e := &ear{next: 1, sure: true, heard: make(chan struct{}, 1), stall: stall}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- b.Subscribe(ctx, subject, func() { close(ready) }, e.take) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	select {
	case <-ready:
	case err := <-done:
		done <- err
		t.Fatalf("the subscription ends: %v", err)
	case <-time.After(hang):
		t.Fatal("the subscription is never ready")
	}
	return e
}

func (e *ear) take(run []seatflow.Message) {
	if e.stall != nil {
		<-e.stall
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range run {
		if m.Gap {
			e.gaps++
			e.sure = false
			continue
		}
		var show, n int
		if _, err := fmt.Sscanf(m.ID, "%d.%d", &show, &n); err != nil || n < e.next || e.sure && n != e.next {
			e.wrong = append(e.wrong, fmt.Sprintf("%q where %d is next, sure %t", m.ID, e.next, e.sure))
		}
		e.next, e.sure = n+1, true
	}
	select {
	case e.heard <- struct{}{}:
	default:
	}
}

// until waits until a number was heard, or a number of gaps.
func (e *ear) until(t *testing.T, n, gaps int) {
	t.Helper()
	limit := time.After(hang)
	for {
		e.mu.Lock()
		next, heard, wrong := e.next, e.gaps, e.wrong
		e.mu.Unlock()
		if len(wrong) > 0 {
			t.Fatalf("heard %v", wrong)
		}
		if next > n && heard >= gaps {
			return
		}
		select {
		case <-e.heard:
		case <-limit:
			t.Fatalf("heard up to %d with %d gaps, want %d and %d", next-1, heard, n, gaps)
		}
	}
}

func (e *ear) heardGaps() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gaps
}

// talker publishes numbers until it is stopped.
type talker struct {
	stop chan struct{}
	done chan error
	n    int
}

func talk(t *testing.T, b *Bus) *talker {
	k := &talker{stop: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-k.stop:
				k.done <- nil
				return
			case <-pace.C:
			}
			list := make([]seatflow.Message, 5)
			for i := range list {
				list[i] = numbered(1, k.n+i+1)
			}
			if err := b.Publish(t.Context(), list...); err != nil {
				k.done <- err
				return
			}
			k.n += len(list)
		}
	}()
	return k
}

// end stops a talker and returns the last number that was acknowledged.
func (k *talker) end(t *testing.T) int {
	t.Helper()
	close(k.stop)
	select {
	case err := <-k.done:
		if err != nil {
			t.Fatalf("publishing: %v", err)
		}
	case <-time.After(hang):
		t.Fatal("publishing does not end")
	}
	return k.n
}

// A node that is killed takes nothing with it: what was acknowledged is
// delivered once, in order, without a gap, and nobody has to be told.
func TestClusterLosesOneNode(t *testing.T) {
	n := testkit.StartNATS(t, testkit.NATSOptions{Nodes: 3})
	o := Options{URL: n.URL(), Replicas: 3, Patience: hang}
	a, b := open(t, o), open(t, o)
	ears := []*ear{listenTo(t, a, "seatflow.seats.>", nil), listenTo(t, b, "seatflow.seats.p07.1", nil)}
	k := talk(t, a)
	ears[0].until(t, 100, 0)
	for i := range 3 {
		n.Kill(i)
		here := max(ears[0].heardUpTo(), ears[1].heardUpTo())
		ears[0].until(t, here+200, 0)
		ears[1].until(t, here+200, 0)
		n.Restart(t, i)
		here = ears[0].heardUpTo()
		ears[0].until(t, here+200, 0)
	}
	last := k.end(t)
	for i, e := range ears {
		e.until(t, last, 0)
		if g := e.heardGaps(); g > 0 {
			t.Logf("subscriber %d was told of %d gaps that there were not", i, g)
		}
	}
	if err := b.Healthy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (e *ear) heardUpTo() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.next - 1
}

// One server alone: killed, it is away until it is back, with what it had.
func TestServerKilledAndRestarted(t *testing.T) {
	n := testkit.StartNATS(t, testkit.NATSOptions{})
	o := Options{URL: n.URL(), Patience: hang}
	a, b := open(t, o), open(t, o)
	e := listenTo(t, b, "seatflow.seats.>", nil)
	k := talk(t, a)
	e.until(t, 100, 0)
	for range 2 {
		n.Kill(0)
		here := e.heardUpTo()
		n.Restart(t, 0)
		e.until(t, here+200, 0)
	}
	e.until(t, k.end(t), 0)
	if g := e.heardGaps(); g > 0 {
		t.Errorf("%d gaps where nothing was missed", g)
	}
	if s := a.Stats(); s.Reconnects < 2 || !s.Connected || s.InFlight != 0 || s.Published != uint64(k.n) || s.PublishErrors != 0 {
		t.Errorf("stats %+v after %d messages", s, k.n)
	}
}

// A server that lost its store is filled again, and subscribers hear of it.
func TestStoreWiped(t *testing.T) {
	n := testkit.StartNATS(t, testkit.NATSOptions{})
	o := Options{URL: n.URL(), Patience: hang}
	a, b := open(t, o), open(t, o)
	e := listenTo(t, b, "seatflow.seats.>", nil)
	k := talk(t, a)
	e.until(t, 100, 0)
	n.Kill(0)
	n.WipeStore(t, 0)
	n.Restart(t, 0)
	e.until(t, e.heardUpTo()+200, 1)
	e.until(t, k.end(t), 1)
}

// The server's own restart gives numbers out again when it lost the end of its
// stream: that is a gap, though the stream is the same.
func TestStreamLosesItsEnd(t *testing.T) {
	for _, more := range []int{1, 5, 60} { // published before the subscriber is back: fewer, as many, more than were lost
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			s := startListener(t)
			o := Options{URL: s.url(), Patience: hang}
			a := open(t, o)
			publish(t, a, run256(1, 1, 20)...)
			s.stop()
			kept := filepath.Join(t.TempDir(), "kept")
			if err := os.CopyFS(kept, os.DirFS(s.dir)); err != nil {
				t.Fatal(err)
			}
			s.start(t)
			p := testkit.StartProxy(t, s.addr)
			b := open(t, Options{URL: "nats://" + p.Addr(), Patience: hang})
			whole := listenTo(t, b, "seatflow.seats.>", nil)
			whole.next = 21
			publish(t, a, run256(1, 21, 25)...)
			whole.until(t, 25, 0)
			p.BlackHole()
			s.stop()
			if err := os.RemoveAll(s.dir); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(s.dir, os.DirFS(kept)); err != nil {
				t.Fatal(err)
			}
			s.start(t)
			publish(t, a, run256(1, 101, 100+more)...)
			p.Clear()
			whole.until(t, 25, 1)
			publish(t, a, run256(1, 1000, 1000)...)
			whole.until(t, 1000, 1)
		})
	}
}

func publish(t *testing.T, b *Bus, list ...seatflow.Message) {
	t.Helper()
	if err := b.Publish(t.Context(), list...); err != nil {
		t.Fatalf("publishing: %v", err)
	}
}

// listenerServer is a server in this process that listens, so that its store
// can be got at.
type listenerServer struct {
	dir, addr string
	options   server.Options
	s         *server.Server
}

func startListener(t *testing.T, with ...func(*server.Options)) *listenerServer {
	t.Helper()
	l := &listenerServer{dir: filepath.Join(t.TempDir(), "store")}
	l.options = server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: l.dir}
	for _, f := range with {
		f(&l.options)
	}
	l.start(t)
	t.Cleanup(l.stop)
	return l
}

func (l *listenerServer) start(t *testing.T) {
	t.Helper()
	o := l.options
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(hang) {
		t.Fatal("the server does not start")
	}
	l.s, l.addr = s, s.Addr().String()
	l.options.Port = s.Addr().(*net.TCPAddr).Port
}

func (l *listenerServer) stop()       { stop(l.s) }
func (l *listenerServer) url() string { return "nats://" + l.addr }

// What was trimmed while a subscriber was away is a gap.
func TestTrimmedWhileAway(t *testing.T) {
	s := startListener(t)
	p := testkit.StartProxy(t, s.addr)
	o := Options{URL: s.url(), MaxBytes: minMaxBytes, Patience: hang}
	a := open(t, o)
	o.URL = "nats://" + p.Addr()
	b := open(t, o)
	all, one, other := listenTo(t, b, "seatflow.seats.>", nil), listenTo(t, b, "seatflow.seats.p07.1", nil), listenTo(t, b, "seatflow.orders.>", nil)
	publish(t, a, run256(1, 1, 10)...)
	all.until(t, 10, 0)
	one.until(t, 10, 0)
	p.BlackHole()
	publish(t, a, run256(1, 11, 8000)...) // about three times what is kept
	p.Clear()
	all.until(t, 8000, 1)
	one.until(t, 8000, 1)
	// Away again, with nothing lost.
	p.Cut()
	publish(t, a, run256(1, 8001, 8010)...)
	all.until(t, 8010, 1)
	one.until(t, 8010, 1)
	if x, y, z := all.heardGaps(), one.heardGaps(), other.heardGaps(); x != 1 || y != 1 || z != 0 {
		t.Errorf("%d, %d and %d gaps, want one, one and none", x, y, z)
	}
}

// What was trimmed before a slow subscriber read it is a gap, too.
func TestTrimmedBeforeItWasRead(t *testing.T) {
	b := open(t, Options{Dir: t.TempDir(), MaxBytes: minMaxBytes})
	stall := make(chan struct{})
	slow, quick := listenTo(t, b, "seatflow.seats.>", stall), listenTo(t, b, "seatflow.seats.>", nil)
	for n := 1; n <= 8000; n += 100 {
		publish(t, b, run256(1, n, n+99)...)
		quick.until(t, n+99, 0)
	}
	close(stall)
	limit := time.After(hang)
	for slow.heardGaps() == 0 || slow.heardUpTo() < 8000 {
		select {
		case <-slow.heard:
		case <-limit:
			t.Fatalf("heard up to %d with %d gaps", slow.heardUpTo(), slow.heardGaps())
		}
	}
	if g := quick.heardGaps(); g > 0 {
		t.Errorf("a subscriber that kept up was told of %d gaps", g)
	}
}

// Faults of the network: answers come in time, nothing is stored twice, and
// all goes on by itself.
func TestNetwork(t *testing.T) {
	s := startListener(t)
	p := testkit.StartProxy(t, s.addr)
	near := open(t, Options{URL: s.url(), Patience: hang})
	far := open(t, Options{URL: "nats://" + p.Addr(), Patience: hang})
	heard, remote := listenTo(t, near, "seatflow.seats.>", nil), listenTo(t, far, "seatflow.seats.>", nil)
	next := 1
	say := func() {
		t.Helper()
		publish(t, far, run256(1, next, next+9)...)
		next += 10
		heard.until(t, next-1, 0)
		remote.until(t, next-1, 0)
	}
	say()
	for _, f := range []struct {
		name  string
		spoil func()
	}{
		{"black hole", p.BlackHole},
		{"lost replies", p.DropReplies},
		{"cut", func() { p.CutAfterBytes(0) }},
	} {
		f.spoil()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		began := time.Now()
		if err := far.Publish(ctx, run256(1, next, next+9)...); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: published: %v", f.name, err)
		}
		cancel()
		if took := time.Since(began); took > hang/2 {
			t.Fatalf("%s: a publication of 300 ms took %v", f.name, took)
		}
		// One that waits is there when the network is.
		waited := make(chan error, 1)
		go func() { waited <- far.Publish(t.Context(), run256(1, next, next+9)...) }()
		p.Clear()
		if err := <-waited; err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		next += 10
		heard.until(t, next-1, 0)
		remote.until(t, next-1, 0)
		say()
	}
	p.Latency(500 * time.Millisecond)
	say()
	p.Clear()
	say()
	if g := heard.heardGaps() + remote.heardGaps(); g > 0 {
		t.Errorf("%d gaps where nothing was missed", g)
	}
}

// A bus can be closed while its server is not to be reached.
func TestCloseWhileAway(t *testing.T) {
	s := startListener(t)
	p := testkit.StartProxy(t, s.addr)
	b := open(t, Options{URL: "nats://" + p.Addr(), Patience: hang})
	ended := make(chan error, 2)
	ready := make(chan struct{})
	go func() {
		ended <- b.Subscribe(t.Context(), "seatflow.seats.>", func() { close(ready) }, func([]seatflow.Message) {})
	}()
	<-ready
	p.BlackHole()
	go func() { ended <- b.Publish(t.Context(), numbered(1, 1)) }()
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	for _, c := range []chan error{closed, ended, ended} {
		select {
		case err := <-c:
			if c == ended && !errors.Is(err, ErrClosed) {
				t.Errorf("ends with %v", err)
			}
		case <-time.After(hang):
			t.Fatal("closing hangs")
		}
	}
}
