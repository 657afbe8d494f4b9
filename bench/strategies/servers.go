package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

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
	err = attempt(func() {
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
	err = attempt(func() {
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

// outside stands in for a test where there is none, so that a command may
// start the servers of tests. What would end a test panics; see attempt.
type outside struct {
	testing.TB // nil: whatever is not below is not used
	mu         sync.Mutex
	failed     bool
	cleanups   []func()
}

// failure is what outside panics with.
type failure string

// Helper implements [testing.TB].
func (o *outside) Helper() {}

// Name implements [testing.TB].
func (o *outside) Name() string { return "strategies" }

// Context implements [testing.TB].
func (o *outside) Context() context.Context { return context.Background() }

// Cleanup implements [testing.TB].
func (o *outside) Cleanup(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleanups = append(o.cleanups, f)
}

// Failed implements [testing.TB].
func (o *outside) Failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

func (o *outside) fail(text string) {
	o.mu.Lock()
	o.failed = true
	o.mu.Unlock()
	panic(failure(text))
}

// Fatal implements [testing.TB].
func (o *outside) Fatal(args ...any) { o.fail(fmt.Sprint(args...)) }

// Fatalf implements [testing.TB].
func (o *outside) Fatalf(format string, args ...any) { o.fail(fmt.Sprintf(format, args...)) }

// Errorf implements [testing.TB].
func (o *outside) Errorf(format string, args ...any) { o.fail(fmt.Sprintf(format, args...)) }

// Skipf implements [testing.TB]: a missing program is a failure here.
func (o *outside) Skipf(format string, args ...any) { o.fail(fmt.Sprintf(format, args...)) }

// Logf implements [testing.TB].
func (o *outside) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// end runs what was registered for the end.
func (o *outside) end() {
	o.mu.Lock()
	cleanups := o.cleanups
	o.cleanups = nil
	o.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
}

// attempt turns the panic of outside into an error.
func attempt(do func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			err = errors.New(string(v))
		default:
			panic(v)
		}
	}()
	do()
	return nil
}
