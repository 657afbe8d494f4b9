package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"seatflow/internal/app"
	"seatflow/internal/config"
	"seatflow/internal/telemetry"
)

func serveCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the server; nothing to configure", Args: noArgs,
		Long: `Run the server on one data folder: seats in memory, facts in SQLite, sandbox
payments, guest tokens and the web page.

Every setting has a key in the configuration file, a SEATFLOW_* variable and a
flag; flags win over variables, variables over the file.`,
		Example: `  seatflow serve
  seatflow serve --listen 0.0.0.0:8080 --data /var/lib/seatflow
  SEATFLOW_LOG_FORMAT=json seatflow serve --config seatflow.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd, file)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr(), nil)
		},
	}
	addConfigFlags(cmd, &file)
	return cmd
}

// extraProcs and gcPercent suit a process that serves thousands of short
// requests beside one thread that waits for the disk.
const (
	// With as many processors as cores, the committer comes back from each
	// write to find them all busy with requests and queues behind those; the
	// requests then wait for it, and the cores idle by turns. Two more let the
	// kernel run it at once.
	extraProcs = 2
	// The heap is small and most of it short-lived: collecting it less often
	// costs some megabytes.
	gcPercent = 400
)

// tuneRuntime sets what the environment does not.
func tuneRuntime() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + extraProcs)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// serve runs a server and prints where it is; beside, if not nil, runs next
// to it once it answers, and the server stops when that returns.
func serve(ctx context.Context, cfg config.Config, out, errOut io.Writer, beside func(ctx context.Context, a *app.App) error) error {
	tuneRuntime()
	log, err := telemetry.NewLogger(errOut, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	a, err := app.New(ctx, cfg, app.Options{Log: log, Version: buildVersion()})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "SeatFlow %s\n\n  shows     %s/\n  API       %s/docs\n  data      %s\n", buildVersion(), a.URL(), a.URL(), cfg.Data)
	if p := a.Profiler(); p != "" {
		fmt.Fprintf(out, "  profiler  %s\n", p)
	}
	token, err := a.AdminToken()
	if err != nil {
		return errors.Join(err, a.Close())
	}
	if token != "" {
		fmt.Fprintf(out, "\nThe administrator's token, printed this once (others: seatflow token --data %s):\n\n  %s\n", cfg.Data, token)
	}
	fmt.Fprintln(out)

	if beside == nil {
		err = a.Run(ctx)
	} else {
		err = runBeside(ctx, a, beside)
	}
	return errors.Join(err, a.Close())
}

func runBeside(ctx context.Context, a *app.App, beside func(context.Context, *app.App) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- a.Run(ctx)
		cancel()
	}()
	err := beside(ctx, a)
	cancel()
	return errors.Join(err, <-served)
}

// addConfigFlags gives a command one flag per setting.
func addConfigFlags(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "", "configuration file (YAML)")
	for _, k := range config.Keys() {
		f := &pflag.Flag{Name: k.Flag, Usage: k.Help, Value: &textValue{kind: k.Kind, text: fmt.Sprint(k.Default)}, DefValue: fmt.Sprint(k.Default)}
		if k.Kind == config.Bool {
			f.NoOptDefVal = "true"
		}
		cmd.Flags().AddFlag(f)
	}
}

// textValue keeps a flag as it was written; package config judges it.
type textValue struct {
	kind config.Kind
	text string
}

func (v *textValue) String() string     { return v.text }
func (v *textValue) Set(s string) error { v.text = s; return nil }

// Type implements pflag.Value; it is the word behind the flag in the help.
func (v *textValue) Type() string {
	switch v.kind {
	case config.Int:
		return "int"
	case config.Bool:
		return "bool"
	}
	return "string"
}

// defaultData is the data folder that serve uses when no flag names one, so
// that the tools find the server without one as well.
func defaultData() string {
	if dir := os.Getenv("SEATFLOW_DATA"); dir != "" {
		return dir
	}
	return config.Defaults().Data
}

// loadConfig reads the four layers for a command with config flags.
func loadConfig(cmd *cobra.Command, file string) (config.Config, error) {
	flags := map[string]any{}
	known := map[string]bool{}
	for _, k := range config.Keys() {
		known[k.Flag] = true
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if known[f.Name] {
			flags[f.Name] = f.Value.String()
		}
	})
	cfg, err := config.Load(file, os.Environ(), flags)
	if err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}
