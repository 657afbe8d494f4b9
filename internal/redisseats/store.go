package redisseats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"seatflow"
)

// Store is seat state in Redis. It implements [seatflow.SeatStore] and
// [seatflow.RateWindows]; its methods may be called concurrently.
type Store struct {
	client     rueidis.Client
	kept       int
	timeout    time.Duration
	clock      seatflow.Clock // tests only
	log        *slog.Logger
	cluster    bool
	keys       keyring
	attempt    struct{ text, sha string }
	partitions [seatflow.Partitions]partition
	dials      atomic.Uint64 // connections ever opened

	slots   chan struct{} // calls that may be in flight
	blocked atomic.Int64
	waits   atomic.Int64
	waited  atomic.Int64 // nanoseconds

	ctx     context.Context // ends with the store
	cancel  context.CancelFunc
	closing sync.Once
	running sync.WaitGroup
	dialed  chan struct{}
}

var (
	_ seatflow.SeatStore   = (*Store)(nil)
	_ seatflow.RateWindows = (*Store)(nil)
)

var (
	// errClosed: the store was closed.
	errClosed = errors.New("redisseats: store is closed")
	// errInvalid: a request that breaks the contract. It would fail again.
	errInvalid = errors.New("redisseats: invalid request")
	errNoOwner = fmt.Errorf("%w: no owner", errInvalid)
	// errForeignData: something else than this package wrote to the keys.
	errForeignData = errors.New("redisseats: not written by this store")
	// errUnsuitable: a server that must not keep seat state.
	errUnsuitable = errors.New("redisseats: unsuitable server")
)

const (
	// maxInFlight is how many calls may be under way at once, those included
	// that were given up and may still be answered: no more than the queue of
	// one connection holds, so that nobody waits there past a deadline.
	maxInFlight = 1 << queueScale
	queueScale  = 10
	// silence is for how long a connection may owe an answer before it is
	// taken for dead.
	silence = 3 * time.Second
	// dialTimeout bounds opening a connection.
	dialTimeout = time.Second
	bufferSize  = 64 << 10 // bytes; a house is read through it in pieces
)

// Open connects to the servers and checks that they may keep seat state.
func Open(ctx context.Context, o Options) (*Store, error) {
	t, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	s := &Store{kept: o.ChangesKept, timeout: o.Timeout, clock: o.Clock, log: o.Log,
		slots: make(chan struct{}, maxInFlight), dialed: make(chan struct{}, 1)}
	if s.kept < 1 {
		s.kept = DefaultChangesKept
	}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.attempt.text = s.windowScript()
	s.attempt.sha = digest(s.attempt.text)
	for p := range s.partitions {
		s.partitions[p].turn = make(chan struct{}, 1)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.client, err = rueidis.NewClient(s.clientOption(t, &o)); err != nil {
		s.cancel()
		return nil, fmt.Errorf("redisseats: connect to %s: %w", redact(o.URL), err)
	}
	if err := s.inspect(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.running.Go(s.watch)
	return s, nil
}

func (s *Store) clientOption(t target, o *Options) rueidis.ClientOption {
	option := rueidis.ClientOption{
		InitAddress: t.addrs, Username: t.user, Password: t.password, SelectDB: t.db, ClientName: "seatflow",
		Dialer: net.Dialer{Timeout: dialTimeout, KeepAlive: time.Second}, DialCtxFn: s.dial, ConnWriteTimeout: silence,
		DisableRetry: true, // whoever repeats a script must know that it was not executed
		DisableCache: true, PipelineMultiplex: 2, RingScaleEachConn: queueScale,
		ReadBufferEachConn: bufferSize, WriteBufferEachConn: bufferSize,
		BlockingPoolSize: o.Conns, BlockingPoolCleanup: time.Minute, BlockingPoolMinSize: 1,
		ClusterOption: rueidis.ClusterOption{ShardsRefreshInterval: 5 * time.Second},
	}
	if option.BlockingPoolSize < 1 {
		option.BlockingPoolSize = defaultConns
	}
	if t.tls {
		option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if o.TLS != nil {
			option.TLSConfig = o.TLS.Clone()
		}
	}
	if t.master != "" {
		option.Sentinel = rueidis.SentinelOption{MasterSet: t.master, Dialer: option.Dialer,
			TopologyRefreshInterval: 5 * time.Second}
		if t.tls {
			option.Sentinel.TLSConfig = option.TLSConfig
		}
	}
	return option
}

// dialError: a connection was not opened, so nothing was sent.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// dial opens a connection and takes note: what answers there may be another
// incarnation than before.
func (s *Store) dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	var conn net.Conn
	var err error
	if config != nil {
		if config.ServerName == "" {
			config = config.Clone()
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", addr)
	} else {
		conn, err = dialer.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, dialError{err}
	}
	s.dials.Add(1)
	select {
	case s.dialed <- struct{}{}:
	default:
	}
	return conn, nil
}

// inspect looks at every server before anything is entrusted to it.
func (s *Store) inspect(ctx context.Context) error {
	for addr, node := range s.client.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Section("server", "memory").Build()).ToString()
		if err != nil {
			return fmt.Errorf("redisseats: look at %s: %w", addr, err)
		}
		about := make(map[string]string)
		for line := range strings.Lines(info) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				about[name] = value
			}
		}
		if err := suitable(about["redis_version"], about["maxmemory_policy"]); err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
		s.cluster = s.cluster || about["redis_mode"] == "cluster"
	}
	return nil
}

// suitable says why a server must not keep seat state.
func suitable(version, policy string) error {
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return fmt.Errorf("%w: Redis %s; 7.0 or newer is needed", errUnsuitable, version)
	}
	if policy != "noeviction" {
		return fmt.Errorf("%w: its maxmemory-policy is %s, so it may throw held and sold seats away; set noeviction", errUnsuitable, policy)
	}
	return nil
}

// Close ends all waits for changes and closes the connections. Operations
// that begin afterwards are not executed. It may be called twice.
func (s *Store) Close() {
	s.closing.Do(func() {
		s.cancel()
		s.running.Wait()
		s.client.Close()
	})
}

// Healthy returns nil while seats can be asked for.
func (s *Store) Healthy(ctx context.Context) error {
	_, err := s.Identity(ctx)
	return err
}

// Stats is how busy the connections are.
type Stats struct {
	InFlight int           // calls under way, given up ones that may still be answered included
	Capacity int           // how many there may be
	Blocked  int           // callers that wait for one of them to end
	Waits    int64         // how often callers had to wait, ever
	Waited   time.Duration // and for how long altogether
	Dials    uint64        // connections opened, ever
}

// Stats tells how busy the connections are.
func (s *Store) Stats() Stats {
	return Stats{InFlight: len(s.slots), Capacity: cap(s.slots), Blocked: int(s.blocked.Load()),
		Waits: s.waits.Load(), Waited: time.Duration(s.waited.Load()), Dials: s.dials.Load()}
}

// enter refuses what must not begin.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", seatflow.ErrNotExecuted, err)
	}
	if s.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", seatflow.ErrNotExecuted, errClosed)
	}
	return nil
}

func checkPartition(p seatflow.Partition) error {
	if p >= seatflow.Partitions {
		return fmt.Errorf("%w: no partition %d", errInvalid, p)
	}
	return nil
}
