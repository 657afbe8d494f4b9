package testkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sentinelMaster is the name under which the sentinels watch the master.
const sentinelMaster = "mymaster"

// Sentinel is a Redis master with two replicas, watched by three sentinels.
type Sentinel struct {
	// Data are the three servers; which of them is the master changes.
	Data []*Redis

	// master is the one that was agreed on last.
	master    *Redis
	ports     []int
	sentinels []*process
}

// StartSentinel starts the six processes; they end with the test.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	requireBackend(t, "redis-server", "redis-cli")
	s, err := launch(newSentinel)
	must(t, err)
	for _, p := range s.all() {
		p.endWith(t)
		p.showOnFailure(t)
	}
	return s
}

func (s *Sentinel) all() []*process {
	var all []*process
	for _, r := range s.Data {
		all = append(all, r.proc)
	}
	return append(all, s.sentinels...)
}

func newSentinel() (s *Sentinel, err error) {
	const servers, sentinels, quorum = 3, 3, 2
	s = &Sentinel{}
	defer func() {
		if err != nil {
			for _, p := range s.all() {
				p.kill()
			}
		}
	}()
	for i := range servers {
		o := RedisOptions{AppendOnly: true, Args: []string{"--repl-ping-replica-period", "1"}}
		if i > 0 {
			o.Args = append(o.Args, "--replicaof", "127.0.0.1", strconv.Itoa(s.Data[0].port))
		}
		r, err := newRedis("redis-replica", o)
		if err != nil {
			return s, err
		}
		s.Data = append(s.Data, r)
	}
	s.master = s.Data[0]
	// A sentinel that starts now hears of both replicas at once, and only ten
	// seconds later of one that comes after.
	if err := await("the replicas", func() error { return s.replicated(s.Data[0], nil) }); err != nil {
		return s, err
	}
	path, err := program("redis-server")
	if err != nil {
		return s, err
	}
	if s.ports, err = freePorts(sentinels); err != nil {
		return s, err
	}
	for _, port := range s.ports {
		dir, err := newDir("redis-sentinel")
		if err != nil {
			return s, err
		}
		// A sentinel writes what it learns into its configuration.
		config := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("bind 127.0.0.1\nport %[1]d\ndir %[2]q\n"+
			"sentinel monitor %[3]s 127.0.0.1 %[4]d %[5]d\n"+
			"sentinel down-after-milliseconds %[3]s 2000\nsentinel failover-timeout %[3]s 3000\n",
			port, dir, sentinelMaster, s.Data[0].port, quorum)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return s, err
		}
		s.sentinels = append(s.sentinels, &process{
			name: "sentinel " + hostPort(port), path: path, args: []string{config, "--sentinel"}, dir: dir,
			log: filepath.Join(dir, "log"),
		})
	}
	if err := inParallel(sentinels, func(i int) error { return s.sentinels[i].start(s.pinger(i)) }); err != nil {
		return s, err
	}
	return s, await("the sentinels to know each other", s.acquainted)
}

func (s *Sentinel) pinger(i int) func() error {
	return func() error {
		_, err := redisDo(hostPort(s.ports[i]), "PING")
		return err
	}
}

// replicated reports whether a server is the master and the others that answer
// follow it, but for one.
func (s *Sentinel) replicated(master, but *Redis) error {
	for _, r := range s.Data {
		if r == but || !answers(r) {
			continue
		}
		info, err := redisText(r.Addr(), "INFO", "replication")
		if err != nil {
			return err
		}
		role, of, link := infoField(info, "role"), infoField(info, "master_port"), infoField(info, "master_link_status")
		switch {
		case r == master && role != "master":
			return fmt.Errorf("%s is a %s", r.Addr(), role)
		case r != master && (role != "slave" || of != strconv.Itoa(master.port) || link != "up"):
			return fmt.Errorf("%s is a %s of port %s, its link is %s", r.Addr(), role, of, link)
		}
	}
	return nil
}

// acquainted reports whether every sentinel knows the others and both
// replicas, without which there is no failover.
func (s *Sentinel) acquainted() error {
	for _, port := range s.ports {
		reply, err := redisDo(hostPort(port), "SENTINEL", "MASTER", sentinelMaster)
		if err != nil {
			return err
		}
		list, _ := reply.([]any)
		got := map[string]string{}
		for i := 0; i+1 < len(list); i += 2 {
			got[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
		}
		if got["num-slaves"] != "2" || got["num-other-sentinels"] != "2" || got["flags"] != "master" {
			return fmt.Errorf("sentinel %d knows %s replicas, %s other sentinels; the master is %q",
				port, got["num-slaves"], got["num-other-sentinels"], got["flags"])
		}
	}
	return nil
}

// URL is redis-sentinel://host:port,host:port,host:port/name.
func (s *Sentinel) URL() string {
	var addrs []string
	for _, p := range s.ports {
		addrs = append(addrs, hostPort(p))
	}
	return "redis-sentinel://" + strings.Join(addrs, ",") + "/" + sentinelMaster
}

// Master is the server that the sentinels agree on, once they do; nil when
// they do not for a minute.
func (s *Sentinel) Master() *Redis {
	m, err := s.agreement()
	if err != nil {
		return nil
	}
	return m
}

// agreement waits until the sentinels name the same master.
func (s *Sentinel) agreement() (m *Redis, err error) {
	err = await("the sentinels to agree on the master", func() (err error) {
		m, err = s.agreed()
		return err
	})
	return m, err
}

func (s *Sentinel) agreed() (*Redis, error) {
	var master *Redis
	for _, p := range s.ports {
		reply, err := redisDo(hostPort(p), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinelMaster)
		if err != nil {
			return nil, err
		}
		addr, _ := reply.([]any)
		if len(addr) != 2 {
			return nil, fmt.Errorf("sentinel %d names no master", p)
		}
		for _, r := range s.Data {
			if fmt.Sprint(addr[1]) != strconv.Itoa(r.port) {
				continue
			}
			if master != nil && master != r {
				return nil, errors.New("the sentinels do not agree on the master")
			}
			master = r
		}
	}
	if master == nil {
		return nil, errors.New("the sentinels name a stranger as the master")
	}
	return master, nil
}

// Failover makes a replica the master and returns when all sentinels name it
// and the other replica follows it. A master that runs is replaced by order; of
// one that was killed or paused before, the sentinels find out by themselves,
// which takes some seconds. Nobody tells the old master at once: it takes
// writes, which will be lost, for up to ten seconds more, or until [Sentinel.Settle].
func (s *Sentinel) Failover(t testing.TB) {
	t.Helper()
	before := s.master
	if answers(before) {
		m, err := s.agreement()
		must(t, err)
		before = m
	}
	if answers(before) {
		must(t, await("a sentinel to start the failover", func() error {
			_, err := redisDo(hostPort(s.ports[0]), "SENTINEL", "FAILOVER", sentinelMaster)
			var refusal redisError
			if errors.As(err, &refusal) && strings.HasPrefix(string(refusal), "INPROG") {
				return nil
			}
			return err
		}))
	}
	must(t, await("the promotion of a replica", func() error {
		now, err := s.agreed()
		if err != nil {
			return err
		}
		if now == before {
			return errors.New("the master is the one of before")
		}
		s.master = now
		return s.replicated(now, before)
	}))
}

// Settle waits until every server that answers follows the master, also one
// that was the master before.
func (s *Sentinel) Settle(t testing.TB) {
	t.Helper()
	must(t, await("the servers to follow the master", func() error {
		now, err := s.agreed()
		if err != nil {
			return err
		}
		return s.replicated(now, nil)
	}))
}

// answers reports whether a server neither ended nor is paused.
func answers(r *Redis) bool {
	pid := r.PID()
	return pid != 0 && processState(pid) != "T"
}
