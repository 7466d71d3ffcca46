package cluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// contextCommands are the commands about the contexts of a user.
type contextCommands struct{ *connect.CLI }

func (cli *contextCommands) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "context",
		Aliases: []string{"contexts"},
		Short:   "List and choose contexts: named settings of commands",
		Long: `List and choose contexts. A context has the settings of commands for one cluster. They are
in the file weir/config.yaml below $XDG_CONFIG_HOME, or below ~/.config:

  current: prod
  contexts:
    prod: {config_dir: /home/me/prod, cluster: everywhere-prod, pool: web}
    lab: {nats: "nats://lab:4222", cluster: lab}

The keys are config_dir, data, nats, cluster and pool. A context gives only what neither a
flag, nor the environment, nor an argument gives. --context or WEIR_CONTEXT chooses
another context for one command. Daemons ignore contexts.`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(cli.listCommand(), cli.useCommand(), cli.showCommand())
	for _, c := range cmd.Commands() { // they also run while the current context is missing
		command.IgnoreContext(c)
	}
	return cmd
}

// contextRow is a context in a list.
type contextRow struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	command.Context
}

func (cli *contextCommands) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the contexts of this user",
		Example: `  weir context list
  weir context list --output name`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error { return cli.listContexts() },
	}
	cli.NamesFlag(cmd, command.EachName(func(r contextRow) string { return r.Name }))
	return cmd
}

func (cli *contextCommands) listContexts() error {
	contexts, err := command.LoadContexts()
	if err != nil {
		return err
	}
	current, _, _ := contexts.Choose(cli.Context) // a missing one is the current one of no row
	rows, table := []contextRow{}, [][]string{}
	for _, name := range slices.Sorted(maps.Keys(contexts.All)) {
		c := contexts.All[name]
		c.NATS = shownServers(c.NATS)
		rows = append(rows, contextRow{name, name == current, c})
		mark := ""
		if name == current {
			mark = "*"
		}
		table = append(table, []string{mark, name, cell.OrDash(c.Cluster), cell.OrDash(c.Pool), cell.OrDash(c.ConfigDir), cell.OrDash(c.NATS), cell.OrDash(c.Data)})
	}
	if cli.Output == command.FormJSON {
		return cli.PrintJSON(rows)
	}
	cli.PrintTable([]string{"current", "name", "cluster", "pool", "config dir", "nats", "data"}, table)
	return nil
}

// shownServers returns the URLs without secrets.
func shownServers(list string) string { return bus.NATS{Servers: bus.Split(list)}.Show() }

func (cli *contextCommands) useCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "use CONTEXT",
		Aliases: []string{"switch"},
		Short:   "Make a context the current one",
		Example: `  weir context use prod`,
		Args:    command.OneArg("context"),
		RunE: func(_ *cobra.Command, args []string) error {
			contexts, err := command.LoadContexts()
			if err == nil {
				err = contexts.Use(args[0])
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cli.Stdout, "%s is the current context\n", args[0])
			return nil
		},
	}
}

func (cli *contextCommands) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show [CONTEXT]",
		Aliases: []string{"get", "describe"},
		Short:   "Show the settings of commands, and which place gives each",
		Long: `Show the settings of commands, and which place gives each: a flag, a variable of the
environment, or a context. "-" is a default. Without an argument, the context is the one that
a command would use.`,
		Example: `  weir context show
  weir context show prod --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.OneArg("context")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				cli.Context = args[0]
			}
			all, err := cli.FillFromContext(cmd)
			if err != nil {
				return err
			}
			var table [][]string
			for i, f := range all {
				if f.Key == "nats" {
					all[i].Value = shownServers(f.Value)
				}
				table = append(table, []string{f.Key, cell.OrDash(all[i].Value), cell.OrDash(f.From)})
			}
			if cli.Output == command.FormJSON {
				return cli.PrintJSON(all)
			}
			cli.PrintTable([]string{"setting", "value", "from"}, table)
			return nil
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}
