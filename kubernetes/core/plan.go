package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/pools/fit"
)

// plan follows where a solution puts pods, with the rules of kube-scheduler. It implements fit.Rules.
//
// Counts of pods are bounds that hold for each subset of the candidates: pods that may leave still count where they are, unless less is
// the worse case. So each subset of the candidates can be emptied at the same time.
type plan struct {
	places   map[*fit.Node]*place
	byID     map[string]*place
	groups   map[string][]*Shape // nil: the machines of all groups
	shapes   []*Shape
	slots    map[string]int64 // for tasks of a new machine, by group; absent: not bounded
	ports    map[Port]bool    // of daemons
	empty    map[string]*fit.Node
	made     int
	links    map[*Rules]*links
	budgets  []*budget
	cluster  *Cluster
	static   map[staticKey]string
	topology bool  // some pod has a rule about others
	daemons  []int // pods on each node that are no tasks
}

// place is a node, or a machine that does not exist.
type place struct {
	*Node         // nil: a new machine
	tasks  []*Pod // that may be moved
	slots  int64  // for further pods
	ports  map[Port]int
	leaves bool     // its pods move for certain
	shapes []*Shape // of a new machine: its labels are those of the first one that takes a pod
	group  string
	pods   int    // that the plan has there
	host   string // its domain of the hostname
}

type staticKey struct {
	rules *requirements
	at    any // *Node, or *Shape
}

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

// budget is a Budget with the evictions that are left.
type budget struct {
	*Budget
	left int
}

func newPlan(c *Cluster, in PlacesInput) *plan {
	p := &plan{
		places: map[*fit.Node]*place{}, byID: map[string]*place{}, empty: map[string]*fit.Node{}, cluster: c, slots: map[string]int64{}, ports: map[Port]bool{},
		links: map[*Rules]*links{}, static: map[staticKey]string{}, groups: map[string][]*Shape{},
	}
	for _, k := range in.Question.Kinds {
		if k.Slots > 0 {
			p.slots[k.Group] = int64(k.Slots)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(c.budgets)) {
		p.budgets = append(p.budgets, &budget{c.budgets[uid], c.budgets[uid].Allowed})
	}
	return p
}

// add adds a node. leaves: it is drained.
func (p *plan) add(n *fit.Node, s *nodeState, leaves bool) {
	at := &place{Node: s.Node, slots: s.Slots - int64(len(s.pods)), leaves: leaves, group: n.Group, host: s.Name}
	p.daemons = append(p.daemons, len(s.pods)-s.tasks.n)
	for _, pod := range s.pods {
		if pod.moves() {
			at.tasks = append(at.tasks, pod)
		}
		for _, port := range pod.rules().Ports {
			if at.ports == nil {
				at.ports = map[Port]int{}
			}
			if at.ports[port]++; pod.Kind == KindDaemon {
				p.ports[port] = true
			}
		}
	}
	p.places[n], p.byID[n.ID] = at, at
}

// machines sets what new machines are like: the shapes of the pool, by their group if its nodes have the label of a group.
func (p *plan) machines(shapes []Shape) {
	for i := range shapes {
		s := &shapes[i]
		p.shapes = append(p.shapes, s)
		if group := s.Labels[groupLabel]; group != "" {
			p.groups[group] = append(p.groups[group], s)
		}
	}
	if slices.Sort(p.daemons); len(p.daemons) > 0 {
		for group := range p.slots {
			p.slots[group] -= int64(p.daemons[len(p.daemons)/2])
		}
	}
}

// count counts the pods of the whole cluster for the rules about other pods, and for the budgets.
func (p *plan) count() {
	all := map[*Rules]bool{}
	for _, pod := range p.cluster.pods {
		all[pod.rules()] = true
	}
	p.link(all)
	for _, at := range p.byID {
		for _, pod := range at.tasks {
			for _, b := range p.links[pod.rules()].budgets {
				b.left -= one(at.leaves)
			}
		}
	}
	for _, s := range p.cluster.nodes {
		if s.Node == nil || !p.topology {
			continue
		}
		at := p.byID[s.ID]
		leaves := at != nil && at.Node == s.Node && at.leaves
		for _, pod := range s.pods {
			p.links[pod.rules()].count(s.Node, leaves, pod.Deleting)
		}
	}
	p.cluster = nil
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

// fresh returns a copy of the plan without anything that a solution has put.
func (p *plan) fresh() *plan {
	next := *p
	next.places, next.byID, next.empty, next.static = make(map[*fit.Node]*place, len(p.places)), make(map[string]*place, len(p.byID)), map[string]*fit.Node{}, p.static
	for n, at := range p.places {
		own := *at
		own.ports = maps.Clone(at.ports)
		next.places[n], next.byID[n.ID] = &own, &own
	}
	terms, spreads, budgets := map[*apart]*apart{}, map[*spread]*spread{}, map[*budget]*budget{}
	next.links = make(map[*Rules]*links, len(p.links))
	for r, l := range p.links {
		next.links[r] = &links{
			carries: copied(l.carries, terms, apart.clone), meets: copied(l.meets, terms, apart.clone),
			spreads: copied(l.spreads, spreads, spread.clone), counted: copied(l.counted, spreads, spread.clone),
			budgets: copied(l.budgets, budgets, func(b budget) *budget { return &b }),
		}
	}
	return &next
}

func (t apart) clone() *apart {
	t.carriers, t.met = maps.Clone(t.carriers), maps.Clone(t.met)
	return &t
}

func (t spread) clone() *spread {
	t.up, t.low, t.histo, t.received = maps.Clone(t.up), maps.Clone(t.low), maps.Clone(t.histo), maps.Clone(t.received)
	return &t
}

// copied returns copies of all, one for each original.
func copied[T any](all []*T, known map[*T]*T, clone func(T) *T) (out []*T) {
	for _, one := range all {
		if known[one] == nil {
			known[one] = clone(*one)
		}
		out = append(out, known[one])
	}
	return out
}

// Machine implements fit.Rules. It returns the same machine until something is put there.
func (p *plan) Machine(group string) *fit.Node {
	if n := p.empty[group]; n != nil && p.places[n].pods == 0 {
		return n
	}
	p.made++
	n, slots := &fit.Node{Group: group}, int64(1<<31)
	if s, ok := p.slots[group]; ok {
		slots = s
	}
	at := &place{shapes: p.shapesOf(group), group: group, slots: slots, host: fmt.Sprintf("\x00%d", p.made)}
	for port := range p.ports {
		if at.ports == nil {
			at.ports = map[Port]int{}
		}
		at.ports[port]++
	}
	p.places[n], p.empty[group] = at, n
	return n
}

// shapesOf returns what a new machine of a group may be like.
func (p *plan) shapesOf(group string) []*Shape {
	if shapes := p.groups[group]; shapes != nil {
		return shapes
	}
	return p.shapes
}

// Varies implements fit.Rules: a domain with too many pods takes another one after others have more.
func (p *plan) Varies(c *fit.Copy) bool {
	r, is := c.Rule.(*requirements)
	if !is {
		return false
	}
	l := p.links[r.Rules]
	other := func(t *apart) bool { return t.Topology != HostnameLabel }
	return len(l.spreads) > 0 || slices.ContainsFunc(l.carries, other) || slices.ContainsFunc(l.meets, other)
}

// Never implements fit.Rules.
func (p *plan) Never(n *fit.Node, c *fit.Copy) string {
	r, is := c.Rule.(*requirements)
	if !is {
		return ""
	}
	return p.matching(p.places[n], r)
}

// matching returns why a pod cannot run on such a place, whatever else is there.
func (p *plan) matching(at *place, r *requirements) (why string) {
	if at.Node != nil {
		return p.mismatch(at.Node, r, at.Name, at.Labels, at.Taints)
	}
	for _, s := range at.shapes {
		refusal := p.mismatch(s, r, "", s.Labels, s.Taints)
		if refusal == "" {
			return ""
		}
		why = cmp.Or(why, refusal)
	}
	return why
}

// mismatch is that of requirements, computed once for each place or shape.
func (p *plan) mismatch(at any, r *requirements, name string, labels map[string]string, taints []Taint) string {
	if r.Selects == nil && len(taints) == 0 && r.volumes == nil {
		return ""
	}
	key := staticKey{r, at}
	why, known := p.static[key]
	if !known {
		why = r.mismatch(name, labels, taints)
		p.static[key] = why
	}
	return why
}

// Refuses implements fit.Rules.
func (p *plan) Refuses(n *fit.Node, c *fit.Copy) string {
	at := p.places[n]
	if at.slots <= 0 {
		return "the node has no more slots for pods"
	}
	r, is := c.Rule.(*requirements)
	if !is {
		return ""
	}
	if r.unknown != "" {
		return "not understood: " + r.unknown
	}
	for _, port := range r.Ports {
		if at.ports[port] > 0 {
			return fmt.Sprintf("port %d is in use", port.Number)
		}
	}
	if at.Node != nil {
		return cmp.Or(p.mismatch(at.Node, r, at.Name, at.Labels, at.Taints), p.topologyRefuses(at.Labels, at.host, r, c))
	}
	why := ""
	for _, s := range at.shapes {
		refusal := cmp.Or(p.mismatch(s, r, "", s.Labels, s.Taints), p.topologyRefuses(s.Labels, at.host, r, c))
		if refusal == "" {
			return ""
		}
		why = cmp.Or(why, refusal)
	}
	return why
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

// Put implements fit.Rules.
func (p *plan) Put(n *fit.Node, c *fit.Copy) { p.change(n, c, 1) }

// Remove implements fit.Rules.
func (p *plan) Remove(n *fit.Node, c *fit.Copy) { p.change(n, c, -1) }

// change adds a copy to what the plan has on a node, or removes it.
func (p *plan) change(n *fit.Node, c *fit.Copy, by int) {
	at := p.places[n]
	r, is := c.Rule.(*requirements)
	if is && at.Node == nil && at.pods == 0 && by > 0 {
		at.settle(p, r, c)
	}
	at.slots -= int64(by)
	at.pods += by
	if is {
		for _, port := range r.Ports {
			if at.ports == nil {
				at.ports = map[Port]int{}
			}
			at.ports[port] += by
		}
		if p.topology {
			p.changeTopology(at, p.links[r.Rules], p.byID[c.Leaves], by)
		}
	}
	if at.Node == nil && at.pods == 0 {
		at.shapes = p.shapesOf(at.group)
	}
}

// settle decides which shape a new machine has: the first one that takes its first pod.
func (at *place) settle(p *plan, r *requirements, c *fit.Copy) {
	for _, s := range at.shapes {
		if p.mismatch(s, r, "", s.Labels, s.Taints) == "" && p.topologyRefuses(s.Labels, at.host, r, c) == "" {
			at.shapes = []*Shape{s}
			return
		}
	}
}

// placeLabels returns the labels of a place: of a new machine, those of its shape.
func (at *place) placeLabels() map[string]string {
	if at.Node != nil {
		return at.Labels
	}
	if len(at.shapes) == 0 {
		return nil
	}
	return at.shapes[0].Labels
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

// Empty implements fit.Rules: the budgets of the pods allow their evictions, beside those of other nodes.
func (p *plan) Empty(n *fit.Node) string {
	at := p.byID[n.ID]
	if at == nil {
		return ""
	}
	need := map[*budget]int{}
	var twice []string
	for _, pod := range at.tasks {
		all := p.links[pod.rules()].budgets
		if len(all) > 1 {
			twice = append(twice, fmt.Sprintf("%s has %d disruption budgets, so its eviction is refused", pod.Key(), len(all)))
		}
		for _, b := range all {
			need[b]++
		}
	}
	if twice != nil {
		return slices.Min(twice)
	}
	short := ""
	for b, n := range need {
		if b.left < n {
			why := fmt.Sprintf("the disruption budget %s/%s allows %d evictions now, for %d pods here and those on nodes before it", b.Namespace, b.Name, b.Allowed, n)
			if short == "" || strings.Compare(why, short) < 0 {
				short = why
			}
		}
	}
	if short != "" {
		return short
	}
	for b, n := range need {
		b.left -= n
	}
	return ""
}

// Keep implements fit.Rules.
func (p *plan) Keep(n *fit.Node) {
	at := p.byID[n.ID]
	if at == nil {
		return
	}
	for _, pod := range at.tasks {
		for _, b := range p.links[pod.rules()].budgets {
			b.left++
		}
	}
}
