package autoscaler

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
)

// listenFor is how long a loop that has just begun takes a node that it has not
// heard for silent. What runs there may have been told to the loop before it.
const listenFor = 30 * time.Second

// view is the pool at one moment: one read of each group, joined with what the
// nodes say. Nobody changes it.
type view struct {
	now    time.Time
	asker  groups // to whom the groups answer
	groups []pools.GroupSnapshot
	nodes  []pools.Node
	// silent nodes had joined, or may have, and are still there, but nobody knows what
	// they run. While there are any, usage is unknown.
	silent    []string
	totals    resource.Vector
	allocated resource.Vector
	target    float64 // of groups that are not stale
	fulfilled float64 // weight of what exists
	joined    float64 // of that, whose node has joined
	// known are the instances whose node has joined; lost is how many of them have
	// gone without our doing since the tick before.
	known map[string]bool
	lost  int
	found resolve.Found // what is not of our doing in the groups' targets
	// condition is what the node-health policy said.
	condition Condition
}

// observe reads all groups at the same time. One that cannot be read makes the pool
// unknown. It changes nothing of l.
func (l *Loop) observe(ctx context.Context, now time.Time) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	asker, err := l.world.Provider.Groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the groups of the pool: %w", err)
	}
	v := &view{now: now, asker: asker, groups: make([]pools.GroupSnapshot, len(asker))}
	eg, ctx := errgroup.WithContext(ctx)
	for i, g := range asker {
		eg.Go(func() error {
			s, err := g.Snapshot(ctx)
			if err == nil {
				err = check(g.ID(), s)
			}
			if err != nil {
				return fmt.Errorf("read group %s: %w", g.ID(), err)
			}
			v.groups[i] = s
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	if l.world.Health != nil {
		v.condition = l.world.Health.Condition()
	}
	listening := l.listening(now)
	known := l.joined
	if l.amnesia {
		known = v.up()
	}
	v.join(l.world.Scheduler.Facts(now), func(id string) bool { return listening || known[id] })
	v.learn(known, excused(l.drains.Records()))
	v.lost += l.gone
	return v, nil
}

// listening reports whether the loop has not run for long enough to have heard
// everybody.
func (l *Loop) listening(now time.Time) bool {
	return l.began.IsZero() || now.Sub(l.began) < listenFor
}

// up returns all instances that may have joined.
func (v *view) up() map[string]bool {
	ids := map[string]bool{}
	for _, g := range v.groups {
		for _, i := range g.Instances {
			if i.State != pools.InstancePending {
				ids[i.ID] = true
			}
		}
	}
	return ids
}

// maxWeight bounds the weight of an instance, so that no sum overflows.
const maxWeight = 1 << 40

// check returns an error for an answer that cannot be of this group.
func check(group string, s pools.GroupSnapshot) error {
	if s.ID != group {
		return fmt.Errorf("the answer is of group %q", s.ID)
	}
	if s.Target < 0 || s.Target > maxWeight {
		return fmt.Errorf("the target is %d: want 0 to %d", s.Target, maxWeight)
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

// join adds the instances of all groups, with what their nodes say. expected reports
// whether the node of an instance should be heard.
func (v *view) join(facts []pools.NodeFacts, expected func(id string) bool) {
	byID := make(map[string]*pools.NodeFacts, len(facts))
	for i := range facts {
		byID[facts[i].ID] = &facts[i]
	}
	for _, g := range v.groups {
		if !g.Stale {
			v.target += float64(g.Target)
		}
		v.fulfilled += g.Fulfilled()
		v.nodes = slices.Grow(v.nodes, len(g.Instances))
		for _, instance := range g.Instances {
			v.add(instance, byID[instance.ID], expected)
		}
	}
	slices.Sort(v.silent)
}

// heard returns the same groups, joined with what the nodes say now.
func (v *view) heard(facts []pools.NodeFacts, expected func(id string) bool) *view {
	now := &view{now: v.now, asker: v.asker, groups: v.groups, known: v.known, condition: v.condition}
	now.join(facts, expected)
	return now
}

// add adds one instance; its node is heard if there are facts.
func (v *view) add(instance pools.Instance, facts *pools.NodeFacts, expected func(id string) bool) {
	node := pools.Node{Instance: instance, Cordoned: instance.Cordoned, State: pools.NodeUnknown}
	_, node.Unhealthy = v.condition.Sick[instance.ID]
	switch {
	case instance.State == pools.InstancePending || instance.State == pools.InstanceTerminating:
	case facts != nil && instance.State == pools.InstanceRunning && v.count(*facts):
		node.Facts, node.State = *facts, pools.NodeRunning
		if p := facts.Priority; !math.IsNaN(p) && !math.IsInf(p, 0) {
			node.Priority = p
		}
		if facts.Tasks == 0 {
			node.State = pools.NodeIdle
		}
		v.joined += instance.Weight
	case facts != nil || expected(instance.ID):
		v.silent = append(v.silent, instance.ID)
	default:
		node.State = pools.NodeOrphaned
	}
	v.nodes = append(v.nodes, node)
}

// count adds up what the nodes offer and use; false if the sum makes no sense with
// this one.
func (v *view) count(f pools.NodeFacts) bool {
	totals, allocated := v.totals.Add(f.Resources), v.allocated.Add(f.Allocated)
	if totals.Validate() != nil || allocated.Validate() != nil {
		return false
	}
	v.totals, v.allocated = totals, allocated
	return true
}

// learn settles which instances have joined, and counts those that had and are gone
// though nobody whom we know of had a reason.
func (v *view) learn(before, excused map[string]bool) {
	v.known = make(map[string]bool, len(v.nodes))
	for _, n := range v.nodes {
		id := n.Instance.ID
		if n.Instance.State != pools.InstanceTerminating && (before[id] || n.State == pools.NodeIdle || n.State == pools.NodeRunning) {
			v.known[id] = true
		}
	}
	for id := range before {
		if !v.known[id] && !excused[id] {
			v.lost++
		}
	}
}

// excused returns the nodes whose end is no loss: those that we let go.
func excused(records []drain.Record) map[string]bool {
	nodes := map[string]bool{}
	for _, r := range records {
		if !stays(r) && !r.Taken {
			nodes[r.Node] = true
		}
	}
	return nodes
}

// stays reports whether the node of a record is not on its way out. What makes no
// sense does not stay.
func stays(r drain.Record) bool { return inService(r) || mending(r) }

func inService(r drain.Record) bool {
	return r.State == drain.Returning || r.State == drain.Returned
}

// mending reports whether the node of a record is repaired in place, or to be.
func mending(r drain.Record) bool {
	return r.Mend != "" && !inService(r) && r.Validate() == nil
}

func joinedWeight(n pools.Node) float64 {
	if n.State == pools.NodeIdle || n.State == pools.NodeRunning {
		return n.Instance.Weight
	}
	return 0
}

// groups returns the groups as the account of the pool has them, with these targets.
func (l *Loop) groups(v *view, target func(pools.GroupSnapshot) int) []resolve.Group {
	there := make(map[string]bool, len(v.nodes))
	for _, n := range v.nodes {
		if n.Instance.State != pools.InstanceTerminating {
			there[n.Instance.ID] = true
		}
	}
	leaving := map[string][]resolve.Leaver{}
	for _, r := range l.drains.Records() {
		if r.Committed() && r.Validate() == nil && there[r.Node] {
			leaving[r.Group] = append(leaving[r.Group], resolve.Leaver{ID: r.Node, Group: r.Group, Weight: r.Weight})
		}
	}
	out := make([]resolve.Group, len(v.groups))
	for i, g := range v.groups {
		out[i] = resolve.Group{ID: g.ID, Target: target(g), Min: g.Min, Max: g.Max, Stale: g.Stale, Fulfilled: g.Fulfilled(), Leaving: leaving[g.ID]}
	}
	return out
}

// found is the target that a group was found with.
func found(g pools.GroupSnapshot) int { return g.Target }

// account returns the account of the pool as it was changed since it was read.
func (l *Loop) account(v *view) resolve.Account {
	return l.state.Account(l.groups(v, func(g pools.GroupSnapshot) int { return l.tally.target(g.ID) }))
}

// shares returns the sum of the groups' shares when that surge is left. A target whose
// request has an unknown end counts as given.
func (l *Loop) shares(v *view, surge map[string]int) int {
	s := resolve.State{Groups: map[string]resolve.GroupState{}}
	for group, n := range surge {
		s.Groups[group] = resolve.GroupState{Surge: n}
	}
	return s.Account(l.groups(v, func(g pools.GroupSnapshot) int { return l.tally.likely(g.ID) })).Shares()
}

// mendingNodes returns the nodes that are repaired in place, or are to be.
func mendingNodes(records []drain.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if mending(r) {
			out[r.Node] = true
		}
	}
	return out
}

// leavingNodes returns the nodes that are on their way out.
func leavingNodes(records []drain.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if !stays(r) {
			out[r.Node] = true
		}
	}
	return out
}
