package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// listenFor is how long a loop that has just begun takes a node that it has not
// heard for silent. What runs there may have been told to the loop before it.
const listenFor = 30 * time.Second

// Snapshot is the pool at the start of a tick: one read of each group, joined
// with what the nodes say.
type Snapshot struct {
	Groups []pools.GroupSnapshot `json:"groups"`
	Nodes  []pools.Node          `json:"nodes"`
	// Silent nodes had joined, or may have, and are still there, but nobody
	// knows what they run. While there are any, usage is unknown.
	Silent    []string        `json:"silent,omitempty"`
	Totals    resource.Vector `json:"totals"`
	Allocated resource.Vector `json:"allocated"`
	Target    float64         `json:"target"`    // of groups that are not stale
	Fulfilled float64         `json:"fulfilled"` // weight of what exists
	Joined    float64         `json:"joined"`    // of that, whose node has joined
}

// snapshot reads all groups at the same time. One that cannot be read makes the
// pool unknown.
func (l *Loop) snapshot(ctx context.Context, now time.Time) (Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	groups := make([]pools.GroupSnapshot, len(l.world.Groups))
	eg, ctx := errgroup.WithContext(ctx)
	for i, g := range l.world.Groups {
		eg.Go(func() error {
			s, err := g.Snapshot(ctx)
			if err == nil {
				err = check(g.ID(), s)
			}
			if err != nil {
				return fmt.Errorf("read group %s: %w", g.ID(), err)
			}
			groups[i] = s
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return Snapshot{}, err
	}
	if l.began.IsZero() {
		l.began = now
	}
	listening := now.Sub(l.began) < listenFor
	if l.amnesia {
		for _, g := range groups {
			for _, i := range g.Instances {
				l.joined[i.ID] = true
			}
		}
		l.amnesia = false
	}
	s := joinNodes(groups, l.world.Scheduler.Facts(now), func(id string) bool { return listening || l.joined[id] })
	l.remember(s)
	return s, nil
}

// maxWeight bounds the weight of an instance, so that no sum overflows.
const maxWeight = 1 << 40

// check returns an error for an answer that cannot be of this group.
func check(group string, s pools.GroupSnapshot) error {
	if s.ID != group {
		return fmt.Errorf("the answer is of group %q", s.ID)
	}
	for _, i := range s.Instances {
		switch {
		case i.ID == "":
			return fmt.Errorf("an instance has no id")
		case i.Group != group:
			return fmt.Errorf("instance %s is of group %q", i.ID, i.Group)
		case !(i.Weight >= 0 && i.Weight <= maxWeight):
			return fmt.Errorf("instance %s has the weight %v: want 0 to %d", i.ID, i.Weight, maxWeight)
		}
	}
	return nil
}

// joinNodes makes one view of instances and facts. expected reports whether the
// node of an instance should be heard.
func joinNodes(groups []pools.GroupSnapshot, facts []pools.NodeFacts, expected func(id string) bool) Snapshot {
	byID := make(map[string]pools.NodeFacts, len(facts))
	for _, f := range facts {
		byID[f.ID] = f
	}
	s := Snapshot{Groups: groups}
	for _, g := range groups {
		if !g.Stale {
			s.Target += float64(g.Target)
		}
		s.Fulfilled += g.Fulfilled()
		for _, instance := range g.Instances {
			s.add(instance, byID, expected)
		}
	}
	slices.Sort(s.Silent)
	return s
}

func (s *Snapshot) add(instance pools.Instance, facts map[string]pools.NodeFacts, expected func(id string) bool) {
	node := pools.Node{Instance: instance}
	f, heard := facts[instance.ID]
	totals, allocated := s.Totals.Add(f.Resources), s.Allocated.Add(f.Allocated)
	makesSense := totals.Validate() == nil && allocated.Validate() == nil
	switch {
	case instance.State == pools.InstancePending || instance.State == pools.InstanceTerminating:
		node.State = pools.NodeUnknown
	case heard && makesSense && instance.State == pools.InstanceRunning:
		node.Facts = f
		node.State = pools.NodeRunning
		if f.Tasks == 0 {
			node.State = pools.NodeIdle
		}
		s.Joined += instance.Weight
		s.Totals, s.Allocated = totals, allocated
	case heard || expected(instance.ID):
		node.State = pools.NodeUnknown
		s.Silent = append(s.Silent, instance.ID)
	default:
		node.State = pools.NodeOrphaned
	}
	s.Nodes = append(s.Nodes, node)
}

// has reports whether the pool has an instance that is not on its way out.
func (s Snapshot) has(instance string) bool {
	return slices.ContainsFunc(s.Nodes, func(n pools.Node) bool {
		return n.Instance.ID == instance && n.Instance.State != pools.InstanceTerminating
	})
}

// remember keeps which instances have joined, and forgets those that are gone.
func (l *Loop) remember(s Snapshot) {
	joined := make(map[string]bool, len(s.Nodes))
	for _, n := range s.Nodes {
		id := n.Instance.ID
		if l.joined[id] || n.State == pools.NodeIdle || n.State == pools.NodeRunning {
			joined[id] = true
		}
	}
	l.joined = joined
}

// capacity is the snapshot as a decision sees it, less what is on its way out.
func (s Snapshot) capacity(committed map[string]float64) decide.Capacity {
	c := decide.Capacity{Joined: s.Joined, Totals: s.Totals}
	for _, g := range s.groupTargets(committed) {
		if !g.Stale {
			c.Target += float64(g.Target)
		}
	}
	return c
}

// groupTargets are the groups as a distribution sees them, less what is on its
// way out: a group cannot hold more than its maximum together with that.
func (s Snapshot) groupTargets(committed map[string]float64) []plan.GroupTarget {
	groups := make([]plan.GroupTarget, len(s.Groups))
	for i, g := range s.Groups {
		leaving := int(committed[g.ID])
		groups[i] = plan.GroupTarget{
			ID: g.ID, Target: max(0, g.Target-leaving), Min: g.Min, Max: g.Max, Stale: g.Stale,
		}
		if g.Max != pools.Unlimited {
			groups[i].Max = max(0, g.Max-leaving)
		}
	}
	return groups
}
