package main

import (
	"context"
	"sync"
	"testing"

	"seatflow/bench/outside"
	"seatflow/internal/testkit"
)

// servers are the stores that designs run on: processes on loopback ports with
// their data in a temporary folder. They end with tb.
type servers struct {
	tb testing.TB
	// startMariaDB starts the one that all designs share.
	startMariaDB func(testing.TB) *testkit.MariaDB

	mu      sync.Mutex
	mariadb *testkit.MariaDB
	inUse   []*testkit.Redis // by the present design
}

// tunedMariaDB is a server with room for the tables of a run in its memory and
// for its writes in its log. It forces each commit to disk.
func tunedMariaDB(tb testing.TB) *testkit.MariaDB {
	return testkit.StartMariaDB(tb, testkit.MariaDBOptions{Args: []string{
		"--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M",
	}})
}

// redis gives the address of a Redis of the design's own, which keeps nothing
// on disk.
func (s *servers) redis(context.Context) (addr string, err error) {
	err = outside.Attempt(func() {
		r := testkit.StartRedis(s.tb, testkit.RedisOptions{Args: []string{"--maxmemory-policy", "noeviction"}})
		s.mu.Lock()
		s.inUse = append(s.inUse, r)
		s.mu.Unlock()
		addr = r.Addr()
	})
	return addr, err
}

// redlock gives the addresses of n Redis servers that know nothing of each
// other.
func (s *servers) redlock(ctx context.Context, n int) ([]string, error) {
	addrs := make([]string, n)
	for i := range addrs {
		var err error
		if addrs[i], err = s.redis(ctx); err != nil {
			return nil, err
		}
	}
	return addrs, nil
}

// mysql gives the URL of a new database on the one MariaDB.
func (s *servers) mysql(context.Context) (url string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = outside.Attempt(func() {
		if s.mariadb == nil {
			s.mariadb = s.startMariaDB(s.tb)
		}
		url = s.mariadb.NewDatabase(s.tb)
	})
	return url, err
}

// release ends the servers that one design had for itself.
func (s *servers) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.inUse {
		r.Stop()
	}
	s.inUse = nil
}
