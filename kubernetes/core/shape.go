package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
)

// maxShapes bounds the shapes of a pool.
const maxShapes = 256

// Shape is a kind of machine of a pool, as a pod finds it.
type Shape struct {
	Where  string // for people: "node ip-10-0-0-1"
	Labels map[string]string
	Taints []Taint
	Room   Vector // for tasks, on an empty machine
	Sized  bool   // Room is known
}

// shapes are those of each pool, learned from its nodes, or its templates if it has no nodes.
type shapes struct {
	changed bool
	version int // it changes when a shape changes
	of      [][]Shape
}

func newShapes(pools []Pool) shapes {
	return shapes{changed: true, of: make([][]Shape, len(pools))}
}

// learn returns the shapes of each pool. It learns them again after a change of a node.
func (c *Cluster) learn() [][]Shape {
	if !c.shapes.changed {
		return c.shapes.of
	}
	c.shapes.changed = false
	nodes := make([][]*nodeState, len(c.pools))
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		if s := c.nodes[name]; s.Node != nil && s.pool >= 0 {
			nodes[s.pool] = append(nodes[s.pool], s)
		}
	}
	for i := range c.pools {
		learned := learned(&c.pools[i], nodes[i])
		if len(learned) == 0 {
			learned = templates(&c.pools[i])
		}
		if !slices.EqualFunc(learned, c.shapes.of[i], Shape.equal) {
			c.shapes.of[i] = learned
			c.shapes.version++
		}
	}
	return c.shapes.of
}

func (s Shape) equal(o Shape) bool {
	return s.Where == o.Where && s.Room == o.Room && s.Sized == o.Sized && maps.Equal(s.Labels, o.Labels) && slices.Equal(s.Taints, o.Taints)
}

// templates returns the shapes of a pool without nodes. Each has the labels that select the pool.
func templates(p *Pool) []Shape {
	all := slices.Clone(p.Templates)
	if len(all) == 0 {
		all = []Shape{{Where: "pool " + p.Name}}
	}
	for i := range all {
		labels := maps.Clone(p.selector())
		maps.Copy(labels, all[i].Labels)
		all[i].Labels, all[i].Where = labels, cmp.Or(all[i].Where, fmt.Sprintf("template %d of pool %s", i+1, p.Name))
	}
	return all
}

// learned returns the shapes of the nodes of a pool, which are in order of their names. Nodes with the same group, zone, type, taints and
// allocatable amounts have one shape, with the labels that all of them have.
func learned(p *Pool, nodes []*nodeState) []Shape {
	overhead := medianOverhead(nodes)
	var all []Shape
	index := map[string]int{}
	for _, s := range nodes {
		taints := lasting(p, s.Taints)
		key := fmt.Sprintf("%q %q %q %q %v", s.Labels[groupLabel], s.Labels[zoneLabel], s.Labels[typeLabel], taints, s.Alloc)
		i, known := index[key]
		switch {
		case known:
			maps.DeleteFunc(all[i].Labels, func(key, value string) bool { v, ok := s.Labels[key]; return !ok || v != value })
		case len(all) < maxShapes:
			index[key] = len(all)
			labels := maps.Clone(s.Labels)
			delete(labels, HostnameLabel) // a new machine has another one
			all = append(all, Shape{Where: "node " + s.Name, Labels: labels, Taints: taints, Room: s.Alloc.sub(overhead).clamped(), Sized: true})
		}
	}
	return all
}

// lasting returns the taints that a new machine keeps: not those of its start, of Weirkeeper, and of the node's health.
func lasting(p *Pool, taints []Taint) (all []Taint) {
	for _, t := range taints {
		if t.Key != DrainTaint && !strings.HasPrefix(t.Key, "node.kubernetes.io/") && p.startupTaint([]Taint{t}) == "" {
			all = append(all, t)
		}
	}
	return all
}

// medianOverhead returns the median of what DaemonSets and static pods take on a node. A new node has them only seconds after
// its start.
func medianOverhead(nodes []*nodeState) Vector {
	median := func(of func(Vector) int64) int64 {
		all := make([]int64, 0, len(nodes))
		for _, s := range nodes {
			all = append(all, of(s.overhead.sum))
		}
		slices.Sort(all)
		if len(all) == 0 {
			return 0
		}
		return all[len(all)/2]
	}
	return Vector{
		CPU: median(func(v Vector) int64 { return v.CPU }), Mem: median(func(v Vector) int64 { return v.Mem }),
		Disk: median(func(v Vector) int64 { return v.Disk }), GPU: median(func(v Vector) int64 { return v.GPU }),
	}
}

// sizes returns the sizes of shapes, each once. nil: one is unknown.
func sizes(all []Shape) (list []api.MachineSize) {
	seen := map[Vector]bool{}
	for _, s := range all {
		if !s.Sized {
			return nil
		}
		if !seen[s.Room] {
			seen[s.Room] = true
			list = append(list, api.MachineSize{Where: s.Where, Resources: s.Room.Resources()})
		}
	}
	return list
}
