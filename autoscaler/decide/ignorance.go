package decide

import (
	"fmt"
	"strings"
	"time"
)

// unheard returns the apps that a stand-in or nobody speaks for, and since when.
// Both lists are in order of app.
func unheard(apps []Resolved, before []Blind, now time.Time) []Blind {
	since := make(map[string]time.Time, len(before))
	for _, b := range before {
		if _, ok := since[b.App]; !ok { // of two for one app the first is the earlier
			since[b.App] = b.Since
		}
	}
	var blind []Blind
	for _, r := range apps {
		if !r.StandIn {
			continue
		}
		at, ok := since[r.App]
		if !ok {
			at = now
		}
		blind = append(blind, Blind{App: r.App, Since: at})
	}
	return blind
}

// spare keeps the target from shrinking below t while any app is served by a
// stand-in, or by nobody, and has not been for too long.
func spare(t, wanted float64, blind []Blind, now time.Time, longest time.Duration) Step {
	var barring, tired []string
	for _, b := range blind {
		if longest > 0 && now.Sub(b.Since) >= longest {
			tired = append(tired, b.App)
		} else {
			barring = append(barring, b.App)
		}
	}
	step := Step{RuleIgnorance, wanted, wanted, ""}
	who := strings.Join(barring, ", ")
	switch {
	case blind == nil:
		step.Why = "no app goes unheard"
	case barring == nil:
	case wanted < t:
		step.After = t
		step.Why = fmt.Sprintf("the need of %s is not known: %s is not lowered to %s, kept", who, num(t), num(wanted))
	default:
		step.Why = "the need of " + who + " is not known, but nothing shrinks"
	}
	if tired != nil {
		if step.Why != "" {
			step.Why += "; "
		}
		step.Why += fmt.Sprintf("the need of %s has not been known for ignorance_max, %v, and bars nothing more", strings.Join(tired, ", "), longest)
	}
	return step
}
