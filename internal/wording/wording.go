// Package wording is what callers are told of a failure, in their language,
// whichever transport they use.
//
// # State model
//
// Tables of sentences by code and reason, in English and Chinese, and [Shown],
// which finds the *seatflow.Error that stands for an error. A [Matcher]
// remembers which language a caller's header asks for; the rest is constant.
//
// # Failure
//
// An error that nothing is known of is shown as a system error without
// details. A reason without words falls back to its code's.
package wording

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/language"

	"seatflow"
)

// Shown returns what a caller is told about err, and whether err is internal
// and so has to be logged.
func Shown(err error) (e *seatflow.Error, internal bool) {
	if errors.As(err, &e) {
		return e, e.Code == seatflow.CodeSystem
	}
	switch {
	case errors.Is(err, seatflow.ErrNotFound):
		return &seatflow.Error{Code: seatflow.CodeNotFound}, false
	case errors.Is(err, seatflow.ErrWrongState):
		return &seatflow.Error{Code: seatflow.CodeWrongState, Reason: seatflow.ReasonVersion}, false
	case errors.Is(err, seatflow.ErrBadSignature):
		return &seatflow.Error{Code: seatflow.CodeUnauthorized, Reason: seatflow.ReasonBadSignature}, false
	case errors.Is(err, seatflow.ErrNotReady):
		return &seatflow.Error{Code: seatflow.CodeNotReady, Reason: seatflow.ReasonRebuilding}, false
	case errors.Is(err, seatflow.ErrNotCommitted):
		return &seatflow.Error{Code: seatflow.CodeNotReady, Reason: seatflow.ReasonLedgerDown, Err: err}, true
	case errors.Is(err, seatflow.ErrUnknownCommit), errors.Is(err, seatflow.ErrUnknownOutcome):
		return &seatflow.Error{Code: seatflow.CodeNotReady, Reason: seatflow.ReasonOutcomeUnknown, Err: err}, true
	case errors.Is(err, seatflow.ErrNotExecuted):
		return &seatflow.Error{Code: seatflow.CodeNotReady, Err: err}, true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &seatflow.Error{Code: seatflow.CodeNotReady, Reason: ReasonUnfinished}, false
	}
	return &seatflow.Error{Code: seatflow.CodeSystem, Err: err}, true
}

// Detail words a failure that has a reason. A reason that nobody has put
// into words falls back to its code.
func Detail(e *seatflow.Error, l Lang) string {
	t, ok := Reasons[e.Reason]
	if !ok {
		return Details[e.Code][l]
	}
	s := t[l]
	if !strings.Contains(s, "{") {
		return s
	}
	arg := func(i int) string {
		if i >= len(e.Args) {
			return "?"
		}
		if at, ok := e.Args[i].(time.Time); ok {
			return at.UTC().Format(time.RFC3339)
		}
		word := fmt.Sprint(e.Args[i])
		if state, ok := OrderStates[word]; ok && e.Reason == seatflow.ReasonOrderState {
			return state[l]
		}
		return Clip(word)
	}
	return strings.NewReplacer("{field}", Clip(e.Field), "{0}", arg(0), "{1}", arg(1)).Replace(s)
}

// Clip keeps what a caller sent from filling the answer.
func Clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// matcher finds the best of our languages for a caller.
var matcher = language.NewMatcher([]language.Tag{language.English, language.Chinese})

// Matcher remembers what Accept-Language headers mean: browsers send a
// few hundred different ones, and matching costs more than a conflict.
type Matcher struct {
	mu    sync.RWMutex
	known map[string]Lang
}

const (
	languageCacheMost = 512
	languageHeaderMax = 256 // longer ones are not worth reading
)

// Of returns the language to answer in; English when the header says nothing
// that we understand.
func (c *Matcher) Of(header string) Lang {
	if header == "" || len(header) > languageHeaderMax {
		return English
	}
	c.mu.RLock()
	l, ok := c.known[header]
	c.mu.RUnlock()
	if ok {
		return l
	}
	if tags, _, err := language.ParseAcceptLanguage(header); err == nil {
		if _, i, confidence := matcher.Match(tags...); confidence > language.No {
			l = Lang(i)
		}
	}
	c.mu.Lock()
	if c.known == nil || len(c.known) >= languageCacheMost {
		c.known = make(map[string]Lang)
	}
	c.known[strings.Clone(header)] = l
	c.mu.Unlock()
	return l
}
