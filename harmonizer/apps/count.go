package apps

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// addTotals adds o sign times.
func addTotals(t *api.PoolTotals, o api.PoolTotals, sign int) {
	t.Apps += sign * o.Apps
	t.StartedApps += sign * o.StartedApps
	t.Instances += sign * o.Instances
	t.StartedInstances += sign * o.StartedInstances
	t.Running += sign * o.Running
	t.Missing += sign * o.Missing
	t.Crashed += sign * o.Crashed
	t.Flapping += sign * o.Flapping
	t.Done += sign * o.Done
	t.Failed += sign * o.Failed
	t.Extra += sign * o.Extra
	t.Rowless += sign * o.Rowless
	t.Crashes += sign * o.Crashes
	t.Halted += sign * o.Halted
	t.Memory += float64(sign) * o.Memory
	t.StartedMemory += float64(sign) * o.StartedMemory
	if t.Apps == 0 { // removes rounding errors
		t.Memory, t.StartedMemory = 0, 0
	}
}

// totals returns the app's part of the sums. Each desired index is in one of Running, Missing,
// Crashed, Flapping, Done and Failed.
func (a *app) totals() api.PoolTotals {
	t := api.PoolTotals{
		Missing:  int(a.tally[missing]),
		Crashed:  int(a.tally[crashed]),
		Flapping: int(a.tally[flapping]),
		Done:     int(a.tally[done]),
		Failed:   int(a.tally[failed]),
		Extra:    int(a.extra),
		Crashes:  len(a.crashes),
	}
	if a.rowless() {
		t.Rowless = t.Extra
	}
	if a.row != rowPresent {
		return t
	}
	t.Apps, t.Instances, t.Memory = 1, a.want.Instances, float64(a.want.Instances)*a.want.Mem
	t.Halted = count(a.update.halted != nil)
	t.StartedInstances = a.expected() - t.Done - t.Failed
	t.Running = t.StartedInstances - t.Missing - t.Crashed - t.Flapping
	if a.want.State != api.AppStopped {
		t.StartedApps, t.StartedMemory = 1, float64(t.StartedInstances)*a.want.Mem
	}
	return t
}

// counts returns the app's line. Extra counts copies.
func (a *app) counts() api.AppCount {
	t := a.totals()
	n := float64(t.StartedInstances)
	return api.AppCount{
		Expected: t.StartedInstances,
		Running:  t.Running,
		Missing:  t.Missing,
		Crashed:  t.Crashed,
		Flapping: t.Flapping,
		Done:     t.Done,
		Failed:   t.Failed,
		Extra:    t.Extra,
		CPUs:     n * a.want.CPUs,
		Mem:      n * a.want.Mem,
		Disk:     n * a.want.Disk,
	}
}

// Counts returns the counts of a pool, in work proportional to its apps. A pool that no app
// ever named has no counts. A deleted app stays until its last copy is gone. If an app's row
// is unreadable and no earlier row is known, its count is unknown, not zero. Then the counts
// of its pool are incomplete; if its pool is unknown too, those of every pool are.
func (v View) Counts(now time.Time, name string) api.InstanceCounts {
	c := api.InstanceCounts{Pool: name, At: now, Apps: map[string]api.AppCount{}}
	if c.Complete, c.Why = v.Complete(); c.Complete {
		c.Complete, c.Why = v.countable(name)
	}
	if p := v.m.apps.pools[name]; p != nil {
		for _, a := range p.apps {
			c.Apps[a.name()] = a.counts()
		}
	}
	return c
}

// countable reports whether the counts of all apps that may be in the pool are known. If not,
// it returns why, with the first app whose row is unreadable.
func (v View) countable(pool string) (bool, string) {
	for _, name := range slices.Sorted(maps.Keys(v.m.apps.unread)) {
		if a := v.m.apps.lookup(name); a.pool == nil || a.pool == v.m.apps.pools[pool] {
			return false, fmt.Sprintf("expected state: the row of app %s is unreadable", name)
		}
	}
	if v.m.Busy() {
		return false, "received events are still being processed"
	}
	return true, ""
}

// Revision returns a number that changes whenever the Counts of the pool change.
func (v View) Revision(name string) uint64 {
	if p := v.m.apps.pools[name]; p != nil {
		return v.m.apps.revision + p.revision
	}
	return v.m.apps.revision
}

// Pools returns the names of all pools that apps ever named, in order.
func (v View) Pools() []string { return slices.Sorted(maps.Keys(v.m.apps.pools)) }

// Totals returns the sums of each pool and of all apps, including apps with an unknown pool.
// Its cost does not depend on the number of apps.
func (v View) Totals() (pools map[string]api.PoolTotals, all api.PoolTotals) {
	pools = make(map[string]api.PoolTotals, len(v.m.apps.pools))
	for name, p := range v.m.apps.pools {
		pools[name] = p.total
	}
	return pools, v.m.apps.total
}

// Sums returns, for each value of a label, the sums of the apps with that value. Its work is
// proportional to all apps.
func (v View) Sums(label string) map[string]api.PoolTotals {
	out := map[string]api.PoolTotals{}
	for _, a := range v.m.apps.list {
		if a == nil {
			continue
		}
		if value, ok := a.want.Labels[label]; ok {
			t := out[value]
			addTotals(&t, a.totals(), 1)
			out[value] = t
		}
	}
	return out
}

// Nodes returns the living nodes with their number of copies.
func (v View) Nodes() map[message.Node]int { return maps.Collect(v.m.known.Nodes()) }

// Queued returns the number of queued starts and stops.
func (v View) Queued() (starts, stops int) {
	return v.m.dispatch.starts.Len(), v.m.dispatch.stops.Len()
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
