package apps

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// count books an index under its category, in place of the one before.
func (m *Machine) count(s *slot, v verdict) {
	a, extra := s.app, len(v.extras)
	if s.category == v.category && s.extra == extra {
		return
	}
	a.tally[s.category]--
	a.tally[v.category]++
	a.extra += extra - s.extra
	s.category, s.extra = v.category, extra
	if a.pool != nil {
		a.pool.revision++
	}
}

// counts returns the app's line. Each desired index is in one of Running,
// Missing, Crashed and Flapping; Extra counts copies.
func (a *app) counts() message.AppCount {
	c := message.AppCount{
		Running:  a.tally[running],
		Missing:  a.tally[missing],
		Crashed:  a.tally[crashed],
		Flapping: a.tally[flapping],
		Extra:    a.extra,
	}
	if a.row == rowPresent {
		n := float64(a.want.Instances)
		c.Expected, c.CPUs, c.Mem, c.Disk = a.want.Instances, n*a.want.CPUs, n*a.want.Mem, n*a.want.Disk
	}
	return c
}

// Counts returns the counts of a pool, in work proportional to its apps. A pool
// that no app ever named has none. A deleted app stays in it until its last copy
// is gone. An app whose row cannot be read, and of which no row stands, has an
// unknown count, which is not zero: the counts of its pool are not complete, nor,
// if no row ever told its pool, are those of any other.
func (m *Machine) Counts(now time.Time, name string) message.Counts {
	c := message.Counts{Pool: name, At: now, Apps: map[string]message.AppCount{}}
	if c.Complete, c.Why = m.Complete(); c.Complete {
		c.Complete, c.Why = m.countable(name)
	}
	if p := m.pools[name]; p != nil {
		for _, a := range p.apps {
			c.Apps[a.name] = a.counts()
		}
	}
	return c
}

// countable reports whether the expected count of every app that may be in the
// pool is known, and if not, why. It names the first such app.
func (m *Machine) countable(pool string) (bool, string) {
	for _, name := range slices.Sorted(maps.Keys(m.unread)) {
		if a := m.apps[name]; a.pool == nil || a.pool == m.pools[pool] {
			return false, fmt.Sprintf("expected state: the row of app %s cannot be read", name)
		}
	}
	return true, ""
}

// Revision returns a number that changes whenever the Counts of the pool do.
func (m *Machine) Revision(name string) uint64 {
	if p := m.pools[name]; p != nil {
		return m.revision + p.revision
	}
	return m.revision
}

// Pools returns the names of the pools that apps ever named, in order.
func (m *Machine) Pools() []string { return slices.Sorted(maps.Keys(m.pools)) }
