package app_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/app"
	"seatflow/internal/testkit"
)

// crashVariable makes the test binary a server that kills itself with SIGKILL
// at a point, "port.method.before" or "…after"; dataVariable names its folder.
const (
	crashVariable = "SEATFLOW_TEST_CRASH"
	dataVariable  = "SEATFLOW_TEST_DATA"
	noCrash       = "none"
)

// crashServer is the process that dies.
func crashServer(point string) int {
	die := func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	o := app.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if parts := strings.Split(point, "."); len(parts) == 3 {
		action := testkit.Before(die)
		if parts[2] == "after" {
			action = testkit.After(die)
		}
		switch parts[0] {
		case "seats":
			o.WrapSeats = func(s seatflow.SeatStore) seatflow.SeatStore {
				f := testkit.NewFaultySeats(s)
				f.On(parts[1], action)
				return f
			}
		case "ledger":
			o.WrapLedger = func(l seatflow.Ledger) seatflow.Ledger {
				f := testkit.NewFaultyLedger(l)
				f.On(parts[1], action)
				return f
			}
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	a, err := app.New(ctx, testConfig(os.Getenv(dataVariable)), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	token, err := a.Token("admin", seatflow.RoleAdmin, time.Hour)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 4
	}
	fmt.Println(a.URL(), token)
	if err := a.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 5
	}
	if err := a.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 6
	}
	return 0
}

// child is such a process, as seen from the test.
type child struct {
	*server
	cmd *exec.Cmd
	url string
}

func spawn(t *testing.T, dir, point string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashVariable+"="+point, dataVariable+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the server said nothing: %v", cmd.Wait())
	}
	url, token, _ := strings.Cut(lines.Text(), " ")
	c := &child{cmd: cmd, url: url}
	c.server = &server{t: t, base: url, admin: token, secretDir: dir, http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}}
	t.Cleanup(c.http.CloseIdleConnections)
	c.waitReady()
	return c
}

// died waits for the process and checks that SIGKILL ended it.
func (c *child) died() {
	c.t.Helper()
	c.cmd.Wait()
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		c.t.Fatalf("the server was to be killed, but ended with %v", c.cmd.ProcessState)
	}
}

func (c *child) terminate() {
	c.t.Helper()
	c.cmd.Process.Signal(syscall.SIGTERM)
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("after SIGTERM: %v", err)
	}
}

// A server killed at each step between hold, insert, answer and what follows:
// after a restart the facts are whole, the view agrees, and a retry with the
// same key is the same one order.
func TestKilledAtEachStep(t *testing.T) {
	for _, c := range []struct {
		name, point string
		then        string // what is asked for after the order: the step that dies
		state       string // of the order in the end
		seat        byte   // in the map in the end
	}{
		{"before the hold", "seats.Hold.before", "", "pending", '1'},
		{"between hold and insert", "seats.Hold.after", "", "pending", '1'},
		{"at the insert", "ledger.InsertOrder.before", "", "pending", '1'},
		{"between insert and answer", "ledger.InsertOrder.after", "", "pending", '1'},
		{"between cancel and view", "seats.Release.before", "cancel", "cancelled", '0'},
		{"before a cancel commits", "ledger.CancelOrder.before", "cancel", "pending", '1'},
		{"between extension and view", "seats.Extend.before", "extend", "pending", '1'},
		{"between payment and view", "seats.Sell.before", "pay", "paid", '2'},
		{"between payment and answer", "ledger.RecordPayment.after", "pay", "paid", '2'},
		{"while a view is rebuilt", "seats.Rebuild.before", "rebuild", "pending", '1'},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.then == "rebuild" {
				// The first view must be there before one may die while rebuilding.
				first := spawn(t, dir, noCrash)
				show := first.openShow(2, 5, nil)
				first.must(201, first.token("ann"), "POST", "/api/v1/orders", map[string]any{"showId": show, "seats": []int{1, 2}, "idempotencyKey": "k"})
				first.cmd.Process.Kill()
				first.died()
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), crashVariable+"="+c.point, dataVariable+"="+dir)
				if err := cmd.Run(); err == nil {
					t.Fatal("the server did not die")
				}
				checkAfterCrash(t, dir, show, c.state, c.seat)
				return
			}
			s := spawn(t, dir, c.point)
			show := s.openShow(2, 5, nil)
			ann := s.token("ann")
			a, err := s.try(ann, "POST", "/api/v1/orders", "k", ask(show, 1, 2))
			if c.then == "" {
				if err == nil {
					t.Fatalf("the server answered %d", a.status)
				}
			} else {
				if err != nil || a.status != 201 {
					t.Fatalf("%v, %d %s", err, a.status, a.body)
				}
				var o order
				a.into(t, &o)
				s.doomed(ann, c.then, o.No)
			}
			s.died()
			checkAfterCrash(t, dir, show, c.state, c.seat)
		})
	}
}

// doomed asks for the step that kills the server.
func (c *child) doomed(token, what, no string) {
	switch what {
	case "pay":
		var checkout struct {
			URL string `json:"url"`
		}
		c.must(201, token, "POST", "/api/v1/orders/"+no+"/payments", map[string]any{}).into(c.t, &checkout)
		c.try(token, "POST", checkout.URL, "", map[string]any{"outcome": "succeed"})
	default:
		c.try(token, "POST", "/api/v1/orders/"+no+"/"+what, "", nil)
	}
}

func checkAfterCrash(t *testing.T, dir string, show int, state string, seat byte) {
	t.Helper()
	s := spawn(t, dir, noCrash) // a killed one left no stale lock
	ann := s.token("ann")
	var again order
	a := s.call(ann, "POST", "/api/v1/orders", "k", ask(show, 1, 2))
	if a.status != 201 {
		t.Fatalf("a retry with the same key got %d: %.300s", a.status, a.body)
	}
	a.into(t, &again)
	if again.State != state {
		t.Errorf("the order is %s, want %s", again.State, state)
	}
	var mine struct {
		Orders []order `json:"orders"`
	}
	s.must(200, ann, "GET", "/api/v1/orders", nil).into(t, &mine)
	if len(mine.Orders) != 1 || mine.Orders[0].No != again.No {
		t.Errorf("one key made %d orders: %+v", len(mine.Orders), mine.Orders)
	}
	if got := s.states(show)[0]; got != seat {
		t.Errorf("seat 1 is %c in the map, want %c", got, seat)
	}
	s.verify(fmt.Sprintf(`{"at":"2031-01-01T00:00:00Z","op":"order","no":%q,"showId":%d,"userId":"ann","seats":[1,2],"state":"pending"}`+"\n", again.No, show))
	s.terminate()
}

// Pending holds keep their deadlines over a kill, and run out by themselves.
func TestHoldsKeepTheirDeadlinesOverAKill(t *testing.T) {
	dir := t.TempDir()
	s := spawn(t, dir, noCrash)
	show := s.openShow(2, 5, map[string]any{"holdSeconds": 5})
	ann := s.token("ann")
	var o, after order
	s.must(201, ann, "POST", "/api/v1/orders", ask(show, 1)).into(t, &o)
	s.cmd.Process.Kill()
	s.died()
	s = spawn(t, dir, noCrash)
	s.must(200, ann, "GET", "/api/v1/orders/"+o.No, nil).into(t, &after)
	if !after.Deadline.Equal(o.Deadline) {
		t.Errorf("the deadline moved from %v to %v", o.Deadline, after.Deadline)
	}
	s.waitFor("the hold to run out", func() bool { return s.states(show)[0] == '0' })
	s.must(200, ann, "GET", "/api/v1/orders/"+o.No, nil).into(t, &after)
	if after.State != "expired" {
		t.Errorf("the order is %s", after.State)
	}
	s.verify("")
	s.terminate()
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := spawn(t, dir, noCrash)
	_, err := app.New(t.Context(), testConfig(dir), app.Options{})
	var inUse *app.InUseError
	if !asInUse(err, &inUse) || inUse.PID != s.cmd.Process.Pid || inUse.URL != s.url || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("got %v", err)
	}
	if url, ok := app.DataServer(dir); !ok || url != s.url {
		t.Errorf("DataServer: %q, %v", url, ok)
	}
	s.cmd.Process.Kill()
	s.died()
	if url, ok := app.DataServer(dir); ok {
		t.Errorf("a dead server is still said to serve %s", url)
	}
	a, err := app.New(t.Context(), testConfig(dir), app.Options{})
	if err != nil {
		t.Fatalf("after kill -9: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
