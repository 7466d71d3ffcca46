package apply

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// targets holds the targets of the groups as they change after a snapshot. Any goroutine may use
// it.
type targets struct {
	mu       sync.Mutex
	groups   map[string]*groupTarget
	before   []api.GroupBackoff // of terminations, at the snapshot
	removals []api.GroupBackoff // the same after the terminations since
	clock    time.Time          // of the backoffs
}

type groupTarget struct {
	now           int // as far as known
	likely        int // the larger one, if the result of the last request is unknown
	resultUnknown bool
	least         int                   // the group's minimum
	unanswered    *api.UnansweredTarget // less what terminations have lowered
	at            time.Time             // of the last request; zero: no request
	ended         bool                  // a termination succeeded
	failures      []error               // of terminations, in order of their text
}

// newTargets returns the targets that the groups were read with at that time.
func newTargets(groups []pools.GroupSnapshot, s api.PoolState, now time.Time) *targets {
	t := &targets{groups: make(map[string]*groupTarget, len(groups)), before: s.Removals, removals: s.Removals, clock: decide.ClockAt(s.DecisionState, now)}
	for _, g := range groups {
		t.groups[g.ID] = &groupTarget{now: g.Target, likely: g.Target, least: g.Min, unanswered: s.Groups[g.ID].Unanswered}
	}
	return t
}

// target returns the current target of a group in the snapshot.
func (t *targets) target(g pools.GroupSnapshot) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.groups[g.ID].now
}

// likely returns the target of the group, or the larger one that it may have.
func (t *targets) likely(g pools.GroupSnapshot) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.groups[g.ID].likely
}

// set records the result of a request for a target.
func (t *targets) set(group string, target int, now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[group]
	g.at = now
	switch {
	case err == nil:
		g.now, g.likely = target, target
	case !resolve.Refused(err): // it may have taken effect
		g.resultUnknown, g.likely = true, max(g.likely, target)
	}
}

// lower records that instances of these weights were terminated, or may have been.
func (t *targets) lower(group string, weights []float64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[group]
	if err != nil {
		g.resultUnknown = g.resultUnknown || !resolve.Refused(err)
		g.failures = append(g.failures, err)
		slices.SortFunc(g.failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		t.removals = t.backoffs()
		return
	}
	g.ended = true
	t.removals = t.backoffs()
	for _, w := range weights {
		by := g.now - max(g.least, int(math.Floor(float64(g.now)-w)))
		g.now, g.likely = g.now-by, g.likely-by
		if u := g.unanswered; u != nil {
			g.unanswered = &api.UnansweredTarget{Target: u.Target - by, Since: u.Since}
		}
	}
}

// backoffs returns the backoffs after the terminations since the snapshot. Calls are concurrent, so their order has no effect: a
// success ends the backoffs of its group from before, and each failure counts.
func (t *targets) backoffs() []api.GroupBackoff {
	qs := t.before
	for _, id := range slices.Sorted(maps.Keys(t.groups)) {
		g := t.groups[id]
		if g.ended {
			qs = plan.ClearBackoff(qs, id)
		}
		for _, err := range g.failures {
			qs = plan.AddFailure(qs, id, decide.OneLine(err.Error()), resolve.ScaleOf(err), t.clock)
		}
	}
	return qs
}

// into returns s with these targets.
func (t *targets) into(s api.PoolState) api.PoolState {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Removals = slices.DeleteFunc(slices.Clone(t.removals), func(q api.GroupBackoff) bool { return t.groups[q.Group] == nil })
	s.Groups = maps.Clone(s.Groups)
	for group, of := range s.Groups {
		g := t.groups[group]
		if g == nil {
			continue
		}
		of.LastTarget, of.Unanswered = new(g.likely), g.unanswered
		if g.resultUnknown {
			of.ResultUnknown, of.UnknownSince = true, time.Time{}
		}
		if !g.at.IsZero() {
			of.At = g.at
		}
		s.Groups[group] = of
	}
	return s
}
