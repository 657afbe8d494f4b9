package simulate

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow/internal/sabotage"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "TestSeed: the seed to tell of")
	fromFlag   = flag.Uint64("from", 1, "the first seed")
	seedsFlag  = flag.Uint64("seeds", 0, "how many seeds TestWorlds runs; 0: 300, under the race detector 25")
	forFlag    = flag.Duration("for", 0, "TestExplore: run for so long; negative: until stopped")
	strideFlag = flag.Uint64("stride", 1, "TestExplore: every so many seeds, the others are another process's")
	fullFlag   = flag.Bool("full", false, "TestSabotage: from the first seed, not from one that is known to find it")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs seeds one after the other until one fails or there are no more,
// and returns what failed. Two bubbles in one process are slower than one; for
// more at a time there are processes (make simulate).
func each(t *testing.T, from, count, stride uint64, done func(Result)) *Result {
	t.Helper()
	for i := range count {
		r := Run(t, Options{Seed: from + i*stride})
		if done != nil {
			done(r)
		}
		if r.Failure != "" {
			return &r
		}
	}
	return nil
}

// report fails a test with the story of a seed in as few words as possible.
func report(t *testing.T, r *Result) {
	t.Helper()
	small := Shrink(t, *r)
	t.Errorf("seed %d: %s\n%s", r.Seed, r.Failure, small.Story())
}

func TestWorlds(t *testing.T) {
	var steps, orders int
	if *seedsFlag == 0 {
		*seedsFlag = 300
		if raceDetector {
			*seedsFlag = 25
		}
	}
	begun := time.Now()
	if failed := each(t, *fromFlag, *seedsFlag, 1, func(r Result) { steps += r.Steps; orders += r.Orders }); failed != nil {
		report(t, failed)
		return
	}
	t.Logf("%d worlds, %d calls and %d orders: %.1f worlds a second", *seedsFlag, steps, orders, float64(*seedsFlag)/time.Since(begun).Seconds())
	if orders == 0 || steps/int(*seedsFlag) < 100 {
		t.Errorf("in %d worlds there were %d calls and %d orders: nothing happened", *seedsFlag, steps, orders)
	}
}

// TestASeedTellsTheSameStory: what a seed does depends on nothing but the seed.
func TestASeedTellsTheSameStory(t *testing.T) {
	first := map[uint64]uint64{}
	const seeds = 12
	each(t, 1, seeds, 1, func(r Result) { first[r.Seed] = r.Hash })
	seen := map[uint64]bool{}
	// Alone, and with every word kept.
	for seed := range uint64(seeds) {
		r := Run(t, Options{Seed: seed + 1, Trace: true})
		if r.Hash != first[r.Seed] {
			t.Errorf("seed %d told %x, then %x", r.Seed, first[r.Seed], r.Hash)
		}
		seen[r.Hash] = true
		if len(r.Trace) < r.Steps {
			t.Errorf("seed %d: %d lines of %d steps", r.Seed, len(r.Trace), r.Steps)
		}
	}
	if len(seen) != seeds {
		t.Errorf("%d seeds told %d stories", seeds, len(seen))
	}
}

// found is for each break a seed that finds it, so that CI need not search.
// Whatever changes the order of events makes new ones: make explore finds them.
var found = map[sabotage.Break]uint64{
	sabotage.SkipOwnerCheck:      264,
	sabotage.ReuseAttempt:        381,
	sabotage.PublishBeforeCommit: 2,
	sabotage.LimitOutsideStep:    23,
	sabotage.ForgetRelease:       8,
	sabotage.KeepGeneration:      5,
	sabotage.NoGrace:             39,
	sabotage.TrustSelect:         83,
	sabotage.AcceptTwice:         1,
	sabotage.FreeBeforeLedger:    1,
}

// TestSabotage is the negative control: each of ten well-known faults of such
// code is found, in the first 2,000 seeds.
func TestSabotage(t *testing.T) {
	const most = 2000
	for _, s := range sabotage.All {
		t.Run(s.Name, func(t *testing.T) {
			sabotage.Do(t, s.Break)
			from, count := found[s.Break], uint64(1)
			if *fullFlag {
				from, count = 1, most
			}
			if from < 1 || from > most {
				t.Fatalf("seed %d is not one of the first %d", from, most)
			}
			failed := each(t, from, count, 1, nil)
			if failed == nil {
				t.Fatalf("nobody noticed in %d seeds from %d", count, from)
			}
			t.Logf("seed %d: %s: %s", failed.Seed, failed.Failure, failed.Detail)
		})
	}
}

// TestShrink: what is left of a failing world fails in the same way, has
// nothing that it had not, and tells a story that names the failure.
func TestShrink(t *testing.T) {
	sabotage.Do(t, sabotage.FreeBeforeLedger)
	failed := Run(t, Options{Seed: found[sabotage.FreeBeforeLedger]})
	if failed.Failure == "" {
		t.Fatal("nothing failed that could be made smaller")
	}
	small := Shrink(t, failed)
	if small.Failure != failed.Failure {
		t.Errorf("%q became %q", failed.Failure, small.Failure)
	}
	if small.Faults&^failed.Faults != 0 || small.Nodes > failed.Nodes || small.Buyers > failed.Buyers {
		t.Errorf("%d nodes, %d buyers, %s became %d nodes, %d buyers, %s",
			failed.Nodes, failed.Buyers, failed.Faults, small.Nodes, small.Buyers, small.Faults)
	}
	if small.Faults == failed.Faults && small.Nodes == failed.Nodes && small.Buyers == failed.Buyers {
		t.Error("nothing became less")
	}
	story := small.Story()
	if again := Run(t, small.Options); again.Hash != small.Hash || again.Story() != story {
		t.Errorf("told again it is another story:\n%s\n%s", story, again.Story())
	}
	if lines := strings.Count(story, "\n"); !strings.HasPrefix(story, small.Failure+": ") || lines < 5 || lines > storyLines+4 {
		t.Errorf("a story of %d lines:\n%s", lines, story)
	}
	t.Log("\n" + story)
}

// TestSeed tells of one seed: make simulate SEED=7.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		*seedFlag = 1
	}
	r := Run(t, Options{Seed: *seedFlag, Trace: true})
	if r.Failure != "" {
		report(t, &r)
		return
	}
	if testing.Verbose() {
		t.Logf("%s\n%s", r.Faults, r.Story())
	}
}

// TestExplore runs seeds until it is stopped: make simulate.
func TestExplore(t *testing.T) {
	if *forFlag == 0 {
		return // TestWorlds has run some
	}
	begun := time.Now()
	var stop atomic.Bool
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	defer close(signals)
	go func() {
		if _, ok := <-signals; ok {
			stop.Store(true)
		}
	}()
	from, failures := *fromFlag, 0
	var worlds, steps, orders int
	said := time.Now()
	say := func() {
		said = time.Now()
		fmt.Printf("%8d worlds, %.1f a second, %d calls, %d orders, %d failures; next is seed %d\n",
			worlds, float64(worlds)/time.Since(begun).Seconds(), steps, orders, failures, from)
	}
	for !stop.Load() && (*forFlag < 0 || time.Since(begun) < *forFlag) && failures < 10 {
		r := Run(t, Options{Seed: from})
		worlds, steps, orders, from = worlds+1, steps+r.Steps, orders+r.Orders, from+*strideFlag
		if r.Failure != "" {
			failures++
			fmt.Printf("seed %d fails: %s: %s\n", r.Seed, r.Failure, r.Detail)
			report(t, &r)
		}
		if time.Since(said) > 10*time.Second {
			say()
		}
	}
	say()
}
