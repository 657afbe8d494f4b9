package app

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"seatflow"
	"seatflow/internal/admission"
	"seatflow/internal/bus"
	"seatflow/internal/config"
	"seatflow/internal/ledger"
	"seatflow/internal/lock"
	"seatflow/internal/memseats"
	"seatflow/internal/redisseats"
)

// stores is what a node stands on, opened by URL.
type stores struct {
	folder  *Folder // nil for a tool that works on a deployment
	ledger  *ledger.Ledger
	seats   seatflow.SeatStore
	windows seatflow.RateWindows
	bus     *bus.Bus
	locks   seatflow.Locker

	memory *memseats.Store   // or nil
	redis  *redisseats.Store // or nil
	closes []func() error    // in the order of opening
}

// openStores opens what a server needs. What was opened before an error is
// closed.
func openStores(ctx context.Context, cfg config.Config, lo ledger.Options, log *slog.Logger) (s *stores, err error) {
	s = &stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
			s = nil
		}
	}()
	if s.folder, err = OpenFolder(ctx, cfg.Data, cfg.SecretFile); err != nil {
		return s, err
	}
	s.closes = append(s.closes, s.folder.Close)
	if err := s.openLedger(ctx, cfg, lo); err != nil {
		return s, err
	}
	if err := s.openSeats(ctx, cfg, log); err != nil {
		return s, err
	}
	if err := s.openLocks(ctx, cfg, log); err != nil {
		return s, err
	}
	bo := bus.Options{Dir: filepath.Join(cfg.Data, busName), Log: log,
		MaxBytes: int64(cfg.Backends.MaxBusBytes), Replicas: cfg.Backends.BusReplicas}
	if cfg.Bus != "embedded" {
		bo.URL = cfg.Bus
	}
	if s.bus, err = bus.Open(ctx, bo); err != nil {
		return s, fmt.Errorf("bus: %w", err)
	}
	s.closes = append(s.closes, s.bus.Close)
	return s, nil
}

func (s *stores) openLedger(ctx context.Context, cfg config.Config, o ledger.Options) (err error) {
	if cfg.Ledger == "sqlite" {
		s.ledger, err = ledger.OpenSQLite(ctx, filepath.Join(cfg.Data, ledgerName), o)
	} else {
		o.MaxConns = cfg.Backends.LedgerConns
		s.ledger, err = ledger.OpenMySQL(ctx, cfg.Ledger, o)
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	s.closes = append(s.closes, s.ledger.Close)
	if cfg.Ledger == "sqlite" {
		return nil
	}
	return s.checkSecret(ctx)
}

// agreedSecret is under which name nodes compare their secrets.
const agreedSecret = "secret"

// checkSecret holds this node's secret against the one that the other nodes on
// these facts sign with: with another, every token would be good on some nodes
// and bad on others. What is compared does not tell the secret.
func (s *stores) checkSecret(ctx context.Context) error {
	mine := int64(binary.BigEndian.Uint64(derive(s.folder.secret, "agree")) >> 1)
	stands, err := s.ledger.Agree(ctx, agreedSecret, mine)
	if err == nil && stands != mine {
		err = errors.New("this node's secret is not the one that the others on this ledger sign with, so tokens would be refused by turns: " +
			"give every node the same --secret-file; if it was changed on purpose, stop all nodes and run seatflow migrate --new-secret")
	}
	return err
}

func (s *stores) openSeats(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	if cfg.Embedded() {
		s.memory = memseats.New(memseats.Options{Clock: seatflow.WallClock{}, ChangesKept: cfg.ChangesKept})
		s.seats, s.windows = s.memory, admission.NewMemory(seatflow.WallClock{})
		s.closes = append(s.closes, func() error { s.memory.Close(); return nil })
		return nil
	}
	store, err := redisseats.Open(ctx, redisseats.Options{
		URL: cfg.Seats, Conns: cfg.Backends.RedisConns, ChangesKept: cfg.ChangesKept, Log: log})
	if err != nil {
		return fmt.Errorf("seats: %w", err)
	}
	s.redis, s.seats, s.windows = store, store, store
	s.closes = append(s.closes, func() error { store.Close(); return nil })
	return nil
}

func (s *stores) openLocks(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	addrs := cfg.Locks
	if addrs == "" {
		if cfg.Embedded() {
			l := lock.NewLocal()
			s.locks = l
			s.closes = append(s.closes, l.Close)
			return nil
		}
		if addrs = cfg.Seats; strings.Contains(addrs, ",") || !strings.HasPrefix(addrs, "redis") || strings.HasPrefix(addrs, "redis-") {
			return errors.New("locks: seats are on a Cluster or behind Sentinel, so name the Redis servers that keep the leases: --locks redis://HOST:PORT,…")
		}
	}
	l, err := lock.OpenRedlock(ctx, lock.Options{Addrs: strings.Split(addrs, ","), Log: log})
	if err != nil {
		return fmt.Errorf("locks: %w", err)
	}
	s.locks = l
	s.closes = append(s.closes, l.Close)
	return nil
}

// close closes everything, the last opened first.
func (s *stores) close() error {
	var errs []error
	for i := len(s.closes) - 1; i >= 0; i-- {
		errs = append(errs, s.closes[i]())
	}
	s.closes = nil
	return errors.Join(errs...)
}
