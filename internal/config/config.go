// Package config holds every setting of the server in one struct and fills it
// from four layers, each stronger than the one before: the built-in defaults,
// a YAML file, SEATFLOW_* variables, flags.
//
// # State model
//
// A [Config] is a plain value, complete from the start: [Defaults] is a
// working server that needs no other service. Names are derived, never listed
// twice: the key http.readMs is the variable SEATFLOW_HTTP_READ_MS and the
// flag --http-read-ms ([Keys] tells all three, with the help text). Durations
// and sizes are integers whose unit stands last in the name.
//
// # Failure
//
// Nothing is guessed. An unknown key, wherever it stands, is an error that
// names it and the nearest key there is; a value of the wrong kind or out of
// its range is refused. All faults are reported at once in a [*FaultsError],
// each with the place it came from, and the returned Config is then the zero
// one: a server never starts on half of a configuration.
package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Config is every setting of a server. The tags are the one place that names
// a key, explains it and bounds it.
type Config struct {
	Listen           string `koanf:"listen" help:"address to serve HTTP on; port 0 takes a free one"`
	Data             string `koanf:"data" help:"folder of the ledger, its lock and the signing secret; made when missing"`
	PublicURL        string `koanf:"publicUrl" help:"base URL under which people reach the server; empty: http://LISTEN"`
	Node             string `koanf:"node" help:"this process's name in events and logs; empty: made from the host's name and the process id"`
	SecretFile       string `koanf:"secretFile" help:"file with the secret (64 hex digits) that signs tokens, the same on all nodes; empty: one made in the data folder"`
	Seats            string `koanf:"seats" help:"where the seat state lives: memory, or redis://HOST:PORT (several addresses: a Cluster), rediss://…, redis-sentinel://HOST:PORT,…/MASTER"`
	Ledger           string `koanf:"ledger" help:"where the facts live: sqlite (a file in the data folder), or mysql://USER:PASSWORD@HOST:PORT/DATABASE"`
	Bus              string `koanf:"bus" help:"what carries changes to other nodes: embedded (NATS in this process), or nats://HOST:PORT,…"`
	Locks            string `koanf:"locks" help:"where leases live: empty (this process; with Redis seats, their server), or redis://HOST:PORT,… of independent servers, five for Redlock"`
	GraceSeconds     int    `koanf:"graceSeconds" min:"1" max:"3600" help:"age below which a one-sided remnant is left to the request that made it"`
	LedgerDeadlineMs int    `koanf:"ledgerDeadlineMs" min:"100" max:"60000" help:"longest time that one ledger transaction may take, queueing included"`
	ChangesKept      int    `koanf:"changesKept" min:"64" max:"1048576" help:"seat changes kept per partition for followers to catch up with"`
	Pprof            string `koanf:"pprof" help:"loopback address of the profiler; empty: off"`

	Log       Log       `koanf:"log"`
	Hold      Hold      `koanf:"hold"`
	Limits    Limits    `koanf:"limits"`
	Rates     Rates     `koanf:"rates"`
	Backends  Backends  `koanf:"backends"`
	Reconcile Reconcile `koanf:"reconcile"`
	Guardian  Guardian  `koanf:"guardian"`
	Commit    Commit    `koanf:"commit"`
	HTTP      HTTP      `koanf:"http"`
	Guest     Guest     `koanf:"guest"`
	Sandbox   Sandbox   `koanf:"sandbox"`
}

// Log says how much is logged and in which form.
type Log struct {
	Level  string `koanf:"level" oneof:"debug,info,warn,error" help:"least severe level that is logged: debug, info, warn or error"`
	Format string `koanf:"format" oneof:"text,json" help:"form of a log line: text or json"`
}

// Hold says how long seats are kept for an order that is not paid yet. A show
// may have its own times; these are what a new show starts with.
type Hold struct {
	Seconds       int `koanf:"seconds" min:"1" max:"86400" help:"how long a hold lasts"`
	CapSeconds    int `koanf:"capSeconds" min:"1" max:"86400" help:"the longest that a hold lasts, extensions included"`
	ExtendSeconds int `koanf:"extendSeconds" min:"0" max:"3600" help:"the one extension that the start of a payment gives"`
}

// Limits bounds what one buyer gets.
type Limits struct {
	SeatsPerUser int `koanf:"seatsPerUser" min:"0" max:"1000" help:"seats in effect per user and show, for new shows; 0: no limit"`
}

// Rates are sliding windows on orders. Above them the answer is 429.
type Rates struct {
	OrdersPerUserPerMinute int `koanf:"ordersPerUserPerMinute" min:"0" max:"1000000" help:"requests to create an order that one user may make in a minute; 0: no window"`
	OrdersPerShowPerSecond int `koanf:"ordersPerShowPerSecond" min:"0" max:"10000000" help:"orders that one show takes in a second; 0: no window"`
}

// Backends bounds what this node uses of servers that it shares with others.
type Backends struct {
	RedisConns  int `koanf:"redisConns" min:"65" max:"1024" help:"connections to each Redis server on which this node may wait for changes, one a partition; everything else shares four more"`
	LedgerConns int `koanf:"ledgerConns" min:"9" max:"1024" help:"connections to MySQL or MariaDB"`
	MaxBusBytes int `koanf:"maxBusBytes" min:"1048576" max:"1099511627776" help:"most that a stream of the bus keeps; the oldest goes first"`
	BusReplicas int `koanf:"busReplicas" min:"1" max:"5" help:"servers that keep each stream of an external bus; 3 for a cluster of three"`
}

// Reconcile says how often the view is held against the facts.
type Reconcile struct {
	IntervalSeconds int `koanf:"intervalSeconds" min:"0" max:"86400" help:"pause between two rounds; 0: only on demand"`
}

// Guardian says how the guardian looks for holds that are due.
type Guardian struct {
	IntervalMs int `koanf:"intervalMs" min:"10" max:"60000" help:"pause between two looks for due holds"`
	Batch      int `koanf:"batch" min:"1" max:"10000" help:"due holds taken from a partition at a time"`
}

// Commit bounds the ledger's group commit.
type Commit struct {
	BatchOrders int `koanf:"batchOrders" min:"1" max:"10000" help:"orders in one commit; more makes a commit slower to answer"`
	BatchBytes  int `koanf:"batchBytes" min:"4096" max:"67108864" help:"bytes of orders in one commit"`
	QueueOrders int `koanf:"queueOrders" min:"1" max:"1000000" help:"orders that may wait for a commit; more are refused at once"`
}

// HTTP bounds what one connection or address may use.
type HTTP struct {
	ReadHeaderMs              int `koanf:"readHeaderMs" min:"100" max:"60000" help:"time to receive a request's headers; ends slow senders"`
	ReadMs                    int `koanf:"readMs" min:"100" max:"600000" help:"time to receive a whole request"`
	WriteMs                   int `koanf:"writeMs" min:"100" max:"600000" help:"time to send an answer; event streams are exempt"`
	IdleMs                    int `koanf:"idleMs" min:"100" max:"3600000" help:"time that an idle connection is kept open"`
	ShutdownMs                int `koanf:"shutdownMs" min:"100" max:"600000" help:"time that accepted requests get to end after SIGTERM"`
	BodyMaxBytes              int `koanf:"bodyMaxBytes" min:"1024" max:"16777216" help:"largest request body, plans excepted"`
	PlanMaxBytes              int `koanf:"planMaxBytes" min:"1024" max:"268435456" help:"largest seat plan; 60,000 seats take about 10 MB"`
	EventsPerAddress          int `koanf:"eventsPerAddress" min:"1" max:"1000000" help:"event streams open at once from one address"`
	GuestsPerAddressPerMinute int `koanf:"guestsPerAddressPerMinute" min:"1" max:"1000000" help:"guest tokens that one address gets in a minute"`
}

// Guest says whether anyone may buy under a name that the server gives.
type Guest struct {
	Enabled    bool `koanf:"enabled" help:"give guest tokens to whoever asks"`
	TokenHours int  `koanf:"tokenHours" min:"1" max:"8760" help:"how long a guest token is good"`
}

// Sandbox is the payment provider that moves no money.
type Sandbox struct {
	Enabled bool `koanf:"enabled" help:"take payments through the sandbox, which moves no money"`
}

// Defaults is the configuration of a server to which nobody said anything.
func Defaults() Config {
	return Config{
		Listen:           "127.0.0.1:8080",
		Data:             "seatflow-data",
		Seats:            "memory",
		Ledger:           "sqlite",
		Bus:              "embedded",
		GraceSeconds:     60,
		LedgerDeadlineMs: 5000,
		ChangesKept:      8192,
		Log:              Log{Level: "info", Format: "text"},
		Hold:             Hold{Seconds: 900, CapSeconds: 1800, ExtendSeconds: 300},
		Limits:           Limits{SeatsPerUser: 6},
		Rates:            Rates{OrdersPerUserPerMinute: 10, OrdersPerShowPerSecond: 500},
		Backends:         Backends{RedisConns: 128, LedgerConns: 16, MaxBusBytes: 256 << 20, BusReplicas: 1},
		Reconcile:        Reconcile{IntervalSeconds: 300},
		Guardian:         Guardian{IntervalMs: 250, Batch: 256},
		Commit:           Commit{BatchOrders: 512, BatchBytes: 1 << 20, QueueOrders: 16_384},
		HTTP: HTTP{
			ReadHeaderMs: 5000, ReadMs: 30_000, WriteMs: 30_000, IdleMs: 120_000, ShutdownMs: 15_000,
			BodyMaxBytes: 64 << 10, PlanMaxBytes: 64 << 20,
			EventsPerAddress: 256, GuestsPerAddressPerMinute: 60,
		},
		Guest:   Guest{Enabled: true, TokenHours: 24},
		Sandbox: Sandbox{Enabled: true},
	}
}

// Ms turns a setting whose name ends in Ms into a duration.
func Ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// Seconds turns a setting whose name ends in Seconds into a duration.
func Seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// Validate returns nil or a [*FaultsError] that lists every value that cannot
// be used.
func (c Config) Validate() error {
	var list []Fault
	fault := func(path, format string, args ...any) {
		list = append(list, Fault{Key: path, Message: fmt.Sprintf(format, args...)})
	}
	v := reflect.ValueOf(c)
	for _, k := range keys {
		switch f := v.FieldByIndex(k.index); k.Kind {
		case Int:
			if n := f.Int(); n < k.Min || n > k.Max {
				fault(k.Path, "%d is not between %d and %d", n, k.Min, k.Max)
			}
		case String:
			if len(k.OneOf) > 0 && !slices.Contains(k.OneOf, f.String()) {
				fault(k.Path, "%q is not one of %s", f.String(), strings.Join(k.OneOf, ", "))
			}
		}
	}

	if err := checkAddress(c.Listen); err != nil {
		fault("listen", "%v", err)
	}
	if c.Data == "" || strings.ContainsRune(c.Data, 0) {
		fault("data", "must name a folder")
	} else if clean := filepath.Clean(c.Data); clean == string(filepath.Separator) {
		fault("data", "must not be the root folder")
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil ||
			(u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
			fault("publicUrl", "%q is not of the form https://HOST[:PORT]", c.PublicURL)
		}
	}
	c.checkBackends(fault)
	if c.Hold.CapSeconds < c.Hold.Seconds {
		fault("hold.capSeconds", "%d is less than hold.seconds (%d)", c.Hold.CapSeconds, c.Hold.Seconds)
	}
	if c.HTTP.ReadMs < c.HTTP.ReadHeaderMs {
		fault("http.readMs", "%d is less than http.readHeaderMs (%d)", c.HTTP.ReadMs, c.HTTP.ReadHeaderMs)
	}
	if c.HTTP.WriteMs < c.LedgerDeadlineMs {
		// An answer must outlive the commit that it reports.
		fault("http.writeMs", "%d is less than ledgerDeadlineMs (%d)", c.HTTP.WriteMs, c.LedgerDeadlineMs)
	}
	if c.Pprof != "" {
		if err := checkLoopback(c.Pprof); err != nil {
			fault("pprof", "%v", err)
		}
	}
	if len(list) > 0 {
		return &FaultsError{Faults: list}
	}
	return nil
}

// schemes are the URLs that each backend takes, beside the one word for what
// is built in.
var schemes = map[string][]string{
	"seats":  {"redis", "rediss", "redis-sentinel", "rediss-sentinel"},
	"ledger": {"mysql"},
	"bus":    {"nats", "tls"},
	"locks":  {"redis", "rediss"},
}

// Embedded reports whether facts and view live in this process and its data
// folder, which then has one server only.
func (c Config) Embedded() bool { return c.Seats == "memory" }

func (c Config) checkBackends(fault func(path, format string, args ...any)) {
	for _, b := range []struct{ key, value, builtin string }{
		{"seats", c.Seats, "memory"}, {"ledger", c.Ledger, "sqlite"}, {"bus", c.Bus, "embedded"}, {"locks", c.Locks, ""},
	} {
		if b.value == b.builtin {
			continue
		}
		for _, one := range strings.Split(b.value, ",") {
			scheme, rest, ok := strings.Cut(one, "://")
			if !ok && one != "" && strings.Contains(b.value, "://") {
				continue // a further address of the URL before it
			}
			if !slices.Contains(schemes[b.key], scheme) || rest == "" {
				fault(b.key, "%q is neither %q nor a URL of %s", redact(b.value), b.builtin, strings.Join(schemes[b.key], "://, ")+"://")
				break
			}
		}
	}
	if c.Seats == "memory" && c.Ledger != "sqlite" && c.Ledger != "" {
		fault("ledger", "seats in memory belong to one process, so the facts must be in its data folder: sqlite")
	}
	if c.Seats != "memory" && c.Ledger == "sqlite" {
		fault("ledger", "seats in Redis may be shared by several nodes, so the facts must be too: mysql://…")
	}
}

func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not of the form HOST:PORT", s)
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q has no valid port", s)
	}
	return nil
}

// checkLoopback keeps the profiler, which shows memory to whoever asks, off
// every other interface.
func checkLoopback(s string) error {
	if err := checkAddress(s); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(s)
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q is not a loopback address", s)
	}
	return nil
}

// redact hides the password of a backend's URL: a fault ends up in a log.
func redact(s string) string {
	if u, err := url.Parse(s); err == nil {
		return u.Redacted()
	}
	scheme, _, _ := strings.Cut(s, ":")
	return scheme + ":…"
}
