package autoscaler

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
)

// tally keeps which targets the groups have while they are changed.
type tally struct {
	mu     sync.Mutex
	groups map[string]*counted
}

// counted is the target of one group.
type counted struct {
	now    int // as far as it is known
	likely int // the larger one, if the last request has an unknown end
	doubt  bool
	least  int // the group's minimum
	at     time.Time
}

// newTally returns the tally of groups as they were found, raised last at these times.
func newTally(groups []pools.GroupSnapshot, known map[string]resolve.GroupState) *tally {
	t := &tally{groups: make(map[string]*counted, len(groups))}
	for _, g := range groups {
		t.groups[g.ID] = &counted{now: g.Target, likely: g.Target, least: g.Min, at: known[g.ID].At}
	}
	return t
}

// target returns the target that the group has now.
func (t *tally) target(group string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.groups[group]; g != nil {
		return g.now
	}
	return 0
}

// likely returns the target that the group has, or the larger one that it may have.
func (t *tally) likely(group string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.groups[group]; g != nil {
		return g.likely
	}
	return 0
}

// set notes that a group was asked for a target, and what came of it.
func (t *tally) set(group string, target int, now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[group]
	g.at = now
	switch {
	case err == nil:
		g.now, g.likely = target, target
	case !resolve.Refused(err): // it may have taken effect
		g.doubt, g.likely = true, max(g.likely, target)
	}
}

// lower notes that instances of these weights were terminated, or may have been.
func (t *tally) lower(group string, weights []float64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[group]
	if err != nil {
		g.doubt = g.doubt || !resolve.Refused(err)
		return
	}
	for _, w := range weights {
		by := g.now - max(g.least, int(math.Floor(float64(g.now)-w)))
		g.now, g.likely = g.now-by, g.likely-by
	}
}

// into returns s with the targets that the groups have.
func (t *tally) into(s resolve.State) resolve.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Groups = maps.Clone(s.Groups)
	for group, of := range s.Groups {
		if g := t.groups[group]; g != nil {
			of.Asked, of.Doubt, of.At = new(g.likely), of.Doubt || g.doubt, g.at
			s.Groups[group] = of
		}
	}
	return s
}
