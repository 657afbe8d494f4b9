// Package nodes_test runs the real binary as several nodes on real Redis,
// MariaDB and NATS, breaks them, and holds what is left against what was
// answered.
package nodes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "seatflow-nodes-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "seatflow")
		if out, err := exec.Command("go", "build", "-o", binary, "seatflow/cmd/seatflow").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}
