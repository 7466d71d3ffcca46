package pool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// takeGroups returns the groups among the arguments, after the pool. Without groups after a name, the name is a group of
// the pool of --pool. A name that is both a pool and such a group is a mistake.
func (cli *commands) takeGroups(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string, all bool) ([]string, error) {
	before := cli.Pool
	groups, err := cli.TakePool(ctx, b, cmd, args)
	if err != nil || len(groups) == len(args) {
		return groups, err
	}
	if len(groups) == 0 && !all {
		cli.Pool = before
		return args, nil
	}
	named := cli.Pool
	cli.Pool = before
	r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
	cli.Pool = named
	if err != nil || named == before {
		return groups, nil // only a pool has that name
	}
	for _, g := range r.Snapshot.Groups {
		if g.ID == named {
			return nil, usage.New(fmt.Errorf("%q is a pool, and a group of pool %s: name the pool with --pool\nSee %q", named, before, cmd.CommandPath()+" --help"))
		}
	}
	return groups, nil
}

func (cli *commands) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the pools of the cluster, with their size and problems, worst first",
		Long: `List the pools of the cluster, with their size and problems, worst first. A pool is listed
if it has ticked, or if it has a file in the configuration folder. The command reads
stored data, and asks the harmonizer for its requests without an answer. A pool that cannot be read has the
state "unreadable", and the others are listed all the same. "-" is an unknown number, and
"was 5" one of a tick that is too long ago to be of now.`,
		Example: `  weir pool list
  weir pool list --watch
  weir pool list --output name`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.WithBus(cmd.Context(), cli.listPools) },
	}
	cli.WatchFlag(cmd)
	cli.NamesFlag(cmd, command.EachName(func(r api.Pool) string { return r.Pool }))
	return cmd
}

func (cli *commands) listPools(ctx context.Context, b *bus.Bus) error {
	rows, err := cli.Fleet(b).Rows(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	if cli.Output == "json" {
		return cli.PrintJSON(rows)
	}
	var table [][]string
	for _, r := range rows {
		table = append(table, poolCells(r, now))
	}
	cli.PrintTable([]string{"pool", "state", "need", "target", "joined", "limits", "tick", "problem"}, table)
	return nil
}

// poolCells are the columns pool, state, need, target, joined, limits, tick and problem.
func poolCells(r api.Pool, now time.Time) []string {
	number := func(x *float64) string {
		if x == nil {
			return "-"
		}
		if r.Old {
			return "was " + explain.Number(*x)
		}
		return explain.Number(*x)
	}
	limits, tick, problem := "-", "-", ""
	if r.Limits != nil {
		limits = explain.Number(r.Limits.Min) + " to inf"
		if r.Limits.Max < api.Unlimited {
			limits = explain.Number(r.Limits.Min) + " to " + explain.Number(r.Limits.Max)
		}
	}
	if !r.LastTick.IsZero() {
		tick = explain.Ago(now, r.LastTick) + " ago"
	}
	if len(r.Problems) > 0 {
		problem = r.Problems[0]
		if more := len(r.Problems) - 1; more > 0 {
			problem += fmt.Sprintf(" (and %d more)", more)
		}
	}
	return []string{r.Pool, stateCell(r), number(r.Need), number(r.Target), number(r.Joined), limits, tick, problem}
}

// stateCell returns the state of a pool, and that it is paused beside another one.
func stateCell(r api.Pool) string {
	paused := slices.ContainsFunc(r.Conditions, func(c api.Condition) bool { return c.Word == "Paused" })
	if paused && r.State != "paused" {
		return r.State + ", paused"
	}
	return r.State
}

// rollState is the rolling replacement of a group.
type rollState struct {
	Group string    `json:"group"`
	Total int       `json:"machines"` // present ones
	Left  int       `json:"left"`     // present ones that are replaced, or would be
	Since time.Time `json:"since,omitzero"`
	By    string    `json:"by,omitempty"`
	Why   string    `json:"why,omitempty"`
	Waits string    `json:"waits,omitempty"` // why no machine is replaced now: its machines never join, or no window is open
}

// rollFlags are the flags of "weir pool roll".
type rollFlags struct {
	noteFlags
	groups               []string
	status, stop, dryRun bool
}

func (cli *commands) rollCommand() *cobra.Command {
	var f rollFlags
	cmd := &cobra.Command{
		Use:   "roll [POOL]",
		Short: "Replace the present machines of a pool, group by group or all",
		Long: `Replace the present machines of a pool, for example after a change of the image: new
machines start beside the old ones. As they pass the health gate, the old ones are
drained and terminated, within the step limits and the disruption budget of the pool.
If a new machine fails, the roll halts. It is the order of "weir pool mark-stale", and
the rotation ("weir pool rotate") of all machines of a group. Machines that start later
stay. If the pool file has windows for a roll, the roll waits for them.

--status shows how many machines are left. --stop withdraws the order: machines that
were not drained yet stay. --dry-run shows how many machines would be replaced.`,
		Example: `  weir pool roll web --group blue --why "kernel 6.18"
  weir pool roll web --dry-run
  weir pool roll web --status
  weir pool roll web --stop`,
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.status && f.stop || f.status && f.dryRun || f.stop && f.dryRun {
				return usage.New(fmt.Errorf("%s has two of --status, --stop and --dry-run: give one of them\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help"))
			}
			note, err := f.note()
			if err != nil {
				return err
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.roll(ctx, b, f, note) })
		},
	}
	f.addWhy(cmd)
	cmd.Flags().StringSliceVar(&f.groups, "group", nil, "this group only; repeatable (default: all groups of the pool)")
	cmd.Flags().BoolVar(&f.status, "status", false, "show the machines that are left, and change nothing")
	cmd.Flags().BoolVar(&f.stop, "stop", false, "withdraw the order")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be replaced, and change nothing")
	cli.WatchFlag(cmd)
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) roll(ctx context.Context, b *bus.Bus, f rollFlags, note api.Note) error {
	r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	groups, err := cli.groupsOf(r, f.groups)
	if err != nil {
		return err
	}
	if !f.status && !f.stop && !f.dryRun {
		return cli.markStale(ctx, b, note, groups)
	}
	within, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	orders, err := state.OpenOrders(within, b.JetStream(), cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	current, err := orders.List(within)
	if err != nil {
		return err
	}
	states := rollStates(r, groups, current.Stale, f.dryRun)
	if f.stop {
		for _, s := range states {
			if s.Since.IsZero() {
				continue
			}
			if err := orders.Rolled(within, s.Group); err != nil {
				return fmt.Errorf("stop the roll of group %s: %w", s.Group, err)
			}
		}
	}
	if cli.Output == "json" {
		return cli.PrintJSON(states)
	}
	cli.printRoll(states, f)
	return nil
}

// groupsOf returns the named groups of the pool, or all.
func (cli *commands) groupsOf(r api.TickRecord, named []string) ([]string, error) {
	var known []string
	for _, g := range r.Snapshot.Groups {
		known = append(known, g.ID)
	}
	for _, g := range named {
		if !slices.Contains(known, g) {
			return nil, usage.New(fmt.Errorf("pool %s/%s has no group %q%s", cli.Cluster, cli.Pool, g, spelling.Suggest(g, known)))
		}
	}
	if len(named) > 0 {
		return named, nil
	}
	return known, nil
}

// rollStates returns the groups that roll. all has each group roll as if it was marked at the time of the record.
func rollStates(r api.TickRecord, groups []string, marks []api.StaleMark, all bool) []rollState {
	states := []rollState{}
	for _, group := range groups {
		s := rollState{Group: group}
		before := r.At
		i := slices.IndexFunc(marks, func(m api.StaleMark) bool { return m.Group == group })
		if i >= 0 && !all {
			s.Since, s.By, s.Why, before = marks[i].At, marks[i].By, marks[i].Why, marks[i].At
		}
		if r.Case != nil {
			if r.Case.Rotation != nil {
				s.Waits = r.Case.Rotation.Halted
			}
			s.Waits = cmp.Or(s.Waits, r.Case.Stuck[group], r.Case.Closed[api.WorkRoll])
			for _, n := range r.Case.Nodes {
				if n.Group != group {
					continue
				}
				s.Total++
				if all || i >= 0 && r.Case.Input.Now.Add(-n.Uptime).Before(before) {
					s.Left++
				}
			}
		}
		if all || i >= 0 {
			states = append(states, s)
		}
	}
	return states
}

func (cli *commands) printRoll(states []rollState, f rollFlags) {
	if len(states) == 0 {
		fmt.Fprintf(cli.Stdout, "%s: no group of pool %s/%s is rolled\n", command.NoResources, cli.Cluster, cli.Pool)
		return
	}
	for _, s := range states {
		switch {
		case f.dryRun:
			fmt.Fprintf(cli.Stdout, "would replace %d of %d machines of %s\n", s.Left, s.Total, s.Group)
		case f.stop:
			fmt.Fprintf(cli.Stdout, "%s: the roll is stopped; %d of %d machines stay from before %s\n", s.Group, s.Left, s.Total, explain.Time(s.Since))
		default:
			fmt.Fprintf(cli.Stdout, "%s: %d of %d machines are from before %s and left, ordered by %s%s\n",
				s.Group, s.Left, s.Total, explain.Time(s.Since), s.By, cell.After(": ", s.Why))
		}
		if s.Waits != "" && s.Left > 0 && !f.stop {
			fmt.Fprintf(cli.Stdout, "%s: %s\n", s.Group, s.Waits)
		}
	}
}
