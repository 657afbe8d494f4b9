package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/app"
	"seatflow/internal/config"
	"seatflow/internal/loadgen"
	"seatflow/internal/verify"
)

// running serves a fresh data folder until the test ends, or until the
// returned function is called.
func running(t *testing.T) (data string, stop func()) {
	t.Helper()
	cfg := config.Defaults()
	cfg.Listen = "127.0.0.1:0"
	cfg.Data = filepath.Join(t.TempDir(), "data")
	cfg.Rates = config.Rates{OrdersPerUserPerMinute: 1_000_000, OrdersPerShowPerSecond: 1_000_000} // else they are what is measured
	a, err := app.New(t.Context(), cfg, app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	t.Cleanup(stop)
	resp, err := http.Get(a.URL() + "/livez") // waits in the listener's queue until the server serves
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	return cfg.Data, stop
}

func TestLoadThenVerify(t *testing.T) {
	data, stop := running(t)
	acked := filepath.Join(t.TempDir(), "acked.ndjson")
	a := command(t, "", "load", "--data", data, "--rate", "200", "--duration", "300ms", "--warmup", "100ms", "--connections", "4",
		"--acked", acked, "--output", "json").want(t, 0, `"scenario": "distinct"`, "")
	var r loadReport
	if err := json.Unmarshal([]byte(a.out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Load.Orders != 80 || r.Load.OK != 60 || r.Load.Warmup != 20 || r.Load.Errors+r.Load.Conflicts != 0 || !r.Verify.OK() {
		t.Errorf("%s", a.out)
	}
	for i, want := range []string{verify.I1, verify.I2, verify.I1, verify.I3, verify.I4} {
		if i >= len(r.Verify.Checks) || r.Verify.Checks[i].Invariant != want {
			t.Fatalf("check %d is not of %s: %+v", i, want, r.Verify.Checks)
		}
	}
	if c := r.Verify.Checks[3].Counts; c["orders"] != 80 || c["active seats"] != 80 {
		t.Errorf("acknowledged: %v", c)
	}
	command(t, "", "load", "--data", data, "--scenario", "hot", "--rate", "100", "--duration", "200ms", "--warmup", "0s", "--connections", "2", "--show", "1").
		want(t, 0, "conflicts 19", "")
	command(t, "", "load", "--data", data, "--scenario", "mixed", "--rate", "0", "--duration", "100ms", "--warmup", "0s", "--connections", "2", "--show", "1").
		want(t, 0, "closed loop", "")

	// The same over the wire, and over the folder when the server is gone.
	command(t, "", "verify", "--data", data, "--acked", acked).want(t, 0, "view equals facts, show 1", "")
	command(t, "", "verify", "--data", data, "--show", "1", "--output", "json").want(t, 0, `"invariant": "I4"`, "")
	command(t, "", "verify", "--data", data, "--show", "99").want(t, 1, "FAILED", "")
	stop()
	command(t, "", "verify", "--data", data, "--acked", acked).want(t, 0, "no view while the server is down", "")
	command(t, "", "load", "--data", data).want(t, 1, "", "no server runs")

	// An order that was acknowledged and is not there.
	lie, err := os.ReadFile(acked)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(acked, append(lie, strings.Replace(string(lie[:strings.Index(string(lie), "\n")+1]), `"no":"0`, `"no":"1`, 1)...), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, "", "verify", "--data", data, "--acked", acked).want(t, 1, "is not in the ledger", "")
}

// What the tools write is what the verifier reads.
func TestAcknowledgementsAreOneFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acked")
	log, err := loadgen.OpenAckLog(path)
	if err != nil {
		t.Fatal(err)
	}
	want := verify.Ack{Op: verify.OpCancel, No: "01HZX000000000000000000001", Show: 7, User: "u", Seats: []seatflow.SeatID{3, 4}, State: "cancelled"}
	if err := log.Add(loadgen.Ack(want)); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got verify.Ack
	if err := json.Unmarshal(line, &got, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if got.At.IsZero() || got.Op != want.Op || got.No != want.No || got.Show != want.Show || got.User != want.User ||
		len(got.Seats) != 2 || got.Seats[1] != 4 || got.State != want.State {
		t.Errorf("%s", line)
	}
}

func TestToolsAreUsedWrongly(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, tc := range []struct {
		args []string
		code int
		err  string
	}{
		{[]string{"verify", "--output", "xml"}, 2, "text or json"},
		{[]string{"verify", "--show", "-1"}, 2, "--show"},
		{[]string{"verify", "extra"}, 2, "takes no arguments"},
		{[]string{"verify", "--data", none}, 1, "no data folder"},
		{[]string{"verify", "--data", none, "--acked", none}, 1, "no such file"},
		{[]string{"verify", "--data", none, "--url", "http://127.0.0.1:1"}, 1, "--token"},
		{[]string{"load", "--scenario", "cold"}, 2, "--scenario"},
		{[]string{"load", "--output", "xml"}, 2, "text or json"},
		{[]string{"load", "--data", none, "--url", "nowhere", "--token", "x"}, 2, "not the URL"},
	} {
		command(t, "", tc.args...).want(t, tc.code, "", tc.err)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a data folder was made by a tool that only looks")
	}
}

// A folder that another process has open without serving is not touched.
func TestVerifyOfAFolderInUse(t *testing.T) {
	dir := t.TempDir()
	d, err := app.OpenFacts(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	command(t, "", "verify", "--data", dir).want(t, 1, "", "in use by another process")
}

// A server that is not ours, or gone, is told apart from a violation.
func TestVerifyOfAServerThatIsGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	command(t, "", "verify", "--url", url, "--token", "x").want(t, 1, "", "connection refused")
}
