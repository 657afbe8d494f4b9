package ledger

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"seatflow"
)

// crashEnv names the database that this test binary, started again, is to
// write until it is killed.
const crashEnv = "LEDGER_CRASH_TEST"

// crashWriter inserts, cancels and pays orders of the first show as fast as it
// can and says so on standard output, one line an acknowledgement.
func crashWriter(path string) error {
	ctx := context.Background()
	l, err := OpenSQLite(ctx, path, Options{})
	if err != nil {
		return err
	}
	l.checkpoints.pages, l.checkpoints.every = 100, 16 // so that many a kill meets a checkpoint
	show, err := l.Show(ctx, 1)
	if err != nil {
		return err
	}
	errs := make(chan error)
	for range 16 {
		go func() { errs <- crashBuyer(ctx, l, show) }()
	}
	return <-errs
}

func crashBuyer(ctx context.Context, l *Ledger, show seatflow.Show) error {
	for {
		n := sale(show, "user-"+rand.Text(), rand.Text(), seatflow.SeatID(mrand.IntN(1<<30)+1), seatflow.SeatID(1<<30+mrand.IntN(1<<30)))
		n.Order.No = seatflow.OrderNo(fmt.Sprintf("01%024d", mrand.Uint64()))
		o, err := l.InsertOrder(ctx, n)
		if err != nil {
			return err
		}
		fmt.Println(o.No, o.State, o.Version)
		switch mrand.IntN(3) {
		case 0:
			o, err = l.CancelOrder(ctx, seatflow.OrderChange{No: o.No})
		case 1:
			var out seatflow.PaymentOutcome
			out, err = l.RecordPayment(ctx, seatflow.PaymentEvent{Provider: "p", EventID: string(o.No), CaptureID: string(o.No),
				Type: seatflow.PaymentCaptured, Order: o.No, Amount: o.Total}, seatflow.System("test"))
			o = out.Order
		}
		if err != nil {
			return err
		}
		fmt.Println(o.No, o.State, o.Version)
	}
}

// TestKilled: a process that is killed at any moment has lost nothing that it
// acknowledged, and leaves a ledger that is sound.
func TestKilled(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := OpenSQLite(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	testShow(t, l, 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	acked := map[seatflow.OrderNo]seatflow.Order{} // as last acknowledged
	for round := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		kill := sync.OnceFunc(func() { _ = cmd.Process.Kill() })
		heard, enough := 0, 500+mrand.IntN(1500)
		for lines.Scan() {
			// The last line may be cut off by the kill.
			f := strings.Fields(lines.Text())
			if len(f) == 3 {
				version, err := strconv.ParseInt(f[2], 10, 64)
				if err == nil && seatflow.OrderNo(f[0]).Valid() {
					acked[seatflow.OrderNo(f[0])] = seatflow.Order{State: seatflow.OrderState(f[1]), Version: version}
				}
			}
			if heard++; heard == enough {
				kill()
			}
		}
		kill()
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("round %d: the writer ended by itself: %v, %s", round, err, said.String())
		}
		if heard < enough {
			t.Fatalf("round %d: %d lines; %s", round, heard, said.String())
		}
		if l, err = OpenSQLite(ctx, path, Options{}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for no, want := range acked {
			got, err := l.Order(ctx, no, "")
			// It may have gone on after what was acknowledged, never back.
			if err != nil || got.Version < want.Version || got.Version == want.Version && got.State != want.State {
				t.Errorf("round %d: order %s was acknowledged as %s, version %d; there is %+v, %v", round, no, want.State, want.Version, got, err)
			}
		}
		a, err := l.Audit(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range [][]string{a.DoubleSeats, a.OrphanSeats, a.MissingSeats, a.MissingIndexes, a.BadEndings, a.PaidWithoutCash, a.IntegrityFaults} {
			if len(list) > 0 {
				t.Errorf("round %d: audit: %q", round, list)
			}
		}
		events := rawRows(t, l, "SELECT COUNT(*), COUNT(DISTINCT id) FROM order_event")[0]
		if n, distinct, _ := strings.Cut(events, "|"); n != distinct {
			t.Errorf("round %d: %s events, %s numbers", round, n, distinct)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d orders acknowledged in five runs", len(acked))
}
