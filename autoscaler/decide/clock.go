package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// ClockAt returns the rules' monotonic clock at that wall time.
func ClockAt(s api.DecisionState, wall time.Time) time.Time {
	wall = wall.Round(0) // a monotonic reading would not survive the ledger
	if s.Clock.IsZero() || s.Wall.IsZero() {
		return wall
	}
	return s.Clock.Add(max(0, wall.Sub(s.Wall)))
}

// recalledState returns the state of the rules at that time. It has no times after now, is sorted, has
// valid quantities, and nothing too old to count.
func recalledState(s api.DecisionState, now, wall time.Time, p api.DecisionPolicy) api.DecisionState {
	s.Clock, s.Wall = now, wall
	s.Raised, s.Lowered = earlier(s.Raised, now), earlier(s.Lowered, now)
	if !finite(s.Offset) {
		s.Offset = 0
	}
	changes := make([]api.TargetChange, len(s.Changes))
	for i, c := range s.Changes {
		changes[i] = saneChange(c, now)
	}
	slices.SortStableFunc(changes, func(a, b api.TargetChange) int { return a.At.Compare(b.At) })
	s.Changes = since(changes, now, longestWindow(p))
	s.Losses = recalledLosses(s, now, p.Period)
	s.UnknownNeed = slices.Clone(s.UnknownNeed)
	for i, b := range s.UnknownNeed {
		s.UnknownNeed[i].Since = earlier(b.Since, now)
	}
	slices.SortFunc(s.UnknownNeed, func(a, b api.UnknownNeed) int {
		return cmp.Or(cmp.Compare(a.App, b.App), a.Since.Compare(b.Since))
	})
	return s
}

func earlier(a, b time.Time) time.Time {
	a = a.Round(0) // a monotonic reading would not survive the ledger
	if a.After(b) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
