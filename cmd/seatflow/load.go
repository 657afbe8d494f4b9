package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"seatflow"
	"seatflow/internal/app"
	"seatflow/internal/loadgen"
	"seatflow/internal/seatplan"
	"seatflow/internal/verify"
)

// loadReport is what the load command prints as JSON.
type loadReport struct {
	Load   loadgen.Result `json:"load"`
	Verify verify.Report  `json:"verify"`
}

func loadCommand() *cobra.Command {
	var at target
	var shows []int64
	var scenario, acked, output string
	o := loadgen.Options{}
	cmd := &cobra.Command{
		Use: "load", Short: "Put load on a server over its public API, then verify it", Args: noArgs,
		Long: `Send requests on a fixed schedule and measure each from the moment it was due,
so that a server that stalls cannot hide it. Refusals that are business (a
taken seat) are counted apart from errors and from rate limits.

  distinct  every order asks for another seat
  hot       every order asks for the same seat
  mixed     nine of ten requests browse, one orders another seat

Without --show it makes a hall and shows with seats enough, which needs an
administrator's token; the data folder's secret gives one. With the data
folder at hand the buyers' tokens are made from it too; otherwise they are
asked for as guests, within the server's bound per address.

The server's windows on orders (ten a minute and user, 500 a second and show)
count here as anywhere: start it with --rates-orders-per-user-per-minute 0 and
--rates-orders-per-show-per-second 0, or they are what is measured.

It ends with a verification of everything that was acknowledged. The exit code
is 1 when that fails or a request had an error.`,
		Example: `  seatflow serve --rates-orders-per-user-per-minute 0 --rates-orders-per-show-per-second 0 &
  seatflow load
  seatflow load --scenario hot --rate 5000 --duration 30s --connections 256
  seatflow load --show 3 --rate 200 --acked acked.ndjson --output json
  seatflow load --rate 0 --connections 1     closed loop: one order after the other`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			o.Scenario = loadgen.Scenario(scenario)
			if !slices.Contains(loadgen.Scenarios[:], o.Scenario) {
				return usageError{fmt.Errorf("--scenario %q: must be one of %v", scenario, loadgen.Scenarios)}
			}
			for _, id := range shows {
				o.Shows = append(o.Shows, seatflow.ShowID(id))
			}
			return runLoad(cmd.Context(), at, o, acked, output, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	at.flags(cmd)
	f := cmd.Flags()
	f.Int64SliceVar(&shows, "show", nil, "shows to load, separated by commas; a new house if empty")
	f.StringVar(&scenario, "scenario", string(loadgen.Distinct), "distinct, hot or mixed")
	f.Float64Var(&o.Rate, "rate", 500, "requests a second; 0: closed loop, as fast as the connections go")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "how long to measure")
	f.DurationVar(&o.Warmup, "warmup", time.Second, "how long to send before measuring")
	f.IntVar(&o.Connections, "connections", 64, "the most requests outstanding at once")
	f.DurationVar(&o.Timeout, "timeout", 10*time.Second, "of one request")
	f.StringVar(&acked, "acked", "", "append the log of acknowledgements to this file")
	f.StringVar(&output, "output", "text", "text or json")
	return cmd
}

func runLoad(ctx context.Context, at target, o loadgen.Options, acked, output string, out, errOut io.Writer) error {
	running, err := at.find()
	if !running {
		return fmt.Errorf("no server runs on data folder %s: start one with seatflow serve, or name one with --url", at.data)
	}
	if err != nil {
		return err
	}
	o.URL = at.url
	client, err := loadgen.NewClient(at.url, 4)
	if err != nil {
		return usageError{err}
	}
	defer client.Close()
	if len(o.Shows) == 0 {
		if o.Shows, err = openHouse(ctx, client, at.token, &o); err != nil {
			return err
		}
	}
	o.Mint = buyers(at.data)

	// The verification needs a log, whether or not the caller wants to keep it.
	path := acked
	if path == "" {
		f, err := os.CreateTemp("", "seatflow-acked-*.ndjson")
		if err != nil {
			return err
		}
		path = f.Name()
		f.Close()
		defer os.Remove(path)
	}
	if o.Acks, err = loadgen.OpenAckLog(path); err != nil {
		return err
	}
	var bar *progressbar.ProgressBar
	if f, ok := errOut.(*os.File); ok && term.IsTerminal(int(f.Fd())) && output == "text" {
		o.Progress = func(done, total int64) {
			if bar == nil {
				bar = newBar(errOut, total, string(o.Scenario))
			}
			_ = bar.Set64(done)
		}
	}
	result, err := loadgen.Run(ctx, o)
	if bar != nil {
		_ = bar.Finish()
	}
	if err = errors.Join(err, o.Acks.Close()); err != nil {
		return err
	}
	report, err := runVerify(ctx, at, 0, path)
	if err != nil {
		return err
	}
	if output == "json" {
		err = json.MarshalWrite(out, loadReport{result, report}, jsontext.WithIndent("  "), json.Deterministic(true))
		fmt.Fprintln(out)
	} else {
		printLoad(out, result)
		err = report.Write(out)
	}
	switch {
	case err != nil:
		return err
	case !report.OK():
		return errSaid
	case result.Errors > 0:
		return fmt.Errorf("%d requests had errors", result.Errors)
	}
	return nil
}

// openHouse makes a house with enough seats for a load: one show, or as many
// as it takes.
func openHouse(ctx context.Context, client *loadgen.Client, token string, o *loadgen.Options) ([]seatflow.ShowID, error) {
	const largest = 60_000
	orders := o.Rate * (o.Duration + o.Warmup).Seconds()
	switch {
	case o.Rate == 0:
		orders = 4 * largest // a closed loop stops when they are gone
	case o.Scenario == loadgen.Mixed:
		orders /= 10
	case o.Scenario == loadgen.Hot:
		orders = 100
	}
	seats := int(min(max(orders, 100)+100, 1e7))
	shows := (seats + largest - 1) / largest
	side := int(math.Ceil(math.Sqrt(float64((seats + shows - 1) / shows))))
	plan, err := seatplan.Generate(seatplan.GenerateOptions{Name: "Load", Rows: side, Seats: side}).JSON()
	if err != nil {
		return nil, err
	}
	return loadgen.OpenShows(ctx, client, token, "Load "+time.Now().UTC().Format(time.RFC3339), plan, shows)
}

// buyers makes tokens from the data folder's secret. It returns nil when there
// is no such folder: then they are asked for as guests.
func buyers(data string) func(int) (string, error) {
	run := rand.Text()[:8] // a purchase limit must not remember an earlier run
	mint := func(n int) (string, error) {
		return app.MintToken(data, seatflow.UserID(fmt.Sprintf("load-%s-%d", run, n)), seatflow.RoleBuyer, 24*time.Hour)
	}
	if _, err := mint(0); err != nil {
		return nil
	}
	return mint
}

func newBar(w io.Writer, total int64, what string) *progressbar.ProgressBar {
	if total == 0 {
		total = -1
	}
	return progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(total > 0), progressbar.OptionSetWidth(30))
}

// printLoad prints a result for people.
func printLoad(w io.Writer, r loadgen.Result) {
	pace := fmt.Sprintf("%.0f requests/s asked for", r.Rate)
	if r.Rate == 0 {
		pace = "closed loop"
	}
	fmt.Fprintf(w, "%s, %s, %d connections: %d answers in %.1f s, %.0f/s\n\n", r.Scenario, pace, r.Connections, r.Sent, r.Seconds, r.Throughput)
	fmt.Fprintf(w, "  ok %d   conflicts %d   refused %d   rate limited %d   errors %d   retries %d\n",
		r.OK, r.Conflicts, r.Refused, r.RateLimited, r.Errors, r.Retries)
	fmt.Fprintf(w, "  missed schedule %d   never sent %d   orders acknowledged, warm-up included %d\n", r.Missed, r.Unsent, r.Orders)
	if r.RanOut {
		fmt.Fprintln(w, "  ended early: no seat was left to ask for")
	}
	for _, e := range r.FirstErrors {
		fmt.Fprintf(w, "  error: %s\n", strings.TrimPrefix(e, "loadgen: "))
	}
	fmt.Fprintf(w, "\n  %-8s %9s %9s %9s %9s %9s   ms from the intended start\n", "", "p50", "p90", "p99", "p99.9", "max")
	for _, kind := range slices.Sorted(maps.Keys(r.Latency)) {
		l := r.Latency[kind]
		fmt.Fprintf(w, "  %-8s %9.2f %9.2f %9.2f %9.2f %9.2f\n", kind, l.P50, l.P90, l.P99, l.P999, l.Max)
	}
	fmt.Fprintln(w)
}
