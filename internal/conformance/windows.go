package conformance

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seatflow"
)

// Windows are empty rate windows under test and the strings they hang on.
type Windows struct {
	// Nodes are views of the same windows, one or more.
	Nodes []seatflow.RateWindows
	// Now reads the clock that the windows go by. It may stand still between
	// two moves; where it runs, the suite accepts what either end of a call
	// would explain.
	Now func() time.Time
	// Advance moves that clock on, or waits until it has moved.
	Advance func(time.Duration)
	// Back sets the clock back; nil where it cannot be.
	Back func(time.Duration)
	// Unit is the length of the suite's steps; 0: a second. A clock that runs
	// by itself wants it short, and much longer than Grain.
	Unit time.Duration
	// Grain is what instants are rounded to.
	Grain time.Duration
}

// WindowsFactory makes empty windows. It cleans up after itself by t.Cleanup.
type WindowsFactory func(t TB) Windows

// RateWindows checks that a backend is seatflow.RateWindows, by every sentence
// of the contract.
func RateWindows(t *testing.T, factory WindowsFactory) {
	for _, c := range windowCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, factory) })
	}
}

type windowCase struct {
	name string
	run  func(t *windowTest)
}

func (c windowCase) check(t TB, factory WindowsFactory) {
	w := factory(t)
	if w.Unit == 0 {
		w.Unit = time.Second
	}
	c.run(&windowTest{TB: t, Windows: w, made: map[string][]moment{}})
}

var windowCases = []windowCase{
	{"passes until most, then says when", windowFills},
	{"passes when it said, and not before", windowKeepsItsWord},
	{"slides", windowSlides},
	{"refused attempts count", windowCountsRefused},
	{"names do not know each other", windowNames},
	{"strange names", windowStrangeNames},
	{"another most under the same name", windowChanges},
	{"idle names start afresh", windowIdle},
	{"one count on all nodes", windowNodes},
	{"exact among 200 callers", windowRace},
	{"any sequence", windowSequences},
	{"refuses a window that cannot be", windowInvalid},
	{"a clock that is set back", windowSetBack},
}

// moment is when an attempt was made: some time from early to late.
type moment struct{ early, late time.Time }

// windowTest is a running case: windows, and every attempt made.
type windowTest struct {
	TB
	Windows
	made map[string][]moment
	node int
}

func (t *windowTest) units(n float64) time.Duration { return time.Duration(n * float64(t.Unit)) }

// ask makes an attempt, at each node in turn, and holds the answer against
// what was made before.
func (t *windowTest) ask(name string, most int, span time.Duration) time.Duration {
	t.Helper()
	t.node = (t.node + 1) % len(t.Nodes)
	return t.askNode(t.node, name, most, span)
}

func (t *windowTest) askNode(node int, name string, most int, span time.Duration) time.Duration {
	t.Helper()
	now := moment{early: t.Now()}
	wait, err := t.Nodes[node].Attempt(t.Context(), name, most, span)
	now.late = t.Now()
	if err != nil {
		t.Fatalf("attempt under %q: %v", name, err)
	}
	sure, possible := 0, 0 // attempts in the window before this one
	for _, m := range t.made[name] {
		if m.early.After(now.late.Add(t.Grain - span)) {
			sure++
		}
		if m.late.After(now.early.Add(-t.Grain - span)) {
			possible++
		}
	}
	switch {
	case wait < 0:
		t.Fatalf("attempt under %q: retry after %v", name, wait)
	case wait == 0 && sure >= most:
		t.Fatalf("attempt %d under %q passed with %d of %d in %v before it", len(t.made[name])+1, name, sure, most, span)
	case wait > 0 && possible < most:
		t.Fatalf("attempt %d under %q was refused for %v with %d of %d in %v before it", len(t.made[name])+1, name, wait, possible, most, span)
	}
	t.made[name] = append(t.made[name], now)
	if wait > 0 { // one passes when the most-th newest has left the window
		made := t.made[name]
		decides := made[len(made)-most]
		least, longest := decides.early.Add(span).Sub(now.late)-t.Grain, decides.late.Add(span).Sub(now.early)+t.Grain
		if wait < least || wait > longest {
			t.Fatalf("attempt %d under %q: retry after %v; it is from %v to %v", len(made), name, wait, least, longest)
		}
	}
	return wait
}

func (t *windowTest) passes(name string, most int, span time.Duration) {
	t.Helper()
	if wait := t.ask(name, most, span); wait != 0 {
		t.Fatalf("attempt %d under %q was refused for %v", len(t.made[name]), name, wait)
	}
}

func (t *windowTest) refused(name string, most int, span time.Duration) time.Duration {
	t.Helper()
	wait := t.ask(name, most, span)
	if wait == 0 {
		t.Fatalf("attempt %d under %q passed", len(t.made[name]), name)
	}
	return wait
}

func windowFills(t *windowTest) {
	span := t.units(40)
	for _, most := range []int{1, 2, 3, 10, 100} {
		name := fmt.Sprintf("most %d", most)
		for range most {
			t.passes(name, most, span)
		}
		if wait := t.refused(name, most, span); wait > span {
			t.Errorf("retry after %v, longer than the span of %v", wait, span)
		}
	}
}

func windowKeepsItsWord(t *windowTest) {
	const most = 3
	span := t.units(10)
	var wait time.Duration
	for i := range most + 1 {
		for _, name := range []string{"early", "on time", "late"} {
			if wait = t.ask(name, most, span); (wait == 0) != (i < most) {
				t.Fatalf("attempt %d under %q: %v", i+1, name, wait)
			}
		}
		t.Advance(t.units(1))
	}
	step := max(t.Grain, t.Unit/1000)
	t.Advance(wait - t.units(1) - step) // a unit has gone by since
	t.ask("early", most, span)          // held against the count, as all are
	t.Advance(step)
	t.ask("on time", most, span)
	t.Advance(t.Unit + t.Grain)
	t.passes("late", most, span)
}

// windowSlides: what straddles any fixed boundary is counted together.
func windowSlides(t *windowTest) {
	const most = 4
	span := t.units(8)
	for shift := range 8 {
		name := fmt.Sprintf("shift %d", shift)
		for range most {
			t.passes(name, most, span)
		}
		t.Advance(t.units(5)) // over a boundary for most of the shifts
		t.refused(name, most, span)
		t.Advance(t.units(4)) // the first have left, one counts
		for range most - 1 {
			t.passes(name, most, span)
		}
		t.refused(name, most, span)
	}
}

func windowCountsRefused(t *windowTest) {
	const most = 2
	span := t.units(10)
	t.passes("n", most, span)
	t.passes("n", most, span)
	var wait time.Duration
	for range 12 {
		t.Advance(t.units(3))
		wait = t.refused("n", most, span)
	}
	t.Advance(wait + t.Grain)
	t.passes("n", most, span)
}

func windowNames(t *windowTest) {
	span := t.units(1000)
	for round := range 3 {
		for i := range 50 {
			name := fmt.Sprintf("name %d", i)
			if round < 2 {
				t.passes(name, 2, span)
			} else {
				t.refused(name, 2, span)
			}
		}
	}
}

func windowStrangeNames(t *windowTest) {
	span := t.units(1000)
	names := []string{
		"", " ", "  ", "a", "A", "a ", " a", "a\n", "a\x00", "a\x00b", "{a}", "{a}b", "}a{", "{}", "a:b", "a:", ":", "*", "a*", "?", "[a]",
		"ä", "a\u0308", "Ａ", "用户", "🎫", "\xff", "\xfe\xff", "'", "\"", "\\", "\r\n", "$1\r\na", "%s", "-1", "0", "00", "1e3", "nil", "null",
		"orders:a", strings.Repeat("x", 1000), strings.Repeat("x", 1001),
	}
	for range 2 {
		for _, name := range names {
			t.passes(name, 2, span)
		}
	}
	for _, name := range names {
		t.refused(name, 2, span)
	}
}

// windowChanges: attempts are counted whatever they were asked with. (What was
// kept for a small window need not do for a larger one.)
func windowChanges(t *windowTest) {
	span := t.units(20)
	for range 7 {
		t.passes("n", 10, span)
		t.Advance(t.units(1))
	}
	t.refused("n", 5, span)
	t.refused("n", 3, span/2)
	t.refused("n", 1, t.units(2))
	t.Advance(t.units(3))
	t.passes("n", 1, t.units(2))
	t.refused("n", 2, span)
}

func windowIdle(t *windowTest) {
	span := t.units(5)
	for range 3 {
		for i := range 20 {
			name := fmt.Sprintf("name %d", i)
			t.passes(name, 2, span)
			t.passes(name, 2, span)
		}
		t.Advance(span + t.Grain)
	}
}

func windowNodes(t *windowTest) {
	span := t.units(1000)
	most := 3 * len(t.Nodes)
	for i := range most {
		if wait := t.askNode(i%len(t.Nodes), "n", most, span); wait != 0 {
			t.Fatalf("attempt %d of %d was refused", i+1, most)
		}
	}
	for i := range t.Nodes {
		if wait := t.askNode(i, "n", most, span); wait == 0 {
			t.Fatalf("node %d does not count what the others let through", i)
		}
	}
}

func windowRace(t *windowTest) {
	const callers, each, most = 200, 5, 137
	span := t.units(10000)
	var passed atomic.Int64
	begin := make(chan struct{})
	var done sync.WaitGroup
	for i := range callers {
		done.Go(func() {
			<-begin
			for range each {
				wait, err := t.Nodes[i%len(t.Nodes)].Attempt(t.Context(), "n", most, span)
				switch {
				case err != nil:
					t.Errorf("attempt: %v", err)
				case wait == 0:
					passed.Add(1)
				case wait < 0 || wait > span+t.Grain:
					t.Errorf("retry after %v", wait)
				}
			}
		})
	}
	close(begin)
	done.Wait()
	if n := passed.Load(); n != most {
		t.Errorf("%d attempts passed of %d callers; it is exactly %d", n, callers, most)
	}
}

func windowSequences(t *windowTest) {
	rnd := rand.New(rand.NewPCG(7, 11))
	for i := range 300 {
		name := fmt.Sprintf("name %d", rnd.IntN(3))
		span := t.units(float64(6))
		if rnd.IntN(5) > 0 {
			t.ask(name, 4, span)
		} else {
			t.Advance(time.Duration(rnd.Int64N(int64(t.units(1 + 7*float64(i%10/9))))))
		}
	}
}

func windowInvalid(t *windowTest) {
	for _, w := range []struct {
		most int
		span time.Duration
	}{{0, time.Second}, {-1, time.Second}, {1, 0}, {1, -time.Second}} {
		if wait, err := t.Nodes[0].Attempt(t.Context(), "n", w.most, w.span); err == nil {
			t.Errorf("%d attempts in %v: retry after %v and no error", w.most, w.span, wait)
		}
	}
}

// windowSetBack: nobody is shut out for as long as the clock was set back, and
// a small step back opens nothing.
func windowSetBack(t *windowTest) {
	if t.Back == nil {
		return
	}
	const most = 2
	span := t.units(10)
	t.passes("small", most, span)
	t.passes("small", most, span)
	t.Back(t.units(3))
	wait, err := t.Nodes[0].Attempt(t.Context(), "small", most, span)
	if err != nil || wait <= 0 || wait > t.units(13) {
		t.Fatalf("after a step back: retry after %v, %v", wait, err)
	}
	t.Advance(wait)
	if wait, err = t.Nodes[0].Attempt(t.Context(), "small", most, span); err != nil || wait != 0 {
		t.Fatalf("when it said, after a step back: retry after %v, %v", wait, err)
	}

	for range most + 1 {
		t.ask("large", most, span)
	}
	t.Back(t.units(1e6))
	if wait, err = t.Nodes[0].Attempt(t.Context(), "large", most, span); err != nil || wait > span {
		t.Fatalf("after a leap back: retry after %v, %v", wait, err)
	}
	t.Advance(span + t.Grain)
	if wait, err = t.Nodes[0].Attempt(t.Context(), "large", most, span); err != nil || wait != 0 {
		t.Fatalf("a span after a leap back: retry after %v, %v", wait, err)
	}
}
