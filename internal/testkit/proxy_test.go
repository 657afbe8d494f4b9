package testkit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// conversation is a connection to a Redis through a proxy.
type conversation struct {
	net.Conn
	r *bufio.Reader
}

func converse(t *testing.T, p *Proxy) *conversation {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.SetDeadline(time.Now().Add(patience)))
	return &conversation{c, bufio.NewReader(c)}
}

func (c *conversation) say(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(c, line+"\r\n")
	must(t, err)
}

// hears wants the next reply, or an error for "".
func (c *conversation) hears(t *testing.T, want string) {
	t.Helper()
	got, err := c.r.ReadString('\n')
	if got = strings.TrimSpace(got); got != want || (err != nil) != (want == "") || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

// hearsNothing wants silence on an open connection. That nothing comes cannot
// be waited for; a while of it has to do.
func (c *conversation) hearsNothing(t *testing.T) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if got, err := c.r.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q, %v; want nothing", got, err)
	}
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
}

func TestProxy(t *testing.T) {
	r := SharedRedis(t)
	p := StartProxy(t, r.Addr())
	reaches := func(t *testing.T, key, want string) {
		t.Helper()
		must(t, await("the server to hold "+key, func() error {
			if v, err := redisText(r.Addr(), "GET", key); err != nil || v != want {
				return errors.New("it does not")
			}
			return nil
		}))
	}
	works := func(t *testing.T) {
		t.Helper()
		c := converse(t, p)
		c.say(t, "PING")
		c.hears(t, "+PONG")
	}

	t.Run("nothing", works)
	t.Run("dropped replies", func(t *testing.T) {
		open := converse(t, p)
		open.say(t, "PING")
		open.hears(t, "+PONG")
		p.DropReplies()
		open.say(t, "SET dropped 1")
		reaches(t, "dropped", "1")
		open.hearsNothing(t)
		fresh := converse(t, p)
		fresh.say(t, "SET dropped 2")
		reaches(t, "dropped", "2")
		fresh.hearsNothing(t)
		p.Clear()
		open.hears(t, "")
		fresh.hears(t, "")
		works(t)
	})
	t.Run("black hole", func(t *testing.T) {
		open, idle := converse(t, p), converse(t, p)
		for _, c := range []*conversation{open, idle} {
			c.say(t, "PING")
			c.hears(t, "+PONG")
		}
		p.BlackHole()
		open.say(t, "SET hole 1")
		open.hearsNothing(t)
		fresh := converse(t, p)
		fresh.say(t, "SET hole 2")
		fresh.hearsNothing(t)
		if got, err := redisDo(r.Addr(), "GET", "hole"); got != nil || err != nil {
			t.Errorf("through a black hole came %v, %v", got, err)
		}
		p.Clear()
		open.hears(t, "")
		fresh.hears(t, "")
		idle.say(t, "PING") // it lost nothing
		idle.hears(t, "+PONG")
		works(t)
	})
	t.Run("cut", func(t *testing.T) {
		open := converse(t, p)
		open.say(t, "PING")
		open.hears(t, "+PONG")
		p.Cut()
		open.hears(t, "")
		works(t)
		works(t)
	})
	t.Run("cut after bytes", func(t *testing.T) {
		open := converse(t, p)
		open.say(t, "PING")
		open.hears(t, "+PONG")
		p.CutAfterBytes(len("+PONG\r\n") + len("+OK\r\n") - 1)
		for _, c := range []*conversation{open, converse(t, p)} {
			c.say(t, "PING")
			c.hears(t, "+PONG")
			c.say(t, "SET cut 1")
			if got, err := io.ReadAll(c.r); string(got) != "+OK\r" || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("before the cut came %q, %v", got, err)
			}
		}
		reaches(t, "cut", "1")
		p.Clear()
		works(t)
	})
	t.Run("latency", func(t *testing.T) {
		const d = 50 * time.Millisecond
		open := converse(t, p)
		p.Latency(d)
		at := time.Now()
		open.say(t, "SET late 1")
		reaches(t, "late", "1")
		open.hears(t, "+OK")
		if took := time.Since(at); took < d {
			t.Errorf("a reply came after %v, below the latency of %v", took, d)
		}
		p.Latency(time.Hour)
		open.say(t, "PING")
		open.hearsNothing(t)
		p.Clear()
		open.hears(t, "+PONG") // late bytes are not lost ones
	})
	t.Run("a client that does not read", func(t *testing.T) {
		deaf := converse(t, p)
		big := strings.Repeat("x", 1<<20)
		if _, err := redisDo(r.Addr(), "SET", "big", big); err != nil {
			t.Fatal(err)
		}
		for range 64 {
			deaf.say(t, "GET big")
		}
		p.DropReplies()
		p.Clear()
		works(t)
	})
	t.Run("a server that went and came", func(t *testing.T) {
		r.Kill()
		converse(t, p).hears(t, "")
		must(t, r.revive())
		works(t)
	})
}
