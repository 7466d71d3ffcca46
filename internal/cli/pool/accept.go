package pool

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

func (cli *commands) acceptCommand() *cobra.Command {
	var n noteFlags
	cmd := &cobra.Command{
		Use:   "accept [POOL]",
		Short: "Accept what left or changed in the configuration of a pool",
		Long: `Accept what left or changed in the configuration of a pool. After an app, a signal, a
metric, a group or another part left the files or changed, the pool does not shrink for
autoscaling.configuration_grace. This command ends that for the changes that the last
tick has. A later change begins another time.`,
		Example: `  weir pool accept
  weir pool accept web --why "mail has moved"`,
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			note, err := n.note()
			if err != nil {
				return err
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.accept(ctx, b, note) })
		},
	}
	n.addWhy(cmd)
	return cmd
}

func (cli *commands) accept(ctx context.Context, b *bus.Bus, note api.Note) error {
	r, err := view.Last(ctx, b, cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	hold := r.ConfigurationHold
	if hold == nil {
		fmt.Fprintf(cli.Stdout, "pool %s/%s: nothing that left or changed in the configuration holds it\n", cli.Cluster, cli.Pool)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	note.Until = hold.Until
	if err := orders.Accept(ctx, api.Acceptance{Note: note, Through: hold.At}); err != nil {
		return err
	}
	fmt.Fprintf(cli.Stdout, "pool %s/%s may shrink from its next tick on: the configuration of %s is accepted\n",
		cli.Cluster, cli.Pool, explain.Time(hold.At))
	cli.waits(r)
	return nil
}
