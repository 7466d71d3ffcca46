package local

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// remembered is how many ids of a group are known as its own.
	remembered = 4 * maxMachines
	// lifetime is what a machine must reach not to count as dead at once.
	lifetime = 10 * time.Second
	// rounding is what a sum of weights may miss the target by.
	rounding = 1e-9
)

// replacement is how machines that die at once are replaced: without end, but
// slower and slower.
func replacement() supervise.Policy {
	return supervise.Policy{
		Budget: math.MaxInt, Window: time.Minute, Base: 250 * time.Millisecond, Max: 15 * time.Second,
	}
}

// machines is the books of one group. It does no I/O and belongs to one
// goroutine.
type machines struct {
	cfg       GroupConfig
	target    int
	live      map[string]*pools.Instance
	known     []string    // ids of this group, dead or alive, the newest last
	deaths    []time.Time // of machines that died young
	notBefore time.Time   // nothing is launched earlier
}

func newMachines(cfg GroupConfig, kept keptGroup) *machines {
	m := &machines{cfg: cfg, target: cfg.Target, live: map[string]*pools.Instance{}, known: kept.Known}
	if kept.Target != nil {
		m.target = min(max(*kept.Target, cfg.Min), cfg.Max)
	}
	return m
}

// snapshot returns the group, in order of launch.
func (m *machines) snapshot() pools.GroupSnapshot {
	s := pools.GroupSnapshot{
		ID: m.cfg.ID, Kind: "local", Target: m.target, Min: m.cfg.Min, Max: m.cfg.Max, Instances: []pools.Instance{},
	}
	for _, i := range m.live {
		s.Instances = append(s.Instances, *i)
	}
	slices.SortFunc(s.Instances, func(a, b pools.Instance) int {
		if c := a.Launched.Compare(b.Launched); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return s
}

// checkTarget returns pools.ErrTargetBounds outside the bounds.
func (m *machines) checkTarget(target int) error {
	if target < m.cfg.Min || target > m.cfg.Max {
		return fmt.Errorf("%w: %d is not in [%d, %d] of group %s",
			pools.ErrTargetBounds, target, m.cfg.Min, m.cfg.Max, m.cfg.ID)
	}
	return nil
}

// victims returns which of ids are to be ended, and the target after that: less
// by their weight, but not below the minimum. pools.ErrNotOwned if one of them
// never was of this group.
func (m *machines) victims(ids []string) ([]string, int, error) {
	var out []string
	var weight float64
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		i := m.live[id]
		if i == nil && !slices.Contains(m.known, id) {
			return nil, 0, fmt.Errorf("%w: %q is not of group %s", pools.ErrNotOwned, id, m.cfg.ID)
		}
		if i != nil && i.State != pools.InstanceTerminating {
			out, weight = append(out, id), weight+i.Weight
		}
	}
	if out == nil {
		return nil, m.target, nil
	}
	return out, max(m.cfg.Min, int(math.Floor(float64(m.target)-weight+rounding))), nil
}

// missing returns how many machines are to be launched now, or how long to wait
// before it is worth asking again; 0 and 0 if there are enough.
func (m *machines) missing(now time.Time) (int, time.Duration) {
	short := float64(m.target) - m.snapshot().Fulfilled()
	if short <= rounding {
		return 0, 0
	}
	if wait := m.notBefore.Sub(now); wait > 0 {
		return 0, wait
	}
	return int(math.Ceil(short/m.cfg.Weight - rounding)), 0
}

// launched books a machine.
func (m *machines) launched(now time.Time, id string) {
	m.live[id] = &pools.Instance{
		ID: id, Group: m.cfg.ID, Market: m.cfg.Market, Weight: m.cfg.Weight,
		State: pools.InstanceRunning, Launched: now,
	}
	m.known = append(m.known, id)
	if over := len(m.known) - remembered; over > 0 {
		m.known = slices.Delete(m.known, 0, over)
	}
}

// ended takes a machine off the books. One that died young and unasked puts
// off the next launch.
func (m *machines) ended(now time.Time, id string) {
	i := m.live[id]
	delete(m.live, id)
	if i == nil || i.State == pools.InstanceTerminating || now.Sub(i.Launched) >= lifetime {
		return
	}
	policy := replacement()
	m.deaths = slices.DeleteFunc(m.deaths, func(t time.Time) bool { return now.Sub(t) > policy.Window })
	m.deaths = append(m.deaths, now)
	delay, _ := supervise.Next(m.cfg.ID, m.deaths, now, policy)
	m.notBefore = now.Add(delay)
}

// ids returns the machines that run, in order of id.
func (m *machines) ids() []string { return slices.Sorted(maps.Keys(m.live)) }
