package main

import (
	"context"
	"sync"
	"sync/atomic"
)

// saleLog keeps sales in memory, so that a seat sold twice is seen twice.
type saleLog struct {
	parts [64]struct {
		mu    sync.Mutex
		sales []Sale
		_     [32]byte // one part a cache line
	}
}

func (l *saleLog) add(r Request) {
	p := &l.parts[r.Seats[0]%len(l.parts)]
	p.mu.Lock()
	p.sales = append(p.sales, Sale(r))
	p.mu.Unlock()
}

func (l *saleLog) each(do func(Sale)) {
	for i := range l.parts {
		for _, s := range l.parts[i].sales {
			do(s)
		}
	}
}

// oneMutex guards the whole house by one lock.
type oneMutex struct {
	mu    sync.Mutex
	taken [][]bool // by show and seat
	sales []Sale
}

func openMutex(_ context.Context, _ *bench, house House) (Strategy, error) {
	s := &oneMutex{taken: make([][]bool, house.All()+1)}
	for show := 1; show <= house.All(); show++ {
		s.taken[show] = make([]bool, house.SeatsOf(show)+1)
	}
	return s, nil
}

// Take implements [Strategy].
func (s *oneMutex) Take(ctx context.Context, r Request) (Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seat := range r.Seats {
		if s.taken[r.Show][seat] {
			return Taken, nil
		}
	}
	if err := between(ctx); err != nil {
		return 0, err
	}
	for _, seat := range r.Seats {
		s.taken[r.Show][seat] = true
	}
	s.sales = append(s.sales, Sale(r))
	return Bought, nil
}

// Sales implements [Strategy].
func (s *oneMutex) Sales(_ context.Context, each func(Sale)) error {
	for _, sale := range s.sales {
		each(sale)
	}
	return nil
}

// Close implements [Strategy].
func (s *oneMutex) Close() error { return nil }

// compareAndSwap guards each seat by itself.
type compareAndSwap struct {
	taken [][]atomic.Bool
	log   saleLog
}

func openCompareAndSwap(_ context.Context, _ *bench, house House) (Strategy, error) {
	s := &compareAndSwap{taken: make([][]atomic.Bool, house.All()+1)}
	for show := 1; show <= house.All(); show++ {
		s.taken[show] = make([]atomic.Bool, house.SeatsOf(show)+1)
	}
	return s, nil
}

// Take implements [Strategy].
func (s *compareAndSwap) Take(ctx context.Context, r Request) (Result, error) {
	seats := s.taken[r.Show]
	for _, seat := range r.Seats {
		if seats[seat].Load() {
			return Taken, nil
		}
	}
	if err := between(ctx); err != nil {
		return 0, err
	}
	for i, seat := range r.Seats {
		if !seats[seat].CompareAndSwap(false, true) {
			for _, mine := range r.Seats[:i] {
				seats[mine].Store(false)
			}
			return Taken, nil
		}
	}
	s.log.add(r)
	return Bought, nil
}

// Sales implements [Strategy].
func (s *compareAndSwap) Sales(_ context.Context, each func(Sale)) error {
	s.log.each(each)
	return nil
}

// Close implements [Strategy].
func (s *compareAndSwap) Close() error { return nil }
