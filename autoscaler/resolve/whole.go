package resolve

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxMoved bounds the machines that lose a part for another one in a tick.
const maxMoved = 100

// wholeMachines moves parts of machines between the shares of a distribution that lowers groups to one level. A group that is lowered
// by less than its lightest removable machine loses none. If several groups are, the pool would keep all of them for ever. So the parts
// go to the highest group that can lose one more machine for them. The sum stays the same.
func wholeMachines(c api.Case, groups []api.GroupTarget, d *api.Distribution) {
	if c.Places == nil || byCost(c) {
		return
	}
	machines, least, parts := lightest(c), make(map[string]int, len(groups)), make([]int, len(d.Shares))
	for _, g := range groups {
		least[g.ID] = g.Min
	}
	left := 0
	for i := range d.Shares {
		s := &d.Shares[i]
		if m := machines[s.Group]; m > 0 && s.After < s.Before && s.Bound != api.ShareStale {
			parts[i] = min(s.Before-s.After, Whole(remainder(present(c, *s)-float64(s.After), m)))
			s.After += parts[i]
			left += parts[i]
		}
	}
	for range maxMoved {
		next, price := -1, 0
		for i, s := range d.Shares {
			m := machines[s.Group]
			more := int(resource.Ceil(m - remainder(present(c, s)-float64(s.After), m)))
			if more > 0 && more <= left && s.After-more >= max(0, least[s.Group]) && s.After <= s.Before && (next < 0 || s.After > d.Shares[next].After) {
				next, price = i, more
			}
		}
		if next < 0 {
			break
		}
		d.Shares[next].After -= price
		left, parts[next] = left-price, 0
	}
	for i := range d.Shares {
		back := min(left, parts[i])
		d.Shares[i].After -= back
		left -= back
	}
}

// lightest returns the least weight of the machines of each group that can be emptied.
func lightest(c api.Case) map[string]float64 {
	leave, out := set(c.Places.Leave), map[string]float64{}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; leave[n.ID] && n.Weight > 0 {
			if m, known := out[n.Group]; !known || n.Weight < m {
				out[n.Group] = min(n.Weight, maxWeight)
			}
		}
	}
	return out
}

// present returns the weight that a group has for its share, at least its target.
func present(c api.Case, s api.GroupShare) float64 {
	return float64(max(s.Before, c.Has[s.Group]-c.State.Groups[s.Group].Surge))
}

// remainder returns the part of a weight that is no whole machine.
func remainder(weight, machine float64) float64 {
	if !(machine > 0) {
		return 0
	}
	return weight - machine*resource.Floor(max(weight, 0)/machine)
}
