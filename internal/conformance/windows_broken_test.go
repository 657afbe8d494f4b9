package conformance

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// plainWindows remembers every attempt and counts. Its flaws make it wrong.
type plainWindows struct {
	clock *testkit.FakeClock
	flaw  string
	mu    sync.Mutex
	made  map[string][]time.Time
}

func (w *plainWindows) Attempt(_ context.Context, name string, most int, span time.Duration) (time.Duration, error) {
	if (most < 1 || span <= 0) && w.flaw != "lets anything through" {
		return 0, errors.New("a window that cannot be")
	}
	switch w.flaw {
	case "one name for all":
		name = ""
	case "folds case":
		name = strings.ToLower(name)
	case "trims names":
		name = strings.TrimSpace(name)
	case "cuts names":
		name = name[:min(len(name), 1000)]
	case "cuts at NUL":
		name, _, _ = strings.Cut(name, "\x00")
	case "counts by most":
		name += string(rune(most))
	case "lets one more through":
		most++
	case "lets one fewer through":
		most--
	case "lets anything through":
		return 0, nil
	}
	now := w.clock.Now()
	w.mu.Lock()
	made := w.made[name]
	if w.flaw == "check then act" {
		w.mu.Unlock()
		runtime.Gosched()
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if n := len(made); n > 0 && now.Before(made[n-1]) && w.flaw != "believes the clock" {
		if made[n-1].Sub(now) > span {
			made = nil
		} else {
			now = made[n-1]
		}
	}
	from := now.Add(-span)
	switch w.flaw {
	case "fixed windows":
		from = now.Truncate(span).Add(-1)
	case "ends late":
		from = from.Add(-1)
	case "ends early":
		from = from.Add(time.Millisecond)
	case "never forgets":
		from = time.Time{}
	}
	count := 0
	for _, at := range made {
		if at.After(from) {
			count++
		}
	}
	passes := count < most
	if passes || w.flaw != "refused attempts do not count" {
		made = append(made, now)
		w.made[name] = made
	}
	if passes {
		return 0, nil
	}
	switch w.flaw {
	case "says a span":
		return span, nil
	case "says when the oldest leaves":
		return made[max(0, len(made)-1-count)].Add(span).Sub(w.clock.Now()), nil // of those counted
	case "says nothing new":
		return time.Nanosecond, nil
	}
	return made[min(len(made)-1, max(0, len(made)-most))].Add(span).Sub(w.clock.Now()), nil
}

func plainFactory(flaw string) WindowsFactory {
	return func(t TB) Windows {
		clock := testkit.NewFakeClock(time.Date(2026, 5, 1, 18, 0, 0, 0, time.UTC))
		w := &plainWindows{clock: clock, flaw: flaw, made: map[string][]time.Time{}}
		other := w
		if flaw == "each node counts for itself" {
			other = &plainWindows{clock: clock, made: map[string][]time.Time{}}
		}
		return Windows{Nodes: []seatflow.RateWindows{w, other}, Now: clock.Now,
			Advance: func(d time.Duration) { clock.Advance(d) }, Back: func(d time.Duration) { clock.Advance(-d) }}
	}
}

func TestPlainWindowsPass(t *testing.T) { RateWindows(t, plainFactory("")) }

func TestBrokenWindowsAreNoticed(t *testing.T) {
	for flaw, by := range map[string]string{
		"one name for all":              "names do not know each other",
		"folds case":                    "strange names",
		"trims names":                   "strange names",
		"cuts names":                    "strange names",
		"cuts at NUL":                   "strange names",
		"counts by most":                "another most under the same name",
		"lets one more through":         "passes until most, then says when",
		"lets one fewer through":        "passes until most, then says when",
		"lets anything through":         "refuses a window that cannot be",
		"check then act":                "exact among 200 callers",
		"believes the clock":            "a clock that is set back",
		"fixed windows":                 "slides",
		"ends late":                     "passes when it said, and not before",
		"ends early":                    "passes when it said, and not before",
		"never forgets":                 "idle names start afresh",
		"refused attempts do not count": "refused attempts count",
		"says a span":                   "passes when it said, and not before",
		"says when the oldest leaves":   "any sequence",
		"says nothing new":              "passes until most, then says when",
		"each node counts for itself":   "one count on all nodes",
	} {
		t.Run(flaw, func(t *testing.T) {
			noticed := false
			for _, c := range windowCases {
				complaints := observe(t.Context(), func(t TB) { c.check(t, plainFactory(flaw)) })
				noticed = noticed || c.name == by && len(complaints) > 0
			}
			if !noticed {
				t.Errorf("the case %q did not notice", by)
			}
		})
	}
}
