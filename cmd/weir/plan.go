package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/explain"
)

func (cli *cli) planCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan [POOL]",
		Short: "Say what the next tick of a pool would do, and do nothing",
		Long: `Say what the next tick of a pool would do, and do nothing. The pool's autoscaler
reads its groups and nodes, and decides by its files, its orders and the signals'
last answers. It is the code of a tick up to where that acts.`,
		Example: `  weir plan
  weir plan default --output json`,
		Args: cli.poolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				r, err := autoscalerd.AskPlan(ctx, b, cli.Cluster, cli.Pool)
				if err != nil {
					return err
				}
				if cli.output == "json" {
					return json.NewEncoder(cli.Stdout).Encode(r)
				}
				explain.Record(cli.Stdout, r, time.Now())
				return nil
			})
		},
	}
	cli.outputFlag(cmd)
	return cmd
}
