package autoscaler

import (
	"errors"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
)

// tally keeps which targets the groups have, and were asked for, while they are
// changed.
type tally struct {
	mu    sync.Mutex
	found map[string]int // as they are now
	asked map[string]int // as [resolve.State]; a group of which nobody knows is not in it
	at    map[string]time.Time
	least map[string]int // their minima
}

// newTally returns the tally of groups that were asked for that.
func newTally(groups []pools.GroupSnapshot, asked map[string]int, at map[string]time.Time) *tally {
	t := &tally{found: map[string]int{}, asked: asked, at: map[string]time.Time{}, least: map[string]int{}}
	for _, g := range groups {
		t.found[g.ID], t.least[g.ID] = g.Target, g.Min
		if when, ok := at[g.ID]; ok {
			t.at[g.ID] = when
		}
	}
	return t
}

// target returns the target that the group has now.
func (t *tally) target(group string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.found[group]
}

// set notes that a group was asked for a target, and what came of it.
func (t *tally) set(group string, target int, now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at[group] = now
	switch {
	case err == nil:
		t.found[group], t.asked[group] = target, target
	case !refused(err):
		delete(t.asked, group) // it may have taken effect
	}
}

// adopt notes that a target which somebody else has given a group is ours from now on.
func (t *tally) adopt(group string, target int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked[group] = target
}

// lower notes that instances of these weights were ended, or may have been.
func (t *tally) lower(group string, weights []float64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if !refused(err) {
			delete(t.asked, group)
		}
		return
	}
	for _, w := range weights {
		t.found[group] = max(t.least[group], int(math.Floor(float64(t.found[group])-w)))
	}
	if asked, known := t.asked[group]; known {
		t.asked[group] = min(asked, t.found[group])
	}
}

// into returns s with what the groups were asked for.
func (t *tally) into(s resolve.State) resolve.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Asked, s.AskedAt = maps.Clone(t.asked), maps.Clone(t.at)
	return s
}

// refused reports whether the provider has done nothing, and will not at once: the
// group is left alone for a while then.
func refused(err error) bool {
	return errors.Is(err, pools.ErrShort) || errors.Is(err, pools.ErrRefused) || errors.Is(err, pools.ErrThrottled)
}
