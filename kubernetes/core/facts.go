package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// maxTasks bounds the tasks of one node. Sums of so many cannot overflow.
const maxTasks = 1 << 13

// Facts are what a node publishes, in the units of the adapter.
type Facts struct {
	Pool, ID, Group, BootID, Zone string
	Resources                     Vector // allocatable without Overhead
	Allocated                     Vector // of tasks
	Overhead                      Vector // of DaemonSets and static pods
	Slots, UsedSlots              int64  // pods that the node allows, and has
	Tasks, Batch                  int
	Draining                      bool // Weirkeeper has cordoned it
	CordonedByOther               bool // it is unschedulable, and Weirkeeper has not cordoned it
	SafeToEvict                   bool
	Priority                      float64 // the maximum over its tasks of 2 x cpus + mem / 1000 MB
	Conditions                    []api.NodeCondition
}

// Facts returns the facts of a node. Without ok the node publishes nothing: it has not joined, its kubelet does not report, or it
// is no machine of a pool. Problems has the reasons.
func (c *Cluster) Facts(name string, now time.Time) (f Facts, ok bool) {
	s := c.nodes[name]
	if s == nil || s.Node == nil || s.pool < 0 || s.ID == "" || s.Ready == ReadyUnknown || !s.joined {
		return Facts{}, false
	}
	twins, speaks := c.twins(s)
	if !speaks {
		return Facts{}, false
	}
	f = Facts{
		Pool: c.pools[s.pool].Name, ID: s.ID, Group: s.Labels[groupLabel], BootID: s.BootID, Zone: s.Labels[zoneLabel],
		Overhead: s.overhead.sum, Slots: s.Slots, UsedSlots: int64(len(s.pods)), Tasks: s.tasks.n, Batch: s.batch,
		Draining: s.Draining(), Allocated: s.tasks.sum, Conditions: c.conditions(s, twins),
	}
	f.CordonedByOther = s.Unschedulable && !f.Draining
	f.Resources = s.Alloc.sub(s.overhead.sum).clamped()
	f.Priority, f.SafeToEvict = tasksOf(s, now)
	for _, twin := range twins {
		f.Tasks, f.Batch, f.Allocated = f.Tasks+twin.tasks.n, f.Batch+twin.batch, f.Allocated.add(twin.tasks.sum)
	}
	f.SafeToEvict = f.SafeToEvict && !s.Protected && !f.CordonedByOther && len(twins) == 0 && s.also < 0
	if len(s.pods) > maxTasks || f.Tasks > maxTasks {
		f.Resources, f.Overhead = s.Alloc, Vector{}
		f.Tasks, f.Batch, f.Allocated, f.SafeToEvict = min(f.Tasks, maxTasks), 0, f.Resources, false
	}
	return f, true
}

// twins returns the other Node objects with the id of s that may be the same machine. speaks: s is the one that publishes.
// Of objects of which only one is Ready, the others are left over from an earlier name.
func (c *Cluster) twins(s *nodeState) (twins []*nodeState, speaks bool) {
	var ready []*nodeState
	for _, name := range c.ids[s.ID] {
		other := c.nodes[name]
		if other.Ready == ReadyTrue {
			ready = append(ready, other)
		}
		if other != s {
			twins = append(twins, other)
		}
	}
	switch {
	case len(twins) == 0:
		return nil, true
	case len(ready) == 1:
		return nil, ready[0] == s
	case len(ready) > 1 && s.Ready != ReadyTrue:
		return nil, false
	}
	first := slices.MinFunc(append(slices.Clone(twins), s), func(a, b *nodeState) int {
		return cmp.Or(-cmp.Compare(a.Ready, b.Ready), strings.Compare(a.Name, b.Name))
	})
	return twins, first == s
}

// tasksOf returns the priority of a node, and whether all of its tasks may be evicted.
func tasksOf(s *nodeState, now time.Time) (priority float64, safe bool) {
	safe = true
	for _, p := range s.pods {
		if p.Kind == KindTask {
			r := p.Req.Resources()
			priority, safe = max(priority, 2*r[0]+r[1]/1000), safe && !p.isProtected(now)
		}
	}
	return priority, safe
}

// conditions returns the conditions of a node, those of the adapter first.
func (c *Cluster) conditions(s *nodeState, twins []*nodeState) (all []api.NodeCondition) {
	if len(twins) > 0 {
		all = append(all, api.NodeCondition{Type: "DuplicateProviderID", Unknown: true, Why: duplicate(s, twins)})
	}
	all = append(all, api.NodeCondition{Type: "Ready", Failed: s.Ready == ReadyFalse, Why: s.ReadyWhy})
	if key := c.pools[s.pool].startupTaint(s.Taints); key != "" {
		all = append(all, api.NodeCondition{Type: "StartupTaint", Failed: true, Why: "the node has the taint " + key})
	}
	return append(all, s.Conditions...)
}

func duplicate(s *nodeState, twins []*nodeState) string {
	names := []string{s.Name}
	for _, t := range twins {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return fmt.Sprintf("the Node objects %s have the same providerID: delete those that are left over", strings.Join(names[:min(len(names), 8)], ", "))
}

// Task is a pod of a node that a drain evicts.
type Task struct {
	UID, Namespace, Name string
	Deleting             bool
	Grace                int32 // seconds that it has to end
	Ends                 int64 // when the provider takes the machine of its node in any case, in Unix seconds; 0: unknown
}

// Draining returns the names of the nodes that Weirkeeper has cordoned, in order, of the pools that of selects. nil: all pools.
func (c *Cluster) Draining(of func(pool string) bool) (names []string) {
	for name, s := range c.nodes {
		if s.Node != nil && s.pool >= 0 && s.Node.Draining() && (of == nil || of(c.pools[s.pool].Name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Tasks returns the tasks of a node, in order of namespace and name.
func (c *Cluster) Tasks(node string) (tasks []Task) {
	s := c.nodes[node]
	if s == nil {
		return nil
	}
	for _, p := range s.pods {
		if p.Kind == KindTask {
			task := Task{UID: p.UID, Namespace: p.Namespace, Name: p.Name, Deleting: p.Deleting, Grace: p.Grace}
			if s.Node != nil {
				task.Ends = s.Ends
			}
			tasks = append(tasks, task)
		}
	}
	slices.SortFunc(tasks, func(a, b Task) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
	})
	return tasks
}

// Find returns the node with this id of a provider in a pool. If several have it, it returns the one that publishes.
func (c *Cluster) Find(pool, id string) (name, uid string, ok bool) {
	for _, n := range c.ids[id] {
		s := c.nodes[n]
		if s.pool < 0 || c.pools[s.pool].Name != pool {
			continue
		}
		if _, speaks := c.twins(s); speaks {
			return s.Name, s.UID, true
		}
	}
	return "", "", false
}

// Problem is why a node of a pool does not publish, or not all of its facts.
type Problem struct {
	Node, Pool, Why string
	Passes          bool // it ends by itself: the node starts, or its kubelet does not report
}

// Problems returns the problems of all nodes of pools, in order of the names.
func (c *Cluster) Problems() (all []Problem) {
	for _, name := range c.Nodes() {
		s := c.nodes[name]
		if why, passes := c.problem(s); why != "" {
			all = append(all, Problem{name, c.pools[s.pool].Name, why, passes})
		}
	}
	return all
}

func (c *Cluster) problem(s *nodeState) (why string, passes bool) {
	twins, speaks := c.twins(s)
	switch {
	case s.ID == "" && s.ProviderID == "":
		why = "it has no providerID: the cloud controller has not initialized it, or the kubelet needs --provider-id"
	case s.ID == "":
		why = fmt.Sprintf("its providerID %.200q does not end with the id of a machine", s.ProviderID)
	case len(twins) > 0:
		why = duplicate(s, twins)
	case !speaks:
		why = "another Node object with the same providerID is Ready: delete this one"
	case s.also >= 0:
		why = fmt.Sprintf("the selectors of the pools %s and %s select it: change one", c.pools[s.pool].Name, c.pools[s.also].Name)
	case s.Ready == ReadyUnknown && s.joined:
		return "its kubelet does not report", true
	case !s.joined:
		return cmp.Or(c.starting(s), "it is not Ready yet"), true
	case s.Cut:
		why = "its labels exceed their bound: some are ignored"
	case len(s.pods) > maxTasks:
		why = fmt.Sprintf("it has %d pods: want at most %d", len(s.pods), maxTasks)
	}
	return why, false
}

// starting returns which startup taint a node has.
func (c *Cluster) starting(s *nodeState) string {
	if key := c.pools[s.pool].startupTaint(s.Taints); key != "" {
		return "it has the startup taint " + key
	}
	return ""
}
