package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"seatflow/internal/app"
)

func healthCommand() *cobra.Command {
	var data, url string
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "health", Short: "Ask a server whether it is ready", Args: noArgs,
		Long: `Ask the server on a data folder, or at a URL, whether requests should go there,
and print what each of its checks says. The exit code is 1 when it is not
ready. For containers and scripts, which may have no other way to ask.`,
		Example: `  seatflow health
  seatflow health --url http://127.0.0.1:8080 --wait 30s`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), max(wait, 3*time.Second))
			defer cancel()
			for {
				text, err := askHealth(ctx, url, data)
				if err == nil {
					fmt.Fprint(cmd.OutOrStdout(), text)
					return nil
				}
				if wait == 0 {
					return err
				}
				select {
				case <-ctx.Done():
					return fmt.Errorf("not ready within %v: %w", wait, err)
				case <-time.After(250 * time.Millisecond):
				}
			}
		},
	}
	cmd.Flags().StringVar(&data, "data", defaultData(), "data folder")
	cmd.Flags().StringVar(&url, "url", "", "base URL of the server; found by the data folder if empty")
	cmd.Flags().DurationVar(&wait, "wait", 0, "ask again for this long until it is ready")
	return cmd
}

// askHealth returns what the checks say, or an error when the server is not
// ready or there is none.
func askHealth(ctx context.Context, url, data string) (string, error) {
	if url == "" {
		var ok bool
		if url, ok = app.DataServer(data); !ok {
			return "", fmt.Errorf("no server runs on the data folder %s", data)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/readyz", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", err
	}
	var ready struct {
		Status string            `json:"status"`
		Checks map[string]string `json:"checks"`
	}
	if err := json.Unmarshal(body, &ready); err != nil || ready.Status == "" {
		return "", fmt.Errorf("%s answered %s, which is no SeatFlow", url, resp.Status)
	}
	text := fmt.Sprintf("%s %s\n", url, ready.Status)
	for _, name := range slices.Sorted(maps.Keys(ready.Checks)) {
		text += fmt.Sprintf("  %-10s %s\n", name, ready.Checks[name])
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("not ready\n%s", strings.TrimSpace(text))
	}
	return text, nil
}
