package nodes_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"seatflow/internal/testkit"
)

// TestNodesShareASecret: a node that would refuse the others' tokens does not
// start, until the secret of all is changed on purpose.
func TestNodesShareASecret(t *testing.T) {
	d := deploy(t, testkit.RedisOptions{})
	d.start(1)
	other := filepath.Join(t.TempDir(), "secret.key")
	if err := os.WriteFile(other, []byte(strings.Repeat("0ddba11", 8)+"5ea7f10e"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Env = append(os.Environ(), "SEATFLOW_SEATS="+d.seats, "SEATFLOW_LEDGER="+d.ledger, "SEATFLOW_BUS="+d.bus,
			"SEATFLOW_LOCKS="+d.locks, "SEATFLOW_SECRET_FILE="+other)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data")); err == nil || !strings.Contains(out, "--secret-file") {
		t.Fatalf("a node with another secret: %v\n%s", err, out)
	}
	d.nodes[0].stop()
	if out, err := run("migrate", "--new-secret"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d.nodes, d.secret = nil, other
	d.start(1)
	d.must(200, "GET", "/api/v1/admin/halls", nil, nil)
}
