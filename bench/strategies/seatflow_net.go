package main

import (
	"context"
	"errors"

	"seatflow/internal/ledger"
	"seatflow/internal/redisseats"
)

// openDistributed opens SeatFlow on Redis and MariaDB, one node of it.
func openDistributed(ctx context.Context, b *bench, house House) (_ Strategy, err error) {
	p := newProduct()
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	addr, err := b.servers.redis(ctx)
	if err != nil {
		return nil, err
	}
	url, err := b.servers.mysql(ctx)
	if err != nil {
		return nil, err
	}
	facts, err := ledger.OpenMySQL(ctx, url, ledger.Options{})
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, facts.Close)
	seats, err := redisseats.Open(ctx, redisseats.Options{URL: "redis://" + addr})
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, func() error { seats.Close(); return nil })
	return p, p.open(ctx, b, house, seats, seats, facts)
}
