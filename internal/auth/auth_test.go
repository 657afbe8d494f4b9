package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"seatflow"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

// handClock is moved by the test.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
}

func newTokens(t testing.TB) (*Tokens, *handClock) {
	t.Helper()
	clock := &handClock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	tokens, err := NewTokens(secret, clock)
	if err != nil {
		t.Fatal(err)
	}
	return tokens, clock
}

// good is a set of claims that is accepted, for tests to spoil.
func good(now time.Time) jwt.MapClaims {
	return jwt.MapClaims{
		"iss": Issuer, "aud": Audience, "sub": "ann", "role": "buyer",
		"exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(), "iat": now.Unix(),
	}
}

func sign(t testing.TB, method jwt.SigningMethod, c jwt.Claims, key any) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, c).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestMintVerify(t *testing.T) {
	tokens, clock := newTokens(t)
	for _, role := range []seatflow.Role{seatflow.RoleBuyer, seatflow.RoleKiosk, seatflow.RoleStaff, seatflow.RoleAdmin} {
		token, minted, err := tokens.Mint("ann", role, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // parsed, then remembered
			got, err := tokens.Verify(token)
			if err != nil {
				t.Fatal(err)
			}
			if got != minted {
				t.Errorf("verified %+v, minted %+v", got, minted)
			}
		}
		if want := clock.Now().Add(time.Hour); !minted.Expires.Equal(want) {
			t.Errorf("expires %v, want %v", minted.Expires, want)
		}
	}
	if got := tokens.cache.size(); got != 4 {
		t.Errorf("%d tokens remembered, want 4", got)
	}
}

func TestMintRefuses(t *testing.T) {
	tokens, _ := newTokens(t)
	for name, mint := range map[string]func() (string, Principal, error){
		"empty user":   func() (string, Principal, error) { return tokens.Mint("", seatflow.RoleBuyer, time.Hour) },
		"space":        func() (string, Principal, error) { return tokens.Mint("a b", seatflow.RoleBuyer, time.Hour) },
		"unknown role": func() (string, Principal, error) { return tokens.Mint("ann", "owner", time.Hour) },
		"no time":      func() (string, Principal, error) { return tokens.Mint("ann", seatflow.RoleBuyer, 0) },
	} {
		if token, _, err := mint(); err == nil || token != "" {
			t.Errorf("%s: minted %q, %v", name, token, err)
		}
	}
	if _, err := NewTokens(secret[:31], nil); err == nil {
		t.Error("a secret of 31 bytes is accepted")
	}
}

func TestGuestsDiffer(t *testing.T) {
	tokens, _ := newTokens(t)
	seen := map[seatflow.UserID]bool{}
	for range 100 {
		token, p, err := tokens.Guest(time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(p.User), "guest-") || p.Role != seatflow.RoleBuyer || seen[p.User] {
			t.Fatalf("guest %+v", p)
		}
		seen[p.User] = true
		if got, err := tokens.Verify(token); err != nil || got.User != p.User {
			t.Fatalf("guest's token: %+v, %v", got, err)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	tokens, clock := newTokens(t)
	now := clock.Now()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name string, value any) string {
		c := good(now)
		if value == nil {
			delete(c, name)
		} else {
			c[name] = value
		}
		return sign(t, jwt.SigningMethodHS256, c, secret)
	}
	whole := with("sub", "ann")
	parts := strings.Split(whole, ".")
	other := strings.Split(with("sub", "bob"), ".")

	cases := map[string]string{
		"empty":           "",
		"rubbish":         "rubbish",
		"two parts":       parts[0] + "." + parts[1],
		"alg none":        sign(t, jwt.SigningMethodNone, good(now), jwt.UnsafeAllowNoneSignatureType),
		"alg RS256":       sign(t, jwt.SigningMethodRS256, good(now), rsaKey),
		"alg HS512":       sign(t, jwt.SigningMethodHS512, good(now), secret),
		"another secret":  sign(t, jwt.SigningMethodHS256, good(now), []byte("another secret of the same length")),
		"expired":         with("exp", now.Add(-time.Second).Unix()),
		"expires now":     with("exp", now.Unix()),
		"no expiry":       with("exp", nil),
		"not yet":         with("nbf", now.Add(time.Minute).Unix()),
		"wrong issuer":    with("iss", "someone"),
		"no issuer":       with("iss", nil),
		"wrong audience":  with("aud", "someone"),
		"no audience":     with("aud", nil),
		"no subject":      with("sub", nil),
		"bad subject":     with("sub", "two words"),
		"long subject":    with("sub", strings.Repeat("a", 65)),
		"no role":         with("role", nil),
		"unknown role":    with("role", "owner"),
		"role of a type":  with("role", 7),
		"swapped claims":  parts[0] + "." + other[1] + "." + parts[2],
		"cut signature":   whole[:len(whole)-2],
		"padded":          whole + "=",
		"trailing dot":    whole + ".",
		"four parts":      whole + ".x",
		"invalid UTF-8":   whole + "\xff",
		"oversized":       with("pad", strings.Repeat("x", MaxTokenLen)),
		"oversized dots":  strings.Repeat(".", 1<<20),
		"oversized blank": strings.Repeat(" ", MaxTokenLen+1),
	}
	for name, token := range cases {
		p, err := tokens.Verify(token)
		var e *seatflow.Error
		if !errors.As(err, &e) || e.Code != seatflow.CodeUnauthorized || e.Err == nil || p != (Principal{}) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if got := tokens.cache.size(); got != 0 {
		t.Errorf("%d refused tokens are remembered", got)
	}
	// The control: what the cases spoil is accepted whole.
	if _, err := tokens.Verify(whole); err != nil {
		t.Errorf("unspoilt token: %v", err)
	}
	if _, err := tokens.Verify(strings.Repeat("x", MaxTokenLen+1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("long token: %v, want ErrTooLong", err)
	}
}

func TestRememberedTokenExpires(t *testing.T) {
	tokens, clock := newTokens(t)
	token, _, err := tokens.Mint("ann", seatflow.RoleBuyer, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Verify(token); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Minute - time.Millisecond)
	if _, err := tokens.Verify(token); err != nil {
		t.Errorf("a moment before its end: %v", err)
	}
	clock.advance(time.Millisecond)
	if _, err := tokens.Verify(token); err == nil {
		t.Error("accepted at its end")
	}
	if got := tokens.cache.size(); got != 0 {
		t.Errorf("an expired token is still remembered (%d)", got)
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache(64)
	for i := range 10_000 {
		token := fmt.Sprint("token ", i)
		_, h := c.get(token)
		c.put(h, &verified{token: token, expires: 10}, 1)
		if v, _ := c.get(token); v == nil {
			t.Fatalf("token %d is not there just after it was put", i)
		}
	}
	if got := c.size(); got > 64 || got < 32 {
		t.Errorf("%d entries, want about 64 and no more", got)
	}
	// Expired ones make room first.
	s := &cacheShard{entries: map[uint64]*verified{1: {expires: 5}, 2: {expires: 50}, 3: {expires: 50}}}
	s.evict(10)
	if _, there := s.entries[1]; there || len(s.entries) != 2 {
		t.Errorf("evicted the wrong entries: %v", s.entries)
	}
}

func TestCacheCollisionIsAMiss(t *testing.T) {
	c := newCache(64)
	_, h := c.get("mine")
	c.put(h, &verified{token: "somebody else's", expires: 10}, 1)
	if v, _ := c.get("mine"); v != nil {
		t.Error("a token was answered with another's principal")
	}
}

func TestVerifyConcurrently(t *testing.T) {
	tokens, _ := newTokens(t)
	tokens.cache = newCache(16)
	var list []string
	for i := range 64 {
		token, _, err := tokens.Mint(seatflow.UserID(fmt.Sprint("user", i)), seatflow.RoleBuyer, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, token)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 256 {
				n := (i + g) % len(list)
				if p, err := tokens.Verify(list[n]); err != nil || p.User != seatflow.UserID(fmt.Sprint("user", n)) {
					t.Errorf("token %d: %+v, %v", n, p, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAccessTable(t *testing.T) {
	// Who may do what, once more and by hand, so that a slip in the table is
	// noticed.
	want := map[Action]string{
		ActionPublic:       "buyer kiosk staff admin",
		ActionOrderCreate:  "buyer kiosk staff admin",
		ActionOrderRead:    "buyer kiosk staff admin",
		ActionOrderReadAny: "staff admin",
		ActionOrderChange:  "buyer kiosk staff admin",
		ActionOrderPay:     "buyer kiosk staff admin",
		ActionOrderRefund:  "staff admin",
		ActionSeatsBlock:   "staff admin",
		ActionHouseRead:    "staff admin",
		ActionHouseWrite:   "staff admin",
		ActionPaymentsRead: "staff admin",
		ActionShowRebuild:  "admin",
		ActionVerify:       "admin",
		ActionReconcile:    "staff admin",
	}
	names := map[string]bool{}
	for _, a := range Actions() {
		var roles []string
		for _, r := range Roles(a) {
			roles = append(roles, string(r))
		}
		if got := strings.Join(roles, " "); got != want[a] {
			t.Errorf("%v: %q, want %q", a, got, want[a])
		}
		if a.String() == "" || names[a.String()] {
			t.Errorf("action %d has no name of its own", a)
		}
		names[a.String()] = true
	}
	if len(want) != len(Actions()) {
		t.Errorf("%d actions, %d expected", len(Actions()), len(want))
	}
	if Allowed("", ActionPublic) || Allowed("owner", ActionOrderCreate) || Allowed(seatflow.RoleAdmin, actionCount) {
		t.Error("an unknown role or action is allowed")
	}
}

func TestBearer(t *testing.T) {
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer abc": "abc", "BEARER  abc ": "abc",
		"": "", "Bearer": "", "Bearer ": "", "Basic abc": "", "abc": "", "Bearerabc": "",
	} {
		if got := Bearer(header); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

func BenchmarkVerifyRemembered(b *testing.B) {
	tokens, err := NewTokens(secret, nil)
	if err != nil {
		b.Fatal(err)
	}
	token, _, err := tokens.Mint("guest-abcdefghijklmnopqrstuvwxyz", seatflow.RoleBuyer, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokens.Verify(token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyNew(b *testing.B) {
	tokens, err := NewTokens(secret, nil)
	if err != nil {
		b.Fatal(err)
	}
	token, _, err := tokens.Mint("guest-abcdefghijklmnopqrstuvwxyz", seatflow.RoleBuyer, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, h := tokens.cache.get(token)
		tokens.cache.drop(h)
		if _, err := tokens.Verify(token); err != nil {
			b.Fatal(err)
		}
	}
}
