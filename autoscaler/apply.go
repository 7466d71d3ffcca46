package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// plan turns a decision into group targets and nodes to let go. What is
// committed to leave counts neither as target nor as capacity.
func (l *Loop) plan(now time.Time, s Snapshot, d decide.Decision, committed map[string]float64) Plan {
	p := Plan{Committed: committed, Groups: s.groupTargets(committed)}
	distribution, err := plan.Distribute(p.Groups, d.Target)
	if err != nil {
		p.Refused = err.Error()
		return p
	}
	p.Distribution = distribution
	p.PruneInput = plan.PruneInput{
		Targets: distribution.Targets(), Target: d.Target, Joined: s.Joined, Limits: l.config.Prune,
	}
	leaving := l.leaving()
	for _, n := range s.Nodes {
		if leaving[n.Instance.ID] {
			p.PruneInput.Joined -= joinedWeight(n)
			continue
		}
		p.PruneInput.Nodes = append(p.PruneInput.Nodes, plan.CandidateOf(now, n))
	}
	if len(s.Silent) > 0 {
		p.Refused = "some nodes are silent: nobody is let go"
		return p
	}
	p.Pruned = plan.Prune(p.PruneInput)
	return p
}

func joinedWeight(n pools.Node) float64 {
	if n.State == pools.NodeIdle || n.State == pools.NodeRunning {
		return n.Instance.Weight
	}
	return 0
}

// leaving returns the nodes that are on their way out.
func (l *Loop) leaving() map[string]bool {
	out := map[string]bool{}
	for _, r := range l.world.Drains.Records() {
		if r.State.Leaving() || r.State == drain.Terminating {
			out[r.Node] = true
		}
	}
	return out
}

// takeBack keeps nodes that are on their way out and are needed again.
func (l *Loop) takeBack(ctx context.Context, now time.Time, r *Record) {
	need := r.Decision.Target - r.Input.Capacity.Target
	if need <= 0 || len(l.world.Drains.Records()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	kept, err := l.world.Drains.TakeBack(ctx, now, need)
	if kept > 0 || err != nil {
		a := Action{Op: OpTakeBack, What: fmt.Sprintf("%g that were on their way out are needed again", kept)}
		r.Actions = append(r.Actions, a.ended(err))
	}
}

// act raises targets, begins the drains of nodes that are not needed, and goes
// on with all drains.
func (l *Loop) act(ctx context.Context, now time.Time, r *Record) {
	l.raise(ctx, r)
	l.letGo(ctx, now, r)
	l.drain(ctx, now, r)
}

// raise gives the groups that are to grow their shares, all at the same time.
func (l *Loop) raise(ctx context.Context, r *Record) {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	grow := slices.DeleteFunc(slices.Clone(r.Plan.Distribution.Shares), func(s plan.Share) bool { return s.After <= s.Before })
	actions := make([]Action, len(grow))
	var wg sync.WaitGroup
	for i, share := range grow {
		// What a group still holds of those that leave comes on top.
		target := share.After + int(r.Plan.Committed[share.Group])
		wg.Go(func() { actions[i] = l.setTarget(ctx, share.Group, target) })
	}
	wg.Wait()
	r.Actions = append(r.Actions, actions...)
}

func (l *Loop) setTarget(ctx context.Context, id string, target int) Action {
	began := time.Now()
	group, _ := l.world.Groups.find(id) // the shares are of these groups
	err := group.SetTarget(ctx, target)
	a := Action{Op: OpSetTarget, Group: id, Target: target, Latency: time.Since(began)}
	return a.ended(err)
}

// letGo begins the drains of those whom the plan has chosen.
func (l *Loop) letGo(ctx context.Context, now time.Time, r *Record) {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	for _, c := range r.Plan.Pruned.Choices {
		a := Action{Op: OpLetGo, Group: c.Group, Node: c.ID, What: string(c.Why)}
		err := l.world.Drains.Add(ctx, now, drain.Choice{
			Node: c.ID, Group: c.Group, Weight: c.Weight, Reason: drain.ScaleIn, Why: string(c.Why),
		})
		r.Actions = append(r.Actions, a.ended(err))
	}
}

func (a Action) ended(err error) Action {
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// drain takes every drain as far as it can go now.
func (l *Loop) drain(ctx context.Context, now time.Time, r *Record) {
	views := make(map[string]drain.View, len(r.Snapshot.Nodes))
	for _, n := range r.Snapshot.Nodes {
		views[n.Instance.ID] = viewOf(now, n)
	}
	// Who joined while the signals were asked is no orphan any more.
	for _, f := range l.world.Scheduler.Facts(time.Now()) {
		if v, there := views[f.ID]; there && v.Node == pools.NodeOrphaned {
			v.Node = pools.NodeUnknown
			views[f.ID] = v
		}
	}
	for _, record := range l.world.Drains.Records() {
		if _, there := views[record.Node]; !there {
			views[record.Node] = drain.View{Instance: drain.Absent, At: now}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	events, err := l.world.Drains.Advance(ctx, now, views)
	for _, e := range events {
		what := fmt.Sprintf("%s -> %s", e.From, e.To)
		if e.Why != "" {
			what += ": " + e.Why
		}
		r.Actions = append(r.Actions, Action{Op: OpDrain, Group: e.Group, Node: e.Node, What: what, Error: e.Err})
	}
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
	r.Drains = l.world.Drains.Records()
}

// viewOf is a node as its drain sees it. The groups were read whole, so a node
// that is not in them is absent.
func viewOf(now time.Time, n pools.Node) drain.View {
	v := drain.View{
		Instance: drain.Present, At: now, Protected: n.Instance.Protected, Node: n.State,
		FactsAt: n.Facts.At, Cordoned: n.Facts.Draining, Tasks: n.Facts.Tasks,
	}
	if n.Instance.State == pools.InstanceTerminating {
		v.Instance = drain.Ending
	}
	return v
}
