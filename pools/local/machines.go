package local

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

const (
	// maxKnownIDs is how many ids of a group are stored as its own.
	maxKnownIDs = 4 * maxMachines
	// lifetime is the age below which a dead machine delays the next launch.
	lifetime = 10 * time.Second
)

// replacement returns the policy for machines that die young: they are always replaced, with a
// growing delay.
func replacement() supervise.Policy {
	return supervise.Policy{
		Budget: math.MaxInt, Window: time.Minute, Base: 250 * time.Millisecond, Max: 15 * time.Second,
	}
}

// power is the state of the process of a machine that is not terminating.
//
//	  ┌───── repairing ◄──── down
//	  ▼         ▲              ▲
//	running ────┴──► halting ──┤
//	  └────────────────────────┘ dies, and is not replaced
type power int

const (
	running   power = iota // it runs, or is about to start
	repairing              // it ends, and is started again under the same id
	halting                // it is killed and not restarted
	down                   // no process
)

// machine is the state of one instance.
type machine struct {
	pools.Instance
	power   power
	why     string  // why the machine is down, or will be
	unfit   string  // reason of MarkUnhealthy; empty: not marked
	fenced  bool    // its agent accepts no copies until the fence is lifted
	attempt attempt // the latest repair in place
}

// machines is the state of one group. It does no I/O, and one goroutine uses it.
type machines struct {
	cfg       GroupConfig
	target    int
	live      map[string]*machine
	known     []string          // ids of this group, dead or alive, newest last
	unclean   map[string]string // machines whose processes could not all be stopped, and why
	deaths    []time.Time       // deaths of young machines
	notBefore time.Time         // time before which no machine is launched
}

// newMachines returns the state that an earlier owner stored: its target and, if stay is set, its
// machines.
func newMachines(cfg GroupConfig, kept savedGroup, keepStopped bool) *machines {
	m := &machines{
		cfg: cfg, target: cfg.Target, live: map[string]*machine{}, known: kept.Known, unclean: map[string]string{},
	}
	if kept.Target != nil {
		m.target = min(max(*kept.Target, cfg.Min), cfg.Max)
	}
	if keepStopped {
		for _, k := range kept.Machines {
			m.live[k.ID] = m.restored(k)
		}
	}
	return m
}

// restored returns a stored machine. Its process ended with its owner. A machine that ran, or was
// under repair, will be started.
func (m *machines) restored(k savedMachine) *machine {
	i := &machine{Instance: m.instance(k.Launched, k.ID), fenced: k.Fenced, attempt: k.Attempt}
	switch {
	case k.Down:
		i.power, i.why = down, k.Why
	case k.Attempt.open():
		i.power = repairing
	}
	return i
}

func (m *machines) kept() savedGroup {
	k := savedGroup{Target: new(m.target), Known: m.known}
	for _, id := range m.ids() {
		if i := m.live[id]; i.State != api.InstanceTerminating {
			k.Machines = append(k.Machines, savedMachine{
				ID: id, Launched: i.Launched, Down: i.power == down || i.power == halting, Why: i.why,
				Fenced: i.fenced, Attempt: i.attempt,
			})
		}
	}
	return k
}

// snapshot returns the group in order of launch. A machine that is down is listed as running, so
// that it is not replaced.
func (m *machines) snapshot() pools.GroupSnapshot {
	s := pools.GroupSnapshot{
		ID: m.cfg.ID, Kind: "local", Target: m.target, Min: m.cfg.Min, Max: m.cfg.Max, Instances: []pools.Instance{},
		Offers:  []pools.Offer{{InstanceType: m.cfg.Market.InstanceType, Weight: m.cfg.Weight, Resources: m.cfg.Resources}},
		Markets: []api.MarketOffer{{InstanceType: m.cfg.Market.InstanceType, Zone: m.cfg.Market.Zone, Spot: m.cfg.Market.Spot, Weight: m.cfg.Weight}},
	}
	for _, i := range m.sorted() {
		s.Instances = append(s.Instances, i.Instance)
	}
	return s
}

func (m *machines) sorted() []*machine {
	return slices.SortedFunc(maps.Values(m.live), func(a, b *machine) int {
		return cmp.Or(a.Launched.Compare(b.Launched), strings.Compare(a.ID, b.ID))
	})
}

// checkTarget returns pools.ErrTargetBounds for a target outside the bounds.
func (m *machines) checkTarget(target int) error {
	if target < m.cfg.Min || target > m.cfg.Max {
		return fmt.Errorf("%w: %d is not in [%d, %d] of group %s",
			pools.ErrTargetBounds, target, m.cfg.Min, m.cfg.Max, m.cfg.ID)
	}
	return nil
}

// victims returns the ids of machines to terminate, and the target without their weight, at least
// the minimum. If an id never was of this group, the error is pools.ErrNotOwned.
func (m *machines) victims(ids []string) ([]string, int, error) {
	var out []string
	var weight float64
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		i, err := m.find(id)
		if err != nil {
			return nil, 0, err
		}
		if i != nil && i.State != api.InstanceTerminating {
			out, weight = append(out, id), weight+i.Weight
		}
	}
	if out == nil {
		return nil, m.target, nil
	}
	return out, max(m.cfg.Min, int(resource.Floor(float64(m.target)-weight))), nil
}

// missing returns how many machines to launch now, or how long to wait before the next check. Both
// are 0 if there are enough.
func (m *machines) missing(now time.Time) (int, time.Duration) {
	short := float64(m.target) - m.snapshot().Fulfilled()
	if short <= resource.Slack {
		return 0, 0
	}
	if wait := m.notBefore.Sub(now); wait > 0 {
		return 0, wait
	}
	return int(resource.Ceil(short / m.cfg.Weight)), 0
}

// launched adds a new machine.
func (m *machines) launched(now time.Time, id string) {
	m.live[id] = &machine{Instance: m.instance(now, id)}
	m.known = append(m.known, id)
	if over := len(m.known) - maxKnownIDs; over > 0 {
		m.known = slices.Delete(m.known, 0, over)
	}
}

func (m *machines) instance(launched time.Time, id string) pools.Instance {
	return pools.Instance{
		ID: id, Group: m.cfg.ID, Market: m.cfg.Market, Weight: m.cfg.Weight,
		State: api.InstanceRunning, Launched: launched, Offers: m.cfg.Resources,
	}
}

// outcome is what follows on the end of a machine's process.
type outcome int

const (
	gone  outcome = iota // the machine is removed
	stays                // the machine is down
	again                // the process is started again
)

// ended records the end of a machine's process. how is its exit status. left is not nil if some of
// its processes may still run. stay means that a dead machine is not replaced.
func (m *machines) ended(now time.Time, id, how string, left error, keepStopped bool) outcome {
	i := m.live[id]
	if i == nil {
		return gone
	}
	delete(m.unclean, id)
	if left != nil {
		m.unclean[id], how = left.Error(), left.Error()
	}
	switch {
	case i.State == api.InstanceTerminating:
		delete(m.live, id)
		return gone
	case i.power == repairing && left == nil:
		return again
	case i.power == repairing:
		i.attempt.Failed = how
	}
	if keepStopped {
		i.power, i.why = down, cmp.Or(i.why, how)
		return stays
	}
	m.lost(now, i)
	return gone
}

// lost removes a machine. If it died young and unexpectedly, the next launch is delayed.
func (m *machines) lost(now time.Time, i *machine) {
	delete(m.live, i.ID)
	if i.State == api.InstanceTerminating || i.power != running || now.Sub(i.Launched) >= lifetime {
		return
	}
	policy := replacement()
	m.deaths = slices.DeleteFunc(m.deaths, func(t time.Time) bool { return now.Sub(t) > policy.Window })
	m.deaths = append(m.deaths, now)
	delay, _ := supervise.Next(m.cfg.ID, m.deaths, now, policy)
	m.notBefore = now.Add(delay)
}

// ids returns the ids of the existing machines, in order.
func (m *machines) ids() []string { return slices.Sorted(maps.Keys(m.live)) }
