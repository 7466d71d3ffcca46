package decide

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestBeside(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name    string
		maxAdd  float64
		budgets []api.ChangeBudget
		used    float64 // half an hour ago
		want    float64
	}{
		{"of one", 1, nil, 0, 1},
		{"of two", 2, nil, 0, 1},
		{"of five", 5, nil, 0, 3},
		{"of any number", api.Unlimited, nil, 0, api.Unlimited / 2},
		{"a budget is tighter", 10, []api.ChangeBudget{{Direction: api.DirectionUp, Within: time.Hour, Weight: 4}}, 0, 2},
		{"a part of it is used", 10, []api.ChangeBudget{{Direction: api.DirectionUp, Within: time.Hour, Weight: 4}}, 1, 1},
		{"the need has used more than half", 10, []api.ChangeBudget{{Direction: api.DirectionUp, Within: time.Hour, Weight: 4}}, 3, 0},
		{"a share", 10, []api.ChangeBudget{{Direction: api.DirectionUp, Within: time.Hour, Share: 0.2}}, 0, 2},
		{"of the other direction", 10, []api.ChangeBudget{{Direction: api.DirectionDown, Within: time.Hour, Weight: 1}}, 0, 5},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := api.DecisionPolicy{Period: time.Minute, Limits: api.TargetLimits{MaxAdd: test.maxAdd}, Budgets: test.budgets}
			s := api.DecisionState{Clock: now}
			if test.used > 0 {
				s.Changes = []api.TargetChange{{At: now.Add(-30 * time.Minute), Up: test.used}}
			}
			if got := Beside(s, p, 20); got != test.want {
				t.Errorf("Beside = %v, want %v", got, test.want)
			}
		})
	}
}

func TestNoScaleInIsReported(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		in   api.DecisionInput
		want string
	}{
		{"nothing bars it", api.DecisionInput{}, ""},
		{"by the node-health policy", api.DecisionInput{NoScaleIn: "a node is silent", Barred: "the breaker is open"}, "the breaker is open"},
		{"by the caller", api.DecisionInput{NoScaleIn: "a node is silent"}, "a node is silent"},
		{"by a loss", api.DecisionInput{Lost: 2, Policy: api.DecisionPolicy{LossLimit: true, LossThreshold: 1}}, "2 nodes lost, instance_loss_threshold is 1"},
		{"a loss that is none", api.DecisionInput{Lost: 1, Policy: api.DecisionPolicy{LossLimit: true, LossThreshold: 1}}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Decide(test.in).NoScaleIn; got != test.want {
				t.Errorf("NoScaleIn = %q, want %q", got, test.want)
			}
		})
	}
}
