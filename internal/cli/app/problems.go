package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
)

const maxPoolsWaited = 20 // pools whose placers receive a request of one command

// missingPools returns the pools of the applications with missing instances, and that of a single application.
func missingPools(s api.HarmonizerStatus) (pools []string) {
	if s.App != nil {
		pools = append(pools, s.App.Pool)
	}
	for _, one := range s.Apps {
		if one.Count.Missing > 0 {
			pools = append(pools, one.Pool)
		}
	}
	return pools
}

// pendingOf requests why the instances of the applications wait, from the placers of these pools and the last ticks. A pool
// without a placer has no lines.
func (cli *commands) pendingOf(ctx context.Context, b *bus.Bus, pools []string) map[string][]string {
	pools = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(pools))), func(pool string) bool { return pool == "" })
	pools = pools[:min(len(pools), maxPoolsWaited)]
	lines := map[string][]string{}
	for _, waits := range view.ForPools(pools, func(pool string) []view.Wait {
		p := cli.pending(ctx, b, pool)
		if len(p.Rejected)+len(p.Copies)+len(p.Taken) == 0 {
			return nil
		}
		var last *api.TickRecord
		if r, err := view.Last(ctx, b, cli.Cluster, pool); err == nil {
			last = &r
		}
		return view.WaitReasons(time.Now(), p, last)
	}) {
		for _, w := range waits {
			if of := lines[w.App]; len(of) < view.MaxReasons {
				lines[w.App] = append(of, w.Line)
			}
		}
	}
	return lines
}

// pending requests the instances that wait from the placer of the pool. Without a response it is empty: unanswered requests have
// a line of their own.
func (cli *commands) pending(ctx context.Context, b *bus.Bus, pool string) api.Pending {
	ctx, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	p, _ := placerbus.GetPending(ctx, b.Conn(), cli.Cluster, pool)
	return p
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
