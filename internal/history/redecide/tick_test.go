package redecide

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/resource"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// tick returns the record of a tick of ten nodes whose app needs that many CPUs.
func tick(at time.Time, need float64) api.TickRecord {
	request := resource.Request{}.With(resource.CPUs, need)
	opinion := api.Opinion{Signal: "shop/rps", Verdict: api.VerdictValue, Request: request, At: at}
	c := api.Case{
		Input: api.DecisionInput{
			Now: at, Capacity: api.PoolCapacity{Target: 10, Joined: 10, Totals: resource.Vector{resource.CPUs: 10}},
			Apps: []api.AppInput{{Name: "web", Configured: true, Opinion: opinion}}, Default: opinion,
			Policy: api.DecisionPolicy{Setpoint: 0.5, MarginUp: 0.1, MarginDown: 0.1, Period: time.Minute,
				Limits: api.TargetLimits{Min: 1, Max: 30, MaxAdd: 100, MaxRemove: 100}},
		},
		Groups: []api.GroupTarget{{ID: "blue", Target: 10, Max: 100}}, Limits: api.PruneLimits{MaxWeight: 100, MaxTasks: 100},
		State: api.PoolState{Wanted: new(10.0)},
	}
	o := resolve.Resolve(c)
	result := o.Result()
	r := api.TickRecord{
		Schema: resolve.Schema, At: at, Every: time.Second, Cluster: "here", Pool: "web", Case: &c, Result: &result, State: o.State,
		Detail: &api.TickDetail{Request: o.Decision.Request, Apps: o.Decision.Apps, Distribution: o.Distribution},
	}
	if result.Target != 10 {
		r.Actions = []api.Action{{Op: api.OpSetTarget, Group: "blue", Target: int(result.Target)}}
	}
	return r
}

// of visits records, and one that cannot be read.
func of(records ...api.TickRecord) func(visit func(api.TickRecord) error) (int, error) {
	return func(visit func(api.TickRecord) error) (int, error) {
		for _, r := range records {
			if err := visit(r); err != nil {
				return 0, err
			}
		}
		return 1, nil
	}
}

// One tick is decided again with all its steps; its record stays, and a tick without a decision cannot be repeated.
func TestTick(t *testing.T) {
	r := tick(noon, 14)
	o, err := ParseOverride("scaling_limits.max_capacity=24")
	if err != nil {
		t.Fatal(err)
	}
	got, result, err := Tick(r, []Override{o})
	if err != nil || got.Would != 24 || got.Target != 28 || result.Target != 24 || len(result.Steps) != len(r.Result.Steps) || r.Case.Input.Policy.Limits.Max != 30 {
		t.Errorf("Tick = %+v, %+v, %v, want a target of 24 in place of 28", got, result, err)
	}
	r.Paused = &api.Note{By: "ann"}
	if _, _, err := Tick(r, nil); !errors.Is(err, errNoDecision) {
		t.Errorf("Tick of a paused tick = %v, want ErrNoDecision", err)
	}
}

// Recorded ticks are decided again with another policy; the ticks that would differ are listed, with the difference.
func TestCompare(t *testing.T) {
	paused := api.TickRecord{Schema: resolve.Schema, At: noon, Paused: &api.Note{By: "ann"}}
	records := of(tick(noon, 5), tick(noon, 10), tick(noon, 14), paused) // targets 10, 20, 28
	for _, test := range []struct {
		set, want string
	}{
		{"scaling_limits.max_capacity=24", "3 ticks, 2 skipped, [28 -> 24 limits]"},
		{"scaling_limits.max_capacity=inf", "3 ticks, 2 skipped, []"},
		{"scaling_limits.min_capacity=15", "3 ticks, 2 skipped, [10 -> 15 limits]"},
		{"autoscaling.setpoint=0.4", "3 ticks, 2 skipped, [10 -> 12.5 target 20 -> 25 target 28 -> 30 limits]"},
		{"scaling_limits.max_weight_to_add=4", "3 ticks, 2 skipped, [20 -> 14 limits 28 -> 14 limits]"},
		{"autoscaling.cooldown.up=1h", "3 ticks, 2 skipped, []"}, // no change before is recorded
		{"autoscaling.budgets=[{direction: up, within: 1h, at_most: 3}]", "3 ticks, 2 skipped, [20 -> 13 limits 28 -> 13 limits]"},
	} {
		o, err := ParseOverride(test.set)
		if err != nil {
			t.Errorf("ParseOverride(%s) = %v", test.set, err)
			continue
		}
		var list []string
		sum, err := Compare(records, []Override{o}, func(one api.Redecided) error {
			list = append(list, fmt.Sprintf("%v -> %v %s", one.Target, one.Would, one.Rule))
			return nil
		})
		if got := fmt.Sprintf("%d ticks, %d skipped, %v", sum.Ticks, sum.Skipped, list); got != test.want || err != nil || sum.Otherwise != len(list) {
			t.Errorf("%s: %s, %v, want %s", test.set, got, err, test.want)
		}
	}
}

// A tick whose policy the new values contradict is counted, and others are decided. If there is no other, it is an error.
func TestCompareWithContradictions(t *testing.T) {
	high := tick(noon, 10)
	high.Case.Input.Policy.Limits.Min = 15
	o, err := ParseOverride("scaling_limits.max_capacity=12")
	if err != nil {
		t.Fatal(err)
	}
	ignore := func(api.Redecided) error { return nil }
	if _, err := Compare(of(high), []Override{o}, ignore); err == nil || !strings.Contains(err.Error(), "min_capacity 15 is above max_capacity 12") {
		t.Errorf("without another tick: %v", err)
	}
	sum, err := Compare(of(high, tick(noon, 10)), []Override{o}, ignore)
	if err != nil || sum.Ticks != 1 || sum.Invalid != 1 || sum.Otherwise != 1 || !strings.Contains(sum.Problem, "min_capacity 15") {
		t.Errorf("Compare = %+v, %v, want one tick decided and one counted", sum, err)
	}
}

// Each key can be set, and a wrong key or value is refused with the right ones.
func TestParseOverride(t *testing.T) {
	values := map[string]string{
		"autoscaling.combine": "max", "autoscaling.excluded_resources": "[disk]", "autoscaling.cooldown.up": "5m", "autoscaling.cooldown.down": "5m",
		"autoscaling.budgets": "[{direction: down, within: 1h, at_most: 10%}]", "autoscaling.ignorance_max": "1h",
		"autoscaling.prevent_scale_down_after_capacity_loss": "true", "autoscaling.instance_loss_threshold": "2",
		"autoscaling.setpoint": "0.6", "autoscaling.target_capacity_margin": "0.2", "autoscaling.margin_up": "0.2", "autoscaling.margin_down": "0.2",
		"autoscaling.distribution": "cheapest", "autoscaling.max_share": "0.5", "autoscaling.interrupted_work": "8h",
	}
	for _, key := range OverrideKeys() {
		value := values[key]
		if value == "" {
			value = "40"
		}
		if _, err := ParseOverride(key + "=" + value); err != nil {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
	for text, want := range map[string]string{
		"": "want KEY=VALUE", "autoscaling.setpoint": "want KEY=VALUE", "autoscaling.setpiont=1": "autoscaling.setpoint",
		"autoscaling.setpoint=3": "setpoint", "scaling_limits.max_capacity=many": "max_capacity", "autoscaling.setpoint=0.5}\nx: {": "one line",
		"scaling_limits.max_weight_to_add=0": "max_weight_to_add",
	} {
		if _, err := ParseOverride(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseOverride(%q) = %v, want %q", text, err, want)
		}
	}
}

// A record of another schema, or of a tick without a decision, is refused in one line that says why.
func TestRefusedRecords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"schema":2,"every_ns":1,"case":{}}`:                 "read a record of the ledger of schema 2: this weir reads schema 1; use the newer weir",
		`{"schema":0,"every_ns":1,"case":{}}`:                 "the record has schema 0, and this weir decides records of schema 1; weir explain shows it",
		`{"schema":1,"every_seconds":1,"failed":"no answer"}`: "the record is of a tick without a decision",
	} {
		if _, err := new(lineReader).answerLine([]byte(line)); err == nil || err.Error() != want {
			t.Errorf("answer to %s = %v, want %s", line, err, want)
		}
	}
}
