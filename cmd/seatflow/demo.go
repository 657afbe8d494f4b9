package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"seatflow/internal/app"
	"seatflow/internal/loadgen"
)

func demoCommand() *cobra.Command {
	var file, plan, disambiguate, until, ackedFile string
	var buyers int
	var rate, pace float64
	var seed uint64
	cmd := &cobra.Command{
		Use: "demo", Short: "A house, three shows and a crowd of simulated buyers", Args: noArgs,
		Long: `Run the server with a house that is alive at once: it imports a plan, opens three
shows and lets a crowd in that holds, pays, abandons, cancels and collides on
the best seats, while you watch and buy beside it.

It uses the data folder seatflow-demo, apart from a real server's. With
--until sold-out the crowd buys every seat, and the command ends with a proof
that none was sold twice; its exit code tells.`,
		Example: `  seatflow demo
  seatflow demo --plan theatre.json --disambiguate zone --until sold-out
  seatflow demo --buyers 200 --pace 0.1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch until {
			case "", "sold-out":
			default:
				return usageError{fmt.Errorf("--until %q: only sold-out is known", until)}
			}
			if disambiguate != "" && disambiguate != "zone" {
				return usageError{fmt.Errorf("--disambiguate %q: only zone is known", disambiguate)}
			}
			cfg, err := loadConfig(cmd, file)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("data") && os.Getenv("SEATFLOW_DATA") == "" && file == "" {
				cfg.Data = "seatflow-demo"
			}
			if !cmd.Flags().Changed("log-level") && os.Getenv("SEATFLOW_LOG_LEVEL") == "" {
				cfg.Log.Level = "warn" // the crowd says what happens
			}
			cfg.HTTP.GuestsPerAddressPerMinute = max(cfg.HTTP.GuestsPerAddressPerMinute, 1_000_000) // the crowd has one address
			if !cmd.Flags().Changed("pace") && until != "" {
				pace = 0.02
			}
			if !cmd.Flags().Changed("buyers") && until != "" {
				buyers = 200
			}
			var acks *loadgen.AckLog
			if ackedFile != "" {
				if acks, err = loadgen.OpenAckLog(ackedFile); err != nil {
					return err
				}
			}
			o := app.DemoOptions{
				Plan: plan, Disambiguate: disambiguate, UntilSoldOut: until == "sold-out",
				Buyers: buyers, Rate: rate, Pace: pace, Seed: seed, Acks: acks, Out: cmd.OutOrStdout(),
			}
			err = serve(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr(), func(ctx context.Context, a *app.App) error {
				return a.Demo(ctx, o)
			})
			if acks != nil {
				if cerr := acks.Close(); err == nil {
					err = cerr
				}
			}
			return err
		},
	}
	addConfigFlags(cmd, &file)
	f := cmd.Flags()
	f.StringVar(&plan, "plan", "", "seat plan to open with; a theatre of our own if empty")
	f.StringVar(&disambiguate, "disambiguate", "", "keep repeated seat guids apart by: zone")
	f.StringVar(&until, "until", "", "end when: sold-out")
	f.IntVar(&buyers, "buyers", 30, "buyers in the house at once (200 with --until)")
	f.Float64Var(&rate, "rate", 0, "arrivals a second; 0: a new buyer comes when one leaves")
	f.Float64Var(&pace, "pace", 1, "how long buyers think: 1 like people, 0 not at all (0.02 with --until)")
	f.Uint64Var(&seed, "seed", uint64(time.Now().UnixNano()), "seed of the crowd's decisions")
	f.StringVar(&ackedFile, "acked", "", "write the log of acknowledgements to this file")
	f.Lookup("seed").DefValue = "from the clock"
	return cmd
}
