package testkit

import (
	"strings"
	"testing"
)

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	if n := strings.Count(s.URL(), "127.0.0.1:"); n != 3 || !strings.HasSuffix(s.URL(), "/"+sentinelMaster) {
		t.Errorf("the URL is %s", s.URL())
	}
	first := s.Master()
	// WAIT, so that the replica that is promoted has it for certain.
	first.CLI(t, "SET", "k", "v")
	if got := first.CLI(t, "WAIT", "2", "10000"); got != "2" {
		t.Fatalf("%s replicas have the key, want 2", got)
	}
	s.Failover(t)
	second := s.Master()
	if second == first || get(t, second, "k") != "v" {
		t.Fatalf("after a failover the master is the same: %t; it holds %v", second == first, get(t, second, "k"))
	}
	first.Restart(t) // it hears that it is a replica now
	s.Settle(t)
	second.Kill()
	s.Failover(t)
	third := s.Master()
	if third == second || get(t, third, "k") != "v" {
		t.Errorf("after the master's death the master is the same: %t; it holds %v", third == second, get(t, third, "k"))
	}
}
