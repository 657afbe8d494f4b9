package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/ledger"
)

// brokenLedger is a ledger that is right but for what one of its functions
// does in place of the method.
type brokenLedger struct {
	seatflow.Ledger
	insert   func(ctx context.Context, n seatflow.NewOrder) (seatflow.Order, error)
	byKey    func(ctx context.Context, user seatflow.UserID, key string) (seatflow.Order, error)
	order    func(o seatflow.Order, user seatflow.UserID) (seatflow.Order, error)
	ordersOf func(list []seatflow.Order) []seatflow.Order
	cancel   func(ctx context.Context, c seatflow.OrderChange) (seatflow.Order, error)
	expire   func(ctx context.Context, c seatflow.OrderChange, seen time.Time) (seatflow.Order, error)
	extend   func(ctx context.Context, c seatflow.OrderChange, seen, deadline time.Time) (seatflow.Order, error)
	refund   func(ctx context.Context, c seatflow.OrderChange, seats []seatflow.SeatID) (seatflow.Order, *seatflow.Refund, error)
	record   func(ctx context.Context, e seatflow.PaymentEvent, actor seatflow.Actor) (seatflow.PaymentOutcome, error)
	void     func(ctx context.Context, no seatflow.OrderNo, show seatflow.ShowID, actor seatflow.Actor) (seatflow.Order, error)
	raise    func(ctx context.Context, show seatflow.ShowID, seen seatflow.Generation) (seatflow.Generation, error)
	facts    func(f seatflow.Facts) seatflow.Facts
	outbox   func(list []seatflow.OutboxEvent) []seatflow.OutboxEvent
	done     func(ctx context.Context, ids []int64) error
	publish  func(ctx context.Context, plan *seatflow.Plan) error
	update   func(ctx context.Context, show seatflow.Show) (seatflow.Show, error)
	history  func(list []seatflow.OrderEvent) []seatflow.OrderEvent
}

func (b *brokenLedger) InsertOrder(ctx context.Context, n seatflow.NewOrder) (seatflow.Order, error) {
	if b.insert != nil {
		return b.insert(ctx, n)
	}
	return b.Ledger.InsertOrder(ctx, n)
}

func (b *brokenLedger) OrderByKey(ctx context.Context, user seatflow.UserID, key string) (seatflow.Order, error) {
	if b.byKey != nil {
		return b.byKey(ctx, user, key)
	}
	return b.Ledger.OrderByKey(ctx, user, key)
}

func (b *brokenLedger) Order(ctx context.Context, no seatflow.OrderNo, user seatflow.UserID) (seatflow.Order, error) {
	if b.order != nil {
		o, err := b.Ledger.Order(ctx, no, "")
		if err != nil {
			return o, err
		}
		return b.order(o, user)
	}
	return b.Ledger.Order(ctx, no, user)
}

func (b *brokenLedger) OrdersOf(ctx context.Context, user seatflow.UserID, before seatflow.OrderNo, limit int) ([]seatflow.Order, error) {
	list, err := b.Ledger.OrdersOf(ctx, user, before, limit)
	if b.ordersOf != nil {
		list = b.ordersOf(list)
	}
	return list, err
}

func (b *brokenLedger) CancelOrder(ctx context.Context, c seatflow.OrderChange) (seatflow.Order, error) {
	if b.cancel != nil {
		return b.cancel(ctx, c)
	}
	return b.Ledger.CancelOrder(ctx, c)
}

func (b *brokenLedger) ExpireOrder(ctx context.Context, c seatflow.OrderChange, seen time.Time) (seatflow.Order, error) {
	if b.expire != nil {
		return b.expire(ctx, c, seen)
	}
	return b.Ledger.ExpireOrder(ctx, c, seen)
}

func (b *brokenLedger) ExtendOrder(ctx context.Context, c seatflow.OrderChange, seen, deadline time.Time) (seatflow.Order, error) {
	if b.extend != nil {
		return b.extend(ctx, c, seen, deadline)
	}
	return b.Ledger.ExtendOrder(ctx, c, seen, deadline)
}

func (b *brokenLedger) RefundSeats(ctx context.Context, c seatflow.OrderChange, seats []seatflow.SeatID) (seatflow.Order, *seatflow.Refund, error) {
	if b.refund != nil {
		return b.refund(ctx, c, seats)
	}
	return b.Ledger.RefundSeats(ctx, c, seats)
}

func (b *brokenLedger) RecordPayment(ctx context.Context, e seatflow.PaymentEvent, actor seatflow.Actor) (seatflow.PaymentOutcome, error) {
	if b.record != nil {
		return b.record(ctx, e, actor)
	}
	return b.Ledger.RecordPayment(ctx, e, actor)
}

func (b *brokenLedger) VoidOrder(ctx context.Context, no seatflow.OrderNo, show seatflow.ShowID, actor seatflow.Actor) (seatflow.Order, error) {
	if b.void != nil {
		return b.void(ctx, no, show, actor)
	}
	return b.Ledger.VoidOrder(ctx, no, show, actor)
}

func (b *brokenLedger) RaiseGeneration(ctx context.Context, show seatflow.ShowID, seen seatflow.Generation) (seatflow.Generation, error) {
	if b.raise != nil {
		return b.raise(ctx, show, seen)
	}
	return b.Ledger.RaiseGeneration(ctx, show, seen)
}

func (b *brokenLedger) Facts(ctx context.Context, show seatflow.ShowID) (seatflow.Facts, error) {
	f, err := b.Ledger.Facts(ctx, show)
	if b.facts != nil && err == nil {
		f = b.facts(f)
	}
	return f, err
}

func (b *brokenLedger) Outbox(ctx context.Context, limit int) ([]seatflow.OutboxEvent, error) {
	list, err := b.Ledger.Outbox(ctx, limit)
	if b.outbox != nil {
		list = b.outbox(list)
	}
	return list, err
}

func (b *brokenLedger) OutboxDone(ctx context.Context, ids []int64) error {
	if b.done != nil {
		return b.done(ctx, ids)
	}
	return b.Ledger.OutboxDone(ctx, ids)
}

func (b *brokenLedger) PublishPlan(ctx context.Context, plan *seatflow.Plan) error {
	if b.publish != nil {
		return b.publish(ctx, plan)
	}
	return b.Ledger.PublishPlan(ctx, plan)
}

func (b *brokenLedger) UpdateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
	if b.update != nil {
		return b.update(ctx, show)
	}
	return b.Ledger.UpdateShow(ctx, show)
}

func (b *brokenLedger) History(ctx context.Context, no seatflow.OrderNo) ([]seatflow.OrderEvent, error) {
	list, err := b.Ledger.History(ctx, no)
	if b.history != nil {
		list = b.history(list)
	}
	return list, err
}

// TestLedgerSuiteSees breaks a ledger in one way at a time and asks the suite's
// own cases, by name, to see it.
func TestLedgerSuiteSees(t *testing.T) {
	type order = seatflow.Order
	for _, c := range []struct {
		name, by string // by: the case that must see it
		wreck    func(b *brokenLedger)
	}{
		{"a second order takes a seat that is taken, in words only", "insert/conflicts", func(b *brokenLedger) {
			b.insert = func(ctx context.Context, n seatflow.NewOrder) (order, error) {
				o, err := b.Ledger.InsertOrder(ctx, n)
				var conflict *seatflow.SeatConflictError
				if errors.As(err, &conflict) {
					return n.Order, nil
				}
				return o, err
			}
		}},
		{"a conflict names every seat that was asked for", "insert/conflicts", func(b *brokenLedger) {
			b.insert = func(ctx context.Context, n seatflow.NewOrder) (order, error) {
				o, err := b.Ledger.InsertOrder(ctx, n)
				var conflict *seatflow.SeatConflictError
				if errors.As(err, &conflict) {
					conflict.Seats = n.Order.Seats()
				}
				return o, err
			}
		}},
		{"a conflict leaves what was free of it", "race/groups", func(b *brokenLedger) {
			b.insert = func(ctx context.Context, n seatflow.NewOrder) (order, error) {
				o, err := b.Ledger.InsertOrder(ctx, n)
				var conflict *seatflow.SeatConflictError
				if !errors.As(err, &conflict) {
					return o, err
				}
				part := n
				part.Order.Items = slices.DeleteFunc(slices.Clone(n.Order.Items), func(it seatflow.OrderItem) bool { return slices.Contains(conflict.Seats, it.Seat) })
				_, _ = b.Ledger.InsertOrder(ctx, part)
				return o, err
			}
		}},
		{"one of a batch fails and takes its neighbours along", "race/ten for each seat", func(b *brokenLedger) {
			b.insert = func(ctx context.Context, n seatflow.NewOrder) (order, error) {
				if n.Order.Items[0].Seat%10 == 0 {
					return order{}, &seatflow.SeatConflictError{Seats: n.Order.Seats()}
				}
				return b.Ledger.InsertOrder(ctx, n)
			}
		}},
		{"a repeated key makes another order", "race/one key", func(b *brokenLedger) {
			var i int
			var mu sync.Mutex
			b.insert = func(ctx context.Context, n seatflow.NewOrder) (order, error) {
				mu.Lock()
				i++
				n.Order.Key += fmt.Sprint(i)
				mu.Unlock()
				return b.Ledger.InsertOrder(ctx, n)
			}
		}},
		{"a repeated key is an error like any other", "insert/numbers and keys", func(b *brokenLedger) {
			b.insert = func(ctx context.Context, n seatflow.NewOrder) (order, error) {
				o, err := b.Ledger.InsertOrder(ctx, n)
				var exists *seatflow.OrderExistsError
				if errors.As(err, &exists) {
					err = seatflow.ErrNotCommitted
				}
				return o, err
			}
		}},
		{"a stale generation is let through", "race/stale among current", func(b *brokenLedger) {
			b.insert = func(ctx context.Context, n seatflow.NewOrder) (order, error) {
				o, err := b.Ledger.InsertOrder(ctx, n)
				if errors.Is(err, seatflow.ErrStaleGeneration) {
					show, _ := b.Ledger.Show(ctx, n.Order.Show)
					n.Generation = show.Generation
					return b.Ledger.InsertOrder(ctx, n)
				}
				return o, err
			}
		}},
		{"a key is nobody's own", "insert/sale", func(b *brokenLedger) {
			b.byKey = func(ctx context.Context, _ seatflow.UserID, key string) (order, error) {
				return b.Ledger.OrderByKey(ctx, buyer.User, key)
			}
		}},
		{"a key is forgotten", "insert/sale", func(b *brokenLedger) {
			b.byKey = func(context.Context, seatflow.UserID, string) (order, error) { return order{}, seatflow.ErrNotFound }
		}},
		{"an order is shown to anybody", "insert/sale", func(b *brokenLedger) {
			b.order = func(o order, _ seatflow.UserID) (order, error) { return o, nil }
		}},
		{"void rows are listed", "insert/lists", func(b *brokenLedger) {
			b.ordersOf = func(list []order) []order { return append(list, order{State: seatflow.OrderVoid}) }
		}},
		{"a void row is not made", "insert/void", func(b *brokenLedger) {
			b.void = func(_ context.Context, no seatflow.OrderNo, show seatflow.ShowID, _ seatflow.Actor) (order, error) {
				return order{No: no, Show: show, State: seatflow.OrderVoid}, nil
			}
		}},
		{"anybody may cancel", "change/ownership", func(b *brokenLedger) {
			b.cancel = func(ctx context.Context, c seatflow.OrderChange) (order, error) {
				c.User = ""
				return b.Ledger.CancelOrder(ctx, c)
			}
		}},
		{"a repeated cancel is not recorded", "change/cancel", func(b *brokenLedger) {
			b.cancel = func(ctx context.Context, c seatflow.OrderChange) (order, error) {
				if o, err := b.Ledger.Order(ctx, c.No, c.User); err == nil && o.State == seatflow.OrderCancelled {
					return o, nil
				}
				return b.Ledger.CancelOrder(ctx, c)
			}
		}},
		{"expiry does not look at the deadline", "change/expire", func(b *brokenLedger) {
			b.expire = func(ctx context.Context, c seatflow.OrderChange, _ time.Time) (order, error) {
				o, _ := b.Ledger.Order(ctx, c.No, "")
				return b.Ledger.ExpireOrder(ctx, c, o.Deadline)
			}
		}},
		{"an extension does not look at the deadline", "change/extend", func(b *brokenLedger) {
			b.extend = func(ctx context.Context, c seatflow.OrderChange, _, deadline time.Time) (order, error) {
				o, _ := b.Ledger.Order(ctx, c.No, "")
				return b.Ledger.ExtendOrder(ctx, c, o.Deadline, deadline)
			}
		}},
		{"a refund names its seats and gives back all", "give back/refund", func(b *brokenLedger) {
			b.refund = func(ctx context.Context, c seatflow.OrderChange, _ []seatflow.SeatID) (order, *seatflow.Refund, error) {
				return b.Ledger.RefundSeats(ctx, c, nil)
			}
		}},
		{"a refund of nothing is a refund", "give back/refund", func(b *brokenLedger) {
			b.refund = func(ctx context.Context, c seatflow.OrderChange, seats []seatflow.SeatID) (order, *seatflow.Refund, error) {
				o, r, err := b.Ledger.RefundSeats(ctx, c, seats)
				if err == nil && r == nil {
					r = &seatflow.Refund{ID: "again"}
				}
				return o, r, err
			}
		}},
		{"a callback told twice is not known", "money/repeats", func(b *brokenLedger) {
			var n int
			b.record = func(ctx context.Context, e seatflow.PaymentEvent, actor seatflow.Actor) (seatflow.PaymentOutcome, error) {
				n++
				e.EventID += fmt.Sprint(n)
				e.CaptureID += fmt.Sprint(n)
				return b.Ledger.RecordPayment(ctx, e, actor)
			}
		}},
		{"a capture in another event is not known", "money/repeats at once", func(b *brokenLedger) {
			b.record = func(ctx context.Context, e seatflow.PaymentEvent, actor seatflow.Actor) (seatflow.PaymentOutcome, error) {
				e.CaptureID = "of " + e.EventID
				return b.Ledger.RecordPayment(ctx, e, actor)
			}
		}},
		{"the amount is believed", "money/decisions", func(b *brokenLedger) {
			b.record = func(ctx context.Context, e seatflow.PaymentEvent, actor seatflow.Actor) (seatflow.PaymentOutcome, error) {
				if o, err := b.Ledger.Order(ctx, e.Order, ""); err == nil {
					e.Amount = o.Total
				}
				return b.Ledger.RecordPayment(ctx, e, actor)
			}
		}},
		{"unknown money is forgotten", "money/unknown", func(b *brokenLedger) {
			b.record = func(ctx context.Context, e seatflow.PaymentEvent, actor seatflow.Actor) (seatflow.PaymentOutcome, error) {
				if _, err := b.Ledger.Order(ctx, e.Order, ""); err != nil {
					return seatflow.PaymentOutcome{Ending: seatflow.EndingUnknown}, nil
				}
				return b.Ledger.RecordPayment(ctx, e, actor)
			}
		}},
		{"everybody raises a generation", "facts/generations at once", func(b *brokenLedger) {
			b.raise = func(ctx context.Context, show seatflow.ShowID, seen seatflow.Generation) (seatflow.Generation, error) {
				gen, err := b.Ledger.RaiseGeneration(ctx, show, seen)
				if errors.Is(err, seatflow.ErrStaleGeneration) {
					return seen + 1, nil
				}
				return gen, err
			}
		}},
		{"the facts leave out blocks", "facts/occupancy", func(b *brokenLedger) {
			b.facts = func(f seatflow.Facts) seatflow.Facts {
				f.Orders = slices.DeleteFunc(f.Orders, func(o order) bool { return o.Kind == seatflow.KindBlock })
				return f
			}
		}},
		{"an event is not published", "change/cancel", func(b *brokenLedger) {
			b.outbox = func(list []seatflow.OutboxEvent) []seatflow.OutboxEvent {
				return slices.DeleteFunc(list, func(e seatflow.OutboxEvent) bool { return e.Event.Type == seatflow.EventCancelled })
			}
		}},
		{"one row of the outbox done is all done", "facts/outbox", func(b *brokenLedger) {
			b.done = func(ctx context.Context, _ []int64) error {
				list, err := b.Ledger.Outbox(ctx, 1000)
				for _, e := range list {
					err = errors.Join(err, b.Ledger.OutboxDone(ctx, []int64{e.ID}))
				}
				return err
			}
		}},
		{"an event does not say who", "insert/sale", func(b *brokenLedger) {
			b.history = func(list []seatflow.OrderEvent) []seatflow.OrderEvent {
				for i := range list {
					list[i].Actor = seatflow.Actor{}
				}
				return list
			}
		}},
		{"a lost race to publish is a success", "catalog/plans refused", func(b *brokenLedger) {
			b.publish = func(ctx context.Context, plan *seatflow.Plan) error {
				if err := b.Ledger.PublishPlan(ctx, plan); !errors.Is(err, seatflow.ErrWrongState) {
					return err
				}
				return nil
			}
		}},
		{"a show that moves keeps its generation", "catalog/show moves", func(b *brokenLedger) {
			b.update = func(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
				got, err := b.Ledger.UpdateShow(ctx, show)
				got.Generation = show.Generation
				return got, err
			}
		}},
		{"a show is updated over another's update", "catalog/show updates", func(b *brokenLedger) {
			b.update = func(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
				if now, err := b.Ledger.Show(ctx, show.ID); err == nil {
					show.Version = now.Version
				}
				return b.Ledger.UpdateShow(ctx, show)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := slices.IndexFunc(ledgerCases(), func(lc ledgerCase) bool { return lc.name == c.by })
			if i < 0 {
				t.Fatalf("no case %q", c.by)
			}
			if seen := observe(t.Context(), func(tb TB) { ledgerCases()[i].check(tb, sqliteLedger(c.wreck)) }); len(seen) == 0 {
				t.Errorf("case %q found nothing", c.by)
			}
			if seen := observe(t.Context(), func(tb TB) { ledgerCases()[i].check(tb, sqliteLedger(func(*brokenLedger) {})) }); len(seen) > 0 {
				t.Errorf("case %q complains of a ledger that is right: %q", c.by, seen)
			}
		})
	}
}

// sqliteLedger makes ledgers that are right but for one thing.
func sqliteLedger(wreck func(b *brokenLedger)) LedgerFactory {
	return func(t TB) seatflow.Ledger {
		dir, err := os.MkdirTemp("", "ledger")
		if err != nil {
			t.Fatalf("%v", err)
		}
		l, err := ledger.OpenSQLite(t.Context(), filepath.Join(dir, "ledger.db"), ledger.Options{})
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() {
			if err := errors.Join(l.Close(), os.RemoveAll(dir)); err != nil {
				t.Errorf("%v", err)
			}
		})
		b := &brokenLedger{Ledger: l}
		wreck(b)
		return b
	}
}
