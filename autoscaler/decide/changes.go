package decide

import (
	"math"
	"slices"
	"time"
)

const (
	// mostChanges is the maximum number of changes in a State. The newest newestChanges of them are
	// never merged.
	mostChanges   = 1000
	newestChanges = 400
	// slots is the number of parts of a window. Changes are merged within one part.
	slots = 500
)

// Changed returns s with the result of this tick's plan: weight added to the pool's target, weight
// and tasks removed from it. The change has the time s.Clock, whatever c.At is. Changes older than
// longest, the longest window of all limits, are dropped. Of more than a thousand changes the older
// ones are merged, so that they count for up to 1/500 of longest more. No weight is dropped before
// its time.
func (s State) Changed(c Change, longest time.Duration) State {
	c.At = s.Clock
	c = c.sane(s.Clock)
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
func (s State) Spent(p Policy) (weight float64, tasks int) {
	used := s.used(p.Period)
	return used.Down, used.Tasks
}

// used sums the changes of a window that ends at s.Clock.
func (s State) used(window time.Duration) Change {
	var sum Change
	for _, c := range s.Changes {
		if s.within(c.At, window) {
			sum = sum.and(c)
		}
	}
	return sum
}

// within reports whether a time is in the window that ends at s.Clock. The window is shortened by a
// thousandth. So two ticks exactly one window apart are not both in it when the clock is slewed.
func (s State) within(at time.Time, window time.Duration) bool {
	return s.Clock.Sub(at) < window-window/1000
}

// longest returns the longest window of the limits.
func (p Policy) longest() time.Duration {
	longest := p.Period
	for _, b := range p.Budgets {
		longest = max(longest, b.Within)
	}
	return longest
}

// since returns the changes, oldest first, that are younger than the window.
func since(changes []Change, now time.Time, window time.Duration) []Change {
	first := slices.IndexFunc(changes, func(c Change) bool { return now.Sub(c.At) < window })
	if first < 0 {
		return nil
	}
	return slices.Clone(changes[first:])
}

// merged returns at most mostChanges of the changes, oldest first. The newest stay unchanged. An
// older one is merged with those of its time slot, at the last time in the slot. Slots do not move,
// so no change is delayed twice.
func merged(changes []Change, longest time.Duration) []Change {
	if len(changes) <= mostChanges {
		return changes
	}
	slot := max(longest/slots, 1)
	older := len(changes) - newestChanges
	out := make([]Change, 0, mostChanges)
	for i, c := range changes {
		last := len(out) - 1
		if i > 0 && i < older && out[last].At.Truncate(slot).Equal(c.At.Truncate(slot)) {
			out[last] = out[last].and(c)
		} else {
			out = append(out, c)
		}
	}
	return out
}

// and returns both changes as one, with the time of the second.
func (c Change) and(d Change) Change {
	return Change{At: d.At, Up: bounded(c.Up + d.Up), Down: bounded(c.Down + d.Down), Tasks: added(c.Tasks, d.Tasks)}
}

// sane returns c with valid quantities and a time that is not after now.
func (c Change) sane(now time.Time) Change {
	return Change{At: earlier(c.At, now), Up: quantity(c.Up), Down: quantity(c.Down), Tasks: max(c.Tasks, 0)}
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
