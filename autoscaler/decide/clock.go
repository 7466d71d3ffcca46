package decide

import (
	"cmp"
	"slices"
	"time"
)

// at returns the rules' own time when the clock on the wall shows that one.
func (s State) at(wall time.Time) time.Time {
	if s.Clock.IsZero() || s.Wall.IsZero() {
		return wall
	}
	return s.Clock.Add(max(0, wall.Sub(s.Wall)))
}

// recalled returns what the rules remember of s at that time: nothing of it is
// of the future, in no order, or no quantity, and nothing is too old to count.
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
	s.Blind = slices.Clone(s.Blind)
	for i, b := range s.Blind {
		s.Blind[i].Since = earlier(b.Since, now)
	}
	slices.SortFunc(s.Blind, func(a, b Blind) int {
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
