package testkit

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// abandonServers makes this test binary start servers, tell of them and die.
const abandonServers = "SEATFLOW_TESTKIT_ABANDON"

func TestMain(m *testing.M) {
	if dir := os.Getenv(abandonServers); dir != "" {
		abandon(dir)
	}
	goleak.VerifyTestMain(m)
}

// abandon starts one server in a folder of our own and one in dir, prints the
// base folder and the processes, and kills itself.
func abandon(dir string) {
	b, err := base()
	check := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	check(err)
	m, err := newMariaDB(MariaDBOptions{})
	check(err)
	r, err := newRedis("redis", RedisOptions{Dir: dir})
	check(err)
	fmt.Println(b, m.PID(), r.PID())
	check(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}
