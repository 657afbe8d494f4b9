package lock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/testkit"
)

// hangs is only reached by what hangs.
const hangs = time.Minute

func servers(t *testing.T, n int) (list []*testkit.Redis, addrs []string) {
	t.Helper()
	for range n {
		r := testkit.StartRedis(t, testkit.RedisOptions{})
		list, addrs = append(list, r), append(addrs, r.URL())
	}
	return list, addrs
}

func onServers(t *testing.T, addrs []string) *Redlock {
	t.Helper()
	r, err := OpenRedlock(t.Context(), Options{Addrs: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Log(err) // servers that the test killed
		}
	})
	return r
}

// tokens are what the servers have under a name, "" for nothing.
func tokens(t *testing.T, list []*testkit.Redis, name string) []string {
	t.Helper()
	var all []string
	for _, r := range list {
		all = append(all, strings.TrimSpace(r.CLI(t, "--raw", "get", "seatflow:lock:"+name)))
	}
	return all
}

// TestAMinorityMayBeDead: two of five servers dead is no matter; with three
// dead nobody gets a lease, and nobody waits for long to hear so.
func TestAMinorityMayBeDead(t *testing.T) {
	list, addrs := servers(t, 5)
	r, other := onServers(t, addrs), onServers(t, addrs)
	list[0].Kill()
	list[3].Kill()
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	_, held, err := r.TryLock(ctx, "n", MinLease)
	if err != nil {
		t.Fatalf("two of five are dead: %v", err)
	}
	if _, _, err := other.TryLock(ctx, "n", MinLease); !errors.Is(err, seatflow.ErrLocked) {
		t.Errorf("a second holder: %v", err)
	}
	alive := []*testkit.Redis{list[1], list[2], list[4]}
	got := tokens(t, alive, "n")
	if got[0] == "" || got[0] != got[1] || got[1] != got[2] {
		t.Errorf("the servers have %q", got)
	}
	if err := held.Release(ctx); err != nil {
		t.Error(err)
	}
	if got := tokens(t, alive, "n"); strings.Join(got, "") != "" {
		t.Errorf("released, and the servers have %q", got)
	}

	list[4].Kill()
	if _, _, err := r.TryLock(ctx, "m", MinLease); err == nil || errors.Is(err, seatflow.ErrLocked) {
		t.Errorf("three of five are dead: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("and it took a minute to hear so")
	}
	if got := tokens(t, list[1:3], "m"); strings.Join(got, "") != "" {
		t.Errorf("an attempt that failed left %q", got)
	}
}

// TestAForeignTokenIsLeftAlone: whoever has the name now keeps it.
func TestAForeignTokenIsLeftAlone(t *testing.T) {
	list, addrs := servers(t, 3)
	r := onServers(t, addrs)
	ctx, held, err := r.TryLock(t.Context(), "n", MinLease)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		s.CLI(t, "set", "seatflow:lock:n", "somebody else's")
	}
	_ = held.Release(context.WithoutCancel(ctx))
	if got := tokens(t, list, "n"); strings.Join(got, "") != strings.Repeat("somebody else's", 3) {
		t.Errorf("after a foreign release the servers have %q", got)
	}
}

// holderVariable names the servers in a process that only holds a lease.
const holderVariable = "SEATFLOW_TEST_HOLD_LEASE"

// holdLease is that process: it says "held", works until its lease is lost or
// it is told to end, and says how that came.
func holdLease(addrs string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	r, err := OpenRedlock(ctx, Options{Addrs: strings.Split(addrs, ",")})
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	work, held, err := r.TryLock(context.Background(), "n", MinLease)
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("held")
	select {
	case <-work.Done():
		fmt.Println("lost:", errors.Is(context.Cause(work), ErrLost))
		_ = held.Release(context.Background())
	case <-ctx.Done():
		fmt.Println("told to end")
	}
	_ = r.Close()
	return 0
}

// holder starts such a process and waits until it holds the lease.
func holder(t *testing.T, addrs []string) (cmd *exec.Cmd, says *bufio.Scanner) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVariable+"="+strings.Join(addrs, ","))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	says = bufio.NewScanner(out)
	if !says.Scan() || says.Text() != "held" {
		t.Fatalf("the holder says %q", says.Text())
	}
	return cmd, says
}

// TestAPausedHolderIsCancelled: it sleeps past its lease, another takes over,
// and when it wakes it hears of it and takes nothing away.
func TestAPausedHolderIsCancelled(t *testing.T) {
	list, addrs := servers(t, 5)
	r := onServers(t, addrs)
	cmd, says := holder(t, addrs)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	mine, held, err := r.Lock(ctx, "n", MinLease)
	if err != nil {
		t.Fatalf("nobody could take over: %v", err)
	}
	before := tokens(t, list, "n")
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !says.Scan() || says.Text() != "lost: true" {
		t.Errorf("the holder that slept says %q", says.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if after := tokens(t, list, "n"); strings.Join(after, " ") != strings.Join(before, " ") || mine.Err() != nil {
		t.Errorf("it took %q and left %q; the new holder's context: %v", before, after, mine.Err())
	}
	if err := held.Release(ctx); err != nil {
		t.Error(err)
	}
}

// TestSIGTERMReleases: who stops in order leaves no lease behind.
func TestSIGTERMReleases(t *testing.T) {
	list, addrs := servers(t, 3)
	cmd, says := holder(t, addrs)
	if got := tokens(t, list, "n"); got[0] == "" {
		t.Fatalf("the servers have %q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !says.Scan() || says.Text() != "told to end" {
		t.Errorf("the holder says %q", says.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if got := tokens(t, list, "n"); strings.Join(got, "") != "" {
		t.Errorf("it ended, and the servers have %q", got)
	}
}

// TestALeaseIsRenewed: the servers are told anew that it goes on, long before
// its end.
func TestALeaseIsRenewed(t *testing.T) {
	_, addrs := servers(t, 1)
	r := onServers(t, addrs)
	ctx, held, err := r.TryLock(t.Context(), "n", MinLease)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(hangs); r.Stats().Renewed < 2; <-tick.C {
		if ctx.Err() != nil || time.Now().After(end) {
			t.Fatalf("%d renewals; %v", r.Stats().Renewed, context.Cause(ctx))
		}
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
