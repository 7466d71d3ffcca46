package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
)

const maxPoolsWaited = 20 // pools whose placers receive a request of "weir app status"

// pendingOf requests what the instances of the applications wait for, from the placers of their pools. A pool without a
// placer has no lines.
func (cli *commands) pendingOf(ctx context.Context, b *bus.Bus, s api.HarmonizerStatus) map[string][]string {
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
	seen := map[[2]string]bool{} // pool and node
	for _, c := range slices.Backward(crashes) {
		node := [2]string{c.Pool, c.Node}
		if seen[node] || len(lines) == view.MaxReasons {
			continue
		}
		if c.Status == nil {
			if remedy := explain.ReleaseRemedy(c.Description); remedy != "" {
				seen[node] = true
				lines = append(lines, fmt.Sprintf("node %s: %s (index %d)%s", cell.OrDash(c.Node), c.Description, c.Index, remedy))
			}
			continue
		}
		switch seen[node] = true; *c.Status {
		case notFound:
			lines = append(lines, fmt.Sprintf("the command does not exist on node %s (exit status %d of index %d): install it there, or correct it with \"weir app set\"", cell.OrDash(c.Node), notFound, c.Index))
		case notExecutable:
			lines = append(lines, fmt.Sprintf("the command on node %s is not executable (exit status %d of index %d): correct its mode, or the command with \"weir app set\"", cell.OrDash(c.Node), notExecutable, c.Index))
		}
	}
	return lines
}
