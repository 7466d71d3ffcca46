package decide

import (
	"cmp"
	"slices"
	"time"
)

// at returns the rules' monotonic clock at that wall time.
func (s State) at(wall time.Time) time.Time {
	if s.Clock.IsZero() || s.Wall.IsZero() {
		return wall
	}
	return s.Clock.Add(max(0, wall.Sub(s.Wall)))
}

// recalled returns the state of the rules at that time. It has no times after now, is sorted, has
// valid quantities, and nothing too old to count.
func (s State) recalled(now, wall time.Time, p Policy) State {
	s.Clock, s.Wall = now, wall
	s.Raised, s.Lowered = earlier(s.Raised, now), earlier(s.Lowered, now)
	if !finite(s.Offset) {
		s.Offset = 0
	}
	changes := make([]Change, len(s.Changes))
	for i, c := range s.Changes {
		changes[i] = c.sane(now)
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return a.At.Compare(b.At) })
	s.Changes = since(changes, now, p.longest())
	s.Losses = s.recallLosses(now, p.Period)
	s.UnknownNeed = slices.Clone(s.UnknownNeed)
	for i, b := range s.UnknownNeed {
		s.UnknownNeed[i].Since = earlier(b.Since, now)
	}
	slices.SortFunc(s.UnknownNeed, func(a, b UnknownNeed) int {
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
