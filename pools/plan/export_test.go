package plan

// PruneInOrder is Prune without the count of a pool in which no node may go.
func PruneInOrder(in PruneInput) Pruned {
	p := newPruning(in)
	if !p.above() {
		return Pruned{}
	}
	p.takeInOrder(newQueue(in.Nodes, in.Limits, p.countKept))
	return p.result()
}
