package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"seatflow"
	"seatflow/bench/strategies/plain"
	"seatflow/internal/auth"
	"seatflow/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake answers as it is told and keeps what it was asked.
type fake struct {
	err   error
	asked plain.Request
}

func (f *fake) Order(_ context.Context, r plain.Request) (plain.Order, error) {
	f.asked = r
	return plain.Order{No: "01HZX000000000000000000001", Show: r.Show, User: r.User, Seats: r.Seats, Deadline: time.Unix(1, 0).UTC()}, f.err
}

func (f *fake) Healthy(context.Context) error { return f.err }

func newTokens(t *testing.T) (*auth.Tokens, string) {
	t.Helper()
	tokens, err := auth.NewTokens([]byte(strings.Repeat("s", auth.MinSecretLen)), nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := tokens.Mint("ann", seatflow.RoleBuyer, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return tokens, token
}

func post(h http.Handler, token, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/orders", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnswers(t *testing.T) {
	tokens, token := newTokens(t)
	const body = `{"showId":3,"seats":[7,8]}`
	for name, c := range map[string]struct {
		token, body string
		err         error
		status      int
		has         string
	}{
		"created":     {token, body, nil, 201, `"seats":[7,8]`},
		"taken":       {token, body, &plain.TakenError{Seats: []int{8}}, 409, `"seats":[8]`},
		"over rate":   {token, body, plain.ErrRate, 429, `1029`},
		"invalid":     {token, body, plain.ErrInvalid, 400, `1000`},
		"key used":    {token, body, plain.ErrKeyUsed, 422, `1004`},
		"broken":      {token, body, errors.New("broken"), 500, `2000`},
		"bad token":   {token + "x", body, nil, 401, `1001`},
		"no token":    {"", body, nil, 401, `1001`},
		"no JSON":     {token, `{"showId":`, nil, 400, `1000`},
		"unknown":     {token, `{"showId":3,"seats":[1],"x":1}`, nil, 400, `1000`},
		"two of them": {token, body + body, nil, 400, `1000`},
		"too long":    {token, `{"showId":3,"seats":[` + strings.Repeat("1,", mostBody) + `1]}`, nil, 400, `1000`},
	} {
		t.Run(name, func(t *testing.T) {
			w := post(handler(&fake{err: c.err}, tokens), c.token, "k", c.body)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.has) {
				t.Errorf("%d %s, want %d with %s", w.Code, w.Body, c.status, c.has)
			}
		})
	}
}

// The header's key goes before the body's, and the user is the token's.
func TestAsks(t *testing.T) {
	tokens, token := newTokens(t)
	f := &fake{}
	post(handler(f, tokens), token, "head", `{"showId":3,"seats":[7],"idempotencyKey":"body"}`)
	if f.asked.User != "ann" || f.asked.Show != 3 || f.asked.Key != "head" || len(f.asked.Seats) != 1 {
		t.Errorf("%+v", f.asked)
	}
	post(handler(f, tokens), token, "", `{"showId":3,"seats":[7],"idempotencyKey":"body"}`)
	if f.asked.Key != "body" {
		t.Errorf("%+v", f.asked)
	}
}

func TestReady(t *testing.T) {
	tokens, _ := newTokens(t)
	for _, c := range []struct {
		err    error
		status int
	}{{nil, 200}, {errors.New("down"), 503}} {
		w := httptest.NewRecorder()
		handler(&fake{err: c.err}, tokens).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != c.status {
			t.Errorf("%v: %d", c.err, w.Code)
		}
	}
}

// The whole program's parts on real servers: one order, one conflict.
func TestOnRealServers(t *testing.T) {
	store, err := plain.Open(t.Context(), plain.Options{Redis: testkit.SharedRedis(t).Addr(), MySQL: testkit.SharedMariaDB(t).NewDatabase(t), Conns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.OpenShow(t.Context(), 1, 10); err != nil {
		t.Fatal(err)
	}
	tokens, token := newTokens(t)
	h := handler(store, tokens)
	var a answer
	w := post(h, token, "one", `{"showId":1,"seats":[4]}`)
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusCreated || a.User != "ann" || a.State != "pending" || len(a.No) != 26 {
		t.Errorf("%d %s %v", w.Code, w.Body, err)
	}
	if w := post(h, token, "two", `{"showId":1,"seats":[4]}`); w.Code != http.StatusConflict {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestTokens(t *testing.T) {
	tokens, _ := newTokens(t)
	path := filepath.Join(t.TempDir(), "tokens")
	if err := writeTokens(tokens, path, 3); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	if len(lines) != 3 {
		t.Fatalf("%d tokens", len(lines))
	}
	if who, err := tokens.Verify(lines[2]); err != nil || who.User != "buyer-002" {
		t.Errorf("%+v, %v", who, err)
	}
}
