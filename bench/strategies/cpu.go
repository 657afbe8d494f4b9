package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpu is processor time, of this process with its buyers and of the servers.
type cpu struct{ Here, Redis, MariaDB time.Duration }

func (c cpu) since(before cpu) cpu {
	return cpu{c.Here - before.Here, c.Redis - before.Redis, c.MariaDB - before.MariaDB}
}

// each is one order's part in microseconds.
func (c cpu) each(orders int64) [3]float64 {
	n := float64(max(orders, 1)) * float64(time.Microsecond)
	return [3]float64{float64(c.Here) / n, float64(c.Redis) / n, float64(c.MariaDB) / n}
}

// spent is what was taken until now by this process and the servers in use.
func (s *servers) spent() cpu {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := cpu{Here: cpuOf(os.Getpid())}
	for _, r := range s.inUse {
		c.Redis += cpuOf(r.PID())
	}
	if s.mariadb != nil {
		c.MariaDB = cpuOf(s.mariadb.PID())
	}
	return c
}

// cpuOf is the processor time of a process; 0 where the system does not tell.
func cpuOf(pid int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * tick
}
