package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/config"
)

func (cli *cli) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check configuration files",
		Args:  group,
		RunE:  help,
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "validate",
		Short:   "Check the service file and one pool's file, and say what is wrong with them",
		Example: `  weir config validate --config-dir ./config --cluster prod --pool default`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, _, err := config.Load(cli.configs(), cli.cluster, cli.pool); err != nil {
				return &usageError{err}
			}
			fmt.Fprintf(cli.stdout, "%s: pool %s/%s is valid\n", cli.configs(), cli.cluster, cli.pool)
			return nil
		},
	})
	return cmd
}
