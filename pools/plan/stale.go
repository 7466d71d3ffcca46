package plan

// FirstStale returns the first stale instance of a group in the order of [Order], independent of
// the target. It returns false if no stale instance may go: the limits of a prune apply, one that is held stays, and so does one whose
// copies have no proved place. in.Spent is the part that earlier prunes of the period used.
func FirstStale(in PruneInput, group string) (Choice, bool) {
	q := newQueue(in.Nodes, in.Limits, nil)
	q.order()
	left := in.allowance()
	if in.Rolls != nil && *in.Rolls <= 0 {
		return Choice{}, false
	}
	for len(q.heap) > 0 {
		c := q.pop()
		proved := in.Places == nil || in.Places.Proved[c.ID] || !hasJoined(c)
		if c.Stale && !c.Held && proved && c.Group == group && left.obstacle(c) == "" {
			return choiceOf(c), true
		}
	}
	return Choice{}, false
}
