package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"
)

// Options say where the bus is and what it keeps. Zero fields take the
// defaults.
type Options struct {
	// URL names the servers, separated by commas: nats:// or tls://, with
	// USER:PASSWORD@ or TOKEN@ if they ask for it. Empty: a server in this
	// process. With tls:// a server is believed if the system trusts it.
	URL string
	// Credentials is a file of NATS credentials for an external server.
	Credentials string
	// Name is what the servers call this connection. Default "seatflow".
	Name string
	// Dir is the folder of the embedded server's store. One process at a time
	// may use it.
	Dir string

	// Replicas is how many servers keep each stream: 1, or 3 in a cluster of
	// three or more. A stream that has more keeps them. Default 1.
	Replicas int
	// MaxAge is how long messages are kept. Default 24 hours.
	MaxAge time.Duration
	// MaxBytes is how much each stream keeps. Default 256 MiB.
	MaxBytes int64
	// Duplicates is how long a message is recognised by its id. A server
	// keeps the ids of that time in memory. Default 2 minutes.
	Duplicates time.Duration

	// Patience is how long Publish, Last and Open try when their context sets
	// no earlier end. Default 10 seconds.
	Patience time.Duration
	// Log gets what the bus has to say; nil: nothing.
	Log *slog.Logger
}

const (
	defaultName       = "seatflow"
	defaultMaxAge     = 24 * time.Hour
	defaultMaxBytes   = 256 << 20
	defaultDuplicates = 2 * time.Minute
	defaultPatience   = 10 * time.Second

	minMaxBytes = 1 << 20
)

func (o Options) withDefaults() (Options, error) {
	set(&o.Name, defaultName)
	set(&o.Replicas, 1)
	set(&o.MaxAge, defaultMaxAge)
	set(&o.MaxBytes, defaultMaxBytes)
	set(&o.Duplicates, defaultDuplicates)
	set(&o.Patience, defaultPatience)
	set(&o.Log, slog.New(slog.DiscardHandler))
	switch {
	case o.Replicas < 1 || o.Replicas > 5:
		return o, fmt.Errorf("bus: %d replicas; there may be 1 to 5", o.Replicas)
	case o.MaxBytes < minMaxBytes:
		return o, fmt.Errorf("bus: a stream of at most %d bytes; it needs %d", o.MaxBytes, minMaxBytes)
	case o.MaxAge < time.Second || o.Duplicates < 100*time.Millisecond || o.Patience < 0:
		return o, errors.New("bus: a time that is too short")
	}
	o.Duplicates = min(o.Duplicates, o.MaxAge) // the server refuses anything else
	if o.URL == "" {
		if o.Dir == "" {
			return o, errors.New("bus: neither a URL nor a folder")
		}
		if o.Replicas > 1 {
			return o, errors.New("bus: the embedded server is alone and keeps one replica")
		}
		return o, nil
	}
	return o, checkURLs(o.URL)
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// checkURLs refuses what the library would only stumble over later. Errors
// show no secret.
func checkURLs(list string) error {
	for i, s := range strings.Split(list, ",") {
		u, err := url.Parse(strings.TrimSpace(s))
		switch {
		case err != nil:
			return fmt.Errorf("bus: URL %d cannot be read", i+1)
		case u.Scheme != "nats" && u.Scheme != "tls":
			return fmt.Errorf("bus: URL %d: %s is neither nats:// nor tls://", i+1, u.Redacted())
		case u.Hostname() == "":
			return fmt.Errorf("bus: URL %d names no host", i+1)
		case u.Path != "" && u.Path != "/" || u.RawQuery != "":
			return fmt.Errorf("bus: URL %d: more than a server: %s", i+1, u.Redacted())
		}
	}
	return nil
}

// pause is how long to wait before try n, the first being 1: growing, and
// never the same on two nodes.
func pause(n int, first, most time.Duration) time.Duration {
	d := most
	if n < 16 {
		d = min(most, first<<max(n-1, 0))
	}
	return d/2 + rand.N(d/2+1)
}
