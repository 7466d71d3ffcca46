package main

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
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

func (cli *poolCommands) poolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Show a pool, explain its decisions, and change it by hand",
		Long: `Show a pool, explain its decisions, and change it by hand. "weir status", "explain",
"plan", "diff", "pause", "resume" and "offset" are short forms of the commands here.`,
		Example: `  weir pool list
  weir pool status web
  weir pool target web 40 --for 2h --why "load test"
  weir pool groups web`,
		Args: command.Group,
		RunE: command.Help,
	}
	for _, short := range []*cobra.Command{
		(&statusCommands{cli.CLI}).statusCommand(), cli.explainCommand(), cli.planCommand(), cli.diffCommand(), cli.pauseCommand(), cli.resumeCommand(), cli.offsetCommand(),
	} {
		short.Example = strings.ReplaceAll(short.Example, "weir "+short.Name(), "weir pool "+short.Name())
		cmd.AddCommand(short)
	}
	cmd.AddCommand(cli.listCommand(), cli.targetCommand(), cli.drainCommand(),
		cli.markStaleCommand(), cli.rollCommand(), cli.groupsCommand(), cli.redecideCommand())
	return cmd
}

func (cli *poolCommands) targetCommand() *cobra.Command {
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
			if !isTarget(args[0]) {
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
				return nil
			})
		},
	}
	n.add(cmd, view.PinFor)
	cli.OutputFlag(cmd)
	cmd.Flags().BoolVar(&clear, "clear", false, "remove the pin")
	return cmd
}

// isTarget reports whether a text is min, max or a target.
func isTarget(text string) bool {
	_, ok := view.ParsePin(text)
	return ok
}

func (cli *poolCommands) showPin(ctx context.Context, o *state.Orders) error {
	current, err := o.List(ctx)
	if err != nil {
		return err
	}
	current = current.InForce(time.Now())
	if cli.Output == "json" {
		return cli.PrintJSON(current)
	}
	if current.Pin == nil {
		fmt.Fprintf(cli.Stdout, "pool %s/%s is not pinned: its signals decide\n", cli.Cluster, cli.Pool)
		return nil
	}
	fmt.Fprintf(cli.Stdout, "pool %s/%s is pinned at %s, %s\n", cli.Cluster, cli.Pool, view.Pinned(*current.Pin), explain.Note(current.Pin.Note))
	return nil
}

func (cli *poolCommands) drainCommand() *cobra.Command {
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
func (cli *poolCommands) waits(r api.TickRecord) {
	if r.Paused != nil {
		fmt.Fprintf(cli.Stdout, "the pool is paused %s: the order waits for the end of the pause\n", explain.Note(*r.Paused))
	}
}

func (cli *poolCommands) removeNodes(ctx context.Context, b *bus.Bus, note api.Note, nodes []string) error {
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
	orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool, b.Replicas())
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

func (cli *poolCommands) markStaleCommand() *cobra.Command {
	var n noteFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "mark-stale [POOL] (GROUP... | --all)",
		Short: "Replace all present machines of groups",
		Long: `Replace all present machines of groups, for example after a change of the image. New
machines start beside the old ones. As they join, the old ones are drained and
terminated, within the step limits of the pool. Machines that start later stay.` + fmt.Sprintf(connect.PoolFirst, "groups"),
		Example: `  weir pool mark-stale web blue --why "kernel 6.18"
  weir pool mark-stale web --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !all {
				return usage.New(fmt.Errorf("%s requires groups, which \"weir pool groups\" shows, or --all\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			note, err := n.note()
			if err != nil {
				return err
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				groups, err := cli.takeGroups(ctx, b, cmd, args, all)
				if err == nil && all && len(groups) > 0 {
					err = usage.New(fmt.Errorf("%s requires groups, which \"weir pool groups\" shows, or --all, not both\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help"))
				}
				if err != nil {
					return err
				}
				return cli.markStale(ctx, b, note, groups)
			})
		},
	}
	n.addWhy(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all groups of the pool")
	return cmd
}

func (cli *poolCommands) markStale(ctx context.Context, b *bus.Bus, note api.Note, groups []string) error {
	r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	if groups, err = cli.groupsOf(r, groups); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool, b.Replicas())
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := orders.MarkStale(ctx, api.StaleMark{Note: note, Group: g}); err != nil {
			return err
		}
		fmt.Fprintf(cli.Stdout, "the machines that %s has now are replaced from the next tick on\n", g)
	}
	cli.waits(r)
	return nil
}

func (cli *poolCommands) groupsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "groups [POOL]",
		Short:   "List the groups of a pool, and what prevents a change of each",
		Example: "  weir pool groups web",
		Args:    cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.WithBus(cmd.Context(), cli.listGroups)
		},
	}
	cli.WatchFlag(cmd)
	cli.NamesFlag(cmd, command.EachName(func(g groupState) string { return g.ID }))
	return cmd
}

// groupState is a group in the listing.
type groupState struct {
	api.GroupSnapshot
	Quarantined string    `json:"quarantined,omitempty"` // why
	Until       time.Time `json:"until,omitzero"`
	StaleBefore time.Time `json:"stale_before,omitzero"` // instances launched before are rolled away
}

func (cli *poolCommands) listGroups(ctx context.Context, b *bus.Bus) error {
	r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	orders, err := state.OpenOrders(within, b.JetStream(), cli.Cluster, cli.Pool, state.CreateNothing)
	if err != nil {
		return err
	}
	current, err := orders.List(within)
	if err != nil {
		return err
	}
	groups := make([]groupState, len(r.Snapshot.Groups))
	for i, g := range r.Snapshot.Groups {
		groups[i].GroupSnapshot = g
		for _, q := range r.State.Backoffs {
			if q.Group == g.ID {
				groups[i].Quarantined, groups[i].Until = q.Why, q.Until
			}
		}
		for _, mark := range current.Stale {
			if mark.Group == g.ID {
				groups[i].StaleBefore = mark.At
			}
		}
	}
	if cli.Output == "json" {
		return cli.PrintJSON(groups)
	}
	var rows [][]string
	for _, g := range groups {
		rows = append(rows, []string{g.ID, cell.OrDash(g.Kind), fmt.Sprint(g.Target), explain.Number(g.Fulfilled), fmt.Sprint(g.Min), bound(g.Max), g.note()})
	}
	cli.PrintTable([]string{"group", "kind", "target", "fulfilled", "min", "max", "note"}, rows)
	return nil
}

// note returns the conditions of a group in words.
func (g groupState) note() string {
	var notes []string
	if g.Quarantined != "" {
		notes = append(notes, fmt.Sprintf("left alone until %s: %s", g.Until.Local().Format(time.TimeOnly), g.Quarantined))
	}
	if g.Busy != "" {
		notes = append(notes, "left alone: "+g.Busy)
	}
	if g.Short != "" && g.Quarantined == "" {
		notes = append(notes, "short: "+g.Short)
	}
	if g.Stale {
		notes = append(notes, "rolled away")
	}
	if !g.StaleBefore.IsZero() {
		notes = append(notes, "machines from before "+g.StaleBefore.Local().Format(time.DateTime)+" are replaced")
	}
	return strings.Join(notes, "; ")
}
