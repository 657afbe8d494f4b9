package httpapi

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"seatflow"
)

// mintLimits bounds the tokens that an address may mint: a guest's name costs
// nothing, so its limits would mean nothing without one.
type mintLimits struct {
	perMinute int
	mu        sync.Mutex
	addresses map[string]*rate.Limiter
}

// addressesMost bounds the addresses that are remembered. When they are full,
// those that have not minted lately are forgotten, and if that is nobody, all
// are: a flood from that many addresses is not stopped by this limit.
const addressesMost = 10_000

// allow takes one token from an address's allowance, or says when to come
// again.
func (l *mintLimits) allow(address string, now time.Time) (wait time.Duration, ok bool) {
	if l.perMinute <= 0 {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.addresses[address]
	if limiter == nil {
		if len(l.addresses) >= addressesMost {
			l.forget(now)
		}
		if l.addresses == nil {
			l.addresses = make(map[string]*rate.Limiter)
		}
		limiter = rate.NewLimiter(rate.Limit(float64(l.perMinute)/60), l.perMinute)
		l.addresses[address] = limiter
	}
	r := limiter.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, false
	}
	return 0, true
}

func (l *mintLimits) forget(now time.Time) {
	for address, limiter := range l.addresses {
		if limiter.TokensAt(now) >= float64(l.perMinute) {
			delete(l.addresses, address)
		}
	}
	if len(l.addresses) >= addressesMost {
		l.addresses = nil
	}
}

// guest mints a token for somebody without an account.
func (a *API) guest(c *call) error {
	if !a.opt.Guests {
		return switchedOff()
	}
	if err := c.nothing(); err != nil {
		return err
	}
	if wait, ok := a.mints.allow(a.opt.Address(c.r), a.opt.Clock.Now()); !ok {
		return &seatflow.Error{Code: seatflow.CodeRateLimited, RetryAfter: wait}
	}
	token, who, err := a.opt.Tokens.Guest(a.opt.GuestTTL)
	if err != nil {
		return err
	}
	return c.reply(http.StatusCreated, Guest{Token: token, UserID: string(who.User), Role: string(who.Role), ExpiresAt: who.Expires})
}
