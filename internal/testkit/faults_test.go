package testkit

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"seatflow"
)

// noLedger and noSeats panic in every method, so a call that reaches them is
// seen.
type (
	noLedger struct{ seatflow.Ledger }
	noSeats  struct{ seatflow.SeatStore }
)

// TestFaultsCoverPorts calls each method of both ports with a fault before it:
// a method that is not wrapped would reach the nil port inside and panic.
func TestFaultsCoverPorts(t *testing.T) {
	boom := errors.New("boom")
	check := func(t *testing.T, wrapped any, faults *Faults, port reflect.Type) {
		for i := range port.NumMethod() {
			name := port.Method(i).Name
			faults.On(name, FailBefore(boom), Times(1))
			m := reflect.ValueOf(wrapped).MethodByName(name)
			args := make([]reflect.Value, m.Type().NumIn())
			for j := range args {
				args[j] = reflect.Zero(m.Type().In(j))
			}
			out := m.Call(args)
			if err, _ := out[len(out)-1].Interface().(error); !errors.Is(err, boom) {
				t.Errorf("%s: got %v, want the programmed error", name, err)
			}
			if faults.Calls(name) != 1 {
				t.Errorf("%s: %d calls counted", name, faults.Calls(name))
			}
		}
	}
	l := NewFaultyLedger(noLedger{})
	check(t, l, l.Faults, reflect.TypeFor[seatflow.Ledger]())
	s := NewFaultySeats(noSeats{})
	check(t, s, s.Faults, reflect.TypeFor[seatflow.SeatStore]())
}

type oneLedger struct {
	seatflow.Ledger
	inserts int
	err     error
}

func (l *oneLedger) InsertOrder(_ context.Context, o seatflow.NewOrder) (seatflow.Order, error) {
	l.inserts++
	return o.Order, l.err
}

func TestFaultActions(t *testing.T) {
	ctx := context.Background()
	order := seatflow.NewOrder{Order: seatflow.Order{No: "A"}}
	inner := &oneLedger{}
	l := NewFaultyLedger(inner)

	after := l.On("InsertOrder", FailAfter(seatflow.ErrUnknownCommit), Skip(1), Times(1))
	if o, err := l.InsertOrder(ctx, order); err != nil || o.No != "A" {
		t.Fatalf("skipped call: %v, %v", o.No, err)
	}
	if o, err := l.InsertOrder(ctx, order); !errors.Is(err, seatflow.ErrUnknownCommit) || o.No != "" || inner.inserts != 2 {
		t.Fatalf("lost reply: %v, %v, %d inserts", o.No, err, inner.inserts)
	}
	if o, err := l.InsertOrder(ctx, order); err != nil || o.No != "A" {
		t.Fatalf("third call: %v, %v", o.No, err)
	}
	if after.Hits() != 1 || l.Calls("InsertOrder") != 3 {
		t.Fatalf("%d hits, %d calls", after.Hits(), l.Calls("InsertOrder"))
	}

	// An error of the call itself keeps the result beside it.
	inner.err = seatflow.ErrWrongState
	seen := false
	r := l.On("InsertOrder", After(func() { seen = true }))
	if o, err := l.InsertOrder(ctx, order); !errors.Is(err, seatflow.ErrWrongState) || o.No != "A" || !seen {
		t.Fatalf("after: %v, %v, %v", o.No, err, seen)
	}
	r.Stop()
	inner.err = nil
	l.On("InsertOrder", Before(func() { inner.inserts = 100 }), Times(1))
	if _, err := l.InsertOrder(ctx, order); err != nil || inner.inserts != 101 {
		t.Fatalf("before: %v, %d", err, inner.inserts)
	}

	// A held call ends with its context, or goes on when released.
	gone, cancel := context.WithCancel(ctx)
	cancel()
	release := make(chan struct{})
	l.On("InsertOrder", HoldBefore(release), Times(1))
	if _, err := l.InsertOrder(gone, order); !errors.Is(err, context.Canceled) || inner.inserts != 101 {
		t.Fatalf("held and cancelled: %v, %d", err, inner.inserts)
	}
	l.On("InsertOrder", HoldAfter(release, seatflow.ErrUnknownCommit), Times(1))
	if _, err := l.InsertOrder(gone, order); !errors.Is(err, seatflow.ErrUnknownCommit) || inner.inserts != 102 {
		t.Fatalf("answer held and cancelled: %v, %d", err, inner.inserts)
	}
	reached := make(chan struct{})
	l.On("InsertOrder", Signal(reached, HoldBefore(release)), Times(1))
	done := make(chan error, 1)
	go func() { _, err := l.InsertOrder(ctx, order); done <- err }()
	<-reached
	select {
	case err := <-done:
		t.Fatalf("a held call ended: %v", err)
	default:
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	l.On("InsertOrder", FailBefore(seatflow.ErrNotCommitted))
	l.Clear()
	if _, err := l.InsertOrder(ctx, order); err != nil {
		t.Fatalf("cleared: %v", err)
	}
}

func TestFaultsRefuseUnknownMethod(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a misspelt method was accepted")
		}
	}()
	NewFaultyLedger(nil).On("InsertOrders", FailBefore(errors.New("never")))
}
