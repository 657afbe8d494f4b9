package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"seatflow"
	"seatflow/internal/app"
	"seatflow/internal/verify"
)

// target is the server or data folder that a tool works on.
type target struct {
	url   string
	data  string
	token string
	// A deployment that nodes share, asked directly.
	ledger string
	seats  string
}

// flags adds the flags that name a target.
func (t *target) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.url, "url", "", "base URL of a running server; found by the data folder if empty")
	cmd.Flags().StringVar(&t.data, "data", defaultData(), "data folder")
	cmd.Flags().StringVar(&t.token, "token", "", "administrator's token; made from the data folder's secret if empty")
}

// find fills in the URL of the server that runs on the data folder and makes
// an administrator's token. It reports false when no server runs there.
func (t *target) find() (bool, error) {
	if t.url == "" {
		url, ok := app.DataServer(t.data)
		if !ok {
			return false, nil
		}
		t.url = url
	}
	if t.token == "" {
		token, err := app.MintToken(t.data, "tool", seatflow.RoleAdmin, time.Hour)
		if err != nil {
			return true, fmt.Errorf("no administrator's token: give one with --token, or the server's data folder with --data: %w", err)
		}
		t.token = token
	}
	return true, nil
}

func verifyCommand() *cobra.Command {
	var at target
	var show int64
	var acked, output string
	cmd := &cobra.Command{
		Use: "verify", Short: "Prove that nothing was sold twice or lost", Args: noArgs,
		Long: `Check what must always hold and print what was found.

  I1  at most one active order a seat and show, and the unique keys that promise it
  I2  every captured payment has exactly one ending
  I3  nothing that was acknowledged is lost (with --acked)
  I4  the view of every show equals what follows from the facts

A running server checks itself, beside its live traffic. With no server on the
data folder the facts alone are checked, for the view lives in the server.
With --ledger the stores that nodes share are asked directly; the view is
checked too when --seats names it, and should then have no traffic.
The exit code is 1 when anything is violated or could not be checked.`,
		Example: `  seatflow verify
  seatflow verify --data seatflow-demo --show 2
  seatflow verify --url http://127.0.0.1:8080 --token "$TOKEN" --acked acked.ndjson
  seatflow verify --ledger "$SEATFLOW_LEDGER" --seats redis://127.0.0.1:6379
  seatflow verify --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if at.seats != "" && at.ledger == "" {
				return usageError{errors.New("--seats needs --ledger: a view is held against the facts")}
			}
			if show < 0 {
				return usageError{fmt.Errorf("--show %d: must be a show's number", show)}
			}
			report, err := runVerify(cmd.Context(), at, seatflow.ShowID(show), acked)
			if err != nil {
				return err
			}
			return printReport(cmd.OutOrStdout(), report, output)
		},
	}
	at.flags(cmd)
	cmd.Flags().StringVar(&at.ledger, "ledger", "", "facts that nodes share: mysql://USER:PASSWORD@HOST:PORT/DATABASE")
	cmd.Flags().StringVar(&at.seats, "seats", "", "view that nodes share: redis://HOST:PORT")
	cmd.Flags().Int64Var(&show, "show", 0, "one show only; 0: every show")
	cmd.Flags().StringVar(&acked, "acked", "", "log of acknowledgements to hold the ledger to")
	cmd.Flags().StringVar(&output, "output", "text", "text or json")
	return cmd
}

func checkOutput(output string) error {
	if output != "text" && output != "json" {
		return usageError{fmt.Errorf("--output %q: must be text or json", output)}
	}
	return nil
}

// verifyTimeout bounds a verification of the largest house there is.
const verifyTimeout = 10 * time.Minute

// runVerify has the running server verify itself, or verifies a data folder
// that nobody serves.
func runVerify(ctx context.Context, at target, show seatflow.ShowID, acked string) (verify.Report, error) {
	var log io.Reader
	if acked != "" {
		f, err := os.Open(acked)
		if err != nil {
			return verify.Report{}, err
		}
		defer f.Close()
		log = f
	}
	if at.ledger != "" {
		d, err := app.OpenDeployment(ctx, at.ledger, at.seats)
		if err != nil {
			return verify.Report{}, err
		}
		var shows []seatflow.ShowID
		if show != 0 {
			shows = []seatflow.ShowID{show}
		}
		report := verify.All(ctx, d.Ledger, d.Seats, shows, log)
		return report, d.Close()
	}
	running, err := at.find()
	if err != nil {
		return verify.Report{}, err
	}
	if running {
		client := &http.Client{Timeout: verifyTimeout}
		defer client.CloseIdleConnections()
		return verify.Remote(ctx, client, at.url, at.token, show, log)
	}
	if _, err := os.Stat(at.data); err != nil {
		return verify.Report{}, fmt.Errorf("no data folder: %w", err)
	}
	data, err := app.OpenFacts(ctx, at.data)
	if err != nil {
		return verify.Report{}, err
	}
	report := verify.All(ctx, data.Ledger, nil, nil, log)
	return report, data.Close()
}

// printReport prints a report and fails when it is not clean.
func printReport(w io.Writer, report verify.Report, output string) error {
	var err error
	if output == "json" {
		err = json.MarshalWrite(w, report, jsontext.WithIndent("  "), json.Deterministic(true))
		if err == nil {
			_, err = fmt.Fprintln(w)
		}
	} else {
		err = report.Write(w)
	}
	if err == nil && !report.OK() {
		err = errSaid
	}
	return err
}
