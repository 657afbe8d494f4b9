package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"seatflow/internal/app"
	"seatflow/internal/telemetry"
)

func migrateCommand() *cobra.Command {
	var (
		facts     string
		newSecret bool
	)
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the schema of shared facts to this version", Args: noArgs,
		Long: `Bring the schema in MySQL or MariaDB to this binary's version, under a lock of
the database, so that any number may run at once: one works, the others wait
and find it done. A server does the same when it starts; run this before, where
servers may not change the schema. A schema newer than the binary is left alone
and is an error.

With --new-secret it also lets the nodes bring another signing secret than
before: stop them all first. Tokens signed with the old one stop working.

The URL is read from SEATFLOW_LEDGER when --ledger is not given, which keeps
the password out of the list of processes.`,
		Example: `  seatflow migrate
  seatflow migrate --ledger mysql://seatflow:PASSWORD@127.0.0.1:3306/seatflow`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if facts == "" {
				facts = os.Getenv("SEATFLOW_LEDGER")
			}
			if facts == "" || facts == "sqlite" {
				return usageError{errors.New("name the database with --ledger or SEATFLOW_LEDGER; a data folder is migrated when it is opened")}
			}
			log, err := telemetry.NewLogger(cmd.ErrOrStderr(), "info", "text")
			if err != nil {
				return err
			}
			if err := app.Migrate(cmd.Context(), facts, log); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the schema is this version's")
			if newSecret {
				if err := app.NewSecret(cmd.Context(), facts); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "the next node to start sets the secret")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&facts, "ledger", "", "mysql://USER:PASSWORD@HOST:PORT/DATABASE; default: SEATFLOW_LEDGER")
	cmd.Flags().BoolVar(&newSecret, "new-secret", false, "let the next node to start set the secret that all must have")
	return cmd
}
