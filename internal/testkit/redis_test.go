package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

func get(t *testing.T, r *Redis, key string) any {
	t.Helper()
	v, err := redisDo(r.Addr(), "GET", key)
	must(t, err)
	return v
}

func TestRedisKeepsAndLosesData(t *testing.T) {
	t.Parallel()
	r := StartRedis(t, RedisOptions{AppendOnly: true})
	if got := r.CLI(t, "SET", "k", "v"); got != "OK" {
		t.Fatalf("SET replied %q", got)
	}
	pid, addr := r.PID(), r.Addr()
	r.Kill()
	if r.ping() == nil || r.PID() != 0 {
		t.Fatal("a killed server answers")
	}
	r.Restart(t)
	if r.PID() == pid || r.Addr() != addr {
		t.Errorf("after a restart: process %d, address %s, want another process at %s", r.PID(), r.Addr(), addr)
	}
	if got := get(t, r, "k"); got != "v" {
		t.Errorf("after kill -9 and restart the key holds %v, want v", got)
	}
	r.RestartEmpty(t)
	if got := get(t, r, "k"); got != nil {
		t.Errorf("after a restart with an empty folder the key holds %v", got)
	}
	r.Stop()
	if r.ping() == nil || r.PID() != 0 {
		t.Fatal("a stopped server answers")
	}
	r.Restart(t)
	r.Kill()
	r.Kill() // twice does no harm
	r.Stop()
}

func TestRedisInMemoryForgets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := StartRedis(t, RedisOptions{Dir: dir, Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	r.CLI(t, "SET", "k", "v")
	if got := r.CLI(t, "CONFIG", "GET", "maxmemory-policy"); got != "maxmemory-policy\nallkeys-lru" {
		t.Errorf("the arguments did not reach the server: %q", got)
	}
	r.Restart(t)
	if got := get(t, r, "k"); got != nil {
		t.Errorf("a server in memory kept %v over a restart", got)
	}
	r.CLI(t, "SAVE")
	if _, err := os.Stat(filepath.Join(dir, "dump.rdb")); err != nil {
		t.Errorf("the server does not use the folder it was given: %v", err)
	}
}

func TestRedisPause(t *testing.T) {
	t.Parallel()
	r := StartRedis(t, RedisOptions{})
	r.Pause()
	if state := processState(r.PID()); state != "T" {
		t.Errorf("a paused server is in state %s, want T", state)
	}
	r.Resume()
	if got := r.CLI(t, "PING"); got != "PONG" {
		t.Errorf("a resumed server replies %q", got)
	}
	r.Pause()
	r.Kill()
	r.Restart(t)
}

func TestSharedRedis(t *testing.T) {
	r := SharedRedis(t)
	r.CLI(t, "SET", "k", "v")
	if again := SharedRedis(t); again != r || get(t, r, "k") != nil {
		t.Errorf("the shared server: same %t, holds %v; want the same, empty", again == r, get(t, r, "k"))
	}
	r.Pause()
	SharedRedis(t).CLI(t, "SET", "k", "v")
	r.Kill()
	if got := get(t, SharedRedis(t), "k"); got != nil {
		t.Errorf("revived, the server holds %v", got)
	}
}
