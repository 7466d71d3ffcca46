package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/doctor"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
)

// statusCommands are "weir status".
type statusCommands struct{ *shared }

func (cli *statusCommands) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [POOL]",
		Short: "Show a pool: its problems, size, signals and applications",
		Example: `  weir status
  weir status web --watch
  weir status web --output json`,
		Args: cli.poolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := unreached(cli.withBus(cmd.Context(), cli.status))
			if full := cli.fullDisks(nil); err != nil && full != nil {
				err = fmt.Errorf("%s; %w", strings.Join(full, "; "), err)
			}
			return err
		},
	}
	cli.watchFlag(cmd)
	cli.outputFlag(cmd)
	return cmd
}

func (cli *statusCommands) status(ctx context.Context, b *bus.Bus) error {
	s := cli.reader(b).Status(ctx)
	if s.Unknown != nil {
		return s.Unknown
	}
	if cli.output == "json" {
		return cli.printJSON(s)
	}
	for _, w := range s.Warnings {
		fmt.Fprintf(cli.Stdout, "! %s\n", w)
	}
	cli.printPool(s, time.Now())
	if s.Processes != nil {
		fmt.Fprintln(cli.Stdout)
		cli.printProcesses(append(s.Processes.Signals, s.Processes.Autoscaler))
		same := doctor.Shared(s.Processes.Signals)
		for _, why := range sortedKeys(same) {
			fmt.Fprintf(cli.Stdout, "signals of %s run as the user of bootstrap, and can read its keys: %s\n", strings.Join(same[why], ", "), why)
		}
	}
	if s.Counts != nil {
		fmt.Fprintln(cli.Stdout)
		cli.printCounts(*s.Counts)
	}
	return nil
}

func (cli *statusCommands) printPool(s api.PoolStatus, now time.Time) {
	fmt.Fprintf(cli.Stdout, "pool %s/%s", s.Cluster, s.Pool)
	r := s.Newest()
	if r == nil {
		fmt.Fprintln(cli.Stdout, ": size unknown")
		return
	}
	limits := r.Case.Input.Policy.Limits
	fmt.Fprintf(cli.Stdout, ": target %s, wanted %s, fulfilled %s, joined %s, limits %s to %s, tick %s ago\n",
		explain.Number(r.Snapshot.Target), explain.Number(r.Result.Target), explain.Number(r.Snapshot.Fulfilled), explain.Number(r.Snapshot.Joined),
		explain.Number(limits.Min), explain.Number(limits.Max), explain.Ago(now, r.At))
	cli.printGroups(*r)
	if len(r.Case.Nodes)+len(r.Drains) == 0 {
		return
	}
	fmt.Fprintln(cli.Stdout)
	cli.printNodes(s, *r)
}

func (cli *statusCommands) printGroups(r api.TickRecord) {
	var rows [][]string
	for _, g := range r.Snapshot.Groups {
		rows = append(rows, []string{g.ID, fmt.Sprint(g.Target), explain.Number(g.Fulfilled), fmt.Sprint(g.Min), bound(g.Max)})
	}
	cli.printTable([]string{"group", "target", "fulfilled", "min", "max"}, rows)
}

// bound prints the maximum of a group.
func bound(n int) string {
	if n == api.Unbounded {
		return "inf"
	}
	return fmt.Sprint(n)
}

func processRow(p api.Process, title string, now time.Time) []string {
	why := p.Why
	if why == "" && p.Trial != nil {
		why = "shadow " + p.Trial.Shadow + " " + trialText(*p.Trial)
	}
	state := p.State
	if p.Alive != nil && p.Alive.Overdue {
		state, why = "silent", explain.Silence(now, *p.Alive)
	}
	if p.Yanked != "" {
		why = strings.TrimSuffix("yanked: "+p.Yanked+"; "+why, "; ")
	}
	signal := "-"
	if p.App != "" {
		signal = p.Signal
	}
	return []string{title, signal, orDash(p.Version), state, pid(p.PID), explain.Ago(now, p.Since), fmt.Sprint(p.Restarts), why}
}

func pid(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (cli *statusCommands) printCounts(c api.InstanceCounts) {
	var rows [][]string
	for _, name := range sortedKeys(c.Apps) {
		n := c.Apps[name]
		rows = append(rows, []string{name, fmt.Sprint(n.Expected), fmt.Sprint(n.Running), fmt.Sprint(n.Missing), fmt.Sprint(n.Crashed), fmt.Sprint(n.Flapping), fmt.Sprint(n.Extra)})
	}
	if rows == nil {
		fmt.Fprintln(cli.Stdout, command.NoResources+": set an application with \"weir app set\"")
		return
	}
	cli.printTable([]string{"app", "expected", "running", "missing", "crashed", "flapping", "extra"}, rows)
}

const maxPoolsWaited = 20 // pools whose placers receive a request of "weir app status"

// pendingOf requests what the instances of the applications wait for, from the placers of their pools. A pool without a
// placer has no lines.
func (cli *appCommands) pendingOf(ctx context.Context, b *bus.Bus, s api.HarmonizerStatus) map[string][]string {
	all := slices.Clone(s.Apps)
	if s.App != nil {
		all = append(all, s.App.AppSummary)
	}
	var pools []string
	for _, one := range all {
		if one.Pool != "" && one.Count.Missing > 0 && !slices.Contains(pools, one.Pool) && len(pools) < maxPoolsWaited {
			pools = append(pools, one.Pool)
		}
	}
	lines := map[string][]string{}
	for _, pool := range pools {
		limited, cancel := context.WithTimeout(ctx, view.Timeout)
		p, err := placerbus.GetPending(limited, b.Conn(), cli.Cluster, pool)
		cancel()
		if err != nil {
			continue // unanswered requests have a line of their own
		}
		for _, c := range slices.Concat(p.Rejected, p.Copies) {
			if len(lines[c.App]) < view.MaxReasons {
				lines[c.App] = append(lines[c.App], view.WaitsLine(c))
			}
		}
	}
	return lines
}

// Exit statuses of /bin/sh for a command that it cannot run.
const (
	notExecutable = 126
	notFound      = 127
)

// missingCommands returns a line for each node on which the command of the application does not exist.
func missingCommands(crashes []api.AppCrash) (lines []string) {
	seen := map[string]bool{}
	for _, c := range slices.Backward(crashes) {
		if seen[c.Node] || len(lines) == view.MaxReasons {
			continue
		}
		if c.Status == nil {
			if remedy := explain.ReleaseRemedy(c.Description); remedy != "" {
				seen[c.Node] = true
				lines = append(lines, fmt.Sprintf("node %s: %s (index %d)%s", orDash(c.Node), c.Description, c.Index, remedy))
			}
			continue
		}
		switch seen[c.Node] = true; *c.Status {
		case notFound:
			lines = append(lines, fmt.Sprintf("the command does not exist on node %s (exit status %d of index %d): install it there, or correct it with \"weir app set\"", orDash(c.Node), notFound, c.Index))
		case notExecutable:
			lines = append(lines, fmt.Sprintf("the command on node %s is not executable (exit status %d of index %d): correct its mode, or the command with \"weir app set\"", orDash(c.Node), notExecutable, c.Index))
		}
	}
	return lines
}
