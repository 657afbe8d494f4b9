package main

import (
	"bytes"
	"strings"
	"testing"
)

// said runs a command and returns what it printed and how it ended.
func said(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestHealth(t *testing.T) {
	data, stop := running(t)
	out, err := said(t, "health", "--data", data, "--wait", "20s")
	if err != nil || !strings.Contains(out, "ledger") || !strings.Contains(out, " ok\n") {
		t.Errorf("a server that runs: %v, %q", err, out)
	}
	stop()
	if out, err := said(t, "health", "--data", data); err == nil || !strings.Contains(err.Error(), "no server runs") {
		t.Errorf("a server that has stopped: %v, %q", err, out)
	}
}
