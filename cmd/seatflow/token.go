package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"seatflow"
	"seatflow/internal/app"
)

func tokenCommand() *cobra.Command {
	var data, user, role string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "token", Short: "Make a bearer token from a data folder's secret", Args: noArgs,
		Long: `Make a bearer token. Whoever can read the data folder can act on its server, so
this needs no server and no other right.`,
		Example: `  seatflow token --role admin
  seatflow token --role kiosk --user kiosk-foyer --ttl 8760h`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch seatflow.Role(role) {
			case seatflow.RoleBuyer, seatflow.RoleKiosk, seatflow.RoleStaff, seatflow.RoleAdmin:
			default:
				return usageError{fmt.Errorf("--role %q: must be buyer, kiosk, staff or admin", role)}
			}
			if user == "" {
				user = role
			}
			if !seatflow.UserID(user).Valid() {
				return usageError{fmt.Errorf("--user %q: must be 1–64 printable ASCII characters without space", user)}
			}
			if ttl <= 0 {
				return usageError{fmt.Errorf("--ttl %v: must be positive", ttl)}
			}
			token, err := app.MintToken(data, seatflow.UserID(user), seatflow.Role(role), ttl)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), token)
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", defaultData(), "data folder")
	cmd.Flags().StringVar(&user, "user", "", "user id (default: the role's name)")
	cmd.Flags().StringVar(&role, "role", "admin", "buyer, kiosk, staff or admin")
	cmd.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how long it lasts")
	return cmd
}
