package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"seatflow"
	"seatflow/internal/admission"
	"seatflow/internal/booking"
	"seatflow/internal/guardian"
	"seatflow/internal/ledger"
	"seatflow/internal/memseats"
)

// product is SeatFlow's booking service as its server runs it, guardian
// included, without HTTP: rate windows on and set high, a purchase limit, an
// idempotency key with every request.
type product struct {
	service *booking.Service
	facts   seatflow.Ledger
	shows   []seatflow.ShowID // by show of the house
	houses  map[seatflow.ShowID]*seatflow.House
	keys    atomic.Int64

	stop       context.CancelFunc
	background sync.WaitGroup
	closers    []func() error // run backwards
}

// House implements booking.Houses.
func (p *product) House(_ context.Context, id seatflow.ShowID) (*seatflow.House, error) {
	if h := p.houses[id]; h != nil {
		return h, nil
	}
	return nil, seatflow.ErrNotFound
}

// interruptible is a ledger whose inserts are where a taker is interrupted:
// its seats are held by then.
type interruptible struct{ seatflow.Ledger }

// InsertOrder implements [seatflow.Ledger]. A death ends the goroutine, so
// that nothing of what follows a failed insert is done.
func (l interruptible) InsertOrder(ctx context.Context, n seatflow.NewOrder) (seatflow.Order, error) {
	if between(ctx) != nil {
		runtime.Goexit()
	}
	return l.Ledger.InsertOrder(ctx, n)
}

// openEmbedded opens SeatFlow on memory and SQLite.
func openEmbedded(ctx context.Context, b *bench, house House) (_ Strategy, err error) {
	p := newProduct()
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	dir, err := os.MkdirTemp("", "seatflow-embedded-")
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, func() error { return os.RemoveAll(dir) })
	facts, err := ledger.OpenSQLite(ctx, filepath.Join(dir, "facts.db"), ledger.Options{})
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, facts.Close)
	seats := memseats.New(memseats.Options{})
	p.closers = append(p.closers, func() error { seats.Close(); return nil })
	return p, p.open(ctx, b, house, seats, nil, facts)
}

func newProduct() *product {
	return &product{houses: map[seatflow.ShowID]*seatflow.House{}, stop: func() {}}
}

// open makes the halls and shows, builds their views and starts what runs
// beside the orders.
func (p *product) open(ctx context.Context, b *bench, house House, seats seatflow.SeatStore, windows seatflow.RateWindows, facts seatflow.Ledger) error {
	p.facts = facts
	p.service = booking.New(booking.Options{
		Seats: seats, Ledger: interruptible{facts}, Houses: p, Grace: b.lease / 2,
		Admission: admission.New(admission.Options{Windows: windows, OrdersPerMinute: rateHigh}), ShowRate: rateHigh,
	})
	if err := p.build(ctx, house, b.lease); err != nil {
		return fmt.Errorf("build the house: %w", err)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	watch := guardian.New(guardian.Options{Seats: seats, Booking: p.service, Interval: sweepEvery})
	p.background.Go(func() { _ = p.service.Run(background) })
	p.background.Go(func() { _ = watch.Run(background) })
	return nil
}

// build makes what the house describes. Holds last a quarter of an hour, in
// the shows of the probes as long as a lease.
func (p *product) build(ctx context.Context, house House, lease time.Duration) error {
	now := time.Now().UTC()
	halls := map[int]seatflow.HallID{}
	plans := map[int]*seatflow.Plan{}
	p.shows = make([]seatflow.ShowID, house.All()+1)
	for n := 1; n <= house.All(); n++ {
		number := house.Hall(n)
		hall := seatflow.Hall{ID: halls[number], Name: fmt.Sprint("Hall ", number), Zone: "UTC", CreatedAt: now}
		if hall.ID == 0 {
			made, err := p.facts.CreateHall(ctx, hall)
			if err != nil {
				return err
			}
			hall, halls[number] = made, made.ID
			plan := planOf(hall.ID, house.SeatsOf(n))
			if err := p.facts.PublishPlan(ctx, plan); err != nil {
				return err
			}
			plans[number] = plan
		}
		hold := seatflow.DefaultHoldFor
		if n > house.Shows() {
			hold = lease
		}
		show, err := p.facts.CreateShow(ctx, seatflow.Show{
			Hall: hall.ID, PlanVersion: 1, Title: fmt.Sprint("Show ", n), Starts: now.Add(24 * time.Hour), Ends: now.Add(26 * time.Hour),
			SaleFrom: now.Add(-time.Hour), SaleUntil: now.Add(24 * time.Hour), Currency: "EUR", Prices: map[string]int64{"A": 1500},
			LimitPerUser: 10_000, HoldFor: hold, HoldCap: max(hold, seatflow.DefaultHoldCap), ExtendBy: seatflow.DefaultExtendBy,
			Status: seatflow.ShowPublished, Partition: seatflow.Partition(number % seatflow.Partitions), CreatedAt: now,
		})
		if err != nil {
			return err
		}
		p.shows[n] = show.ID
		p.houses[show.ID] = seatflow.NewHouse(show, hall, plans[number])
		if err := p.service.EnsureView(ctx, show.ID); err != nil {
			return err
		}
	}
	return nil
}

func planOf(hall seatflow.HallID, seats int) *seatflow.Plan {
	plan := &seatflow.Plan{Hall: hall, Version: 1, Name: "Plan", Width: 100, Height: 100,
		Categories: []seatflow.Category{{Name: "A", Color: "#336699"}}, Zones: []seatflow.Zone{{Name: "Stalls"}}, Source: []byte("{}")}
	for i := range seats {
		plan.Seats = append(plan.Seats, seatflow.PlanSeat{ID: seatflow.SeatID(i + 1), GUID: strconv.Itoa(i + 1),
			Row: strconv.Itoa(i/50 + 1), Number: strconv.Itoa(i%50 + 1), X: float64(i % 50), Y: float64(i / 50)})
	}
	return plan
}

// Take implements [Strategy].
func (p *product) Take(ctx context.Context, r Request) (Result, error) {
	seats := make([]seatflow.SeatID, len(r.Seats))
	for i, seat := range r.Seats {
		seats[i] = seatflow.SeatID(seat)
	}
	ask := booking.CreateRequest{
		Actor: seatflow.Actor{User: seatflow.UserID(r.User), Role: seatflow.RoleBuyer, Device: seatflow.DeviceWeb},
		Show:  p.shows[r.Show], Seats: seats, Key: "k" + strconv.FormatInt(p.keys.Add(1), 36),
	}
	if !interrupted(ctx) {
		_, err := p.service.Create(ctx, ask)
		return resultOf(err)
	}
	// A taker that dies takes its goroutine with it.
	err := errDied
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, cerr := p.service.Create(ctx, ask)
		err = cerr
	}()
	<-done
	if errors.Is(err, errDied) {
		return 0, err
	}
	return resultOf(err)
}

func resultOf(err error) (Result, error) {
	if err == nil {
		return Bought, nil
	}
	switch seatflow.CodeOf(err) {
	case seatflow.CodeSeatsTaken:
		return Taken, nil
	case seatflow.CodeRateLimited, seatflow.CodeInFlight:
		return Busy, nil
	}
	return 0, err
}

// Sales implements [Strategy]. It also has the ledger audit itself.
func (p *product) Sales(ctx context.Context, each func(Sale)) error {
	audit, err := p.facts.Audit(ctx)
	if err != nil {
		return err
	}
	if faults := slices.Concat(audit.DoubleSeats, audit.OrphanSeats, audit.MissingSeats, audit.MissingIndexes, audit.IntegrityFaults); len(faults) > 0 {
		return fmt.Errorf("the ledger finds %d faults in itself, the first: %s", len(faults), faults[0])
	}
	for n := 1; n < len(p.shows); n++ {
		facts, err := p.facts.Facts(ctx, p.shows[n])
		if err != nil {
			return err
		}
		for i := range facts.Orders {
			s := Sale{User: string(facts.Orders[i].User), Show: n}
			for _, seat := range facts.Orders[i].Seats() {
				s.Seats = append(s.Seats, int(seat))
			}
			each(s)
		}
	}
	return nil
}

// Close implements [Strategy].
func (p *product) Close() error {
	p.stop()
	p.background.Wait()
	var errs []error
	for _, f := range slices.Backward(p.closers) {
		errs = append(errs, f())
	}
	p.closers = nil
	return errors.Join(errs...)
}
