package history

import (
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

const maxListed = 40 // orders, apps, groups, actions, holds and problems of a summary

func requestSummary(r resource.Request) (out api.RequestSummary) {
	for _, k := range resource.Kinds() {
		if x, ok := r.Get(k); ok {
			out[k] = &x
		}
	}
	return out
}

// SummaryOf returns the summary of a tick. It does not change the record. Equal records have equal summaries.
func SummaryOf(r api.TickRecord) api.Summary {
	s := api.Summary{
		Schema: SummarySchema, Pool: r.Pool, At: r.At, Took: r.Took, Every: r.Every, DryRun: r.DryRun, Failed: decide.OneLine(r.Failed),
		Wanted: r.State.Wanted, Joined: r.Snapshot.Joined, Exists: r.Snapshot.Fulfilled, Actions: countActions(r.Actions), Leaving: len(r.Drains),
		Holds: holdsOf(r), Configuration: r.Configuration, Parts: r.Parts,
	}
	if r.Paused != nil {
		s.Paused = new(boundedNote(*r.Paused))
	}
	for _, p := range r.Problems {
		s.Problems = append(s.Problems, decide.OneLine(p))
	}
	if r.Cost != nil {
		s.Cost = new(r.Cost.AtMost(maxListed))
	}
	if hasDecision(r) {
		addDecision(&s, r)
	}
	addNodes(&s, r)
	s.Orders = firstOf(&s, s.Orders)
	s.Apps = firstOf(&s, s.Apps)
	s.Groups = firstOf(&s, s.Groups)
	s.Actions = firstOf(&s, s.Actions)
	s.Holds = firstOf(&s, s.Holds)
	s.Parts = firstOf(&s, s.Parts)
	s.Problems = firstOf(&s, s.Problems)
	return s
}

// hasDecision reports whether a record has a decision.
func hasDecision(r api.TickRecord) bool { return r.Case != nil && r.Result != nil && r.Detail != nil }

// boundedNote returns the note with bounded texts.
func boundedNote(n api.Note) api.Note {
	n.By, n.Why = decide.OneLine(n.By), decide.OneLine(n.Why)
	return n
}

// addDecision adds the decision of a record.
func addDecision(s *api.Summary, r api.TickRecord) {
	in := r.Case.Input
	s.Before, s.Target = new(in.Capacity.Target+r.Case.State.Offset), new(r.Result.Target)
	s.Offset, s.Pinned = in.Offset, in.Pinned
	for _, o := range r.Orders {
		s.Orders = append(s.Orders, api.Order{Kind: o.Kind, Subject: decide.OneLine(o.Subject), Note: boundedNote(o.Note)})
	}
	s.Limits = &api.LimitsSummary{Min: in.Policy.Limits.Min}
	if in.Policy.Limits.Max < api.Unlimited {
		s.Limits.Max = new(in.Policy.Limits.Max)
	}
	for _, step := range r.Result.Steps {
		if step.Rule == api.RuleLimits && s.Unlimited == nil || step.Rule == api.RulePinned && in.Pinned != nil {
			s.Unlimited = new(step.Before)
		}
	}
	step := decidingStep(r.Result.Steps)
	s.Rule, s.Why, s.Request = step.Rule, decide.OneLine(step.Why), new(requestSummary(r.Detail.Request))
	s.Offered, s.Setpoint = new(requestSummary(resource.Of(in.Capacity.Totals))), in.Policy.Setpoint
	s.Disruption, s.DisruptionLimit = r.Case.Disruption, r.Case.DisruptionLimit
	s.Rotation = rotationSummary(r.Case.Rotation)
	addApps(s, r)
	exists, held := map[string]float64{}, plan.InBackoff(r.State.Backoffs, r.State.Clock)
	for _, g := range r.Snapshot.Groups {
		exists[g.ID] = g.Fulfilled
	}
	for _, share := range r.Detail.Distribution.Shares {
		g := api.GroupSummary{ID: share.Group, Target: share.After, Exists: exists[share.Group]}
		_, g.Backoff = held[share.Group]
		if share.Before != share.After {
			g.Before, g.FromZero = share.Before, share.Before == 0
		}
		s.Groups = append(s.Groups, g)
	}
	s.Boot = bootTimes(r)
}

// bootTimes returns the boot times of the groups that miss machines; nil: none was measured, or none misses any.
func bootTimes(r api.TickRecord) *api.BootTimes {
	times := api.Boots{Times: map[string][]float64{}}
	for _, share := range r.Detail.Distribution.Shares {
		boots := r.State.Groups[share.Group].Boots
		if share.After > share.Before || boots.Starting() > 0 {
			for _, list := range boots.Times {
				times.Times[share.Group] = append(times.Times[share.Group], list...)
			}
		}
	}
	p50, ok := times.Quantile("", 0.5)
	p95, _ := times.Quantile("", 0.95)
	if !ok {
		return nil
	}
	return &api.BootTimes{P50: p50, P95: p95}
}

// maxRotations bounds the rules in the text of a rotation, and its alarms.
const maxRotations = 3

func rotationSummary(r *api.Rotation) *api.RotationSummary {
	if r == nil {
		return nil
	}
	s := &api.RotationSummary{Left: r.Left, Replaced: r.Replaced, Trials: r.Trials, Closes: r.Closes}
	for _, line := range r.Alarms() {
		s.Alarms = append(s.Alarms, decide.OneLine(line))
	}
	s.Alarms = s.Alarms[:min(len(s.Alarms), maxRotations)]
	var parts []string
	for _, rule := range r.Rules {
		if rule.Left > 0 && rule.Refused == "" && len(parts) < maxRotations {
			parts = append(parts, decide.OneLine(r.Text(rule)))
		}
	}
	if r.Waits != "" {
		parts = append(parts, decide.OneLine(r.Waits))
	}
	s.Text = strings.Join(parts, "; ")
	return s
}

// addApps adds the request and the signal of each app.
func addApps(s *api.Summary, r api.TickRecord) {
	opinions, shadows := map[string]api.Opinion{}, map[string]*api.ShadowSummary{}
	for _, app := range r.Case.Input.Apps {
		opinions[app.Name] = app.Opinion
		for _, a := range app.Raise {
			opinions[a.Name] = a.Opinion
		}
	}
	for _, c := range r.Shadows {
		shadows[c.App] = &api.ShadowSummary{
			Version: decide.OneLine(c.Version), Verdict: shortVerdict(c.Verdict), Request: requestSummary(c.Request),
			Compared: c.Compared, Difference: decide.OneLine(c.Difference),
		}
	}
	summary := func(name string, source api.RequestSource, request resource.Request) api.AppSummaryTick {
		if source == api.FromSignal {
			source = ""
		}
		own := opinions[name]
		return api.AppSummaryTick{
			Name: name, Source: source, Verdict: shortVerdict(own.Verdict), Request: requestSummary(request),
			Version: decide.OneLine(own.Version), Yanked: decide.OneLine(own.Yanked), Latency: own.Latency.Round(time.Microsecond), Shadow: shadows[name],
		}
	}
	for _, app := range r.Detail.Apps {
		one := summary(app.App, app.Source, app.Request)
		for _, a := range app.Raise {
			source := api.FromSignal
			if a.Held {
				source = api.FromHeld
			}
			one.Raise = append(one.Raise, summary(a.Name, source, a.Request))
		}
		one.Raise = firstOf(s, one.Raise)
		s.Apps = append(s.Apps, one)
	}
}

// shortVerdict returns the verdict as a summary states it.
func shortVerdict(v api.Verdict) api.Verdict {
	switch v {
	case api.VerdictValue:
		return ""
	case api.VerdictNotRequested:
		return api.SummaryNotRequested
	}
	return v
}

// decidingStep returns the step that set the target: the last one that changed it, or else the one of the rule "target".
func decidingStep(steps []api.Step) (step api.Step) {
	for _, s := range slices.Backward(steps) {
		if s.After != s.Before {
			return s
		}
		if s.Rule == api.RuleTarget || s.Rule == api.RuleInput {
			step = s
		}
	}
	return step
}

// countActions counts the actions by kind and group, in their order.
func countActions(actions []api.Action) (out []api.ActionSummary) {
	for _, a := range actions {
		i := slices.IndexFunc(out, func(o api.ActionSummary) bool { return o.Op == a.Op && o.Group == a.Group })
		if i < 0 {
			i, out = len(out), append(out, api.ActionSummary{Op: a.Op, Group: a.Group})
		}
		one := &out[i]
		one.Calls++
		if a.Op == api.OpSetTarget {
			one.Target = a.Target
		}
		if a.Error != "" {
			if one.Failed++; one.Error == "" {
				one.Error = decide.OneLine(a.Error)
			}
		}
	}
	return out
}

// firstOf returns the first entries of a list, and counts the others.
func firstOf[T any](s *api.Summary, list []T) []T {
	if more := len(list) - maxListed; more > 0 {
		s.Omitted += more
		return list[:maxListed:maxListed]
	}
	return list
}
