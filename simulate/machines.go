package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/resource"
)

// machines are the machines of a run, and the reports of their nodes. The loop may use them concurrently.
type machines struct {
	scenario *Scenario
	now      time.Time // of the latest advance
	end      time.Time // of the run
	groups   []*group
	nodes    []*Node // those that have joined, in the order in which they did
	byID     map[string]*Node
	offered  resource.Vector      // by the nodes
	existing int                  // machines that have not ended
	facts    []api.NodeFacts      // of the nodes, in their order
	joins    map[string]time.Time // when the nodes of running machines join in a replay, by id; missing: as they run
	ending   map[string]ending    // the nodes of machines that have ended in a replay
	built    bool                 // facts are those of the nodes now, except for their time
	warnings []warning            // that are to come, or are not handled
	failures []warning            // that are to come
	failed   int                  // machines
	bill     *bill

	mu      sync.Mutex      // guards cordons
	cordons map[string]bool // changes since the last settle
}

// group is a group of a run.
type group struct {
	Group
	cloud   *cloud.Group
	version int     // of cloud, when the nodes were last read
	known   []known // machines that have not ended, in order of launch
}

// known is a machine that has not ended.
type known struct {
	id     string
	node   *Node // nil: it has not joined, or has failed
	failed bool
}

// ending is the node of a machine that has ended.
type ending struct {
	node *Node
	at   time.Time
}

// warning is the provider's announcement of an interruption.
type warning struct {
	at   time.Time
	node string
	kind pools.NoticeKind
}

func newMachines(s *Scenario) *machines {
	m := &machines{
		scenario: s, now: s.Start, end: s.at(s.Ticks), byID: map[string]*Node{}, cordons: map[string]bool{}, ending: map[string]ending{}, bill: newBill(s),
	}
	var admit func(*cloud.Write) error
	if s.past != nil {
		admit, m.joins = s.past.admit, s.past.joins
	}
	for _, g := range s.Groups {
		started := false
		c := cloud.New(cloud.Config{
			ID: g.ID, Min: g.Min, Max: g.Max, Target: g.Target, Leave: g.Leave, Shared: true, NoLog: true, Admit: admit, SurplusFirst: s.past.surplusFirst(g.ID),
			Offers: []cloud.Offer{{Market: pools.Market{InstanceType: g.Market.Type, Zone: cmp.Or(s.past.market(g.ID), g.Market.Zone), Spot: g.Market.Spot}, Weight: g.Weight}},
			Launch: func(number int) cloud.Launch {
				m.bill.launch()
				if s.past != nil {
					return s.past.launch(g, m.now, number, !started)
				}
				next := cloud.Launch{ID: fmt.Sprintf("%s-%d", g.ID, number)}
				if started { // the machines of the start have joined
					next.Join = max(g.Pending, g.Launch.at(draw(s.Seed, "launch", next.ID)))
				}
				return next
			},
			Ended: func(i pools.Instance, at time.Time, byProvider bool) { m.bill.end(g, i.Launched, at, byProvider) },
		}, s.Start)
		started = true
		m.groups = append(m.groups, &group{Group: g, cloud: c, version: -1})
	}
	return m
}

// provider returns the groups for the loop.
func (m *machines) provider() pools.Static {
	var all pools.Static
	for _, g := range m.groups {
		all = append(all, g.cloud)
	}
	return all
}

// group returns the group with that id; nil: there is none.
func (m *machines) group(id string) *group {
	if i := slices.IndexFunc(m.groups, func(g *group) bool { return g.ID == id }); i >= 0 {
		return m.groups[i]
	}
	return nil
}

// groupOf returns the group of a machine that has joined.
func (m *machines) groupOf(id string) string {
	if n := m.byID[id]; n != nil {
		return n.Group
	}
	return ""
}

// advance moves the machines to a time.
func (m *machines) advance(now time.Time) {
	m.now = now
	for _, g := range m.groups {
		g.cloud.Advance(now)
	}
}

// settle adopts what changed since the last settle: machines that joined or ended, and cordons. It reports whether anything did.
func (m *machines) settle(ctx context.Context, now time.Time) (changed bool, err error) {
	joined := m.joining(now)
	for _, g := range m.groups {
		if g.cloud.Version() == g.version && !joined {
			continue
		}
		s, err := g.cloud.Snapshot(ctx)
		if err != nil {
			return false, err
		}
		m.adopt(now, g, s.Instances)
		g.version, changed = g.cloud.Version(), true // adopt may interrupt machines
	}
	changed = m.fail(now) || changed
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, on := range m.cordons {
		if n := m.byID[id]; n != nil {
			m.built, changed = false, true
			if n.Cordoned = (time.Time{}); on {
				n.Cordoned = now
			}
		}
	}
	clear(m.cordons)
	return changed, nil
}

// fail lets the machines fail that are due: their nodes report no more, and do no work.
func (m *machines) fail(now time.Time) (failed bool) {
	m.failures = slices.DeleteFunc(m.failures, func(w warning) bool {
		if w.at.After(now) {
			return false
		}
		for _, g := range m.groups {
			if i := slices.IndexFunc(g.known, func(k known) bool { return k.id == w.node }); i >= 0 {
				m.forget(g.known[i])
				g.known[i] = known{id: w.node, failed: true}
				m.failed++
				m.built, failed = false, true
			}
		}
		return true
	})
	if failed {
		m.nodes = slices.DeleteFunc(m.nodes, func(n *Node) bool { return m.byID[n.ID] == nil })
	}
	return failed
}

// joining reports whether nodes of running machines join now.
func (m *machines) joining(now time.Time) (joined bool) {
	for id, at := range m.joins {
		if !now.Before(at) {
			delete(m.joins, id)
			joined = true
		}
	}
	return joined
}

// adopt adopts the machines of a group. Both lists are in order of launch.
func (m *machines) adopt(now time.Time, g *group, instances []pools.Instance) {
	m.built = false
	before, left := g.known, false
	m.existing -= len(before)
	g.known = make([]known, 0, len(instances))
	for k := range instances {
		i := &instances[k]
		if i.State == api.InstanceTerminating {
			continue
		}
		for len(before) > 0 && before[0].id != i.ID {
			left = m.forget(before[0]) || left
			before = before[1:]
		}
		one := known{id: i.ID}
		if len(before) > 0 {
			one, before = before[0], before[1:]
		} else {
			m.interrupt(g, i)
			if at := failure(m.scenario.Seed, g.Failures, i.ID, i.Launched, m.end); !at.IsZero() {
				m.failures = append(m.failures, warning{at: at, node: i.ID})
			}
		}
		if i.State == api.InstanceRunning && one.node == nil && !one.failed && !now.Before(m.joins[i.ID]) {
			one.node = &Node{ID: i.ID, Group: g.ID, Zone: g.Market.Zone, Machine: g.machineOf(i.Weight)}
			m.byID[i.ID] = one.node
			m.nodes = append(m.nodes, one.node)
			m.offered = m.offered.Add(one.node.Machine)
		}
		g.known = append(g.known, one)
	}
	for _, one := range before {
		left = m.forget(one) || left
	}
	m.existing += len(g.known)
	if left {
		m.nodes = slices.DeleteFunc(m.nodes, func(n *Node) bool { return m.byID[n.ID] == nil })
	}
}

// forget removes a machine that ended, and reports whether it had joined.
func (m *machines) forget(one known) (joined bool) {
	if one.node == nil {
		return false
	}
	delete(m.byID, one.id)
	if m.scenario.past != nil {
		m.ending[one.id] = ending{one.node, m.now}
	}
	m.offered = m.offered.Sub(one.node.Machine)
	return true
}

// interrupt draws when the provider interrupts a new machine.
func (m *machines) interrupt(g *group, i *pools.Instance) {
	at := interruption(m.scenario.Seed, g.Interruptions, g.Market.String(), i.ID, i.Launched, m.end)
	if at.IsZero() {
		return
	}
	g.cloud.Interrupt(i.ID, at)
	if g.Warning > 0 {
		m.warnings = append(m.warnings, warning{at.Add(-g.Warning), i.ID, pools.Interruption})
	}
}

// due returns the warnings that are due, of machines that exist.
func (m *machines) due(now time.Time) (due []warning) {
	m.warnings = slices.DeleteFunc(m.warnings, func(w warning) bool {
		if w.at.After(now) {
			return false
		}
		if m.exists(w.node) {
			due = append(due, w)
		}
		return true
	})
	return due
}

func (m *machines) exists(id string) bool {
	return slices.ContainsFunc(m.groups, func(g *group) bool {
		return slices.ContainsFunc(g.known, func(k known) bool { return k.id == id })
	})
}

// next returns when the machines change next by themselves; zero: never.
func (m *machines) next() (next time.Time) {
	for _, g := range m.groups {
		next = earlier(next, g.cloud.Next())
	}
	for _, w := range m.warnings {
		next = earlier(next, w.at)
	}
	for _, w := range m.failures {
		next = earlier(next, w.at)
	}
	for _, at := range m.joins {
		next = earlier(next, at)
	}
	return next
}

// earlier returns the earlier of two times; the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Facts implements snapshot.Scheduler. The facts change with the next call.
func (m *machines) Facts(now time.Time) []api.NodeFacts {
	if !m.built {
		m.built = true
		m.facts = m.facts[:0]
		for _, n := range m.nodes {
			m.facts = append(m.facts, n.facts())
		}
	}
	for i := range m.facts {
		m.facts[i].At = now
	}
	if m.scenario.past != nil {
		return m.scenario.past.reports(m.facts, m.ending, now)
	}
	return m.facts
}

func (n *Node) facts() api.NodeFacts {
	return api.NodeFacts{
		ID: n.ID, Group: n.Group, Zone: n.Zone, BootID: n.ID, Resources: n.Machine, Allocated: n.Allocated, Tasks: n.Tasks,
		Draining: !n.Cordoned.IsZero(), SafeToEvict: true,
	}
}

// Cordon implements drain.Scheduler. It takes effect with the next settle.
func (m *machines) Cordon(_ context.Context, node string, on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cordons[node] = on
	return nil
}
