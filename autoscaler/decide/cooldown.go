package decide

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// applyCooldown keeps the target at t while the pool cools down after a change in either direction. A t
// outside the limits may move to the limit, but not farther. wanted is within the limits.
func applyCooldown(in api.DecisionInput, s api.DecisionState, t, wanted float64) (float64, string) {
	last := later(s.Raised, s.Lowered)
	if last.IsZero() {
		return wanted, ""
	}
	quiet, l, wait := s.Clock.Sub(last), in.Policy.Limits, in.Policy.Cooldown
	at := min(max(t, l.Min), l.Max)
	switch {
	case wanted > at && quiet < wait.Up:
		return at, fmt.Sprintf("changed %v ago, not raised for %v", quiet.Round(time.Second), wait.Up)
	case wanted < at && quiet < wait.Down:
		return at, fmt.Sprintf("changed %v ago, not lowered for %v", quiet.Round(time.Second), wait.Down)
	}
	return wanted, ""
}
