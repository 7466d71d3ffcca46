package decide

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// unknownNeeds returns the apps whose own signal has no usable response, and since when. Both lists are
// sorted by app.
func unknownNeeds(apps []api.ResolvedRequest, before []api.UnknownNeed, now time.Time) []api.UnknownNeed {
	since := make(map[string]time.Time, len(before))
	for _, b := range before {
		if _, ok := since[b.App]; !ok { // of two entries for one app the first is the earlier
			since[b.App] = b.Since
		}
	}
	var unknownNeed []api.UnknownNeed
	for _, r := range apps {
		if !r.Fallback {
			continue
		}
		at, ok := since[r.App]
		if !ok {
			at = now
		}
		unknownNeed = append(unknownNeed, api.UnknownNeed{App: r.App, Since: at})
	}
	return unknownNeed
}

// keepWhileUnknown keeps the target from shrinking below t while the need of any app is unknown, for at most
// longest for each app.
func keepWhileUnknown(t, wanted float64, unknownNeed []api.UnknownNeed, now time.Time, longest time.Duration) api.Step {
	var barring, tired []string
	for _, b := range unknownNeed {
		if longest > 0 && now.Sub(b.Since) >= longest {
			tired = append(tired, b.App)
		} else {
			barring = append(barring, b.App)
		}
	}
	step := api.Step{Rule: api.RuleUnknownNeed, Before: wanted, After: wanted, Why: ""}
	appNames := strings.Join(barring, ", ")
	switch {
	case unknownNeed == nil:
		step.Why = "the need of every app is known"
	case barring == nil:
	case wanted < t:
		step.After = t
		step.Why = fmt.Sprintf("the need of %s is unknown: %s is not lowered to %s, kept", appNames, num(t), num(wanted))
	default:
		step.Why = "the need of " + appNames + " is unknown, but nothing shrinks"
	}
	if tired != nil {
		if step.Why != "" {
			step.Why += "; "
		}
		step.Why += fmt.Sprintf("the need of %s is unknown for longer than ignorance_max, %v, and no longer blocks scale-in", strings.Join(tired, ", "), longest)
	}
	return step
}
