package bus

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// embeddedMemory bounds what the embedded server keeps in memory for
	// consumers. Streams are in files.
	embeddedMemory = 64 << 20
	// storeSlack is what the files may take beyond the streams' own limits.
	storeSlack = 64 << 20
	// startWithin is how long an embedded server may take to come up: it
	// reads the whole store after a crash.
	startWithin = time.Minute
	startStep   = 100 * time.Millisecond
)

// embed starts a server that only this process can reach.
//
// SyncInterval stays at its default: files are brought to the disk every two
// minutes. What a power cut takes from a projection is made again from the
// facts, and a sync for every message would cost more than a sale.
func embed(o Options) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		ServerName:             o.Name,
		DontListen:             true,
		NoSigs:                 true,
		JetStream:              true,
		StoreDir:               o.Dir,
		JetStreamMaxMemory:     embeddedMemory,
		JetStreamMaxStore:      int64(len(specs))*o.MaxBytes + storeSlack,
		DisableJetStreamBanner: true,
		MaxPayload:             MaxPayload,
	})
	if err != nil {
		return nil, fmt.Errorf("bus: embedded server: %w", err)
	}
	log := &bridge{log: o.Log.With("part", "nats")}
	s.SetLogger(log, false, false)
	s.Start()
	// A server that cannot start says so to its log, and nowhere else.
	for end := time.Now().Add(startWithin); !s.ReadyForConnections(startStep); {
		fatal := log.fatal.Load()
		if fatal == nil && time.Now().Before(end) {
			continue
		}
		stop(s)
		if fatal != nil {
			return nil, fmt.Errorf("bus: embedded server: %s", *fatal)
		}
		return nil, fmt.Errorf("bus: the embedded server is not up after %v", startWithin)
	}
	return s, nil
}

func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// bridge hands on what the embedded server says. It is an inner part: what it
// notes is for those who look for a fault.
type bridge struct {
	log   *slog.Logger
	fatal atomic.Pointer[string]
}

func (b *bridge) say(level slog.Level, format string, v []any) {
	if ctx := context.Background(); b.log.Enabled(ctx, level) {
		b.log.Log(ctx, level, fmt.Sprintf(format, v...))
	}
}

func (b *bridge) Noticef(format string, v ...any) { b.say(slog.LevelDebug, format, v) }
func (b *bridge) Debugf(format string, v ...any)  { b.say(slog.LevelDebug, format, v) }
func (b *bridge) Tracef(format string, v ...any)  { b.say(slog.LevelDebug, format, v) }
func (b *bridge) Warnf(format string, v ...any)   { b.say(slog.LevelDebug, format, v) }
func (b *bridge) Errorf(format string, v ...any)  { b.say(slog.LevelWarn, format, v) }

func (b *bridge) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	b.fatal.CompareAndSwap(nil, &text)
	b.say(slog.LevelError, format, v)
}
