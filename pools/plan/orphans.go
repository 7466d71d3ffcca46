package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Orphans chooses the instances that run for longer than after and whose node has
// not joined, oldest first, whatever the target: they cost, and give nothing.
// The limits of a prune bound them too; what earlier prunes of the period took
// of these is in.Spent. An after of 0 or less leaves all of them alone.
func Orphans(in PruneInput, after time.Duration) []Choice {
	if after <= 0 {
		return nil
	}
	var found []*Candidate
	for i := range in.Nodes {
		c := &in.Nodes[i]
		if c.exists() && c.Instance == pools.InstanceRunning && c.Node == pools.NodeOrphaned &&
			c.Uptime > after && !c.Cordoned && !c.Protected && !c.Mending {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *Candidate) int {
		return cmp.Or(cmp.Compare(b.Uptime, a.Uptime), compareIDs(a.ID, b.ID))
	})
	left := in.allowance()
	var choices []Choice
	for _, c := range found {
		if left.obstacle(c) == "" {
			left.take(c)
			choices = append(choices, c.choice())
		}
	}
	return choices
}
