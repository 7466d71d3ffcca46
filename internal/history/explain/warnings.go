package explain

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// Warnings returns what an operator must know of a tick, the most important first: the first lines of "weir status".
func Warnings(now time.Time, r api.TickRecord) (out []string) {
	if r.Failed != "" {
		out = append(out, TickFailed(now, r.At, r.Failed))
	}
	for _, p := range r.Problems {
		out = append(out, "last tick: "+p)
	}
	if h := r.ConfigurationHold; h != nil && h.Left {
		out = append(out, h.Why)
	}
	for _, d := range r.Drift {
		out = append(out, Drift(now, r.At, d))
	}
	for _, q := range plan.Held(r.State.Backoffs, r.State.Clock) {
		out = append(out, Group(now, q))
	}
	for _, q := range plan.Held(r.State.Removals, r.State.Clock) {
		out = append(out, Removals(now, q))
	}
	out = append(out, NeverJoin(r)...)
	if r.Cost != nil {
		out = append(out, r.Cost.Aged...)
	}
	out = append(out, OldMarkets(r)...)
	if r.Case != nil {
		out = append(out, r.Case.Rotation.Alarms()...)
	}
	for _, action := range r.Actions {
		if action.Error != "" {
			out = append(out, Action(now, r.At, action))
		}
	}
	return out
}
