package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seatflow"
)

// askTries bounds the questions whether a view is usable: after a restart each
// connection may fail once.
const askTries = 5

// fit asks whether a view whose seats are right agrees with itself: owners with
// records, counts of users with records, and the counts that only the store
// sees.
func (l *look) fit(ctx context.Context) error {
	if l.f.misfit = l.contradiction(); l.f.misfit != "" {
		return nil
	}
	if user := l.miscounted(); user != "" {
		if l.youngUser(user) {
			l.f.young[seatflow.DriftDerived]++
			return nil
		}
		l.f.misfit = "the seats in effect of user " + string(user)
		return nil
	}
	var err error
	for range askTries { // a lost reply costs nothing: it changes nothing
		_, err = l.p.r.o.Seats.Release(ctx, l.f.house.Show.Ref(), nobody, nil)
		if !errors.Is(err, seatflow.ErrUnknownOutcome) && !errors.Is(err, seatflow.ErrNotExecuted) {
			break
		}
	}
	if errors.Is(err, seatflow.ErrNotReady) {
		l.f.misfit = "the store's own counts"
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask whether the view is usable: %w", err)
	}
	return nil
}

// contradiction names a place where records and owners disagree, or "". Both
// are of one moment, so there is nothing that could still be under way.
func (l *look) contradiction() string {
	listed := 0
	for i := range l.f.snap.Orders {
		rec := &l.f.snap.Orders[i]
		for _, id := range rec.Seats {
			listed++
			if id < 1 || int(id) > len(l.f.snap.States) || l.sight(id) != (sight{rec.State, rec.Owner}) {
				return fmt.Sprintf("the record of %s, which lists seat %d", rec.Owner, id)
			}
		}
		if len(rec.Seats) == 0 {
			return "the record of " + rec.Owner.String() + ", which lists no seat"
		}
	}
	if listed != len(l.f.snap.Owners) {
		return fmt.Sprintf("%d seats have owners, %d are in records", len(l.f.snap.Owners), listed)
	}
	return ""
}

// miscounted names a user whose seats in effect are not those of the records.
func (l *look) miscounted() seatflow.UserID {
	want := map[seatflow.UserID]int{}
	for i := range l.f.snap.Orders {
		if rec := &l.f.snap.Orders[i]; rec.State != seatflow.Blocked {
			want[rec.User] += len(rec.Seats)
		}
	}
	for user, n := range l.f.snap.Users {
		if want[user] != n {
			return user
		}
		delete(want, user)
	}
	for user, n := range want {
		if n != 0 {
			return user
		}
	}
	return ""
}

// youngUser reports whether anything of a user's changed within the grace
// time.
func (l *look) youngUser(user seatflow.UserID) bool {
	young := func(age time.Duration) bool { return age >= 0 && age < l.p.r.grace() }
	for i := range l.f.snap.Orders {
		if rec := &l.f.snap.Orders[i]; rec.User == user && young(l.f.snap.At.Sub(rec.TakenAt)) {
			return true
		}
	}
	for i := range l.f.facts.Orders {
		if o := &l.f.facts.Orders[i]; o.User == user && young(l.now.Sub(o.UpdatedAt)) {
			return true
		}
	}
	return false
}
