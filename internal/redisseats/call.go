package redisseats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"seatflow"
)

// call runs a script of a partition. Whatever was certainly not executed is
// tried again until the deadline and then reported as ErrNotExecuted; what may
// have been executed is reported as ErrUnknownOutcome, at once.
func (s *Store) call(ctx context.Context, p seatflow.Partition, script int, keys, args []string) (reply, error) {
	if err := s.enter(ctx); err != nil {
		return reply{}, err
	}
	sc := &scripts[script]
	if len(keys) < sc.keys || len(args) < sc.args {
		return reply{}, fmt.Errorf("%w: script %s with %d keys and %d arguments", errInvalid, sc.name, len(keys), len(args))
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	if s.clock != nil {
		args = append(args[:len(args):len(args)], strconv.FormatInt(s.clock.Now().UnixMilli(), 10))
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		in, err := s.current(ctx, p)
		if err == nil {
			var r reply
			if r, err = s.once(ctx, in, script, keys, args); err == nil {
				return r, nil
			}
			switch kind, again := outcome(err); {
			case kind != nil && !again:
				return reply{}, fmt.Errorf("redisseats: %s: %w: %w", sc.name, kind, err)
			case isNoScript(err):
				if _, err = s.see(ctx, p, in); err == nil {
					continue
				}
			}
		} else if errors.Is(err, errUnsuitable) {
			return reply{}, fmt.Errorf("redisseats: %s: %w: %w", sc.name, seatflow.ErrNotExecuted, err)
		}
		// Nothing was executed, or nobody could be asked.
		if errWait := sleep(ctx, s.ctx, pause); errWait != nil {
			return reply{}, fmt.Errorf("redisseats: %s: %w: %w: %w", sc.name, seatflow.ErrNotExecuted, errWait, err)
		}
	}
}

// read is call for a script that changes nothing: a reply that was lost is no
// matter, so it is asked for again.
func (s *Store) read(ctx context.Context, p seatflow.Partition, script int, keys, args []string) (reply, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		r, err := s.call(ctx, p, script, keys, args)
		if !errors.Is(err, seatflow.ErrUnknownOutcome) {
			return r, err
		}
		if errWait := sleep(ctx, s.ctx, pause); errWait != nil {
			return reply{}, fmt.Errorf("redisseats: %s: %w: %w: %v", scripts[script].name, seatflow.ErrNotExecuted, errWait, err)
		}
	}
}

const (
	firstPause = 2 * time.Millisecond // between two tries, doubled each time
	lastPause  = 100 * time.Millisecond
)

// once sends a script and waits for its reply.
func (s *Store) once(ctx context.Context, in *incarnation, script int, keys, args []string) (reply, error) {
	if err := s.acquire(ctx); err != nil {
		return reply{}, notSent{err}
	}
	result := s.client.Do(ctx, s.client.B().Evalsha().Sha1(in.sha[script]).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	s.release(result.NonRedisError())
	message, err := result.ToMessage()
	if err != nil {
		return reply{}, err
	}
	fields, err := message.ToArray()
	if err != nil || len(fields) == 0 {
		return reply{}, fmt.Errorf("%w: a reply without a status (%v)", errForeignData, err)
	}
	return reply{identity: in.identity, fields: fields}, nil
}

// notSent: an operation ended before anything was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// acquire waits for leave to have a call in flight.
func (s *Store) acquire(ctx context.Context) error {
	select {
	case s.slots <- struct{}{}:
		return nil
	default:
	}
	s.blocked.Add(1)
	since := time.Now()
	defer func() {
		s.blocked.Add(-1)
		s.waits.Add(1)
		s.waited.Add(int64(time.Since(since)))
	}()
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return errClosed
	}
}

// release gives leave back. A call that was given up still has its place in
// the queue of its connection until that is answered or taken for dead.
func (s *Store) release(err error) {
	if err != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		time.AfterFunc(silence, func() { <-s.slots })
		return
	}
	<-s.slots
}

// sleep waits before another try.
func sleep(ctx, closed context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-closed.Done():
		return errClosed
	}
}

func isNoScript(err error) bool {
	var e *rueidis.RedisError
	return errors.As(err, &e) && e.IsNoScript()
}

// notExecuted are the codes of errors that a server gives before it does
// anything.
var notExecuted = map[string]bool{
	"NOSCRIPT": true, "TRYAGAIN": true, "CLUSTERDOWN": true, "LOADING": true, "READONLY": true, "MASTERDOWN": true,
	"BUSY": true, "MOVED": true, "ASK": true, "NOREPLICAS": true, "MISCONF": true, "NOAUTH": true, "NOPERM": true,
	"WRONGPASS": true, "OOM": true,
}

// outcome tells what an error says of the operation: nothing (nil) or that it
// was not executed, and then whether to try again; or that nobody knows.
func outcome(err error) (kind error, again bool) {
	var answer *rueidis.RedisError
	switch {
	case errors.As(err, &answer):
		code, _, _ := strings.Cut(answer.Error(), " ")
		if !notExecuted[code] {
			return seatflow.ErrUnknownOutcome, false // a script that failed, perhaps half-way
		}
		return seatflow.ErrNotExecuted, code != "OOM" && code != "NOPERM" && code != "WRONGPASS" && code != "NOAUTH"
	case errors.As(err, new(dialError)), errors.As(err, new(notSent)), errors.Is(err, rueidis.ErrNoSlot):
		return seatflow.ErrNotExecuted, true
	}
	return seatflow.ErrUnknownOutcome, false
}

// reply is what a script answered: a status word, then what goes with it.
type reply struct {
	identity string // of the incarnation that answered
	fields   []rueidis.RedisMessage
}

func (r *reply) status() string { return r.text(0) }

// text returns a field as text, "" if it is not there.
func (r *reply) text(i int) string {
	if i >= len(r.fields) {
		return ""
	}
	return textOf(&r.fields[i])
}

func textOf(m *rueidis.RedisMessage) string {
	if m.IsInt64() {
		n, _ := m.ToInt64()
		return strconv.FormatInt(n, 10)
	}
	s, _ := m.ToString()
	return s
}

// number returns a field as a number, 0 if it is none.
func (r *reply) number(i int) int64 {
	if i >= len(r.fields) {
		return 0
	}
	if r.fields[i].IsInt64() {
		n, _ := r.fields[i].ToInt64()
		return n
	}
	s, _ := r.fields[i].ToString()
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// time returns a field as an instant, zero for a dash.
func (r *reply) time(i int) time.Time {
	if t := r.text(i); t != "" && t != "-" && t != "-inf" {
		return time.UnixMilli(r.number(i)).UTC()
	}
	return time.Time{}
}

// seats returns the fields from i to before j as seat ids.
func (r *reply) seats(i, j int) []seatflow.SeatID {
	if i = min(i, len(r.fields)); j <= i {
		return nil
	}
	ids := make([]seatflow.SeatID, 0, j-i)
	for ; i < min(j, len(r.fields)); i++ {
		ids = append(ids, seatflow.SeatID(r.number(i)))
	}
	return ids
}

// list returns a field that is a list of texts.
func (r *reply) list(i int) []rueidis.RedisMessage {
	if i >= len(r.fields) {
		return nil
	}
	list, _ := r.fields[i].ToArray()
	return list
}
