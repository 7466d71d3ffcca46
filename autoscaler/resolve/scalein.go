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

// whenUndone returns when the pool undid a scale-in that a decision would repeat; zero: it did not.
func whenUndone(c api.Case, d decide.Decision) time.Time {
	if s := c.State.ScaleIns; s == nil || len(s.Undone) == 0 {
		return time.Time{}
	}
	return c.State.ScaleIns.WhenUndone(heldOf(c.Places), scaleInOf(c, d))
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
		one := *s.Last
		one.Undone = c.Input.Now
		undone := append(slices.Clone(s.Undone), one)
		s = &api.ScaleIns{Held: held, Undone: undone[max(0, len(undone)-api.MaxUndone):]}
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

// undoes reports whether copies need a machine, and the pool takes nodes back or grows.
func undoes(c api.Case, o Outcome) bool {
	back := func(l api.Leaver) bool { return slices.Contains(c.Places.Back, l.ID) }
	grows := len(o.TakeBack) > 0 || o.Decision.Target > poolTarget(c)+resource.Slack
	return slices.ContainsFunc(o.TakeBack, back) || grows && len(c.Places.Machines()) > 0
}
