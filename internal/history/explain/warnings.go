package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// Warnings returns the warnings about a tick for an operator, the most important first: the first lines of "weir status".
func Warnings(now time.Time, r api.TickRecord) (out []string) {
	if r.Failed != "" {
		out = append(out, tickFailed(now, r.At, r.Failed))
	}
	for _, p := range r.Problems {
		out = append(out, "last tick: "+p)
	}
	if h := r.ConfigurationHold; h != nil && h.Left {
		out = append(out, h.Why)
	}
	out = append(out, first(r.Drift, "groups that others changed", func(d api.Drift) string { return Drift(now, r.At, d) })...)
	out = append(out, first(plan.Held(r.State.Backoffs, r.State.Clock), "groups in backoff", func(q api.GroupBackoff) string { return groupBackoff(now, q) })...)
	out = append(out, first(plan.Held(r.State.Removals, r.State.Clock), "groups of which no node is terminated", func(q api.GroupBackoff) string { return removalBackoff(now, q) })...)
	out = append(out, neverJoin(r)...)
	if r.Cost != nil {
		out = append(out, r.Cost.Aged...)
	}
	out = append(out, oldMarkets(r)...)
	if r.Case != nil {
		out = append(out, r.Case.Rotation.Alarms()...)
	}
	failed := slices.DeleteFunc(slices.Clone(r.Actions), func(a api.Action) bool { return a.Error == "" })
	return append(out, first(failed, "failed requests", func(a api.Action) string { return failedAction(now, r.At, a) })...)
}

// first returns the lines of the first entries, and how many more there are.
func first[T any](all []T, what string, line func(T) string) (out []string) {
	for _, one := range all[:min(len(all), shownNodes)] {
		out = append(out, line(one))
	}
	if more := len(all) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("%d more %s", more, what))
	}
	return out
}
