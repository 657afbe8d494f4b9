package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"seatflow"
)

// MaxPayload is the most bytes that a message may have, headers included.
const MaxPayload = 1 << 20

// ErrClosed is returned by everything after Close.
var ErrClosed = errors.New("bus: closed")

// errCut ends a wait for an answer that cannot come any more.
var errCut = errors.New("bus: the connection was cut")

const (
	// oldest is the oldest server that is spoken to.
	oldestMajor, oldestMinor = 2, 12

	dialWithin = 2 * time.Second
	// writeWithin is how long the network may refuse to take bytes before the
	// connection counts as lost. The library holds its lock as long.
	writeWithin = 2 * time.Second
	// A server that answers no ping for three intervals is lost.
	pingEvery = 2 * time.Second
	// askWithin bounds one question to JetStream.
	askWithin = 2 * time.Second

	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// Bus is a seatflow.Bus on NATS JetStream.
type Bus struct {
	o      Options
	server *server.Server // embedded, or nil
	nc     *nats.Conn
	js     jetstream.JetStream

	acks    *acks
	window  *semaphore.Weighted // messages in flight
	closing context.Context     // ends when the bus is closed
	close   context.CancelFunc
	once    sync.Once
	gone    chan struct{} // closed when the connection is
	work    sync.WaitGroup

	mu      sync.Mutex
	line    context.Context // ends when the connection is cut; nil while there is none
	cut     context.CancelCauseFunc
	back    chan struct{} // closed when there is a line again
	refused error         // why a server that was reached is of no use

	published, repeated, failures, reconnects, gaps atomic.Uint64
	subscriptions                                   atomic.Int64
}

var _ seatflow.Bus = (*Bus)(nil)

// Stats are figures for metrics.
type Stats struct {
	Connected     bool
	InFlight      int    // messages sent and not acknowledged yet
	Subscriptions int    // Subscribe calls that are running
	Published     uint64 // messages acknowledged
	Repeated      uint64 // messages sent again because no acknowledgement came
	PublishErrors uint64 // calls of Publish that failed
	Reconnects    uint64
	Gaps          uint64 // announced to subscribers
}

// Stats returns the figures of this moment.
func (b *Bus) Stats() Stats {
	b.mu.Lock()
	connected := b.line != nil
	b.mu.Unlock()
	return Stats{
		Connected:     connected,
		InFlight:      b.acks.waiting(),
		Subscriptions: int(b.subscriptions.Load()),
		Published:     b.published.Load(),
		Repeated:      b.repeated.Load(),
		PublishErrors: b.failures.Load(),
		Reconnects:    b.reconnects.Load(),
		Gaps:          b.gaps.Load(),
	}
}

// Open connects to the bus, or starts it, and makes its streams. Servers that
// cannot be reached are tried until ctx or Options.Patience ends; one that is
// too old, or refuses us, is an error at once.
func Open(ctx context.Context, options Options) (_ *Bus, err error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Bus{o: o, window: semaphore.NewWeighted(maxInFlight), back: make(chan struct{}), gone: make(chan struct{})}
	b.closing, b.close = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			_ = b.Close()
		}
	}()
	if o.URL == "" {
		if b.server, err = embed(o); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	if err = b.connect(ctx); err != nil {
		return nil, err
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	if b.acks, err = listen(b.nc); err != nil {
		return nil, err
	}
	for try := 1; ; try++ { // a cluster that starts has no leader yet
		err = b.onEach(ctx, b.ensure)
		if err == nil || isRefusal(err) {
			break
		}
		b.o.Log.Debug("the streams cannot be made yet", "error", err)
		if b.rest(ctx, pause(try, firstPause, mostPause)) != nil {
			break
		}
	}
	return b, err
}

// onEach runs a step for each stream.
func (b *Bus) onEach(ctx context.Context, f func(context.Context, *spec) error) error {
	for _, s := range specs {
		ask, cancel := b.ask(ctx)
		err := f(ask, s)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Bus) connect(ctx context.Context) error {
	options := []nats.Option{
		nats.Name(b.o.Name),
		nats.Timeout(dialWithin),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(func(round int) time.Duration { return pause(round, firstPause, mostPause) }),
		// Nothing is kept for later: what Publish could not send in time
		// must not be sent after it has failed.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(writeWithin),
		nats.ReconnectOnFlusherError(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { b.lost(err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			b.reconnects.Add(1)
			b.found(nc)
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(b.gone) }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			b.o.Log.Debug("the connection to the bus complains", "error", err)
		}),
	}
	url := b.o.URL
	switch {
	case b.server != nil:
		url = ""
		options = append(options, nats.InProcessServer(b.server))
	case b.o.Credentials != "":
		options = append(options, nats.UserCredentials(b.o.Credentials))
	}
	for try := 1; ; try++ {
		nc, err := nats.Connect(url, options...)
		if err == nil {
			b.nc = nc
			if err := checkVersion(nc.ConnectedServerVersion()); err != nil {
				return err
			}
			b.found(nc)
			return nil
		}
		err = fmt.Errorf("bus: %w", err)
		if errors.Is(err, nats.ErrAuthorization) || b.server != nil {
			return err
		}
		if b.rest(ctx, pause(try, firstPause, mostPause)) != nil {
			return err
		}
	}
}

// found notes that there is a connection.
func (b *Bus) found(nc *nats.Conn) {
	err := checkVersion(nc.ConnectedServerVersion())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = err
	if err != nil {
		b.o.Log.Error("the bus is of no use", "error", err)
		return
	}
	if b.line == nil {
		b.line, b.cut = context.WithCancelCause(b.closing)
		close(b.back)
	}
}

// lost notes that there is none.
func (b *Bus) lost(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.line == nil {
		return
	}
	if b.closing.Err() == nil {
		b.o.Log.Warn("the connection to the bus is lost and is sought again", "error", err)
	}
	b.cut(errCut)
	b.line, b.cut, b.back = nil, nil, make(chan struct{})
}

// connected waits for a connection and returns the context that ends with it.
func (b *Bus) connected(ctx context.Context) (context.Context, error) {
	for {
		b.mu.Lock()
		line, back, refused := b.line, b.back, b.refused
		b.mu.Unlock()
		switch {
		case b.closing.Err() != nil:
			return nil, ErrClosed
		case line != nil:
			return line, nil
		}
		select {
		case <-back:
		case <-b.closing.Done():
		case <-ctx.Done():
			if refused == nil {
				refused = errors.New("bus: no server is in reach")
			}
			return nil, fmt.Errorf("%w (%w)", refused, context.Cause(ctx))
		}
	}
}

// ask bounds one question to the server: by its time, by ctx, and by the
// connection that it is asked over.
func (b *Bus) ask(ctx context.Context) (context.Context, context.CancelFunc) {
	b.mu.Lock()
	line := b.line
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	if line == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(line, cancel)
	return ctx, func() { stop(); cancel() }
}

// rest pauses, and fails when ctx or the bus ends before.
func (b *Bus) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-b.closing.Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// checkVersion refuses servers that are too old.
func checkVersion(version string) error {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) >= 2 {
		major, err1 := strconv.Atoi(strings.TrimPrefix(parts[0], "v"))
		minor, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && (major > oldestMajor || major == oldestMajor && minor >= oldestMinor) {
			return nil
		}
	}
	return fmt.Errorf("bus: the NATS server is version %q; %d.%d or newer is needed", version, oldestMajor, oldestMinor)
}

// isRefusal tells errors that more tries would not heal.
func isRefusal(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return errors.Is(err, ErrClosed) || errors.Is(err, errForeign)
	}
	switch api.Code {
	case 404, 408, 409, 429:
		return false
	}
	// A cluster that starts may not have met all its servers yet.
	return api.Code >= 400 && api.Code < 500 && api.ErrorCode != errNoPeers
}

// Healthy returns nil while messages can be published. A stream that is
// missing is made again.
func (b *Bus) Healthy(ctx context.Context) error {
	leave, err := b.enter()
	if err != nil {
		return err
	}
	defer leave()
	if _, err := b.connected(ctx); err != nil {
		return err
	}
	return b.onEach(ctx, func(ctx context.Context, s *spec) error { _, err := b.look(ctx, s); return err })
}

// Last returns the newest message that is stored under a subject. It asks the
// stream's leader, not the nearest replica, so that who takes over from
// another node sees all that was acknowledged to it.
func (b *Bus) Last(ctx context.Context, subject string) (seatflow.Message, error) {
	s, err := checkSubject(subject, true)
	if err != nil {
		return seatflow.Message{}, err
	}
	leave, err := b.enter()
	if err != nil {
		return seatflow.Message{}, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, b.o.Patience)
	defer cancel()
	for try := 1; ; try++ {
		m, err := b.last(ctx, s, subject)
		if err == nil || errors.Is(err, seatflow.ErrNotFound) || isRefusal(err) {
			return m, err
		}
		if b.rest(ctx, pause(try, firstPause, mostPause)) != nil {
			return m, err
		}
	}
}

func (b *Bus) last(ctx context.Context, s *spec, subject string) (seatflow.Message, error) {
	if _, err := b.connected(ctx); err != nil {
		return seatflow.Message{}, err
	}
	ctx, cancel := b.ask(ctx)
	defer cancel()
	st, err := b.look(ctx, s)
	if err != nil {
		return seatflow.Message{}, err
	}
	raw, err := st.stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return seatflow.Message{}, seatflow.ErrNotFound
	}
	if err != nil {
		return seatflow.Message{}, fmt.Errorf("bus: the last message of %s: %w", subject, explain(err))
	}
	m := decode(raw.Subject, raw.Header, raw.Data)
	m.Stream, m.Sequence = st.incarnation, raw.Sequence
	return m, nil
}

// Close ends subscriptions and publications, waits for them, and stops the
// embedded server. It may be called twice.
func (b *Bus) Close() error {
	b.once.Do(func() {
		b.mu.Lock() // nobody enters from here on
		b.close()
		b.mu.Unlock()
		b.work.Wait()
		if b.nc != nil {
			b.nc.Close()
			<-b.gone
		}
		if b.server != nil {
			stop(b.server)
		}
	})
	return nil
}
