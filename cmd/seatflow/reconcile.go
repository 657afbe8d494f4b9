package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"seatflow/internal/app"
)

func reconcileCommand() *cobra.Command {
	var at target
	var show int64
	var dryRun bool
	var output string
	cmd := &cobra.Command{
		Use: "reconcile", Short: "Hold the seat maps against the facts and repair them", Args: noArgs,
		Long: `Have a running server hold its seat maps against the facts now, instead of at
its next round, and print what it found and repaired. With --dry-run nothing is
changed.

Repairs change the view, never what was sold; the one fact that they may change
is to expire an order that is past its time. Differences younger than the grace
time are left to the requests that made them, and counted as young.
The exit code is 1 when there was an alarm, or a show could not be checked.`,
		Example: `  seatflow reconcile --dry-run
  seatflow reconcile --show 3
  seatflow reconcile --url http://127.0.0.1:8080 --token "$TOKEN" --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if show < 0 {
				return usageError{fmt.Errorf("--show %d: must be a show's number", show)}
			}
			running, err := at.find()
			if err != nil {
				return err
			}
			if !running {
				return fmt.Errorf("no server runs on the data folder %s; the view of seats in memory lives in the server, and is made from the facts when it starts", at.data)
			}
			report, err := askReconcile(cmd, at, show, dryRun)
			if err != nil {
				return err
			}
			if output == "json" {
				err = json.MarshalWrite(cmd.OutOrStdout(), report, jsontext.WithIndent("  "), json.Deterministic(true))
				if err == nil {
					_, err = fmt.Fprintln(cmd.OutOrStdout())
				}
			} else {
				err = report.Print(cmd.OutOrStdout())
			}
			if err == nil && (len(report.Alarms) > 0 || len(report.Skipped) > 0) {
				err = errSaid
			}
			return err
		},
	}
	at.flags(cmd)
	cmd.Flags().Int64Var(&show, "show", 0, "one show only; 0: every show")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "report, and change nothing")
	cmd.Flags().StringVar(&output, "output", "text", "text or json")
	return cmd
}

func askReconcile(cmd *cobra.Command, at target, show int64, dryRun bool) (app.ReconcileReport, error) {
	var report app.ReconcileReport
	url := fmt.Sprintf("%s/api/v1/admin/reconcile?show=%d&dryRun=%t", strings.TrimSuffix(at.url, "/"), show, dryRun)
	req, err := http.NewRequestWithContext(cmd.Context(), http.MethodPost, url, nil)
	if err != nil {
		return report, err
	}
	req.Header.Set("Authorization", "Bearer "+at.token)
	client := &http.Client{Timeout: verifyTimeout}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return report, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return report, fmt.Errorf("read the report: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return report, fmt.Errorf("the server answered %s: %.300s", resp.Status, body)
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return report, fmt.Errorf("the server's report: %w", err)
	}
	report.Took = time.Duration(report.TookMs) * time.Millisecond
	return report, nil
}
