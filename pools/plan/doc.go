// Package plan turns a pool's target capacity into what is to be asked of its
// groups: [Distribute] shares the target out, [Orphans] and [Prune] choose the
// instances to let go. [Order] is the order in which Prune looks at them.
//
//	held := plan.Held(quarantines, now)
//	dist, err := plan.Distribute(plan.Hold(groups, held, has), target)
//	pruned := plan.Prune(plan.PruneInput{Nodes: nodes, Targets: dist.Targets(), Target: target, ...})
//
// A group that does not give what it was asked for is quarantined: [Failed] notes
// it, for longer each time, [Hold] leaves it at what it has, so that the others
// get its share, and [Recovered] ends it. The limits of a prune are those of a
// period; PruneInput.Spent is what is used up of them.
//
// The results say why they are what they are: which groups stopped at a bound,
// why each instance was chosen, what kept the others. In JSON a bound that is
// none is "inf".
//
// The package is pure: values in, values out. All of it may be used
// concurrently; nothing that is passed in is changed or kept.
package plan
