package autoscaler

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

// Rotation is which machines of a pool are replaced, and how.
type Rotation struct {
	rotate.Policy
	// Rules are those of the pool file. Orders of operators are further ones.
	Rules []rotate.Rule
}

// rotation steps the rotations of the pool: it sets which weight of the case is stale, and the state for the next tick.
func rotation(config Config, c *api.Case, now time.Time, r apply.Reading, orders api.Orders, state *api.PoolState) rotate.Output {
	if len(config.Rotation.Rules)+len(orders.Stale) == 0 && state.Rotation == nil {
		return rotate.Output{}
	}
	in := rotate.Input{
		Policy: config.Rotation.Policy, Now: now, Clock: decide.ClockAt(state.DecisionState, now), State: state.Rotation,
		Rules: rotationRules(config, orders), Machines: rotatable(config, r), Closed: rotationWindows(config.Windows, now),
		Unknown: r.Unknown(), Limit: r.Records.Disruption(r.Snapshot).Limit, Ordered: map[string]int{},
	}
	if orders.Resume != nil {
		in.Resumed = orders.Resume.At
	}
	for group, of := range state.Groups {
		in.Ordered[group] = of.Surge
	}
	out := rotate.Step(in)
	state.Rotation, c.Rotation = out.State, out.Rotation
	weight, rolls, leaving := map[string]float64{}, map[string]float64{}, r.Records.Leaving()
	for i := range r.Nodes {
		of := &r.Nodes[i].Instance
		held, marked := out.Marked[of.ID]
		if !marked || leaving[of.ID] {
			continue
		}
		if weight[of.Group] += of.Weight; !held {
			rolls[of.Group] += of.Weight
		}
	}
	c.Stale = wholeWeights(weight)
	if c.Rotation != nil {
		c.Rotation.Rolls = wholeWeights(rolls)
		for _, work := range []api.Work{api.WorkRotate, api.WorkRoll} {
			if at := config.Windows.Closes(string(work), now); c.Rotation.Closes.IsZero() {
				c.Rotation.Closes = at
			}
		}
	}
	return out
}

// wholeWeights returns the parts that whole targets hold; nil: no group has one.
func wholeWeights(weights map[string]float64) map[string]int {
	var out map[string]int
	for group, w := range weights {
		if out == nil {
			out = map[string]int{}
		}
		out[group] = resolve.Whole(w)
	}
	return out
}

// rotationRules returns the rules of the pool file, then the orders of operators.
func rotationRules(config Config, orders api.Orders) []rotate.Rule {
	rules := slices.Clone(config.Rotation.Rules)
	for _, m := range orders.Stale {
		rule := rotate.Rule{Name: m.Name(), Work: api.WorkRoll, Group: m.Group, Before: m.At, Where: m.Where, Note: m.Note}
		if m.Where != "" {
			rule.Work = api.WorkRotate
			when, err := rotate.Parse(m.Where)
			if err != nil {
				continue // the store has checked it
			}
			rule.When = when
		}
		rules = append(rules, rule)
	}
	return rules
}

// rotationWindows returns why a roll and a rotation wait for a window.
func rotationWindows(windows calendar.Windows, now time.Time) map[api.Work]string {
	out := closed(windows, now)
	delete(out, api.WorkScaleIn)
	return out
}

// rotatable returns the machines of a reading, with what the health gate needs.
func rotatable(config Config, r apply.Reading) []rotate.Machine {
	inPlace, leaves := r.Records.InPlace(), map[string]api.DrainReason{}
	for _, d := range r.Records {
		if !drain.Stays(d) {
			leaves[d.Node] = d.Reason
		}
	}
	var out []rotate.Machine
	for i := range r.Nodes {
		n := &r.Nodes[i]
		id := n.Instance.ID
		if n.Instance.State == api.InstanceTerminating {
			continue
		}
		m := rotate.Machine{
			Instance: n.Instance, Joined: n.State.Joined(), Leaves: leaves[id], Kept: n.Instance.Protected || n.Cordoned,
			Silent:   n.State == api.NodeUnknown && n.Instance.State != api.InstancePending,
			Starting: n.State == api.NodeUnknown && r.StartingFor(id),
		}
		switch why, sick := r.Condition.Unhealthy[id]; {
		case sick:
			m.Unfit = "its node is unhealthy: " + why
		case r.Quarantined(id):
			m.Unfit = "its node is in quarantine"
		case inPlace[id]:
			m.Unfit = "its node is repaired"
		case m.Joined:
			m.Unfit = unfit(config.Rotation.Gate.Checks, n)
		}
		m.Unfit = decide.OneLine(m.Unfit)
		out = append(out, m)
	}
	return out
}

// unfit returns why the reports of a joined node do not pass the health gate, or an empty string.
func unfit(checks []string, n *pools.Node) string {
	for _, c := range n.Facts.Conditions {
		if c.Failed {
			return fmt.Sprintf("its condition %s failed: %s", c.Type, c.Why)
		}
	}
	for _, check := range checks {
		i := slices.IndexFunc(n.Facts.Conditions, func(c api.NodeCondition) bool { return c.Type == check })
		if i < 0 {
			return "it does not report the condition " + check
		}
		if n.Facts.Conditions[i].Unknown {
			return "its condition " + check + " is unknown"
		}
	}
	if n.Facts.Unready > 0 {
		return fmt.Sprintf("%d of its %d copies are not ready", n.Facts.Unready, n.Facts.Tasks)
	}
	return ""
}
