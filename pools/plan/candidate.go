package plan

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// CandidateOf returns the node as a candidate at that time. A node that has not joined has no
// tasks, so it is safe. The caller sets Repairing.
func CandidateOf(now time.Time, n pools.Node) api.Candidate {
	c := api.Candidate{
		ID:        n.Instance.ID,
		Group:     n.Instance.Group,
		Weight:    n.Instance.Weight,
		Instance:  n.Instance.State,
		Node:      n.State,
		Priority:  n.Priority,
		Cordoned:  n.Cordoned,
		Protected: n.Instance.Protected,
		Stale:     n.Instance.Stale,
		Unhealthy: n.Unhealthy,
	}
	c.Unobserved = n.Unobserved && !n.Instance.Launched.IsZero() // otherwise its boot time limit is unknown
	if !n.Instance.Launched.IsZero() {
		c.Uptime = now.Sub(n.Instance.Launched)
	}
	if n.State == api.NodeOrphaned {
		c.Safe = true
		return c
	}
	c.Tasks, c.BatchTasks = n.Facts.Tasks, n.Facts.BatchTasks
	c.Safe, c.Draining = n.Facts.SafeToEvict, n.Facts.Draining
	c.CordonedByOther = c.Draining && n.Facts.CordonedBy == api.CordonedByOther
	return c
}

// leavesFirst reports whether the node goes first because it accepts no more tasks. A node that another party cordoned does not: that
// party may need it as it is.
func leavesFirst(c *api.Candidate) bool { return c.Draining && !c.CordonedByOther }

// exists reports whether the machine counts as capacity: its weight is valid, and it is not
// terminating.
func exists(c *api.Candidate) bool {
	return c.Weight >= 0 && c.Weight <= maxWeight && c.Instance != api.InstanceTerminating
}

// hasJoined reports whether its node has joined the pool.
func hasJoined(c *api.Candidate) bool { return c.Node.Joined() }

// isUnfit reports whether the node is unhealthy or under repair. It may have joined.
func isUnfit(c *api.Candidate) bool { return c.Unhealthy || c.Repairing }

// canReplace reports whether the machine can replace a stale one, now or when its node joins.
func canReplace(c *api.Candidate) bool { return !c.Stale && !c.Draining && !isUnfit(c) }

// exclusionOf returns why the machine cannot be chosen for any target, or "".
func exclusionOf(c *api.Candidate, limits api.PruneLimits) api.KeptCause {
	switch {
	case !exists(c) || c.Instance != api.InstanceRunning:
		return api.KeptNotRunning
	case c.Node == api.NodeUnknown:
		return api.KeptNodeUnknown
	case !c.Safe:
		return api.KeptNotSafe
	case c.Cordoned:
		return api.KeptCordoned
	case c.Protected:
		return api.KeptProtected
	case c.Repairing:
		return api.KeptRepairing
	case c.Tasks > 0 && c.Tasks >= limits.MaxTasks:
		return api.KeptOverTasks
	}
	return ""
}

// Reason is why an instance is chosen before another one: the first of these that applies. The
// order of a prune is the same.
type Reason string

const (
	Draining    Reason = "draining"     // it accepts no more tasks
	Unhealthy   Reason = "unhealthy"    // its node is unfit
	Orphaned    Reason = "orphaned"     // its node has not joined
	Stale       Reason = "stale"        // a roll replaces it
	Idle        Reason = "idle"         // it has no tasks
	FewestTasks Reason = "fewest tasks" // the fewest tasks are lost with it
)

// ByProof reports whether the instance goes only because it is not needed, and a proof that its copies have other places allows it.
func (c Choice) ByProof() bool { return c.Why == Idle || c.Why == FewestTasks }

// reasonOf returns the first Reason that applies to the candidate.
func reasonOf(c *api.Candidate) Reason {
	switch {
	case leavesFirst(c):
		return Draining
	case c.Unhealthy:
		return Unhealthy
	case c.Node == api.NodeOrphaned:
		return Orphaned
	case c.Stale:
		return Stale
	case c.Node == api.NodeIdle:
		return Idle
	}
	return FewestTasks
}

// choiceOf returns the candidate as a choice of a prune.
func choiceOf(c *api.Candidate) Choice {
	return Choice{ID: c.ID, Group: c.Group, Weight: c.Weight, Tasks: c.Tasks, Why: reasonOf(c)}
}
