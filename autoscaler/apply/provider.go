package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// provider makes the calls that change the pool, each under the guard, and stores the resulting
// targets of the groups. It implements the ports of the drains, which use it concurrently.
type provider struct {
	guard  *guard
	now    func() time.Time
	trace  trace.Tracer
	cordon drain.Scheduler
	// workflow is Ports.Workflow.
	workflow func(pools.InPlaceRepair) (done bool, err error)
	latest   atomic.Pointer[snapshot.Snapshot] // nil before the first
	targets  *targets                          // targets of the groups in latest, after the calls since
	raised   map[string]bool                   // groups that accepted a higher target, and may not have filled up yet
}

func (p *provider) adopt(s *snapshot.Snapshot, state api.PoolState) {
	p.latest.Store(s)
	p.targets = newTargets(s.Groups, state, s.At)
}

// removals returns the backoffs of terminations. s has those of the last process.
func (p *provider) removals(s api.PoolState) []api.GroupBackoff {
	if p.targets == nil {
		return s.Removals
	}
	p.targets.mu.Lock()
	defer p.targets.mu.Unlock()
	return slices.Clone(p.targets.removals)
}

// find returns a group of the latest snapshot.
func (p *provider) find(id string) (pools.Group, bool) {
	s := p.latest.Load()
	if s == nil {
		return nil, false
	}
	return s.Group(id)
}

// free returns a group that no other party is changing.
func (p *provider) free(id string) (pools.Group, error) {
	g, ok := p.find(id)
	if !ok {
		return nil, fmt.Errorf("group %s is no longer in this pool", id)
	}
	if busy := p.latest.Load().Busy()[id]; busy != "" {
		return nil, fmt.Errorf("%w: group %s is not changed now: %s", pools.ErrRefused, id, busy)
	}
	return g, nil
}

// raise sets the targets of the groups, step by step, with that timeout for each step. saved saves the changes of a step before it; without
// that no further step begins. raise returns an error only if the process must end.
func (p *provider) raise(ctx context.Context, now time.Time, round *resolve.Round, timeout time.Duration, saved func([]resolve.TargetChange) error, r *Report) error {
	for changes := round.Next(); len(changes) > 0; changes = round.Next() {
		if err := saved(changes); err != nil {
			r.problem(err)
			return fatal(err)
		}
		ctx, cancel := p.guard.end(ctx, timeout)
		err := p.change(ctx, now, round, changes, r)
		cancel()
		if err != nil {
			return err
		}
	}
	r.problem(round.Err())
	return nil
}

// change makes the changes of one step concurrently, and reports their results to the round.
func (p *provider) change(ctx context.Context, now time.Time, round *resolve.Round, changes []resolve.TargetChange, r *Report) (err error) {
	actions, errs := make([]api.Action, len(changes)), make([]error, len(changes))
	var wg sync.WaitGroup
	for i, c := range changes {
		wg.Go(func() { actions[i], errs[i] = p.setTarget(ctx, now, c) })
	}
	wg.Wait()
	r.Actions = append(r.Actions, actions...)
	for i, c := range changes {
		round.Report(c, errs[i])
		switch {
		case fatal(errs[i]) != nil:
			err = errs[i]
		case c.Raises() && errs[i] == nil:
			p.raised[c.Group] = true
		case c.Raises() || errs[i] == nil: // a group that was lowered to what it has shows no capacity
			delete(p.raised, c.Group)
		}
	}
	return err
}

func (p *provider) setTarget(ctx context.Context, now time.Time, c resolve.TargetChange) (api.Action, error) {
	began := p.now()
	group, _ := p.find(c.Group) // the changes are of these groups
	called := false
	err := p.guard.call(ctx, func(ctx context.Context) error {
		called = true
		return p.trace.Do(ctx, trace.SetTarget, c.Group, func(ctx context.Context) error { return group.SetTarget(ctx, c.Target) })
	})
	if called {
		p.targets.set(c.Group, c.Target, now, err)
	}
	action := api.Action{Op: api.OpSetTarget, Group: c.Group, Target: c.Target, What: c.Why, Latency: p.now().Sub(began)}
	return endedAction(action, err), err
}

// Terminate implements drain.Groups.
func (p *provider) Terminate(ctx context.Context, group string, ids []string) error {
	g, err := p.free(group)
	if err != nil {
		return err
	}
	called := false
	err = p.guard.call(ctx, func(ctx context.Context) error {
		called = true
		return p.trace.Do(ctx, trace.Terminate, group, func(ctx context.Context) error { return g.Terminate(ctx, ids) })
	})
	if called {
		p.targets.lower(group, p.latest.Load().Weights(ids), err)
	}
	return err
}

// RepairInPlace implements drain.Repairers.
func (p *provider) RepairInPlace(ctx context.Context, group string, m pools.InPlaceRepair) (done bool, err error) {
	g, err := p.free(group)
	if err != nil {
		return false, err
	}
	if !supportsRepair(g, m.Kind) || m.Kind == api.RepairWorkflow && p.workflow == nil {
		return false, fmt.Errorf("%w: group %s does not support %s", pools.ErrRepairFailed, group, m.Kind)
	}
	err = p.guard.call(ctx, func(ctx context.Context) error {
		if m.Kind == api.RepairWorkflow {
			done, err = p.workflow(m)
		} else {
			ctx, end := p.trace.Begin(ctx, trace.Repair, group)
			done, err = g.(pools.Repairer).RepairInPlace(ctx, m)
			end(err)
		}
		return err
	})
	return done, err
}

// supportsRepair reports whether the instances of the group support that in-place repair.
func supportsRepair(g pools.Group, kind api.RepairKind) bool {
	if kind == api.RepairWorkflow {
		return true // the group does not run it
	}
	repairer, can := g.(pools.Repairer)
	return can && slices.Contains(repairer.RepairKinds(), kind)
}

// CordonFor implements drain.Informed.
func (p *provider) CordonFor(ctx context.Context, node string, reason api.DrainReason, deadline time.Time) error {
	informed, is := p.cordon.(drain.Informed)
	if !is {
		return p.Cordon(ctx, node, true)
	}
	return p.guard.call(ctx, func(ctx context.Context) error { return informed.CordonFor(ctx, node, reason, deadline) })
}

// Cordon implements drain.Scheduler.
func (p *provider) Cordon(ctx context.Context, node string, on bool) error {
	return p.guard.call(ctx, func(ctx context.Context) error { return p.cordon.Cordon(ctx, node, on) })
}
