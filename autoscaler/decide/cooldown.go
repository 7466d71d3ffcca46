package decide

import "fmt"

// calm keeps the target at t while the pool cools down after a change of either
// direction. A t that is outside of the limits may go to them, and not farther;
// wanted is within them.
func calm(in Input, s State, t, wanted float64) (float64, string) {
	last := later(s.Raised, s.Lowered)
	if last.IsZero() {
		return wanted, ""
	}
	quiet, l, wait := s.Clock.Sub(last), in.Policy.Limits, in.Policy.Cooldown
	at := min(max(t, l.Min), l.Max)
	switch {
	case wanted > at && quiet < wait.Up:
		return at, fmt.Sprintf("changed %v ago, not raised for %v", quiet, wait.Up)
	case wanted < at && quiet < wait.Down:
		return at, fmt.Sprintf("changed %v ago, not lowered for %v", quiet, wait.Down)
	}
	return wanted, ""
}
