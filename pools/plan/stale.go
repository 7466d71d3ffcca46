package plan

// FirstStale returns the stale instance of a group that is to go first, in the order
// of [Order], whatever the target, and false if there is none that may go. The
// limits of a prune bound it too; what earlier prunes of the period took of these is
// in.Spent.
func FirstStale(in PruneInput, group string) (Choice, bool) {
	q := newQueue(in.Nodes, in.Limits, nil)
	left := in.allowance()
	for len(q.heap) > 0 {
		c := q.pop()
		if c.Stale && c.Group == group && left.obstacle(c) == "" {
			return c.choice(), true
		}
	}
	return Choice{}, false
}
