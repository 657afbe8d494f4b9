// Command seatflow sells and reserves numbered seats: the server, the demo
// and the tools around them.
//
// Exit codes: 0 done, 1 failed (a violation found by verify included), 2 wrong
// usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // halls have IANA zones; the machine may not

	"github.com/spf13/cobra"
)

// version is set by the linker for releases.
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// usageError is a mistake in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func run(ctx context.Context, args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if !errors.Is(err, errSaid) {
		fmt.Fprintln(root.ErrOrStderr(), "seatflow:", err)
	}
	var usage usageError
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

// errSaid marks a failure whose story has been told already.
var errSaid = errors.New("failed")

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "seatflow",
		Short: "Sell and reserve numbered seats, never twice",
		Long: `SeatFlow sells and reserves numbered seats when hundreds of people want the
same chair in the same second. One binary holds the seats, the orders, the
money and the live map.`,
		Example: `  seatflow demo                      a house with a crowd, live, in ten seconds
  seatflow serve                     the server, nothing to configure
  seatflow plan import theatre.json  bring your own house
  seatflow verify                    prove that nothing was sold twice`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       buildVersion(),
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\nRun '%s --help' for usage", err, cmd.CommandPath())}
	})
	root.AddCommand(serveCommand(), demoCommand(), planCommand(), loadCommand(), verifyCommand(), reconcileCommand(), tokenCommand(), healthCommand(), migrateCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Example: "  seatflow version",
		Run:     func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "seatflow", buildVersion()) },
	}
}

// noArgs refuses arguments as a usage error.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0])}
	}
	return nil
}

// buildVersion is the release's version, or what the build knows of itself.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && v == "devel" {
			v += "-" + s.Value[:12]
		}
	}
	return v + " " + info.GoVersion
}
