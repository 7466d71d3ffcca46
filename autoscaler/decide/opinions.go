package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// resolve returns the request that counts for each app, without advice, sorted by name, and the values to store for
// the next tick. now is the rules' monotonic clock. standby is the default signal's opinion,
// checked.
func resolve(in api.DecisionInput, now time.Time, standby api.Opinion) ([]api.ResolvedRequest, []api.HeldRequest) {
	apps := slices.SortedFunc(slices.Values(in.Apps), func(a, b api.AppInput) int { return cmp.Compare(a.Name, b.Name) })
	lastResponses := recall(in.State.Held, now)
	resolved := make([]api.ResolvedRequest, len(apps))
	var held []api.HeldRequest
	for i, app := range apps {
		own := checked(app.Opinion)
		var past memory
		if app.Configured {
			past = lastResponses[app.Name].since(now.Add(-app.HoldFor))
			past.learn(own, now.Add(-age(own, in.Now)))
		}
		resolved[i] = settle(app, own, standby, past)
		held = append(held, past.held(app.Name)...)
		for _, a := range app.Raise {
			advice, past := settleAdvice(a, lastResponses[a.Name], in.Now, now)
			resolved[i].Raise = append(resolved[i].Raise, advice)
			held = append(held, past.held(a.Name)...)
		}
	}
	return resolved, held
}

// age returns how long ago the response was. Without a time the age is 0.
func age(o api.Opinion, now time.Time) time.Duration {
	if o.At.IsZero() {
		return 0
	}
	return max(0, now.Round(0).Sub(o.At.Round(0)))
}

// checked returns o with only valid requests. A hostile request has failed, and a request without
// any kind is no opinion.
func checked(o api.Opinion) api.Opinion {
	switch o.Verdict {
	case api.VerdictValue:
		if err := o.Request.Validate(); err != nil {
			o.Verdict, o.Why = api.VerdictFailed, err.Error()
		} else if o.Request.IsEmpty() {
			o.Verdict = api.VerdictNoOpinion
		}
	case api.VerdictNoOpinion, api.VerdictStale, api.VerdictFailed:
	case api.VerdictNotRequested:
		o.Verdict, o.Why = api.VerdictFailed, cmp.Or(o.Why, "received no request")
	default:
		o.Verdict, o.Why = api.VerdictFailed, fmt.Sprintf("returned unknown verdict %q", o.Verdict)
	}
	if o.Verdict != api.VerdictValue {
		o.Request = resource.Request{}
	}
	return o
}

// settle returns the request that counts for one app. own and standby are checked.
func settle(app api.AppInput, own, standby api.Opinion, past memory) api.ResolvedRequest {
	r := api.ResolvedRequest{App: app.Name}
	fallback := standby.Verdict == api.VerdictValue
	lost := own.Verdict == api.VerdictFailed || own.Verdict == api.VerdictStale
	switch {
	case !app.Configured && fallback:
		r.Source, r.Request, r.Why = api.FromDefault, standby.Request, "has no signal of its own"
	case !app.Configured:
		r.Source, r.Why = api.FromNone, "has no signal of its own, and the default signal "+account(standby)
	case lost && fallback:
		r.Source, r.Request, r.Why = api.FromDefault, standby.Request, "its signal "+account(own)
	case lost && !past.empty():
		r.Source, r.Why = api.FromHeld, "its signal "+account(own)+", and the default signal "+account(standby)
		r.Request, r.Held = past.fill(resource.Request{})
	case lost:
		r.Source, r.Why = api.FromNone, "its signal "+account(own)+", and the default signal "+account(standby)
	case own.Verdict == api.VerdictNoOpinion && past.empty():
		r.Source, r.Why = api.FromNone, "its signal "+account(own)
	case own.Verdict == api.VerdictNoOpinion:
		r.Source, r.Why = api.FromHeld, "its signal "+account(own)
		r.Request, r.Held = past.fill(resource.Request{})
	default:
		r.Source, r.Why = api.FromSignal, OneLine(own.Why)
		r.Request, r.Held = past.fill(own.Request)
	}
	// An app without an opinion now, but with one not long ago, still has a working signal. The
	// last response is held, and its need is known.
	r.Fallback = r.Source == api.FromNone || app.Configured && lost
	if r.Source == api.FromSignal || r.Source == api.FromHeld {
		var over string
		if r.Request, over = boundRequest(app.MaxRequest, r.Request); over != "" {
			r.Why = strings.TrimPrefix(r.Why+"; "+over, "; ")
		}
	}
	return r
}

// boundRequest returns r with at most that much of each kind, and the reduced kinds, or an empty string.
func boundRequest(limits, r resource.Request) (bounded resource.Request, over string) {
	var cut []string
	for _, k := range resource.Kinds() {
		x, ok := r.Get(k)
		if most, limited := limits.Get(k); ok && limited && x > most {
			r = r.With(k, most)
			cut = append(cut, fmt.Sprintf("%s is above max_request, %s counts", amount(k, x), amount(k, most)))
		}
	}
	return r, strings.Join(cut, ", ")
}

// account returns why a signal has no request.
func account(o api.Opinion) string {
	text := "failed"
	switch o.Verdict {
	case api.VerdictNoOpinion:
		text = "has no opinion"
	case api.VerdictStale:
		text = "is stale"
	}
	if o.Why == "" {
		return text
	}
	return text + " (" + OneLine(o.Why) + ")"
}

// opinionsWhy returns which signal counts for each app.
func opinionsWhy(apps []api.ResolvedRequest, standby api.Opinion) string {
	if len(apps) == 0 {
		if standby.Verdict != api.VerdictValue {
			return "no apps, and the default signal " + account(standby)
		}
		return "no apps: the default signal applies to the pool, " + amounts(standby.Request)
	}
	lines := make([]string, len(apps))
	for i, r := range apps {
		lines[i] = r.App + ": " + explainRequest(r)
	}
	return strings.Join(lines, "; ")
}

// explainRequest returns which source counts for r, and its request.
func explainRequest(r api.ResolvedRequest) string {
	switch r.Source {
	case api.FromSignal:
		text := amounts(r.Request)
		if r.Held != nil {
			text += ", of which " + list(kindNames(r.Held)) + " from an earlier answer"
		}
		if r.Why != "" {
			text += " (" + r.Why + ")"
		}
		return text
	case api.FromDefault:
		return r.Why + ": the default signal applies"
	case api.FromHeld:
		return r.Why + ": its last response counts, " + amounts(r.Request)
	default:
		return r.Why + ": its need is unknown"
	}
}
