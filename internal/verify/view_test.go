package verify

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// quick looks again at once.
func quick() Option {
	return func(l *look) { l.wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() } }
}

func (w *world) view(opts ...Option) Report {
	return View(w.t.Context(), w.ledger, w.seats, w.show.ID, append([]Option{quick()}, opts...)...)
}

func TestViewHolds(t *testing.T) {
	w := newWorld(t)
	r := w.view()
	holds(t, r)
	c := r.Checks[0].Counts
	if c["seats"] != 9 || c["seats available"] != 4 || c["seats held"] != 2 || c["seats sold"] != 2 || c["seats blocked"] != 1 || c["looks"] != 1 {
		t.Errorf("counts %v", c)
	}
	w.gone()
	holds(t, w.view())
	w.show.Generation, _ = w.ledger.RaiseGeneration(t.Context(), w.show.ID, w.show.Generation)
	fails(t, w.view(), I4, "the view is of generation 2, the facts of 3")
	w.rebuild()
	holds(t, w.view())
}

// snapshots shows a changed snapshot.
type snapshots struct {
	seatflow.SeatStore
	change func(look int, s *seatflow.Snapshot)
	looks  int
}

func (s *snapshots) Snapshot(ctx context.Context, show seatflow.ShowRef, d seatflow.Detail) (*seatflow.Snapshot, error) {
	snap, err := s.SeatStore.Snapshot(ctx, show, d)
	s.looks++
	if err == nil {
		c := *snap
		c.States = append([]seatflow.SeatState(nil), snap.States...)
		c.Orders = append([]seatflow.OrderRecord(nil), snap.Orders...)
		c.Owners, c.Users = map[seatflow.SeatID]seatflow.Owner{}, map[seatflow.UserID]int{}
		for k, v := range snap.Owners {
			c.Owners[k] = v
		}
		for k, v := range snap.Users {
			c.Users[k] = v
		}
		s.change(s.looks, &c)
		snap = &c
	}
	return snap, err
}

func TestViewFindsWhatIsBroken(t *testing.T) {
	w := newWorld(t)
	record := func(s *seatflow.Snapshot, owner seatflow.Owner) *seatflow.OrderRecord {
		for i := range s.Orders {
			if s.Orders[i].Owner == owner {
				return &s.Orders[i]
			}
		}
		t.Fatalf("no record of %s", owner)
		return nil
	}
	held, paid := w.held.Owner(), w.paid.Owner()
	stranger := seatflow.Owner{Order: orderNo(50), Attempt: 1}
	for name, tc := range map[string]struct {
		change func(s *seatflow.Snapshot)
		text   string
	}{
		"a sold seat is free":     {func(s *seatflow.Snapshot) { s.States[2] = seatflow.Available; delete(s.Owners, 3) }, "seat 3 is available of nobody"},
		"a free seat is held":     {func(s *seatflow.Snapshot) { s.States[6], s.Owners[7] = seatflow.Held, stranger }, "seat 7 is held of " + stranger.String()},
		"another owner":           {func(s *seatflow.Snapshot) { s.Owners[1] = stranger }, "seat 1 is held of " + stranger.String()},
		"another attempt":         {func(s *seatflow.Snapshot) { s.Owners[1] = seatflow.Owner{Order: held.Order, Attempt: 2} }, "seat 1 is held of"},
		"an owner of a free seat": {func(s *seatflow.Snapshot) { s.Owners[7] = stranger }, "seat 7 is available of " + stranger.String()},
		"an owner of no seat":     {func(s *seatflow.Snapshot) { s.Owners[700] = stranger }, "seat 700, which does not exist"},
		"a chair too many":        {func(s *seatflow.Snapshot) { s.States = append(s.States, seatflow.Available) }, "11 places, the plan 10"},
		"a chair too few":         {func(s *seatflow.Snapshot) { s.States = s.States[:9] }, "9 places, the plan 10"},
		"a seat from nowhere":     {func(s *seatflow.Snapshot) { s.States[9] = seatflow.Available }, "seat 10 is available"},
		"an unknown state":        {func(s *seatflow.Snapshot) { s.States[8] = '7' }, "unknown state"},
		"no record":               {func(s *seatflow.Snapshot) { s.Orders = s.Orders[1:] }, "the view has no record of"},
		"a record of nothing":     {func(s *seatflow.Snapshot) { s.Orders = append(s.Orders, seatflow.OrderRecord{Owner: stranger}) }, "no such order"},
		"the record's state":      {func(s *seatflow.Snapshot) { record(s, paid).State = seatflow.Held }, paid.String() + " is held in the view"},
		"the record's user":       {func(s *seatflow.Snapshot) { record(s, paid).User = "eve" }, "of user eve"},
		"the record's key":        {func(s *seatflow.Snapshot) { record(s, held).KeyHash[0]++ }, "key hash"},
		"the record's seats":      {func(s *seatflow.Snapshot) { record(s, held).Seats = []seatflow.SeatID{1} }, "has seats [1] in the view"},
		"the deadline":            {func(s *seatflow.Snapshot) { r := record(s, held); r.Deadline = r.Deadline.Add(time.Second) }, held.String() + " ends at"},
		"a user's count":          {func(s *seatflow.Snapshot) { s.Users["ann"]-- }, "user ann has 1 seats in the view, 2 by the facts"},
		"a count of nobody":       {func(s *seatflow.Snapshot) { s.Users["eve"] = 1 }, "user eve has 1 seats in the view, none by the facts"},
		"a block that counts":     {func(s *seatflow.Snapshot) { s.Users["staff"] = 1 }, "user staff has 1 seats"},
		"the generation":          {func(s *seatflow.Snapshot) { s.Revision.Generation = 7 }, "of generation 7"},
		"an empty view":           {func(s *seatflow.Snapshot) { s.States = nil }, "empty within its lifetime"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &snapshots{SeatStore: w.seats, change: func(_ int, s *seatflow.Snapshot) { tc.change(s) }}
			fails(t, View(t.Context(), w.ledger, s, w.show.ID, quick()), I4, tc.text)
			if s.looks != 6 && name != "an unknown state" {
				t.Errorf("believed after %d looks", s.looks)
			}
		})
	}
}

func TestViewFindsWhatIsBrokenInTheStore(t *testing.T) {
	w := newWorld(t)
	if !w.seats.ForceSeat(w.show.Ref(), 3, seatflow.Sold, w.held.Owner()) {
		t.Fatal("no such seat")
	}
	fails(t, w.view(), I4, "seat 3")

	w = newWorld(t)
	w.seats.DropView(w.show.Ref())
	fails(t, w.view(), I4, "the view is missing; the facts have 3 orders in generation 2")
	r := View(t.Context(), w.ledger, w.seats, w.show.ID, quick(), WithEnsure(func(context.Context, seatflow.ShowID) error {
		w.rebuild()
		return nil
	}))
	holds(t, r)
	fails(t, w.view(WithEnsure(func(context.Context, seatflow.ShowID) error { return errors.New("no plan") })), I4, "could not be built: no plan")
}

func TestViewThatNobodyNeededYet(t *testing.T) {
	w := newWorld(t)
	show := w.show
	show.ID = 0
	show, err := w.ledger.CreateShow(t.Context(), show)
	w.must(err)
	r := View(t.Context(), w.ledger, w.seats, show.ID)
	holds(t, r)
	if !strings.Contains(r.Checks[0].Note, "not built") {
		t.Errorf("%+v", r)
	}
	if r := View(t.Context(), w.ledger, w.seats, 99); r.OK() {
		t.Error("a show that does not exist is in order")
	}
}

// A difference that live traffic makes is gone, or another one, when one looks
// again.
func TestViewLooksAgain(t *testing.T) {
	w := newWorld(t)
	passing := &snapshots{SeatStore: w.seats, change: func(n int, s *seatflow.Snapshot) {
		if n < 3 {
			s.States[6], s.Owners[7] = seatflow.Held, seatflow.Owner{Order: orderNo(50), Attempt: 1}
		}
	}}
	r := View(t.Context(), w.ledger, passing, w.show.ID, quick())
	holds(t, r)
	if passing.looks != 3 || r.Checks[0].Counts["looks"] != 3 {
		t.Errorf("%d looks", passing.looks)
	}
	busy := &snapshots{SeatStore: w.seats, change: func(n int, s *seatflow.Snapshot) {
		s.States[6], s.Owners[7] = seatflow.Held, seatflow.Owner{Order: orderNo(50 + n), Attempt: 1}
	}}
	holds(t, View(t.Context(), w.ledger, busy, w.show.ID, quick()))
	stuck := &snapshots{SeatStore: w.seats, change: func(n int, s *seatflow.Snapshot) {
		s.States[6], s.Owners[7] = seatflow.Held, seatflow.Owner{Order: orderNo(50), Attempt: 1}
		s.States[7], s.Owners[8] = seatflow.Held, seatflow.Owner{Order: orderNo(50 + n), Attempt: 1}
	}}
	r = View(t.Context(), w.ledger, stuck, w.show.ID, quick(), WithLooks(4, time.Hour))
	fails(t, r, I4, "seat 7 is held")
	if stuck.looks != 4 || len(r.Checks[0].Violations) != 1 {
		t.Errorf("%d looks, %q", stuck.looks, r.Checks[0].Violations)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stuck.change = func(_ int, s *seatflow.Snapshot) { cancel(); s.Users["eve"] = 1 }
	fails(t, View(ctx, w.ledger, stuck, w.show.ID), I4, "canceled")
}

func TestGraceToleratesTheYoungAlone(t *testing.T) {
	w := newWorld(t)
	young := seatflow.OrderRecord{Owner: seatflow.Owner{Order: orderNo(60), Attempt: 1}, User: "zoe", Seats: []seatflow.SeatID{7},
		State: seatflow.Held}
	orphan := func(age time.Duration) *snapshots {
		return &snapshots{SeatStore: w.seats, change: func(_ int, s *seatflow.Snapshot) {
			r := young
			r.TakenAt = s.At.Add(-age)
			s.States[6], s.Owners[7], s.Users["zoe"] = seatflow.Held, r.Owner, 1
			s.Orders = append(s.Orders, r)
		}}
	}
	fails(t, View(t.Context(), w.ledger, orphan(time.Second), w.show.ID, quick()), I4, "seat 7 is held")
	r := View(t.Context(), w.ledger, orphan(time.Second), w.show.ID, quick(), WithGrace(time.Minute))
	holds(t, r)
	if r.Checks[0].Counts["young"] != 3 {
		t.Errorf("counts %v", r.Checks[0].Counts)
	}
	fails(t, View(t.Context(), w.ledger, orphan(time.Hour), w.show.ID, quick(), WithGrace(time.Minute)), I4, "seat 7 is held")
	undated := orphan(0)
	change := undated.change
	undated.change = func(n int, s *seatflow.Snapshot) { change(n, s); s.Revision.Generation = 9 }
	fails(t, View(t.Context(), w.ledger, undated, w.show.ID, quick(), WithGrace(time.Minute)), I4, "generation 9")
}

func TestAll(t *testing.T) {
	w := newWorld(t)
	r := All(t.Context(), w.ledger, w.seats, nil, strings.NewReader(line(OpPay, w.paid, "paid")), quick())
	holds(t, r)
	if len(r.Checks) != 5 {
		t.Errorf("%d checks", len(r.Checks))
	}
	r = All(t.Context(), w.ledger, nil, nil, nil)
	holds(t, r)
	if c := r.Checks[len(r.Checks)-1]; c.Invariant != I4 || c.Note == "" {
		t.Errorf("the missing view is not mentioned: %+v", r)
	}
	if (Report{}).OK() {
		t.Error("a report of nothing is in order")
	}
	w.seats.DropView(w.show.Ref())
	fails(t, All(t.Context(), w.ledger, w.seats, []seatflow.ShowID{w.show.ID}, nil, quick()), I4, "missing")
}

func TestRemote(t *testing.T) {
	w := newWorld(t)
	var got *http.Request
	var body string
	reply := func(status int, v any) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			buf := make([]byte, 1000)
			n, _ := r.Body.Read(buf)
			got, body = r, string(buf[:n])
			rw.WriteHeader(status)
			_ = json.MarshalWrite(rw, v)
		}))
		t.Cleanup(s.Close)
		return s
	}
	want := All(t.Context(), w.ledger, nil, nil, nil)
	s := reply(200, want)
	client := s.Client()
	r, err := Remote(t.Context(), client, s.URL+"/", "secret", 3, strings.NewReader("acks"))
	if err != nil || !r.OK() || len(r.Checks) != len(want.Checks) || r.Checks[0].Counts["active seats"] != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	if got.URL.String() != "/api/v1/admin/verify?show=3" || got.Header.Get("Authorization") != "Bearer secret" || body != "acks" {
		t.Errorf("%s %v %q", got.URL, got.Header, body)
	}
	if _, err := Remote(t.Context(), client, reply(403, map[string]any{"code": 1002, "title": "Forbidden", "detail": "no"}).URL, "", 0, nil); err == nil ||
		!strings.Contains(err.Error(), "1002 Forbidden no") {
		t.Errorf("%v", err)
	}
	if _, err := Remote(t.Context(), client, reply(200, []int{1}).URL, "", 0, nil); err == nil {
		t.Error("a report that is none was read")
	}
	s.Close()
	if _, err := Remote(t.Context(), client, s.URL, "", 0, nil); err == nil {
		t.Error("nobody answered")
	}
}
