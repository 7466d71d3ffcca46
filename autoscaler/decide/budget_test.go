package decide

import (
	"testing"
	"time"
)

func TestBeside(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name    string
		maxAdd  float64
		budgets []Budget
		used    float64 // half an hour ago
		want    float64
	}{
		{"of one", 1, nil, 0, 1},
		{"of two", 2, nil, 0, 1},
		{"of five", 5, nil, 0, 3},
		{"of any number", Unlimited, nil, 0, Unlimited / 2},
		{"a budget is tighter", 10, []Budget{{Direction: Up, Within: time.Hour, Weight: 4}}, 0, 2},
		{"a part of it is used", 10, []Budget{{Direction: Up, Within: time.Hour, Weight: 4}}, 1, 1},
		{"the need has used more than half", 10, []Budget{{Direction: Up, Within: time.Hour, Weight: 4}}, 3, 0},
		{"a share", 10, []Budget{{Direction: Up, Within: time.Hour, Share: 0.2}}, 0, 2},
		{"of the other direction", 10, []Budget{{Direction: Down, Within: time.Hour, Weight: 1}}, 0, 5},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := Policy{Period: time.Minute, Limits: Limits{MaxAdd: test.maxAdd}, Budgets: test.budgets}
			s := State{Clock: now}
			if test.used > 0 {
				s.Changes = []Change{{At: now.Add(-30 * time.Minute), Up: test.used}}
			}
			if got := s.Beside(p, 20); got != test.want {
				t.Errorf("Beside = %v, want %v", got, test.want)
			}
		})
	}
}

func TestNoScaleInIsReported(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		in   Input
		want string
	}{
		{"nothing bars it", Input{}, ""},
		{"by the node-health policy", Input{NoScaleIn: "a node is silent", Barred: "the breaker is open"}, "the breaker is open"},
		{"by the caller", Input{NoScaleIn: "a node is silent"}, "a node is silent"},
		{"by a loss", Input{Lost: 2, Policy: Policy{LossLimit: true, LossThreshold: 1}}, "2 nodes lost, instance_loss_threshold is 1"},
		{"a loss that is none", Input{Lost: 1, Policy: Policy{LossLimit: true, LossThreshold: 1}}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Decide(test.in).NoScaleIn; got != test.want {
				t.Errorf("NoScaleIn = %q, want %q", got, test.want)
			}
		})
	}
}
