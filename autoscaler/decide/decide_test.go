package decide_test

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/resource"
)

// asks returns a pool of six whose app web requests that much cpu.
func asks(t *testing.T, cpus float64) api.DecisionInput {
	in := usualPool(t)
	in.Apps = []api.AppInput{{
		Name: "web", Configured: true,
		Opinion: api.Opinion{Verdict: api.VerdictValue, Request: resource.Request{}.With(resource.CPUs, cpus)},
	}}
	return in
}

func TestHostileRequestHasFailed(t *testing.T) {
	for name, cpus := range map[string]float64{"NaN": math.NaN(), "-Inf": math.Inf(-1), "+Inf": math.Inf(1), "-5": -5} {
		t.Run(name, func(t *testing.T) {
			d := decide.Decide(asks(t, cpus))
			app := d.Apps[0]
			if app.Source != api.FromNone || !app.Fallback || !app.Request.IsEmpty() || !strings.Contains(app.Why, "cpus is "+name) {
				t.Errorf("web = %+v, want nobody, because cpus is %s", app, name)
			}
			if d.Target != 6 || d.State.Held != nil {
				t.Errorf("target %v, remembers %v; want 6 and nothing", d.Target, d.State.Held)
			}
		})
	}
}

// An absurd response counts as max_request, now and while it is held, and the reason reports it.
func TestMaxRequest(t *testing.T) {
	in := asks(t, 1e15)
	in.Apps[0].HoldFor = time.Hour
	in.Apps[0].MaxRequest = resource.Request{}.With(resource.CPUs, 40).With(resource.Mem, 1)
	want := resource.Request{}.With(resource.CPUs, 40)
	d := decide.Decide(in)
	if app := d.Apps[0]; app.Request != want || app.Source != api.FromSignal || !strings.Contains(app.Why, "above max_request, 40 cpus counts") {
		t.Errorf("web = %+v, want %v, and why", app, want)
	}
	in.State, in.Now = d.State, in.Now.Add(time.Minute)
	in.Apps[0].Opinion = api.Opinion{Verdict: api.VerdictFailed, Why: "gone"}
	in.Default = api.Opinion{Verdict: api.VerdictFailed}
	if app := decide.Decide(in).Apps[0]; app.Request != want || app.Source != api.FromHeld {
		t.Errorf("web = %+v, want %v of an earlier answer", app, want)
	}
}

func TestHostileDefaultIsNoFallback(t *testing.T) {
	in := asks(t, math.NaN())
	in.Default = api.Opinion{Verdict: api.VerdictValue, Request: resource.Request{}.With(resource.Mem, -1)}
	if app := decide.Decide(in).Apps[0]; app.Source != api.FromNone || !strings.Contains(app.Why, "mem is -1") {
		t.Errorf("web = %+v, want nobody, because mem is -1", app)
	}
}

func TestUnusableCapacityKeepsTheTarget(t *testing.T) {
	for name, c := range map[string]api.PoolCapacity{
		"joined NaN": {Target: 6, Joined: math.NaN()},
		"joined Inf": {Target: 6, Joined: math.Inf(1)},
		"target Inf": {Target: math.Inf(1), Joined: 6},
	} {
		t.Run(name, func(t *testing.T) {
			in := asks(t, 60)
			in.Capacity = c
			d := decide.Decide(in)
			if last := d.Steps[len(d.Steps)-1]; d.Target != c.Target || last.Rule != api.RuleInput {
				t.Errorf("target %v by %+v, want it kept", d.Target, last)
			}
		})
	}
}

func TestInvalidOperatorsNumberKeepsTheTarget(t *testing.T) {
	for name, change := range map[string]func(*api.DecisionInput){
		"the offset is +Inf":       func(in *api.DecisionInput) { in.Offset = math.Inf(1) },
		"the pinned target is NaN": func(in *api.DecisionInput) { in.Pinned = new(math.NaN()) },
	} {
		t.Run(name, func(t *testing.T) {
			in := asks(t, 60)
			in.State.Offset = 3
			change(&in)
			d := decide.Decide(in)
			if last := d.Steps[len(d.Steps)-1]; d.Target != 9 || last.Rule != api.RuleInput || !strings.Contains(last.Why, name) || d.State.Offset != 3 {
				t.Errorf("target %v by %+v, offset %v; want 9, of which 3 is offset", d.Target, last, d.State.Offset)
			}
		})
	}
}

func TestInvalidTotalIsUnknown(t *testing.T) {
	for name, total := range map[string]float64{"NaN": math.NaN(), "Inf": math.Inf(1), "negative": -6} {
		t.Run(name, func(t *testing.T) {
			in := asks(t, 1)
			in.Capacity.Totals[resource.CPUs] = total
			if d := decide.Decide(in); d.Target != 6 {
				t.Errorf("target %v, want 6: %+v", d.Target, d.Steps)
			}
		})
	}
}

func TestReasonsFitOneLine(t *testing.T) {
	in := asks(t, 4)
	in.Apps[0].Opinion.Why = "\x1b[2Jline\nbreak\xff" + strings.Repeat("é", 4000)
	in.NoScaleIn = "a\nb"
	for _, s := range decide.Decide(in).Steps {
		if strings.ContainsAny(s.Why, "\n\x1b") || !utf8.ValidString(s.Why) || len(s.Why) > 600 {
			t.Errorf("%s: %q", s.Rule, s.Why)
		}
	}
}

func TestPolicyValidate(t *testing.T) {
	good := usualPool(t).Policy
	tests := []struct {
		name   string
		change func(*api.DecisionPolicy)
		want   []string // parts of the error; empty: no error
	}{
		{"usual", func(*api.DecisionPolicy) {}, nil},
		{"no combine is sum", func(p *api.DecisionPolicy) { p.Combine = "" }, nil},
		{"setpoint 1", func(p *api.DecisionPolicy) { p.Setpoint = 1 }, nil},
		{"margins 0", func(p *api.DecisionPolicy) { p.MarginUp, p.MarginDown = 0, 0 }, nil},
		{"nothing to remove", func(p *api.DecisionPolicy) { p.Limits.MaxRemove = 0 }, nil},
		{"fixed size", func(p *api.DecisionPolicy) { p.Limits.Min = p.Limits.Max }, nil},
		{"setpoint 0", func(p *api.DecisionPolicy) { p.Setpoint = 0 }, []string{"setpoint"}},
		{"setpoint over 1", func(p *api.DecisionPolicy) { p.Setpoint = 70 }, []string{"setpoint is 70"}},
		{"setpoint NaN", func(p *api.DecisionPolicy) { p.Setpoint = math.NaN() }, []string{"setpoint"}},
		{"margins", func(p *api.DecisionPolicy) { p.MarginUp, p.MarginDown = -1, math.Inf(1) }, []string{"margin_up", "margin_down"}},
		{"excluded", func(p *api.DecisionPolicy) { p.Excluded = []resource.Kind{9} }, []string{"excluded"}},
		{"combine", func(p *api.DecisionPolicy) { p.Combine = "mean" }, []string{`"mean"`}},
		{"min over max", func(p *api.DecisionPolicy) { p.Limits.Min = 200 }, []string{"min_capacity 200 is above max_capacity 100"}},
		{"negative limits", func(p *api.DecisionPolicy) { p.Limits = api.TargetLimits{Min: -1, Max: -1, MaxAdd: -1, MaxRemove: -1} },
			[]string{"min_capacity", "max_capacity", "max_weight_to_add", "max_weight_to_remove"}},
		{"nothing to add", func(p *api.DecisionPolicy) { p.Limits.MaxAdd = 0 }, []string{"max_weight_to_add"}},
		{"all over time", func(p *api.DecisionPolicy) {
			p.Period, p.UnknownNeedMax, p.LossThreshold = time.Minute, time.Hour, 3
			p.Cooldown = api.Cooldown{Up: time.Minute, Down: time.Hour}
			p.Budgets = []api.ChangeBudget{{Direction: api.DirectionUp, Within: 1, Weight: 1}, {Direction: api.DirectionDown, Within: 1, Share: 1}}
		}, nil},
		{"no limits", func(p *api.DecisionPolicy) { p.Limits.Max, p.Limits.MaxAdd = api.Unlimited, api.Unlimited }, nil},
		{"less than no time", func(p *api.DecisionPolicy) {
			p.Period, p.UnknownNeedMax, p.LossThreshold = -1, -1, -1
			p.Cooldown = api.Cooldown{Up: -1, Down: -1}
		}, []string{"period is -1ns", "ignorance_max", "instance_loss_threshold", "cooldown up", "cooldown down"}},
		{"budgets", func(p *api.DecisionPolicy) {
			p.Budgets = []api.ChangeBudget{
				{Within: 1, Weight: 1}, {Direction: api.DirectionUp, Weight: 1}, {Direction: api.DirectionUp, Within: 1},
				{Direction: api.DirectionUp, Within: 1, Share: 10}, {Direction: api.DirectionUp, Within: 1, Weight: math.NaN()},
			}
		}, []string{`budgets[0]: direction is ""`, "budgets[1]: within", "budgets[2]: share is 0", "budgets[3]: share is 10", "budgets[4]: weight"}},
		{"NaN limits", func(p *api.DecisionPolicy) { p.Limits.Min, p.Limits.Max = math.NaN(), math.NaN() }, []string{"min_capacity", "max_capacity"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := good
			test.change(&p)
			err := decide.ValidatePolicy(p)
			if test.want == nil && err != nil {
				t.Fatalf("Validate() = %v, want nil", err)
			}
			for _, part := range test.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("Validate() = %v, want it to name %q", err, part)
				}
			}
		})
	}
}

// A change of the margin is made, whatever the order in which floating point numbers of the same requests were added.
func TestChangeOfTheMargin(t *testing.T) {
	for _, change := range []float64{-0.1, 0.1} {
		exact := 6 * (1 + change) * 0.7
		for ulps := -8.0; ulps <= 8; ulps++ {
			cpus := exact * (1 + ulps*0x1p-52)
			if d := decide.Decide(asks(t, cpus)); math.Abs(d.Target-6*(1+change)) > resource.Slack {
				t.Errorf("target %v for %v cpus, want %v: %+v", d.Target, cpus, 6*(1+change), d.Steps)
			}
		}
		if d := decide.Decide(asks(t, exact*(1-change*1e-6))); d.Target != 6 {
			t.Errorf("target %v below the margin, want 6", d.Target)
		}
	}
}
