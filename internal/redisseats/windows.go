package redisseats

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"seatflow"
)

// windowScript is the text of the script behind [Store.Attempt]. It needs no
// identity: a window that was lost with its server is an empty one.
func (s *Store) windowScript() string {
	sc := plainScripts["attempt"]
	return sc.text(s.prelude(""))
}

// Attempt implements [seatflow.RateWindows], to the millisecond, by the
// server's clock. The newest attempts are kept, as many as may pass.
func (s *Store) Attempt(ctx context.Context, name string, most int, span time.Duration) (time.Duration, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	if most < 1 || span < time.Millisecond {
		return 0, fmt.Errorf("%w: a window %q of %d in %v", errInvalid, name, most, span)
	}
	if err := s.acquire(ctx); err != nil {
		return 0, fmt.Errorf("redisseats: attempt: %w: %w", seatflow.ErrNotExecuted, err)
	}
	args := []string{strconv.Itoa(most), strconv.FormatInt(span.Milliseconds(), 10)}
	if s.clock != nil {
		args = append(args, strconv.FormatInt(s.clock.Now().UnixMilli(), 10))
	}
	key := windowKey(name)
	result := s.client.Do(ctx, s.client.B().Evalsha().Sha1(s.attempt.sha).Numkeys(1).Key(key).Arg(args...).Build())
	if isNoScript(result.Error()) { // EVAL leaves it there
		result = s.client.Do(ctx, s.client.B().Eval().Script(s.attempt.text).Numkeys(1).Key(key).Arg(args...).Build())
	}
	s.release(result.NonRedisError())
	fields, err := result.ToArray()
	if err != nil {
		return 0, fmt.Errorf("redisseats: attempt: %w", err)
	}
	r := reply{fields: fields}
	switch r.status() {
	case "passed":
		return 0, nil
	case "wait":
		return max(time.Millisecond, time.Duration(r.number(1))*time.Millisecond), nil
	}
	return 0, fmt.Errorf("%w: attempt replies %q", errForeignData, r.status())
}
