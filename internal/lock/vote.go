package lock

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/go-redsync/redsync/v4/redis"
)

type redsyncPool = redis.Pool

// vote is one server's part in one lease. It is the pool that redsync gets, so
// that what each server answered is known, and not only how many agreed. At
// any time one goroutine uses it.
type vote struct {
	server *server
	skip   bool // not asked: the server is set aside

	granted bool  // by the last SetNX
	err     error // of the last SetNX
	status  int64 // what the last script returned
	evalErr error // of the last script
}

// Get implements redis.Pool.
func (v *vote) Get(ctx context.Context) (redis.Conn, error) {
	return &ballot{vote: v, ctx: ctx}, nil
}

// conn reaches the server, or not when it is set aside.
func (v *vote) conn(ctx context.Context) (redis.Conn, error) {
	if v.skip {
		return nil, errAside
	}
	pool, err := v.server.link.reach(ctx)
	if err != nil {
		return nil, v.note(err)
	}
	return pool.Get(ctx)
}

// note sets a server aside that let an answer time out.
func (v *vote) note(err error) error {
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		v.server.setAside()
	}
	return err
}

// ballot is a vote's connection for one question. Of redis.Conn only what a
// mutex uses does something.
type ballot struct {
	redis.Conn // nil; any other method is a mistake
	vote       *vote
	ctx        context.Context
}

// SetNX implements redis.Conn.
func (b *ballot) SetNX(name, value string, expiry time.Duration) (bool, error) {
	v := b.vote
	v.granted = false
	var c redis.Conn
	if c, v.err = v.conn(b.ctx); v.err == nil {
		v.granted, v.err = c.SetNX(name, value, expiry)
		v.err = v.note(v.err)
	}
	return v.granted, v.err
}

// Eval implements redis.Conn.
func (b *ballot) Eval(script *redis.Script, keysAndArgs ...any) (any, error) {
	v := b.vote
	v.status = 0
	c, err := v.conn(b.ctx)
	if err != nil {
		v.evalErr = err
		return nil, err
	}
	answer, err := c.Eval(script, keysAndArgs...)
	v.evalErr = v.note(err)
	if n, ok := answer.(int64); ok {
		v.status = n
	}
	return answer, err
}

// Close implements redis.Conn.
func (b *ballot) Close() error { return nil }
