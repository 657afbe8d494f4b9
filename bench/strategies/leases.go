package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

// leaseWait is how long a taker waits for locks before it says Busy.
const leaseWait = time.Second

// locks gives leases on names.
type locks interface {
	// try takes a lease if it is free. drop frees it if it is still ours.
	try(ctx context.Context, name string, lease time.Duration) (drop func(context.Context) error, ok bool, err error)
	close()
}

// leased sells from tables behind leases on names.
type leased struct {
	*tables
	locks locks
	lease time.Duration
	names func(Request) []string
}

// Names of locks for a hall, a show and each seat.
func hallNames(house House) func(Request) []string {
	return func(r Request) []string { return []string{"lock:hall:" + strconv.Itoa(house.Hall(r.Show))} }
}

func showNames(House) func(Request) []string {
	return func(r Request) []string { return []string{"lock:show:" + strconv.Itoa(r.Show)} }
}

func seatNames(House) func(Request) []string {
	return func(r Request) []string {
		names := make([]string, len(r.Seats))
		for i, seat := range r.Seats {
			names[i] = "lock:seat:" + strconv.Itoa(r.Show) + ":" + strconv.Itoa(seat)
		}
		return names
	}
}

type opener func(context.Context, *bench, House) (Strategy, error)

// openSetNX opens a strategy with one Redis for its locks.
func openSetNX(names func(House) func(Request) []string) opener {
	return func(ctx context.Context, b *bench, house House) (Strategy, error) {
		addr, err := b.servers.redis(ctx)
		if err != nil {
			return nil, err
		}
		client, err := connect(addr)
		if err != nil {
			return nil, err
		}
		t, err := openTables(ctx, b, house)
		if err != nil {
			client.Close()
			return nil, err
		}
		return &leased{tables: t, locks: &setNX{redis: client, free: rueidis.NewLuaScript(freeLua)}, lease: b.lease, names: names(house)}, nil
	}
}

// openRedlock opens a strategy with locks on the majority of several servers.
func openRedlock(ctx context.Context, b *bench, house House) (Strategy, error) {
	addrs, err := b.servers.redlock(ctx, b.redlock)
	if err != nil {
		return nil, err
	}
	l := &majority{}
	pools := make([]redis.Pool, 0, len(addrs))
	for _, addr := range addrs {
		client, err := connect(addr)
		if err != nil {
			l.close()
			return nil, err
		}
		l.clients = append(l.clients, client)
		pools = append(pools, redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client)))
	}
	l.sync = redsync.New(pools...)
	t, err := openTables(ctx, b, house)
	if err != nil {
		l.close()
		return nil, err
	}
	return &leased{tables: t, locks: l, lease: b.lease, names: seatNames(house)}, nil
}

func connect(addr string) (rueidis.Client, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return nil, fmt.Errorf("connect to Redis: %w", err)
	}
	return c, nil
}

// Take implements [Strategy].
func (s *leased) Take(ctx context.Context, r Request) (Result, error) {
	drop, ok, err := s.all(ctx, s.names(r))
	if err != nil {
		return 0, err
	}
	if !ok {
		return Busy, nil
	}
	result, err := s.checkThenAct(ctx, r)
	if errors.Is(err, errDied) {
		return 0, err
	}
	return result, errors.Join(err, drop())
}

// all takes every name or none, and waits for them holding nothing.
func (s *leased) all(ctx context.Context, names []string) (drop func() error, ok bool, err error) {
	var held []func(context.Context) error
	drop = func() error {
		// Also when the caller has gone: others wait.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseWait)
		defer cancel()
		var errs []error
		for _, f := range slices.Backward(held) {
			errs = append(errs, f(ctx))
		}
		held = held[:0]
		return errors.Join(errs...)
	}
	until := time.Now().Add(leaseWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 16*time.Millisecond) {
		for _, name := range names {
			d, ok, err := s.locks.try(ctx, name, s.lease)
			if err != nil {
				return nil, false, errors.Join(err, drop())
			}
			if !ok {
				break
			}
			held = append(held, d)
		}
		if len(held) == len(names) {
			return drop, true, nil
		}
		if err := drop(); err != nil {
			return nil, false, err
		}
		// Not all at the same time again.
		wait := pause/2 + mrand.N(pause)
		if time.Now().Add(wait).After(until) {
			return nil, false, nil
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Close implements [Strategy].
func (s *leased) Close() error {
	s.locks.close()
	return s.tables.Close()
}

// setNX is the lock of one Redis: SET with NX and a lease, freed by token.
type setNX struct {
	redis rueidis.Client
	free  *rueidis.Lua
}

// freeLua deletes KEYS[1] if it holds the token ARGV[1].
const freeLua = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

func (l *setNX) try(ctx context.Context, name string, lease time.Duration) (func(context.Context) error, bool, error) {
	token := rand.Text()
	err := l.redis.Do(ctx, l.redis.B().Set().Key(name).Value(token).Nx().Px(lease).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("lock: %w", err)
	}
	return func(ctx context.Context) error {
		return l.free.Exec(ctx, l.redis, []string{name}, []string{token}).Error()
	}, true, nil
}

func (l *setNX) close() { l.redis.Close() }

// majority is Redlock.
type majority struct {
	clients []rueidis.Client
	sync    *redsync.Redsync
}

func (l *majority) try(ctx context.Context, name string, lease time.Duration) (func(context.Context) error, bool, error) {
	m := l.sync.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(1))
	if m.TryLockContext(ctx) != nil {
		// A server that does not answer in time refuses like any other: that
		// is what the majority is for.
		return nil, false, ctx.Err()
	}
	return func(ctx context.Context) error {
		// What a majority does not free now, or has forgotten, ends by itself.
		_, _ = m.UnlockContext(ctx)
		return nil
	}, true, nil
}

func (l *majority) close() {
	for _, c := range l.clients {
		c.Close()
	}
}
