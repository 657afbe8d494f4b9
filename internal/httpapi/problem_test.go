package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/wording"
)

// TestEveryFailureIsRendered asks for each code and each reason in each
// language and reads what comes.
func TestEveryFailureIsRendered(t *testing.T) {
	s := newServer(t)
	args := []any{"first", 2}
	for l, tag := range wording.Tags {
		check := func(e *seatflow.Error) {
			t.Helper()
			s.err = e
			a := s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer", "Accept-Language: "+tag)
			a.name = fmt.Sprintf("%d %s %s", e.Code, e.Reason, tag)
			p := a.is(statusOf(e)).problem(e.Code, e.Reason)
			if p.Title != wording.Titles[e.Code][l] || a.Header().Get("Content-Language") != tag || a.Header().Get("Vary") != "Accept-Language" {
				t.Errorf("%s: title %q, headers %v", a.name, p.Title, a.Header())
			}
			if strings.Contains(p.Detail, "{") || strings.Contains(p.Detail, "?") {
				t.Errorf("%s: a place is not filled: %q", a.name, p.Detail)
			}
			retry := a.Header().Get("Retry-After")
			if wants := a.Code == 503 || a.Code == 429; wants != (retry != "") {
				t.Errorf("%s: status %d, Retry-After %q", a.name, a.Code, retry)
			}
			if challenge := a.Header().Get("Www-Authenticate"); (a.Code == 401) != (challenge != "") {
				t.Errorf("%s: status %d, challenge %q", a.name, a.Code, challenge)
			}
		}
		for _, code := range seatflow.Codes {
			check(&seatflow.Error{Code: code})
		}
		for _, reason := range slices.Concat(seatflow.Reasons[:], wording.TransportReasons[:]) {
			check(&seatflow.Error{Code: seatflow.CodeInvalid, Reason: reason, Field: "a.b", Args: args})
		}
	}
	s.err = &seatflow.Error{Code: seatflow.CodeOverLimit, Reason: seatflow.ReasonOverLimit, Args: []any{6, 2}}
	p := s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer").is(409).problem(seatflow.CodeOverLimit, seatflow.ReasonOverLimit)
	if p.Left == nil || *p.Left != 2 || p.Detail != "The limit is 6 seats per person; you may take 2 more." {
		t.Errorf("over limit: %+v", p)
	}
	s.err = &seatflow.Error{Code: seatflow.CodeNotReady, RetryAfter: 2500 * time.Millisecond}
	if got := s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer").is(503).Header().Get("Retry-After"); got != "3" {
		t.Errorf("Retry-After %q, want 3", got)
	}
}

func TestInternalErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		code   seatflow.Code
		reason seatflow.Reason
		logged bool
	}{
		"other":            {errors.New("secret"), seatflow.CodeSystem, "", true},
		"system":           {&seatflow.Error{Code: seatflow.CodeSystem, Reason: "x", Args: []any{"secret"}, Err: errors.New("secret")}, seatflow.CodeSystem, "", true},
		"not found":        {fmt.Errorf("secret: %w", seatflow.ErrNotFound), seatflow.CodeNoShow, "", false},
		"wrong state":      {seatflow.ErrWrongState, seatflow.CodeWrongState, seatflow.ReasonVersion, false},
		"not ready":        {seatflow.ErrNotReady, seatflow.CodeNotReady, seatflow.ReasonRebuilding, false},
		"not committed":    {fmt.Errorf("secret: %w", seatflow.ErrNotCommitted), seatflow.CodeNotReady, seatflow.ReasonLedgerDown, true},
		"unknown commit":   {fmt.Errorf("secret: %w", seatflow.ErrUnknownCommit), seatflow.CodeNotReady, seatflow.ReasonOutcomeUnknown, true},
		"unknown outcome":  {fmt.Errorf("secret: %w", seatflow.ErrUnknownOutcome), seatflow.CodeNotReady, seatflow.ReasonOutcomeUnknown, true},
		"not executed":     {fmt.Errorf("secret: %w", seatflow.ErrNotExecuted), seatflow.CodeNotReady, "", true},
		"deadline":         {context.DeadlineExceeded, seatflow.CodeNotReady, reasonUnfinished, false},
		"cause of a code":  {&seatflow.Error{Code: seatflow.CodeInFlight, Err: errors.New("secret")}, seatflow.CodeInFlight, "", false},
		"bad callback":     {seatflow.ErrBadSignature, seatflow.CodeUnauthorized, seatflow.ReasonBadSignature, false},
		"oversized reader": {&http.MaxBytesError{Limit: 5}, seatflow.CodeInvalid, reasonTooLarge, false},
	} {
		s := newServer(t)
		s.err = tc.err
		a := s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer")
		a.name = name
		p := a.problem(tc.code, tc.reason)
		if strings.Contains(a.Body.String(), "secret") {
			t.Errorf("%s: the answer tells a secret: %s", name, a.Body)
		}
		errorLines := strings.Count(s.logs.String(), "level=ERROR")
		if want := map[bool]int{true: 1}[tc.logged]; errorLines != want {
			t.Errorf("%s: %d error lines, want %d:\n%s", name, errorLines, want, s.logs)
		}
		if tc.logged && (!strings.Contains(s.logs.String(), p.TraceID) || !strings.Contains(s.logs.String(), "secret")) {
			t.Errorf("%s: the log does not tell the cause with its trace:\n%s", name, s.logs)
		}
	}
}

func TestPanics(t *testing.T) {
	s := newServer(t)
	s.panics = "secret"
	a := s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer").is(500)
	a.problem(seatflow.CodeSystem, "")
	if strings.Contains(a.Body.String(), "secret") || strings.Count(s.logs.String(), "panic: secret") != 1 {
		t.Errorf("answer %s\nlog %s", a.Body, s.logs)
	}
	s.panics = nil
	s.do("POST /api/v1/orders", `{"showId":1,"seats":[1]}`, "buyer").is(201)

	// After half an answer only a cut connection is honest.
	s = newServer(t, func(o *Options) {
		o.Pages = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("half"))
			panic("secret")
		})
	})
	server := httptest.NewServer(s.api)
	defer server.Close()
	res, err := server.Client().Get(server.URL + "/")
	if err == nil {
		defer res.Body.Close()
		if _, err = res.Body.Read(make([]byte, 100)); err == nil {
			_, err = res.Body.Read(make([]byte, 100))
		}
	}
	if err == nil {
		t.Error("half an answer looks whole")
	}
}

func TestLanguages(t *testing.T) {
	s := newServer(t)
	for header, want := range map[string]string{
		"": "en", "en": "en", "zh": "zh", "zh-CN": "zh", "zh-TW,zh;q=0.8": "zh", "zh-Hans-SG": "zh", "de": "en", "*": "en",
		"en-GB,zh;q=0.5": "en", "zh;q=0.9,en;q=0.5": "zh", "fr, zh-CN;q=0.7": "zh", "rubbish;;;": "en", "q=,": "en",
		strings.Repeat("zh,", 200): "en",
	} {
		for range 2 {
			if got := s.do("GET /api/v1/nothing", "", "Accept-Language: "+header).is(404).Header().Get("Content-Language"); got != want {
				t.Errorf("%q: %s, want %s", wording.Clip(header), got, want)
			}
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	s := newServer(t)
	for _, path := range []string{"/api/v1/nothing", "/api/", "/api/v2/shows", "/api/v1/shows/1/nothing", "/docs/other.js"} {
		for _, method := range []string{"GET", "POST", "DELETE", "PUT"} {
			s.do(method+" "+path, "").is(404).problem(seatflow.CodeNotFound, "")
		}
	}
	for what, allow := range map[string]string{
		"DELETE /api/v1/orders": "GET, HEAD, POST", "PUT /api/v1/shows": "GET, HEAD", "GET /api/v1/guests": "POST",
		"POST /livez": "GET, HEAD", "OPTIONS /api/v1/orders": "GET, HEAD, POST", "DELETE /api/v1/admin/shows/1": "PATCH",
		"BREW /api/v1/shows/1/seats": "GET, HEAD", "POST /openapi.json": "GET, HEAD",
	} {
		a := s.do(what, "").is(405)
		a.problem(seatflow.CodeInvalid, reasonMethod)
		if got := a.Header().Get("Allow"); got != allow {
			t.Errorf("%s: Allow %q, want %q", what, got, allow)
		}
	}
	if got := s.do("GET /shows/1", "").is(200).Body.String(); got != "page /shows/1" {
		t.Errorf("page: %q", got)
	}
	bare := newServer(t, func(o *Options) { o.Pages = nil })
	bare.do("GET /shows/1", "").is(404).problem(seatflow.CodeNotFound, "")
}

func TestLongTextsAreClipped(t *testing.T) {
	s := newServer(t)
	name := strings.Repeat("é", 5000)
	a := s.do("POST /api/v1/orders", `{"`+name+`":1}`, "buyer").is(400)
	p := a.problem(seatflow.CodeInvalid, seatflow.ReasonField)
	if a.Body.Len() > 2000 || !strings.HasPrefix(p.Field, "éé") {
		t.Errorf("%d bytes, field %q", a.Body.Len(), p.Field)
	}
}
