package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"seatflow"
)

var ledgerRaceCases = []ledgerCase{
	{"race/one seat each", ledgerDistinctSeats},
	{"race/ten for each seat", ledgerSharedSeats},
	{"race/groups", ledgerGroups},
	{"race/one key", ledgerOneKey},
	{"race/one number", ledgerOneNumber},
	{"race/void and insert", ledgerVoidRace},
	{"race/stale among current", ledgerStaleRace},
	{"race/cancel, expire, pay", ledgerEndings},
	{"race/cancel and sell again", ledgerReuse},
}

// outcomes counts what the callers of a race were told.
type outcomes struct {
	ok, conflict, exists, stale, other int
	first                              error // of the others
}

func count(errs []error) (o outcomes) {
	for _, err := range errs {
		var (
			conflict *seatflow.SeatConflictError
			exists   *seatflow.OrderExistsError
		)
		switch {
		case err == nil:
			o.ok++
		case errors.As(err, &conflict):
			o.conflict++
		case errors.As(err, &exists):
			o.exists++
		case errors.Is(err, seatflow.ErrStaleGeneration):
			o.stale++
		default:
			o.other++
			o.first = err
		}
	}
	return o
}

func ledgerDistinctSeats(t *ledgerTest) {
	show := t.show(500)
	got := count(parallel(500, func(i int) error {
		_, err := t.l.InsertOrder(t.Context(), t.sale(show, user(i), "k", seatflow.SeatID(500-i)))
		return err
	}))
	t.same("outcomes", got, outcomes{ok: 500})
	if n := len(t.occupancy(show.ID)); n != 500 {
		t.Errorf("%d seats are taken", n)
	}
	out, err := t.l.Outbox(t.Context(), 1000)
	if err != nil || len(out) != 500 {
		t.Errorf("%d events in the outbox, %v", len(out), err)
	}
}

func ledgerSharedSeats(t *ledgerTest) {
	show := t.show(100)
	orders := make([]seatflow.Order, 1000)
	got := count(parallel(1000, func(i int) (err error) {
		seat := seatflow.SeatID(i%100 + 1)
		orders[i], err = t.l.InsertOrder(t.Context(), t.sale(show, user(i), "k", seat))
		var conflict *seatflow.SeatConflictError
		if errors.As(err, &conflict) && !slices.Equal(conflict.Seats, seats(seat)) {
			return fmt.Errorf("a conflict about %v, asked for %d", conflict.Seats, seat)
		}
		return err
	}))
	t.same("outcomes", got, outcomes{ok: 100, conflict: 900})
	f, err := t.l.Facts(t.Context(), show.ID)
	if err != nil || len(f.Orders) != 100 || len(t.occupancy(show.ID)) != 100 {
		t.Errorf("%d orders of 100, %v", len(f.Orders), err)
	}
	for _, o := range orders {
		if o.No != "" {
			t.same("what a winner was told", o, t.order(o.No))
		}
	}
	if a := t.audit(); a.Orders[seatflow.OrderPending] != 100 || a.ActiveSeats != 100 {
		t.Errorf("audit: %+v", a)
	}
}

func ledgerGroups(t *ledgerTest) {
	show := t.show(60)
	rng := rand.New(rand.NewPCG(1, 2))
	asks := make([][]seatflow.SeatID, 400)
	for i := range asks {
		for _, s := range rng.Perm(60)[:1+rng.IntN(6)] {
			asks[i] = append(asks[i], seatflow.SeatID(s+1))
		}
	}
	won := make([]bool, len(asks))
	got := count(parallel(len(asks), func(i int) error {
		_, err := t.l.InsertOrder(t.Context(), t.sale(show, user(i), "k", asks[i]...))
		won[i] = err == nil
		return err
	}))
	if got.ok+got.conflict != len(asks) || got.ok == 0 {
		t.Errorf("outcomes: %+v", got)
	}
	// All or nothing: exactly the seats of the winners are taken, each once.
	sum := 0
	taken := t.occupancy(show.ID)
	for i := range asks {
		if won[i] {
			sum += len(asks[i])
			for _, s := range asks[i] {
				if taken[s].IsZero() {
					t.Errorf("order %d won without seat %d", i, s)
				}
			}
		}
	}
	if sum != len(taken) {
		t.Errorf("%d seats of winners, %d taken", sum, len(taken))
	}
}

func ledgerOneKey(t *ledgerTest) {
	show := t.show(100)
	nos := make([]seatflow.OrderNo, 100)
	errs := parallel(100, func(i int) error {
		n := t.sale(show, buyer.User, "one key", seatflow.SeatID(i+1))
		o, err := t.l.InsertOrder(t.Context(), n)
		nos[i] = o.No
		var exists *seatflow.OrderExistsError
		if errors.As(err, &exists) {
			nos[i] = exists.Order.No
		}
		return err
	})
	t.same("outcomes", count(errs), outcomes{ok: 1, exists: 99})
	for _, no := range nos {
		if no != nos[0] {
			t.Errorf("two orders of one key: %s and %s", no, nos[0])
		}
	}
	if n := len(t.occupancy(show.ID)); n != 1 {
		t.Errorf("%d seats for one key", n)
	}
	// The same key of others is theirs.
	errs = parallel(50, func(i int) error {
		_, err := t.l.InsertOrder(t.Context(), t.sale(show, user(i), "one key", seatflow.SeatID(i+40)))
		return err
	})
	if got := count(errs); got.exists != 0 || got.ok+got.conflict != 50 || got.conflict > 1 {
		t.Errorf("others with the same key: %+v", got)
	}
}

func ledgerOneNumber(t *ledgerTest) {
	show := t.show(100)
	no := t.newNo()
	errs := parallel(100, func(i int) error {
		n := t.sale(show, user(i), "k", seatflow.SeatID(i+1))
		n.Order.No = no
		_, err := t.l.InsertOrder(t.Context(), n)
		return err
	})
	t.same("outcomes", count(errs), outcomes{ok: 1, exists: 99})
	t.told(no, "order.created:>pending")
	if n := len(t.occupancy(show.ID)); n != 1 {
		t.Errorf("%d seats for one number", n)
	}
}

// ledgerVoidRace: absence is a fact or it is not; never both.
func ledgerVoidRace(t *ledgerTest) {
	show := t.show(100)
	for i := range 50 {
		n := t.sale(show, user(i), "k", seatflow.SeatID(i+1))
		var stands seatflow.Order
		errs := parallel(2, func(i int) (err error) {
			if i == 0 {
				_, err = t.l.InsertOrder(t.Context(), n)
				return err
			}
			stands, err = t.l.VoidOrder(t.Context(), n.Order.No, show.ID, staff)
			return err
		})
		t.wantErr("void", errs[1], nil)
		var exists *seatflow.OrderExistsError
		switch {
		case errs[0] == nil && stands.State == seatflow.OrderPending:
		case errors.As(errs[0], &exists) && stands.State == seatflow.OrderVoid:
		default:
			t.Errorf("insert: %v; void: %s", errs[0], stands.State)
		}
		t.same("what stands", t.order(n.Order.No), stands)
	}
}

func ledgerStaleRace(t *ledgerTest) {
	show, other := t.show(200), t.show(200)
	if _, err := t.l.RaiseGeneration(t.Context(), show.ID, show.Generation); err != nil {
		t.Fatalf("raise: %v", err)
	}
	current := show
	current.Generation++
	got := count(parallel(300, func(i int) error {
		s := [...]seatflow.Show{show, current, other}[i%3]
		_, err := t.l.InsertOrder(t.Context(), t.sale(s, user(i), "k", seatflow.SeatID(i/3+1)))
		return err
	}))
	t.same("outcomes", got, outcomes{ok: 200, stale: 100})
	// While the generation is raised again and again, an insert is either
	// before (and in the facts) or after (and refused).
	row := current
	for i := range 20 {
		n := t.sale(row, user(i), "k2", seatflow.SeatID(i+150))
		var facts seatflow.Facts
		errs := parallel(2, func(who int) (err error) {
			if who == 0 {
				_, err = t.l.InsertOrder(t.Context(), n)
				return err
			}
			if _, err = t.l.RaiseGeneration(t.Context(), row.ID, row.Generation); err == nil {
				facts, err = t.l.Facts(t.Context(), row.ID)
			}
			return err
		})
		t.wantErr("raise", errs[1], nil)
		there := slices.ContainsFunc(facts.Orders, func(o seatflow.Order) bool { return o.No == n.Order.No })
		if there != (errs[0] == nil) || errs[0] != nil && !errors.Is(errs[0], seatflow.ErrStaleGeneration) {
			t.Errorf("insert: %v, in the facts after the raise: %v", errs[0], there)
		}
		row = facts.Show
	}
}

// ledgerEndings: of a cancel, an expiry and a capture exactly one moves the
// pending order; money never gets lost on the way.
func ledgerEndings(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(200)
	for i := range 60 {
		o := t.insert(t.sale(show, user(i), "k", seatflow.SeatID(2*i+1), seatflow.SeatID(2*i+2)))
		var out seatflow.PaymentOutcome
		errs := parallel(3, func(who int) (err error) {
			switch (who + i) % 3 {
			case 0:
				_, err = t.l.CancelOrder(ctx, by(o, buyer))
			case 1:
				_, err = t.l.ExpireOrder(ctx, seatflow.OrderChange{No: o.No, Actor: staff}, o.Deadline)
			case 2:
				out, err = t.l.RecordPayment(ctx, capture(o, 0), teller)
			}
			return err
		})
		for _, err := range errs {
			if err != nil && !errors.Is(err, seatflow.ErrWrongState) {
				t.Errorf("a loser heard %v", err)
			}
		}
		// Nobody else wants the seats, so the money gets them either way.
		now := t.order(o.No)
		if now.State != seatflow.OrderPaid || out.Ending != seatflow.EndingPaid && out.Ending != seatflow.EndingReseated {
			// Only an end after the payment would undo it, and there is none.
			t.Errorf("order %d is %s, the money %s", i, now.State, out.Ending)
		}
		ended, paid := 0, 0
		for _, e := range t.history(o.No) {
			switch e.Type {
			case seatflow.EventCancelled, seatflow.EventExpired:
				ended++
			case seatflow.EventPaid, seatflow.EventReseated:
				paid++
			}
		}
		if paid != 1 || ended > 1 || (ended == 1) != (out.Ending == seatflow.EndingReseated) || int(now.Attempt) != 1+ended {
			t.Errorf("order %d: attempt %d, %d ends and %d payments, money %s", i, now.Attempt, ended, paid, out.Ending)
		}
	}
}

// ledgerReuse: cancels and sales of the same seats, all at once, for a while.
func ledgerReuse(t *ledgerTest) {
	ctx := t.Context()
	show := t.show(10)
	errs := parallel(16, func(who int) error {
		rng := rand.New(rand.NewPCG(7, uint64(who)))
		for i := range 40 {
			a, b := seatflow.SeatID(rng.IntN(10)+1), seatflow.SeatID(rng.IntN(10)+1)
			ids := seats(a, b)
			if a == b {
				ids = seats(a)
			}
			o, err := t.l.InsertOrder(ctx, t.sale(show, user(who), fmt.Sprint("k", i), ids...))
			var conflict *seatflow.SeatConflictError
			if errors.As(err, &conflict) {
				continue
			}
			if err != nil {
				return err
			}
			switch rng.IntN(4) {
			case 0:
				_, err = t.l.ExpireOrder(ctx, by(o, buyer), o.Deadline)
			case 1:
				if _, err = t.l.RecordPayment(ctx, capture(o, 0), teller); err == nil {
					_, _, err = t.l.RefundSeats(ctx, by(o, staff), nil)
				}
			default:
				_, err = t.l.CancelOrder(ctx, by(o, buyer))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	t.same("outcomes", count(errs), outcomes{ok: 16})
	if taken := t.occupancy(show.ID); len(taken) != 0 {
		t.Errorf("left over: %v", taken)
	}
}
