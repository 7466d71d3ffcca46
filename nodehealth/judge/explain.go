package judge

import (
	"cmp"
	"time"
)

// Explanation is all that is known of one node.
type Explanation struct {
	Status
	Failing time.Time  `json:"failing,omitzero"` // since then it fails, at least
	Modes   []Word     `json:"modes,omitempty"`  // in the policy's order
	Action  ActionName `json:"action,omitempty"` // under way, or the next one
	Asked   string     `json:"asked,omitempty"`  // who wants it repaired, which waits
	Lineage string     `json:"lineage,omitempty"`
	Repairs int        `json:"repairs,omitempty"` // of its lineage, within the window
}

// Word is what one mode says of one node now.
type Word struct {
	Mode    ModeType  `json:"mode"`
	Verdict Verdict   `json:"verdict"`
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at,omitzero"` // of the last observation that was not unknown
}

// Explain returns what is known of a node.
func (j *Judge) Explain(now time.Time, id string) (Explanation, bool) {
	n, ok := j.roster.all[id]
	if !ok {
		return Explanation{}, false
	}
	now = now.Round(0)
	e := Explanation{Status: n.status(), Failing: n.failing, Lineage: j.safety.lineages.of(n.Node), Repairs: len(j.safety.lineages.recent(now, n.Node)),
		Modes: n.words(now, &j.detection, &n.Node)}
	if n.repair != nil {
		e.Action = n.repair.Action.Name
	} else {
		e.Asked = n.asked
	}
	return e, true
}

func (n *node) status() Status {
	s := Status{Node: n.ID, Zone: n.Zone, State: n.state, Since: n.since, Verdict: cmp.Or(n.verdict, Unknown), Why: n.why, Gate: n.blocked, Until: n.until}
	if n.repair != nil {
		s.Attempt, s.Until = n.repair.Attempt, n.repair.Deadline
	}
	return s
}

// Census counts the nodes.
type Census struct {
	States  map[NodeState]int `json:"states,omitempty"` // all that are known, by state
	Unknown int               `json:"unknown"`          // those without a verdict
}

// Census returns how many nodes stand how.
func (j *Judge) Census() Census {
	c := Census{States: map[NodeState]int{}}
	for _, n := range j.roster.all {
		c.States[n.state]++
		if cmp.Or(n.verdict, Unknown) == Unknown {
			c.Unknown++
		}
	}
	return c
}

// Unfit returns why each node that is not fit is so: the preferred victims of a
// scale-in. A replacement that is being verified is not among them unless it fails.
func (j *Judge) Unfit() map[string]string {
	out := map[string]string{}
	for id, n := range j.roster.all {
		if n.state.unfit() && (n.state != Verifying || n.verdict == Fail) && !n.replaced {
			out[id] = cmp.Or(n.why, string(n.state))
		}
	}
	return out
}

// Paused reports whether repairs of the node are kept off by that owner, and until when.
func (j *Judge) Paused(node, owner string) (until time.Time, is bool) {
	i, is := j.safety.pauses.find(node, owner)
	if is {
		until = j.safety.pauses[i].Until
	}
	return until, is
}

// Awaits reports whether the outcome of that order is waited for.
func (j *Judge) Awaits(node, attempt string) bool {
	n, ok := j.roster.all[node]
	return ok && n.awaits(attempt)
}

// MayGoFirst reports whether a node may end before its replacement has come, although
// the replacement was to be launched first: the node does not serve, or one more may be
// out of service. A node that serves counts as out of service from now on.
func (j *Judge) MayGoFirst(now time.Time, node, attempt string) bool {
	n, ok := j.roster.all[node]
	return ok && n.awaits(attempt) && n.repair.Action.Name == Recreate && j.repairs.mayGoFirst(now, n)
}
