package decide_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/resource"
)

// advised returns in with up to three advisors for each app, some with a remembered value, and the same input without them.
func advised(t *rapid.T, in api.DecisionInput, amounts *rapid.Generator[float64]) (with, without api.DecisionInput) {
	with = in
	with.Apps, with.State.Held = slices.Clone(in.Apps), slices.Clone(in.State.Held)
	for i := range with.Apps {
		for _, name := range []string{"x", "y", "z"}[:rapid.IntRange(0, 3).Draw(t, "advisors")] {
			a := api.AdvisorInput{
				Name: with.Apps[i].Name + "~" + name, Opinion: opinion(amounts).Draw(t, "advice"),
				HoldFor: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "hold_for")), MaxRequest: request(amounts).Draw(t, "max_request"),
			}
			with.Apps[i].Raise = append(with.Apps[i].Raise, a)
			if rapid.Bool().Draw(t, "remembered") {
				with.State.Held = append(with.State.Held, api.HeldRequest{App: a.Name, Kind: resource.CPUs, Value: amounts.Draw(t, "held"),
					At: noon.Add(-time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "held_age")))})
			}
		}
	}
	return with, in
}

// TestAdvisorsNeverLower: with any advisors, in any state, the target before the operators' orders and the limits is never
// lower than without, and neither is the final one. Which needs are unknown stays the same.
func TestAdvisorsNeverLower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		with, without := advised(t, legal().Draw(t, "in"), plain())
		a, b := decide.Decide(with), decide.Decide(without)
		before := func(d decide.Decision) float64 {
			i := slices.IndexFunc(d.Steps, func(s api.Step) bool { return s.Rule == api.RulePinned || s.Rule == api.RuleInput })
			return d.Steps[i].Before
		}
		if before(a) < before(b) {
			t.Fatalf("target %v with advisors, %v without:\n%+v", before(a), before(b), a.Steps)
		}
		if a.Target < b.Target-noise*max(1, b.Target) {
			t.Fatalf("target %v with advisors, %v without:\n%+v\n%+v", a.Target, b.Target, a.Steps, b.Steps)
		}
		if diff := cmp.Diff(b.State.UnknownNeed, a.State.UnknownNeed); diff != "" {
			t.Fatalf("unknown needs (-without +with):\n%s", diff)
		}
	})
}

// TestFailedAdvisorsChangeNothingAfterTheirHold: an advisor that never answered, failed, is stale, has no opinion, or whose
// last value is older than its hold, has no effect.
func TestFailedAdvisorsChangeNothingAfterTheirHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		with, without := advised(t, legal().Draw(t, "in"), plain())
		now := decide.ClockAt(with.State, with.Now)
		for i := range with.Apps {
			for j := range with.Apps[i].Raise {
				a := &with.Apps[i].Raise[j]
				switch a.Opinion.Verdict {
				case api.VerdictValue: // late: no newer answer arrived
					a.HoldFor = min(a.HoldFor, max(0, with.Now.Sub(a.Opinion.At)-1))
					a.Opinion.At = a.Opinion.At.Add(-time.Nanosecond)
				case api.VerdictNoOpinion:
				default:
					with.State.Held = slices.DeleteFunc(with.State.Held, func(h api.HeldRequest) bool {
						return h.App == a.Name && !h.At.Before(now.Add(-a.HoldFor))
					})
				}
			}
		}
		a, b := decide.Decide(with), decide.Decide(without)
		if a.Target != b.Target || a.Request != b.Request {
			t.Fatalf("target %v, request %v; without advisors %v, %v\n%+v", a.Target, a.Request, b.Target, b.Request, a.Steps)
		}
	})
}

// TestAdviceIsTheMaximum: of several advisors and the app's own request the largest counts, kind by kind, in any order.
func TestAdviceIsTheMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := legal().Draw(t, "in")
		in.Apps = []api.AppInput{{Name: "web", Configured: true, Opinion: api.Opinion{Verdict: api.VerdictValue, Request: cpus(3), At: noon}}}
		want := 3.0
		for _, name := range []string{"x", "y", "z"} {
			x := float64(rapid.IntRange(0, 9).Draw(t, name))
			most := float64(rapid.IntRange(1, 9).Draw(t, "max_request"))
			want = max(want, min(x, most))
			in.Apps[0].Raise = append(in.Apps[0].Raise, api.AdvisorInput{Name: "web~" + name, HoldFor: time.Minute, MaxRequest: cpus(most),
				Opinion: api.Opinion{Verdict: api.VerdictValue, Request: cpus(x), At: noon}})
		}
		in.Default.Verdict, in.Places = api.VerdictNoOpinion, nil
		first := decide.Decide(in)
		slices.Reverse(in.Apps[0].Raise)
		if got := decide.Decide(in); got.Target != first.Target || got.Request != cpus(want) || got.Apps[0].Request != cpus(want) {
			t.Fatalf("request %v, of the app %v, targets %v and %v: want %v cpus, one target", got.Request, got.Apps[0].Request, first.Target, got.Target, want)
		}
	})
}

func cpus(x float64) resource.Request { return resource.Request{}.With(resource.CPUs, x) }

// TestAdvisorSteps shows what the steps say.
func TestAdvisorSteps(t *testing.T) {
	value := func(x float64) api.Opinion {
		return api.Opinion{Verdict: api.VerdictValue, Request: cpus(x), At: noon}
	}
	failed := api.Opinion{Verdict: api.VerdictFailed, Why: "no answer", At: noon}
	advice := func(name string, o api.Opinion) api.AdvisorInput {
		return api.AdvisorInput{Name: "web~" + name, Opinion: o, HoldFor: time.Minute}
	}
	held := func(age time.Duration) []api.HeldRequest {
		return []api.HeldRequest{{App: "web~calendar", Kind: resource.CPUs, Value: 9, At: noon.Add(-age)}}
	}
	tests := map[string]struct {
		own    api.Opinion
		raise  []api.AdvisorInput
		held   []api.HeldRequest
		target float64
		want   string // in the step of the advisors
	}{
		"raises":          {value(3), []api.AdvisorInput{advice("calendar", value(9))}, nil, 12.86, "web~calendar raises web to 9 cpus: web: 9 of 6 cpus needed"},
		"two":             {value(3), []api.AdvisorInput{advice("calendar", value(5)), advice("forecast", value(9))}, nil, 12.86, "web~calendar raises web to 5 cpus; web~forecast raises web to 9 cpus"},
		"requests less":   {value(3), []api.AdvisorInput{advice("calendar", value(2))}, nil, 4.29, "web~calendar requests no more than the app"},
		"failed":          {value(3), []api.AdvisorInput{advice("calendar", failed)}, nil, 4.29, "web~calendar failed (no answer)"},
		"held":            {value(3), []api.AdvisorInput{advice("calendar", failed)}, held(time.Minute), 12.86, "web~calendar raises web to 9 cpus by its last value"},
		"held too long":   {value(3), []api.AdvisorInput{advice("calendar", failed)}, held(time.Minute + 1), 4.29, "web~calendar failed (no answer)"},
		"no opinion ends": {value(3), []api.AdvisorInput{advice("calendar", api.Opinion{Verdict: api.VerdictNoOpinion, Why: "next is office hours"})}, held(0), 4.29, "web~calendar has no opinion (next is office hours)"},
		"of an unknown need, below the target": {failed, []api.AdvisorInput{advice("calendar", value(2))}, nil, 6,
			"web~calendar raises web to 2 cpus: the target of 6 is enough"},
		"of an unknown need, above the target": {failed, []api.AdvisorInput{advice("calendar", value(9))}, nil, 12.86, "web~calendar raises web to 9 cpus"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := api.DecisionInput{
				Now: noon, Capacity: api.PoolCapacity{Target: 6, Joined: 6, Totals: resource.Vector{resource.CPUs: 6}},
				Default: failed, Policy: api.DecisionPolicy{Setpoint: 0.7, Limits: api.TargetLimits{Max: 100, MaxAdd: 100, MaxRemove: 100}},
				Apps:  []api.AppInput{{Name: "web", Configured: true, Opinion: tt.own, Raise: tt.raise}},
				State: api.DecisionState{Held: tt.held},
			}
			d := decide.Decide(in)
			i := slices.IndexFunc(d.Steps, func(s api.Step) bool { return s.Rule == api.RuleAdvisors })
			if x := d.Target - tt.target; x > 0.01 || x < -0.01 || i < 0 || !strings.Contains(d.Steps[i].Why, tt.want) {
				t.Errorf("target %v, want %v; step %+v, want %q", d.Target, tt.target, d.Steps[max(i, 0)], tt.want)
			}
		})
	}
}
