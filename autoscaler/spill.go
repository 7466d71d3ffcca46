package autoscaler

import (
	"context"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// intentOf returns what the first step of the round asks for, and who is let go.
func (m move) intentOf(now time.Time, round *resolve.Round) Intent {
	i := Intent{At: now, Targets: round.Planned()}
	for _, choices := range [][]plan.Choice{m.Replaced(), m.Pruned.Choices} {
		for _, c := range choices {
			i.LetGo = append(i.LetGo, c.ID)
		}
	}
	return i
}

// raise brings the groups of one tick to their targets. It returns an error only if the
// loop has to end.
func (l *Loop) raise(ctx context.Context, now time.Time, m move, round *resolve.Round) error {
	for changes := round.Next(); len(changes) > 0; changes = round.Next() {
		if err := l.askAll(ctx, now, m, round, changes); err != nil {
			return err
		}
	}
	m.record.problem(round.Err())
	return nil
}

// askAll asks all of them at the same time. It returns an error only if the loop has to
// end.
func (l *Loop) askAll(ctx context.Context, now time.Time, m move, round *resolve.Round, changes []resolve.TargetChange) (err error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	actions, errs := make([]Action, len(changes)), make([]error, len(changes))
	var wg sync.WaitGroup
	for i, c := range changes {
		wg.Go(func() { actions[i], errs[i] = l.setTarget(ctx, now, m.view, c) })
	}
	wg.Wait()
	m.record.Actions = append(m.record.Actions, actions...)
	for i, c := range changes {
		round.Report(c, errs[i])
		switch {
		case fatal(errs[i]) != nil:
			err = errs[i]
		case c.Raises() && errs[i] == nil:
			l.raised[c.Group] = true
		case c.Raises() && resolve.Refused(errs[i]):
			delete(l.raised, c.Group)
		}
	}
	return err
}

// setTarget asks one group, and notes what came of it.
func (l *Loop) setTarget(ctx context.Context, now time.Time, v *snapshot.Snapshot, c resolve.TargetChange) (Action, error) {
	began := time.Now()
	group, _ := v.Group(c.Group) // the changes are of these groups
	called := false
	err := l.write(ctx, func(ctx context.Context) error {
		called = true
		return group.SetTarget(ctx, c.Target)
	})
	if called {
		l.tally.set(c.Group, c.Target, now, err)
	}
	action := Action{Op: OpSetTarget, Group: c.Group, Target: c.Target, What: c.Why, Latency: time.Since(began)}
	return action.ended(err), err
}
