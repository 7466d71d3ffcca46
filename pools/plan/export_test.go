package plan

import "github.com/weirkeeper/weirkeeper/api"

// Order returns the ids of all nodes that a prune may choose, the first to go first.
func Order(nodes []api.Candidate, limits api.PruneLimits) []string {
	q := newQueue(nodes, limits, func(*api.Candidate, api.KeptCause) {})
	ids := make([]string, 0, len(q.heap))
	for len(q.heap) > 0 {
		ids = append(ids, q.pop().ID)
	}
	return ids
}
