package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// threads of wrk; as many as the cores of the machine that the targets are
// stated for.
const threads = 2

// wrkRun is what one run of wrk says.
type wrkRun struct {
	Requests int64         `json:"requests"`
	Micros   int64         `json:"micros"`
	Refused  int64         `json:"refused"` // answers that are not 2xx or 3xx
	Failed   int64         `json:"failed"`  // no answer
	P50      int64         `json:"p50"`     // microseconds
	P99      int64         `json:"p99"`
	cpu      time.Duration // that the server's process took meanwhile
}

// rate is answers a second.
func (r wrkRun) rate() float64 { return float64(r.Requests) / (float64(r.Micros) / 1e6) }

// cost is microseconds of the server's processor time for an answer.
func (r wrkRun) cost() float64 { return float64(r.cpu.Microseconds()) / float64(max(r.Requests, 1)) }

// wrk runs a script against a server.
func wrk(ctx context.Context, script string, p *process, threads, connections, seconds int, args ...string) (wrkRun, error) {
	argv := []string{"-t", strconv.Itoa(threads), "-c", strconv.Itoa(connections), "-d", strconv.Itoa(seconds) + "s",
		"--timeout", "10s", "-s", "bench/system/" + script, p.url, "--"}
	before := p.cpu()
	out, err := exec.CommandContext(ctx, "wrk", append(argv, args...)...).CombinedOutput()
	if err != nil {
		return wrkRun{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	var r wrkRun
	_, line, found := strings.Cut(string(out), `{"requests"`)
	if !found {
		return r, fmt.Errorf("wrk said nothing: %s", out)
	}
	if err := json.Unmarshal([]byte(`{"requests"`+line), &r); err != nil {
		return r, fmt.Errorf("wrk: %w", err)
	}
	r.cpu = p.cpu() - before
	if r.Requests == 0 || r.Micros == 0 || r.Failed > 0 {
		return r, fmt.Errorf("wrk: %d requests, %d of them without an answer", r.Requests, r.Failed)
	}
	return r, nil
}

// orderRun says which seats a run of orders.lua asks for.
type orderRun struct {
	path        string
	connections int
	threads     int
	seconds     int
	shows       []seatflow.ShowID
	first       int
	per         int
	one         bool // all for the same seat
	across      bool // neighbouring orders to different shows
	name        string
}

func (b *bench) orders(ctx context.Context, p *process, h *house, r orderRun) (wrkRun, error) {
	shows := make([]string, len(r.shows))
	for i, id := range r.shows {
		shows[i] = strconv.FormatInt(int64(id), 10)
	}
	flag := func(v bool, yes, no string) string {
		if v {
			return yes
		}
		return no
	}
	if r.threads == 0 {
		r.threads = threads
	}
	return wrk(ctx, "orders.lua", p, r.threads, r.connections, r.seconds,
		"path="+r.path, "tokens="+h.tokens, "threads="+strconv.Itoa(r.threads), "first="+strconv.Itoa(r.first),
		"shows="+strings.Join(shows, ","), "per="+strconv.Itoa(r.per), "seats="+flag(r.one, "one", "spread"),
		"across="+flag(r.across, "1", "0"), "run="+r.name+"-")
}
