package bootstrap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// ErrOtherPool: a plan belongs to another cluster or pool.
var ErrOtherPool = errors.New("the plan is of another pool")

// Update changes the plan. If the plan is invalid, it returns an error and the previous plan stays. It does not wait
// for processes: those that differ are replaced one by one, the others continue. The caller must not change the plan
// afterwards.
func (b *Bootstrap) Update(p Plan) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("bootstrap plan: %w", err)
	}
	removed, err := b.replan(p)
	if err != nil {
		return fmt.Errorf("bootstrap plan: %w", err)
	}
	b.stream.expect(p.Tick)
	revision := b.stream.announce()
	for _, s := range removed {
		s.retire(revision)
	}
	select {
	case b.newProcesses <- struct{}{}:
	default:
	}
	return nil
}

// replan assigns each signal of the plan an app process, and returns the app processes of removed signals.
func (b *Bootstrap) replan(p Plan) (removed []*appProcess, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.appProcesses) > 0 && (p.Cluster != b.plan.Cluster || p.Pool != b.plan.Pool) {
		return nil, fmt.Errorf("%w: %s/%s, not %s/%s", ErrOtherPool, p.Cluster, p.Pool, b.plan.Cluster, b.plan.Pool)
	}
	maps.DeleteFunc(b.ending, func(_ string, s *appProcess) bool { return s.hasEnded() })
	appProcesses := make([]*appProcess, len(p.Signals))
	for i, signal := range p.Signals {
		if appProcesses[i] = b.appProcessLocked(signal.App); appProcesses[i] != nil {
			continue
		}
		var trial api.Trial
		if signal.Shadow != nil {
			trial = selectTrial(b.kept, signal, time.Now())
		}
		if appProcesses[i], err = newAppProcess(b.dependencies, signal, trial); err != nil {
			return nil, err
		}
		if before := b.ending[signal.App]; before != nil {
			appProcesses[i].after = before.ended
		}
	}
	for i, s := range appProcesses {
		s.replan(p.Signals[i])
	}
	for _, s := range b.appProcesses {
		if !slices.Contains(appProcesses, s) {
			removed = append(removed, s)
			if b.started[s] {
				b.ending[s.app] = s
			}
			delete(b.started, s)
		}
	}
	b.plan, b.appProcesses = p, appProcesses
	return removed, nil
}

// appProcessLocked returns the app process of an app, or nil.
func (b *Bootstrap) appProcessLocked(app string) *appProcess {
	i := slices.IndexFunc(b.appProcesses, func(s *appProcess) bool { return s.app == app })
	if i < 0 {
		return nil
	}
	return b.appProcesses[i]
}
