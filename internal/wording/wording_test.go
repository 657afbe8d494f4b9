package wording

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"seatflow"
)

// TestEveryCodeHasWords: each code and reason is in the catalogue in every
// language, and nothing else is.
func TestEveryCodeHasWords(t *testing.T) {
	for _, code := range seatflow.Codes {
		for _, table := range []map[seatflow.Code]Text{Titles, Details} {
			checkWords(t, fmt.Sprint("code ", code), table[code])
		}
	}
	all := append(slices.Clone(seatflow.Reasons[:]), TransportReasons[:]...)
	for _, reason := range all {
		checkWords(t, "reason "+string(reason), Reasons[reason])
	}
	if len(Titles) != len(seatflow.Codes) || len(Details) != len(seatflow.Codes) || len(Reasons) != len(all) {
		t.Errorf("%d titles, %d details and %d reasons for %d codes and %d reasons",
			len(Titles), len(Details), len(Reasons), len(seatflow.Codes), len(all))
	}
	for _, state := range []seatflow.OrderState{seatflow.OrderPending, seatflow.OrderPaid, seatflow.OrderCancelled, seatflow.OrderExpired,
		seatflow.OrderRefunded, seatflow.OrderVoid, seatflow.OrderBlocked} {
		checkWords(t, "state "+string(state), OrderStates[string(state)])
	}
}

func checkWords(t *testing.T, what string, words Text) {
	t.Helper()
	if words[English] == "" || words[Chinese] == "" {
		t.Errorf("%s has no words: %q", what, words)
	}
	han := func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Han, r) })
	}
	if han(words[English]) || !han(words[Chinese]) {
		t.Errorf("%s: words in the wrong language: %q", what, words)
	}
	if strings.ContainsAny(words[English]+words[Chinese], "\"\\\n") {
		t.Errorf("%s: words that need escaping: %q", what, words)
	}
	// Both languages have the same places to fill.
	for _, place := range []string{"{0}", "{1}", "{field}"} {
		if strings.Contains(words[English], place) != strings.Contains(words[Chinese], place) {
			t.Errorf("%s: %s is in one language only: %q", what, place, words)
		}
	}
}

func TestMatcherForgetsRatherThanGrows(t *testing.T) {
	var m Matcher
	for i := range 3 * languageCacheMost {
		m.Of(fmt.Sprintf("zh;q=0.%d", i))
	}
	if n := len(m.known); n > languageCacheMost {
		t.Errorf("%d headers are remembered", n)
	}
	if got := m.Of("fr, zh-CN;q=0.7"); got != Chinese {
		t.Errorf("got %d", got)
	}
}

func TestWhatIsShown(t *testing.T) {
	for name, tc := range map[string]struct {
		err      error
		code     seatflow.Code
		internal bool
	}{
		"not there":   {seatflow.ErrNotFound, seatflow.CodeNotFound, false},
		"unknown":     {seatflow.ErrUnknownCommit, seatflow.CodeNotReady, true},
		"not ready":   {seatflow.ErrNotReady, seatflow.CodeNotReady, false},
		"deadline":    {context.DeadlineExceeded, seatflow.CodeNotReady, false},
		"own":         {&seatflow.Error{Code: seatflow.CodeSeatsTaken}, seatflow.CodeSeatsTaken, false},
		"system":      {&seatflow.Error{Code: seatflow.CodeSystem}, seatflow.CodeSystem, true},
		"not ours":    {errors.New("disk on fire"), seatflow.CodeSystem, true},
		"wrapped":     {fmt.Errorf("reading: %w", seatflow.ErrNotFound), seatflow.CodeNotFound, false},
		"wrong state": {seatflow.ErrWrongState, seatflow.CodeWrongState, false},
	} {
		e, internal := Shown(tc.err)
		if e.Code != tc.code || internal != tc.internal {
			t.Errorf("%s: %d, internal %v", name, e.Code, internal)
		}
	}
}
