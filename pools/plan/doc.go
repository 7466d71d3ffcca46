// Package plan turns a pool's target capacity into what is to be asked of its
// groups: [Distribute] shares the target out, [Prune] chooses the instances to
// let go. [Order] is the order in which Prune looks at them.
//
//	dist, err := plan.Distribute(groups, target)
//	pruned := plan.Prune(plan.PruneInput{Nodes: nodes, Targets: dist.Targets(), Target: target, ...})
//
// Both results say why they are what they are: which groups stopped at a bound,
// why each instance was chosen, what kept the others.
//
// The package is pure: values in, values out. All of it may be used
// concurrently; nothing that is passed in is changed or kept.
package plan
