package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// settleAdvice returns what counts of an advisor, and its response to remember. An answer without a value ends the raise at
// once. After a failure the last value counts for HoldFor, and no value counts for longer. wall is Input.Now, and now the
// rules' monotonic clock.
func settleAdvice(a api.AdvisorInput, past memory, wall, now time.Time) (api.ResolvedAdvice, memory) {
	own := checked(a.Opinion)
	if own.Verdict == api.VerdictValue || own.Verdict == api.VerdictNoOpinion {
		past = memory{}
		past.learn(own, now.Add(-age(own, wall)))
	}
	past = past.since(now.Add(-a.HoldFor))
	r := api.ResolvedAdvice{Name: a.Name, Held: own.Verdict != api.VerdictValue && !past.empty()}
	r.Request, r.Why = boundRequest(a.MaxRequest, past.request)
	switch {
	case own.Verdict != api.VerdictValue:
		r.Why = strings.TrimSuffix(account(own)+"; "+r.Why, "; ")
	case past.empty():
		r.Why = "its last value is too old"
	}
	return r, past
}

// raised returns the larger of r and of each advice, kind by kind.
func raised(r resource.Request, advice []api.ResolvedAdvice) resource.Request {
	for _, a := range advice {
		r = merge(r, a.Request, api.CombineMax)
	}
	return r
}

// withAdvice returns the apps with their raised requests.
func withAdvice(apps []api.ResolvedRequest) []api.ResolvedRequest {
	apps = slices.Clone(apps)
	for i, r := range apps {
		apps[i].Request = raised(r.Request, r.Raise)
	}
	return apps
}

func hasAdvisors(apps []api.ResolvedRequest) bool {
	return slices.ContainsFunc(apps, func(r api.ResolvedRequest) bool { return r.Raise != nil })
}

// advisors raises the target to that of the request with advice. It never lowers it, so a request that consists of advice
// alone does not shrink a pool.
func advisors(wanted float64, advised api.Step, apps []api.ResolvedRequest) api.Step {
	step := api.Step{Rule: api.RuleAdvisors, Before: wanted, After: max(wanted, advised.After)}
	var raises, rest []string
	for _, r := range apps {
		for _, a := range r.Raise {
			if text := raise(r, a); text != "" {
				raises = append(raises, text)
			} else {
				rest = append(rest, a.Name+" "+restWhy(a))
			}
		}
	}
	switch {
	case raises == nil:
		step.Why = strings.Join(rest, "; ")
	case step.After > wanted:
		step.Why = fmt.Sprintf("%s: %s", strings.Join(raises, "; "), advised.Why)
	default:
		step.Why = fmt.Sprintf("%s: the target of %s is enough", strings.Join(raises, "; "), num(wanted))
	}
	return step
}

// raise returns "web~calendar raises web to 40 cpus", or an empty string if it does not raise the app's own request.
func raise(r api.ResolvedRequest, a api.ResolvedAdvice) string {
	var above resource.Request
	for _, k := range named(a.Request) {
		x, _ := a.Request.Get(k)
		if own, ok := r.Request.Get(k); !ok || x > own {
			above = above.With(k, x)
		}
	}
	if above.IsEmpty() {
		return ""
	}
	text := fmt.Sprintf("%s raises %s to %s", a.Name, r.App, amounts(above))
	if a.Held {
		text += " by its last value"
	}
	return text
}

// restWhy returns why an advisor raises nothing, as a predicate.
func restWhy(a api.ResolvedAdvice) string {
	if a.Request.IsEmpty() {
		return a.Why
	}
	return "requests no more than the app"
}
