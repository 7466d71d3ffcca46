package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/pools/fit"
)

// links are what a pod counts for, and what counts for it.
type links struct {
	carries, meets []*apart // terms of its own, and those that match it
	spreads        []*spread
	counted        []*spread // that match it
	budgets        []*budget
}

// apart counts the pods of one term of anti-affinity by domain.
type apart struct {
	Apart
	carriers, met map[string]int
}

// spread counts the pods of one constraint of a pod by domain: at most, and at least.
type spread struct {
	Spread
	rules    *Rules
	self     bool            // the pod counts itself
	up, low  map[string]int  // 0: none
	histo    map[int]int     // how many domains have a value in low
	least    int             // value in low
	existing map[string]bool // domains of nodes; shared, and not changed
	added    int             // domains of new machines
	all      bool            // all nodes with the label count
	received map[string]int  // pods with the constraint that the plan has put there
	most     int             // value in up of a domain in received
}

// count counts a pod on a node.
func (l *links) count(n *Node, leaves, deleting bool) {
	for _, t := range l.carries {
		t.carriers[domainOf(t.Topology, n.Labels, n.Name)]++
	}
	for _, t := range l.meets {
		t.met[domainOf(t.Topology, n.Labels, n.Name)]++
	}
	for _, t := range l.counted {
		if deleting || !t.eligible(n) { // kube-scheduler does not count pods that end
			continue
		}
		d := domainOf(t.Topology, n.Labels, n.Name)
		t.up[d]++
		if !leaves {
			t.raise(d, 1)
		}
	}
}

// domainOf returns the domain of a node; empty: it has none.
func domainOf(topology string, labels map[string]string, name string) string {
	if d, ok := labels[topology]; ok || topology != HostnameLabel {
		return d
	}
	return name
}

// link connects the rules of all pods: with the terms of anti-affinity, the constraints of spread, and the budgets that match them.
func (p *plan) link(all map[*Rules]bool) {
	terms, in, shared := map[string]*apart{}, map[string][]*spread{}, map[string]map[string]bool{}
	var list []*apart
	for r := range all {
		l := &links{}
		p.links[r] = l
		for _, one := range r.Apart {
			t := terms[one.Key]
			if t == nil {
				t = &apart{one, map[string]int{}, map[string]int{}}
				terms[one.Key], list = t, append(list, t)
			}
			l.carries = append(l.carries, t)
		}
		for _, one := range r.Spread {
			t := &spread{Spread: one, rules: r, self: one.Matches(r.Labels), up: map[string]int{}, low: map[string]int{}, histo: map[int]int{}, received: map[string]int{}}
			t.begin(p.cluster, shared)
			l.spreads, in[r.Namespace] = append(l.spreads, t), append(in[r.Namespace], t)
		}
	}
	p.topology = len(list)+len(in) > 0
	budgets := map[string][]*budget{}
	for _, b := range p.budgets {
		budgets[b.Namespace] = append(budgets[b.Namespace], b)
	}
	for r, l := range p.links {
		for _, t := range list {
			if t.Matches(r.Namespace, r.Labels) {
				l.meets = append(l.meets, t)
			}
		}
		for _, t := range in[r.Namespace] {
			if t.Matches(r.Labels) {
				l.counted = append(l.counted, t)
			}
		}
		for _, b := range budgets[r.Namespace] {
			if b.Matches(r.Labels) {
				l.budgets = append(l.budgets, b)
			}
		}
	}
}

// begin finds the domains of a constraint: those of the nodes that count. shared has those of all nodes, by topology.
func (t *spread) begin(c *Cluster, shared map[string]map[string]bool) {
	t.all = !t.Tolerated && (t.AllNodes || t.rules.Selects == nil) && !slices.ContainsFunc(t.rules.Spread, func(s Spread) bool { return s.Topology != t.Topology })
	if t.existing = shared[t.Topology]; t.existing == nil || !t.all {
		t.existing = map[string]bool{}
		for name, s := range c.nodes {
			if s.Node != nil && t.eligible(s.Node) {
				t.existing[domainOf(t.Topology, s.Labels, name)] = true
			}
		}
		if t.all {
			shared[t.Topology] = t.existing
		}
	}
	t.histo[0] = len(t.existing)
}

// eligible reports whether a node counts.
func (t *spread) eligible(n *Node) bool {
	if t.all {
		return domainOf(t.Topology, n.Labels, n.Name) != ""
	}
	for _, one := range t.rules.Spread {
		if domainOf(one.Topology, n.Labels, n.Name) == "" {
			return false
		}
	}
	if !t.AllNodes && t.rules.Selects != nil && t.rules.Selects(n.Name, n.Labels) != "" {
		return false
	}
	return !t.Tolerated || t.rules.Tolerates == nil || t.rules.Tolerates(n.Taints) == ""
}

// known reports whether a domain counts: it has a node, or pods on new machines.
func (t *spread) known(d string) bool {
	_, has := t.low[d]
	return has || t.existing[d]
}

// raise adds n to the least number of pods of a domain. A domain of new machines begins with its first pod, and ends with its last one.
func (t *spread) raise(d string, n int) {
	was := t.low[d]
	if t.known(d) {
		t.histo[was]--
	} else {
		t.added++
	}
	switch now := was + n; {
	case now != 0:
		t.low[d] = now
		t.histo[now]++
		t.least = min(t.least, now)
	case t.existing[d]:
		delete(t.low, d)
		t.histo[0]++
		t.least = min(t.least, 0)
	default:
		delete(t.low, d)
		t.added--
	}
	if t.domains() == 0 {
		t.least = 0
		return
	}
	for t.histo[t.least] == 0 {
		t.least++
	}
}

// domains returns how many domains count.
func (t *spread) domains() int { return len(t.existing) + t.added }

func (t apart) clone() *apart {
	t.carriers, t.met = maps.Clone(t.carriers), maps.Clone(t.met)
	return &t
}

func (t spread) clone() *spread {
	t.up, t.low, t.histo, t.received = maps.Clone(t.up), maps.Clone(t.low), maps.Clone(t.histo), maps.Clone(t.received)
	return &t
}

// topologyRefuses returns why the rules about other pods refuse a pod on a node with these labels.
func (p *plan) topologyRefuses(labels map[string]string, host string, r *requirements, c *fit.Copy) string {
	if !p.topology {
		return ""
	}
	l, from := p.links[r.Rules], p.byID[c.Leaves]
	itself := func(topology, d string) int {
		return one(from != nil && domainOf(topology, from.Labels, from.host) == d)
	}
	for _, t := range l.carries {
		if d := domainOf(t.Topology, labels, host); d != "" && t.met[d]-itself(t.Topology, d)*one(slices.Contains(l.meets, t)) > 0 {
			return "anti-affinity by " + t.Topology
		}
	}
	for _, t := range l.meets {
		if d := domainOf(t.Topology, labels, host); d != "" && t.carriers[d]-itself(t.Topology, d)*one(slices.Contains(l.carries, t)) > 0 {
			return "anti-affinity by " + t.Topology
		}
	}
	for _, t := range l.spreads {
		if why := t.refuses(domainOf(t.Topology, labels, host), from, true, t.self); why != "" {
			return why
		}
	}
	for _, t := range l.counted {
		if len(t.received) == 0 || slices.Contains(l.spreads, t) {
			continue
		}
		if why := t.refuses(domainOf(t.Topology, labels, host), from, false, true); why != "" {
			return why
		}
	}
	return ""
}

// refuses returns why a domain takes no pod that has the constraint, or counts for it, or both. The bound must hold afterwards in each
// domain that the plan gave a pod with the constraint: then kube-scheduler can put all of them there, in some order.
func (t *spread) refuses(d string, from *place, has, counts bool) string {
	if d == "" && has {
		return "the node has no label " + t.Topology
	}
	least, src := t.least, ""
	if has && !t.known(d) {
		least = min(least, 0)
	}
	if from != nil && t.eligible(from.Node) {
		src = domainOf(t.Topology, from.Labels, from.host)
	}
	if counts && src != "" && src != d && !from.leaves {
		least = min(least, t.low[src]-1)
	}
	if few := t.domains() < t.MinDomains; few || from != nil && t.Tolerated && t.MinDomains > 1 { // drained nodes may not count
		least = min(least, 0)
	}
	most := t.most
	if has || t.received[d] > 0 {
		most = max(most, t.up[d]+one(counts && src != d)) // a pod of this domain counts already
	}
	if most-least > t.MaxSkew {
		return fmt.Sprintf("topology spread by %s: a skew above %d", t.Topology, t.MaxSkew)
	}
	return ""
}

// changeTopology counts a pod that moves from a node, or that waits.
func (p *plan) changeTopology(at *place, l *links, from *place, by int) {
	labels := at.placeLabels()
	for _, t := range l.carries {
		t.carriers[domainOf(t.Topology, labels, at.host)] += by
	}
	for _, t := range l.meets {
		t.met[domainOf(t.Topology, labels, at.host)] += by
	}
	for _, t := range l.counted {
		d, src := domainOf(t.Topology, labels, at.host), ""
		if from != nil && t.eligible(from.Node) {
			src = domainOf(t.Topology, from.Labels, from.host)
		}
		if at.Node != nil && !t.eligible(at.Node) {
			d = ""
		}
		if d != "" && d != src {
			t.up[d] += by
		}
		switch {
		case from == nil || from.leaves:
			if d != "" {
				t.raise(d, by)
			}
		case src != "" && src != d:
			t.raise(src, -by)
		}
		t.setMost()
	}
	for _, t := range l.spreads {
		if d := domainOf(t.Topology, labels, at.host); t.received[d]+by > 0 {
			t.received[d] += by
		} else {
			delete(t.received, d)
		}
		t.setMost()
	}
}

// setMost finds the largest number of pods in a domain that has received some.
func (t *spread) setMost() {
	t.most = 0
	for d := range t.received {
		t.most = max(t.most, t.up[d])
	}
}
