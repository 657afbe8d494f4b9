package simulate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shuffles is how many orders of events a smaller world is tried in: one with
// a fault less has other things happen at other times.
const shuffles = 25

// Shrink runs a world that fails with less, and returns the smallest one found
// that fails in the same way, with its trace. Options that are the same give
// the same one.
func Shrink(t *testing.T, failed Result) Result {
	t.Helper()
	best := failed
	try := func(o Options) bool {
		for o.Shuffle = range uint64(shuffles) {
			if r := Run(t, o); r.Failure == failed.Failure {
				best = r
				return true
			}
		}
		return false
	}
	base := failed.Options
	base.Trace = false
	for fault := Fault(1); fault < 1<<faultCount; fault <<= 1 {
		if failed.Faults&fault != 0 {
			o := base
			o.Without |= fault
			if try(o) {
				base = best.Options
			}
		}
	}
	for _, less := range []func(*Options, int){func(o *Options, n int) { o.Nodes = n }, func(o *Options, n int) { o.Buyers = n }} {
		for n := 1; n < 4; n++ {
			o := base
			less(&o, n)
			if (o.Nodes == 0 || o.Nodes <= best.Nodes) && (o.Buyers == 0 || o.Buyers <= best.Buyers) && try(o) {
				base = best.Options
				break
			}
		}
	}
	base.Trace = true
	return Run(t, base)
}

var (
	orderNo = regexp.MustCompile(`0{12,}([0-9]+)`)
	ofNodes = regexp.MustCompile(`^ *[0-9.]+s +(n\d+|watcher\d+)/? ?`)
	isPoll  = regexp.MustCompile(" (Snapshot|Changes|Identity|Outbox|Shows|Rotation|DueRefunds|ClaimDue) *$")
)

// storyLines is how long a story may be.
const storyLines = 60

// Story tells what failed, in which world, and the events that lead there:
// what went wrong by itself, and the calls about the orders that the failure
// names. It wants a trace.
func (r *Result) Story() string {
	var b strings.Builder
	if r.Failure == "" {
		fmt.Fprintf(&b, "nothing failed in %d calls and %d orders\n", r.Steps, r.Orders)
	} else {
		fmt.Fprintf(&b, "%s: %s\n", r.Failure, short(r.Detail))
	}
	fmt.Fprintf(&b, "in a world of %d nodes and %d buyers with %s (order of events %d):\n", r.Nodes, r.Buyers, r.Faults, r.Shuffle)
	names := orderNo.FindAllString(r.Detail, -1)
	var told []string
	for _, line := range r.Trace {
		switch {
		case slices.ContainsFunc(names, func(no string) bool { return strings.Contains(line, no) }):
		case !ofNodes.MatchString(line):
		case len(names) == 0 && !isPoll.MatchString(line):
		case slices.ContainsFunc(fateNames[1:], func(f string) bool { return strings.HasSuffix(line, " "+f) }):
		default:
			continue
		}
		told = append(told, short(line))
	}
	if n := len(told) - storyLines; n > 0 {
		fmt.Fprintf(&b, "(%d before)\n", n)
		told = told[n:]
	}
	for _, line := range told {
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	return b.String()
}

// short writes order numbers as people would.
func short(s string) string { return orderNo.ReplaceAllString(s, "#$1") }
