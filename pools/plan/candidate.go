package plan

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Candidate is the part of a machine's state that a prune needs.
type Candidate struct {
	ID         string              `json:"id"` // unique in the pool
	Group      string              `json:"group"`
	Weight     float64             `json:"weight"`   // at most 2^40, otherwise it counts as no capacity
	Instance   pools.InstanceState `json:"instance"` // only a running one is ever chosen
	Node       pools.NodeState     `json:"node"`     // an unknown one is never chosen
	Tasks      int                 `json:"tasks,omitempty"`
	BatchTasks int                 `json:"batch_tasks,omitempty"`
	Uptime     time.Duration       `json:"uptime"`
	Priority   float64             `json:"priority,omitempty"` // the lowest goes first if Limits.ByPriority
	Safe       bool                `json:"safe"`               // its tasks may be evicted
	Cordoned   bool                `json:"cordoned,omitempty"` // marked by an operator: never chosen
	Protected  bool                `json:"protected,omitempty"`
	Stale      bool                `json:"stale,omitempty"`
	Draining   bool                `json:"draining,omitempty"`  // accepts no more tasks
	Unhealthy  bool                `json:"unhealthy,omitempty"` // preferred
	Repairing  bool                `json:"repairing,omitempty"` // repaired in place: never chosen
}

// CandidateOf returns the node as a candidate at that time. A node that has not joined has no
// tasks, so it is safe. The caller sets Repairing.
func CandidateOf(now time.Time, n pools.Node) Candidate {
	c := Candidate{
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
	if !n.Instance.Launched.IsZero() {
		c.Uptime = now.Sub(n.Instance.Launched)
	}
	if n.State == pools.NodeOrphaned {
		c.Safe = true
		return c
	}
	c.Tasks, c.BatchTasks = n.Facts.Tasks, n.Facts.BatchTasks
	c.Safe, c.Draining = n.Facts.SafeToEvict, n.Facts.Draining
	return c
}

// exists reports whether the machine counts as capacity: its weight is valid, and it is not
// terminating.
func (c *Candidate) exists() bool {
	return c.Weight >= 0 && c.Weight <= maxWeight && c.Instance != pools.InstanceTerminating
}

// joined reports whether its node has joined the pool.
func (c *Candidate) joined() bool { return c.Node.Joined() }

// unfit reports whether the node is unhealthy or under repair. It may have joined.
func (c *Candidate) unfit() bool { return c.Unhealthy || c.Repairing }

// replaces reports whether the machine can replace a stale one, now or when its node joins.
func (c *Candidate) replaces() bool { return !c.Stale && !c.Draining && !c.unfit() }

// exclusion returns why the machine cannot be chosen for any target, or "".
func (c *Candidate) exclusion(limits Limits) Cause {
	switch {
	case !c.exists() || c.Instance != pools.InstanceRunning:
		return NotRunning
	case c.Node == pools.NodeUnknown:
		return NodeUnknown
	case !c.Safe:
		return NotSafe
	case c.Cordoned:
		return Cordoned
	case c.Protected:
		return Protected
	case c.Repairing:
		return Repairing
	case c.Tasks > 0 && c.Tasks >= limits.MaxTasks:
		return OverTasks
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

// reason returns the first Reason that applies to the candidate.
func (c *Candidate) reason() Reason {
	switch {
	case c.Draining:
		return Draining
	case c.Unhealthy:
		return Unhealthy
	case c.Node == pools.NodeOrphaned:
		return Orphaned
	case c.Stale:
		return Stale
	case c.Node == pools.NodeIdle:
		return Idle
	}
	return FewestTasks
}

// choice returns the candidate as a choice of a prune.
func (c *Candidate) choice() Choice {
	return Choice{ID: c.ID, Group: c.Group, Weight: c.Weight, Tasks: c.Tasks, Why: c.reason()}
}
