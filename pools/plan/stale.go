package plan

// FirstStale returns the first stale instance of a group in the order of [Order], independent of
// the target. It returns false if no stale instance may go. The limits of a prune apply, and
// in.Spent is the part that earlier prunes of the period used.
func FirstStale(in PruneInput, group string) (Choice, bool) {
	q := newQueue(in.Nodes, in.Limits, nil)
	q.order()
	left := in.allowance()
	for len(q.heap) > 0 {
		c := q.pop()
		if c.Stale && c.Group == group && left.obstacle(c) == "" {
			return choiceOf(c), true
		}
	}
	return Choice{}, false
}
