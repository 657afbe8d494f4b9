package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seatflow"
)

// plainBus keeps everything in memory, in the plainest way. Its flaws make it
// wrong.
type plainBus struct {
	flaw string

	mu      sync.Mutex
	streams map[string]*plainStream
	made    int
	down    bool
	dead    bool // for ever, by a flaw
	changed chan struct{}
}

type plainStream struct {
	name string
	log  []seatflow.Message
	ids  map[string]bool
}

// plainNode is one node's view of a plain bus.
type plainNode struct {
	*plainBus
	closing chan struct{}
	once    *sync.Once
	again   *bool
}

const plainMax = 1 << 20

var errPlain = errors.New("no")

func newPlainBuses(flaw string) BusFactory {
	return func(t TB) Buses {
		b := &plainBus{flaw: flaw, streams: map[string]*plainStream{}, changed: make(chan struct{})}
		nodes := []seatflow.Bus{b.node(), b.node()}
		t.Cleanup(func() { // ends what a flaw keeps going
			for _, n := range nodes {
				n := n.(plainNode)
				n.once.Do(func() { close(n.closing) })
			}
		})
		set := func(f func()) func() {
			return func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				f()
				b.wake()
			}
		}
		patience := 10 * time.Second
		if flaw != "" {
			patience = 600 * time.Millisecond
		}
		return Buses{
			Nodes: nodes,
			Drop: func(subject string) {
				set(func() {
					if flaw != "keeps what was deleted" {
						delete(b.streams, plainName(subject))
					}
				})()
			},
			Down: set(func() { b.down = true; b.dead = flaw == "never comes back" }),
			Up:   set(func() { b.down = false }),
			Empty: set(func() {
				b.down = false
				if flaw == "hides that it was emptied" {
					for _, s := range b.streams {
						s.log, s.ids = s.log[:0], map[string]bool{}
					}
					return
				}
				clear(b.streams)
			}),
			MaxPayload: plainMax,
			Patience:   patience,
		}
	}
}

func (b *plainBus) node() seatflow.Bus {
	return plainNode{b, make(chan struct{}), new(sync.Once), new(bool)}
}

// wake tells everybody that something has changed. The lock is held.
func (b *plainBus) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func plainName(subject string) string {
	tokens := strings.Split(subject, ".")
	if len(tokens) < 3 || tokens[0] != "seatflow" || tokens[1] != "seats" && tokens[1] != "orders" {
		return ""
	}
	return tokens[1]
}

// stream finds a stream, or makes it. The lock is held.
func (b *plainBus) stream(name string) *plainStream {
	s, ok := b.streams[name]
	if !ok {
		b.made++
		s = &plainStream{name: fmt.Sprintf("%s@%d", name, b.made), ids: map[string]bool{}}
		if b.flaw == "one name for every stream's life" {
			s.name = name
		}
		b.streams[name] = s
		b.wake()
	}
	return s
}

func plainSubject(subject string, wildcards bool) bool {
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		wild := token == "*" || token == ">" && i == len(tokens)-1
		if token == "" || wild && !wildcards || !wild && strings.ContainsAny(token, "*> \r\n") {
			return false
		}
	}
	return plainName(subject) != ""
}

func (b *plainBus) matches(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		switch {
		case token == ">":
			return len(s) > i || b.flaw == "> matches nothing too" && len(s) == i
		case i >= len(s), token != "*" && token != s[i]:
			return false
		case token == "*" && i == len(f)-1 && b.flaw == "* matches the rest":
			return true
		}
	}
	return len(f) == len(s)
}

// await waits until the bus is there. The lock is held, before and after.
func (n plainNode) await(ctx context.Context) error {
	for {
		select {
		case <-n.closing:
			if n.flaw != "works after closing" {
				return errPlain
			}
		default:
		}
		if err := ctx.Err(); err != nil && n.flaw != "ignores contexts" {
			return err
		}
		if !n.dead && (!n.down || n.flaw == "says yes while away") {
			return nil
		}
		changed := n.changed
		n.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-n.closing:
		}
		n.mu.Lock()
		if ctx.Err() != nil && n.flaw == "ignores contexts" {
			return ctx.Err()
		}
	}
}

func (n plainNode) Publish(ctx context.Context, messages ...seatflow.Message) error {
	for i, m := range messages {
		size := len(m.Payload)
		ok := plainSubject(m.Subject, false) && !strings.ContainsAny(m.ID, "\r\n")
		for k, v := range m.Header {
			size += len(k) + len(v)
			ok = ok && k != "" && !strings.ContainsAny(k, ": \r\n") && !strings.ContainsAny(v, "\r\n")
		}
		if size > plainMax && n.flaw != "takes any size" || !ok && (n.flaw != "takes any message" || plainName(m.Subject) == "") {
			if n.flaw == "stores what came before" && i > 0 {
				_ = n.Publish(ctx, messages[:i]...)
			}
			return errPlain
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.await(ctx); err != nil {
		return err
	}
	if n.flaw == "does not make a stream again" && n.made >= 2 && len(messages) > 0 && n.streams[plainName(messages[0].Subject)] == nil {
		return errPlain
	}
	if n.flaw == "reverses a run" {
		messages = slices.Clone(messages)
		slices.Reverse(messages)
	}
	for i, m := range messages {
		s := n.stream(plainName(m.Subject))
		if n.flaw == "loses the end of a long run" && i >= 1024 || n.flaw == "says yes while away" && n.down {
			break
		}
		id := m.ID
		switch n.flaw {
		case "counts ids by subject":
			id = m.Subject + " " + id
		case "knows no ids":
			id = ""
		case "takes no id for an id":
			id += "."
		case "one list of ids for all":
			s = n.stream("seats")
			if id != "" && s.ids[id] {
				continue
			}
			s.ids[id] = true
			s = n.stream(plainName(m.Subject))
			id = ""
		}
		if id != "" && s.ids[id] {
			continue
		}
		s.ids[id] = true
		m.Stream, m.Sequence = s.name, uint64(len(s.log)+1)
		m.Header = maps.Clone(m.Header)
		switch n.flaw {
		case "loses headers":
			m.Header = nil
		case "folds the case of headers":
			h := map[string]string{}
			for k, v := range m.Header {
				h[strings.ToLower(k)] = v
			}
			m.Header = h
		case "loses ids":
			m.ID = ""
		case "cuts payloads":
			m.Payload = m.Payload[:min(len(m.Payload), 100_000)]
		case "gives no numbers":
			m.Sequence = 0
		case "gives one number a call":
			m.Sequence -= uint64(i)
		}
		s.log = append(s.log, m)
	}
	n.wake()
	return nil
}

func (n plainNode) Subscribe(ctx context.Context, subject string, ready func(), deliver func([]seatflow.Message)) error {
	if !plainSubject(subject, true) && (n.flaw != "subscribes to anything" || plainName(subject) == "") {
		return errPlain
	}
	if ready == nil {
		ready = func() {}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.flaw == "ready while away" {
		ready()
	}
	if err := n.await(ctx); err != nil {
		return n.ended(ctx)
	}
	if n.flaw == "ready too soon" {
		n.mu.Unlock()
		ready()
		<-time.After(2 * time.Millisecond)
		n.mu.Lock()
	}
	s := n.stream(plainName(subject))
	next := len(s.log)
	if n.flaw == "begins at the beginning" {
		next = 0
	}
	say := func(run []seatflow.Message) {
		if n.flaw == "delivers under its lock" {
			deliver(run)
			return
		}
		n.mu.Unlock()
		deliver(run)
		n.mu.Lock()
	}
	n.mu.Unlock()
	switch n.flaw {
	case "never ready":
	case "ready twice":
		ready()
		ready()
	case "ready too soon", "ready while away":
	default:
		ready()
	}
	n.mu.Lock()
	for {
		if err := n.await(ctx); err != nil {
			return n.ended(ctx)
		}
		if n.flaw == "makes nothing while quiet" && n.streams[plainName(subject)] == nil {
			// waits for a publisher to do so
		} else if now := n.stream(plainName(subject)); now != s || next > len(s.log) {
			s, next = now, min(next, len(s.log))
			if now != s || n.flaw != "hides that it was emptied" {
				next = 0
			}
			if n.flaw != "announces no gap" && n.flaw != "hides that it was emptied" {
				say([]seatflow.Message{{Stream: s.name, Gap: true}})
				continue
			}
		}
		var run []seatflow.Message
		for ; next < len(s.log); next++ {
			if m := s.log[next]; n.matches(subject, m.Subject) {
				run = append(run, m)
			}
		}
		switch {
		case n.flaw == "delivers a run of nothing" || len(run) > 0:
			switch {
			case n.flaw == "delivers twice" && len(run) > 0:
				run = append(run, run[len(run)-1])
			case n.flaw == "drops from long runs" && len(run) > 600:
				run = run[:600]
			case n.flaw == "calls everything a gap" && len(run) > 0:
				run[0].Gap = true
			}
			say(run)
			if len(run) > 0 {
				continue
			}
		}
		changed := n.changed
		n.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-n.closing:
		}
		n.mu.Lock()
		if n.flaw == "goes on for ever" {
			ctx = context.WithoutCancel(ctx)
		}
	}
}

func (n plainNode) ended(ctx context.Context) error {
	if ctx.Err() != nil && n.flaw != "returns the context's error" {
		return nil
	}
	return errPlain
}

func (n plainNode) Last(ctx context.Context, subject string) (seatflow.Message, error) {
	if !plainSubject(subject, true) && n.flaw != "subscribes to anything" {
		return seatflow.Message{}, errPlain
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.await(ctx); err != nil {
		return seatflow.Message{}, err
	}
	s := n.stream(plainName(subject))
	order := slices.Backward(s.log)
	if n.flaw == "the first is the last" {
		order = slices.All(s.log)
	}
	for _, m := range order {
		if n.matches(subject, m.Subject) && (n.flaw != "last knows no wildcards" || m.Subject == subject) || n.flaw == "last of anything" {
			return m, nil
		}
	}
	if n.flaw == "nothing is a message" {
		return seatflow.Message{}, nil
	}
	return seatflow.Message{}, fmt.Errorf("plain: %w", seatflow.ErrNotFound)
}

func (n plainNode) Healthy(ctx context.Context) error {
	if n.flaw == "always healthy" {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.await(ctx)
}

func (n plainNode) Close() error {
	if n.flaw == "never closes" {
		select {}
	}
	var err error
	if n.flaw == "closes once" && *n.again {
		err = errPlain
	}
	*n.again = true
	n.once.Do(func() { close(n.closing) })
	return err
}

// A plain bus is a bus too; what it does must be what the suite says.
func TestPlainBus(t *testing.T) { Bus(t, newPlainBuses("")) }

func TestBrokenBuses(t *testing.T) {
	flaws := []string{
		"reverses a run", "loses the end of a long run", "counts ids by subject", "knows no ids", "takes no id for an id",
		"one list of ids for all", "loses headers", "folds the case of headers", "loses ids", "cuts payloads",
		"gives no numbers", "gives one number a call", "takes any size", "takes any message", "stores what came before",
		"> matches nothing too", "* matches the rest", "subscribes to anything",
		"begins at the beginning", "ready too soon", "never ready", "ready twice", "ready while away",
		"delivers under its lock", "delivers twice", "delivers a run of nothing", "drops from long runs", "calls everything a gap",
		"goes on for ever", "returns the context's error", "ignores contexts",
		"the first is the last", "last knows no wildcards", "last of anything", "nothing is a message",
		"keeps what was deleted", "does not make a stream again", "makes nothing while quiet", "one name for every stream's life", "announces no gap",
		"hides that it was emptied", "says yes while away", "always healthy", "never comes back",
		"closes once", "works after closing",
	}
	for _, flaw := range flaws {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			for _, c := range busCases() {
				if complaints := observe(t.Context(), func(t TB) { c.check(t, newPlainBuses(flaw)) }); len(complaints) > 0 {
					t.Logf("%s: %s", c.name, complaints[0])
					return
				}
			}
			t.Error("nothing was noticed")
		})
	}
}
