package autoscaler

import (
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// surge returns by how much each group is raised beyond its share, so that its
// marked instances can be let go once their replacements have joined. What one
// period may add bounds it, as it bounds any other growth.
func (c Case) surge(d plan.Distribution, held map[string]plan.Quarantine) map[string]int {
	if len(c.Stale) == 0 {
		return nil
	}
	room := whole(c.Input.Policy.Limits.MaxAdd - c.added() - max(0, float64(d.Sum)-c.have()-max(0, c.State.Owed)))
	bounds := make(map[string]plan.GroupTarget, len(c.Groups))
	for _, g := range c.Groups {
		bounds[g.ID] = g
	}
	shares := d.Targets()
	var surge map[string]int
	for _, group := range slices.Sorted(maps.Keys(c.Stale)) {
		g, known := bounds[group]
		_, quarantined := held[group]
		_, busy := c.Busy[group]
		if !known || g.Stale || quarantined || busy {
			continue
		}
		more := min(c.Stale[group]-c.State.Rolling[group], g.Max-max(g.Target, shares[group]), room)
		if more <= 0 {
			continue
		}
		if surge == nil {
			surge = map[string]int{}
		}
		surge[group] = more
		room -= more
	}
	return surge
}

// rolled returns by how much the let-go of marked instances lowers the surge of their
// groups, as their replacements are there.
func (c Case) rolled(choices []plan.Choice) map[string]int {
	if len(c.State.Rolling) == 0 || len(choices) == 0 {
		return nil
	}
	stale := c.stale()
	weights := map[string]float64{}
	for _, one := range choices {
		if stale[one.ID] {
			weights[one.Group] += one.Weight
		}
	}
	rolled := map[string]int{}
	for group, weight := range weights {
		if n := min(max(0, c.State.Rolling[group]), whole(weight)); n > 0 {
			rolled[group] = n
		}
	}
	return rolled
}

// rolling returns the surge that is left of each group.
func (c Case) rolling(more, less map[string]int) map[string]int {
	out := map[string]int{}
	for _, one := range []struct {
		of   map[string]int
		sign int
	}{{c.State.Rolling, 1}, {more, 1}, {less, -1}} {
		for group, n := range one.of {
			out[group] += one.sign * n
		}
	}
	maps.DeleteFunc(out, func(_ string, n int) bool { return n == 0 })
	return out
}

// stale returns the instances that are rolled away.
func (c Case) stale() map[string]bool {
	ids := map[string]bool{}
	for i := range c.Nodes {
		if c.Nodes[i].Stale {
			ids[c.Nodes[i].ID] = true
		}
	}
	return ids
}

// added is the weight that was added within the last period.
func (c Case) added() float64 {
	now, sum := ownTime(c.State.State, c.Input.Now), 0.0
	for _, change := range c.State.Changes {
		if now.Sub(change.At) < c.Input.Policy.Period {
			sum += change.Up
		}
	}
	return sum
}
