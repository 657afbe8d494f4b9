package testkit

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// Proxy stands between a client and a server and does to their connections
// what a network may. Faults hold for connections that are open and for new
// ones, replace each other and are taken back by Clear.
type Proxy struct {
	proxy *toxiproxy.Proxy
	gate  *gate
}

// StartProxy starts a proxy to host:port that ends with the test.
func StartProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p, err := launch(func() (*Proxy, error) { return newProxy(upstream) })
	must(t, err)
	t.Cleanup(func() {
		p.Clear()
		p.proxy.Stop()
		p.gate.forget()
	})
	return p
}

func newProxy(upstream string) (*Proxy, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	g := newGate()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, "testkit", hostPort(port), upstream)
	// The toxics are there before the first connection and stay: taking one
	// out of a chain waits for a client that reads, which a client that is
	// being tested may not do.
	for _, direction := range []string{"upstream", "downstream"} {
		toxic := `{"type":"` + gateToxic + `","name":"` + direction + `","stream":"` + direction +
			`","attributes":{"id":` + strconv.FormatInt(g.id, 10) + `,"replies":` + strconv.FormatBool(direction == "downstream") + `}}`
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			g.forget()
			return nil, err
		}
	}
	if err := p.Start(); err != nil {
		g.forget()
		if portTaken(err.Error()) {
			err = errPortTaken
		}
		return nil, err
	}
	return &Proxy{proxy: p, gate: g}, nil
}

// Addr is host:port where the proxy listens.
func (p *Proxy) Addr() string { return p.proxy.Listen }

// Latency holds every reply back for d.
func (p *Proxy) Latency(d time.Duration) { p.gate.set(fault{latency: d}) }

// BlackHole lets nothing through, either way. Connections stay open and new
// ones are accepted.
func (p *Proxy) BlackHole() { p.gate.set(fault{eatRequests: true, eatReplies: true}) }

// DropReplies lets requests reach the server and its replies nobody.
// Connections stay open.
func (p *Proxy) DropReplies() { p.gate.set(fault{eatReplies: true}) }

// CutAfterBytes closes each connection once it has brought n bytes of replies,
// counted from now or from its start; the bytes before come through.
func (p *Proxy) CutAfterBytes(n int) { p.gate.set(fault{cutAfter: true, bytes: n}) }

// Cut closes every connection that is open. New ones are not touched, and no
// other fault is left.
func (p *Proxy) Cut() { p.gate.set(fault{cut: true}) }

// Clear takes every fault back. A connection that lost bytes is closed: what
// would follow is not what the other side expects.
func (p *Proxy) Clear() { p.gate.set(fault{}) }

// fault is what a proxy does; the zero fault is nothing.
type fault struct {
	latency                 time.Duration
	eatRequests, eatReplies bool
	cut, cutAfter           bool
	bytes                   int
}

// gateToxic is the one toxic of our proxies.
const gateToxic = "seatflow_gate"

var (
	gates   sync.Map // id → *gate
	gateIDs atomic.Int64
)

func init() { toxics.Register(gateToxic, new(gatePipe)) }

// gate is the fault of one proxy at this time, and when it changes.
type gate struct {
	id int64

	mu      sync.Mutex
	now     fault
	changed chan struct{} // closed by the next change
	gone    chan struct{} // closed with the proxy
}

func newGate() *gate {
	g := &gate{id: gateIDs.Add(1), changed: make(chan struct{}), gone: make(chan struct{})}
	gates.Store(g.id, g)
	return g
}

func (g *gate) forget() {
	gates.Delete(g.id)
	close(g.gone)
}

func (g *gate) set(f fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = f
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *gate) state() (fault, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now, g.changed
}

// gatePipe carries one direction of the connections of a proxy. The library
// makes it from JSON, hence the number in place of the gate.
type gatePipe struct {
	ID      int64 `json:"id"`
	Replies bool  `json:"replies"`
}

// GetBufferSize lets bytes wait side by side, so that latency is not paid by
// each chunk after the other.
func (p *gatePipe) GetBufferSize() int { return 1024 }

// Pipe implements toxics.Toxic.
func (p *gatePipe) Pipe(stub *toxics.ToxicStub) {
	v, ok := gates.Load(p.ID)
	if !ok {
		end(stub)
		return
	}
	g := v.(*gate)
	now, changed := g.state()
	now.cut = false // that was for the connections before
	lost, passed := false, 0
	// next takes the fault that holds now, and reports whether the connection
	// survives it.
	next := func() bool {
		now, changed = g.state()
		passed = 0
		return !now.cut && (!lost || p.eats(now))
	}
	for {
		select {
		case <-stub.Interrupt:
			return
		case <-changed:
			if !next() {
				end(stub)
				return
			}
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			for p.Replies && time.Since(c.Timestamp) < now.latency {
				select {
				case <-time.After(now.latency - time.Since(c.Timestamp)):
				case <-changed:
					if !next() {
						end(stub)
						return
					}
				}
			}
			if p.eats(now) {
				lost = true
				continue
			}
			last := false
			if p.Replies && now.cutAfter {
				if left := max(now.bytes-passed, 0); len(c.Data) >= left {
					c = &stream.StreamChunk{Data: c.Data[:left], Timestamp: c.Timestamp}
					last = true
				}
			}
			for sent := len(c.Data) == 0; !sent; {
				select {
				case stub.Output <- c:
					sent = true
				case <-changed:
					if !next() {
						end(stub)
						return
					}
				case <-g.gone: // of a client that went, nobody takes it
					end(stub)
					return
				}
			}
			passed += len(c.Data)
			if last {
				end(stub)
				return
			}
		}
	}
}

func (p *gatePipe) eats(f fault) bool {
	if p.Replies {
		return f.eatReplies
	}
	return f.eatRequests
}

// end closes the connection and swallows what still comes, so that nobody
// waits for ever to hand it over.
func end(stub *toxics.ToxicStub) {
	stub.Close()
	for c := range stub.Input {
		if c == nil {
			return
		}
	}
}
