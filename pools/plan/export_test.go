package plan

// Order returns the ids of all nodes that a prune may choose, the first to go first.
func Order(nodes []Candidate, limits Limits) []string {
	q := newQueue(nodes, limits, func(*Candidate, Cause) {})
	ids := make([]string, 0, len(q.heap))
	for len(q.heap) > 0 {
		ids = append(ids, q.pop().ID)
	}
	return ids
}
