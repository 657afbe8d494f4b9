package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	json "github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seatflow"
)

const (
	// A run is what is sent before acknowledgements are waited for. Longer
	// runs gain nothing measurable: the server works on a run while the next
	// caller sends its own.
	maxRun      = 256
	maxRunBytes = 1 << 20
	// maxInFlight bounds what all callers have sent and not seen
	// acknowledged; a server queues 100,000 for a stream before it refuses.
	maxInFlight = 4096
	// ackWithin is how long an acknowledgement may take before its message is
	// sent again.
	ackWithin = 3 * time.Second
)

// enter counts a call that Close waits for.
func (b *Bus) enter() (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing.Err() != nil {
		return nil, ErrClosed
	}
	b.work.Add(1)
	return b.work.Done, nil
}

// Publish stores messages in their order before it returns. It tries until ctx
// or Options.Patience ends, unless more tries would not help. After an error
// some may have been stored; with the same ids all may be published again.
func (b *Bus) Publish(ctx context.Context, messages ...seatflow.Message) error {
	if len(messages) == 0 {
		return nil
	}
	leave, err := b.enter()
	if err != nil {
		return err
	}
	defer leave()
	out, err := pack(messages)
	if err == nil {
		err = b.publish(ctx, out)
	}
	if err != nil {
		b.failures.Add(1)
	}
	return err
}

// parcel is a message ready to be sent.
type parcel struct {
	msg    nats.Msg
	stream *spec
	size   int
}

func pack(messages []seatflow.Message) ([]parcel, error) {
	out := make([]parcel, len(messages))
	for i := range messages {
		var err error
		if out[i].stream, out[i].size, err = encode(&messages[i], &out[i].msg); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// run returns how many of the parcels go out together.
func run(out []parcel) int {
	bytes := 0
	for i := range out {
		if bytes += out[i].size; i == maxRun || i > 0 && bytes > maxRunBytes {
			return i
		}
	}
	return len(out)
}

func (b *Bus) publish(ctx context.Context, out []parcel) error {
	ctx, cancel := context.WithTimeout(ctx, b.o.Patience)
	defer cancel()
	done, try := 0, 0
	var last error
	for done < len(out) {
		n := run(out[done:])
		err := b.window.Acquire(ctx, int64(n))
		if err == nil {
			var acked int
			acked, err = b.send(ctx, out[done:done+n])
			b.window.Release(int64(n))
			b.published.Add(uint64(acked))
			if done += acked; err == nil {
				try = 0
				continue
			}
			if acked > 0 {
				try = 0
			}
		}
		if ctx.Err() == nil || last == nil {
			last = err // the first thing that went wrong says more than that time is up
		}
		if !isRefusal(err) {
			if errors.Is(err, errNoStream) {
				b.remake(ctx, out[done].stream)
			}
			try++
			b.repeated.Add(1)
			if b.rest(ctx, pause(try, firstPause, mostPause)) == nil {
				continue
			}
		}
		if cause := ctx.Err(); cause != nil && !errors.Is(last, cause) {
			last = fmt.Errorf("%w (%w)", last, cause)
		}
		return fmt.Errorf("bus: published %d of %d messages: %w", done, len(out), last)
	}
	return nil
}

// remake makes a stream again that does not answer, if it is gone.
func (b *Bus) remake(ctx context.Context, s *spec) {
	ctx, cancel := b.ask(ctx)
	defer cancel()
	if _, err := b.look(ctx, s); err != nil {
		b.o.Log.Debug("a stream does not answer", "stream", s.name, "error", err)
	}
}

// send publishes a run and waits for its acknowledgements. It returns how many
// of the first ones have theirs, and what befell the next.
func (b *Bus) send(ctx context.Context, out []parcel) (int, error) {
	line, err := b.connected(ctx)
	if err != nil {
		return 0, err
	}
	f := b.acks.open(out)
	defer b.acks.forget(f)
	for i := range out {
		out[i].msg.Reply = f.reply(i)
		if err := b.nc.PublishMsg(&out[i].msg); err != nil {
			f.settle(i, fmt.Errorf("bus: %w", err))
			if i == 0 {
				return f.outcome(errCut)
			}
			for j := i + 1; j < len(out); j++ {
				f.settle(j, errCut)
			}
			break
		}
	}
	timer := time.NewTimer(ackWithin)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.outcome(nil)
	case <-timer.C:
		return f.outcome(errNoAck)
	case <-line.Done():
		if b.closing.Err() != nil {
			return f.outcome(ErrClosed)
		}
		return f.outcome(errCut)
	case <-ctx.Done():
		return f.outcome(fmt.Errorf("no acknowledgement: %w", ctx.Err()))
	}
}

var (
	errNoAck    = errors.New("bus: no acknowledgement came in time")
	errNoStream = errors.New("bus: no stream takes the message")
)

// acks gathers acknowledgements. They come on one subscription; each is
// addressed to PREFIX.FLIGHT.INDEX.
type acks struct {
	prefix string

	mu      sync.Mutex
	next    uint64
	flights map[uint64]*flight
	pending int
}

// flight is a run that is on its way.
type flight struct {
	id     uint64
	prefix []byte
	out    []parcel
	done   chan struct{} // closed when all are settled

	mu      sync.Mutex
	left    int
	settled []bool
	errs    map[int]error
}

func listen(nc *nats.Conn) (*acks, error) {
	a := &acks{prefix: nc.NewInbox() + ".", flights: map[uint64]*flight{}}
	sub, err := nc.Subscribe(a.prefix+"*.*", a.receive)
	if err != nil {
		return nil, fmt.Errorf("bus: acknowledgements: %w", err)
	}
	if err := sub.SetPendingLimits(4*maxInFlight, -1); err != nil {
		return nil, fmt.Errorf("bus: acknowledgements: %w", err)
	}
	return a, nil
}

func (a *acks) waiting() int {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pending
}

func (a *acks) open(out []parcel) *flight {
	f := &flight{out: out, done: make(chan struct{}), left: len(out), settled: make([]bool, len(out))}
	a.mu.Lock()
	a.next++
	f.id = a.next
	a.flights[f.id] = f
	a.pending += len(out)
	a.mu.Unlock()
	f.prefix = append(strconv.AppendUint(append(make([]byte, 0, len(a.prefix)+16), a.prefix...), f.id, 36), '.')
	return f
}

func (a *acks) forget(f *flight) {
	a.mu.Lock()
	delete(a.flights, f.id)
	a.pending -= len(f.out)
	a.mu.Unlock()
}

func (f *flight) reply(i int) string {
	var buf [96]byte
	return string(strconv.AppendUint(append(buf[:0], f.prefix...), uint64(i), 36))
}

// receive takes an acknowledgement, or a refusal.
func (a *acks) receive(m *nats.Msg) {
	flightText, indexText, _ := strings.Cut(m.Subject[len(a.prefix):], ".")
	id, err1 := strconv.ParseUint(flightText, 36, 64)
	index, err2 := strconv.ParseUint(indexText, 36, 31)
	a.mu.Lock()
	f := a.flights[id]
	a.mu.Unlock()
	if err1 != nil || err2 != nil || f == nil || int(index) >= len(f.out) {
		return // sent again since, and settled by another answer
	}
	f.settle(int(index), judge(m, f.out[index].stream.name))
}

// judge reads an answer: nil if the stream has the message.
func judge(m *nats.Msg, stream string) error {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return errNoStream
	}
	// The usual answer, {"stream":"NAME","seq":N}, is told without parsing.
	const head = `{"stream":"`
	if d := m.Data; len(d) > len(head)+len(stream)+1 && string(d[:len(head)]) == head &&
		string(d[len(head):len(head)+len(stream)]) == stream && d[len(head)+len(stream)] == '"' &&
		!bytes.Contains(d, []byte(`"error"`)) {
		return nil
	}
	var answer struct {
		Stream string `json:"stream"`
		Error  *struct {
			Code        int    `json:"code"`
			ErrorCode   uint16 `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return fmt.Errorf("bus: an answer that cannot be read: %w", err)
	case answer.Error != nil:
		return fmt.Errorf("bus: refused: %w", &jetstream.APIError{Code: answer.Error.Code,
			ErrorCode: jetstream.ErrorCode(answer.Error.ErrorCode), Description: answer.Error.Description})
	case answer.Stream != stream:
		return fmt.Errorf("bus: another stream took the message: %q", answer.Stream)
	}
	return nil
}

func (f *flight) settle(i int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.settled[i] {
		return
	}
	f.settled[i] = true
	if err != nil {
		if f.errs == nil {
			f.errs = map[int]error{}
		}
		f.errs[i] = err
	}
	if f.left--; f.left == 0 {
		close(f.done)
	}
}

// outcome returns how many of the first messages are acknowledged and the
// error of the next; those that have no answer yet failed for the given
// reason.
func (f *flight) outcome(unsettled error) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, settled := range f.settled {
		if !settled {
			return i, unsettled
		}
		if err := f.errs[i]; err != nil {
			return i, err
		}
	}
	return len(f.out), nil
}
