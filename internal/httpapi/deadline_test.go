package httpapi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadline(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		parent, stop := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		defer stop()
		fresh := func() *deadline { return withDeadline(parent, time.Now().Add(time.Minute)) }

		// Nobody waits.
		d := fresh()
		if at, ok := d.Deadline(); !ok || time.Until(at) != time.Minute || d.Err() != nil || d.Value(key{}) != "value" {
			t.Errorf("fresh: %v, %v, %v", at, d.Err(), d.Value(key{}))
		}
		<-time.After(time.Minute)
		if d.Err() != context.DeadlineExceeded {
			t.Errorf("at its end: %v", d.Err())
		}
		<-d.Done()

		// Somebody waits, and a child as well.
		d = fresh()
		child, cancel := context.WithTimeout(d, time.Hour)
		defer cancel()
		start := time.Now()
		<-child.Done()
		if took := time.Since(start); took != time.Minute || child.Err() != context.DeadlineExceeded || d.Err() != context.DeadlineExceeded {
			t.Errorf("after %v: child %v, context %v", took, child.Err(), d.Err())
		}

		// The request ends first.
		for _, wait := range []bool{true, false} {
			d = fresh()
			if wait {
				d.Done()
			}
			child, cancel := context.WithCancel(context.WithoutCancel(d))
			defer cancel()
			d.end()
			<-d.Done()
			if d.Err() != context.Canceled || child.Err() != nil || child.Value(key{}) != "value" {
				t.Errorf("ended (waiting %v): %v, detached %v", wait, d.Err(), child.Err())
			}
		}

		// The client goes.
		waited, idle := fresh(), fresh()
		waited.Done()
		stop()
		<-waited.Done()
		if waited.Err() != context.Canceled || idle.Err() != context.Canceled {
			t.Errorf("parent gone: %v, %v", waited.Err(), idle.Err())
		}

		// The parent's deadline comes first.
		sooner, cancel2 := context.WithTimeout(t.Context(), time.Second)
		defer cancel2()
		if at, _ := withDeadline(sooner, time.Now().Add(time.Minute)).Deadline(); time.Until(at) != time.Second {
			t.Errorf("deadline %v", at)
		}
	})
}
