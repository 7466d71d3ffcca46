package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// change is a command that reads a row, changes it and writes it.
type change struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	grows                     bool // it may request more than the pool can hold, which needs --yes
	// of changes the row; args are those after the name.
	of func(ctx context.Context, b *bus.Bus, row *api.App, args []string) error
}

var errChange = errors.New("want the new number, not a change of it")

// isChange reports whether a number of instances has the form of a change: "+1" would be 1.
func isChange(text string) bool { return strings.HasPrefix(text, "+") }

// newNumber is the value of a flag with a number of instances.
type newNumber struct{ pflag.Value }

func (v newNumber) Set(text string) error {
	if isChange(text) {
		return errChange
	}
	return v.Value.Set(text)
}

// verbs are the commands that change one thing of an application, and its history.
type verbs struct{ *commands }

func (cli verbs) all() []*cobra.Command {
	name := command.OneArg("application name")
	var all []*cobra.Command
	for _, c := range []change{
		{
			use: "scale NAME INSTANCES", short: "Change the number of instances of an application", grows: true,
			long: `Change the number of instances of an application. More instances than the pool can hold at
its maximum are written only with --yes. If it is unknown what the pool can hold, the
command warns, and writes.`,
			example: "  weir app scale web 5\n  weir app scale web 5 --wait", args: command.TwoArgs("the name of an application and a number of instances"),
			of: func(_ context.Context, _ *bus.Bus, row *api.App, args []string) error {
				n, err := strconv.Atoi(args[0])
				switch {
				case isChange(args[0]):
					return usage.New(fmt.Errorf("instances %q: %w", args[0], errChange))
				case err != nil || n < 0:
					return usage.New(fmt.Errorf("instances %q: want a whole number of at least 0", args[0]))
				}
				row.Instances = n
				return nil
			},
		},
		{
			use: "restart NAME", short: "Replace all instances of an application by new ones, as an update does",
			long: `Replace all instances of an application by new ones, as an update does: some indices at a
time, and an instance ends when the new one on its index is ready.`,
			example: "  weir app restart web --wait", args: name,
			of: func(_ context.Context, _ *bus.Bus, row *api.App, _ []string) error {
				row.Restarted = time.Now().UTC()
				return nil
			},
		},
		{
			use: "stop NAME", short: "Stop all instances of an application, and keep its row",
			example: "  weir app stop web --wait", args: name,
			of: func(_ context.Context, _ *bus.Bus, row *api.App, _ []string) error {
				row.State = api.AppStopped
				return nil
			},
		},
		{
			use: "start NAME", short: "Start the instances of a stopped application",
			example: "  weir app start web --wait", args: name,
			of: func(_ context.Context, _ *bus.Bus, row *api.App, _ []string) error {
				row.State = api.AppStarted
				return nil
			},
		},
		{
			use: "rollback NAME [VERSION]", short: "Set an earlier version of an application again",
			long: `Set an earlier version of an application again: VERSION of "weir app history", or the last
one of which each index had a ready instance. The number of instances stays.`,
			example: "  weir app rollback web\n  weir app rollback web 1a9c03f2 --wait", args: nameAndVersion,
			of: cli.rollback,
		},
	} {
		all = append(all, cli.changeCommand(c))
	}
	return append(all, cli.historyCommand())
}

func nameAndVersion(cmd *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return usage.New(fmt.Errorf("%s wants the name of an application, and a version or none, but got %d arguments\nSee %q", cmd.CommandPath(), len(args), cmd.CommandPath()+" --help"))
	}
	return nil
}

func (cli verbs) changeCommand(c change) *cobra.Command {
	wait, checks := false, checks{yes: !c.grows}
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example, Args: c.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.onApp(cmd.Context(), args[0], func(ctx context.Context, b *bus.Bus, old api.App, revision uint64) error {
				row := old
				if err := c.of(ctx, b, &row, args[1:]); err != nil {
					return err
				}
				row = withVersion(old, row, time.Now())
				if err := cli.write(ctx, b, old, row, revision, checks); err != nil || !wait {
					return err
				}
				return waitReady(cmd.Context(), b, cli.commands, row)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "show the progress until all instances are ready, or have ended if it is stopped, or an update halts")
	if c.grows {
		checks.bind(cmd)
	}
	return cmd
}

// rollback sets an earlier version.
func (cli verbs) rollback(ctx context.Context, b *bus.Bus, row *api.App, args []string) error {
	if len(row.History) == 0 {
		return fmt.Errorf("application %s has no earlier version", row.Name)
	}
	to := row.History[0].Version
	if len(args) > 0 {
		to = args[0]
	} else if s, err := requestHarmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{App: row.Name}); err == nil && s.App.Update != nil && s.App.Update.From != "" {
		to = s.App.Update.From
	}
	v, known := row.Find(to)
	if !known || to == row.Version {
		var names []string
		for _, v := range row.History {
			names = append(names, v.Version)
		}
		return usage.New(fmt.Errorf("application %s has no earlier version %s%s; \"weir app history %s\" lists them", row.Name, to, spelling.Suggest(to, names), row.Name))
	}
	*row = row.WithVersion(v)
	return nil
}

func (cli verbs) historyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the versions of an application, the latest first",
		Long: `List the versions of an application, the latest first: the one of its row, and the last ten
before it. "weir app rollback" sets one of them again.`,
		Example: `  weir app history web
  weir app history web --output json`,
		Args: command.OneArg("application name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.onApp(cmd.Context(), args[0], func(_ context.Context, _ *bus.Bus, row api.App, _ uint64) error {
				all := append([]api.AppVersion{row.Live()}, row.History...)
				if cli.Output == "json" {
					return cli.PrintJSON(all)
				}
				var out [][]string
				for i, v := range all {
					state := "earlier"
					if i == 0 {
						state = "of the row"
					}
					out = append(out, []string{v.Version, state, explain.Ago(time.Now(), v.At), explain.Quantity(v.CPUs), explain.Quantity(v.Mem), cell.OrDash(v.Release), v.Command})
				}
				cli.PrintTable([]string{"version", "is", "set before", "cpus", "mem MB", "release", "command"}, out)
				return nil
			})
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}
