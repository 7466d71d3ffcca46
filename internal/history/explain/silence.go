package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// Overdue returns since when the pool has no tick, and what happens next; empty if its next tick is not overdue. r is
// its last tick. p is the autoscaler's process; nil: bootstrap does not answer.
func Overdue(now time.Time, r api.TickRecord, p *api.Process) string {
	if !liveness.Overdue(now, r.At, r.Every, r.Took) {
		return ""
	}
	text := fmt.Sprintf("no tick since %s", When(now, r.At))
	if r.Every > 0 {
		text += fmt.Sprintf(" (a tick is %s)", seconds.Short(r.Every))
	}
	return text + ": " + nextTick(now, p)
}

// nextTick returns what happens until the next tick.
func nextTick(now time.Time, p *api.Process) string {
	switch {
	case p == nil:
		return "the pool's bootstrap does not answer, so the autoscaler is not restarted; start it with \"weir up\" or \"weir bootstrap\""
	case p.State != "running":
		return fmt.Sprintf("the autoscaler is %s; bootstrap starts it", State(*p))
	case p.Alive == nil:
		return "the autoscaler has just started"
	case !p.Alive.Overdue:
		return "the autoscaler runs: its tick is long, it cannot write to the bus, or another host holds the pool; see the log"
	}
	return Silence(now, *p.Alive)
}

// Silence returns since when an overdue autoscaler has not reported, and what happens next.
func Silence(now time.Time, a api.Alive) string {
	text := fmt.Sprintf("the autoscaler has not reported since %s", When(now, a.At))
	switch {
	case a.RestartAt.IsZero():
	case a.RestartAt.After(now):
		text += fmt.Sprintf("; bootstrap restarts it at %s", When(now, a.RestartAt))
	default:
		text += "; bootstrap is restarting it"
	}
	return text
}

// silentNode returns since when a node is silent, and what happens next.
func silentNode(now time.Time, n api.SilentNode) string {
	text := fmt.Sprintf("node %s is silent since %s: what it runs is unknown", n.Node, When(now, n.Since))
	if n.Copies == 0 {
		return text
	}
	text += fmt.Sprintf("; the %d instances that it listed start elsewhere", n.Copies)
	if n.LostAt.After(now) {
		text += fmt.Sprintf(" at %s", When(now, n.LostAt))
	}
	return text
}

// shownNodes is the number of nodes that a line lists by name.
const shownNodes = 10

// SilentNodes describes silent nodes in one line; empty without nodes.
func SilentNodes(now time.Time, nodes []api.SilentNode) string {
	if len(nodes) == 0 {
		return ""
	}
	if len(nodes) == 1 {
		return silentNode(now, nodes[0])
	}
	names, copies := make([]string, len(nodes)), 0
	var first, lost time.Time
	for i, n := range nodes {
		names[i] = n.Node
		copies += n.Copies
		if first.IsZero() || n.Since.Before(first) {
			first = n.Since
		}
		if n.Copies > 0 && n.LostAt.After(now) && (lost.IsZero() || n.LostAt.Before(lost)) {
			lost = n.LostAt
		}
	}
	text := fmt.Sprintf("%d nodes are silent, the first since %s: what they run is unknown", len(nodes), When(now, first))
	if copies > 0 {
		text += fmt.Sprintf("; the %d instances that they listed start elsewhere", copies)
	}
	if !lost.IsZero() {
		text += fmt.Sprintf(" from %s on, in %s", Time(lost), Ago(lost, now))
	}
	return text + ": " + List(names)
}

// List joins the first names; it counts the others.
func List(names []string) string {
	if more := len(names) - shownNodes; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shownNodes], ", "), more)
	}
	return strings.Join(names, ", ")
}
