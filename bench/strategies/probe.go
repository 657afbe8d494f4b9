package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// probed is what interrupted takers do to the others.
type probed struct {
	// Stuck is what could not be bought at once after a taker died in the
	// middle: "", "seat", "show", "hall" or "house".
	Stuck string `json:"stuck"`
	// Locks is how many of the four seats that were tried were stuck.
	Locks int `json:"locks"`
	// Freed is how long the dead taker's own seat was stuck; negative: until
	// the probe gave up.
	Freed time.Duration `json:"-"`
	// PauseOversold is how often a seat was sold beyond its first time when
	// its taker slept past its lease and woke up.
	PauseOversold int64 `json:"pauseOversold"`
}

// ask makes one attempt, and reports whether the seat was bought.
func ask(ctx context.Context, s Strategy, user string, show, seat int, patience time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result, err := s.Take(ctx, Request{User: user, Show: show, Seats: []int{seat}})
	if err != nil && ctx.Err() == nil {
		return false, err
	}
	return err == nil && result == Bought, nil
}

// await asks until the seat was bought or the time is over.
func await(ctx context.Context, s Strategy, user string, show, seat int, patience, most time.Duration) (bool, error) {
	start := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		bought, err := ask(ctx, s, user, show, seat, patience)
		if err != nil || bought || time.Since(start) > most {
			return bought, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-tick.C:
		}
	}
}

// probe lets a taker die between its check and its act, and another sleep
// there past its lease, on the shows that nobody else uses.
func probe(ctx context.Context, s Strategy, d Design, house House, lease time.Duration) (probed, error) {
	// Of a guard that ends by itself, its end is waited for.
	most := lease
	if d.Leases {
		most = 4 * lease
	}
	atOnce := lease / 4 // what takes longer is stuck
	var p probed
	if err := p.crash(ctx, s, house, atOnce, most); err != nil {
		return p, fmt.Errorf("probe a crash: %w", err)
	}
	if err := p.pause(ctx, s, house, lease, most); err != nil {
		return p, fmt.Errorf("probe a pause: %w", err)
	}
	return p, nil
}

func (p *probed) crash(ctx context.Context, s Strategy, house House, atOnce, most time.Duration) error {
	first := house.Shows() + 1
	dying := withBetween(ctx, func() error { return errDied })
	if _, err := s.Take(dying, Request{User: "user-dead", Show: first, Seats: []int{1}}); !errors.Is(err, errDied) {
		return fmt.Errorf("the taker did not die: %w", err)
	}
	died := time.Now()
	places := []struct {
		name       string
		show, seat int
	}{{"seat", first, 1}, {"show", first, 2}, {"hall", first + 1, 1}, {"house", first + 2, 1}}
	bought := make([]bool, len(places))
	errs := make([]error, len(places))
	done := make(chan int, len(places))
	for i, at := range places {
		go func() {
			bought[i], errs[i] = ask(ctx, s, "user-alive", at.show, at.seat, atOnce)
			done <- i
		}()
	}
	for range places {
		<-done
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, at := range places {
		if !bought[i] {
			p.Stuck = at.name // the widest
			p.Locks++
		}
	}
	if !bought[0] {
		freed, err := await(ctx, s, "user-alive", first, 1, atOnce, most)
		if err != nil {
			return err
		}
		if p.Freed = time.Since(died); !freed {
			p.Freed = -1
		}
	}
	return nil
}

func (p *probed) pause(ctx context.Context, s Strategy, house House, lease, most time.Duration) error {
	const seat = 10
	show := house.Shows() + 1
	asleep, wake := make(chan struct{}), make(chan struct{})
	first := true
	sleeping := withBetween(ctx, func() error {
		if first { // a second try finds itself awake
			first = false
			close(asleep)
			<-wake
		}
		return nil
	})
	ended := make(chan error, 1)
	go func() {
		result, err := s.Take(sleeping, Request{User: "user-asleep", Show: show, Seats: []int{seat}})
		if err == nil && result == 0 {
			err = errors.New("a strategy answered nothing")
		}
		ended <- err
	}()
	select {
	case <-asleep:
	case err := <-ended:
		return fmt.Errorf("the taker did not reach its act: %w", err)
	}
	// Until somebody else has the seat, or nobody will.
	_, err := await(ctx, s, "user-awake", show, seat, lease, most)
	close(wake)
	// The sleeper's own answer, an error too, is its affair: it woke late.
	<-ended
	if err != nil {
		return err
	}
	sold := int64(0)
	err = s.Sales(ctx, func(sale Sale) {
		if sale.Show == show && len(sale.Seats) == 1 && sale.Seats[0] == seat {
			sold++
		}
	})
	p.PauseOversold = max(0, sold-1)
	return err
}

// stuck is the table's word for what a crash does.
func (p *probed) stuck() string {
	if p.Stuck == "" {
		return "nothing"
	}
	what := map[string]string{"seat": "the seat", "show": "the show", "hall": "the hall", "house": "every seat"}[p.Stuck]
	if p.Freed < 0 {
		return what + ", to the end of the probe"
	}
	return fmt.Sprintf("%s for %.1f s", what, p.Freed.Seconds())
}
