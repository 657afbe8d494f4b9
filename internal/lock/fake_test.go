package lock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4/redis"
)

// fakeServer is a Redis for one bubble: keys with an end, and the three
// scripts that a mutex sends, told apart by what they are given.
type fakeServer struct {
	mu      sync.Mutex
	keys    map[string]fakeKey
	down    bool          // answers nothing but an error
	deaf    bool          // answers never
	slow    time.Duration // before it does what it is asked
	touches []time.Time   // when each was asked to extend
	sets    int
}

type fakeKey struct {
	token string
	until time.Time
}

func (f *fakeServer) reach(context.Context) (redis.Pool, error) { return f, nil }
func (f *fakeServer) close()                                    {}

func (f *fakeServer) Get(ctx context.Context) (redis.Conn, error) {
	return &fakeConn{server: f, ctx: ctx}, nil
}

// edit changes the server from a test.
func (f *fakeServer) edit(change func(*fakeServer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// token returns who a key belongs to now; the mutex is held.
func (f *fakeServer) token(key string) string {
	if k := f.keys[key]; time.Now().Before(k.until) {
		return k.token
	}
	return ""
}

type fakeConn struct {
	redis.Conn
	server *fakeServer
	ctx    context.Context
}

func (c *fakeConn) Close() error { return nil }

// do has the server do something. A slow one does it later, even when its
// caller has left by then.
func (c *fakeConn) do(what func(f *fakeServer)) error {
	f := c.server
	f.mu.Lock()
	down, deaf, slow := f.down, f.deaf, f.slow
	f.mu.Unlock()
	switch {
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case down:
		return errors.New("connection refused")
	case deaf:
		<-c.ctx.Done()
		return c.ctx.Err()
	case slow == 0:
		f.edit(what)
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-time.After(slow)
		f.edit(what)
	}()
	select {
	case <-done:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

func (c *fakeConn) Get(name string) (token string, err error) {
	err = c.do(func(f *fakeServer) { token = f.token(name) })
	return token, err
}

func (c *fakeConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	var free bool
	err := c.do(func(f *fakeServer) {
		f.sets++
		if free = f.token(name) == ""; free {
			f.keys[name] = fakeKey{value, time.Now().Add(expiry)}
		}
	})
	return err == nil && free, err
}

func (c *fakeConn) Eval(_ *redis.Script, args ...any) (any, error) {
	name, value := args[0].(string), args[1].(string)
	var answer int64
	err := c.do(func(f *fakeServer) {
		token := f.token(name)
		switch {
		case len(args) == 3:
			f.touches = append(f.touches, time.Now())
			if token == value {
				f.keys[name] = fakeKey{value, time.Now().Add(time.Duration(args[2].(int)) * time.Millisecond)}
				answer = 1
			}
		case token == "":
			answer = -1
		case token == value:
			delete(f.keys, name)
			answer = 1
		}
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// fakes makes servers, and lockers on them that are closed with the test.
func fakes(t interface{ Cleanup(func()) }, servers, lockers int) ([]*fakeServer, []*Redlock) {
	t.Cleanup(func() { <-time.After(time.Hour) }) // slow servers end what they were asked
	list := make([]*fakeServer, servers)
	for i := range list {
		list[i] = &fakeServer{keys: map[string]fakeKey{}}
	}
	rs := make([]*Redlock, lockers)
	for i := range rs {
		voters := make([]*server, servers)
		for j, f := range list {
			voters[j] = &server{name: string(rune('a' + j)), link: f}
		}
		r := newRedlock(voters, nil)
		t.Cleanup(func() { _ = r.Close() })
		rs[i] = r
	}
	return list, rs
}

// mustTry takes a lease.
func mustTry(t *testing.T, r *Redlock, name string, lease time.Duration) *held {
	t.Helper()
	_, l, err := r.TryLock(t.Context(), name, lease)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*held)
}
