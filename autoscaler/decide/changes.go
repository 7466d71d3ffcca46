package decide

import (
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

const (
	// mostChanges is the maximum number of changes in a State. The newest newestChanges of them are
	// never merged.
	mostChanges   = 1000
	newestChanges = 400
	// slots is the number of parts of a window. Changes are merged within one part.
	slots = 500
)

// AfterChange returns s with the result of this tick's plan: weight added to the pool's target, weight
// and tasks removed from it. The change has the time s.Clock, whatever c.At is. Changes older than
// longest, the longest window of all limits, are dropped. Of more than a thousand changes the older
// ones are merged, so that they count for up to 1/500 of longest more. No weight is dropped before
// its time.
func AfterChange(s api.DecisionState, c api.TargetChange, longest time.Duration) api.DecisionState {
	c.At = s.Clock
	c = saneChange(c, s.Clock)
	if c.Up > 0 {
		s.Raised = s.Clock
	}
	if c.Down > 0 {
		s.Lowered = s.Clock
	}
	changes := since(s.Changes, s.Clock, longest)
	if c.Up > 0 || c.Down > 0 || c.Tasks > 0 {
		changes = append(changes, c)
	}
	s.Changes = merged(changes, longest)
	return s
}

// Spent returns the weight and the tasks that were removed from the pool within the policy's
// Period.
func Spent(s api.DecisionState, p api.DecisionPolicy) (weight float64, tasks int) {
	used := usedWithin(s, p.Period)
	return used.Down, used.Tasks
}

// usedWithin sums the changes of a window that ends at s.Clock.
func usedWithin(s api.DecisionState, window time.Duration) api.TargetChange {
	var sum api.TargetChange
	for _, c := range s.Changes {
		if isWithin(s, c.At, window) {
			sum = sumOf(sum, c)
		}
	}
	return sum
}

// isWithin reports whether a time is in the window that ends at s.Clock. The window is shortened by a
// thousandth. So two ticks exactly one window apart are not both in it when the clock is slewed.
func isWithin(s api.DecisionState, at time.Time, window time.Duration) bool {
	return s.Clock.Sub(at) < window-window/1000
}

// longestWindow returns the longest window of the limits.
func longestWindow(p api.DecisionPolicy) time.Duration {
	longest := p.Period
	for _, b := range p.Budgets {
		longest = max(longest, b.Within)
	}
	return longest
}

// since returns the changes, oldest first, that are younger than the window.
func since(changes []api.TargetChange, now time.Time, window time.Duration) []api.TargetChange {
	first := slices.IndexFunc(changes, func(c api.TargetChange) bool { return now.Sub(c.At) < window })
	if first < 0 {
		return nil
	}
	return slices.Clone(changes[first:])
}

// merged returns at most mostChanges of the changes, oldest first. The newest stay unchanged. An
// older one is merged with those of its time slot, at the last time in the slot. Slots do not move,
// so no change is delayed twice.
func merged(changes []api.TargetChange, longest time.Duration) []api.TargetChange {
	if len(changes) <= mostChanges {
		return changes
	}
	slot := max(longest/slots, 1)
	older := len(changes) - newestChanges
	out := make([]api.TargetChange, 0, mostChanges)
	for i, c := range changes {
		last := len(out) - 1
		if i > 0 && i < older && out[last].At.Truncate(slot).Equal(c.At.Truncate(slot)) {
			out[last] = sumOf(out[last], c)
		} else {
			out = append(out, c)
		}
	}
	return out
}

// sumOf returns both changes as one, with the time of the second.
func sumOf(c api.TargetChange, d api.TargetChange) api.TargetChange {
	return api.TargetChange{At: d.At, Up: bounded(c.Up + d.Up), Down: bounded(c.Down + d.Down), Tasks: added(c.Tasks, d.Tasks)}
}

// saneChange returns c with valid quantities and a time that is not after now.
func saneChange(c api.TargetChange, now time.Time) api.TargetChange {
	return api.TargetChange{At: earlier(c.At, now), Up: quantity(c.Up), Down: quantity(c.Down), Tasks: max(c.Tasks, 0)}
}

// quantity returns x, or 0 if x is negative or not a number.
func quantity(x float64) float64 {
	if x > 0 {
		return bounded(x)
	}
	return 0
}

// added returns the sum of two numbers of at least 0, at most MaxInt.
func added(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
