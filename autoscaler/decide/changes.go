package decide

import (
	"math"
	"slices"
	"time"
)

const (
	// mostChanges bounds what a State remembers of changes, newestChanges how many
	// of them stay apart in any case.
	mostChanges   = 1000
	newestChanges = 400
	// slots is into how many parts of a window what is merged in it falls.
	slots = 500
)

// Changed returns s with what the plan of this tick came to: weight added to the
// pool's target, weight and tasks taken out of it. It is of the time s.Clock,
// whatever c.At says. What is older than longest, the longest window that
// anybody looks back on, is forgotten. Of more than a thousand changes the older
// ones are merged, so that they count for up to 1/500 of longest more; no
// weight is forgotten before its time.
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

// Spent returns how much weight and how many tasks were taken out of the pool
// within the policy's Period.
func (s State) Spent(p Policy) (weight float64, tasks int) {
	used := s.used(p.Period)
	return used.Down, used.Tasks
}

// used sums up the changes of a window that ends at s.Clock.
func (s State) used(window time.Duration) Change {
	var sum Change
	for _, c := range s.Changes {
		if s.within(c.At, window) {
			sum = sum.and(c)
		}
	}
	return sum
}

// within reports whether a time is in the window that ends at s.Clock. That is a
// thousandth shorter than it says, so that ticks of just that length do not meet
// in it when the clock is slewed.
func (s State) within(at time.Time, window time.Duration) bool {
	return s.Clock.Sub(at) < window-window/1000
}

// longest is how far back the limits look.
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

// merged returns at most mostChanges of the changes, oldest first. The newest
// stay as they are. An older one is joined with those of its slot of time, at the
// last time in it: slots do not move, so nothing is put off twice.
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

// and returns both changes as one, of the time of the second.
func (c Change) and(d Change) Change {
	return Change{At: d.At, Up: bounded(c.Up + d.Up), Down: bounded(c.Down + d.Down), Tasks: added(c.Tasks, d.Tasks)}
}

// sane returns c with quantities that are some, and not of the future.
func (c Change) sane(now time.Time) Change {
	return Change{At: earlier(c.At, now), Up: quantity(c.Up), Down: quantity(c.Down), Tasks: max(c.Tasks, 0)}
}

// quantity is x, or 0 if it is less or no number.
func quantity(x float64) float64 {
	if x > 0 {
		return bounded(x)
	}
	return 0
}

// added is the sum of two numbers of at least 0, as far as an int goes.
func added(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
