package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"seatflow"
)

const (
	// Issuer and Audience stand in every token that this system gives.
	Issuer   = "seatflow"
	Audience = "seatflow"
	// MaxTokenLen is the longest token that is looked at, in bytes.
	MaxTokenLen = 4096
	// MinSecretLen is the shortest signing secret: the size of the digest.
	MinSecretLen = 32
	// clockSkew dates a token's beginning back, so that a node whose clock is
	// a little behind accepts what another has just minted.
	clockSkew = 30 * time.Second
)

// Why a token is refused; the causes inside the error that a caller sees.
var (
	ErrNoToken    = errors.New("auth: no token")
	ErrTooLong    = errors.New("auth: token too long")
	ErrBadSubject = errors.New("auth: subject is not a user name")
	ErrBadRole    = errors.New("auth: role is unknown")
)

// Principal is who a token speaks for.
type Principal struct {
	User    seatflow.UserID
	Role    seatflow.Role
	Expires time.Time
	Device  seatflow.Device // where this role usually calls from
}

// deviceOf is the terminal that a role uses unless it says otherwise.
func deviceOf(role seatflow.Role) seatflow.Device {
	if role == seatflow.RoleKiosk {
		return seatflow.DeviceKiosk
	}
	return seatflow.DeviceWeb
}

// claims is what stands in a token.
type claims struct {
	Role seatflow.Role `json:"role"`
	jwt.RegisteredClaims
}

// Tokens mints and verifies tokens. It is safe for concurrent use.
type Tokens struct {
	secret []byte
	clock  seatflow.Clock
	parser *jwt.Parser
	cache  *cache
}

// NewTokens returns Tokens that sign with a secret of at least [MinSecretLen]
// bytes. A nil clock is the wall clock.
func NewTokens(secret []byte, clock seatflow.Clock) (*Tokens, error) {
	if len(secret) < MinSecretLen {
		return nil, fmt.Errorf("auth: the signing secret has %d bytes, it needs %d", len(secret), MinSecretLen)
	}
	if clock == nil {
		clock = seatflow.WallClock{}
	}
	return &Tokens{
		secret: append([]byte(nil), secret...),
		clock:  clock,
		cache:  newCache(cacheTokens),
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithIssuer(Issuer),
			jwt.WithAudience(Audience),
			jwt.WithExpirationRequired(),
			jwt.WithStrictDecoding(),
			jwt.WithTimeFunc(clock.Now),
		),
	}, nil
}

// Mint signs a token for a user in a role that lasts for ttl.
func (t *Tokens) Mint(user seatflow.UserID, role seatflow.Role, ttl time.Duration) (string, Principal, error) {
	switch {
	case !user.Valid():
		return "", Principal{}, fmt.Errorf("%w: %q", ErrBadSubject, user)
	case !KnownRole(role):
		return "", Principal{}, fmt.Errorf("%w: %q", ErrBadRole, role)
	case ttl < time.Second:
		return "", Principal{}, fmt.Errorf("auth: a token cannot last for %v", ttl)
	}
	now := t.clock.Now().UTC()
	expires := now.Add(ttl).Truncate(time.Second) // what the token can say
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{Role: role, RegisteredClaims: jwt.RegisteredClaims{
		Issuer:    Issuer,
		Subject:   string(user),
		Audience:  jwt.ClaimStrings{Audience},
		ExpiresAt: jwt.NewNumericDate(expires),
		NotBefore: jwt.NewNumericDate(now.Add(-clockSkew)),
		IssuedAt:  jwt.NewNumericDate(now),
		ID:        rand.Text(),
	}}).SignedString(t.secret)
	if err != nil {
		return "", Principal{}, fmt.Errorf("auth: sign: %w", err)
	}
	return token, Principal{User: user, Role: role, Expires: expires, Device: deviceOf(role)}, nil
}

// Guest mints a buyer's token for a name that nobody else has.
func (t *Tokens) Guest(ttl time.Duration) (string, Principal, error) {
	return t.Mint(seatflow.UserID("guest-"+strings.ToLower(rand.Text())), seatflow.RoleBuyer, ttl)
}

// Verify returns whom a token speaks for. An error is a *seatflow.Error with
// code 1001, whatever is wrong with the token.
func (t *Tokens) Verify(token string) (Principal, error) {
	if token == "" {
		return Principal{}, refuse(ErrNoToken)
	}
	if len(token) > MaxTokenLen {
		return Principal{}, refuse(ErrTooLong)
	}
	now := t.clock.Now().UnixMilli()
	v, hash := t.cache.get(token)
	if v != nil {
		if v.notBefore <= now && now < v.expires {
			return v.principal, nil
		}
		t.cache.drop(hash)
	}
	var c claims
	if _, err := t.parser.ParseWithClaims(token, &c, t.key); err != nil {
		return Principal{}, refuse(err)
	}
	user := seatflow.UserID(c.Subject)
	if !user.Valid() {
		return Principal{}, refuse(ErrBadSubject)
	}
	if !KnownRole(c.Role) {
		return Principal{}, refuse(ErrBadRole)
	}
	v = &verified{
		// The caller's string may be a part of a larger buffer.
		token:     strings.Clone(token),
		principal: Principal{User: user, Role: c.Role, Expires: c.ExpiresAt.UTC(), Device: deviceOf(c.Role)},
		expires:   c.ExpiresAt.UnixMilli(),
	}
	if c.NotBefore != nil {
		v.notBefore = c.NotBefore.UnixMilli()
	}
	t.cache.put(hash, v, now)
	return v.principal, nil
}

// key gives the parser the secret; it has checked the algorithm by then.
func (t *Tokens) key(*jwt.Token) (any, error) { return t.secret, nil }

func refuse(cause error) error {
	return &seatflow.Error{Code: seatflow.CodeUnauthorized, Err: cause}
}

// Bearer returns the token of an Authorization header, and "" when there is
// none of that scheme.
func Bearer(header string) string {
	const scheme = "bearer "
	if len(header) <= len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimSpace(header[len(scheme):])
}
