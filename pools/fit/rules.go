package fit

import (
	"github.com/weirkeeper/weirkeeper/api"
)

// Rules are those of a scheduler beside sizes and limits, such as zones and labels of nodes. They follow the plan of one solution, so
// that copies count which have a place in it.
type Rules interface {
	// Refuses returns why a node takes no copy like this one now, for people; empty: it takes one.
	Refuses(n *Node, c *Copy) (why string)
	// Put and Remove add a copy to what the plan has on a node, and remove it.
	Put(n *Node, c *Copy)
	Remove(n *Node, c *Copy)
	// Machine returns an empty machine of a group.
	Machine(group string) *Node
	// Never returns why a node can hold no copy like this one, whatever else it has; empty: it can.
	Never(n *Node, c *Copy) (why string)
	// Varies reports whether a node may refuse a copy, and take an equal one later.
	Varies(c *Copy) bool
	// Empty counts the copies of a node as moved, unless they must not move now: then it returns why.
	Empty(n *Node) (why string)
	// Keep undoes Empty.
	Keep(n *Node)
}

// ruling are the Rules of a plan. The zero value has none.
type ruling struct{ Rules }

// refuses returns why the rules let no copy like this one on a node; empty: they do.
func (r ruling) refuses(n *Node, c *Copy) string {
	if r.Rules == nil {
		return ""
	}
	return r.Refuses(n, c)
}

// ordered returns why the rules let no copy like this one on a machine of a group; empty: they do.
func (r ruling) ordered(group string, c *Copy) string {
	if r.Rules == nil {
		return ""
	}
	return r.Refuses(r.Machine(group), c)
}

// restart returns where the search for a place of a copy goes on after one at from.
func (r ruling) restart(c *Copy, from int) int {
	if r.Rules != nil && r.Varies(c) {
		return 0
	}
	return from
}

// whyNever returns why no machine of w can ever hold copies of a class; empty: one can, or may. all are the sizes of all machines.
func (r ruling) whyNever(w *World, c *class, all []api.MachineSize) (why string) {
	if r.Rules == nil || len(all) == 0 {
		return WhyNever(c.footprint, all)
	}
	var sizes []api.MachineSize // of those that the rules allow
	allowed := func(n *Node, size api.MachineSize) {
		if refusal := r.Never(n, c.copies[0]); refusal == "" {
			sizes = append(sizes, size)
		} else if why == "" {
			why = refusal
		}
	}
	for _, k := range w.Question.Kinds {
		if allowed(r.Machine(k.Group), api.MachineSize{Where: "group " + k.Group, Resources: k.Resources}); CanHold(c.footprint, sizes) && len(sizes) > 0 {
			return ""
		}
	}
	for _, n := range w.Nodes {
		if allowed(n, api.MachineSize{Where: "node " + n.ID, Resources: n.Size}); len(sizes) > 0 && CanHold(c.footprint, sizes[len(sizes)-1:]) {
			return ""
		}
	}
	if len(sizes) == 0 {
		return clip(why)
	}
	return WhyNever(c.footprint, sizes)
}

// fillByRules puts copies of a class on a machine, at most n, and returns how many the rules let there.
func (m *machines) fillByRules(on *Node, c *class, n int) int {
	for i, one := range c.copies[:n] {
		if m.steps++; m.rules.Refuses(on, one) != "" {
			return i
		}
		m.rules.Put(on, one)
	}
	return n
}

// keepByRules puts what a new machine holds on it.
func (m *machines) keepByRules(group string, what load) {
	on := m.rules.Machine(group)
	for _, p := range what.parts {
		for _, one := range p.class.copies[:p.n] {
			m.rules.Put(on, one)
			m.kept = append(m.kept, kept{on, one})
		}
	}
}

// kept is a copy on a new machine.
type kept struct {
	on   *Node
	copy *Copy
}

// dropMachines takes back what new machines hold: a node is emptied without them.
func (r ruling) dropMachines(filled []*machines) {
	for _, m := range filled {
		for _, k := range m.kept {
			r.Remove(k.on, k.copy)
		}
	}
}

// dropByRules takes back what load put on a machine.
func (m *machines) dropByRules(on *Node, what load) {
	for _, p := range what.parts {
		for _, one := range p.class.copies[:p.n] {
			m.rules.Remove(on, one)
		}
	}
}

// mayEmpty returns why the rules do not let the copies of a node move now; empty: they do.
func (r ruling) mayEmpty(n *Node) string {
	if r.Rules == nil {
		return ""
	}
	return r.Empty(n)
}

// keep undoes mayEmpty.
func (r ruling) keep(n *Node) {
	if r.Rules != nil {
		r.Keep(n)
	}
}

// leaving returns a copy that the plan has put on a candidate. It comes from there now: the rules count it in both places, because the
// candidate may stay.
func (r ruling) leaving(c *Copy, n *Node) *Copy {
	if r.Rules == nil {
		return c
	}
	moved := *c
	moved.Leaves = n.ID
	return &moved
}
