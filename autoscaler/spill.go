package autoscaler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// push brings the groups of one tick to their targets. What a group is refused is
// shared out again among the others, until nobody refuses; a group that has refused
// is not asked for more in the same tick.
type push struct {
	loop *Loop
	now  time.Time
	move
	distribution plan.Distribution // the newest
	groups       []plan.GroupTarget
	has          map[string]int
	beside       map[string]int // what a group's target holds beside its share
	quarantines  []plan.Quarantine
	along        map[string]int // weight of the pruned that a group's target must hold, to lose it with them
	surged       map[string]int // ordered in this tick, less what a lowered group has lost
	reached      map[string]bool
	failed       map[string]error
}

// targetChange is a new target of a group.
type targetChange struct {
	group  string
	share  int // in the terms of Case.Groups
	surge  int // that it brings about
	target int // at the provider
	why    string
}

// newPush returns a push that has done nothing yet.
func (l *Loop) newPush(now time.Time, m move) *push {
	groups, has := m.Case.TakenBack(&resolve.Outcome{Decision: m.Decision})
	return &push{
		loop: l, now: now, move: m, distribution: m.Distribution, groups: groups, has: has, beside: m.beside(m.Outcome.TakeBack),
		quarantines: m.Case.State.Quarantines, along: m.Along(m.Pruned.Choices), surged: map[string]int{}, reached: map[string]bool{}, failed: map[string]error{},
	}
}

// intent is what the first asking will ask for.
func (p *push) intent() Intent {
	i := Intent{At: p.now, Targets: map[string]int{}}
	for _, a := range append(p.asks(), p.lowerings()...) {
		i.Targets[a.group] = a.target
	}
	for _, c := range slices.Concat(p.Replaced(), p.Pruned.Choices) {
		i.LetGo = append(i.LetGo, c.ID)
	}
	return i
}

// run asks until nobody refuses, and then has the groups that are set aside want no
// more than they have.
func (p *push) run(ctx context.Context) error {
	for {
		asks := p.asks()
		if len(asks) == 0 {
			break
		}
		spilled, err := p.askAll(ctx, asks)
		if err != nil {
			return err
		}
		if !spilled {
			break
		}
		d, err := plan.Distribute(p.Bound(p.groups, p.heldNow(), p.has), p.Decision.Target)
		if err != nil { // it was possible before
			p.record.problem(err)
			break
		}
		p.distribution = d
	}
	if low := p.lowerings(); len(low) > 0 {
		_, err := p.askAll(ctx, low)
		return err
	}
	return nil
}

// heldNow returns the groups that are set aside, also by this push.
func (p *push) heldNow() map[string]plan.Quarantine {
	return p.Held(p.quarantines, p.Decision.State.Clock)
}

// asks returns the targets of the groups that are to grow, to hold a surge, or to keep
// their share when nodes leave that take more of the target along.
func (p *push) asks() []targetChange {
	var out []targetChange
	for _, s := range p.distribution.Shares {
		i := p.index(s.Group)
		if i < 0 || p.failed[s.Group] != nil || p.groups[i].Stale || p.Busy[s.Group] != "" {
			continue
		}
		a := targetChange{group: s.Group, share: max(s.After, p.groups[i].Target), surge: p.Surge[s.Group]}
		if _, done := p.surged[s.Group]; done {
			a.surge = 0
		}
		found, beside := p.loop.tally.target(s.Group), p.beside[s.Group]+a.surge
		most, there := p.bounds(s.Group)
		// Beyond what is there a target would only launch what is let go next.
		a.target = max(a.share+beside, min(s.After+p.along[s.Group]+beside, there+a.surge))
		a.target = min(a.target, max(found, most))
		if a.target > found {
			out = append(out, a)
		}
	}
	return out
}

// bounds returns the maximum of a group's target, and the whole weight that is there.
func (p *push) bounds(group string) (most, there int) {
	for _, g := range p.view.groups {
		if g.ID == group {
			return g.Max, resolve.Whole(g.Fulfilled())
		}
	}
	return 0, 0
}

// ordered returns the surge that was ordered in this tick.
func (p *push) ordered() int {
	sum := 0
	for _, more := range p.surged {
		sum += max(0, more)
	}
	return sum
}

func (p *push) index(group string) int {
	return slices.IndexFunc(p.groups, func(g plan.GroupTarget) bool { return g.ID == group })
}

// reach notes that a group has the target of a.
func (p *push) reach(a targetChange) {
	g := &p.groups[p.index(a.group)]
	if n, known := p.has[a.group]; known { // it was given
		p.has[a.group] = n + a.share - g.Target
	}
	g.Target = a.share
	p.reached[a.group] = true
	p.beside[a.group] += a.surge
	if a.surge > 0 {
		p.surged[a.group] += a.surge
	}
}

// lowerings returns the targets of the groups that are set aside and want more than
// they have, so that they do not get it beside those who stand in for them.
func (p *push) lowerings() []targetChange {
	held := p.heldNow()
	var out []targetChange
	for _, g := range p.view.groups {
		q, aside := held[g.ID]
		target := max(g.Min, resolve.Whole(g.Fulfilled()))
		if p.reached[g.ID] {
			continue // it was given more in this tick
		}
		if why := p.failed[g.ID]; why != nil && (!refused(why) || errors.Is(why, pools.ErrThrottled)) {
			continue
		}
		if !aside || q.Keeps || g.Stale || target >= p.loop.tally.target(g.ID) {
			continue
		}
		out = append(out, targetChange{group: g.ID, target: target, why: "set aside: " + q.Why})
	}
	return out
}

// askAll asks all of them at the same time. It reports whether a group has refused,
// and returns an error only if the loop has to end.
func (p *push) askAll(ctx context.Context, asks []targetChange) (spilled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.loop.config.stepTimeout())
	defer cancel()
	actions, errs, found := make([]Action, len(asks)), make([]error, len(asks)), make([]int, len(asks))
	for i, a := range asks {
		found[i] = p.loop.tally.target(a.group)
	}
	var wg sync.WaitGroup
	for i, a := range asks {
		wg.Go(func() { actions[i], errs[i] = p.loop.setTarget(ctx, p.now, p.view, a) })
	}
	wg.Wait()
	p.record.Actions = append(p.record.Actions, actions...)
	for i, a := range asks {
		switch {
		case errs[i] == nil && a.why == "":
			p.reach(a)
			p.loop.raised[a.group] = true
		case errs[i] == nil:
			lost := found[i] - p.loop.tally.target(a.group)
			p.surged[a.group] -= min(lost, p.Case.State.Groups[a.group].Surge) // the surge is lost first
		default:
			p.failed[a.group] = errs[i]
			if fatal(errs[i]) != nil {
				err = errs[i]
			}
			if refused(errs[i]) && a.why == "" {
				p.quarantines = plan.Failed(p.quarantines, a.group, decide.OneLine(errs[i].Error()), p.Decision.State.Clock)
				if !errors.Is(errs[i], pools.ErrShort) {
					p.quarantines = plan.Keeping(p.quarantines, a.group)
				}
				delete(p.loop.raised, a.group)
				spilled = true
			}
		}
	}
	return spilled, err
}

// setTarget asks one group, and notes what came of it.
func (l *Loop) setTarget(ctx context.Context, now time.Time, v *view, a targetChange) (Action, error) {
	began := time.Now()
	group, _ := v.asker.find(a.group) // the asks are of these groups
	called := false
	err := l.write(ctx, func(ctx context.Context) error {
		called = true
		return group.SetTarget(ctx, a.target)
	})
	if called {
		l.tally.set(a.group, a.target, now, err)
	}
	action := Action{Op: OpSetTarget, Group: a.group, Target: a.target, What: a.why, Latency: time.Since(began)}
	return action.ended(err), err
}
