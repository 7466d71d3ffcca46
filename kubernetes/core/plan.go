package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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

// budget is a Budget with the evictions that are left. Each node that leaves takes one, whatever its pods: the others follow when
// the budget allows the next.
type budget struct {
	*Budget
	left int
}

// short returns why no eviction of the budget is left.
func (b *budget) short() string {
	if b.Allowed <= 0 {
		return fmt.Sprintf("the disruption budget %s/%s allows no eviction now", b.Namespace, b.Name)
	}
	return fmt.Sprintf("the disruption budget %s/%s allows %d evictions now, which other nodes that leave need", b.Namespace, b.Name, b.Allowed)
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
	for _, s := range p.cluster.nodes {
		for _, pod := range s.pods {
			all[pod.rules()] = true
		}
	}
	for _, one := range p.cluster.waiting {
		all[one.rules()] = true
	}
	p.link(all)
	for _, at := range p.byID {
		for b := range p.budgetsOf(at) {
			b.left -= one(at.leaves)
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
func (p *plan) Never(n *fit.Node, c *fit.Copy) (why string) {
	at := p.places[n]
	r, is := c.Rule.(*requirements)
	if !is {
		return ""
	}
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

// Empty implements fit.Rules: each budget of the pods allows an eviction, beside those of other nodes.
func (p *plan) Empty(n *fit.Node) string {
	at := p.byID[n.ID]
	if at == nil {
		return ""
	}
	why := ""
	first := func(one string) {
		if why == "" || one < why {
			why = one
		}
	}
	for _, pod := range at.tasks {
		if all := p.links[pod.rules()].budgets; len(all) > 1 {
			first(fmt.Sprintf("%s has %d disruption budgets, so its eviction is refused", pod.Key(), len(all)))
		}
	}
	if why != "" {
		return why
	}
	budgets := p.budgetsOf(at)
	for b := range budgets {
		if b.left < 1 {
			first(b.short())
		}
	}
	if why != "" {
		return why
	}
	for b := range budgets {
		b.left--
	}
	return ""
}

// budgetsOf returns the budgets of the pods at a place.
func (p *plan) budgetsOf(at *place) map[*budget]bool {
	all := map[*budget]bool{}
	for _, pod := range at.tasks {
		for _, b := range p.links[pod.rules()].budgets {
			all[b] = true
		}
	}
	return all
}

// Keep implements fit.Rules.
func (p *plan) Keep(n *fit.Node) {
	at := p.byID[n.ID]
	if at == nil {
		return
	}
	for b := range p.budgetsOf(at) {
		b.left++
	}
}
