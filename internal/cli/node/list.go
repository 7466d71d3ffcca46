package node

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

func (cli *commands) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [POOL]",
		Aliases: []string{"ls"},
		Short:   "List the machines of a pool",
		Long: `List the machines of a pool: those of the last tick that read them, with their usage
now. A pool without a tick has those that report. The column "health" is "-" in a pool without a health policy.`,
		Example: `  weir node list web
  weir node list web --watch
  weir node list --output name`,
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.WithBus(cmd.Context(), cli.listNodes) },
	}
	cli.WatchFlag(cmd)
	cli.NamesFlag(cmd, command.EachName(func(n api.Node) string { return n.Node }))
	return cmd
}

func (cli *commands) listNodes(ctx context.Context, b *bus.Bus) error {
	rows, err := cli.Reader(b).Nodes(ctx)
	if err != nil {
		return err
	}
	if cli.Output == "json" {
		return cli.PrintJSON(rows)
	}
	var table [][]string
	for _, n := range rows {
		table = append(table, append(cell.Node(n), cmp.Or(n.Health, "-")))
	}
	cli.PrintTable([]string{"node", "group", "state", "tasks", "cpus", "mem MB", "up", "health"}, table)
	return nil
}
