// Package plan turns a pool's target capacity into targets and terminations of its groups:
// [Distribute] distributes the target, [Orphans] and [Prune] choose the instances to terminate.
// Prune evaluates the instances in the order of [Order].
//
//	held := plan.InBackoff(backoffs, now)
//	dist, err := plan.Distribute(plan.FixTargets(groups, held, has), target)
//	pruned := plan.Prune(plan.PruneInput{Nodes: nodes, Targets: dist.Targets(), Target: target, ...})
//
// If a group does not fulfill its target, it gets a backoff. [AddFailure] adds the failure: each
// further one of its scale doubles the backoff. [FixTargets] keeps the group at its fulfilled weight, so that the
// other groups get its share. [ClearBackoff] ends the backoff. The limits of a prune apply to a
// period, and PruneInput.Spent is the used part of them.
//
// The results contain their reasons: the groups at a bound, the reason for each chosen instance,
// the cause that kept the others. In JSON an unlimited bound is "inf".
//
// The package is pure and may be used concurrently. It does not change or retain its arguments.
package plan
