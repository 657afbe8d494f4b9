package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"seatflow/bench/strategies/plain"
)

// plainDesign is package plain. Interrupted takers use a second Store on the
// same data whose holds are as short as a lease, so that the probes see what
// becomes of them.
type plainDesign struct {
	store, short *plain.Store
	stop         context.CancelFunc
	background   sync.WaitGroup
}

// sweepEvery is how often holds without an order are looked for.
const sweepEvery = 250 * time.Millisecond

// rateHigh is a rate window that is counted and never full.
const rateHigh = 1 << 30

func openPlain(ctx context.Context, b *bench, house House) (_ Strategy, err error) {
	s := &plainDesign{stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
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
	o := plain.Options{Redis: addr, MySQL: url, Conns: b.conns, Rate: rateHigh, Between: between}
	if s.store, err = plain.Open(ctx, o); err != nil {
		return nil, err
	}
	o.Conns, o.Hold = 4, b.lease
	if s.short, err = plain.Open(ctx, o); err != nil {
		return nil, err
	}
	for show := 1; show <= house.All(); show++ {
		if err := s.store.OpenShow(ctx, int64(show), house.SeatsOf(show)); err != nil {
			return nil, err
		}
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.background.Go(func() { s.sweep(background) })
	return s, nil
}

func (s *plainDesign) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_, _ = s.short.Sweep(ctx, time.Now(), 1000) // what fails is due again
		}
	}
}

// Take implements [Strategy].
func (s *plainDesign) Take(ctx context.Context, r Request) (Result, error) {
	store := s.store
	if interrupted(ctx) {
		store = s.short
	}
	_, err := store.Order(ctx, plain.Request{User: r.User, Show: int64(r.Show), Seats: r.Seats})
	var taken *plain.TakenError
	switch {
	case err == nil:
		return Bought, nil
	case errors.As(err, &taken):
		return Taken, nil
	case errors.Is(err, plain.ErrRate), plain.Again(err):
		return Busy, nil
	}
	return 0, err
}

// Sales implements [Strategy].
func (s *plainDesign) Sales(ctx context.Context, each func(Sale)) error {
	return s.store.Orders(ctx, func(o plain.Order) error {
		each(Sale{User: o.User, Show: int(o.Show), Seats: o.Seats})
		return nil
	})
}

// Deadlocks is how many transactions the server ended to break a deadlock.
func (s *plainDesign) Deadlocks() int64 { return s.store.Deadlocks() + s.short.Deadlocks() }

// Close implements [Strategy].
func (s *plainDesign) Close() error {
	s.stop()
	s.background.Wait()
	var errs []error
	for _, store := range []*plain.Store{s.store, s.short} {
		if store != nil {
			errs = append(errs, store.Close())
		}
	}
	return errors.Join(errs...)
}
