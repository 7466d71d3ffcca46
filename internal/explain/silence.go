package explain

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// Overdue returns since when the pool has no tick, and what happens next; empty if its next tick is not overdue. r is
// its last tick. p is the autoscaler's process; nil: bootstrap does not answer.
func Overdue(now time.Time, r autoscaler.Record, p *bootstrap.Process) string {
	if now.Sub(r.At) <= liveness.OverdueAfter(max(r.Every, r.Took)) {
		return ""
	}
	text := fmt.Sprintf("no tick since %s, %s ago", clock(r.At), Ago(now, r.At))
	if r.Every > 0 {
		text += fmt.Sprintf(" (a tick is %v)", r.Every)
	}
	return text + ": " + nextTick(now, p)
}

// nextTick returns what happens until the next tick.
func nextTick(now time.Time, p *bootstrap.Process) string {
	switch {
	case p == nil:
		return "the pool's bootstrap does not answer, so the autoscaler is not restarted; start it with \"weir up\" or \"weir bootstrap\""
	case p.State != "running":
		return fmt.Sprintf("the autoscaler is %s; bootstrap starts it", p.State)
	case p.Alive == nil:
		return "the autoscaler has just started"
	case !p.Alive.Overdue:
		return "the autoscaler runs: its tick is long, it cannot write to the bus, or another host holds the pool; see the log"
	}
	return Silence(now, *p.Alive)
}

// Silence returns since when an overdue autoscaler has not reported, and what happens next.
func Silence(now time.Time, a bootstrap.Alive) string {
	text := fmt.Sprintf("the autoscaler has not reported since %s, %s ago", clock(a.At), Ago(now, a.At))
	switch {
	case a.RestartAt.IsZero():
	case a.RestartAt.After(now):
		text += fmt.Sprintf("; bootstrap restarts it at %s, in %s", clock(a.RestartAt), Ago(a.RestartAt, now))
	default:
		text += "; bootstrap is restarting it"
	}
	return text
}

// SilentNode returns since when a node is silent, and what happens next.
func SilentNode(now time.Time, n apps.SilentNode) string {
	text := fmt.Sprintf("node %s is silent since %s, %s ago: what it runs is unknown", n.Node, clock(n.Since), Ago(now, n.Since))
	if n.Copies == 0 {
		return text
	}
	text += fmt.Sprintf("; the %d instances that it listed start elsewhere", n.Copies)
	if n.LostAt.After(now) {
		text += fmt.Sprintf(" at %s, in %s", clock(n.LostAt), Ago(n.LostAt, now))
	}
	return text
}

func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }
