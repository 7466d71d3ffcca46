package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
)

func (cli *cli) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check configuration files",
		Args:  command.Group,
		RunE:  command.Help,
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "validate",
		Short:   "Check the service file, the harmonizer's and one pool's, and say what is wrong with them",
		Example: `  weir config validate --config-dir ./config --cluster prod --pool default`,
		Args:    command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			service, pool, err := config.Load(cli.ConfigDir(), cli.Cluster, cli.Pool)
			_, warnings, errHarmonizer := config.LoadHarmonizer(cli.ConfigDir())
			if err == nil {
				err = autoscalerd.CheckHealth(pool)
			}
			if err := errors.Join(err, errHarmonizer); err != nil {
				return command.Usage(err)
			}
			for _, w := range append(config.Warnings(service, pool), warnings...) {
				fmt.Fprintf(cli.Stderr, "weir: warning: %v\n", w)
			}
			fmt.Fprintf(cli.Stdout, "%s: pool %s/%s is valid\n", cli.ConfigDir(), cli.Cluster, cli.Pool)
			return nil
		},
	})
	return cmd
}
