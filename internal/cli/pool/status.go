package pool

import (
	"context"
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
	"github.com/weirkeeper/weirkeeper/internal/cli/doctor"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// statusCommands are "weir status".
type statusCommands struct{ *connect.CLI }

func (cli *statusCommands) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [POOL]",
		Short: "Show a pool: its problems, size, signals and applications",
		Example: `  weir status
  weir status web --watch
  weir status web --output json`,
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := connect.Unreached(cli.WithBus(cmd.Context(), cli.status))
			if full := cli.FullDisks(nil); err != nil && full != nil {
				err = fmt.Errorf("%s; %w", strings.Join(full, "; "), err)
			}
			return err
		},
	}
	cli.WatchFlag(cmd)
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *statusCommands) status(ctx context.Context, b *bus.Bus) error {
	s := cli.Reader(b).Status(ctx)
	if s.Unknown != nil {
		return s.Unknown
	}
	if cli.Output == "json" {
		return cli.PrintJSON(s)
	}
	for _, w := range s.Warnings {
		terminal.Problem(cli.Stdout, w)
	}
	cli.printPool(s, time.Now())
	if s.Processes != nil {
		fmt.Fprintln(cli.Stdout)
		cli.PrintTable(cell.Processes(append(s.Processes.Signals, s.Processes.Autoscaler), time.Now()))
		same := doctor.Shared(s.Processes.Signals)
		for _, why := range slices.Sorted(maps.Keys(same)) {
			fmt.Fprintf(cli.Stdout, "signals of %s run as the user of bootstrap, and can read its keys: %s\n", strings.Join(same[why], ", "), why)
		}
	}
	if s.Counts != nil {
		fmt.Fprintln(cli.Stdout)
		cli.printCounts(*s.Counts, s.Stopped)
	}
	return nil
}

func (cli *statusCommands) printPool(s api.PoolStatus, now time.Time) {
	fmt.Fprintf(cli.Stdout, "pool %s/%s", s.Cluster, s.Pool)
	r := s.Newest()
	if r == nil {
		fmt.Fprintf(cli.Stdout, ": %s, size unknown\n", s.State)
		return
	}
	limits := r.Case.Input.Policy.Limits
	need := r.Result.Target
	if x := history.SummaryOf(*r).Unlimited; x != nil {
		need = *x
	}
	form := ": %s, need %s, target %s, joined %s, limits %s to %s, tick %s ago\n%s\n"
	if liveness.Overdue(now, r.At, r.Every, r.Took) {
		form = ": %[1]s; its numbers are of the last decision, %[7]s ago: need %[2]s, target %[3]s, joined %[4]s, limits %[5]s to %[6]s\n%[8]s\n"
	}
	fmt.Fprintf(cli.Stdout, form,
		s.State, explain.Number(need), explain.Number(explain.Target(*r)), explain.Number(r.Snapshot.Joined),
		explain.Number(limits.Min), explain.Number(limits.Max), explain.Ago(now, r.At), s.Sentence)
	if r.Cost != nil {
		fmt.Fprintln(cli.Stdout, explain.CostLine(*r.Cost))
	}
	cli.printGroups(*r)
	for _, g := range r.Snapshot.Groups {
		for _, line := range r.State.Groups[g.ID].Boots.Lines(g.ID) {
			fmt.Fprintln(cli.Stdout, line)
		}
	}
	for _, line := range explain.Markets(*r) {
		fmt.Fprintln(cli.Stdout, line)
	}
	if p := r.Case.Places; p != nil {
		for _, h := range p.Headroom {
			fmt.Fprintln(cli.Stdout, h.Text())
		}
	}
	for _, line := range slices.Concat(explain.RotationLines(*r), explain.WindowLines(*r)) {
		fmt.Fprintln(cli.Stdout, line)
	}
	if len(r.Case.Nodes)+len(r.Drains) == 0 {
		return
	}
	fmt.Fprintln(cli.Stdout)
	cli.printNodes(s, *r, now)
}

func (cli *statusCommands) printGroups(r api.TickRecord) {
	var rows [][]string
	for _, g := range r.Snapshot.Groups {
		rows = append(rows, []string{g.ID, fmt.Sprint(explain.GroupTarget(r, g)), explain.Number(g.Fulfilled), fmt.Sprint(g.Min), bound(g.Max)})
	}
	cli.PrintTable([]string{"group", "target", "fulfilled", "min", "max"}, rows)
}

// bound prints the maximum of a group.
func bound(n int) string {
	if n == api.Unbounded {
		return "inf"
	}
	return fmt.Sprint(n)
}

// printCounts prints the counts of each application, and which ones are stopped.
func (cli *statusCommands) printCounts(c api.InstanceCounts, stopped []string) {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(c.Apps)) {
		n := c.Apps[name]
		expected := fmt.Sprint(n.Expected)
		if slices.Contains(stopped, name) {
			expected += ", stopped"
		}
		rows = append(rows, []string{name, expected, fmt.Sprint(n.Running), fmt.Sprint(n.Missing), fmt.Sprint(n.Crashed), fmt.Sprint(n.Flapping), fmt.Sprint(n.Extra)})
	}
	if rows == nil {
		fmt.Fprintln(cli.Stdout, command.NoApps)
		return
	}
	cli.PrintTable([]string{"app", "expected", "running", "missing", "crashed", "flapping", "extra"}, rows)
}

// shownNodes bounds the table of nodes.
const shownNodes = 100

// printNodes prints the nodes of the last tick as they are now.
func (cli *statusCommands) printNodes(s api.PoolStatus, r api.TickRecord, now time.Time) {
	nodes := view.Nodes(r, s.Nodes, s.Silent, now)
	var rows [][]string
	for _, n := range nodes[:min(len(nodes), shownNodes)] {
		rows = append(rows, cell.Node(n))
	}
	cli.PrintTable([]string{"node", "group", "state", "tasks", "cpus", "mem MB", "up"}, rows)
	if more := len(nodes) - len(rows); more > 0 {
		fmt.Fprintf(cli.Stdout, "and %d more; \"weir node list\" has all\n", more)
	}
}
