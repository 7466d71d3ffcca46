package snapshot

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Snapshot is the pool at one moment: one read of each group, joined with the reports of the nodes.
// It does not change, and any goroutine may use it.
type Snapshot struct {
	At     time.Time
	Groups []pools.GroupSnapshot
	Nodes  []pools.Node
	// Silent are the existing nodes that have joined, or may have, and do not report, sorted. While
	// there are any, usage is unknown.
	Silent []string
	// Beyond are the nodes that report more than their machine has, in order of id. They count with what the machine has.
	Beyond    []Beyond
	Totals    resource.Vector
	Allocated resource.Vector
	Target    float64 // of groups that are not stale
	Fulfilled float64 // existing weight
	Joined    float64 // weight whose node has joined and is not quarantined
	// Arrived are the instances whose node has joined since the snapshot before.
	Arrived map[string]bool
	Lost    int // joined nodes that disappeared without a release
	// Interrupted are those of Lost that were spot machines, by market. Spot are the spot machines that have joined, by market.
	Interrupted map[string]int
	Spot        map[string]int
	Condition   Condition
	// Starting is set if the reader just began, so that a node without a report may have joined.
	Starting bool

	Missing pools.Missing // why groups may be missing
	Parts   []api.Part    // the groups, lists and facts that are unknown

	groups   []pools.Group
	machines map[string]resource.Vector // what one machine of a group offers, by the configuration
	kinds    map[string]string          // of the groups that the Reader has read
	joined   map[string]bool            // instances whose node has joined
	// unobserved are those of joined that may have joined, but no process has observed it.
	unobserved map[string]bool
	reported   map[string]bool   // those of joined whose node has reported to the Reader
	bought     map[string]string // the markets of those of joined that are spot machines
}

// Refresh returns the same groups, joined with newer reports. If only is not nil, it has only these nodes, and their sums.
func (s *Snapshot) Refresh(facts []api.NodeFacts, only map[string]bool) *Snapshot {
	out := &Snapshot{
		At: s.At, Groups: s.Groups, Condition: s.Condition, Starting: s.Starting, groups: s.groups, machines: s.machines, kinds: s.kinds,
		Missing: s.Missing, joined: s.joined, unobserved: s.unobserved, reported: s.reported,
	}
	out.joinInstances(facts, only, func(id string) expectation { return expectedOf(s.joined[id], s.unobserved[id]) })
	return out
}

// Without returns the snapshot as if these instances did not exist. Joined ones count as lost.
func (s *Snapshot) Without(away map[string]bool) *Snapshot {
	out := *s
	out.Groups, out.Fulfilled, out.Joined = slices.Clone(s.Groups), 0, 0
	for i := range out.Groups {
		g := &out.Groups[i]
		g.Instances = slices.DeleteFunc(slices.Clone(g.Instances), func(i pools.Instance) bool { return away[i.ID] })
		out.Fulfilled += g.Fulfilled()
	}
	out.Nodes, out.Totals, out.Allocated = make([]pools.Node, 0, len(s.Nodes)), resource.Vector{}, resource.Vector{}
	for _, n := range s.Nodes {
		switch id := n.Instance.ID; {
		case away[id] && n.State.Joined():
			out.Lost++
		case away[id]:
		case n.State.Joined():
			out.addUsage(n.Facts, s.Quarantined(id))
			if !s.Quarantined(id) {
				out.Joined += n.Instance.Weight
			}
			fallthrough
		default:
			out.Nodes = append(out.Nodes, n)
		}
	}
	out.Silent = slices.DeleteFunc(slices.Clone(s.Silent), func(id string) bool { return away[id] })
	return &out
}

// Group returns the group for calls to the provider.
func (s *Snapshot) Group(id string) (pools.Group, bool) {
	for _, g := range s.groups {
		if g.ID() == id {
			return g, true
		}
	}
	return nil, false
}

// Busy returns the groups that must not be changed, with the reason: another party changes it, or it could not be read.
func (s *Snapshot) Busy() map[string]string {
	var out map[string]string
	for _, g := range s.Groups {
		why := g.Busy
		if g.Unknown != nil {
			why = "it could not be read: " + g.Unknown.Why
		}
		if why != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[g.ID] = why
		}
	}
	return out
}

// Unknown returns why the pool is known in part only, and must not shrink; empty: each group was read.
func (s *Snapshot) Unknown() string {
	for _, g := range s.Groups {
		if g.Unknown != nil {
			return fmt.Sprintf("group %s could not be read: %s", g.ID, g.Unknown.Why)
		}
	}
	if why := s.Missing.Err(); why != nil {
		return "groups may be missing: " + why.Error()
	}
	return ""
}

// UnknownGroup reports whether a group could not be read, or may be missing from the list. Otherwise it was read, or is gone.
func (s *Snapshot) UnknownGroup(id string) bool {
	i := slices.IndexFunc(s.Groups, func(g pools.GroupSnapshot) bool { return g.ID == id })
	if i < 0 {
		return s.Missing.Of(s.kinds[id]) != nil
	}
	return s.Groups[i].Unknown != nil
}

// NoData reports whether there may be instances that no reading has shown.
func (s *Snapshot) NoData() bool {
	return len(s.Missing) > 0 || slices.ContainsFunc(s.Groups, func(g pools.GroupSnapshot) bool { return g.NoData })
}

// Quarantined reports whether node health quarantines the node. Its instance stays in the target of its
// group, offers nothing, and another one replaces it.
func (s *Snapshot) Quarantined(id string) bool {
	return s.Condition.Budget.Out[id] == disruption.Quarantine
}

// StartingFor reports whether the silence of a node has no meaning yet: the reader just began, and
// the node has not reported to it.
func (s *Snapshot) StartingFor(id string) bool { return s.Starting && !s.reported[id] }

// Instance returns an existing instance that is not terminating.
func (s *Snapshot) Instance(id string) (pools.Instance, bool) {
	i := slices.IndexFunc(s.Nodes, func(n pools.Node) bool { return n.Instance.ID == id })
	if i < 0 || s.Nodes[i].Instance.State == api.InstanceTerminating {
		return pools.Instance{}, false
	}
	return s.Nodes[i].Instance, true
}

// Weights returns the weights of the existing instances that are not terminating.
func (s *Snapshot) Weights(ids []string) []float64 {
	var out []float64
	for _, n := range s.Nodes {
		if n.Instance.State != api.InstanceTerminating && slices.Contains(ids, n.Instance.ID) {
			out = append(out, n.Instance.Weight)
		}
	}
	return out
}

// joinedInstances returns all instances that may have joined.
func (s *Snapshot) joinedInstances() map[string]bool {
	ids := map[string]bool{}
	for _, g := range s.Groups {
		for _, i := range g.Instances {
			if i.State != api.InstancePending {
				ids[i.ID] = true
			}
		}
	}
	return ids
}

// expectation is whether the node of an instance should report.
type expectation int

const (
	unexpected expectation = iota // it has not joined
	possible                      // it may have joined
	expected                      // its join was observed
)

func expectedOf(joined, unobserved bool) expectation {
	switch {
	case unobserved:
		return possible
	case joined:
		return expected
	}
	return unexpected
}

// joinInstances adds the instances of all groups, or only these, with the reports of their nodes.
func (s *Snapshot) joinInstances(facts []api.NodeFacts, only map[string]bool, expects func(id string) expectation) {
	most := len(facts)
	if only != nil {
		most = len(only)
	}
	byID := make(map[string]*api.NodeFacts, most)
	for i := range facts {
		if id := facts[i].ID; only == nil || only[id] {
			byID[id] = &facts[i]
		}
	}
	for _, g := range s.Groups {
		if !g.Stale {
			s.Target += float64(g.Target)
		}
		s.Fulfilled += g.Fulfilled()
		s.Nodes = slices.Grow(s.Nodes, min(most, len(g.Instances)))
		for i := range g.Instances {
			if id := g.Instances[i].ID; only == nil || only[id] {
				s.addInstance(g.Instances[i], byID[id], expects(id))
			}
		}
	}
	slices.Sort(s.Silent)
	sortBeyond(s.Beyond)
}

// addInstance adds one instance. If facts is not nil, its node reports.
func (s *Snapshot) addInstance(instance pools.Instance, facts *api.NodeFacts, expects expectation) {
	node := pools.Node{Instance: instance, Cordoned: instance.Cordoned, State: api.NodeUnknown}
	_, node.Unhealthy = s.Condition.Unhealthy[instance.ID]
	if facts != nil {
		most := s.bound(instance)
		bounded, beyond := within(*facts, most)
		if beyond {
			s.Beyond = append(s.Beyond, Beyond{instance.ID, facts.Resources, most})
		}
		facts = &bounded
	}
	switch {
	case instance.State == api.InstancePending || instance.State == api.InstanceTerminating:
	case facts != nil && !facts.Outdated && instance.State == api.InstanceRunning && s.addUsage(*facts, s.Quarantined(instance.ID)):
		node.Facts, node.State = *facts, api.NodeRunning
		if p := facts.Priority; !math.IsNaN(p) && !math.IsInf(p, 0) {
			node.Priority = p
		}
		if facts.Tasks == 0 {
			node.State = api.NodeIdle
		}
		if !s.Quarantined(instance.ID) {
			s.Joined += instance.Weight
		}
	case facts != nil || expects != unexpected:
		node.Unobserved = facts == nil && expects == possible
		s.Silent = append(s.Silent, instance.ID)
	default:
		node.State = api.NodeOrphaned
	}
	s.Nodes = append(s.Nodes, node)
}

// addUsage adds the resources and the usage of a node. If the sum is invalid, it adds nothing and
// returns false. A quarantined node offers nothing, but may still run tasks.
func (s *Snapshot) addUsage(f api.NodeFacts, aside bool) bool {
	totals, allocated := s.Totals.Add(f.Resources), s.Allocated.Add(f.Allocated)
	if aside {
		totals = s.Totals
	}
	if totals.Validate() != nil || allocated.Validate() != nil {
		return false
	}
	s.Totals, s.Allocated = totals, allocated
	return true
}

// setJoined sets which instances have joined and have reported, and counts joined ones that disappeared
// without a release. bought are the markets of the joined spot machines before. The join of the instances of guessed was not observed
// before.
func (s *Snapshot) setJoined(before, guessed, reported, released map[string]bool, bought map[string]string) {
	s.Arrived, s.Interrupted, s.Spot, s.bought = map[string]bool{}, map[string]int{}, map[string]int{}, map[string]string{}
	s.joined, s.reported = make(map[string]bool, len(s.Nodes)), make(map[string]bool, len(s.Nodes))
	for _, n := range s.Nodes {
		id := n.Instance.ID
		if n.Instance.State == api.InstanceTerminating {
			continue
		}
		if before[id] || n.State.Joined() {
			s.joined[id] = true
		}
		if n.State.Joined() && !before[id] {
			s.Arrived[id] = true
		}
		if s.joined[id] && n.Instance.Market.Spot {
			if s.bought[id] = bought[id]; s.bought[id] == "" {
				s.bought[id] = n.Instance.Market.String()
			}
		}
		if reported[id] || n.State.Joined() {
			s.reported[id] = true
		}
	}
	s.unobserved = map[string]bool{}
	for id := range guessed {
		if !s.reported[id] && (s.joined[id] || s.NoData()) {
			s.unobserved[id] = true
		}
	}
	for id := range before {
		switch {
		case s.joined[id] || released[id]:
		case s.NoData():
			s.joined[id] = true
			if market, spot := bought[id]; spot {
				s.bought[id] = market
			}
		default:
			s.Lost++
			if market, spot := bought[id]; spot {
				s.Interrupted[market]++
			}
		}
	}
	for _, market := range s.bought {
		s.Spot[market]++
	}
}
