// Package pool has the commands of "weir pool" and their short forms, such as "weir status".
//
// They show a pool, explain and recompute its ticks, and store orders, which its next tick reads. The ticks come from
// the ledger and the summaries. "weir plan" requests the next tick from the autoscaler. [Commands] returns the
// commands. One goroutine uses them.
package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// Savings prints the changes of a pool's policy that would have saved most since then, or in a file of records.
type Savings func(ctx context.Context, cli *connect.CLI, file string, since time.Duration) error

// Commands returns "weir pool", its short forms, "weir events" and "weir decide".
func Commands(c *connect.CLI, savings Savings) []*cobra.Command {
	return append(shortForms(c, savings), poolCommand(c, savings), (&tickCommands{c}).eventsCommand(), (&decideCommands{c}).decideCommand())
}

// shortForms returns the commands that "weir" and "weir pool" both have.
func shortForms(c *connect.CLI, savings Savings) []*cobra.Command {
	cli, ticks := &commands{c}, &tickCommands{c}
	return []*cobra.Command{
		(&statusCommands{c}).statusCommand(), ticks.explainCommand(), ticks.planCommand(), ticks.diffCommand(), ticks.costCommand(savings),
		cli.pauseCommand(), cli.resumeCommand(), cli.offsetCommand(),
	}
}

func poolCommand(c *connect.CLI, savings Savings) *cobra.Command {
	cli := &commands{c}
	cmd := &cobra.Command{
		Use:     "pool",
		Aliases: []string{"pools"},
		Short:   "Show a pool, explain its decisions, and change it by hand",
		Long: `Show a pool, explain its decisions, and change it by hand. "weir status", "explain",
"plan", "diff", "cost", "decide", "pause", "resume" and "offset" may also be written
after "weir pool".`,
		Example: `  weir pool list
  weir pool status web
  weir pool target web 40 --for 2h --why "load test"
  weir pool groups web`,
		Args: command.Group,
		RunE: command.Help,
	}
	for _, short := range shortForms(c, savings) {
		short.Example = strings.ReplaceAll(short.Example, "weir "+short.Name(), "weir pool "+short.Name())
		if short.Name() == "status" {
			short.Aliases = []string{"get", "describe", "show"}
		}
		short.Annotations = map[string]string{command.ShortForm: "true"}
		cmd.AddCommand(short)
	}
	cmd.AddCommand(cli.listCommand(), cli.targetCommand(), cli.drainCommand(), cli.acceptCommand(),
		cli.markStaleCommand(), cli.rollCommand(), rotations{cli}.rotateCommand(), cli.groupsCommand(), (&tickCommands{c}).redecideCommand())
	return cmd
}

func (cli *commands) targetCommand() *cobra.Command {
	var n noteFlags
	var clear bool
	cmd := &cobra.Command{
		Use:   "target [POOL] [WEIGHT|min|max]",
		Short: "Pin the target of a pool for a limited time",
		Long: `Pin the target of a pool for a limited time, in place of the requests of its signals.
The target is a number, or one of the limits of the pool. The limits and step limits
still apply. When the pin ends, or with --clear, the signals decide again. Without a
target the command shows the pin.

` + fmt.Sprintf(command.PoolRule, "target") + ` With --clear it is the pool.`,
		Example: `  weir pool target web 40 --for 2h --why "load test"
  weir pool target max --pool web
  weir pool target web --clear`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case clear && len(args) == 1 && !isTarget(args[0]):
				return cli.UsePool(cmd, args[0])
			case clear && len(args) > 0:
				return usage.New(fmt.Errorf("%s: give a target, or --clear", cmd.CommandPath()))
			}
			return cli.PoolThen("weight, min or max")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			args = command.LastOf(args)
			note, err := n.note()
			if err != nil {
				return err
			}
			if clear {
				return cli.withOrders(cmd.Context(), n.force, func(ctx context.Context, o *state.Orders) error {
					if err := o.ClearPin(ctx); err != nil {
						return err
					}
					if cli.Output == "json" {
						return cli.showPin(ctx, o)
					}
					fmt.Fprintf(cli.Stdout, "the signals of pool %s/%s decide again from its next tick on\n", cli.Cluster, cli.Pool)
					return nil
				})
			}
			if len(args) == 0 {
				return cli.withOrders(cmd.Context(), n.force, cli.showPin)
			}
			switch {
			case strings.HasPrefix(args[0], "+"):
				return usage.New(fmt.Errorf("target %q: want the new target, not a change of it; \"weir offset\" adds to the target", args[0]))
			case !isTarget(args[0]):
				return usage.New(fmt.Errorf("target %q: want a number of at least 0, min or max; \"%s --pool POOL\" shows the pin of a pool", args[0], cmd.CommandPath()))
			}
			pin, _ := view.ParsePin(args[0])
			pin.Note = note
			return cli.withOrders(cmd.Context(), n.force, func(ctx context.Context, o *state.Orders) error {
				if err := o.SetPin(ctx, pin); err != nil {
					return err
				}
				if cli.Output == "json" {
					return cli.showPin(ctx, o)
				}
				fmt.Fprintf(cli.Stdout, "pool %s/%s is pinned at %s from its next tick on, %s\n", cli.Cluster, cli.Pool, args[0], explain.Note(note))
				if effect := cli.effect(ctx, &pin); effect != "" {
					fmt.Fprintln(cli.Stdout, effect)
				}
				return nil
			})
		},
	}
	n.add(cmd, view.PinFor)
	cli.OutputFlag(cmd)
	cmd.Flags().BoolVar(&clear, "clear", false, "remove the pin")
	return cmd
}

// pinned are the orders of a pool with what the limits of its last tick do to the pin.
type pinned struct {
	api.Orders
	Effect string `json:"effect,omitempty"`
}

// effect returns what the limits of the last tick, which still apply, do to a pin outside of them. It is empty for other pins, and
// without a tick.
func (cli *commands) effect(ctx context.Context, pin *api.Pin) (text string) {
	if pin == nil || pin.Bound != "" {
		return ""
	}
	_ = cli.WithBus(ctx, func(ctx context.Context, b *bus.Bus) error { // without a tick the limits are unknown
		r, err := view.Last(ctx, b, cli.Cluster, cli.Pool)
		if err == nil && r.Case != nil {
			text = effectOf(pin.Target, r.Case.Input.Policy.Limits)
		}
		return err
	})
	return text
}

func effectOf(target float64, limits api.TargetLimits) string {
	most, least := explain.Number(limits.Max), explain.Number(limits.Min)
	switch {
	case target > limits.Max:
		return fmt.Sprintf("max_capacity is %s: the pool grows to %[1]s, not to %s", most, explain.Number(target))
	case target < limits.Min:
		return fmt.Sprintf("min_capacity is %s: the pool shrinks to %[1]s, not to %s", least, explain.Number(target))
	}
	return ""
}

// isTarget reports whether a text is min, max or a target.
func isTarget(text string) bool {
	_, ok := view.ParsePin(text)
	return ok
}

func (cli *commands) showPin(ctx context.Context, o *state.Orders) error {
	current, err := o.List(ctx)
	if err != nil {
		return err
	}
	current = current.InForce(time.Now())
	if cli.Output == "json" {
		return cli.PrintJSON(pinned{current, cli.effect(ctx, current.Pin)})
	}
	if current.Pin == nil {
		fmt.Fprintf(cli.Stdout, "pool %s/%s is not pinned: its signals decide\n", cli.Cluster, cli.Pool)
		return nil
	}
	fmt.Fprintf(cli.Stdout, "pool %s/%s is pinned at %s, %s\n", cli.Cluster, cli.Pool, view.Pinned(*current.Pin), explain.Note(current.Pin.Note))
	if effect := cli.effect(ctx, current.Pin); effect != "" {
		fmt.Fprintln(cli.Stdout, effect)
	}
	return nil
}

func (cli *commands) drainCommand() *cobra.Command {
	var n noteFlags
	cmd := &cobra.Command{
		Use:   "drain [POOL] NODE...",
		Short: "Drain and terminate nodes by name",
		Long: `Drain and terminate nodes by name, as a scale-in does: each node is cordoned, drained
and terminated, and the target of the pool decreases by its weight. The signals decide
whether new nodes replace them. The order is stored until it is carried out.

The pool is the first of two or more arguments. With --pool, and if there is one
argument, all arguments are nodes.`,
		Example: `  weir pool drain web i-0123456789abcdef0 --why "its disk is slow"
  weir pool drain --pool web i-0123456789abcdef0 i-0fedcba9876543210`,
	}
	first := func(args []string) int { // index of the first node
		if len(args) > 1 && !cmd.Flags().Changed("pool") {
			return 1
		}
		return 0
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usage.New(fmt.Errorf("%s requires the ids of nodes, which \"weir node list\" shows\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help"))
		case first(args) == 1:
			return cli.UsePool(cmd, args[0])
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		note, err := n.note()
		if err != nil {
			return err
		}
		return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
			return cli.removeNodes(ctx, b, note, args[first(args):])
		})
	}
	n.addWhy(cmd)
	return cmd
}

// waits prints, for a paused pool, that an order waits for the end of the pause.
func (cli *commands) waits(r api.TickRecord) {
	if r.Paused != nil {
		fmt.Fprintf(cli.Stdout, "the pool is paused %s: the order waits for the end of the pause\n", explain.Note(*r.Paused))
	}
}

func (cli *commands) removeNodes(ctx context.Context, b *bus.Bus, note api.Note, nodes []string) error {
	r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, n := range r.Case.Nodes {
		known[n.ID] = true
	}
	for _, node := range nodes {
		if !known[node] {
			return usage.New(fmt.Errorf("pool %s/%s has no node %q, or it leaves already%s", cli.Cluster, cli.Pool, node, spelling.Suggest(node, slices.Sorted(maps.Keys(known)))))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	var errs []error
	for _, node := range nodes {
		if err := orders.Remove(ctx, api.Removal{Note: note, Node: node}); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(cli.Stdout, "%s is drained and ended from the next tick on\n", node)
	}
	cli.waits(r)
	return errors.Join(errs...)
}
