package resolve

import (
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// heldOf returns what all copies and free places of a pool need.
func heldOf(p *api.CasePlaces) resource.Vector {
	held := p.Held
	for _, h := range p.Headroom {
		held = held.Add(h.Resources.Scale(float64(h.Wanted)))
	}
	for k := range held {
		held[k] = min(held[k], math.MaxFloat64) // JSON has no infinity
	}
	return held
}

// scaleInOf returns a scale-in of the nodes of c by a decision.
func scaleInOf(c api.Case, d decide.Decision) api.ScaleIn {
	s := api.ScaleIn{At: c.Input.Now, Target: resource.Ceil(min(d.Target, maxWeight)), Offered: c.Places.Offered, Nodes: map[string]float64{}}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Instance != api.InstanceTerminating {
			s.Nodes[n.Group] += min(n.Weight, maxWeight)
		}
	}
	return s
}

// repeated returns the undone scale-in that a decision would repeat, or a zero one.
func repeated(c api.Case, d decide.Decision) api.ScaleIn {
	if s := c.State.ScaleIns; s == nil || len(s.Undone) == 0 {
		return api.ScaleIn{}
	}
	return c.State.ScaleIns.Repeated(heldOf(c.Places), scaleInOf(c, d))
}

// GaveUp returns the state after a drain of a scale-in ended at its deadline, because copies did not move. It was no real proof then.
func GaveUp(s api.PoolState, now time.Time) api.PoolState {
	s.ScaleIns = s.ScaleIns.Undo(now, true)
	return s
}

// afterScaleIns returns the scale-ins with that of d, and with whether the latest one is undone now.
func afterScaleIns(c api.Case, o Outcome, d Done) *api.ScaleIns {
	s := c.State.ScaleIns
	if c.Places == nil {
		return s
	}
	held := heldOf(c.Places)
	if s != nil && s.Held != held {
		s = nil
	}
	switch {
	case s == nil || s.Last == nil:
	case c.Input.Lost > 0: // copies may need machines for the lost nodes
		s = &api.ScaleIns{Held: held, Undone: s.Undone}
	case undoes(c, o):
		s = s.Undo(c.Input.Now, false)
	}
	if slices.ContainsFunc(d.Pruned, plan.Choice.ByProof) {
		last := scaleInOf(c, o.Decision)
		if s == nil {
			s = &api.ScaleIns{Held: held}
		}
		s = &api.ScaleIns{Held: held, Last: &last, Undone: s.Undone}
	}
	return s
}

// undoes reports whether copies need a machine, and the pool takes nodes back or a group grows. The pool may do so within its target, when
// the weight was in another group.
func undoes(c api.Case, o Outcome) bool {
	back := func(l api.Leaver) bool { return slices.Contains(c.Places.Back, l.ID) }
	targets := o.Distribution.Targets()
	grows := len(o.TakeBack) > 0 || slices.ContainsFunc(c.Groups, func(g api.GroupTarget) bool { return !g.Stale && targets[g.ID] > g.Target })
	return slices.ContainsFunc(o.TakeBack, back) || grows && len(c.Places.Machines()) > 0
}
