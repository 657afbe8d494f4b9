package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"seatflow"
	"seatflow/internal/app"
	"seatflow/internal/loadgen"
	"seatflow/internal/seatplan"
)

// process is a child that prints where it listens.
type process struct {
	cmd    *exec.Cmd
	url    string
	pprof  string
	data   string
	output *bytes.Buffer // of standard error
}

// spawn starts a child and waits for the line of its output that find knows.
func spawn(ctx context.Context, find func(p *process, line string) bool, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), output: &bytes.Buffer{}}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 30 * time.Second
	p.cmd.Stderr = p.output
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if find(p, lines.Text()) {
			go io.Copy(io.Discard, out)
			return p, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%s did not start: %s", filepath.Base(name), p.output), p.stop())
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return nil // the null handler ends by its signal
	}
	return err
}

// cpu is the processor time that the process has taken; 0 where the system
// does not tell.
func (p *process) cpu() time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
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

// startServer serves an empty data folder.
func (b *bench) startServer(ctx context.Context, data string, more ...string) (*process, error) {
	p, err := spawn(ctx, func(p *process, line string) bool {
		word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "shows":
			p.url = strings.TrimSuffix(strings.TrimSpace(value), "/")
		case "profiler":
			p.pprof = strings.TrimSpace(value)
			return true
		}
		return false
	}, filepath.Join(b.work, "seatflow"), append([]string{"serve", "--listen", "127.0.0.1:0", "--pprof", "127.0.0.1:0", "--data", data, "--log-level", "warn",
		"--rates-orders-per-user-per-minute", "1000000", "--rates-orders-per-show-per-second", "1000000"}, more...)...)
	if err != nil {
		return nil, err
	}
	p.data = data
	for range 500 {
		resp, err := http.Get(p.url + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return p, nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, errors.Join(errors.New("the server does not become ready"), p.stop())
}

func (b *bench) startNull(ctx context.Context, order, conflict, seats int) (*process, error) {
	return spawn(ctx, func(p *process, line string) bool {
		p.url = line
		return true
	}, filepath.Join(b.work, "null"), fmt.Sprintf("--order=%d", order), fmt.Sprintf("--conflict=%d", conflict), fmt.Sprintf("--map=%d", seats))
}

// profileCPU writes a CPU profile of the next seconds, when one is wanted.
func (b *bench) profileCPU(p *process, name string) func() {
	if b.profile == "" {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp, err := http.Get(fmt.Sprintf("%sprofile?seconds=%d", p.pprof, max(b.seconds-1, 1)))
		if err != nil {
			fmt.Fprintln(os.Stderr, "profile:", err)
			return
		}
		defer resp.Body.Close()
		f, err := os.Create(filepath.Join(b.profile, name+".pb.gz"))
		if err == nil {
			_, err = io.Copy(f, resp.Body)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "profile:", err)
		}
	}()
	return func() { <-done }
}

// Houses of a round.
const (
	stadiumSeats = 60_000 // of a show that is ordered from
	theatreSeats = 1_064  // of the show whose map is read; 28 rows of 38
	arenaSeats   = 20_000 // of each show of the mixed run; 125 rows of 160
	buyers       = 256    // whose tokens are minted before
)

// house is what a round sells.
type house struct {
	admin    string
	tokens   string            // file of buyers' tokens, one a line
	stadiums []seatflow.ShowID // for wrk
	steady   []seatflow.ShowID // for seatflow load, which looks for free seats itself
	quiet    seatflow.ShowID   // for one order after the other
	theatre  seatflow.ShowID
	arenas   []seatflow.ShowID
	next     int // number of the first stadium seat that nobody asked for yet
}

// build mints tokens, makes the halls and opens the shows, over the API as a
// house would, and has every view built before anything is measured.
func (b *bench) build(ctx context.Context, p *process) (*house, error) {
	h := &house{tokens: filepath.Join(p.data, "tokens.txt")}
	var err error
	if h.admin, err = app.MintToken(p.data, "bench", seatflow.RoleAdmin, 4*time.Hour); err != nil {
		return nil, err
	}
	var tokens strings.Builder
	for i := range buyers {
		t, err := app.MintToken(p.data, seatflow.UserID(fmt.Sprintf("buyer-%03d", i)), seatflow.RoleBuyer, 4*time.Hour)
		if err != nil {
			return nil, err
		}
		tokens.WriteString(t + "\n")
	}
	if err := os.WriteFile(h.tokens, []byte(tokens.String()), 0o600); err != nil {
		return nil, err
	}
	c, err := loadgen.NewClient(p.url, 2)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	open := func(name string, o seatplan.GenerateOptions, shows int) ([]seatflow.ShowID, error) {
		plan, err := seatplan.Generate(o).JSON()
		if err != nil {
			return nil, err
		}
		ids, err := loadgen.OpenShows(ctx, c, h.admin, name, plan, shows)
		for _, id := range ids {
			resp, err := c.HTTP().Get(fmt.Sprintf("%s/api/v1/shows/%d/seats?form=compact", p.url, id))
			if err != nil {
				return nil, err
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return ids, err
	}
	theatre, err := open("Theatre", seatplan.GenerateOptions{Rows: 28, Seats: 38}, 1)
	if err != nil {
		return nil, err
	}
	h.theatre = theatre[0]
	if h.arenas, err = open("Arena", seatplan.GenerateOptions{Rows: 125, Seats: 160}, 3); err != nil {
		return nil, err
	}
	capacity := 2*b.seconds*most/stadiumSeats + 1
	steady := (b.seconds+1)*most/2/stadiumSeats + 1
	all, err := open("Stadium", seatplan.GenerateOptions{Stadium: true, Capacity: stadiumSeats}, capacity+steady+1)
	if err != nil {
		return nil, err
	}
	h.stadiums, h.steady, h.quiet = all[:capacity], all[capacity:capacity+steady], all[capacity+steady]
	return h, nil
}

// take gives the next n stadium seats: the number of the first.
func (h *house) take(n int) int {
	first := h.next
	h.next += n
	return first
}
