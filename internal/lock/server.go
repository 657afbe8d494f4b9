package lock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4/redis"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

const (
	// dialFor bounds a connection's making.
	dialFor = time.Second
	// deafFor is how long a connection may owe an answer before it is dropped.
	deafFor = 3 * time.Second
	// aside is how long a server that let an answer time out is not asked for
	// new leases, as long as the others are enough: with one server in a black
	// hole, every lease would else take as long as is waited for it.
	aside = 5 * time.Second
)

// errAside: the server was not asked.
var errAside = errors.New("lock: server set aside after a time-out")

// refusedError is a server that must not be used, however often it is tried.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return e.reason }

// server is one voter.
type server struct {
	name  string // its address without secrets
	link  link
	until atomic.Pointer[time.Time] // set aside until then
}

// link reaches a server.
type link interface {
	reach(ctx context.Context) (redis.Pool, error)
	close()
}

func (s *server) setAside() {
	t := time.Now().Add(aside)
	s.until.Store(&t)
}

func (s *server) isAside() bool {
	t := s.until.Load()
	return t != nil && time.Now().Before(*t)
}

// ping asks for a sign of life.
func (s *server) ping(ctx context.Context) error {
	pool, err := s.link.reach(ctx)
	if err != nil {
		return err
	}
	conn, err := pool.Get(ctx)
	if err != nil {
		return err
	}
	_, err = conn.Get(keyPrefix) // nobody's key; any answer will do
	return err
}

// connection is a link to a Redis, or to what Sentinel or a Cluster makes look
// like one. It connects when it is first needed and again after a failure.
type connection struct {
	option rueidis.ClientOption
	voters int
	claim  func(runID string) error // refuses the second address of one server

	mu         sync.Mutex
	closed     bool
	client     rueidis.Client // nil while not connected
	pool       redis.Pool
	connecting chan struct{} // closed when the attempt under way ends; nil: none
	err        error         // of the last attempt
}

// parseServer reads HOST:PORT or a URL of redis, rediss or, for a master that
// Sentinel names, redis-sentinel or rediss-sentinel://HOST:PORT,…/MASTER. More
// than one host in a URL of redis are nodes of one Cluster.
func parseServer(addr string) (rueidis.ClientOption, error) {
	o := rueidis.ClientOption{
		ClientName: "seatflow-lock", DisableCache: true, DisableRetry: true,
		// One connection, always pipelined: what is asked first is done first,
		// and a time-out leaves the connection as it is.
		AlwaysPipelining: true, PipelineMultiplex: -1,
		Dialer: net.Dialer{Timeout: dialFor, KeepAlive: time.Second}, ConnWriteTimeout: deafFor,
		RingScaleEachConn: 8, ReadBufferEachConn: 4096, WriteBufferEachConn: 4096,
	}
	scheme, rest, ok := strings.Cut(addr, "://")
	if !ok {
		scheme, rest = "redis", addr
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		var err, err2 error
		o.Username, err = url.PathUnescape(user)
		o.Password, err2 = url.PathUnescape(password)
		if err != nil || err2 != nil {
			return o, fmt.Errorf("lock: %s: user and password must be percent-encoded", hidden(addr))
		}
		rest = rest[at+1:]
	}
	hosts, path, _ := strings.Cut(rest, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		if _, port, err := net.SplitHostPort(host); err != nil || port == "" {
			return o, fmt.Errorf("lock: %s: %q is not of the form HOST:PORT", hidden(addr), host)
		}
		o.InitAddress = append(o.InitAddress, host)
	}
	if scheme == "rediss" || scheme == "rediss-sentinel" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	switch scheme {
	case "redis", "rediss":
		if path != "" {
			db, err := strconv.Atoi(path)
			if err != nil || db < 0 {
				return o, fmt.Errorf("lock: %s: %q is no database number", hidden(addr), path)
			}
			o.SelectDB = db
		}
	case "redis-sentinel", "rediss-sentinel":
		if path == "" {
			return o, fmt.Errorf("lock: %s: the master's name is missing", hidden(addr))
		}
		o.Sentinel = rueidis.SentinelOption{MasterSet: path, Dialer: o.Dialer, TLSConfig: o.TLSConfig, ClientName: o.ClientName,
			TopologyRefreshInterval: 5 * time.Second}
	default:
		return o, fmt.Errorf("lock: %s: neither HOST:PORT nor a URL of redis, rediss, redis-sentinel or rediss-sentinel", hidden(addr))
	}
	return o, nil
}

// reach returns the pool of a connected server, connecting first if need be.
func (c *connection) reach(ctx context.Context) (redis.Pool, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	if c.pool != nil {
		defer c.mu.Unlock()
		return c.pool, nil
	}
	if c.connecting == nil {
		c.connecting = make(chan struct{})
		go c.connect(c.connecting)
	}
	wait := c.connecting
	c.mu.Unlock()
	select {
	case <-wait:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pool == nil {
		return nil, c.err
	}
	return c.pool, nil
}

// connect makes the client. It is bounded by dialFor a few times over, as the
// client cannot be told to stop.
func (c *connection) connect(done chan struct{}) {
	client, err := rueidis.NewClient(c.option)
	if err != nil && client != nil {
		client.Close()
	}
	if err == nil {
		if err = c.inspect(client); err != nil {
			client.Close()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.connecting = err, nil
	if err == nil && c.closed {
		client.Close()
	} else if err == nil {
		c.client = client
		c.pool = redsyncpool.NewPool(rueidiscompat.NewAdapter(client))
	}
	close(done)
}

// inspect refuses a server that could not keep its word.
func (c *connection) inspect(client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), dialFor)
	defer cancel()
	text, err := client.Do(ctx, client.B().Info().Build()).ToString()
	if re, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(re.Error(), "NOPERM") {
		return nil // nothing to judge by
	}
	if err != nil {
		return err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[k] = v
		}
	}
	if p := info["maxmemory_policy"]; p != "" && p != "noeviction" {
		return &refusedError{fmt.Sprintf("maxmemory-policy is %q, which may drop a lease that is held: it must be noeviction", p)}
	}
	if c.voters > 1 && info["redis_mode"] == "cluster" {
		return &refusedError{"a node of a Redis Cluster is no independent server"}
	}
	return c.claim(info["run_id"])
}

// close ends the connection. One that is being made is closed when it is made.
func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	client, wait := c.client, c.connecting
	c.client, c.pool = nil, nil
	c.mu.Unlock()
	if client != nil {
		client.Close()
	}
	if wait != nil {
		<-wait
	}
}

// hopeless reports whether an error of reach will not go away by itself.
func hopeless(err error) bool {
	if _, ok := errors.AsType[*refusedError](err); ok {
		return true
	}
	re, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	for _, prefix := range []string{"WRONGPASS", "NOAUTH", "ERR AUTH", "ERR invalid DB", "ERR DB index", "ERR SELECT"} {
		if strings.HasPrefix(re.Error(), prefix) {
			return true
		}
	}
	return false
}
