package nodehealth

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// machine is a node of the latest snapshot of the pool.
type machine struct {
	group, zone string
	launched    time.Time
	state       api.InstanceState
	provided    judge.Provided // the state that the judge has
}

// inventory holds the machines of the latest snapshot of the pool. The Loop's goroutine owns it.
type inventory struct {
	machines map[string]machine
	listed   bool            // at least one snapshot was read
	named    map[string]bool // machines that an outcome named as a replacement
	// conditions are the last reports of its machines.
	conditions map[string]conditions
	mail       *mailbox
}

func newInventory(mail *mailbox) *inventory {
	return &inventory{machines: map[string]machine{}, named: map[string]bool{}, conditions: map[string]conditions{}, mail: mail}
}

// list adopts a snapshot of the pool, and returns it for the judge. A machine under in-place repair
// counts as running: the provider may report it as leaving.
func (v *inventory) list(s snapshot, repairing map[string]bool) judge.Nodes {
	machines := make(map[string]machine, len(v.machines))
	nodes := make([]judge.Node, 0, len(v.machines))
	for _, g := range s.groups {
		for _, i := range g.Instances {
			if _, twice := machines[i.ID]; twice || i.ID == "" || len(i.ID) > api.MaxNodeID {
				v.mail.lose("machines without a unique id", 1)
				continue
			}
			n := judge.Node{ID: i.ID, Zone: i.Market.Zone, Since: i.Launched, State: provided(i, s.inspections[i.ID])}
			if n.State == judge.Leaving && repairing[i.ID] {
				n.State = judge.Running
			}
			machines[i.ID] = machine{group: g.ID, zone: n.Zone, launched: n.Since, state: i.State, provided: n.State}
			nodes = append(nodes, n)
		}
	}
	v.machines, v.listed = machines, true
	maps.DeleteFunc(v.named, func(node string, _ bool) bool { return !v.hasNode(node) })
	maps.DeleteFunc(v.conditions, func(node string, _ conditions) bool { return !v.hasNode(node) })
	return judge.Nodes{List: nodes}
}

// leftNodes marks machines that drain events report as removed on purpose, until a snapshot lacks them.
// Their silence is not a failure. It returns the list for the judge, or nil if it marks no machine.
func (v *inventory) leftNodes(events []drain.Event) []judge.Event {
	marked := false
	for _, ev := range events {
		if m, there := v.machines[ev.Node]; there && ev.To == api.DrainGone && ev.Reason != api.DrainRepair {
			m.provided, marked = judge.Leaving, true
			v.machines[ev.Node] = m
		}
	}
	if !marked {
		return nil
	}
	nodes := make([]judge.Node, 0, len(v.machines))
	for _, id := range slices.Sorted(maps.Keys(v.machines)) {
		m := v.machines[id]
		nodes = append(nodes, judge.Node{ID: id, Zone: m.zone, Since: m.launched, State: m.provided})
	}
	return []judge.Event{judge.Nodes{List: nodes, Again: true}}
}

func (v *inventory) hasNode(node string) bool {
	_, there := v.machines[node]
	return there
}

// known returns the observations of listed machines. It changes the slice.
func (v *inventory) known(all []judge.Observation) []judge.Observation {
	return slices.DeleteFunc(all, func(o judge.Observation) bool { return !v.hasNode(o.Node) })
}

// whole reports whether a snapshot has every machine of the one before.
func (v *inventory) whole(s snapshot) bool {
	there := map[string]bool{}
	for _, g := range s.groups {
		for _, i := range g.Instances {
			there[i.ID] = true
		}
	}
	for id := range v.machines {
		if !there[id] {
			return false
		}
	}
	return true
}

// places returns the machines that can be probed, sorted by id: those that are not terminating. A
// nil map means all nodes.
func (v *inventory) places(nodes map[string]bool) []Machine {
	var out []Machine
	for _, id := range slices.Sorted(maps.Keys(v.machines)) {
		if m := v.machines[id]; (nodes == nil || nodes[id]) && m.state != api.InstanceTerminating {
			out = append(out, Machine{Node: id, Group: m.group, Zone: m.zone})
		}
	}
	return out
}

// replacement returns the first machine launched at since or later, apart from old, that replaces
// no other node. Empty: no such machine exists.
func (v *inventory) replacement(old string, since time.Time) string {
	id, launched := "", time.Time{}
	for node, m := range v.machines {
		if node == old || v.named[node] || m.state == api.InstanceTerminating || m.launched.Before(since) {
			continue
		}
		if id == "" || cmp.Or(m.launched.Compare(launched), cmp.Compare(node, id)) < 0 {
			id, launched = node, m.launched
		}
	}
	return id
}

// maxNodes is the maximum size of a pool.
const maxNodes = 100_000

type snapshot struct {
	groups      []pools.GroupSnapshot
	inspections map[string]pools.Inspection // nil: the provider does not inspect
}

// provided returns a machine's state for the judge. A machine that is removed on purpose is
// Leaving, whatever else it reports.
func provided(i pools.Instance, in pools.Inspection) judge.Provided {
	switch {
	case i.State == api.InstanceTerminating || in.Leaving:
		return judge.Leaving
	case in.Ended:
		return judge.Terminated
	case in.Stopped:
		return judge.Stopped
	case in.Spot:
		return judge.Spot
	}
	return judge.Running
}

// observations returns the observations of the provider's modes, of all nodes if nodes is nil.
func (s snapshot) observations(modes []api.DetectionType, nodes map[string]bool) []judge.Observation {
	count := len(s.inspections)
	if nodes != nil {
		count = len(nodes)
	}
	out := make([]judge.Observation, 0, count*len(modes))
	blamed := map[string]bool{}
	if slices.ContainsFunc(modes, balanced) {
		blamed = s.blamed()
	}
	var kinds []judge.ModeKind
	for _, mode := range modes {
		kinds = append(kinds, judge.KindOfMode(mode))
	}
	for id, in := range s.inspections {
		if nodes != nil && !nodes[id] {
			continue
		}
		for _, kind := range kinds {
			o := kind.Observe(in)
			if o.Node, o.Mode = id, kind.Type; kind.Traffic && blamed[id] {
				o.Verdict, o.Reason = api.CheckUnknown, "all targets of the load balancer fail: the balancer is suspect"
			}
			out = append(out, o)
		}
	}
	return out
}

// balanced reports whether a mode reads load balancer health.
func balanced(t api.DetectionType) bool { return judge.KindOfMode(t).Traffic }

// blamed returns the machines of groups in which the load balancer reports all machines as failed,
// and at least two. Then the balancer is suspect.
func (s snapshot) blamed() map[string]bool {
	out := map[string]bool{}
	blame := func(groups ...pools.GroupSnapshot) {
		var ids []string
		bad, known := 0, 0
		for _, g := range groups {
			for _, i := range g.Instances {
				ids = append(ids, i.ID)
				switch s.inspections[i.ID].Traffic.Fitness {
				case pools.Unfit:
					bad, known = bad+1, known+1
				case pools.Fit:
					known++
				}
			}
		}
		for i := 0; bad >= 2 && bad == known && i < len(ids); i++ {
			out[ids[i]] = true
		}
	}
	for _, g := range s.groups {
		blame(g)
	}
	blame(s.groups...)
	return out
}

// conditions are the conditions that a node reported, and when.
type conditions struct {
	at  time.Time
	all []api.NodeCondition
}

// report stores the conditions that nodes reported.
func (v *inventory) report(facts []api.NodeFacts) {
	for _, f := range facts {
		if len(f.Conditions) > 0 && v.hasNode(f.ID) {
			v.conditions[f.ID] = conditions{f.At, f.Conditions[:min(len(f.Conditions), pools.MaxConditions)]}
		}
	}
}
