package pool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

func (cli *commands) markStaleCommand() *cobra.Command {
	var n noteFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "mark-stale [POOL] (GROUP... | --all)",
		Short: "Replace all present machines of groups",
		Long: `Replace all present machines of groups, for example after a change of the image. New
machines start beside the old ones. As they pass the health gate, the old ones are drained
and terminated, within the step limits of the pool. Machines that start later stay.` + fmt.Sprintf(connect.PoolFirst, "groups"),
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

func (cli *commands) markStale(ctx context.Context, b *bus.Bus, note api.Note, groups []string) error {
	r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	if groups, err = cli.groupsOf(r, groups); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := orders.MarkStale(ctx, api.StaleMark{Note: note, Group: g}); err != nil {
			return err
		}
		from := "from the next tick on"
		if r.Case != nil && r.Case.Closed[api.WorkRoll] != "" {
			from = "later: " + r.Case.Closed[api.WorkRoll]
		}
		fmt.Fprintf(cli.Stdout, "the machines that %s has now are replaced %s\n", g, from)
	}
	cli.waits(r)
	return nil
}

func (cli *commands) groupsCommand() *cobra.Command {
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

func (cli *commands) listGroups(ctx context.Context, b *bus.Bus) error {
	r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	current, err := state.ReadOrders(within, b.JetStream(), cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	groups, held := make([]groupState, len(r.Snapshot.Groups)), plan.InBackoff(r.State.Backoffs, r.State.Clock)
	for i, g := range r.Snapshot.Groups {
		groups[i].GroupSnapshot = g
		groups[i].Quarantined, groups[i].Until = held[g.ID].Why, held[g.ID].Until
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
		rows = append(rows, []string{g.ID, cell.OrDash(g.Kind), fmt.Sprint(explain.GroupTarget(r, g.GroupSnapshot)), explain.Number(g.Fulfilled), fmt.Sprint(g.Min), bound(g.Max), g.note()})
	}
	cli.PrintTable([]string{"group", "kind", "target", "fulfilled", "min", "max", "note"}, rows)
	return nil
}

// note returns the conditions of a group in words.
func (g groupState) note() string {
	var notes []string
	if g.Quarantined != "" {
		notes = append(notes, fmt.Sprintf("left alone until %s: %s", explain.When(time.Now(), g.Until), g.Quarantined))
	}
	if g.Unknown != nil {
		notes = append(notes, fmt.Sprintf("could not be read since %s: %s", explain.When(time.Now(), g.Unknown.Since), g.Unknown.Why))
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
		notes = append(notes, "machines from before "+explain.Time(g.StaleBefore)+" are replaced")
	}
	return strings.Join(notes, "; ")
}
