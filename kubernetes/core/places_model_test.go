package core

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// model is a small cluster with the rules of kube-scheduler as its documentation has them: a second, slow form of them.
type model struct {
	nodes []*modelNode
	pods  []*modelPod
	apps  []*modelApp
}

type modelNode struct {
	name, zone, disk string
	cpu, slots       int64
	gpu, closed      bool // has the taint gpu; takes no pods
	drained          bool // has the taint of a drain
}

type modelApp struct {
	name, disk string
	cpu        int64
	gpu        bool // tolerates the taint gpu
	port       int32
	apart      []modelTerm
	spread     []modelSpread
	allowed    int // by its budget; -1: it has none
	affinity   bool
	rules      *Rules
}

type modelTerm struct{ topology, app string }

type modelSpread struct {
	topology  string
	skew, min int
	honor     bool
}

type modelPod struct {
	name string
	app  *modelApp
	node *modelNode // nil: it waits
}

func (n *modelNode) domain(topology string) string {
	if topology == HostnameLabel {
		return n.name
	}
	return n.zone
}

// selects reports whether an app may be on a node by its labels.
func (a *modelApp) selects(n *modelNode) bool { return a.disk == "" || a.disk == n.disk }

// takes reports whether kube-scheduler would put a pod on a node now.
func (m *model) takes(n *modelNode, p *modelPod) bool {
	a, cpu, pods := p.app, n.cpu, int64(0)
	if n.closed || n.drained || n.gpu && !a.gpu || !a.selects(n) {
		return false
	}
	for _, q := range m.pods {
		if q.node == n {
			if cpu, pods = cpu-q.app.cpu, pods+1; a.port != 0 && q.app.port == a.port {
				return false
			}
		}
		if q.node == nil {
			continue
		}
		for _, t := range a.apart {
			if d := n.domain(t.topology); t.app == q.app.name && d != "" && d == q.node.domain(t.topology) {
				return false
			}
		}
		for _, t := range q.app.apart {
			if d := n.domain(t.topology); t.app == a.name && d != "" && d == q.node.domain(t.topology) {
				return false
			}
		}
	}
	if cpu < a.cpu || pods >= n.slots {
		return false
	}
	for _, s := range a.spread {
		if !m.balanced(n, a, s) {
			return false
		}
	}
	return true
}

// balanced reports whether one more pod of an app on a node keeps a constraint.
func (m *model) balanced(n *modelNode, a *modelApp, s modelSpread) bool {
	counts := map[string]int{}
	for _, other := range m.nodes {
		eligible := a.selects(other) && !(s.honor && (other.drained || other.gpu && !a.gpu))
		for _, t := range a.spread {
			eligible = eligible && other.domain(t.topology) != ""
		}
		if !eligible {
			continue
		}
		counts[other.domain(s.topology)] += 0
		for _, q := range m.pods {
			counts[other.domain(s.topology)] += one(q.node == other && q.app == a)
		}
	}
	d, least := n.domain(s.topology), 0
	if d == "" {
		return false
	}
	if k := slices.Sorted(maps.Values(counts)); len(k) >= max(1, s.min) {
		least = k[0]
	}
	return counts[d]+1-least <= s.skew
}

// place reports whether all these pods get a node outside of avoid, one after the other in some order.
func (m *model) place(pods []*modelPod, avoid map[*modelNode]bool, steps *int) bool {
	if len(pods) == 0 {
		return true
	}
	if *steps--; *steps < 0 {
		return false
	}
	for i, p := range pods {
		if slices.ContainsFunc(pods[:i], func(q *modelPod) bool { return q.app == p.app }) {
			continue // the same as an earlier one
		}
		rest := slices.Delete(slices.Clone(pods), i, i+1)
		for _, n := range m.nodes {
			if avoid[n] || !m.takes(n, p) {
				continue
			}
			p.node = n
			if m.place(rest, avoid, steps) {
				return true
			}
			p.node = nil
		}
	}
	return false
}

func randomModel(r *rand.Rand) *model {
	m := &model{}
	for i := range 3 + r.IntN(4) {
		n := &modelNode{name: fmt.Sprint("n", i), zone: []string{"a", "b", "c"}[r.IntN(3)], disk: []string{"ssd", "hdd"}[r.IntN(4)/3], cpu: int64(2+r.IntN(4)) * 1000, slots: int64(3 + r.IntN(6)), gpu: r.IntN(8) == 0}
		if r.IntN(12) == 0 {
			n.zone = ""
		}
		m.nodes = append(m.nodes, n)
	}
	for i := range 1 + r.IntN(4) {
		a := &modelApp{name: fmt.Sprint("app", i), cpu: int64(1+r.IntN(8)) * 250, gpu: r.IntN(2) == 0, allowed: -1}
		if r.IntN(4) == 0 {
			a.disk = "ssd"
		}
		if r.IntN(5) == 0 {
			a.port = int32(8080 + r.IntN(2))
		}
		topology := func() string { return []string{HostnameLabel, zoneLabel}[r.IntN(2)] }
		if r.IntN(3) == 0 {
			a.apart = append(a.apart, modelTerm{topology(), fmt.Sprint("app", r.IntN(i+1))})
		}
		for range r.IntN(3) * r.IntN(2) {
			a.spread = append(a.spread, modelSpread{topology(), 1 + r.IntN(2), r.IntN(4), r.IntN(2) == 0})
		}
		if r.IntN(3) == 0 {
			a.allowed = r.IntN(4)
		}
		a.affinity = r.IntN(15) == 0
		m.apps = append(m.apps, a)
	}
	for i := range 2 + r.IntN(9) {
		p := &modelPod{name: fmt.Sprint("pod", i), app: m.apps[r.IntN(len(m.apps))]}
		for range 6 {
			if n := m.nodes[r.IntN(len(m.nodes))]; m.takes(n, p) {
				p.node = n
				break
			}
		}
		if p.node != nil || r.IntN(3) == 0 {
			m.pods = append(m.pods, p)
		}
	}
	for _, n := range m.nodes {
		n.closed = r.IntN(10) == 0
	}
	return m
}

// cluster returns the model as a Cluster.
func (m *model) cluster() *Cluster {
	c := New([]Pool{{Name: "p", Default: true}})
	for _, n := range m.nodes {
		c.PutNode(ready(n.name, func(x *Node) {
			x.Alloc, x.Slots = Vector{CPU: n.cpu, Mem: 64 * gib}, n.slots
			x.Labels["disk"], x.Labels[typeLabel] = n.disk, n.disk
			if n.zone != "" {
				x.Labels[zoneLabel] = n.zone
			}
			if n.gpu {
				x.Taints = append(x.Taints, Taint{Key: "gpu", Effect: "NoSchedule"})
			}
			x.Unschedulable = n.closed
		}))
	}
	for _, a := range m.apps {
		a.rules = a.rulesOf()
		if a.allowed >= 0 {
			c.PutBudget(Budget{UID: a.name, Namespace: "ns", Name: a.name, Allowed: a.allowed, Matches: labelled(a.name)})
		}
	}
	for _, p := range m.pods {
		c.PutPod(start, task(p.name, "", func(x *Pod) {
			x.Req, x.Rules, x.Owner = Vector{CPU: p.app.cpu}, p.app.rules, "ReplicaSet/"+p.app.name
			if p.node != nil {
				x.Node = p.node.name
			} else {
				x.Waits = true
			}
		}))
	}
	return c
}

func labelled(app string) func(map[string]string) bool {
	return func(labels map[string]string) bool { return labels["app"] == app }
}

func (a *modelApp) rulesOf() *Rules {
	r := &Rules{
		Namespace: "ns", Labels: map[string]string{"app": a.name},
		Tolerates: func(taints []Taint) string {
			if slices.ContainsFunc(taints, func(t Taint) bool { return t.Key != "gpu" || !a.gpu }) {
				return "it does not tolerate a taint"
			}
			return ""
		},
	}
	if a.disk != "" {
		r.Selects = func(_ string, labels map[string]string) string {
			if labels["disk"] != a.disk {
				return "it selects disk=" + a.disk
			}
			return ""
		}
	}
	if a.affinity {
		r.Unknown = "pod affinity"
	}
	if a.port > 0 {
		r.Ports = []Port{{"TCP", a.port}}
	}
	for _, t := range a.apart {
		r.Apart = append(r.Apart, Apart{Key: t.topology + t.app, Topology: t.topology, Matches: func(_ string, labels map[string]string) bool { return labels["app"] == t.app }})
	}
	for _, s := range a.spread {
		r.Spread = append(r.Spread, Spread{Topology: s.topology, MaxSkew: s.skew, MinDomains: s.min, Tolerated: s.honor, Matches: labelled(a.name)})
	}
	return r
}

// Any subset of the nodes that may leave can be emptied at the same time, within the budgets: a search over all assignments finds places for
// their pods, beside the pods that wait.
func TestAnySubsetCanBeEmptied(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	worlds, emptied, subsets, deep := 4000, 0, 0, 0
	for i := range worlds {
		m := randomModel(r)
		c := m.cluster()
		q := api.PlacesQuestion{Most: len(m.nodes), Kinds: []api.PlacesKind{{Group: "g", Resources: resource.Vector{4, 64 * 1024}, Weight: 1, Room: r.IntN(3)}}}
		gone := map[*modelNode]bool{}
		for _, n := range m.nodes {
			switch id := "i-" + n.name; r.IntN(6) {
			case 0:
				q.Aside = append(q.Aside, id)
				n.closed = true
			case 1:
				if gone[n] = r.IntN(2) == 0; gone[n] {
					q.Gone = append(q.Gone, id)
				}
			default:
				q.Leave = append(q.Leave, id)
			}
		}
		w, _ := c.Snapshot().Places(start, PlacesInput{Pool: "p", Question: q})
		a := fit.Solve(w)
		if err := a.Validate(q); err != nil {
			t.Fatalf("world %d: %v", i, err)
		}
		emptied += len(a.Leave)
		for range 4 {
			var chosen []*modelNode
			avoid := map[*modelNode]bool{}
			for _, n := range m.nodes {
				if slices.Contains(a.Leave, "i-"+n.name) {
					if avoid[n] = true; r.IntN(3) > 0 {
						chosen = append(chosen, n)
					}
				}
				avoid[n] = avoid[n] || gone[n]
			}
			waits := map[string]bool{} // pods of the pool, if all of them have a place on nodes
			for _, one := range w.Waiting {
				waits[one.Name] = a.Waiting == 0 && a.NeverCopies == 0
			}
			subsets++
			if why := m.emptied(chosen, avoid, gone, waits, &deep); why != "" {
				t.Fatalf("world %d: %s\nleave %v of %v, subset %v, gone %v\nnodes %s\npods %s", i, why, a.Leave, q.Leave, names(chosen), q.Gone, m.nodesText(), m.podsText())
			}
		}
	}
	t.Logf("%d worlds, %d nodes emptied, %d subsets, %d too deep to search", worlds, emptied, subsets, deep)
	if emptied < worlds/2 || deep > subsets/20 {
		t.Errorf("%d nodes can be emptied in %d worlds, %d of %d subsets not searched", emptied, worlds, deep, subsets)
	}
}

// emptied returns why these nodes cannot be emptied at once; empty: they can. It leaves the model as it was.
func (m *model) emptied(chosen []*modelNode, avoid, gone map[*modelNode]bool, waits map[string]bool, deep *int) string {
	at := map[*modelPod]*modelNode{}
	for _, p := range m.pods {
		at[p] = p.node
	}
	defer func() {
		for p, n := range at {
			p.node = n
		}
		for _, n := range m.nodes {
			n.drained = false
		}
	}()
	evicted := map[*modelApp]map[*modelNode]bool{}
	evict := func(p *modelPod) {
		if evicted[p.app] == nil {
			evicted[p.app] = map[*modelNode]bool{}
		}
		evicted[p.app][p.node] = true
	}
	var moving []*modelPod
	for _, p := range m.pods {
		switch {
		case p.node != nil && slices.Contains(chosen, p.node):
			if evict(p); p.app.affinity {
				return "a pod is not understood"
			}
		case p.node != nil && gone[p.node]:
			evict(p)
			if !waits["ns/"+p.name] {
				continue
			}
		case p.node == nil && waits["ns/"+p.name]:
		default:
			continue
		}
		p.node = nil
		moving = append(moving, p)
	}
	for _, n := range m.nodes {
		n.drained = slices.Contains(chosen, n) || gone[n]
	}
	for a, nodes := range evicted {
		if a.allowed >= 0 && len(nodes) > a.allowed && slices.ContainsFunc(chosen, func(n *modelNode) bool { return nodes[n] }) {
			return fmt.Sprintf("%d nodes have pods of %s, its budget allows %d evictions", len(nodes), a.name, a.allowed)
		}
	}
	steps := 20_000
	if !m.place(moving, avoid, &steps) {
		if steps < 0 {
			*deep++
			return ""
		}
		return fmt.Sprintf("%d pods have no places", len(moving))
	}
	return ""
}

func names(nodes []*modelNode) (all []string) {
	for _, n := range nodes {
		all = append(all, n.name)
	}
	return all
}

func (m *model) nodesText() (s string) {
	for _, n := range m.nodes {
		s += fmt.Sprintf("%+v ", *n)
	}
	return s
}

func (m *model) podsText() (s string) {
	for _, p := range m.pods {
		node := "-"
		if p.node != nil {
			node = p.node.name
		}
		a := *p.app
		a.rules = nil
		s += fmt.Sprintf("%s on %s: %+v\n", p.name, node, a)
	}
	return s
}
