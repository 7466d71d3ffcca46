package core

import (
	"maps"
	"slices"
	"time"
)

// Cluster is the state of one Kubernetes cluster. Make one with New.
type Cluster struct {
	pools   []Pool
	nodes   map[string]*nodeState // by name; also those that are only known from their pods
	ids     map[string][]string   // names of the nodes with an id of a provider
	pods    map[string]*Pod       // by uid
	waiting map[string]*waiting   // by uid
	dirty   map[string]struct{}   // names of nodes
	shapes  shapes
	budgets map[string]*Budget // by uid
	volumes map[string]*Volume // by uid
	claims  map[string]*Volume // by claim
}

// nodeState is a node with the sums of its pods.
type nodeState struct {
	*Node         // nil: the object is unknown, or gone
	pool     int  // index of its pool; -1: none
	also     int  // another pool that selects it; -1: none
	joined   bool // it was ready without startup taints, or had tasks
	pods     map[string]*Pod
	tasks    count
	overhead count // of DaemonSets and static pods
	batch    int
}

type count struct {
	sum Vector
	n   int
}

func (c *count) add(v Vector) { c.sum, c.n = c.sum.add(v), c.n+1 }
func (c *count) sub(v Vector) { c.sum, c.n = c.sum.sub(v), c.n-1 }

// New returns an empty cluster with these pools.
func New(pools []Pool) *Cluster {
	return &Cluster{
		pools: slices.Clone(pools), nodes: map[string]*nodeState{}, ids: map[string][]string{}, pods: map[string]*Pod{},
		waiting: map[string]*waiting{}, dirty: map[string]struct{}{}, shapes: newShapes(pools),
		budgets: map[string]*Budget{}, volumes: map[string]*Volume{}, claims: map[string]*Volume{},
	}
}

// PutNode adds or changes a node. A node of the same name with another uid replaces it.
func (c *Cluster) PutNode(n Node) {
	n.Alloc = n.Alloc.clamped()
	s := c.node(n.Name)
	if s.Node != nil && s.Node.equal(&n) {
		return
	}
	if s.Node != nil && s.UID != n.UID {
		s.joined = false
	}
	c.forgetID(s)
	s.Node = &n
	s.pool, s.also = c.poolOf(n.Labels)
	c.shapes.changed = true
	if n.ID != "" {
		c.ids[n.ID] = append(c.ids[n.ID], n.Name)
		slices.Sort(c.ids[n.ID])
	}
	c.changed(s)
}

// DeleteNode removes a node. If the node of that name has another uid, nothing changes.
func (c *Cluster) DeleteNode(name, uid string) {
	s := c.nodes[name]
	if s == nil || s.Node == nil || s.UID != uid {
		return
	}
	c.touch(s)
	c.forgetID(s)
	s.Node, s.joined, s.pool, s.also = nil, false, -1, -1
	c.shapes.changed = true
	c.drop(name, s)
}

// PutPod adds or changes a pod. now is when the change was received: a pod waits since it was first received so.
func (c *Cluster) PutPod(now time.Time, p Pod) {
	p.Req = p.Req.clamped()
	old := c.pods[p.UID]
	c.pods[p.UID] = &p
	c.putWaiting(now, &p)
	if old != nil && old.same(&p) {
		if p.Node != "" {
			c.nodes[p.Node].pods[p.UID] = &p
		}
		return
	}
	c.unbind(old)
	if p.Node == "" {
		return
	}
	s := c.node(p.Node)
	s.pods[p.UID] = &p
	if p.Kind == KindDaemon {
		s.overhead.add(p.Req)
	} else {
		s.tasks.add(p.Req)
		s.batch += one(p.Batch)
	}
	c.changed(s)
}

// DeletePod removes a pod: it has ended, or its object is gone.
func (c *Cluster) DeletePod(uid string) {
	old := c.pods[uid]
	delete(c.pods, uid)
	delete(c.waiting, uid)
	c.unbind(old)
}

// unbind removes a pod, which may be nil, from the sums of its node.
func (c *Cluster) unbind(p *Pod) {
	if p == nil || p.Node == "" {
		return
	}
	s := c.nodes[p.Node]
	delete(s.pods, p.UID)
	if p.Kind == KindDaemon {
		s.overhead.sub(p.Req)
	} else {
		s.tasks.sub(p.Req)
		s.batch -= one(p.Batch)
	}
	c.changed(s)
	c.drop(p.Node, s)
}

// KeepNodes removes all nodes but those with these uids.
func (c *Cluster) KeepNodes(uids map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		if s := c.nodes[name]; s.Node != nil && !uids[s.UID] {
			c.DeleteNode(name, s.UID)
		}
	}
}

// KeepPods removes all pods but those with these uids.
func (c *Cluster) KeepPods(uids map[string]bool) {
	for uid := range c.pods {
		if !uids[uid] {
			c.DeletePod(uid)
		}
	}
}

// Dirty returns the names of the nodes that changed since the last call, in order.
func (c *Cluster) Dirty() []string {
	names := slices.Sorted(maps.Keys(c.dirty))
	clear(c.dirty)
	return names
}

// Touch marks a node: Dirty returns it.
func (c *Cluster) Touch(name string) {
	if s := c.nodes[name]; s != nil {
		c.touch(s)
	}
}

// Nodes returns the names of all nodes of pools, in order.
func (c *Cluster) Nodes() (names []string) {
	for name, s := range c.nodes {
		if s.Node != nil && s.pool >= 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// NodesOf returns the number of nodes of a pool.
func (c *Cluster) NodesOf(pool string) (n int) {
	for _, s := range c.nodes {
		n += one(s.Node != nil && s.pool >= 0 && c.pools[s.pool].Name == pool)
	}
	return n
}

// Size returns the number of nodes and of pods.
func (c *Cluster) Size() (nodes, pods int) {
	for _, s := range c.nodes {
		nodes += one(s.Node != nil)
	}
	return nodes, len(c.pods)
}

// node returns the state of a name, and makes it if it is new.
func (c *Cluster) node(name string) *nodeState {
	s := c.nodes[name]
	if s == nil {
		s = &nodeState{pool: -1, also: -1, pods: map[string]*Pod{}}
		c.nodes[name] = s
	}
	return s
}

// drop removes the state of a node without an object and without pods.
func (c *Cluster) drop(name string, s *nodeState) {
	if s.Node == nil && len(s.pods) == 0 {
		delete(c.nodes, name)
	}
}

// changed marks a node whose facts may have changed, and records whether it has joined.
func (c *Cluster) changed(s *nodeState) {
	if s.Node == nil || s.pool < 0 {
		c.touch(s)
		return
	}
	started := s.Ready == ReadyTrue && c.pools[s.pool].startupTaint(s.Taints) == ""
	s.joined = s.joined || started || s.tasks.n > 0
	c.shapes.changed = true
	c.touch(s)
}

// touch marks a node, and those with the same id.
func (c *Cluster) touch(s *nodeState) {
	if s.Node == nil {
		return
	}
	c.dirty[s.Name] = struct{}{}
	for _, name := range c.ids[s.ID] {
		c.dirty[name] = struct{}{}
	}
}

// forgetID removes the node from the list of its id.
func (c *Cluster) forgetID(s *nodeState) {
	if s.Node == nil || s.ID == "" {
		return
	}
	c.touch(s)
	rest := slices.DeleteFunc(c.ids[s.ID], func(name string) bool { return name == s.Name })
	if c.ids[s.ID] = rest; len(rest) == 0 {
		delete(c.ids, s.ID)
	}
}

// poolOf returns the first pool that selects these labels, and a second one; -1: none.
func (c *Cluster) poolOf(labels map[string]string) (first, second int) {
	first, second = -1, -1
	for i := range c.pools {
		switch {
		case !c.pools[i].has(labels):
		case first < 0:
			first = i
		case second < 0:
			second = i
		}
	}
	return first, second
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
