package plan

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Candidate is a machine as far as a prune needs it.
type Candidate struct {
	ID         string              `json:"id"` // unique in the pool
	Group      string              `json:"group"`
	Weight     float64             `json:"weight"`   // of 2^40 at most, or it counts for nothing
	Instance   pools.InstanceState `json:"instance"` // only a running one is ever chosen
	Node       pools.NodeState     `json:"node"`     // an unknown one is never chosen
	Tasks      int                 `json:"tasks,omitempty"`
	BatchTasks int                 `json:"batch_tasks,omitempty"`
	Uptime     time.Duration       `json:"uptime"`
	Priority   float64             `json:"priority,omitempty"` // the lowest goes first, if Limits ask for it
	Safe       bool                `json:"safe"`               // its tasks may be evicted
	Cordoned   bool                `json:"cordoned,omitempty"` // an operator's mark: never chosen
	Protected  bool                `json:"protected,omitempty"`
	Stale      bool                `json:"stale,omitempty"`
	Draining   bool                `json:"draining,omitempty"`  // takes no tasks any more
	Unhealthy  bool                `json:"unhealthy,omitempty"` // a preferred victim
	Mending    bool                `json:"mending,omitempty"`   // it is repaired in place: never chosen
}

// CandidateOf returns the node as a candidate at that time. A node that has not
// joined has no tasks, so it is safe. What is being repaired is the caller's to say.
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

// exists reports whether the machine counts as capacity: its weight makes
// sense, and it is not on its way out.
func (c *Candidate) exists() bool {
	return c.Weight >= 0 && c.Weight <= maxWeight && c.Instance != pools.InstanceTerminating
}

// joined reports whether its node has.
func (c *Candidate) joined() bool { return c.Node.Joined() }

// unfit reports whether it is not to be relied on, though it may have joined.
func (c *Candidate) unfit() bool { return c.Unhealthy || c.Mending }

// bar says what bars the machine from being chosen at all, whatever the target.
func (c *Candidate) bar(limits Limits) Cause {
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
	case c.Mending:
		return Mending
	case c.Tasks > 0 && c.Tasks >= limits.MaxTasks:
		return OverTasks
	}
	return ""
}

// Reason says why an instance is let go rather than another one: the first of
// these that is true of it, which is also how the order goes.
type Reason string

const (
	Draining    Reason = "draining"     // it takes no tasks any more
	Unhealthy   Reason = "unhealthy"    // its node is not fit
	Orphaned    Reason = "orphaned"     // its node has not joined
	Stale       Reason = "stale"        // it is being rolled away
	Idle        Reason = "idle"         // it has no tasks
	FewestTasks Reason = "fewest tasks" // it has the least to lose
)

// reason is the candidate's place in the order, in one word.
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

// choice is the candidate as one that is let go.
func (c *Candidate) choice() Choice {
	return Choice{ID: c.ID, Group: c.Group, Weight: c.Weight, Tasks: c.Tasks, Why: c.reason()}
}
