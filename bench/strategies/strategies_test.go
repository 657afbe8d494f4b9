package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"seatflow/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is a bench for tests: a small crowd and leases that outlast a slow
// machine's hesitation.
func small(t *testing.T) *bench {
	t.Helper()
	return &bench{
		seconds: 0.5, rounds: 1, redlock: 5, lease: 3 * time.Second, conns: 16, log: io.Discard, servers: &servers{tb: t, startMariaDB: testkit.SharedMariaDB},
		crowd: crowd{Workers: 16, Users: 1000, Hot: 0.5, Asks: 8, Pairs: 0.25, Seed: 1},
	}
}

// What each design is known to do to others when its taker dies, and whether
// one that sleeps past its lease sells a seat twice.
var expected = map[string]struct {
	stuck string
	twice bool
}{
	"naive":                       {"", true},
	"row lock":                    {"", false},
	"version column":              {"", false},
	"lock a hall":                 {"hall", true},
	"lock a show":                 {"show", true},
	"lock a seat":                 {"seat", true},
	"Redlock a seat":              {"seat", true},
	"plain":                       {"seat", false},
	"SeatFlow, embedded":          {"seat", false},
	"SeatFlow, Redis and MariaDB": {"seat", false},
}

// Every design, small: nothing is oversold but by the control, which is
// caught; nothing acknowledged is lost; deaths and pauses do what is known.
func TestEveryDesign(t *testing.T) {
	for _, d := range designs {
		t.Run(slug(d.Name), func(t *testing.T) {
			t.Parallel()
			b := small(t)
			m, err := b.measure(t.Context(), d, true)
			if err != nil {
				t.Fatal(err)
			}
			if err := judge([]measured{m}); err != nil {
				t.Error(err)
			}
			if (m.Checked.Oversold > 0) != d.Control {
				t.Errorf("oversold %d", m.Checked.Oversold)
			}
			if m.Run.Bought == 0 || m.Checked.Orders < m.Run.Bought {
				t.Errorf("%d orders were acknowledged, %d are stored", m.Run.Bought, m.Checked.Orders)
			}
			if d.InProcess {
				if m.Probed != nil {
					t.Error("a design without a rest to look at was probed")
				}
				return
			}
			want, ok := expected[d.Name]
			if !ok {
				t.Fatal("the test does not know this design")
			}
			if m.Probed.Stuck != want.stuck || (m.Probed.PauseOversold > 0) != want.twice {
				t.Errorf("after a crash %q is stuck, want %q; a pause oversold %d, want any: %v",
					m.Probed.Stuck, want.stuck, m.Probed.PauseOversold, want.twice)
			}
			if m.Probed.Freed < 0 {
				t.Error("what the dead taker held was never given back")
			}
		})
	}
}

// opened opens a design on a small house.
func opened(t *testing.T, open opener) (*bench, Strategy, House) {
	t.Helper()
	b := small(t)
	h := House{Halls: 2, PerHall: 1, Seats: 50}
	s, err := open(t.Context(), b, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, s, h
}

// The negative control without luck: two takers have both looked before
// either acts, both are told that the seat is theirs, and the checker sees it.
func TestCheckerCatchesTheControl(t *testing.T) {
	_, s, h := opened(t, openNaive)
	looked, both := make(chan struct{}, 2), make(chan struct{})
	ctx := withBetween(t.Context(), func() error {
		looked <- struct{}{}
		<-both
		return nil
	})
	results := make(chan Result, 2)
	for i := range 2 {
		go func() {
			r, err := s.Take(ctx, Request{User: fmt.Sprint("user-", i), Show: 1, Seats: []int{7}})
			if err != nil {
				t.Error(err)
			}
			results <- r
		}()
	}
	<-looked
	<-looked
	close(both)
	if a, b := <-results, <-results; a != Bought || b != Bought {
		t.Fatalf("the takers were told %v and %v", a, b)
	}
	c, err := check(t.Context(), s, h, []seatKey{{1, 7}, {1, 8}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Oversold != 1 || c.Orders != 2 || c.Seats != 1 || c.Lost != 1 {
		t.Errorf("%+v", c)
	}
	m := measured{Design: Design{Name: "honest"}, Run: run{Bought: 2}, Checked: c}
	if judge([]measured{m}) == nil {
		t.Error("a design that oversells passes")
	}
}

// stored is a strategy that has stored what a test says.
type stored []Sale

func (s stored) Take(context.Context, Request) (Result, error) { return Busy, nil }
func (s stored) Close() error                                  { return nil }
func (s stored) Sales(_ context.Context, each func(Sale)) error {
	for _, sale := range s {
		each(sale)
	}
	return nil
}

func TestCheck(t *testing.T) {
	h := House{Halls: 1, PerHall: 2, Seats: 10}
	for name, c := range map[string]struct {
		sales stored
		acked []seatKey
		want  checked
	}{
		"clean":            {stored{{"a", 1, []int{1, 2}}, {"b", 2, []int{1}}}, []seatKey{{1, 1}, {1, 2}, {2, 1}}, checked{Orders: 2, Seats: 3}},
		"twice":            {stored{{"a", 1, []int{1}}, {"b", 1, []int{1}}, {"c", 1, []int{1}}}, nil, checked{Orders: 3, Seats: 1, Oversold: 2}},
		"half of a pair":   {stored{{"a", 1, []int{1, 2}}, {"b", 1, []int{2, 3}}}, nil, checked{Orders: 2, Seats: 3, Oversold: 1}},
		"twice in one":     {stored{{"a", 1, []int{4, 4}}}, nil, checked{Orders: 1, Seats: 1, Oversold: 1}},
		"lost":             {stored{{"a", 1, []int{1}}}, []seatKey{{1, 1}, {1, 2}}, checked{Orders: 1, Seats: 1, Lost: 1}},
		"not in the house": {stored{{"a", 1, []int{11}}, {"b", 9, []int{1}}}, nil, checked{Orders: 2, Unasked: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := check(t.Context(), c.sales, h, c.acked)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// A control that sells nothing twice fails the command, as does a sale that
// is lost, and a design that sells nothing.
func TestJudge(t *testing.T) {
	fine := measured{Design: Design{Name: "x"}, Run: run{Bought: 1}}
	if err := judge([]measured{fine}); err != nil {
		t.Error(err)
	}
	for name, break_ := range map[string]func(*measured){
		"control": func(m *measured) { m.Design.Control = true },
		"lost":    func(m *measured) { m.Checked.Lost = 1 },
		"unasked": func(m *measured) { m.Checked.Unasked = 1 },
		"nothing": func(m *measured) { m.Run.Bought = 0 },
	} {
		m := fine
		break_(&m)
		if judge([]measured{m}) == nil {
			t.Errorf("%s passes", name)
		}
	}
}

// MariaDB ends the taker of two rows in the other order than somebody else's;
// that is counted, and the taker tries again and has both in the end.
func TestDeadlocksAreCounted(t *testing.T) {
	_, s, _ := opened(t, openRowLock)
	rows := s.(rowLock)
	ctx := t.Context()
	tx, err := rows.db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	// The server ends the transaction that has changed less: never this one.
	if _, err := tx.ExecContext(ctx, "UPDATE seat SET version = version + 1 WHERE show_id = 2 AND seat_id > 20"); err != nil {
		t.Fatal(err)
	}
	lock := func(seat int) error {
		var taken, version int
		return tx.StmtContext(ctx, rows.lock).QueryRowContext(ctx, 1, seat).Scan(&taken, &version)
	}
	if err := lock(1); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		result Result
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := s.Take(ctx, Request{User: "user-1", Show: 1, Seats: []int{2, 1}})
		done <- answer{r, err}
	}()
	waitUntil(t, "the taker to wait for row 1", func() (bool, error) {
		var name string
		var waiting int
		err := rows.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'").Scan(&name, &waiting)
		return waiting > 0, err
	})
	if err := lock(2); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.err != nil || a.result != Bought {
		t.Errorf("the taker was told %v, %v", a.result, a.err)
	}
	if n := rows.Deadlocks(); n != 1 {
		t.Errorf("%d deadlocks were counted", n)
	}
}

func waitUntil(t *testing.T, what string, is func() (bool, error)) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		ok, err := is()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// Locks are taken all or none, are freed by their holder alone, and give way
// to others when they are.
func TestLocks(t *testing.T) {
	for name, open := range map[string]opener{"SET NX": openSetNX(seatNames), "Redlock": openRedlock} {
		t.Run(name, func(t *testing.T) {
			_, s, _ := opened(t, open)
			l := s.(*leased)
			ctx := t.Context()
			free, ok, err := l.locks.try(ctx, "lock:seat:1:2", time.Minute)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if _, ok, err := l.locks.try(ctx, "lock:seat:1:2", time.Minute); ok || err != nil {
				t.Errorf("a second holder: %v, %v", ok, err)
			}
			if r, err := s.Take(ctx, Request{User: "a", Show: 1, Seats: []int{1, 2}}); r != Busy || err != nil {
				t.Errorf("a pair with a locked seat: %v, %v", r, err)
			}
			if r, err := s.Take(ctx, Request{User: "a", Show: 1, Seats: []int{1}}); r != Bought || err != nil {
				t.Errorf("the other seat of the pair: %v, %v", r, err)
			}
			if err := free(ctx); err != nil {
				t.Error(err)
			}
			again, ok, err := l.locks.try(ctx, "lock:seat:1:2", time.Minute)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if err := free(ctx); err != nil { // of a lease that is another's by now
				t.Error(err)
			}
			if _, ok, _ := l.locks.try(ctx, "lock:seat:1:2", time.Minute); ok {
				t.Error("a former holder freed the lock of the next")
			}
			if err := again(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// Two seats are sold together or not at all.
func TestAllOrNone(t *testing.T) {
	for _, d := range designs {
		t.Run(slug(d.Name), func(t *testing.T) {
			t.Parallel()
			_, s, h := opened(t, d.Open)
			for _, step := range []struct {
				seats []int
				want  Result
			}{{[]int{5}, Bought}, {[]int{4, 5}, Taken}, {[]int{5, 6}, Taken}, {[]int{4}, Bought}, {[]int{7, 6}, Bought}} {
				if r, err := s.Take(t.Context(), Request{User: "user-1", Show: 1, Seats: step.seats}); err != nil || r != step.want {
					t.Errorf("seats %v: %v, %v", step.seats, r, err)
				}
			}
			c, err := check(t.Context(), s, h, []seatKey{{1, 4}, {1, 5}, {1, 6}, {1, 7}})
			if err != nil || c != (checked{Orders: 3, Seats: 4}) {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

func TestHalls(t *testing.T) {
	h := House{Halls: 2, PerHall: 3, Seats: 10}
	var got []int
	for show := 1; show <= h.All(); show++ {
		got = append(got, h.Hall(show))
	}
	if fmt.Sprint(got) != "[1 1 1 2 2 2 3 3 4]" {
		t.Error(got)
	}
	if h.SeatsOf(6) != 10 || h.SeatsOf(7) != probeSeats {
		t.Error("the probes' shows have another size")
	}
}

// The crowd's wishes: cold seats are asked for once, hot ones by as many as
// configured, and the house ends.
func TestDemand(t *testing.T) {
	h := House{Halls: 3, PerHall: 2, Seats: 40}
	d := newDemand(h, crowd{Users: 10, Hot: 0.5, Asks: 8, Pairs: 0.3, Seed: 3})
	b := d.buyer(0)
	asked := map[seatKey]int{}
	pairs, wishes := 0, 0
	for {
		r, ok := b.wish()
		if !ok {
			break
		}
		if wishes++; wishes > 10_000 {
			t.Fatal("the house does not end")
		}
		if len(r.Seats) == 2 {
			pairs++
			if diff := r.Seats[0] - r.Seats[1]; diff != 1 && diff != -1 {
				t.Errorf("not side by side: %v", r.Seats)
			}
		}
		for _, seat := range r.Seats {
			if seat < 1 || seat > h.Seats || r.Show < 1 || r.Show > h.Shows() {
				t.Fatalf("not in the house: %+v", r)
			}
			asked[seatKey{int32(r.Show), int32(seat)}]++
		}
	}
	cold := 0
	for at, n := range asked {
		switch hot := h.Hall(int(at.show)) == 1; {
		case hot && n > 8:
			t.Errorf("%d asked for hot seat %v", n, at)
		case !hot && n > 1:
			t.Errorf("%d asked for cold seat %v", n, at)
		case !hot:
			cold++
		}
	}
	// The last seat of a show may stay alone when only pairs were wanted.
	if most := (h.Shows() - h.PerHall) * h.Seats; cold < most-4 {
		t.Errorf("%d of %d cold seats were asked for", cold, most)
	}
	if pairs == 0 || pairs == wishes {
		t.Errorf("%d of %d wishes were for two", pairs, wishes)
	}
	if _, ok := b.instead(Request{Show: 1, Seats: []int{1, 2}}); ok && cold == (h.Shows()-h.PerHall)*h.Seats {
		t.Error("a refused buyer was sent to a seat that is not there")
	}
}

// A strategy's error ends the run and is told.
func TestDriveTellsErrors(t *testing.T) {
	broken := errors.New("broken")
	h := House{Halls: 2, PerHall: 1, Seats: 1000}
	d := newDemand(h, crowd{Workers: 4, Users: 10, Hot: 0.5, Asks: 8, Pairs: 0.3})
	if _, err := drive(t.Context(), failing{err: broken}, d, 60, func() cpu { return cpu{} }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := drive(t.Context(), failing{}, d, 60, func() cpu { return cpu{} }); err == nil {
		t.Error("no answer is taken for one")
	}
}

type failing struct {
	stored
	err error
}

func (f failing) Take(context.Context, Request) (Result, error) { return 0, f.err }

// Time that this process takes is counted, and a process that is not there
// has taken none.
func TestCPU(t *testing.T) {
	waitUntil(t, "the clock of the process to move", func() (bool, error) { return cpuOf(os.Getpid()) > 0, nil })
	if got := cpuOf(-1); got != 0 {
		t.Error(got)
	}
}

// Who is refused asks for something else; who is told busy asks again a few
// times.
func TestBuy(t *testing.T) {
	h := House{Halls: 2, PerHall: 1, Seats: 1000}
	for _, c := range []struct {
		answers []Result
		want    string
	}{
		{[]Result{Bought}, "1/0/0"},
		{[]Result{Taken, Taken, Bought}, "1/2/0"},
		{[]Result{Busy, Busy, Busy}, "0/0/3"},
		{[]Result{Busy, Taken, Busy, Bought}, "1/1/2"},
	} {
		w := &worker{buyer: newDemand(h, crowd{Users: 1, Asks: 8}).buyer(0)}
		s := &scripted{answers: c.answers}
		if err := w.buy(t.Context(), s, Request{User: "a", Show: 1, Seats: []int{1}}, func() bool { return true }); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprintf("%d/%d/%d", w.count[Bought], w.count[Taken], w.count[Busy]); got != c.want || len(s.answers) > 0 {
			t.Errorf("%v: %s, %d answers left", c.answers, got, len(s.answers))
		}
	}
}

type scripted struct {
	stored
	answers []Result
}

func (s *scripted) Take(context.Context, Request) (Result, error) {
	r := s.answers[0]
	s.answers = s.answers[1:]
	return r, nil
}

func TestReport(t *testing.T) {
	b := small(t)
	b.output = "json"
	rows := []measured{
		{Design: designs[0], House: b.house(designs[0]), Run: run{Elapsed: time.Second, Requests: 10, Bought: 7, Mean: 1500 * time.Microsecond, P99: 120 * time.Millisecond,
			CPU: cpu{7 * time.Millisecond, 14 * time.Millisecond, 21 * time.Millisecond}},
			Checked: checked{Orders: 7, Seats: 6, Oversold: 1}, Probed: &probed{PauseOversold: 1}, Deadlocks: 2},
		{Design: designs[1], House: b.house(designs[1]), Run: run{Elapsed: time.Second, Requests: 10, Bought: 10, Mean: 300 * time.Nanosecond}},
		{Design: designs[5], House: b.house(designs[5]), Run: run{Elapsed: time.Second, Requests: 10, Bought: 10},
			Probed: &probed{Stuck: "hall", Locks: 3, Freed: 2040 * time.Millisecond}},
	}
	text := b.markdown(rows, time.Minute)
	for _, line := range []string{
		"| naive | 7 | 1.50 | 120 | 70.0 % | 1000 + 2000 + 3000 | 2 | nothing | **yes** | **1** |",
		"| mutex | 10 | 0.0003 | 0.0000 | 100.0 % | 0.0 | 0 | – | – | 0 |",
		"| lock a hall | 10 | 0.0000 | 0.0000 | 100.0 % | 0 + 0 + 0 | 0 | the hall for 2.0 s | no | 0 |",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the report lacks %s\n%s", line, text)
		}
	}
	encoded, err := json.Marshal(b.json(rows))
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(encoded, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Rows) != 3 || d.Rows[0].Stored.Oversold != 1 || d.Rows[2].FreedAfterMs == nil || *d.Rows[2].FreedAfterMs != 2040 || d.Rows[1].Probed != nil {
		t.Errorf("%s", encoded)
	}
}

// The document that is checked in has a row for each design.
func TestDocumentHasEveryDesign(t *testing.T) {
	text, err := os.ReadFile("../../docs/strategies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range designs {
		if strings.Count(string(text), "\n| "+d.Name+" | ") != 2 {
			t.Errorf("docs/strategies.md lacks %s; make strategies writes it", d.Name)
		}
	}
	if !strings.HasSuffix(string(text), why) {
		t.Error("docs/strategies.md ends otherwise than make strategies would have it")
	}
}

// Of several runs the one in the middle is reported, with the first one's
// probes.
func TestMiddle(t *testing.T) {
	var runs []measured
	for _, n := range []int64{30, 10, 20} {
		runs = append(runs, measured{Run: run{Bought: n, Elapsed: time.Second}})
	}
	runs[0].Probed = &probed{Stuck: "hall"}
	if m := middle(runs); m.Run.Bought != 20 || m.Probed != runs[0].Probed || runs[0].Run.Bought != 30 {
		t.Errorf("%+v", m)
	}
}

func TestChoose(t *testing.T) {
	if all, err := choose(""); err != nil || len(all) != len(designs) {
		t.Error(len(all), err)
	}
	some, err := choose("seatflow-embedded, Row lock")
	if err != nil || len(some) != 2 || some[0].Name != "SeatFlow, embedded" || some[1].Name != "row lock" {
		t.Error(some, err)
	}
	if _, err := choose("nothing"); err == nil {
		t.Error("an unknown design is chosen")
	}
}

func TestValid(t *testing.T) {
	good := bench{output: "json", seconds: 1, rounds: 1, redlock: 5, lease: time.Second, conns: 8, crowd: crowd{Workers: 1, Users: 1, Asks: 1}}
	if err := good.valid(); err != nil {
		t.Error(err)
	}
	for i, break_ := range []func(*bench){
		func(b *bench) { b.seconds = 0 }, func(b *bench) { b.seconds = 61 }, func(b *bench) { b.redlock = 0 }, func(b *bench) { b.rounds = 0 },
		func(b *bench) { b.lease = time.Millisecond }, func(b *bench) { b.conns = 1 }, func(b *bench) { b.output = "xml" },
		func(b *bench) { b.crowd.Workers = 0 },
	} {
		b := good
		break_(&b)
		if b.valid() == nil {
			t.Errorf("case %d passes", i)
		}
	}
}
