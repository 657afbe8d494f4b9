package redisseats

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"seatflow"
)

// DefaultChangesKept is how many changes of a partition are kept unless the
// options say otherwise: at 2,000 changes a second a reader may fall half a
// minute behind.
const DefaultChangesKept = 65_536

const (
	defaultConns   = 128             // as many as there may be readers waiting for changes
	defaultTimeout = 5 * time.Second // of an operation whose caller set no deadline
)

// Options set up a Store.
type Options struct {
	// URL names the servers:
	//
	//	redis://[user:password@]host:port[/db]             one server
	//	redis://[user:password@]host:port,host:port,…      a Redis Cluster
	//	redis-sentinel://[user:password@]host:port,…/name  the master of that name, by its sentinels
	//
	// With rediss:// and rediss-sentinel:// connections are encrypted. User and
	// password are percent-encoded.
	URL string
	// Conns bounds the connections to each server on which callers wait for
	// changes; 0: 128. Everything else goes over four connections.
	Conns int
	// ChangesKept is how many changes of a partition are kept, about; 0:
	// DefaultChangesKept.
	ChangesKept int
	// Timeout bounds an operation whose caller set no deadline; 0: 5 s.
	Timeout time.Duration
	Log     *slog.Logger // nil: none
	// TLS is for encrypted connections; nil: the system's roots.
	TLS *tls.Config
	// Clock stands in for the servers' clock; for tests alone.
	Clock seatflow.Clock
}

// target is what a URL says.
type target struct {
	addrs          []string
	user, password string
	master         string // behind sentinels
	db             int
	tls            bool
}

func parseURL(raw string) (t target, err error) {
	bad := func(what string) (target, error) {
		return target{}, fmt.Errorf("redisseats: %s: %s", redact(raw), what)
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return bad("not a URL")
	}
	sentinel := false
	switch scheme {
	case "redis":
	case "rediss":
		t.tls = true
	case "redis-sentinel":
		sentinel = true
	case "rediss-sentinel":
		sentinel, t.tls = true, true
	default:
		return bad("the scheme is none of redis, rediss, redis-sentinel and rediss-sentinel")
	}
	if strings.ContainsAny(rest, "?#") {
		return bad("there are no parameters")
	}
	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		var errUser, errPassword error
		t.user, errUser = url.PathUnescape(user)
		t.password, errPassword = url.PathUnescape(password)
		if errUser != nil || errPassword != nil {
			return bad("user or password are not percent-encoded")
		}
		authority = authority[i+1:]
	}
	for addr := range strings.SplitSeq(authority, ",") {
		host, port, err := net.SplitHostPort(addr)
		if n, errPort := strconv.Atoi(port); err != nil || host == "" || errPort != nil || n < 1 || n > 65535 {
			return bad("want HOST:PORT, not " + strconv.Quote(addr))
		}
		t.addrs = append(t.addrs, addr)
	}
	switch {
	case sentinel && (path == "" || strings.Contains(path, "/")):
		return bad("want the master's name after the sentinels: /NAME")
	case sentinel:
		t.master = path
	case path != "":
		if t.db, err = strconv.Atoi(path); err != nil || t.db < 0 {
			return bad("the database is not a number")
		}
		if t.db > 0 && len(t.addrs) > 1 {
			return bad("a Cluster has no numbered databases")
		}
	}
	return t, nil
}

// redact hides a password from errors and logs.
func redact(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if i := strings.LastIndexByte(rest, '@'); ok && i >= 0 {
		return scheme + "://…" + rest[i:]
	}
	return raw
}
