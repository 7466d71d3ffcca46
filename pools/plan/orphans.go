package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Orphans chooses the instances that have run for longer than after without a joined node, oldest
// first. It ignores the target: such instances cost and do no work. The limits of a prune apply,
// and in.Spent is the part that earlier prunes of the period used. If after is 0 or less, Orphans
// chooses no instance.
func Orphans(in PruneInput, after time.Duration) []Choice {
	if after <= 0 {
		return nil
	}
	var found []*api.Candidate
	for i := range in.Nodes {
		c := &in.Nodes[i]
		if exists(c) && c.Instance == api.InstanceRunning && c.Node == api.NodeOrphaned &&
			c.Uptime > after && !c.Cordoned && !c.Protected && !c.Repairing {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *api.Candidate) int {
		return cmp.Or(cmp.Compare(b.Uptime, a.Uptime), compareIDs(a.ID, b.ID))
	})
	left := in.allowance()
	var choices []Choice
	for _, c := range found {
		if left.obstacle(c) == "" {
			left.subtract(c)
			choices = append(choices, choiceOf(c))
		}
	}
	return choices
}
